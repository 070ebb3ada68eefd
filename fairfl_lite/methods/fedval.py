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
    counts = (await fed.confusion(models, on="validation", each_model=True)).sum(1)
    if metric == "acc":
        return np.nan_to_num(metrics.accuracy(counts))
    metrics.binary(counts, metric)
    return np.array([_fairness(by_group, metric, zero_rule, sp_as_coded, rounded) for by_group in counts.tolist()])


def _fairness(counts: list[list[list[int]]], metric: str, zero_rule: bool, sp_as_coded: bool, rounded: bool) -> float:
    """metrics.fairness of one model, counts[a][y][yhat], or 0 where that is undefined: the same number to the bit.

    In plain Python: a server scores a handful of models in every round, and for so few numpy's calls cost far more than the sums.
    """
    ((tn0, fp0), (fn0, tp0)), ((tn1, fp1), (fn1, tp1)) = counts
    if metric == "sp":
        chosen0, chosen1, left0, left1 = fp0 + tp0, fp1 + tp1, tn0 + fn0, tn1 + fn1
        if sp_as_coded:
            left0, left1 = left0 + chosen0, left1 + chosen1
        value = _even(chosen0, left0, chosen1, left1, zero_rule, rounded)
    else:
        value = _even(tp0, fn0, tp1, fn1, zero_rule, rounded)
    if metric == "eqo":
        value = (value + _even(fp0, tn0, fp1, tn1, zero_rule, rounded)) / 2
        value = round(value, 2) if rounded else value
    return value if value == value else 0.0


def _even(chosen0: int, left0: int, chosen1: int, left1: int, zero_rule: bool, rounded: bool) -> float:
    """The smaller of two groups' rates chosen / (chosen + left) over the larger."""
    if zero_rule and not (chosen0 and left0 and chosen1 and left1):
        return 0.0
    rows0, rows1 = chosen0 + left0, chosen1 + left1
    if not (rows0 and rows1):
        return float("nan")
    rate0, rate1 = chosen0 / rows0, chosen1 / rows1
    low, high = (rate0, rate1) if rate0 < rate1 else (rate1, rate0)
    ratio = low / high if high else 0.0
    return round(ratio, 2) if rounded else ratio


def require_validation(fed: OneFederation) -> None:
    if not fed.holders("validation") or not fed.rows_of("validation").sum():
        raise FairFLError("The server needs validation rows: make the federation with validation=0.25, for example.")
