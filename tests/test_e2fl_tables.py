"""E2FL's experiments at a small scale on the same way: columns as the card has them, runs that go on, numbers by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_e2fl import pictures

from fairfl_lite import experiments
from fairfl_lite.experiments.e2fl import federations, tables
from fairfl_lite.models import Perceptron

QUICK = tables.Scale(
    network=Perceptron((784, 16, 10)), counts=(2, 3, 1), test=30, participants=3, rounds=(1, 2, 4), alone=2, asked=4, edges=50,
    styles=(2, 1, 1, 1, 1), styled=2, adult=(101, 16, 2), adult_rounds=2, adult_epochs=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_world(tmp_path, monkeypatch):
    """Random pictures in the place of MNIST, and a folder of its own for what is kept."""
    monkeypatch.setattr(tables, "kept", lambda: tmp_path / "kept")
    monkeypatch.setattr(federations, "mnist", lambda: pictures(400, 300))


def quick(name):
    """All cells of one seed of an experiment, at the small scale."""
    experiment = experiments.get(name)
    cells = [cell for cell in experiment.cells if cell.get("seed", 0) == 0]
    scale = {} if name == "e2fl/table3" else {"at": QUICK}
    return experiment.finish(pd.concat([experiment.measure(**cell, **scale) for cell in cells], ignore_index=True))


COLUMNS = {
    "table1": {"approach": {"local", "fedavg", "ifca", "ifca-known", "q-ffl", "e2fl", "e2fl-gm", "frl"},
               "level": {"group", "user"}, "metric": {"avg", "worst", "best", "variance"}, "rounds": {1, 2, 4}, "seed": {0}},
    "inference": {"inference": {"loss", "oneshot", "binary", "binary-printed"}, "round": {1, 2, 4}, "seed": {0}},
    "table4": {"setting": {"iid", "non-iid"}, "method": {"fedavg", "fairfed", "e2fl", "fedavg-printed"},
               "metric": {"acc", "eod", "di", "finite"}, "seed": {0}},
    "table5": {"layer": {"conv1", "conv2", "all"}, "seed": {0}},
    "styles": {"approach": {"local", "fedavg", "q-ffl", "e2fl-oneshot", "e2fl-clusters", "e2fl-loss"},
               "metric": {"avg", "worst", "best", "variance"}, "seed": {0}},
}  # fmt: skip
"""The head of the card, for two layers where there are four."""


@pytest.mark.parametrize("name", COLUMNS)
def test_an_experiment_gives_what_the_card_asks_for(name):
    frame = quick(f"e2fl/{name}")
    assert list(frame.columns) == [*COLUMNS[name], "value"]
    assert {column: set(frame[column]) for column in COLUMNS[name]} == COLUMNS[name]
    assert not frame.duplicated(list(COLUMNS[name])).any() and np.isfinite(frame.value).all()
    if name == "table4":
        assert len(frame) == 2 * 3 * 3 + 1
        assert frame[frame.metric == "acc"].value.between(50, 100).all() and frame[frame.metric == "eod"].value.abs().max() <= 1
    else:
        assert len(frame) == np.prod([len(values) for values in COLUMNS[name].values()])
        shares = frame[frame.metric != "variance"] if "metric" in frame else frame
        assert shares.value.between(0, 100).all()
