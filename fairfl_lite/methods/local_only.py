"""Local training: clients on their own, the case that a federation has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.federation import Answer, Method, OneFederation, State


@dataclass(frozen=True)
class LocalOnly(Method):
    """Local training: clients on their own, the case that a federation has to beat.

    ``theta_k <-`` what client k makes of theta_k; nothing is shared but the start. All clients train in every round, and each
    uses its own model. Memory has "models" of shape (n_clients, n_params), so a large network with many clients is better
    asked in parts, see `trained_alone`.

    Parameters
    ----------
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, LocalOnly, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> fed.run(LocalOnly(), rounds=5).answer.shape
    (2, 2, 4)
    """

    name: str = "local-only"

    async def start(self, fed: OneFederation) -> State:
        params = fed.init_params()
        return State(params, {"models": np.repeat(params[None], fed.n, axis=0)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, models = fed.all_clients, state["models"].copy()
        models[clients] = await fed.train(models[clients], clients, t)
        return State(state.params, {"models": models})

    def answer(self, state: State) -> Answer:
        return state["models"]


async def trained_alone(fed: OneFederation, clients: np.ndarray, rounds: int) -> np.ndarray:
    """The models of these clients after `rounds` rounds of LocalOnly, [client, P]; others are not trained."""
    params = fed.init_params()
    for t in range(1, rounds + 1):
        params = await fed.train(params, clients, t)
    return params
