"""FedAvg: the average of the clients' models, each weighing what it has in data (McMahan et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.debias import Debias, require_debias
from fairfl_lite.federation import Federation, Method, State, scatter


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

    def start(self, fed: Federation) -> State:
        return State(fed.start(), {"weights": fed.shares()})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        renewed = fed.participants and "global" in (self.debias.kind, self.debias.rest)
        local = fed.train(state.params, t, who=who, on=self.debias.rows(fed, who if renewed else None))
        weights = fed.shares(who)
        return State(fed.average(local, weights), {"weights": scatter(weights, who, fed.clients, 0.0)})


def mean_update(fed: Federation, params: np.ndarray, local: np.ndarray, who: np.ndarray) -> np.ndarray:
    """sum_k (n_k / n) (theta_k - theta) over those in `who`, [run, P] float64: adding it to theta is FedAvg."""
    return fed.sum(local, fed.shares(who)) - params
