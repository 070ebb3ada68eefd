"""Local training: clients on their own, the case that a federation has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.federation import Answer, Federation, Method, State


@dataclass(frozen=True)
class LocalTraining(Method):
    """theta_k <- what client k makes of theta_k; nothing is shared but the start. All clients train in every round.

    Memory: "models" [run, client, P], so a large network with many clients is better asked in parts (see `alone`).
    """

    name: str = "local"

    def start(self, fed: Federation) -> State:
        params = fed.start()
        return State(params, {"models": np.repeat(params[:, None], fed.clients, axis=1)})

    def round(self, fed: Federation, state: State, t: int) -> State:
        return State(state.params, {"models": fed.train(state["models"], t)})

    def answer(self, state: State) -> Answer:
        return state["models"]


def alone(fed: Federation, who: np.ndarray, rounds: int) -> np.ndarray:
    """The models of those in `who` after `rounds` rounds of LocalTraining, [run, participant, P]; others are not trained."""
    params = fed.start()
    for t in range(1, rounds + 1):
        params = fed.train(params, t, who=who)
    return params
