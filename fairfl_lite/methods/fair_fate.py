"""FAIR-FATE: a momentum of fair updates, that the server trusts more and more (Salazar et al., ICCS 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.fedavg import mean_update
from fairfl_lite.methods.fedval import require_validation, validated
from fairfl_lite.methods.momentum import decayed
from fairfl_lite.methods.settings import require, require_whole

AS_PUBLISHED = ("strict", "normalise", "corrected", "zero_rule", "sp_as_coded", "rounded")


@dataclass(frozen=True)
class FairFate(Method):
    """Algorithm 1. The server scores models on its validation rows, so it sees each client's model by itself.

    lambda0, rho, cap : lambda_t = min(cap, lambda0 (1 + rho)^t), Eq. 11, cap is the paper's MAX. lambda0 = 0 is FedAvg;
        once lambda_t is 1 the model moves by v alone.
    beta0, rounds : beta_t of Eq. 8, which is 0 in the last round T = rounds. beta0 = 0 makes v the fair update.

    What the published code does and Algorithm 1 does not say (FairFate.published sets all six):
    strict : a client is fair if F_k > F instead of F_k >= F.
    normalise : first, F and the F_k of a round become (F - min) / (max - min) over server and participants, all 0 if
        they are equal; selection and weights use these.
    corrected : v / (1 - beta_t^t) is what moves the model; v itself goes on uncorrected.
    zero_rule, sp_as_coded, rounded : see metrics.fairness.

    Left open by the paper: an undefined F counts as 0. Without a fair client, or if the fair ones all have F_k = 0 and
    Eq. 7 is 0/0, alpha_F = 0 and the momentum still decays.
    """

    must_see = "every client's model, to score it on the validation rows"

    metric: Literal["sp", "eo", "eqo"] = "sp"
    lambda0: float = 0.1
    rho: float = 0.04
    cap: float = 0.9
    beta0: float = 0.9
    rounds: int = 100
    strict: bool = False
    normalise: bool = False
    corrected: bool = False
    zero_rule: bool = False
    sp_as_coded: bool = False
    rounded: bool = False
    name: str = "fair-fate"

    @classmethod
    def published(cls, metric: Literal["sp", "eo", "eqo"] = "sp", **settings: Any) -> FairFate:
        """As the published code does it; a flag among `settings` undoes one difference."""
        return cls(metric, **{**dict.fromkeys(AS_PUBLISHED, True), **settings})

    def __post_init__(self) -> None:
        choose(self.metric, metrics.FAIRNESS, "fairness metric")
        require("lambda0", self.lambda0, 0, 1)
        require("rho", self.rho, 0)
        require("cap", self.cap, 0, 1)
        require("beta0", self.beta0, 0, 1, below=True)
        require_whole("rounds", self.rounds)

    async def start(self, fed: OneFederation) -> State:
        require_validation(fed)
        return State(fed.init_params(), {"v": np.zeros(fed.model.size)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        theta, clients = state.params, fed.sample_clients(t)
        local = await fed.train(theta, clients, t)
        models = np.concatenate([theta[None], local])
        scores = await validated(fed, models, self.metric, self.zero_rule, self.sp_as_coded, self.rounded)
        F, F_k = scores[0], scores[1:]

        fair, weights = self.fair_share(F, F_k)
        alpha_F = np.einsum("k,kp->p", weights, np.subtract(local, theta, dtype=np.float64))  # Eq. 7
        alpha_N = mean_update(fed, theta, local, clients)  # Eq. 6

        beta = decayed(self.beta0, t, self.rounds)  # Eq. 8
        v = beta * state["v"] + (1 - beta) * alpha_F  # Eq. 9
        lambda_t = self.trust(t)  # Eq. 11
        moved = v / (1 - beta**t) if self.corrected else v
        params = theta + lambda_t * moved + (1 - lambda_t) * alpha_N  # Eq. 10

        memory = {"v": v, "fair": fed.by_client(fair, clients, False), "F": F, "F_clients": fed.by_client(F_k, clients, np.nan)}
        return State(params.astype(theta.dtype), {**memory, "lambda": np.float64(lambda_t), "beta": np.float64(beta)})

    def fair_share(self, F: float, F_k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lines 7-9: who is fair, and F_k / F_total, both [client]; F is the server's."""
        if self.normalise:
            low, high = min(F, F_k.min()), max(F, F_k.max())
            span = high - low or 1.0
            F, F_k = (F - low) / span, (F_k - low) / span
        fair = F_k > F if self.strict else F_k >= F
        kept = F_k * fair
        return fair, kept / (kept.sum() or 1.0)

    def trust(self, t: int) -> float:
        """lambda_t of Eq. 11."""
        return min(self.cap, self.lambda0 * (1 + self.rho) ** t)
