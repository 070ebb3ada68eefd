"""FedGFT: local losses with a penalty on the fairness of the whole federation (Wang, Payani, Lee and Kompella, 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fairfl_lite.engines.plain import mean_loss
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require, require_whole


@dataclass(frozen=True)
class FedGFT(Method):
    """FedGFT: local losses with a penalty on the fairness of the whole federation (Wang, Payani, Lee and Kompella, 2023).

    The gap of the federation is ``F = S_0 / n_0 - S_1 / n_1``, where S_a is the sum of the scores sigmoid(logit) of group a and
    n_a the number of its rows. It is a mean over clients: ``F = sum_k (n_k / n) F_k`` with ``F_k = (S_0k / n_k) / (n_0 / n) -
    (S_1k / n_k) / (n_1 / n)``. So each client can push F by itself: it minimises its mean loss plus ``gamma c F_k``, where c is
    the slope of the penalty at the F of the whole federation: ``c = F`` for F^2 / 2 and ``c = sign(F)`` for abs(F). The server
    tells c, and averages with n_k / n. It needs sums alone.

    A client takes `steps` gradient steps in a round, and c is the same in all of them. c is that of the model which clients are
    given, for which they send S_0k and S_1k before they train. The released code takes the gap of the round before, which is 0
    in the first round, and trains by Adam. A client whose own groups are treated alike can still have a large F_k, and the
    reverse.

    Parameters
    ----------
    gamma : float
        Weight of the penalty. ``gamma=0`` is FedAvg with `steps` full-batch steps of SGD.
    lr : float
        Length of a step.
    steps : int
        Gradient steps of each client in a round.
    batch : int
        Rows of each client in a step; 0 for all.
    metric : {"spd", "eod"}
        Whether groups are all their rows, or those with y = 1.
    penalty : {"square", "absolute"}
        F^2 / 2, or abs(F).
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, FedGFT, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(2), ClientTraining())
    >>> runs = fed.run([FedGFT(gamma=0, lr=0.5), FedGFT(gamma=20, lr=0.5)], rounds=20)
    >>> abs(runs.values("spd")[:, :, -1]).round(2)
    array([[0.5 , 0.43],
           [0.27, 0.03]])
    """

    gamma: float = 20.0
    lr: float = 0.1
    steps: int = 1
    batch: int = 0
    metric: Literal["spd", "eod"] = "spd"
    penalty: Literal["square", "absolute"] = "square"
    name: str = "fedgft"

    def __post_init__(self) -> None:
        require("gamma", self.gamma, 0)
        require("lr", self.lr, 0, above=True)
        require_whole("steps", self.steps)
        require_whole("batch", self.batch, 0)
        choose(self.metric, ("spd", "eod"), "metric of FedGFT named")
        choose(self.penalty, ("square", "absolute"), "penalty of FedGFT named")

    async def start(self, fed: OneFederation) -> State:
        counts = await fed.group_label_counts(fed.all_clients)
        if counts.shape[1:] != (2, 2):
            raise FairFLError(f"FedGFT compares two groups in a choice of two, and there are {counts.shape[1]} groups and "
                              f"{counts.shape[2]} classes.")  # fmt: skip
        return State(fed.init_params(), {"gap": np.nan})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, of = fed.sample_clients(t), (MeanScore(0, self.metric, True), MeanScore(1, self.metric))
        shares = fed.shares(clients)
        counts = await fed.group_label_counts(clients)
        n = fed.sum(counts[..., 1] if self.metric == "eod" else counts.sum(2)) / fed.sizes(clients).sum()  # n_a / n
        scale = np.where(n > 0, 1 / np.where(n > 0, n, 1), 0.0) * [1, -1] * bool((n > 0).all())
        local, gap = np.repeat(state.params[None], len(clients), axis=0), np.nan
        for step in range(self.steps):
            drawn = (t - 1) * self.steps + step + 1
            values, slopes = await fed.value_and_gradient(local, clients, of[0], t=drawn, batch=self.batch)
            other, slope = await fed.value_and_gradient(local, clients, of[1], t=drawn, batch=self.batch)
            if not step:
                if self.batch:  # the gap is that of all rows
                    values, other = [(await fed.value_and_gradient(local, clients, one))[0] for one in of]
                gap = fed.sum(np.stack([values[:, 1], other], axis=1), shares) @ scale
                c = gap if self.penalty == "square" else np.sign(gap)
            push = slopes[:, 1].astype(np.float64) * scale[0] + slope.astype(np.float64) * scale[1]
            local = (local - self.lr * (slopes[:, 0] + self.gamma * c * push)).astype(local.dtype)
        return State(fed.average(local, shares), {"gap": gap})


@dataclass(frozen=True)
class MeanScore:
    """S_ak / n_k: the sum of the scores of one group, or of its rows with y = 1, over all rows of the client; with `with_loss`
    the mean log loss comes before it."""

    group: int
    metric: Literal["spd", "eod"] = "spd"
    with_loss: bool = False

    @property
    def sharpness(self) -> float:
        return 1.0

    def by_sums(self, rows: np.ndarray, soft: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value [...] and its gradient by the sums of scores; rows and soft [..., group, label]."""
        slope = np.zeros(soft.shape)
        slope[..., self.group, 1 if self.metric == "eod" else slice(None)] = 1.0
        slope /= np.maximum(rows.sum((-2, -1)), 1)[..., None, None]
        return (slope * soft).sum((-2, -1)), slope

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        mine = (a == self.group) & ((y == 1) | (self.metric == "spd"))
        score = (torch.sigmoid(logits) * mine).sum() / len(y)
        return torch.stack([mean_loss(logits, y, a), score]) if self.with_loss else score
