"""q-FFL: clients with a larger loss weigh more, by its q-th power (Li et al., ICLR 2020); one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require


@dataclass(frozen=True, eq=False)
class QFFL(Method):
    """q-FedAvg, which minimises sum_k F_k^(q + 1) / (q + 1), F_k the mean training loss of client k.

    theta <- theta - sum_k F_k^q g_k / sum_k h_k, where g_k = L (theta - theta_k) stands for the gradient, L = 1 / rate, and
    h_k = q F_k^(q - 1) |g_k|^2 + L F_k^q bounds the curvature: the larger q, the shorter the step. F_k is that of the model
    that client k was given, and at least 1e-10. Local training by one full batch (epochs=1, batch=0) makes it q-FedSGD.
    L is that of one plain step: with more of them, or with momentum, theta_k is farther away, |g_k|^2 larger, the step shorter.

    q : a number, or one per run. q = 0 is the plain mean of the local models, which is FedAvg where clients hold equally much.
    """

    q: PerRun = 1.0
    name: str = "q-ffl"

    def __post_init__(self) -> None:
        require("q", self.q, 0)

    def start(self, fed: Federation) -> State:
        per_run(fed, "q", self.q)
        if not fed.local.rates(len(fed.seeds), 1).all():
            raise FairFLError("q-FFL divides by the rate of local training: give Local an lr above 0.")
        return State(fed.start(), {"weights": np.zeros((len(fed.seeds), fed.clients))})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who, q = fed.who(t), per_run(fed, "q", self.q)
        L = 1 / fed.local.rates(len(fed.seeds), t)[:, None]
        F = np.where(who >= 0, fed.losses(state.params, who=who), 1.0) + 1e-10
        g = state.params[:, None] - fed.train(state.params, t, who=who).astype(np.float64)
        g *= L[..., None]
        weights = np.where(who >= 0, F**q, 0.0)
        h = np.where(who >= 0, q * F ** (q - 1) * (g**2).sum(2) + L * F**q, 0.0)
        step = fed.sum(g, weights) / fed.sum(h)[:, None]
        shares = weights / weights.sum(1, keepdims=True)
        return State((state.params - step).astype(state.params.dtype), {"weights": scatter(shares, who, fed.clients, 0.0)})
