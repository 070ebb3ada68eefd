"""FedAvg with FairBatch: each client draws more often from the group that its model serves worse (Roh et al., ICLR 2021);
one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.data.shards import Shards
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require


@dataclass(frozen=True, eq=False)
class FairBatch(Method):
    """FedAvg of clients whose batches hold group a with the share lambda[y, a] among the rows of label y.

    lambda starts at the client's own shares. Once a round, on the model that it is given, the client moves `alpha` of lambda
    to the group with the larger loss from the one with the smaller, at most what that one has. bias "tpsd" asks for equal
    opportunity: mean losses L[1, a] among the rows with y = 1. "apsd" asks for demographic parity: the loss toward the
    label 1 of all rows, L[y, a] summed over the rows of (y, a) and divided by those of a, for the label where groups differ
    more; among rows with y = 0 the share moves the other way. How much of a batch has which label does not change.

    The draw is made as weights of rows, lambda[y, a] n[y] / n[y, a], so that a step is the mean of the steps that batches drawn
    with these shares would make: it serves the full batch too, and adds no noise of its own. The authors draw batches by these
    shares, and move lambda once in every epoch: with several epochs in a round, theirs moves more often.

    alpha : a number, or one per run. alpha = 0 is FedAvg, bit for bit. Of more than two groups the two that differ most are
    moved, and a label for which the client has fewer than two groups stays as it is. Two labels only.
    """

    alpha: PerRun = 0.005
    bias: Literal["tpsd", "apsd"] = "tpsd"
    name: str = "fairbatch"

    def __post_init__(self) -> None:
        require("alpha", self.alpha, 0, 1)
        choose(self.bias, ("tpsd", "apsd"), "bias of FairBatch named")

    def start(self, fed: Federation) -> State:
        per_run(fed, "alpha", self.alpha)
        if fed.model.classes != 2:
            raise FairFLError(f"FairBatch evens out the favourable one of two labels, and there are {fed.model.classes} classes.")
        n = np.swapaxes(fed.shards["train"].census(), 2, 3)  # [run, client, label, group]
        natural = n / np.maximum(n.sum(3, keepdims=True), 1)
        return State(fed.start(), {"rows": n, "lambda": natural, "weights": fed.shares()})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        run = np.arange(len(who))[:, None]
        n, shares = state["rows"][run, who], state["lambda"][run, who]  # what stands at -1 is not used
        shares = moved(shares, n, self.losses(fed, state.params, who, n), per_run(fed, "alpha", self.alpha), self.bias)
        by = np.where(n > 0, shares * n.sum(3, keepdims=True) / np.maximum(n, 1), 1.0)
        local = fed.train(state.params, t, who=who, on=weighted_rows(fed.shards["train"], who, by))
        kept = state["lambda"].copy()
        kept[np.broadcast_to(run, who.shape)[who >= 0], who[who >= 0]] = shares[who >= 0]
        weights = fed.shares(who)
        memory = {"rows": state["rows"], "lambda": kept, "weights": scatter(weights, who, fed.clients, 0.0)}
        return State(fed.average(local, weights), memory)

    def losses(self, fed: Federation, params: np.ndarray, who: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Log loss toward the label 1 of the rows of each label and group, in the shape of n, as `bias` divides it."""
        train, sums = fed.shards["train"], np.zeros(n.shape)
        for (r, i), z in zip(np.ndindex(who.shape), (z for run in fed.logits(params, who=who) for z in run), strict=True):
            if who[r, i] >= 0:
                rows = train.rows(r, int(who[r, i]))
                cell = train.y[rows].astype(np.intp) * n.shape[3] + train.a[rows]
                with np.errstate(invalid="ignore"):  # a run that diverged and is kept has no loss
                    loss = np.logaddexp(0.0, -z)
                sums[r, i] = np.bincount(cell, loss, minlength=sums[r, i].size).reshape(n.shape[2:])
        return sums / np.maximum(n if self.bias == "tpsd" else n.sum(2, keepdims=True), 1)


def moved(shares: np.ndarray, n: np.ndarray, loss: np.ndarray, alpha: np.ndarray, bias: str) -> np.ndarray:
    """lambda after one adjustment, all arrays [run, participant, label, group], alpha [run, 1]."""
    there = n > 0
    most, least = np.where(there, loss, -np.inf).argmax(3), np.where(there, loss, np.inf).argmin(3)
    with np.errstate(invalid="ignore"):  # two infinite losses of a run that diverged have no gap
        gap = np.take_along_axis(loss, most[..., None], 3)[..., 0] - np.take_along_axis(loss, least[..., None], 3)[..., 0]
    gap = np.where(there.sum(3) > 1, gap, 0.0)
    label = np.ones(gap.shape[:2], int) if bias == "tpsd" else (gap[..., 1] > gap[..., 0]).astype(int)
    gains, loses = (np.take_along_axis(place, label[..., None], 2)[..., 0] for place in (most, least))
    gains, loses = np.where(label == 1, gains, loses), np.where(label == 1, loses, gains)
    run, i = np.indices(label.shape)
    out = shares.copy()
    much = np.where(gap[run, i, label] > 0, np.minimum(alpha, out[run, i, label, loses]), 0.0)
    out[run, i, label, gains] += much
    out[run, i, label, loses] -= much
    return out


def weighted_rows(train: Shards, who: np.ndarray, by: np.ndarray) -> Shards:
    """The rows of those in `who`, each with the weight of its label and group, by [run, participant, label, group].

    Nobody else holds any. Runs that share rows get copies of their own, since they may weigh them differently.
    """
    sizes = np.zeros((len(who), train.clients), np.int64)
    index, weight = [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    for r, i in zip(*np.nonzero(who >= 0), strict=True):  # clients ascend in a run
        rows = train.rows(r, int(who[r, i]))
        sizes[r, who[r, i]] = len(rows)
        index.append(rows)
        weight.append(by[r, i][train.y[rows], train.a[rows]].astype(np.float32))
    ends = sizes.cumsum().reshape(sizes.shape)
    start = np.concatenate([ends[:, :1] - sizes[:, :1], ends], axis=1)
    return Shards(train.examples, np.concatenate(index), start, np.concatenate(weight))
