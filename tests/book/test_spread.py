"""How time falls with workers: what is kept of the questions, and that real workers answer them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from dask_processes import installed
from small import ROOT

from fairfl_book import spread
from fairfl_book.experiments import clusters


@pytest.fixture(autouse=True)
def extra() -> Iterator[None]:
    with installed():
        yield


def test_a_row_has_the_least_and_the_middle_of_the_questions_for_a_whole_round() -> None:
    size = spread.Size("LeNet", spread.lenet, 150, 50, 1)
    taken = spread.Taken([4.0, 2.0, 3.0], [0.5, 0.1, 0.3], [[1.0, 2.0], [3.0, 1.0], [1.5, 1.0]])
    found = spread.row(size, 2, taken, 3)
    assert (found["seconds"], found["seconds, median"]) == (6, 9)
    assert (found["busiest worker"], found["server"]) == (6, pytest.approx(0.9))


@pytest.mark.slow
def test_workers_are_asked_in_portions_and_answer_alike() -> None:
    with clusters.dask(workers=1) as one, clusters.dask(workers=2) as two:
        size = spread.Size("table", spread.table, 6, 4, 2)
        found = [*spread.measured(size, {1: one.client, 2: two.client})]
    assert [row["workers"] for row in found] == [1, 2]
    assert all(row["questions"] == 2 and row["asked"] == 4 and row["seconds"] <= row["seconds, median"] for row in found)
    models = 6 * 4 * spread.table(6).model.size / 1e6
    assert all(models < row["MB back"] < models + 0.001 for row in found)
    assert all(row["busiest worker"] > 0 for row in found)


def test_the_stored_sizes_are_those_that_are_measured() -> None:
    kept = json.loads((ROOT / "results" / "spread.json").read_text())["rows"]
    assert [(row["workload"], row["clients"], row["workers"]) for row in kept] == [
        (size.name, size.clients, workers) for size in spread.SIZES for workers in spread.WORKERS
    ]
