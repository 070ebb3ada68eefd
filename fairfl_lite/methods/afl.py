"""AFL: the model that is best for the worst mixture of clients (Mohri, Sivek and Suresh, ICML 2019); one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State, gather, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require, require_whole
from fairfl_lite.programs import project_simplex


@dataclass(frozen=True, eq=False)
class AFL(Method):
    """min over theta, max over lambda in the simplex, of sum_k lambda_k F_k(theta): in each round a step down and a step up.

    theta <- theta - lr sum_k lambda_k grad F_k(theta), lambda <- projection of lambda + lr_lambda F(theta) onto the simplex,
    both from the theta and lambda of the round before; lambda starts uniform, and is in memory as "weights". The answer is the
    average of the models after rounds 1 to t, to which the theory applies.

    lr, lr_lambda : numbers, or one per run. batch : rows of each client in a round's gradient and loss, 0 for all.
    lr_lambda = 0 is gradient descent on the plain mean of the clients' losses; one client always has lambda = 1.
    Every client is needed in every round, because lambda compares them all. The server must see every loss by itself, because the
    projection sorts them. The public code of q-FFL's authors, from which others take AFL, projects wrongly: it keeps a client too
    many, (1.2, 0.15) becomes (1.025, 0), and the weights sum to more than 1. Ours are the nearest point of the simplex.
    """

    must_see = "every client's loss"

    lr: PerRun = 0.1
    lr_lambda: PerRun = 0.1
    batch: int = 0
    name: str = "afl"

    def __post_init__(self) -> None:
        require("lr", self.lr, 0, above=True)
        require("lr_lambda", self.lr_lambda, 0)
        require_whole("batch", self.batch, 0)

    def start(self, fed: Federation) -> State:
        if fed.participants:
            raise FairFLError("AFL needs every client in every round: make the federation with participants=0.")
        for name in ("lr", "lr_lambda"):
            per_run(fed, name, getattr(self, name))
        params, has = fed.start(), fed.sizes() > 0
        return State(params, {"weights": has / has.sum(1, keepdims=True), "mean": params.astype(np.float64)})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        weights = gather(state["weights"], who)
        loss, slope = fed.gradient(state.params, who=who, t=t, batch=self.batch)
        params = (state.params - per_run(fed, "lr", self.lr) * fed.sum(slope, weights)).astype(state.params.dtype)
        weights = weights + per_run(fed, "lr_lambda", self.lr_lambda) * loss
        weights = project_simplex(np.where(who >= 0, weights, -np.inf))
        mean = state["mean"] + (params - state["mean"]) / t
        return State(params, {"weights": scatter(weights, who, fed.clients, 0.0), "mean": mean})

    def answer(self, state: State) -> np.ndarray:
        return state["mean"].astype(state.params.dtype)
