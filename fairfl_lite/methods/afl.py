"""AFL: the model that is best for the worst mixture of clients (Mohri, Sivek and Suresh, ICML 2019); one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require, require_whole
from fairfl_lite.programs import project_simplex


@dataclass(frozen=True)
class AFL(Method):
    """AFL: the model that is best for the worst mixture of clients (Mohri, Sivek and Suresh, ICML 2019).

    It is one of EFFL's baselines. ``min over theta, max over lambda in the simplex, of sum_k lambda_k F_k(theta)``: in each
    round a step down, ``theta <- theta - lr sum_k lambda_k grad F_k(theta)``, and a step up, lambda <- projection of ``lambda +
    lr_lambda F(theta)`` onto the simplex, both from the theta and lambda of the round before. lambda starts uniform, and is in
    memory as "weights". The answer is the average of the models after rounds 1 to t, to which the theory applies.

    Every client is needed in every round, because lambda compares them all. The server must see every loss by itself, because
    the projection sorts them. The public code of q-FFL's authors, from which others take AFL, projects wrongly: it keeps a
    client too many, (1.2, 0.15) becomes (1.025, 0), and the weights sum to more than 1. Ours are the nearest point of the
    simplex.

    Parameters
    ----------
    lr : float
        Length of the step down.
    lr_lambda : float
        Length of the step up. ``lr_lambda=0`` is gradient descent on the plain mean of the clients' losses; one client always
        has lambda = 1.
    batch : int
        Rows of each client in a round's gradient and loss; 0 for all.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import AFL, ClientTraining, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining())
    >>> fed.run(AFL(lr_lambda=0), rounds=3).state["weights"][0]
    array([0.5, 0.5])
    """

    must_see = "every client's loss"

    lr: float = 0.1
    lr_lambda: float = 0.1
    batch: int = 0
    name: str = "afl"

    def __post_init__(self) -> None:
        require("lr", self.lr, 0, above=True)
        require("lr_lambda", self.lr_lambda, 0)
        require_whole("batch", self.batch, 0)

    async def start(self, fed: OneFederation) -> State:
        if fed.participants:
            raise FairFLError("AFL needs every client in every round: make the federation with participants=0.")
        params, many = fed.init_params(), len(fed.all_clients)
        uniform = fed.by_client(np.full(many, 1 / many), fed.all_clients)
        return State(params, {"weights": uniform, "mean": params.astype(np.float64)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.all_clients
        weights = state["weights"][clients]
        loss, slope = await fed.value_and_gradient(state.params, clients, t=t, batch=self.batch)
        params = (state.params - self.lr * fed.sum(slope, weights)).astype(state.params.dtype)
        weights = project_simplex(weights + self.lr_lambda * loss)
        mean = state["mean"] + (params - state["mean"]) / t
        return State(params, {"weights": fed.by_client(weights, clients), "mean": mean})

    def answer(self, state: State) -> np.ndarray:
        return state["mean"].astype(state.params.dtype)
