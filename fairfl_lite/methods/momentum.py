"""Momentum at the server: FedMom keeps it (Liu et al., 2020), FedDemon lets it decay (Fernandes et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State
from fairfl_lite.methods.fedavg import mean_update
from fairfl_lite.methods.settings import PerRun, per_run, require, require_whole


@dataclass(frozen=True, eq=False)
class FedMom(Method):
    """v <- beta v + (1 - beta) alpha_N, theta <- theta + v / (1 - beta^t), as the baseline of FAIR-FATE has it.

    beta : a number, or one per run. beta = 0 is FedAvg.
    """

    beta: PerRun = 0.9
    name: str = "fedmom"

    def __post_init__(self) -> None:
        require("beta", self.beta, 0, 1, below=True)

    def start(self, fed: Federation) -> State:
        per_run(fed, "beta", self.beta)
        return State(fed.start(), {"v": np.zeros((len(fed.seeds), fed.model.size))})

    def round(self, fed: Federation, state: State, t: int) -> State:
        return momentum_round(fed, state, t, per_run(fed, "beta", self.beta))


@dataclass(frozen=True, eq=False)
class FedDemon(Method):
    """FedMom with beta_t of Eq. 8, which falls from beta0 to 0 in `rounds` rounds (T).

    beta0 : a number, or one per run. beta0 = 0 is FedAvg; the last round always has v = alpha_N.
    """

    beta0: PerRun = 0.9
    rounds: int = 100
    name: str = "feddemon"

    def __post_init__(self) -> None:
        require("beta0", self.beta0, 0, 1, below=True)
        require_whole("rounds", self.rounds)

    def start(self, fed: Federation) -> State:
        per_run(fed, "beta0", self.beta0)
        return State(fed.start(), {"v": np.zeros((len(fed.seeds), fed.model.size))})

    def round(self, fed: Federation, state: State, t: int) -> State:
        return momentum_round(fed, state, t, decayed(per_run(fed, "beta0", self.beta0), t, self.rounds))


def momentum_round(fed: Federation, state: State, t: int, beta: np.ndarray) -> State:
    """One round of momentum with beta [run, 1]; v in memory is the one before the correction."""
    who = fed.who(t)
    local = fed.train(state.params, t, who=who)
    v = beta * state["v"] + (1 - beta) * mean_update(fed, state.params, local, who)
    params = state.params + v / (1 - beta**t)
    return State(params.astype(state.params.dtype), {"v": v, "beta": beta[:, 0]})


def decayed(beta0: np.ndarray, t: int, rounds: int) -> np.ndarray:
    """beta_t of Eq. 8, beta0 (1 - t/T) / ((1 - beta0) + beta0 (1 - t/T)), for t = 1..T; 0 at t = T."""
    if t > rounds:
        raise FairFLError(f"The momentum decays over rounds={rounds}, so there is no round {t}: set rounds higher.")
    left = 1 - t / rounds
    return beta0 * left / ((1 - beta0) + beta0 * left)
