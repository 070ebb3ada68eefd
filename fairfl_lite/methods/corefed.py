"""CoreFed: agents weigh what they have to gain in proportion (Chaudhury et al., 2022), RankFF's second baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.errors import choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class CoreFed(Method):
    """CoreFed: agents weigh what they have to gain in proportion (Chaudhury et al., 2022); RankFF's second baseline.

    It maximises ``sum_i log u_i``, ``u_i = M - loss_i(theta)``: agents train, and weigh ``w_i = 1 / u_i(theta)`` in the
    server's step. With equal utilities "normalised" is FedAvg of equal agents. An agent finds its own weight, so the server
    needs sums alone.

    Parameters
    ----------
    scaling : {"normalised", "sum"}
        "normalised" is ``theta + sum_i w_i (theta_i - theta) / sum_i w_i``; "sum" divides by the number of agents instead, so
        the step is longer where utilities are below 1.
    M : float
        Utilities are M - loss.
    floor : float
        A utility is taken as at least this, since a model that has learnt nothing has a negative one.
    on : str
        The part of the data on which utilities are measured.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, CoreFed, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> fed.run(CoreFed(), rounds=5).values("acc")[:, -1].round(2)
    array([0.74, 0.72])
    """

    scaling: Literal["normalised", "sum"] = "normalised"
    M: float = 1.0
    floor: float = 0.05
    on: str = "train"
    name: str = "corefed"

    def __post_init__(self) -> None:
        choose(self.scaling, ("normalised", "sum"), "CoreFed scaling named")
        require("M", self.M, -np.inf)
        require("floor", self.floor, 0, above=True)

    async def start(self, fed: OneFederation) -> State:
        fed.require_rows(self.on)
        return State(fed.init_params(), {"weights": fed.by_client(fed.shares(fed.all_clients), fed.all_clients)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        utility = self.M - await fed.losses(state.params, clients, self.on)
        weights = 1 / np.maximum(utility, self.floor)
        whole = fed.sum(weights) if self.scaling == "normalised" else len(clients)
        update = await fed.train(state.params, clients, t) - state.params
        params = (state.params + fed.sum(update, weights) / whole).astype(state.params.dtype)
        return State(params, {"weights": fed.by_client(weights, clients)})
