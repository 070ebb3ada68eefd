"""The federations of EFFL: its datasets, dealt to its clients, with the settings that the paper leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from fairfl_lite import data
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Partition, Table
from fairfl_lite.data.shards import Examples, Shards, Standard
from fairfl_lite.engines import Engine
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation
from fairfl_lite.models import Dense
from fairfl_lite.streams import stream

CLIENTS = {"synthetic": "client", "adult": "degree", "eicu": "hospital", "eicu-stand-in": "hospital",
           "acspubliccoverage": "state", "acsincome": "state"}  # fmt: skip
"""The column whose values are a dataset's clients. acsincome is the stand-in of acspubliccoverage where that is not at hand."""

OPTIONS: dict[str, dict[str, Any]] = {
    "synthetic": {"scaling": "none"},
    "adult": {"rows": "all", "features": "categorical", "encoding": "onehot", "sensitive": "race", "scaling": "none"},
    "eicu": {"encoding": "onehot"},
}
"""How a dataset is loaded unless a caller says otherwise: 0/1 columns and the draws of B.1 as they are, all else standardised."""

PUBLISHED: dict[str, float | str] = {"synthetic": "part", "adult": "file"}
"""The column that says which rows are for test. Other datasets have none: a fifth of the rows, drawn by seed."""
TEST = 0.2

LOCAL = ClientTraining("sgd", 0.5, 0.0, 1, 0)
"""One step on all of a client's rows in each round. The paper prints no rate: 0.5 for plain gradients of logistic regression."""


def table(dataset: str, **options: Any) -> Table:
    """A dataset of the paper as EFFL uses it; options as for `data.load`. The last few are kept."""
    choose(dataset, CLIENTS, "dataset of EFFL named")
    asked = {**OPTIONS.get(dataset, {}), **options}
    return _load(dataset, **{name: tuple(value) if isinstance(value, list) else value for name, value in asked.items()})


@lru_cache(maxsize=4)
def _load(dataset: str, **options: Any) -> Table:
    return data.load(dataset, **options)


def federation(dataset: str, seeds: Sequence[int], *, split: Literal["printed", "random"] = "printed", validation: float = 0.0,
               most: int = 0, local: ClientTraining = LOCAL, engine: str | Engine = "fused",
               diverged: Literal["refuse", "keep"] = "refuse", **options: Any) -> Federation:  # fmt: skip
    """Logistic regression at the clients of one of EFFL's datasets, with parts "train", "validation" and "test".

    dataset : "synthetic", "adult", "eicu-stand-in", "eicu", "acspubliccoverage" or "acsincome", its stand-in.
    split : "printed" takes Adult's test rows from the publisher's test file, in every run the same. "random" draws as many for
        each client, by seed. The paper prints no other split: synthetic rows are drawn anew for each seed, and of the others a
        fifth of the rows is drawn for test by seed, whatever `split` says.
    validation : the fraction of the training rows that is held back. 0 leaves the part "validation" empty.
    most : at most so many rows of each client in each part, drawn by seed. 0 for all.
    Further options are those of `data.load`, such as spread="sd" for the synthetic data.
    A client with no rows in a part that is asked for is refused.
    """
    choose(split, ("printed", "random"), "split")
    column = CLIENTS[choose(dataset, CLIENTS, "dataset of EFFL named")]
    if not seeds:
        raise FairFLError("Give at least one seed.")
    drawn = dataset == "synthetic"
    tables = [table(dataset, seed=seed, **options) for seed in seeds] if drawn else [table(dataset, **options)]
    shared = tables[0]
    runs = []
    for r, seed in enumerate(seeds):
        rows = tables[r if drawn else 0]
        if split == "random" and dataset == "adult":
            rows = resplit(rows, "file", column, seed)
        parts = rows.split(seed, PUBLISHED.get(dataset, TEST), validation)
        dealt = Partition.by_column(column).clients(rows, parts, seed)
        before = sum(len(earlier) for earlier in tables[:r]) if drawn else 0
        runs.append({part: [before + _some(own, most, seed, part) for own in clients] for part, clients in dealt.items()})
    X, y, a = (np.concatenate([getattr(one, name) for one in tables]) if drawn else getattr(shared, name) for name in "Xya")
    examples = Examples(X, y, a, classes=2, groups=2)
    shards = {part: Shards.deal(examples, [run[part] for run in runs]) for part in ("train", "validation", "test")}
    for part, held in shards.items():
        if (part != "validation" or validation > 0) and not held.sizes.all():
            raise FairFLError(f"A client of dataset {dataset!r} has no rows in part {part!r}: give other fractions or seeds.")
    standard = shared.scaling == "standard"
    inputs = Standard.of(shards["train"]) if standard else Standard.plain(len(seeds), X.shape[1])
    return Federation(shards, Dense(X.shape[1]), local, tuple(seeds), inputs, engine=engine, diverged=diverged)


def names(dataset: str, **options: Any) -> list[str]:
    """The clients of a dataset in their order."""
    return Partition.by_column(CLIENTS[choose(dataset, CLIENTS, "dataset of EFFL named")]).names(table(dataset, **options))


def resplit(rows: Table, column: str, within: str, seed: int) -> Table:
    """The same rows with the values of `column` dealt anew inside every value of `within`: as many of each, other rows."""
    values, owner = rows.columns[column].copy(), rows.columns[within]
    rng = stream(seed, f"resplit {column}")
    for one in np.unique(owner):
        inside = np.flatnonzero(owner == one)
        values[inside] = rng.permutation(values[inside])
    return replace(rows, columns={**rows.columns, column: values})


def _some(rows: np.ndarray, most: int, seed: int, part: str) -> np.ndarray:
    """`rows`, or `most` of them if there are more, ascending."""
    if not most or len(rows) <= most:
        return rows
    return np.sort(stream(seed, f"some {part}", int(rows[0])).choice(rows, most, replace=False))
