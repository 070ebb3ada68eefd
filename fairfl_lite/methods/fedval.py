"""FedVal: clients weigh by how fair their models are on the server's rows (Mehrabi et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, Method, State, scatter


@dataclass(frozen=True)
class FedVal(Method):
    """theta <- sum_k w_k theta_k / sum_k w_k over those who take part, w_k = F_k + 0.001: FAIR-FATE's baseline.

    How much data a client has does not count. F_k is the fairness of its model on the server's validation rows, or with
    metric "acc" its accuracy there, so the server sees each model by itself. The options are those of metrics.fairness and
    give the published code's scores; all False gives the ratios as defined. Equal scores are the plain mean of the models.
    """

    must_see = "every client's model, to score it on the validation rows"

    metric: Literal["sp", "eo", "eqo", "acc"] = "sp"
    zero_rule: bool = True
    sp_as_coded: bool = True
    rounded: bool = True
    name: str = "fedval"

    def __post_init__(self) -> None:
        choose(self.metric, (*metrics.FAIRNESS, "acc"), "validation metric")

    def start(self, fed: Federation) -> State:
        require_validation(fed)
        return State(fed.start())

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        local = fed.train(state.params, t, who=who)
        F = validated(fed, local, self.metric, zero_rule=self.zero_rule, sp_as_coded=self.sp_as_coded, rounded=self.rounded)
        weights = np.where(who >= 0, F + 0.001, 0.0)
        memory = {"weights": scatter(weights, who, fed.clients, 0.0), "F_clients": scatter(F, who, fed.clients, np.nan)}
        return State(fed.average(local, weights), memory)


def validated(fed: Federation, models: np.ndarray, metric: str, **as_coded: bool) -> np.ndarray:
    """Fairness (or accuracy) of models [run, model, P] on the server's validation rows, [run, model]; undefined counts as 0."""
    counts = fed.report(models, "validation", cross=True).sum(2)
    return np.nan_to_num(metrics.accuracy(counts) if metric == "acc" else metrics.fairness(counts, metric, **as_coded))


def require_validation(fed: Federation) -> None:
    if "validation" not in fed.shards or not fed.shards["validation"].sizes.sum(1).all():
        raise FairFLError("The server needs validation rows: make the federation with validation=0.25, for example.")
