"""FAIR-FATE's stored grid read in several ways: who chooses a setting, on which rows, of which runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats

from fairfl_lite.errors import choose
from papers.fair_fate import tables as fair_fate

Cell = tuple[str, str, str]  # dataset, level, F: one column of a block of Tables 1 and 2

RIVALS = ("fedavg", "fedmom", "feddemon", "lr", "gr", "fedval")
READINGS, CROSSED = ("test", "validation", "other runs", "no choice"), "test rows of other runs"
# What a choice looks at: the prefix of its columns, and whether it leaves out the seed that is reported.
LOOKS = {"test": ("", False), "validation": ("val_", False), "other runs": ("val_", True), CROSSED: ("", True)}


@dataclass(frozen=True, eq=False)
class Readings:
    """The runs of `fair-fate/grid`, with the rules that choose a setting of FAIR-FATE and its best baseline.

    `on` is "" for test rows or "val_" for validation rows; `coded` is "_code" for F as the published code computes it
    or "" for Eq. 2 to 4; `guard` is the column that may fall by SACRIFICE at most; `how` is one of READINGS or CROSSED.
    """

    frame: pd.DataFrame
    seeds: int = fair_fate.SEEDS
    _rows: dict[tuple[str, ...], pd.DataFrame] = field(init=False, repr=False)
    _tables: dict[tuple[str, ...], np.ndarray] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        ordered = self.frame.sort_values([*fair_fate.SETTING, "seed"], kind="stable")
        rows = {tuple(map(str, keys)): part for keys, part in ordered.groupby(fair_fate.KEYS)}
        object.__setattr__(self, "_rows", rows)

    def blocks(self, variant: str = "published") -> list[Cell]:
        """The cells in which FAIR-FATE was run in this variant, and FedAvg beside it."""
        every = [(d, v, F) for d in fair_fate.DATASETS for v in fair_fate.LEVELS for F in fair_fate.FAIRNESS]
        return [(d, v, F) for d, v, F in every
                if {(d, v, "fedavg", "published"), (d, v, f"fair-fate-{F}", variant)} <= self._rows.keys()]  # fmt: skip

    def runs(self, cell: Cell, column: str, method: str = "fair-fate", variant: str = "published") -> np.ndarray:
        """A column of a row of the tables, [setting, seed]; fair-fate and fedval stand for those with the cell's F."""
        name = f"{method}-{cell[2]}" if method in ("fair-fate", "fedval") else method
        key = (*cell[:2], name, variant, column)
        if key not in self._tables:
            self._tables[key] = self._rows[key[:4]][column].to_numpy().reshape(-1, self.seeds)
        return self._tables[key]

    def pick(self, cell: Cell, on: str = "", guard: str = "acc", coded: str = "_code",
             seeds: Sequence[int] | None = None, variant: str = "published") -> int:  # fmt: skip
        """The setting argmax_j mean_s F[j, s] among those with mean_s guard[j, s] >= FedAvg's mean - SACRIFICE.

        Means are over `seeds` (all, if None). If no setting keeps enough, the one with the largest guard. Ties go to
        the first.
        """
        seen = list(range(self.seeds)) if seeds is None else list(seeds)
        F, kept = (self.runs(cell, f"{on}{name}", variant=variant)[:, seen].mean(1)
                   for name in (f"{cell[2]}{coded}", guard))  # fmt: skip
        enough = kept >= self.runs(cell, f"{on}{guard}", "fedavg")[0, seen].mean() - fair_fate.SACRIFICE
        return int(np.where(enough, F, -1).argmax() if enough.any() else kept.argmax())

    def read(self, cell: Cell, how: str, column: str, guard: str = "acc", coded: str = "_code",
             variant: str = "published") -> np.ndarray:  # fmt: skip
        """FAIR-FATE's column under one of the readings, [seed]: of the setting picked, or the mean of all settings."""
        table = self.runs(cell, column, variant=variant)
        if how == "no choice":
            return table.mean(0)
        on, seen = self._looks(how)
        chosen = [self.pick(cell, on, guard, coded, seeds, variant) for seeds in seen]
        return table[np.resize(chosen, self.seeds), np.arange(self.seeds)]

    def best_rival(self, cell: Cell, on: str, seeds: Sequence[int], coded: str = "_code",
                   among: Sequence[str] = RIVALS) -> tuple[str, int]:  # fmt: skip
        """The baseline with the largest mean F over `seeds`, and its setting: the largest mean of SP, EO and EQO."""
        seen = list(seeds)
        setting = {m: int(sum(self.runs(cell, f"{on}{F}_code", m)[:, seen].mean(1) for F in fair_fate.FAIRNESS).argmax())
                   for m in among}  # fmt: skip
        F = {m: self.runs(cell, f"{on}{cell[2]}{coded}", m)[setting[m], seen].mean() for m in among}
        best = max(among, key=lambda m: F[m])
        return best, setting[best]

    def rival(self, cell: Cell, how: str, column: str, coded: str = "_code",
              among: Sequence[str] = RIVALS) -> np.ndarray:  # fmt: skip
        """The best baseline's column, [seed], chosen as FAIR-FATE's setting is; without choice, on validation."""
        on, seen = self._looks("validation" if how == "no choice" else how)
        chosen = [self.best_rival(cell, on, seeds, coded, among) for seeds in seen]
        chosen = chosen if len(seen) > 1 else chosen * self.seeds
        return np.array([self.runs(cell, column, method)[setting, s] for s, (method, setting) in enumerate(chosen)])

    def gain(self, cell: Cell, how: str, among: Sequence[str] = RIVALS, guard: str = "acc", coded: str = "_code",
             variant: str = "published") -> np.ndarray:  # fmt: skip
        """FAIR-FATE's F less the best baseline's on the same seeds, [seed]."""
        column = f"{cell[2]}{coded}"
        return self.read(cell, how, column, guard, coded, variant) - self.rival(cell, how, column, coded, among)

    def _looks(self, how: str) -> tuple[str, list[list[int]]]:
        """The rows a choice looks at, and its seeds: all of them once, or all but s for each s."""
        choose(how, (*LOOKS, "no choice"), "reading named")
        on, others = LOOKS[how]
        every = list(range(self.seeds))
        return on, [[t for t in every if t != s] for s in every] if others else [every]


