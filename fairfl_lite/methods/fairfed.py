"""FairFed: clients weigh more where the model is as fair as it is globally (Ezzeldin et al., AAAI 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.clients.debias import Debias, require_debias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, State


@dataclass(frozen=True)
class FairFed:
    """Algorithm 1 with the weights of Eq. 8.

    beta : fairness budget. beta = 0 is FedAvg, bit for bit.
    eta : eta = 1 is Eq. 6; eta = 0 looks at accuracy alone (uniform accuracy).
    metric : "eod" (Eq. 7) or "spd" (Eq. 10).
    rule : what happens to weights that leave [0, 1], on which the paper is silent. "clip" sets negative weights to 0,
        normalises, and carries that forward (data shares where nothing is left); "none" is the printed recursion; "exp" is
        the first preprint's rule, (n_k / n) exp(-beta gap), which has no memory and is always positive.
    """

    beta: float = 1.0
    eta: float = 1.0
    metric: Literal["eod", "spd"] = "eod"
    rule: Literal["clip", "none", "exp"] = "clip"
    debias: Debias = Debias("local")
    name: str = "fairfed"

    def __post_init__(self) -> None:
        require_debias(self.debias)
        if not (isinstance(self.beta, int | float) and 0 <= self.beta < np.inf) or not 0 <= self.eta <= 1:
            raise FairFLError(f"FairFed needs beta >= 0 and 0 <= eta <= 1, not beta={self.beta}, eta={self.eta}.")
        if self.metric not in ("eod", "spd") or self.rule not in ("clip", "none", "exp"):
            raise FairFLError(
                f"FairFed tracks eod or spd with rule clip, none or exp, not {self.metric!r}, {self.rule!r}."
            )

    def start(self, fed: Federation) -> State:
        if fed.participants:
            raise FairFLError("FairFed needs every client in every round: make the federation with participants=0.")
        statistics = fed.sum(group_sizes(self.metric, fed.shards["train"].cells()))
        return State(fed.start(), {"rows": self.debias.rows(fed), "weights": fed.shares, "statistics": statistics})

    def round(self, fed: Federation, state: State, t: int) -> State:
        counts, S = fed.report(state.params), state["statistics"]
        F_k, acc_k = metrics.MODEL[self.metric](counts), metrics.accuracy(counts)

        component = global_component(self.metric, counts, S)
        shared_acc = fed.shares * np.nan_to_num(acc_k)
        F, acc = fed.sum(np.stack([component, shared_acc], axis=2)).T[..., None]
        F = np.where((S > 0).all(1, keepdims=True), F, np.nan)

        gap = metric_gap(F_k, F, np.where(np.isnan(acc_k), acc, acc_k), acc, self.eta)
        mean = fed.sum(gap / fed.clients)

        weights = self.update(fed, state["weights"], gap, mean)
        local = fed.train(state.params, t, on=state["rows"])
        memory = {**state.memory, "weights": weights, "gap": gap, "F": F[:, 0]}
        return State(fed.average(local, weights), memory)

    def update(self, fed: Federation, weights: np.ndarray, gap: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Third line of Eq. 6 and 8, and the rule for what it leaves open: [run, client]."""
        if self.rule == "exp":
            weights = fed.shares * np.exp(-self.beta * gap)
            return weights / fed.sum(weights)[:, None]
        weights = weights - self.beta * (gap - mean[:, None])
        if self.rule == "none":
            return weights
        clipped = np.maximum(weights, 0.0)
        total = fed.sum(clipped)[:, None]
        rescaled = np.where(total > 0, clipped / np.where(total > 0, total, 1), fed.shares)
        return np.where((weights < 0).any(1, keepdims=True), rescaled, weights)


def group_sizes(metric: str, cells: np.ndarray) -> np.ndarray:
    """Rows behind the metric's two rates, [..., a]: those with y = 1 for EOD, all for SPD; cells [..., a, y]."""
    return cells[..., 1] if metric == "eod" else cells.sum(-1)


def global_component(metric: str, counts: np.ndarray, statistics: np.ndarray) -> np.ndarray:
    """m_k of Eq. 7 (EOD) and Eq. 10 (SPD), [run, client]; their sum over clients is the global metric.

    n_k/n * P(yhat=1 | a, y=1, k) * P(a, y=1 | k) / P(a, y=1) is this client's number of true positives of group a over
    everybody's positives of that group, so m_k = sum_a (-1)^a TP_k(a) / N(a). A group that nobody has contributes 0.
    """
    favoured = counts[..., 1, 1] if metric == "eod" else counts[..., 1].sum(-1)
    share = favoured / np.where(statistics > 0, statistics, 1)[:, None]
    return share[..., 0] - share[..., 1]


def metric_gap(F_k: np.ndarray, F: np.ndarray, acc_k: np.ndarray, acc: np.ndarray, eta: float = 1.0) -> np.ndarray:
    """Delta_k of Eq. 8: eta |F - F_k| + (1 - eta) |Acc_k - Acc|, or the accuracy gap alone where F or F_k is undefined."""
    accuracy_gap = np.abs(acc_k - acc)
    fairness_gap = np.abs(F - F_k)
    return np.where(np.isnan(fairness_gap), accuracy_gap, eta * np.nan_to_num(fairness_gap) + (1 - eta) * accuracy_gap)
