"""Momentum at the server: FedMom keeps it (Liu et al., 2020), FedDemon lets it decay (Fernandes et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, State
from fairfl_lite.methods.fedavg import mean_update

Setting = float | Sequence[float] | np.ndarray  # one number, or one per run


@dataclass(frozen=True, eq=False)
class FedMom:
    """v <- beta v + (1 - beta) alpha_N, theta <- theta + v / (1 - beta^t), as the baseline of FAIR-FATE has it.

    beta : a number, or one per run. beta = 0 is FedAvg.
    """

    beta: Setting = 0.9
    name: str = "fedmom"

    def __post_init__(self) -> None:
        require("beta", self.beta, 0, 1, below=True)

    def start(self, fed: Federation) -> State:
        per_run(fed, "beta", self.beta)
        return State(fed.start(), {"v": np.zeros((len(fed.seeds), fed.model.size))})

    def round(self, fed: Federation, state: State, t: int) -> State:
        return momentum_round(fed, state, t, per_run(fed, "beta", self.beta))


@dataclass(frozen=True, eq=False)
class FedDemon:
    """FedMom with beta_t of Eq. 8, which falls from beta0 to 0 in `rounds` rounds (T).

    beta0 : a number, or one per run. beta0 = 0 is FedAvg; the last round always has v = alpha_N.
    """

    beta0: Setting = 0.9
    rounds: int = 100
    name: str = "feddemon"

    def __post_init__(self) -> None:
        require("beta0", self.beta0, 0, 1, below=True)
        require_rounds(self.rounds)

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
    return State(params.astype(np.float32), {"v": v, "beta": beta[:, 0]})


def decayed(beta0: np.ndarray, t: int, rounds: int) -> np.ndarray:
    """beta_t of Eq. 8, beta0 (1 - t/T) / ((1 - beta0) + beta0 (1 - t/T)), for t = 1..T; 0 at t = T."""
    if t > rounds:
        raise FairFLError(f"The momentum decays over rounds={rounds}, so there is no round {t}: set rounds higher.")
    left = 1 - t / rounds
    return beta0 * left / ((1 - beta0) + beta0 * left)


def require(name: str, value: Setting, low: float, high: float, *, below: bool = False) -> None:
    """Refuses a setting, or one of its values, outside [low, high] ([low, high) with `below`)."""
    values = np.asarray(value)
    limits = f"at least {low}" + ("" if high == np.inf else f" and {'below' if below else 'at most'} {high}")
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        raise FairFLError(f"{name} must be a number {limits}, or one per run, not {value!r}.")
    good = (values >= low) & ((values < high) if below or high == np.inf else (values <= high))
    if not good.all():
        raise FairFLError(f"{name} must be {limits}, not {np.atleast_1d(values)[~np.atleast_1d(good)][0]}.")


def require_rounds(rounds: int) -> None:
    if not isinstance(rounds, int | np.integer) or rounds < 1:
        raise FairFLError(f"rounds must be a whole number of at least 1, not {rounds!r}.")


def per_run(fed: Federation, name: str, value: Setting) -> np.ndarray:
    """A setting as [run, 1]."""
    values, runs = np.asarray(value, np.float64), len(fed.seeds)
    if values.shape not in ((), (runs,)):
        raise FairFLError(f"{name} has {values.size} values for {runs} runs: give one, or one per run.")
    return np.broadcast_to(values, runs)[:, None]
