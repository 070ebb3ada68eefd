"""FAIR-FATE: a momentum of fair updates, that the server trusts more and more (Salazar et al., ICCS 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import choose
from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.fedavg import mean_update
from fairfl_lite.methods.fedval import require_validation, validated
from fairfl_lite.methods.momentum import decayed
from fairfl_lite.methods.settings import PerRun, per_run, require, require_whole

AS_PUBLISHED = ("strict", "normalise", "corrected", "zero_rule", "sp_as_coded", "rounded")


@dataclass(frozen=True, eq=False)
class FairFate(Method):
    """Algorithm 1. The server scores models on its validation rows, so it sees each client's model by itself.

    lambda0, rho, cap : lambda_t = min(cap, lambda0 (1 + rho)^t), Eq. 11, cap is the paper's MAX. lambda0 = 0 is FedAvg;
        once lambda_t is 1 the model moves by v alone.
    beta0, rounds : beta_t of Eq. 8, which is 0 in the last round T = rounds. beta0 = 0 makes v the fair update.
    lambda0, rho, cap and beta0 are numbers, or have one value per run.

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
    lambda0: PerRun = 0.1
    rho: PerRun = 0.04
    cap: PerRun = 0.9
    beta0: PerRun = 0.9
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

    def start(self, fed: Federation) -> State:
        require_validation(fed)
        for name in ("lambda0", "rho", "cap", "beta0"):
            per_run(fed, name, getattr(self, name))
        return State(fed.start(), {"v": np.zeros((len(fed.seeds), fed.model.size))})

    def round(self, fed: Federation, state: State, t: int) -> State:
        theta, who = state.params, fed.who(t)
        local = fed.train(theta, t, who=who)
        F = validated(fed, np.concatenate([theta[:, None], local], axis=1), self.metric, zero_rule=self.zero_rule,
                      sp_as_coded=self.sp_as_coded, rounded=self.rounded)  # fmt: skip

        fair, weights = self.fair_share(F[:, :1], F[:, 1:], who >= 0)
        alpha_F = np.einsum("rk,rkp->rp", weights, local.astype(np.float64) - theta[:, None])  # Eq. 7
        alpha_N = mean_update(fed, theta, local, who)  # Eq. 6

        beta = decayed(per_run(fed, "beta0", self.beta0), t, self.rounds)  # Eq. 8
        v = beta * state["v"] + (1 - beta) * alpha_F  # Eq. 9
        lambda_t = self.trust(fed, t)  # Eq. 11
        moved = v / (1 - beta**t) if self.corrected else v
        params = theta + lambda_t * moved + (1 - lambda_t) * alpha_N  # Eq. 10

        F_clients = scatter(F[:, 1:], who, fed.clients, np.nan)
        memory = {"v": v, "fair": scatter(fair, who, fed.clients, False), "F": F[:, 0], "F_clients": F_clients}
        return State(params.astype(theta.dtype), {**memory, "lambda": lambda_t[:, 0], "beta": beta[:, 0]})

    def fair_share(self, F: np.ndarray, F_k: np.ndarray, there: np.ndarray | bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Lines 7-9: who is fair, and F_k / F_total, both [run, participant]; F [run, 1] is the server's, and `there` are the
        places that somebody takes (a place that nobody takes holds the server's own model)."""
        if self.normalise:
            low, high = np.minimum(F, F_k.min(1, keepdims=True)), np.maximum(F, F_k.max(1, keepdims=True))
            span = np.where(high > low, high - low, 1.0)
            F, F_k = (F - low) / span, (F_k - low) / span
        fair = (F_k > F if self.strict else F_k >= F) & there
        kept = np.where(fair, F_k, 0.0)
        F_total = kept.sum(1, keepdims=True)
        return fair, kept / np.where(F_total > 0, F_total, 1.0)

    def trust(self, fed: Federation, t: int) -> np.ndarray:
        """lambda_t of Eq. 11, [run, 1]."""
        lambda0, rho, cap = (per_run(fed, name, getattr(self, name)) for name in ("lambda0", "rho", "cap"))
        return np.minimum(cap, lambda0 * (1 + rho) ** t)
