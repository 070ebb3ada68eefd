"""FAIR-FATE: a momentum of fair updates, that the server trusts more and more (Salazar et al., ICCS 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit

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
    """FAIR-FATE: a momentum of fair updates, which the server trusts more and more (Salazar et al., ICCS 2023).

    Algorithm 1. The server scores models on its validation rows, so it sees each client's model by itself. The paper leaves
    open what happens without a fair client, or if the fair ones all have F_k = 0 and Eq. 7 is 0/0: here alpha_F = 0 then, and
    the momentum still decays. An undefined F counts as 0.

    Parameters
    ----------
    metric : {"sp", "eo", "eqo"}
        The fairness F, see `fairfl_lite.metrics.fairness`.
    lambda0, rho, cap : float
        ``lambda_t = min(cap, lambda0 (1 + rho)^t)``, Eq. 11, where cap is the paper's MAX. ``lambda0=0`` is FedAvg; once
        lambda_t is 1 the model moves by v alone.
    beta0 : float
        The momentum beta_t of Eq. 8 begins here. ``beta0=0`` makes v the fair update.
    rounds : int
        T of Eq. 8; beta_t is 0 in this last round.
    strict : bool
        A client is fair if F_k > F instead of F_k >= F. This and the following five are what the published code does and
        Algorithm 1 does not say; `FairFate.published` sets all six.
    normalise : bool
        First, F and the F_k of a round become ``(F - min) / (max - min)`` over server and participants, all 0 if they are
        equal; selection and weights use these.
    corrected : bool
        ``v / (1 - beta_t^t)`` is what moves the model; v itself goes on uncorrected.
    zero_rule, sp_as_coded, rounded : bool
        See `fairfl_lite.metrics.fairness`.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FairFate, Federation, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), local, validation=0.25, central=True)
    >>> fed.run(FairFate("eo", rounds=5), rounds=5, remember=["lambda"]).memory["lambda"][0].round(3)
    array([0.104, 0.108, 0.112, 0.117, 0.122])
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
        """The method as the published code does it; a flag among `settings` undoes one difference.

        Parameters
        ----------
        metric : {"sp", "eo", "eqo"}
            The fairness F.
        **settings
            Other arguments of the class.

        Returns
        -------
        FairFate

        Examples
        --------
        >>> FairFate.published("eo", rounded=False).strict
        True
        """
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
        alpha_N = mean_update(fed, theta, local, clients)  # Eq. 6
        beta, lambda_t = decayed(self.beta0, t, self.rounds), self.trust(t)  # Eq. 8, 11
        correction = 1 - beta**t if self.corrected else 1.0
        v, params = moved(theta, local, weights, alpha_N, state["v"], beta, lambda_t, correction)

        memory = {"v": v, "fair": fed.by_client(fair, clients, False), "F": F, "F_clients": fed.by_client(F_k, clients, np.nan)}
        return State(params, {**memory, "lambda": np.float64(lambda_t), "beta": np.float64(beta)})

    def fair_share(self, F: float, F_k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lines 7-9: who is fair, and F_k / F_total, both [client]; F is the server's."""
        fair, kept = fair_scores(F, F_k, self.normalise, self.strict)
        return fair, kept / (kept.sum() or 1.0)

    def trust(self, t: int) -> float:
        """How much the server trusts the fair momentum in a round, lambda_t of Eq. 11.

        Parameters
        ----------
        t : int
            The number of the round, from 1.

        Returns
        -------
        float

        Examples
        --------
        >>> [round(FairFate(lambda0=0.5, rho=0.5).trust(t), 2) for t in (1, 2, 3)]
        [0.75, 0.9, 0.9]
        """
        return min(self.cap, self.lambda0 * (1 + self.rho) ** t)


@njit(cache=True)
def fair_scores(F: float, F_k: np.ndarray, normalise: bool, strict: bool) -> tuple[np.ndarray, np.ndarray]:
    """Line 8: who is fair, and the scores that count, F_k of the fair and 0 of the others."""
    if normalise:
        low, high = min(F, F_k.min()), max(F, F_k.max())
        span = high - low if high > low else 1.0
        F, F_k = (F - low) / span, (F_k - low) / span
    fair = F_k > F if strict else F_k >= F
    return fair, F_k * fair


@njit(cache=True)
def moved(theta: np.ndarray, local: np.ndarray, weights: np.ndarray, alpha_N: np.ndarray, v: np.ndarray, beta: float,
          lambda_t: float, correction: float) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Eq. 7, 9 and 10: the momentum, and the model that it moves, in double precision as far as the model's own."""
    alpha_F = np.zeros(theta.size)
    for k in range(len(local)):
        alpha_F += weights[k] * (local[k].astype(np.float64) - theta)  # Eq. 7
    v = beta * v + (1 - beta) * alpha_F  # Eq. 9
    return v, (theta + lambda_t * (v / correction) + (1 - lambda_t) * alpha_N).astype(theta.dtype)  # Eq. 10
