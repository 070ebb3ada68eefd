"""CoreFed: agents weigh what they have to gain in proportion (Chaudhury et al., 2022), RankFF's second baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.errors import choose
from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require


@dataclass(frozen=True, eq=False)
class CoreFed(Method):
    """Maximise sum_i log u_i (Chaudhury et al., 2022): agents train, and weigh 1 / u_i(theta) in the server's step.

    scaling : "normalised" is theta + sum_i w_i (theta_i - theta) / sum_i w_i, w_i = 1 / u_i; "sum" divides by the number of
    agents instead, so the step is longer where utilities are below 1. u_i = M - loss_i(theta) is taken as at least `floor`,
    since a model that has learnt nothing has a negative one. With equal utilities "normalised" is FedAvg of equal agents.
    M and floor are numbers, or have one value per run. An agent finds its own weight, so the server needs sums alone.
    """

    scaling: Literal["normalised", "sum"] = "normalised"
    M: PerRun = 1.0
    floor: PerRun = 0.05
    on: str = "train"
    name: str = "corefed"

    def __post_init__(self) -> None:
        choose(self.scaling, ("normalised", "sum"), "CoreFed scaling named")
        require("M", self.M, -np.inf)
        require("floor", self.floor, 0, above=True)

    def start(self, fed: Federation) -> State:
        fed.require_rows(self.on)
        return State(fed.start(), {"weights": fed.shares()})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        utility = per_run(fed, "M", self.M) - fed.losses(state.params, self.on, who=who)
        weights = np.where(who >= 0, 1 / np.maximum(utility, per_run(fed, "floor", self.floor)), 0.0)
        whole = fed.sum(weights) if self.scaling == "normalised" else (who >= 0).sum(1).astype(float)
        update = fed.train(state.params, t, who=who) - state.params[:, None]
        params = (state.params + fed.sum(update, weights) / whole[:, None]).astype(state.params.dtype)
        return State(params, {"weights": scatter(weights, who, fed.clients, 0.0)})
