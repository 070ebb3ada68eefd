"""What happened in a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation.state import Answer, Method, State, require_method

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class History:
    """counts[part] [run, round, client, group, label, prediction] of what the method answers after each round, its last state
    and answer, and remembered memory [run, round, ...]. eval_every : rounds eval_every, 2 eval_every, ... are those recorded."""

    method: str
    seeds: tuple[int, ...]
    counts: Mapping[str, np.ndarray]
    state: State
    answer: Answer
    memory: Mapping[str, np.ndarray]
    eval_every: int = 1

    def __repr__(self) -> str:
        rounds = self.eval_every * next((counts.shape[1] for counts in self.counts.values()), 0)
        parts = ", ".join(self.counts)
        return f"History({self.method!r}, seeds={listed(self.seeds)}, rounds={rounds}, recorded on {parts or 'nothing'})"

    def values(self, metric: str, on: str = "test") -> np.ndarray:
        """One metric of the answer after each round, [run, round]."""
        return metrics.of_federation(metric, self.counts[choose(on, self.counts, "recorded part of the data")])

    def of_run(self, run: int) -> State:
        """The last state of one run, from which its method can be taken further by hand."""
        return State(self.state.params[run], {name: value[run] for name, value in self.state.memory.items()})

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
            parts.append(
                pd.DataFrame(
                    {
                        "method": self.method,
                        "seed": np.asarray(self.seeds)[run],
                        "round": self.eval_every * (t + 1),
                        "client": client - 1,
                        "metric": metric,
                        "value": stacked.ravel(),
                    }
                )
            )
        return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Histories(Mapping[str, History]):
    """The histories of several methods that ran together, by label: a method's name, with the settings in which it differs from
    others of that name, as in "fairfed beta=20.0"."""

    by_label: Mapping[str, History]

    def __repr__(self) -> str:
        return f"Histories({', '.join(map(repr, self.by_label))})"

    def __getitem__(self, label: str) -> History:
        return self.by_label[choose(label, self.by_label, "run labelled")]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_label)

    def __len__(self) -> int:
        return len(self.by_label)

    def values(self, metric: str | None = None, on: str = "test") -> Any:
        """One metric of every method after each round, [method, run, round]; without one the histories, as of any mapping."""
        if metric is None:
            return self.by_label.values()
        return np.stack([history.values(metric, on) for history in self.by_label.values()])

    def frame(self, on: str = "test", which: Sequence[str] = ()) -> pd.DataFrame:
        """The frames of all histories, with their labels in column "method"."""
        import pandas as pd

        parts = [history.frame(on, which).assign(method=label) for label, history in self.by_label.items()]
        return pd.concat(parts, ignore_index=True)


def listed(seeds: Sequence[int]) -> str:
    """Seeds in a few letters: 0..19 for those that follow each other."""
    if len(seeds) > 2 and tuple(seeds) == tuple(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}..{seeds[-1]}"
    return ",".join(map(str, seeds)) if len(seeds) < 8 else f"{seeds[0]},{seeds[1]},... ({len(seeds)} of them)"


def labels(methods: Sequence[Method]) -> list[str]:
    """A label for each method, see Histories; refuses two that are the same in all settings."""
    for method in methods:
        require_method(method)
    found = []
    for method in methods:
        alike = [other for other in methods if other.name == method.name and type(other) is type(method)]
        names: list[str] = [f.name for f in fields(method)] if is_dataclass(method) else []
        differ = [n for n in names if len({repr(getattr(other, n)) for other in alike}) > 1]
        found.append(" ".join([method.name, *(f"{n}={getattr(method, n)}" for n in differ)]))
    for label in found:
        if found.count(label) > 1:
            raise FairFLError(f"Two of the methods to run together are both {label!r}: give one of them another name=.")
    return found
