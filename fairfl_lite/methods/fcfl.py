"""FCFL: bias within a budget first, then a Pareto point of the clients' losses (Cui et al., NeurIPS 2021); EFFL's nearest
relative and one of its baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.surrogates import Kind, LossAndBias, SoftBias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require, require_whole
from fairfl_lite.programs import Solver, finite_runs, linear_program, min_norm

SOFTEST, SHARPEST, SHARPEN = 0.5, 1e-4, 0.01
"""delta of the soft maximum: where it starts, below what it stays, and by what it is multiplied."""


@dataclass(frozen=True, eq=False)
class FCFL(Method):
    """theta <- theta - lr alpha G in two stages, alpha in the simplex from a linear program on the Gram matrix of the rows of G.

    l_k is client k's loss, f_k its soft bias. Stage 1, rounds 1 to `first`: the rows are the gradients of the soft maxima of
    losses and of biases, g_l and g_f. Where max_k f_k <= eps, maximise alpha G g_l; otherwise maximise alpha G g_f subject to
    alpha G g_l >= 0. Stage 2, from then on: the rows are the gradients of all l_k and g_f, which is 0 where max_k f_k < eps.
    Maximise alpha G mean_k g_k subject to alpha G g >= 0 for every row g. A soft maximum weighs clients by
    softmax(v_k / delta); delta begins at 0.5 and is divided by 100, until it is below 1e-4, in rounds of stage 1 in which a
    tenth of the length of the soft maximum's gradient is not above it. Both programs have a solution, since the shortest vector
    of the hull satisfies them; that vector is taken should a solver fail.

    The authors' code differs in two points. Its bias of two groups is |r_0 - r_1|, twice our f_k, which is EFFL's. So the same
    budget is an eps of half the size here, and our g_f is half as long beside the gradients of losses. And it decays the
    parameters by 1e-4 in every step; here there is no decay.

    eps, lr : numbers, or one per run. bias : the metric, see SoftBias. solver : see linear_program. eps = inf is, in stage 2, the
    steepest common descent for the mean loss, and with one client gradient descent. Every client is needed in every round,
    because its budget and its loss are constraints. The server must see every loss, bias and gradient by itself.
    """

    must_see = "every client's loss, bias and gradients"

    eps: PerRun = 0.05
    lr: PerRun = 0.1
    first: int = 1000
    bias: Kind = "tpsd"
    solver: Solver = "simplex"
    name: str = "fcfl"

    def __post_init__(self) -> None:
        SoftBias(self.bias)
        eps = np.asarray(self.eps)
        require("eps", np.where(np.isposinf(eps), 0.0, eps) if eps.dtype.kind == "f" else self.eps, 0)
        require("lr", self.lr, 0, above=True)
        require_whole("first", self.first, 0)

    def start(self, fed: Federation) -> State:
        if fed.participants:
            raise FairFLError("FCFL needs every client in every round: make the federation with participants=0.")
        for name in ("eps", "lr"):
            per_run(fed, name, getattr(self, name))
        return State(fed.start(), {"delta": np.full((len(fed.seeds), 2), SOFTEST), "weights": np.zeros(fed.sizes().shape)})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who, delta, eps = fed.who(t), state["delta"], per_run(fed, "eps", self.eps)[:, 0]
        found, slopes = fed.gradient(state.params, LossAndBias(SoftBias(self.bias)), who=who, t=t)
        loss, f = np.moveaxis(found, 2, 0)
        g, h = np.moveaxis(slopes.astype(np.float64), 2, 0)
        there = who >= 0
        worst = np.where(there, f, -np.inf).max(1)
        share_l, share_f = soft_maximum(loss, there, delta[:, :1]), soft_maximum(f, there, delta[:, 1:])
        g_l, g_f = (share_l[:, None] @ g)[:, 0], (share_f[:, None] @ h)[:, 0]
        if t <= self.first:
            rows = np.stack([g_l, g_f], 1)
            alpha = self.stage1(finite_runs(rows @ np.swapaxes(rows, 1, 2)), worst <= eps)
            delta = sharper(delta, np.stack([np.linalg.norm(g_l, axis=1), np.linalg.norm(g_f, axis=1)], 1))
            weights = alpha[:, :1] * share_l
        else:
            rows = np.concatenate([g, np.where(worst < eps, 0.0, 1.0)[:, None, None] * g_f[:, None]], 1)
            alpha = self.stage2(finite_runs(rows @ np.swapaxes(rows, 1, 2)), there)
            weights = alpha[:, :-1]
        step = per_run(fed, "lr", self.lr) * (alpha[:, None] @ rows)[:, 0]
        memory = {"delta": delta, "weights": scatter(weights, who, fed.clients, 0.0)}
        return State((state.params - step).astype(state.params.dtype), memory)

    def stage1(self, gram: np.ndarray, fair: np.ndarray) -> np.ndarray:
        """alpha [run, 2] of g_l and g_f."""
        c = np.where(fair[:, None], gram[:, 0], gram[:, 1])
        alpha, feasible = linear_program(c, gram[:, :1], active=~fair[:, None], solver=self.solver)
        return np.where(feasible[:, None], alpha, min_norm(gram))

    def stage2(self, gram: np.ndarray, there: np.ndarray) -> np.ndarray:
        """alpha [run, participant + 1] of the clients' losses and of g_f, which is there in every run."""
        inside = np.concatenate([there, np.ones((len(there), 1), bool)], 1)
        mean = there / there.sum(1, keepdims=True)
        c = (gram[:, :, :-1] @ mean[..., None])[..., 0]
        alpha, feasible = linear_program(c, gram, active=inside, there=inside, solver=self.solver)
        return np.where(feasible[:, None], alpha, min_norm(gram, inside))


def soft_maximum(values: np.ndarray, there: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """softmax(v / delta) over those who are there, [run, participant]: delta -> 0 is the largest alone, large is the mean."""
    values = np.where(there, values, -np.inf)
    weights = np.exp((values - values.max(1, keepdims=True)) / delta)
    return weights / weights.sum(1, keepdims=True)


def sharper(delta: np.ndarray, size: np.ndarray) -> np.ndarray:
    """delta after a round of stage 1, where a soft maximum's gradient has the length `size`; both in the same shape."""
    return np.where((delta > SHARPEST) & (0.1 * size <= delta), SHARPEN * delta, delta)
