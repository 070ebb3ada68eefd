"""What happened in a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation.state import Answer, Method, State, require_method

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class History:
    """What happened in a run of one method, on every seed.

    Made by `Federation.run`. After each recorded round it holds how the model that the method deploys did, as confusion
    counts, from which every metric can be computed.

    Attributes
    ----------
    method : str
        The name of the method.
    seeds : tuple of int
        The seed of each run.
    counts : mapping of str to ndarray of shape (n_runs, n_rounds, n_clients, n_groups, n_classes, n_classes)
        Confusion counts by part of the data: run, recorded round, client, group, label, prediction.
    state : State
        The last state of the method; its arrays begin with an axis of runs.
    answer : ndarray, Models or ByGroup
        What the method deploys in the end; its arrays begin with an axis of runs.
    memory : mapping of str to ndarray of shape (n_runs, n_rounds, ...)
        The entries of the method's memory that were to be remembered.
    eval_every : int
        The rounds eval_every, 2 eval_every, ... are those recorded.
    gone : mapping of int to int
        Clients that took no part any more, and from which round on, see `Federation`. Nobody counts rows of theirs from then.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FedAvg, Federation, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), seeds=range(2), local=local)
    >>> history = fed.run(FedAvg(), rounds=3, remember=["weights"])
    >>> history
    History('fedavg', seeds=0,1, rounds=3, recorded on test)
    >>> history.counts["test"].shape, history.memory["weights"].shape
    ((2, 3, 3, 2, 2, 2), (2, 3, 3))

    The examples of the methods below go on from these lines.
    """

    method: str
    seeds: tuple[int, ...]
    counts: Mapping[str, np.ndarray]
    state: State
    answer: Answer
    memory: Mapping[str, np.ndarray]
    eval_every: int = 1
    gone: Mapping[int, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        rounds = self.eval_every * next((counts.shape[1] for counts in self.counts.values()), 0)
        parts = ", ".join(self.counts)
        gone = f", gone={dict(self.gone)}" if self.gone else ""
        return f"History({self.method!r}, seeds={listed(self.seeds)}, rounds={rounds}, recorded on {parts or 'nothing'}{gone})"

    def values(self, metric: str, on: str = "test") -> np.ndarray:
        """One metric of the answer after each recorded round.

        Parameters
        ----------
        metric : str
            A name that `fairfl_lite.metrics.of_federation` takes, such as "acc", "eod" or "std_acc".
        on : str
            A recorded part of the data.

        Returns
        -------
        ndarray of shape (n_runs, n_rounds)
            NaN where the metric is undefined.

        Examples
        --------
        >>> history.values("acc").shape
        (2, 3)
        """
        return metrics.of_federation(metric, self.counts[choose(on, self.counts, "recorded part of the data")])

    def of_run(self, run: int) -> State:
        """The last state of one run, from which its method can be taken further by hand.

        Parameters
        ----------
        run : int
            The place of its seed in ``seeds``.

        Returns
        -------
        State

        Examples
        --------
        >>> history.of_run(0)
        State(params of shape (4,), memory of weights)
        """
        return State(self.state.params[run], {name: value[run] for name, value in self.state.memory.items()})

    def frame(self, on: str = "test", which: Sequence[str] = ()) -> pd.DataFrame:
        """The history as a tidy table, with columns method, seed, round, client, metric and value.

        Parameters
        ----------
        on : str
            A recorded part of the data.
        which : sequence of str
            Names of metrics; all that make sense for these groups and classes if there are none.

        Returns
        -------
        pandas.DataFrame
            Where `client` is -1 the value is that of the federation, otherwise the client's own.

        Examples
        --------
        >>> frame = history.frame(which=["acc"])
        >>> len(frame), sorted(frame["client"].unique().tolist())
        (24, [-1, 0, 1, 2])
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
    """The histories of several methods, by their labels.

    Made by `Federation.run` for a list of methods. A label is the method's name with the settings in which it differs from
    others of that name, as in "fairfed beta=20". It is iterated over like a dict.

    Attributes
    ----------
    by_label : mapping of str to History
        The histories.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FairFed, FedAvg, Federation, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), seeds=range(2), local=local)
    >>> runs = fed.run([FedAvg(), FairFed(beta=1), FairFed(beta=5)], rounds=2)
    >>> list(runs)
    ['fedavg', 'fairfed beta=1', 'fairfed beta=5']
    >>> runs["fedavg"]
    History('fedavg', seeds=0,1, rounds=2, recorded on test)

    The examples of the methods below go on from these lines.
    """

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
        """One metric of every method after each recorded round.

        Parameters
        ----------
        metric : str, optional
            A name that `fairfl_lite.metrics.of_federation` takes. Without one the histories are given, as by any mapping.
        on : str
            A recorded part of the data.

        Returns
        -------
        ndarray of shape (n_methods, n_runs, n_rounds)
            In the order of the labels.

        Examples
        --------
        >>> runs.values("acc").shape
        (3, 2, 2)
        """
        if metric is None:
            return self.by_label.values()
        return np.stack([history.values(metric, on) for history in self.by_label.values()])

    def frame(self, on: str = "test", which: Sequence[str] = ()) -> pd.DataFrame:
        """The tidy tables of all histories below one another, with their labels in column "method".

        Parameters
        ----------
        on : str
            A recorded part of the data.
        which : sequence of str
            Names of metrics, see `History.frame`.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> runs.frame(which=["eod"]).groupby("method", sort=False).size().to_dict()
        {'fedavg': 16, 'fairfed beta=1': 16, 'fairfed beta=5': 16}
        """
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
