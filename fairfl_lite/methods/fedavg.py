"""FedAvg: the average of the clients' models, each weighing what it has in data (McMahan et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from fairfl_lite.federation import Federation, State
from fairfl_lite.methods.debias import Debias, require_debias


@dataclass(frozen=True)
class FedAvg:
    """theta <- sum_k (n_k / n) theta_k. With Debias("local") or Debias("global") these are FairFed's two baselines."""

    debias: Debias = Debias()
    name: str = "fedavg"

    def __post_init__(self) -> None:
        require_debias(self.debias)

    def start(self, fed: Federation) -> State:
        return State(fed.start(), {"rows": self.debias.rows(fed), "weights": fed.shares})

    def round(self, fed: Federation, state: State, t: int) -> State:
        local = fed.train(state.params, t, on=state["rows"])
        return State(fed.average(local, state["weights"]), state.memory)
