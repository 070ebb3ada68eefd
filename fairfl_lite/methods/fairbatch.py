"""FedAvg with FairBatch: each client draws more often from the group that its model serves worse (Roh et al., ICLR 2021);
one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fairfl_lite.clients.debias import TrainingRows
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class FairBatch(Method):
    """FedAvg with FairBatch: each client draws more often from the group that its model serves worse (Roh et al., ICLR 2021).

    A client's batches hold group a with the share lambda[y, a] among the rows of label y. lambda starts at the client's own
    shares. Once a round, on the model that it is given, the client moves `alpha` of lambda to the group with the larger loss
    from the one with the smaller, at most what that one has. How much of a batch has which label does not change.

    The draw is made as weights of rows, ``lambda[y, a] n[y] / n[y, a]``, so that a step is the mean of the steps that batches
    drawn with these shares would make: it serves the full batch too, and adds no noise of its own. The authors draw batches
    by these shares, and move lambda once in every epoch: with several epochs in a round, theirs moves more often.

    Of more than two groups the two that differ most are moved, and a label for which the client has fewer than two groups
    stays as it is. It needs two labels.

    Parameters
    ----------
    alpha : float
        How much of lambda moves in a round. ``alpha=0`` is FedAvg, bit for bit.
    bias : {"tpsd", "apsd"}
        "tpsd" asks for equal opportunity: mean losses L[1, a] among the rows with y = 1. "apsd" asks for demographic parity:
        the loss toward the label 1 of all rows, L[y, a] summed over the rows of (y, a) and divided by those of a, for the
        label where groups differ more; among rows with y = 0 the share moves the other way.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FairBatch, FedAvg, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([FedAvg(), FairBatch(alpha=0)], rounds=3)
    >>> bool((runs["fedavg"].state.params == runs["fairbatch"].state.params).all())
    True
    """

    alpha: float = 0.005
    bias: Literal["tpsd", "apsd"] = "tpsd"
    name: str = "fairbatch"

    def __post_init__(self) -> None:
        require("alpha", self.alpha, 0, 1)
        choose(self.bias, ("tpsd", "apsd"), "bias of FairBatch named")

    async def start(self, fed: OneFederation) -> State:
        if fed.model.classes != 2:
            raise FairFLError(f"FairBatch evens out the favourable one of two labels, and there are {fed.model.classes} classes.")
        n = np.swapaxes(await fed.group_label_counts(np.arange(fed.n)), 1, 2)  # [client, label, group]
        natural = n / np.maximum(n.sum(2, keepdims=True), 1)
        return State(fed.init_params(), {"rows": n, "lambda": natural, "weights": fed.shares(np.arange(fed.n))})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        n, shares = state["rows"][clients], state["lambda"].copy()
        sums = (await fed.value_and_gradient(state.params, clients, LossByCell(n.shape[2])))[0].reshape(n.shape)
        loss = sums / np.maximum(n if self.bias == "tpsd" else n.sum(1, keepdims=True), 1)
        for i, k in enumerate(clients):
            shares[k] = moved(shares[k], n[i], loss[i], self.alpha, self.bias)
        by = np.where(n > 0, shares[clients] * n.sum(2, keepdims=True) / np.maximum(n, 1), 1.0)
        local = await fed.train(state.params, clients, t, rows=TrainingRows(np.swapaxes(by, 1, 2)))
        weights = fed.shares(clients)
        memory = {"rows": state["rows"], "lambda": shares, "weights": fed.by_client(weights, clients)}
        return State(fed.average(local, weights), memory)


@dataclass(frozen=True)
class LossByCell:
    """The log loss toward the label 1, summed over a client's rows of each label and group, [label * groups + group]. No gradient
    of it is asked for, and there is none."""

    groups: int

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        with np.errstate(invalid="ignore"):  # a run that diverged and is kept has no loss
            loss = np.logaddexp(0.0, -logits.detach().numpy())
        return torch.as_tensor(np.bincount(y.long() * self.groups + a, loss, minlength=2 * self.groups))


def moved(shares: np.ndarray, n: np.ndarray, loss: np.ndarray, alpha: float, bias: str) -> np.ndarray:
    """lambda of one client after one adjustment, all arrays [label, group]."""
    most, least = np.where(n > 0, loss, -np.inf).argmax(1), np.where(n > 0, loss, np.inf).argmin(1)
    with np.errstate(invalid="ignore"):  # two infinite losses of a run that diverged have no gap
        gap = loss[[0, 1], most] - loss[[0, 1], least]
    gap = np.where((n > 0).sum(1) > 1, gap, 0.0)
    label = int(bias == "tpsd" or gap[1] > gap[0])
    gains, loses = (most[1], least[1]) if label else (least[0], most[0])
    out = shares.copy()
    much = min(alpha, out[label, loses]) if gap[label] > 0 else 0.0
    out[label, gains] += much
    out[label, loses] -= much
    return out
