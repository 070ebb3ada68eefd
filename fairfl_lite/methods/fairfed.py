"""FairFed: clients weigh more where the model is as fair as it is globally (Ezzeldin et al., AAAI 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.clients.debias import Debias, require_debias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class FairFed(Method):
    """FairFed: clients weigh more where the model is as fair as it is globally (Ezzeldin et al., AAAI 2023).

    Algorithm 1 with the weights of Eq. 8: ``w_k <- w_k - beta (Delta_k - mean Delta)``, where Delta_k is how far the client's
    metric is from the global one. Every client is needed in every round. A client finds its own gap and weight, so the server
    needs sums alone. Rule "exp" is the exception: the smallest gap is taken off all of them, so that not every exponential is
    0, and a sum does not tell it.

    Parameters
    ----------
    beta : float
        Fairness budget. ``beta=0`` is FedAvg, bit for bit.
    eta : float
        Share of the fairness gap in Delta_k. ``eta=1`` is Eq. 6; ``eta=0`` looks at accuracy alone (uniform accuracy).
    metric : {"eod", "spd"}
        Equal opportunity difference (Eq. 7) or statistical parity difference (Eq. 10).
    rule : {"clip", "none", "exp"}
        What happens to weights that leave [0, 1], on which the paper is silent. "clip" sets negative weights to 0,
        normalises, and carries that forward (data shares where nothing is left); "none" is the printed recursion; "exp" is
        the first preprint's rule, ``(n_k / n) exp(-beta gap)``, which has no memory and is always positive.
    debias : Debias
        What clients do to their rows before they train.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Debias, FairFed, FedAvg, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([FedAvg(Debias("local")), FairFed(beta=0)], rounds=3)
    >>> bool((runs["fedavg"].state.params == runs["fairfed"].state.params).all())
    True
    >>> fed.run(FairFed(beta=1), rounds=3, remember=["weights"]).memory["weights"][0, -1].round(2)
    array([0.18, 0.82])
    """

    beta: float = 1.0
    eta: float = 1.0
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

    async def start(self, fed: OneFederation) -> State:
        if fed.participants:
            raise FairFLError("FairFed needs every client in every round: make the federation with participants=0.")
        clients = fed.all_clients
        counts = await fed.group_label_counts(clients)
        metrics.binary(counts[..., None], f"FairFed's {self.metric}")
        statistics = fed.sum(group_sizes(self.metric, counts))
        return State(fed.init_params(), {"weights": fed.by_client(fed.shares(clients), clients), "statistics": statistics})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, S = fed.sample_clients(t), state["statistics"]
        counts = await fed.confusion(state.params, clients)
        F_k, acc_k = metrics.MODEL[self.metric](counts), metrics.accuracy(counts)

        component = global_component(self.metric, counts, S)  # m_k, Eq. 7
        F, acc = fed.sum(np.stack([component, fed.shares(clients) * acc_k], axis=1))
        F = F if (S > 0).all() else np.nan
        gap = metric_gap(F_k, F, acc_k, acc, self.eta)
        mean = fed.sum(gap / len(clients))

        weights = self.update(fed, state["weights"][clients], gap, mean, fed.shares(clients))
        rows = await self.debias.training_rows(fed, clients)
        local = await fed.train(state.params, clients, t, rows=rows)
        found = {"weights": fed.by_client(weights, clients), "gap": fed.by_client(gap, clients, np.nan), "F": F}
        return State(fed.average(local, weights), {**state.memory, **found})

    def update(self, fed: OneFederation, weights: np.ndarray, gap: np.ndarray, mean: float | np.ndarray, shares: np.ndarray
               ) -> np.ndarray:  # fmt: skip
        """Third line of Eq. 6 and 8, and the rule for what it leaves open: [client]; shares are n_k / n."""
        if self.rule == "exp":
            # The smallest gap is taken off all, which changes no share and keeps the largest from vanishing.
            weights = shares * np.exp(-self.beta * (gap - gap.min()))
            return weights / fed.sum(weights)
        weights = weights - self.beta * (gap - mean)
        if self.rule == "none" or not fed.sum(weights < 0):
            return weights
        clipped = np.maximum(weights, 0.0)
        total = fed.sum(clipped)
        return clipped / total if total > 0 else shares


def group_sizes(metric: str, census: np.ndarray) -> np.ndarray:
    """Rows behind the metric's two rates, [..., a]: those with y = 1 for EOD, all for SPD; census [..., a, y]."""
    return census[..., 1] if metric == "eod" else census.sum(-1)


def global_component(metric: str, counts: np.ndarray, statistics: np.ndarray) -> np.ndarray:
    """m_k of Eq. 7 (EOD) and Eq. 10 (SPD), [client]; their sum over clients is the global metric.

    n_k/n * P(yhat=1 | a, y=1, k) * P(a, y=1 | k) / P(a, y=1) is this client's number of true positives of group a over
    everybody's positives of that group, so m_k = sum_a (-1)^a TP_k(a) / N(a). A group that nobody has contributes 0.
    """
    favoured = counts[..., 1, 1] if metric == "eod" else counts[..., 1].sum(-1)
    share = favoured / np.where(statistics > 0, statistics, 1)
    return share[..., 0] - share[..., 1]


def metric_gap(F_k: np.ndarray, F: float, acc_k: np.ndarray, acc: float, eta: float = 1.0) -> np.ndarray:
    """Delta_k of Eq. 8: eta |F - F_k| + (1 - eta) |Acc_k - Acc|, or the accuracy gap alone where F or F_k is undefined."""
    accuracy_gap = np.abs(acc_k - acc)
    fairness_gap = np.abs(F - F_k)
    return np.where(np.isnan(fairness_gap), accuracy_gap, eta * np.nan_to_num(fairness_gap) + (1 - eta) * accuracy_gap)
