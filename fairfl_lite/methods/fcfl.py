"""FCFL: bias within a budget first, then a Pareto point of the clients' losses (Cui et al., NeurIPS 2021); EFFL's nearest
relative and one of its baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.surrogates import Kind, LossAndBias, SoftBias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require, require_whole
from fairfl_lite.programs import Solver, finite_runs, linear_program, min_norm

SOFTEST, SHARPEST, SHARPEN = 0.5, 1e-4, 0.01
"""delta of the soft maximum: where it starts, below what it stays, and by what it is multiplied."""


@dataclass(frozen=True)
class FCFL(Method):
    """FCFL: bias within a budget first, then a Pareto point of the clients' losses (Cui et al., NeurIPS 2021).

    It is one of EFFL's baselines. ``theta <- theta - lr alpha G`` in two stages, alpha in the simplex from a linear program on
    the Gram matrix of the rows of G. l_k is client k's loss and f_k its soft bias.

    In stage 1, rounds 1 to `first`, the rows are the gradients of the soft maxima of losses and of biases, g_l and g_f. Where
    ``max_k f_k <= eps``, maximise ``alpha G g_l``; otherwise maximise ``alpha G g_f`` subject to ``alpha G g_l >= 0``. In
    stage 2, from then on, the rows are the gradients of all l_k and g_f, which is 0 where ``max_k f_k < eps``. Maximise
    ``alpha G mean_k g_k`` subject to ``alpha G g >= 0`` for every row g. A soft maximum weighs clients by ``softmax(v_k /
    delta)``; delta begins at 0.5 and is divided by 100, until it is below 1e-4, in rounds of stage 1 in which a tenth of the
    length of the soft maximum's gradient is not above it. Both programs have a solution, since the shortest vector of the
    hull satisfies them; that vector is taken should a solver fail.

    The authors' code differs in two points. Its bias of two groups is ``|r_0 - r_1|``, twice our f_k, which is EFFL's. So the
    same budget is an eps of half the size here, and our g_f is half as long beside the gradients of losses. And it decays the
    parameters by 1e-4 in every step; here there is no decay.

    Every client is needed in every round, because its budget and its loss are constraints. The server must see every loss,
    bias and gradient by itself. ``eps=inf`` is, in stage 2, the steepest common descent for the mean loss, and with one
    client gradient descent.

    Parameters
    ----------
    eps : float
        The budget of every client's bias.
    lr : float
        Length of a step.
    first : int
        How many rounds stage 1 has.
    bias : {"tpsd", "apsd", "apsd_acc"}
        The metric, see `fairfl_lite.metrics`.
    solver : {"simplex", "highs"}
        What solves the programs, see `fairfl_lite.programs.linear_program`.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import FCFL, ClientTraining, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining())
    >>> fed.run(FCFL(eps=0.05, lr=0.5, first=20), rounds=20).values("acc")[:, -1].round(2)
    array([0.47, 0.68])
    """

    must_see = "every client's loss, bias and gradients"

    eps: float = 0.05
    lr: float = 0.1
    first: int = 1000
    bias: Kind = "tpsd"
    solver: Solver = "simplex"
    name: str = "fcfl"

    def __post_init__(self) -> None:
        SoftBias(self.bias)
        require("eps", 0.0 if self.eps == np.inf else self.eps, 0)
        require("lr", self.lr, 0, above=True)
        require_whole("first", self.first, 0)

    async def start(self, fed: OneFederation) -> State:
        if fed.participants:
            raise FairFLError("FCFL needs every client in every round: make the federation with participants=0.")
        return State(fed.init_params(), {"delta": np.full(2, SOFTEST), "weights": np.zeros(fed.n)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, delta = fed.sample_clients(t), state["delta"]
        values, slopes = await fed.value_and_gradient(state.params, clients, LossAndBias(SoftBias(self.bias)), t=t)
        loss, f = values.T
        g, h = np.moveaxis(slopes.astype(np.float64), 1, 0)
        share_l, share_f = soft_maximum(loss, delta[0]), soft_maximum(f, delta[1])
        g_l, g_f = share_l @ g, share_f @ h
        if t <= self.first:
            rows = np.stack([g_l, g_f])
            alpha = self.stage1(finite_runs(rows @ rows.T), f.max() <= self.eps)
            delta = sharper(delta, np.linalg.norm(rows, axis=1))
            weights = alpha[0] * share_l
        else:
            rows = np.concatenate([g, [(0.0 if f.max() < self.eps else 1.0) * g_f]])
            alpha = self.stage2(finite_runs(rows @ rows.T))
            weights = alpha[:-1]
        params = (state.params - self.lr * (alpha @ rows)).astype(state.params.dtype)
        return State(params, {"delta": delta, "weights": fed.by_client(weights, clients)})

    def stage1(self, gram: np.ndarray, fair: bool) -> np.ndarray:
        """alpha [2] of g_l and g_f."""
        alpha, feasible = linear_program(gram[0] if fair else gram[1], gram[:0] if fair else gram[:1], solver=self.solver)
        return alpha if feasible else min_norm(gram)

    def stage2(self, gram: np.ndarray) -> np.ndarray:
        """alpha [client + 1] of the clients' losses and of g_f."""
        mean = np.full(len(gram) - 1, 1 / (len(gram) - 1))
        alpha, feasible = linear_program(gram[:, :-1] @ mean, gram, solver=self.solver)
        return alpha if feasible else min_norm(gram)


def soft_maximum(values: np.ndarray, delta: float) -> np.ndarray:
    """softmax(v / delta): delta -> 0 is the largest alone, large is the mean."""
    weights = np.exp((values - values.max()) / delta)
    return weights / weights.sum()


def sharper(delta: np.ndarray, size: np.ndarray) -> np.ndarray:
    """delta after a round of stage 1, where a soft maximum's gradient has the length `size`; both in the same shape."""
    return np.where((delta > SHARPEST) & (0.1 * size <= delta), SHARPEN * delta, delta)
