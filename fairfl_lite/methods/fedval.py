"""FedVal: clients weigh by how fair their models are on the server's rows (Mehrabi et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, State


@dataclass(frozen=True)
class FedVal:
    """theta <- sum_k w_k theta_k / sum_k w_k over those who take part, w_k = F_k + 0.001: FAIR-FATE's baseline.

    How much data a client has does not count. F_k is the fairness of its model on the server's validation rows, so the
    server sees each model by itself. The options are those of metrics.fairness and give the published code's scores;
    all False gives the ratios as defined. Equal scores are the plain mean of the models.
    """

    metric: Literal["sp", "eo", "eqo"] = "sp"
    zero_rule: bool = True
    sp_as_coded: bool = True
    rounded: bool = True
    name: str = "fedval"

    def __post_init__(self) -> None:
        choose(self.metric, metrics.FAIRNESS, "fairness metric")

    def start(self, fed: Federation) -> State:
        require_validation(fed)
        return State(fed.start())

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        local = fed.train(state.params, t, who=who)
        F = validated(fed, of_participants(local, who), self.metric, zero_rule=self.zero_rule,
                      sp_as_coded=self.sp_as_coded, rounded=self.rounded)  # fmt: skip
        F_clients = to_clients(F, who, np.nan)
        weights = np.where(who, F_clients + 0.001, 0.0)
        return State(fed.average(local, weights), {"weights": weights, "F_clients": F_clients})


def validated(fed: Federation, models: np.ndarray, metric: str, **as_coded: bool) -> np.ndarray:
    """Fairness of models [run, model, P] on the server's validation rows, [run, model]; undefined counts as 0."""
    counts = fed.report(models, "validation", cross=True).sum(2)
    return np.nan_to_num(metrics.fairness(counts, metric, **as_coded))


def of_participants(values: np.ndarray, who: np.ndarray) -> np.ndarray:
    """The rows of values [run, client, ...] whose client is in `who` (as many in each run): [run, participant, ...]."""
    return values[who].reshape(len(who), -1, *values.shape[2:])


def to_clients(values: np.ndarray, who: np.ndarray, absent: float) -> np.ndarray:
    """values [run, participant] in their clients' places, [run, client]; `absent` for the others."""
    out = np.full(who.shape, absent, np.result_type(values, type(absent)))
    out[who] = values.ravel()
    return out


def require_validation(fed: Federation) -> None:
    if "validation" not in fed.shards or not fed.shards["validation"].sizes.sum(1).all():
        raise FairFLError("The server needs validation rows: make the federation with validation=0.25, for example.")
