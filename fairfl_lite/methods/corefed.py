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
    """Maximise sum_i log u_i (Chaudhury et al., 2022): agents train, and weigh 1 / u_i(theta) in the server's step.

    scaling : "normalised" is theta + sum_i w_i (theta_i - theta) / sum_i w_i, w_i = 1 / u_i; "sum" divides by the number of
    agents instead, so the step is longer where utilities are below 1. u_i = M - loss_i(theta) is taken as at least `floor`,
    since a model that has learnt nothing has a negative one. With equal utilities "normalised" is FedAvg of equal agents.
    An agent finds its own weight, so the server needs sums alone.
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
