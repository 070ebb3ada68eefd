"""FedAvg: the average of the clients' models, each weighing what it has in data (McMahan et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.debias import Debias, require_debias
from fairfl_lite.federation import Method, OneFederation, State


@dataclass(frozen=True)
class FedAvg(Method):
    """Federated averaging: the average of the clients' models, each weighing what it has in data (McMahan et al., 2017).

    ``theta <- sum_k (n_k / n) theta_k`` over those who take part, n their rows together. With ``Debias("local")`` or
    ``Debias("global")`` these are the baselines of FairFed and of FAIR-FATE (LR and GR). Global weights come from the counts
    of those who take part, so they are new in each round where not everybody does. With ``ClientTraining(prox=mu)`` it is
    FedProx.

    Parameters
    ----------
    debias : Debias
        What clients do to their rows before they train.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FedAvg, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> fed.run(FedAvg(), rounds=5).values("acc")[:, -1].round(2)
    array([0.72, 0.7 ])
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