def parts(x: np.ndarray) -> tuple[float, float, float]:
    """Variance of the seeds, variance of the rest, and p of the F test of equal settings, for x [k settings, n seeds].

    rest = sum_js (x_js - x_.s - x_j. + x_..)^2 / ((k - 1)(n - 1)); seeds = max(0, var_s(x_.s) - rest / k);
    F = n var_j(x_j.) / rest with k - 1 and (k - 1)(n - 1) degrees of freedom.
    """
    k, n = x.shape
    rest = ((x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()) ** 2).sum() / ((k - 1) * (n - 1))
    seed = max(0.0, x.mean(0).var(ddof=1) - rest / k)
    return seed, rest, stats.f.sf(n * x.mean(1).var(ddof=1) / rest, k - 1, (k - 1) * (n - 1))


def best_by_luck(x: np.ndarray, rng: np.random.Generator, draws: int) -> float:
    """Excess of the best mean of x [setting, seed] when each seed deals its results to the settings at random."""
    return float(np.mean([rng.permuted(x, axis=0).mean(1).max() for _ in range(draws)]) - x.mean())


def curse(x: np.ndarray) -> float:
    """What the best mean of x [setting, seed] gives back on new runs: max_j mean_s x_js - mean_s x_{j(s), s}, where
    j(s) has the best mean over the seeds other than s."""
    left_out = [x[np.delete(x, s, 1).mean(1).argmax(), s] for s in range(x.shape[1])]
    return float(x.mean(1).max() - np.mean(left_out))


def constant(positive: np.ndarray | pd.Series) -> np.ndarray | pd.Series:
    """Near-constant runs: a share of yes below 2 % or above 98 %."""
    return (positive < 0.02) | (positive > 0.98)
