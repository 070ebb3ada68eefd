"""FairFed: clients weigh more where the model is as fair as it is globally (Ezzeldin et al., AAAI 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.clients.debias import Debias, require_debias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State, gather, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require


@dataclass(frozen=True, eq=False)
class FairFed(Method):
    """Algorithm 1 with the weights of Eq. 8.

    beta : fairness budget. beta = 0 is FedAvg, bit for bit.
    eta : eta = 1 is Eq. 6; eta = 0 looks at accuracy alone (uniform accuracy).
    beta and eta are numbers, or have one value per run.
    metric : "eod" (Eq. 7) or "spd" (Eq. 10).
    rule : what happens to weights that leave [0, 1], on which the paper is silent. "clip" sets negative weights to 0,
        normalises, and carries that forward (data shares where nothing is left); "none" is the printed recursion; "exp" is
        the first preprint's rule, (n_k / n) exp(-beta gap), which has no memory and is always positive.

    A client finds its own gap and weight, so the server needs sums alone. Rule "exp" is the exception: the smallest gap is taken
    off all of them, so that not every exponential is 0, and a sum does not tell it.
    """

    beta: PerRun = 1.0
    eta: PerRun = 1.0
    metric: Literal["eod", "spd"] = "eod"
    rule: Literal["clip", "none", "exp"] = "clip"
    debias: Debias = Debias("local")
    name: str = "fairfed"

    def __post_init__(self) -> None:
        require_debias(self.debias)
        require("beta", self.beta, 0)
        require("eta", self.eta, 0, 1)
        if self.metric not in ("eod", "spd") or self.rule not in ("clip", "none", "exp"):
            raise FairFLError(f"FairFed tracks eod or spd with rule clip, none or exp, not {self.metric!r}, {self.rule!r}.")

    @property
    def must_see(self) -> str:  # type: ignore[override]
        return "the smallest gap of all clients for rule='exp'" if self.rule == "exp" else ""

    def start(self, fed: Federation) -> State:
        if fed.participants:
            raise FairFLError("FairFed needs every client in every round: make the federation with participants=0.")
        for name in ("beta", "eta"):
            per_run(fed, name, getattr(self, name))
        census, who = fed.shards["train"].census(), fed.everybody()
        metrics.binary(census[..., None], f"FairFed's {self.metric}")
        sizes = np.take_along_axis(group_sizes(self.metric, census), who[..., None], 1) * (who >= 0)[..., None]
        return State(fed.start(), {"weights": fed.shares(), "statistics": fed.sum(sizes)})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who, S = fed.who(t), state["statistics"]
        counts = fed.report(state.params, who=who)
        F_k, acc_k = metrics.MODEL[self.metric](counts), metrics.accuracy(counts)

        component = global_component(self.metric, counts, S)  # m_k, Eq. 7
        shared_acc = fed.shares(who) * np.nan_to_num(acc_k)
        F, acc = fed.sum(np.stack([component, shared_acc], axis=2)).T[..., None]
        F = np.where((S > 0).all(1, keepdims=True), F, np.nan)

        acc_k, eta = np.where(np.isnan(acc_k), acc, acc_k), per_run(fed, "eta", self.eta)
        gap = np.where(who >= 0, metric_gap(F_k, F, acc_k, acc, eta), 0.0)
        mean = fed.sum(gap / (who >= 0).sum(1, keepdims=True))

        before = gather(state["weights"], who)
        weights = self.update(fed, before, gap, mean, fed.shares(who))
        local = fed.train(state.params, t, who=who, on=self.debias.rows(fed))
        found = {
            "weights": scatter(weights, who, fed.clients, 0.0),
            "gap": scatter(gap, who, fed.clients, np.nan),
            "F": F[:, 0],
        }
        return State(fed.average(local, weights), {**state.memory, **found})

    def update(self, fed: Federation, weights: np.ndarray, gap: np.ndarray, mean: np.ndarray, shares: np.ndarray | None = None
               ) -> np.ndarray:  # fmt: skip
        """Third line of Eq. 6 and 8, and the rule for what it leaves open: [run, client]; shares are n_k / n, those of all
        clients if None. Who has no share is not there and has no weight."""
        beta, shares = per_run(fed, "beta", self.beta), fed.shares() if shares is None else shares
        there = shares > 0
        if self.rule == "exp":
            # The smallest gap is taken off all, which changes no share and keeps the largest from vanishing.
            least = np.where(there, gap, np.inf).min(1, keepdims=True)
            weights = shares * np.exp(-beta * np.where(there, gap - least, 0.0))
            return weights / fed.sum(weights)[:, None]
        weights = np.where(there, weights - beta * (gap - mean[:, None]), 0.0)
        if self.rule == "none":
            return weights
        clipped = np.maximum(weights, 0.0)
        total, below = fed.sum(clipped)[:, None], fed.sum(weights < 0)[:, None]
        rescaled = np.where(total > 0, clipped / np.where(total > 0, total, 1), shares)
        return np.where(below > 0, rescaled, weights)


def group_sizes(metric: str, census: np.ndarray) -> np.ndarray:
    """Rows behind the metric's two rates, [..., a]: those with y = 1 for EOD, all for SPD; census [..., a, y]."""
    return census[..., 1] if metric == "eod" else census.sum(-1)


def global_component(metric: str, counts: np.ndarray, statistics: np.ndarray) -> np.ndarray:
    """m_k of Eq. 7 (EOD) and Eq. 10 (SPD), [run, client]; their sum over clients is the global metric.

    n_k/n * P(yhat=1 | a, y=1, k) * P(a, y=1 | k) / P(a, y=1) is this client's number of true positives of group a over
    everybody's positives of that group, so m_k = sum_a (-1)^a TP_k(a) / N(a). A group that nobody has contributes 0.
    """
    favoured = counts[..., 1, 1] if metric == "eod" else counts[..., 1].sum(-1)
    share = favoured / np.where(statistics > 0, statistics, 1)[:, None]
    return share[..., 0] - share[..., 1]


def metric_gap(F_k: np.ndarray, F: np.ndarray, acc_k: np.ndarray, acc: np.ndarray, eta: float | np.ndarray = 1.0) -> np.ndarray:
    """Delta_k of Eq. 8: eta |F - F_k| + (1 - eta) |Acc_k - Acc|, or the accuracy gap alone where F or F_k is undefined."""
    accuracy_gap = np.abs(acc_k - acc)
    fairness_gap = np.abs(F - F_k)
    return np.where(np.isnan(fairness_gap), accuracy_gap, eta * np.nan_to_num(fairness_gap) + (1 - eta) * accuracy_gap)
