"""FedVal: clients weigh by how fair their models are on the server's rows (Mehrabi et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Method, OneFederation, State


@dataclass(frozen=True)
class FedVal(Method):
    """FedVal: clients weigh by how fair their models are on the server's rows (Mehrabi et al., 2022); FAIR-FATE's baseline.

    ``theta <- sum_k w_k theta_k / sum_k w_k`` over those who take part, ``w_k = F_k + 0.001``. How much data a client has
    does not count. F_k is the fairness of its model on the server's validation rows, so the server sees each model by itself;
    an undefined F_k counts as 0. Equal scores give the plain mean of the models.

    Parameters
    ----------
    metric : {"sp", "eo", "eqo", "acc"}
        The fairness F, see `fairfl_lite.metrics.fairness`, or the accuracy.
    zero_rule, sp_as_coded, rounded : bool
        See `fairfl_lite.metrics.fairness`. All of them give the published code's scores, and none the ratios as defined.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, FedVal, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), local, validation=0.25, central=True)
    >>> fed.run(FedVal("eo"), rounds=3, remember=["F_clients"]).memory["F_clients"].shape
    (2, 3, 2)
    """

    must_see = "every client's model, to score it on the validation rows"

    metric: Literal["sp", "eo", "eqo", "acc"] = "sp"
    zero_rule: bool = True
    sp_as_coded: bool = True
    rounded: bool = True
    name: str = "fedval"

    def __post_init__(self) -> None:
        choose(self.metric, (*metrics.FAIRNESS, "acc"), "validation metric")

    async def start(self, fed: OneFederation) -> State:
        require_validation(fed)
        return State(fed.init_params())

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        local = await fed.train(state.params, clients, t)
        F = await validated(fed, local, self.metric, self.zero_rule, self.sp_as_coded, self.rounded)
        weights = F + 0.001
        memory = {"weights": fed.by_client(weights, clients), "F_clients": fed.by_client(F, clients, np.nan)}
        return State(fed.average(local, weights), memory)


async def validated(fed: OneFederation, models: np.ndarray, metric: str, zero_rule: bool, sp_as_coded: bool, rounded: bool
                    ) -> np.ndarray:  # fmt: skip
    """Fairness (or accuracy) of models [model, P] on the server's validation rows, [model]; undefined counts as 0."""
    return await fed.metric(models, _Score(metric, zero_rule, sp_as_coded, rounded), "validation")


@dataclass(frozen=True)
class _Score:
    metric: str
    zero_rule: bool
    sp_as_coded: bool
    rounded: bool

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        if self.metric == "acc":
            return np.nan_to_num(metrics.accuracy(counts))
        found = metrics.fairness(
            counts, self.metric, zero_rule=self.zero_rule, sp_as_coded=self.sp_as_coded, rounded=self.rounded
        )
        return np.nan_to_num(found)


def require_validation(fed: OneFederation) -> None:
    if not fed.holders("validation") or not fed.rows_of("validation").sum():
        raise FairFLError("The server needs validation rows: make the federation with validation=0.25, for example.")
