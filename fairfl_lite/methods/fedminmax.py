"""FedMinMax: the model that is best for the worst mixture of groups (Papadaki et al., FAccT 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.clients.debias import TrainingRows
from fairfl_lite.clients.summaries import LossSums
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require
from fairfl_lite.programs import project_simplex


@dataclass(frozen=True)
class FedMinMax(Method):
    """FedMinMax: the model that is best for the worst mixture of groups (Papadaki et al., FAccT 2022).

    ``min over theta, max over mu in the simplex, of sum_a mu_a r_a(theta)``, where r_a is the mean loss of all rows of group a,
    whoever holds them. It is AFL with groups in the place of clients. In each round clients train with rows of group a weighing
    ``mu_a / rho_a``, where rho_a is the group's share of all rows, and the server averages with n_k / n. Then mu <- projection
    of ``mu + lr_mu r(theta)`` onto the simplex, both from the theta and mu of the round before. mu starts at rho.

    The weights of a client's rows are not divided by their sum, so a client with few rows of a group in need takes shorter
    steps. The paper makes one gradient step in a round, which is ``epochs=1, batch_size=0`` of ClientTraining; others are
    allowed here. Every client is needed in every round. The server needs sums alone, because losses are added up by group.

    Parameters
    ----------
    lr_mu : float
        Length of the step up. ``lr_mu=0`` is FedAvg, bit for bit; a large one leaves all weight to the group with the largest
        loss. With one group it is FedAvg whatever the step.
    deployed : {"mean", "last"}
        What a client would use: the average of the models after rounds 1 to t, to which the theory applies, or the last one.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, FedMinMax, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(2), ClientTraining(lr=0.1))
    >>> fed.run(FedMinMax(lr_mu=0.1), rounds=10).state["mu"].round(2)
    array([[0.58, 0.42],
           [0.6 , 0.4 ]])
    """

    lr_mu: float = 0.05
    deployed: Literal["mean", "last"] = "mean"
    name: str = "fedminmax"

    def __post_init__(self) -> None:
        require("lr_mu", self.lr_mu, 0)
        choose(self.deployed, ("mean", "last"), "model of FedMinMax named")

    async def start(self, fed: OneFederation) -> State:
        if fed.participants:
            raise FairFLError("FedMinMax needs every client in every round: make the federation with participants=0.")
        counts = fed.sum((await fed.group_label_counts(fed.all_clients)).sum(2))
        if fed.model.classes != 2:
            raise FairFLError(f"FedMinMax compares groups in a choice of two, and there are {fed.model.classes} classes.")
        params = fed.init_params()
        return State(params, {"rows": counts, "mu": counts / counts.sum(), "mean": params.astype(np.float64)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, mu, rows = fed.all_clients, state["mu"], state["rows"]
        there = np.where(rows > 0, rows, 1)
        weight = mu * (rows.sum() / there)  # mu_a / rho_a
        counts = await fed.group_label_counts(clients)
        risk = fed.sum((await fed.summaries(state.params, clients, LossSums(len(mu)))).sum(2)) / there
        by_row = np.broadcast_to(weight[:, None], counts.shape).copy()
        local = await fed.train(state.params, clients, t, rows=TrainingRows(by_row))
        params = fed.average(local, fed.shares(clients))
        mean = state["mean"] + (params - state["mean"]) / t
        mu = project_simplex(mu + self.lr_mu * risk) if self.lr_mu else mu
        return State(params, {"rows": rows, "mu": mu, "mean": mean})

    def answer(self, state: State) -> np.ndarray:
        return state["mean"].astype(state.params.dtype) if self.deployed == "mean" else state.params
