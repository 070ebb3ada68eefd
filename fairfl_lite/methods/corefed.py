"""CoreFed: agents weigh what they have to gain in proportion (Chaudhury et al., 2022), RankFF's second baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, State


@dataclass(frozen=True)
class CoreFed:
    """Maximise sum_i log u_i (Chaudhury et al., 2022): agents train, and weigh 1 / u_i(theta) in the server's step.

    scaling : "normalised" is theta + sum_i w_i (theta_i - theta) / sum_i w_i, w_i = 1 / u_i; "sum" divides by the number of
    agents instead, so the step is longer where utilities are below 1. u_i = M - loss_i(theta) is taken as at least `floor`,
    since a model that has learnt nothing has a negative one. With equal utilities "normalised" is FedAvg of equal agents.
    """

    scaling: Literal["normalised", "sum"] = "normalised"
    M: float = 1.0
    floor: float = 0.05
    on: str = "train"
    name: str = "corefed"

    def __post_init__(self) -> None:
        choose(self.scaling, ("normalised", "sum"), "CoreFed scaling named")
        if not self.floor > 0:
            raise FairFLError(f"CoreFed divides by utilities: floor must be above 0, not {self.floor}.")

    def start(self, fed: Federation) -> State:
        return State(fed.start(), {"weights": fed.shares})

    def round(self, fed: Federation, state: State, t: int) -> State:
        utility = self.M - fed.losses(state.params, self.on)  # type: ignore[arg-type]
        weights = 1 / np.maximum(utility, self.floor)
        whole = weights.sum(1) if self.scaling == "normalised" else np.full(len(weights), float(weights.shape[1]))
        update = weights[..., None] * (fed.train(state.params, t) - state.params[:, None])
        params = (state.params + fed.sum(update) / whole[:, None]).astype(state.params.dtype)
        return State(params, {"weights": weights})
