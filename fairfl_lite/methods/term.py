"""TERM: clients with a larger loss weigh more, exponentially (Li, Beirami, Sanjabi and Smith, ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.errors import choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class TERM(Method):
    """TERM: clients with a larger loss weigh more, exponentially (Li, Beirami, Sanjabi and Smith, ICLR 2021).

    It minimises the tilted loss ``(1 / t) log sum_k p_k exp(t F_k)``, in which t is the tilt and F_k the mean training loss of
    client k. The gradient of that is a weighted mean of the clients' gradients, so ``theta <- sum_k w_k theta_k`` with ``w_k =
    p_k exp(t F_k) / sum_j p_j exp(t F_j)``. F_k is the loss of the model that client k was given. The server takes the largest
    exponent off all of them before it weighs, which changes no weight and keeps exp from leaving the numbers.

    The released code differs in three points. It keeps a moving estimate of the mean of exp(t F_k), which starts at 0, so that
    the weights of its first round add up to 2; here they add up to 1 in each round. It divides by the number of clients once
    more. And it can also tilt the rows inside a client, which is left out here.

    Parameters
    ----------
    tilt : float
        How strongly the loss of a client decides what it weighs. ``tilt=0`` is FedAvg, bit for bit. The larger it is, the
        nearer the weights are to the client with the largest loss alone; a negative one prefers clients with a small loss.
    prior : {"rows", "uniform"}
        What p_k is: the client's share of the rows, or the same for all.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import TERM, ClientTraining, FedAvg, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([FedAvg(), TERM(tilt=0)], rounds=3)
    >>> bool((runs["fedavg"].state.params == runs["term"].state.params).all())
    True
    """

    must_see = "the largest loss of all clients"

    tilt: float = 1.0
    prior: Literal["rows", "uniform"] = "rows"
    name: str = "term"

    def __post_init__(self) -> None:
        require("tilt", abs(self.tilt), 0)
        choose(self.prior, ("rows", "uniform"), "prior of TERM named")

    async def start(self, fed: OneFederation) -> State:
        return State(fed.init_params(), {"weights": np.zeros(fed.n)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        losses = await fed.losses(state.params, clients)
        prior = fed.shares(clients) if self.prior == "rows" else np.full(len(clients), 1 / len(clients))
        weights = tilted(losses, prior, self.tilt)
        local = await fed.train(state.params, clients, t)
        return State(fed.average(local, weights), {"weights": fed.by_client(weights / weights.sum(), clients)})


def tilted(losses: np.ndarray, prior: np.ndarray, tilt: float) -> np.ndarray:
    """p_k exp(t F_k) up to a factor that all clients share."""
    with np.errstate(invalid="ignore"):  # a run that diverged and is kept has no loss
        exponents = tilt * losses
        return prior * np.exp(exponents - exponents.max())
