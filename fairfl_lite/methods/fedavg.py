"""FedAvg: the average of the clients' models, each weighing what it has in data (McMahan et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.debias import Debias, require_debias
from fairfl_lite.federation import Federation, State


@dataclass(frozen=True)
class FedAvg:
    """theta <- sum_k (n_k / n) theta_k over those who take part, n their rows together.

    With Debias("local") or Debias("global") these are the baselines of FairFed and of FAIR-FATE (LR and GR). Global
    weights come from the counts of those who take part, so they are new in each round where not everybody does.
    """

    debias: Debias = Debias()
    name: str = "fedavg"

    def __post_init__(self) -> None:
        require_debias(self.debias)

    def start(self, fed: Federation) -> State:
        return State(fed.start(), {"rows": self.debias.rows(fed), "weights": fed.shares})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        renewed = fed.participants and "global" in (self.debias.kind, self.debias.rest)
        rows = self.debias.rows(fed, who) if renewed else state["rows"]
        local, weights = fed.train(state.params, t, who=who, on=rows), shares(fed, who)
        return State(fed.average(local, weights), {"rows": rows, "weights": weights})


def shares(fed: Federation, who: np.ndarray) -> np.ndarray:
    """n_k / n of those in `who`, [run, client]; 0 for the others.

    Where nobody in `who` has rows they weigh alike: all return the server's model, and so does their average.
    """
    sizes = fed.sizes * who
    sizes = np.where(sizes.sum(1, keepdims=True) > 0, sizes, who)
    return sizes / sizes.sum(1, keepdims=True)


def mean_update(fed: Federation, params: np.ndarray, local: np.ndarray, who: np.ndarray) -> np.ndarray:
    """sum_k (n_k / n) (theta_k - theta) over those in `who`, [run, P] float64: adding it to theta is FedAvg."""
    return fed.sum(shares(fed, who)[..., None] * local) - params
