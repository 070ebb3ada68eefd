"""The arena's runs: a cell is one method in one federation, with all its settings, on validation and test rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book.experiments.base import Experiment, grid
from fairfl_lite import store
from fairfl_lite.data import Partition, Table
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import run_together
from fairfl_lite.scores import scorecard
from papers.arena.federations import (
    ALPHAS,
    CLIENTS,
    CROWDS,
    FEDERATIONS,
    MADE,
    OTHER,
    ROWS,
    SIZES,
    SOME,
    TARGET,
    VALIDATION,
    Make,
    dealt,
    second,
    table,
)
from papers.arena.protocol import BATCH, CONTESTANTS, EPOCHS, MARGINS, NEED_ALL, ROUNDS, SEEDS, Setting

DATASETS = ("adult", "compas")
KEPT = ("acc", "eod", "spd", "equalised_odds", "impact", "local_eod", "most_eod", "local_spd", "most_spd", "worst_group",
        "min_acc", "worst_acc", "var_acc", "jain_acc", "equality", "equity")  # fmt: skip
"""Of the scorecard. "tpsd" and "apsd" are half of eod and spd."""
CROSSED = ("pair_worst", "pair_spd", "pair_eod")
"""Of intersections with a second attribute, where the table has one."""
CHOOSING = ("acc", "eod")
"""Metrics by which settings are chosen: of validation rows no others are stored."""
DIGITS = {metric: 4 if margin <= 0.01 or metric in CHOOSING else 3 for metric, (margin, _) in MARGINS.items()}
"""To so many digits a metric is stored: what is left out is at most a fortieth of a margin."""
RUN = ["method", "level", "rate", "part", "seed"]
CROWD_SEEDS = 10


def measured(rows: Table, make: Make, settings: Sequence[Setting], seeds: Sequence[int], rounds: int,
             other: np.ndarray | None = None) -> pd.DataFrame:  # fmt: skip
    """Every setting on the same seeds: columns method, level, rate, part, seed, metric and value, after the last round.

    other : a second attribute of the rows, by which test rows are looked at too.
    """
    fed = replace(make(rows, seeds, settings[0].local), diverged="keep")
    runs = run_together([(replace(fed, local=one.local), one.method) for one in settings], rounds,
                        record=("validation", "test"), eval_every=rounds)  # fmt: skip
    frames = []
    for one, history in zip(settings, runs, strict=True):
        for part in ("validation", "test"):
            frame = scorecard(fed, history, on=part, crossed_with=other if part == "test" else None)
            frame = frame[frame["metric"].isin(KEPT + CROSSED)].drop(columns="method")
            frames.append(frame.assign(method=one.method.name, level=one.level, rate=one.rate, part=part))
    return pd.concat(frames, ignore_index=True)[["method", "level", "rate", "part", "seed", "metric", "value"]]


def cell(dataset: str, federation: str, method: str, seeds: Sequence[int]) -> pd.DataFrame:
    """One method in one federation: a column for each metric with a margin, of which validation rows have those that settings are
    chosen by."""
    rows, make = table(dataset), {**FEDERATIONS, **MADE, **CROWDS}[federation]
    return stored(measured(rows, make, CONTESTANTS[method], seeds, ROUNDS, second(dataset, rows)), dataset, federation)


def stored(found: pd.DataFrame, dataset: str, federation: str) -> pd.DataFrame:
    """What `measured` gives as it is stored; `tidy` turns it back."""
    found = found[((found["part"] == "test") & found["metric"].isin(MARGINS)) | found["metric"].isin(CHOOSING)]
    wide = found.pivot(index=RUN, columns="metric", values="value").reindex(columns=list(MARGINS)).round(DIGITS).reset_index()
    return wide.assign(dataset=dataset, federation=federation)[["dataset", "federation", *RUN, *MARGINS]]


def tidy(wide: pd.DataFrame) -> pd.DataFrame:
    """A stored result with a row for each value, as `measured` gives them."""
    found = wide.melt(["dataset", "federation", *RUN], list(MARGINS), "metric")
    found = found[(found["part"] == "test") | found["metric"].isin(CHOOSING)]
    never = found.groupby("metric")["value"].transform("count") == 0
    return found[~never].reset_index(drop=True)


# A reader's own table


@dataclass(frozen=True)
class OwnTable:
    """A reader's table of one row per person, which of its columns says who holds a row, and what `read` was given."""

    rows: Table
    clients: str
    given: Mapping[str, str | None]

    @classmethod
    def read(cls, path: Path, label: str, sensitive: str, clients: str, favourable: str | None = None,
             privileged: str | None = None) -> OwnTable:  # fmt: skip
        """From a CSV file with a line of names."""
        try:
            frame = pd.read_csv(path)
        except (OSError, ValueError) as error:
            raise FairFLError(f"{path} cannot be read as a table: give a CSV file whose first line names the columns.") from error
        for column in (label, sensitive, clients):
            choose(column, list(frame.columns), f"column of {path.name} named")
        features = [column for column in frame.columns if column not in (label, sensitive, clients)]
        rows = Table.from_frame(frame, label=label, sensitive=sensitive, features=features, encoding="onehot",
                                favourable=_as_in(frame[label], favourable),
                                privileged=_as_in(frame[sensitive], privileged))  # fmt: skip
        if rows.a.max() != 1:
            raise FairFLError(f"The arena compares two groups, and {sensitive} has {rows.a.max() + 1}: say --privileged VALUE.")
        given = {"path": str(path.resolve()), "label": label, "sensitive": sensitive, "clients": clients,
                 "favourable": favourable, "privileged": privileged}  # fmt: skip
        return cls(rows, clients, given)

    @property
    def make(self) -> Make:
        return dealt(Partition.by_column(self.clients))


