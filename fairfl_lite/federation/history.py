"""What happened in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import choose
from fairfl_lite.federation.state import Answer, State

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class History:
    """counts[part] [run, round, client, group, label, prediction] of what the method answers after each round, its last state
    and answer, and remembered memory [run, round, ...]. look : rounds look, 2 look, ... are those recorded."""

    method: str
    seeds: tuple[int, ...]
    counts: Mapping[str, np.ndarray]
    state: State
    answer: Answer
    memory: Mapping[str, np.ndarray]
    look: int = 1

    def values(self, metric: str, on: str = "test") -> np.ndarray:
        """One metric of the answer after each round, [run, round]."""
        return metrics.of_federation(metric, self.counts[choose(on, self.counts, "recorded part of the data")])

    def frame(self, on: str = "test", which: Sequence[str] = ()) -> pd.DataFrame:
        """Tidy: method, seed, round, metric, value; `client` is -1 for the federation, else the client's own metric.

        which : names of metrics; none are all that make sense for these groups and classes.
        """
        import pandas as pd

        parts = []
        two = self.counts[choose(on, self.counts, "recorded part of the data")].shape[-3:] == (2, 2, 2)
        for metric in which or (metrics.FEDERATION if two else ("acc", "std_acc")):
            whole = self.values(metric, on)
            each = metrics.of_clients(metric, self.counts[on])
            stacked = np.concatenate([whole[..., None], *([each] if each is not None else [])], axis=2)
            run, t, client = (axis.ravel() for axis in np.indices(stacked.shape))
            parts.append(pd.DataFrame({"method": self.method, "seed": np.asarray(self.seeds)[run], "round": self.look * (t + 1),
                                       "client": client - 1, "metric": metric, "value": stacked.ravel()}))  # fmt: skip
        return pd.concat(parts, ignore_index=True)
