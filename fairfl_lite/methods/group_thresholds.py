"""Group thresholds: FedAvg, and for each group the score from which a row is predicted 1 (Hardt, Price and Srebro, 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.clients.debias import Debias
from fairfl_lite.clients.summaries import ScoreHistogram, edges
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Answer, ByGroup, Method, OneFederation, State
from fairfl_lite.methods.fedavg import FedAvg
from fairfl_lite.methods.settings import require
from fairfl_lite.models import Dense

FAR = 1e30
"""A threshold in logits that no row reaches; numbers of float32 go up to about 3e38."""


@dataclass(frozen=True)
class GroupThresholds(Method):
    """Group thresholds: FedAvg, and for each group the score from which a row is predicted 1.

    After Hardt, Price and Srebro (NeurIPS 2016), in a federation. Cruz and Hardt (ICLR 2024) tried many methods on central data,
    and found none that was better than thresholds on the most accurate model. **It reads the group of a row at prediction
    time**, which the other methods here do not, and which is not allowed everywhere.

    The model is that of `FedAvg`. After each round those who took part send, for each group and label, how many of their
    training rows have their score in each bin. From the sums of these histograms the server takes one threshold for each group,
    among the edges of the bins. So it needs sums alone, and a deployment has to compute them once, after training.

    Without `gap` each group gets the edge at which its rate is nearest to that of all groups together at a score of 0.5. Of
    edges that are equally near it is the one nearest to 0.5. With `gap` the thresholds have the best accuracy among those at
    which no two groups' rates differ by more. A group without rows behind its rate keeps 0.5.

    Thresholds are not drawn at random, as they are in the paper: rates are equal up to what an edge of the bins allows.

    Parameters
    ----------
    metric : {"eod", "spd"}
        Which rates are to be equal: true positive rates, or selection rates.
    gap : float, optional
        How far apart the groups' rates may be on the training rows; the nearest edges if None. ``gap=1`` is the most accurate
        threshold for each group.
    bins : int
        How many bins the scores have; an even number, so that 0.5 is an edge. Where groups have the same histograms and `gap`
        is None all thresholds are 0.5, which is FedAvg.
    debias : Debias
        What clients do to their rows before they train.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FedAvg, Federation, GroupThresholds, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([FedAvg(), GroupThresholds("spd")], rounds=5)
    >>> abs(runs.values("spd")[:, :, -1]).round(2)
    array([[0.42, 0.39],
           [0.  , 0.02]])
    """

    metric: Literal["eod", "spd"] = "eod"
    gap: float | None = None
    bins: int = 100
    debias: Debias = Debias()
    name: str = "group-thresholds"

    def __post_init__(self) -> None:
        FedAvg(self.debias)
        choose(self.metric, ("eod", "spd"), "metric of GroupThresholds named")
        if self.gap is not None:
            require("gap", self.gap, 0, 1)
        if not isinstance(self.bins, int | np.integer) or self.bins < 2 or self.bins % 2:
            raise FairFLError(f"bins must be an even number of at least 2, so that 0.5 is an edge, not {self.bins!r}.")

    async def start(self, fed: OneFederation) -> State:
        if not isinstance(fed.model, Dense) or fed.model.classes != 2:
            raise FairFLError("GroupThresholds moves the last bias of a Dense model of two classes: give the federation one.")
        state = await FedAvg(self.debias).start(fed)
        groups = (await fed.group_label_counts(fed.all_clients)).shape[1]
        return self.with_thresholds(state, np.full(groups, self.bins // 2))

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        trained, clients = await FedAvg(self.debias).round(fed, state, t), fed.sample_clients(t)
        of = ScoreHistogram(len(state["thresholds"]), self.bins)
        counts = fed.sum(await fed.summaries(trained.params, clients, of))
        chosen = nearest(counts, self.metric) if self.gap is None else most_accurate(counts, self.metric, self.gap)
        return self.with_thresholds(trained, chosen)

    def with_thresholds(self, state: State, chosen: np.ndarray) -> State:
        """The state with the threshold of each group, which is the score of the edge of that number."""
        return State(state.params, {**state.memory, "thresholds": chosen / self.bins})

    def answer(self, state: State) -> Answer:
        chosen = np.rint(state["thresholds"] * self.bins).astype(int)
        models = np.repeat(state.params[None], len(chosen), axis=0)
        models[:, -1] -= np.clip(edges(self.bins)[chosen], -FAR, FAR).astype(models.dtype)
        return ByGroup(models)


def above(counts: np.ndarray) -> np.ndarray:
    """Rows above each edge, [..., bins + 1], from rows in each bin, [..., bins]."""
    below = np.concatenate([np.zeros((*counts.shape[:-1], 1)), counts.cumsum(-1)], axis=-1)
    return below[..., -1:] - below


def rates(counts: np.ndarray, metric: str) -> np.ndarray:
    """The rate of each group at each edge, [group, edge]; NaN for a group without rows behind it."""
    chosen = above(counts[:, 1] if metric == "eod" else counts.sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return chosen / chosen[:, :1]


def nearest(counts: np.ndarray, metric: str) -> np.ndarray:
    """The edge of each group whose rate is nearest to that of all groups together at the middle edge, [group]."""
    middle = counts.shape[-1] // 2
    target = rates(counts.sum(0, keepdims=True), metric)[0, middle]
    off = np.abs(rates(counts, metric) - target).round(12)
    return _first(off, middle)


def most_accurate(counts: np.ndarray, metric: str, gap: float) -> np.ndarray:
    """The edges [group] with the most rows right among those at which no two groups' rates differ by more than `gap`.

    Rates of such edges are in a window [low, low + gap] that begins at the rate of one of them, and inside a window each group
    is free. So every window is tried.
    """
    middle, rate, size = counts.shape[-1] // 2, rates(counts, metric), above(counts)
    right = size[:, 1] + size[:, 0, :1] - size[:, 0]
    free = np.isnan(rate).any(1)
    if free.all():
        return np.full(len(counts), middle)
    known, best, found = rate[~free], (-np.inf, -np.inf), np.full(len(counts), middle)
    for low in np.unique(known):
        inside = (known >= low - 1e-12) & (known <= low + gap + 1e-12)
        if not inside.any(1).all():
            continue
        each = _first(np.where(inside, -right[~free], np.inf), middle)
        value = (np.take_along_axis(right[~free], each[:, None], 1).sum(), -np.abs(each - middle).sum())
        if value > best:
            best, found[~free] = value, each
    return found


def _first(cost: np.ndarray, middle: int) -> np.ndarray:
    """The edge of the smallest cost in each row, of equals the one nearest to the middle; the middle where there is no cost."""
    away = np.abs(np.arange(cost.shape[1]) - middle)
    least = np.where(np.isnan(cost), np.inf, cost).min(1, keepdims=True)
    return np.where(np.isnan(cost).any(1), middle, np.where(cost == least, away, cost.shape[1] + 1).argmin(1))