def _as_in(column: pd.Series, word: str | None) -> Any:
    """The value of a column that somebody wrote as a word."""
    if word is None:
        return None
    values = {str(value): value for value in column.unique()}
    return values[choose(word, values, f"value of {column.name}")]


def estimate(own: OwnTable, methods: Sequence[str], seeds: int, rounds: int) -> float:
    """How many seconds `compared` will take, from a few rounds of every setting on one seed."""
    few, took = min(rounds, 4), 0.0
    for name in methods:
        if name not in CONTESTANTS:
            choose(name, CONTESTANTS, "method in the arena named")
        measured(own.rows, own.make, CONTESTANTS[name], [0], 1)  # what is compiled, or made once, is not counted
        began = time.perf_counter()
        measured(own.rows, own.make, CONTESTANTS[name], [0], few)
        took += time.perf_counter() - began
    return took * seeds * rounds / few


@lru_cache(maxsize=1)
def _read(digest: str, path: str, **given: Any) -> OwnTable:
    """The table, read once as long as it is the same."""
    own = OwnTable.read(Path(path), **given)
    if own.rows.digest != digest:
        raise FairFLError(f"{path} changed while it was being compared: start again.")
    return own


def own_cell(method: str, rounds: int, digest: str, seeds: Sequence[int], **given: Any) -> pd.DataFrame:
    """One method on a reader's table, whose digest makes the cell another when the table changes."""
    own = _read(digest, **given)
    return measured(own.rows, own.make, CONTESTANTS[method], seeds, rounds)


def compared(own: OwnTable, methods: Sequence[str], seeds: int, rounds: int) -> pd.DataFrame:
    """All settings of these methods, as `measured` gives them, in a federation called "own". Methods that are finished are kept,
    so that a run that was stopped goes on with the others."""
    cells = [{**own.given, "digest": own.rows.digest, "method": name, "rounds": rounds} for name in methods]
    frame = Experiment("arena/own", own_cell, cells).frame(seeds, store.root() / ".fairfl" / "cells")
    return frame.assign(federation="own")


_SETTINGS = {"rounds": ROUNDS, "batch": BATCH, "epochs": EPOCHS, "validation": VALIDATION}
_OF = {"clients": CLIENTS, "alphas": ALPHAS, "target": TARGET, "sizes": SIZES, "second attribute": OTHER}

_CROWDED = [one for one in grid(dataset=("adult",), federation=list(CROWDS), method=list(CONTESTANTS))
            if not (one["federation"] in SOME and one["method"] in NEED_ALL)]  # fmt: skip

EXPERIMENTS = [
    *(
        Experiment(f"arena/{name}", cell, grid(dataset=(name,), federation=list(FEDERATIONS), method=list(CONTESTANTS)),
                   data=(name,), seeds=SEEDS, workers=2, settings=_SETTINGS | _OF)
        for name in DATASETS
    ),
    Experiment("arena/made", cell, grid(dataset=("made",), federation=list(MADE), method=list(CONTESTANTS)), seeds=SEEDS,
               workers=2, settings=_SETTINGS | {"rows": ROWS}),
    Experiment("arena/crowds", cell, _CROWDED,
               data=("adult",), seeds=CROWD_SEEDS, workers=2, settings=_SETTINGS),
]  # fmt: skip
