"""FedAvg with FairReg: gradient descent on losses plus a penalty on every client's bias, FCFL's and EFFL's simplest baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.surrogates import Kind, LossAndBias, SoftBias
from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require


@dataclass(frozen=True, eq=False)
class FairReg(Method):
    """theta <- theta - lr mean_k grad (l_k + mu f_k) over those who take part, who all weigh alike.

    l_k is the mean loss of client k and f_k its soft bias, so one round is one full-batch step on the linear scalarised
    objective. FCFL's code has sums in place of means, and for f_k the gap |r_0 - r_1| of the two groups' rates, which is twice
    ours: its weight of 1 is mu = 2 here, with lr times the number of clients. It also decays the weights by 1e-4, as FCFL does.
    lr, mu : numbers, or one per run. mu = 0 is gradient descent on the plain mean of the clients' losses. bias : the metric, see
    SoftBias; a client with fewer than two groups has f_k = 0.
    """

    mu: PerRun = 1.0
    lr: PerRun = 0.1
    bias: Kind = "tpsd"
    name: str = "fairreg"

    def __post_init__(self) -> None:
        SoftBias(self.bias)
        require("mu", self.mu, 0)
        require("lr", self.lr, 0, above=True)

    def start(self, fed: Federation) -> State:
        for name in ("mu", "lr"):
            per_run(fed, name, getattr(self, name))
        return State(fed.start(), {"bias": np.full((len(fed.seeds), fed.clients), np.nan)})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who, mu, lr = fed.who(t), per_run(fed, "mu", self.mu), per_run(fed, "lr", self.lr)
        found, slopes = fed.gradient(state.params, LossAndBias(SoftBias(self.bias)), who=who, t=t)
        slope = slopes[:, :, 0] + mu[..., None] * slopes[:, :, 1]
        step = fed.sum(slope, (who >= 0) / (who >= 0).sum(1, keepdims=True))
        params = (state.params - lr * step).astype(state.params.dtype)
        return State(params, {"bias": scatter(found[..., 1], who, fed.clients, np.nan)})
