"""FedAvg: the average of the clients' models, each weighing what it has in data (McMahan et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.debias import Debias, require_debias
from fairfl_lite.federation import Method, OneFederation, State


@dataclass(frozen=True)
class FedAvg(Method):
    """theta <- sum_k (n_k / n) theta_k over those who take part, n their rows together.

    With Debias("local") or Debias("global") these are the baselines of FairFed and of FAIR-FATE (LR and GR). Global
    weights come from the counts of those who take part, so they are new in each round where not everybody does.
    """

    debias: Debias = Debias()
    name: str = "fedavg"

    def __post_init__(self) -> None:
        require_debias(self.debias)

    async def start(self, fed: OneFederation) -> State:
        return State(fed.init_params(), {"weights": fed.by_client(fed.shares(fed.all_clients), fed.all_clients)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        rows = await self.debias.training_rows(fed, clients)
        local = await fed.train(state.params, clients, t, rows=rows)
        weights = fed.shares(clients)
        return State(fed.average(local, weights), {"weights": fed.by_client(weights, clients)})


def mean_update(fed: OneFederation, params: np.ndarray, local: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """sum_k (n_k / n) (theta_k - theta) over these clients, [P] float64: adding it to theta is FedAvg."""
    return fed.sum(local, fed.shares(clients)) - params
