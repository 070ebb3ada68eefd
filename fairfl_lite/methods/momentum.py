"""Momentum at the server: FedMom keeps it (Liu et al., 2020), FedDemon lets it decay (Fernandes et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.fedavg import mean_update
from fairfl_lite.methods.settings import require, require_whole


@dataclass(frozen=True)
class FedMom(Method):
    """Federated averaging with momentum at the server, as the baseline of FAIR-FATE has it (Liu et al., 2020).

    ``v <- beta v + (1 - beta) alpha_N``, ``theta <- theta + v / (1 - beta^t)``, where alpha_N is the step of FedAvg.
    ``beta=0`` is FedAvg.

    Parameters
    ----------
    beta : float
        How much of the momentum is kept, at least 0 and below 1.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, FedMom, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> fed.run(FedMom(beta=0.9), rounds=5).values("acc")[:, -1].round(2)
    array([0.73, 0.68])
    """

    beta: float = 0.9
    name: str = "fedmom"

    def __post_init__(self) -> None:
        require("beta", self.beta, 0, 1, below=True)

    async def start(self, fed: OneFederation) -> State:
        return State(fed.init_params(), {"v": np.zeros(fed.model.size)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        return await momentum_round(fed, state, t, self.beta)


@dataclass(frozen=True)
class FedDemon(Method):
    """`FedMom` with a momentum that decays from beta0 to 0 (Fernandes et al., 2021; FAIR-FATE, Eq. 8).

    ``beta_t = beta0 (1 - t/T) / ((1 - beta0) + beta0 (1 - t/T))``, with T = rounds. ``beta0=0`` is FedAvg, and the last round
    always has v = alpha_N.

    Parameters
    ----------
    beta0 : float
        The momentum before the first round, at least 0 and below 1.
    rounds : int
        T, after which the momentum is 0. There is no later round.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, FedDemon, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> fed.run(FedDemon(rounds=5), rounds=5, remember=["beta"]).memory["beta"][0].round(2)
    array([0.88, 0.84, 0.78, 0.64, 0.  ])
    """

    beta0: float = 0.9
    rounds: int = 100
    name: str = "feddemon"

    def __post_init__(self) -> None:
        require("beta0", self.beta0, 0, 1, below=True)
        require_whole("rounds", self.rounds)

    async def start(self, fed: OneFederation) -> State:
        return State(fed.init_params(), {"v": np.zeros(fed.model.size)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        return await momentum_round(fed, state, t, decayed(self.beta0, t, self.rounds))


async def momentum_round(fed: OneFederation, state: State, t: int, beta: float) -> State:
    """One round of momentum; v in memory is the one before the correction."""
    clients = fed.sample_clients(t)
    local = await fed.train(state.params, clients, t)
    v = beta * state["v"] + (1 - beta) * mean_update(fed, state.params, local, clients)
    params = state.params + v / (1 - beta**t)
    return State(params.astype(state.params.dtype), {"v": v, "beta": np.float64(beta)})


def decayed(beta0: float, t: int, rounds: int) -> float:
    """beta_t of Eq. 8, beta0 (1 - t/T) / ((1 - beta0) + beta0 (1 - t/T)), for t = 1..T; 0 at t = T."""
    if t > rounds:
        raise FairFLError(f"The momentum decays over rounds={rounds}, so there is no round {t}: set rounds higher.")
    left = 1 - t / rounds
    return beta0 * left / ((1 - beta0) + beta0 * left)
