"""EFFL: high and equal performance of all clients, by three stages of constrained descent (anonymous, under review, 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.clients.surrogates import Kind, LossAndBias, SoftBias
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require, require_whole
from fairfl_lite.programs import Solver, finite_runs, linear_program, min_norm

OBJECTIVES = ("mean loss", "worst bias", "loss gap", "bias gap", "worst loss")
"""What a round can lower, as numbers in memory "objective": l-bar, f_max, l-hat_max, f-hat_max, l_max."""
FALLBACKS = ("none", "infeasible", "vanishing")
"""Why a round took the min-norm point, as numbers in memory "fallback"."""
VANISHING = 1e-6  # of the longest gradient: what gradients in single precision leave where they cancel
LEAST = 1e-3  # loss-based normalisation divides by no less


@dataclass(frozen=True, eq=False)
class EFFL(Method):
    """Algorithm 1. In each round the clients send losses l_k, soft biases f_k and the gradients of both; the server steps by
    theta <- theta - eta sum_j alpha_j g_j, where the g_j are gradients of the functions below and alpha solves

        maximise  alpha . (G g_objective)   subject to  alpha . (G g_c) >= 0 for each constraint c,  alpha >= 0,  sum alpha = 1.

    Stage 1 lowers the mean loss, or f_max while that is above eps_b (Eq. 13, 14). Stage 2 lowers the largest gap |l_k - mean l|
    while it is above eps_vl, else |f_k - mean f| (Eq. 17, 18). Stage 3 lowers the largest loss (Eq. 20). The mean loss must not
    rise, nor what is above its budget, nor in stage 3 anybody's loss. Infinite budgets leave descent on the mean loss.

    eps_b, eps_vl, eps_vb : budgets of the bias, of the gaps of losses, and of the gaps of biases; each a number, or one per run.
    stages : rounds of the three, half-open: the first has rounds 1..T1. A stage of 0 rounds is left out, and rounds beyond the
        last go on with it, so (1, 0, 0) is stage 1 alone.
    bias : the metric, see SoftBias. sharpness : that of its surrogate, 10 as in FCFL.
    eta, decay : the step of round t is eta * decay^(t - 1). Not in the paper. With unit gradients eta is a length, and must fall.
    normalise : what each g_j is divided by, Eq. 25-27: "none", as in Algorithm 1; "l2" its length, "loss" the value of its
        function (at least 0.001), "l2+loss" both. The paper normalises where clients are many and gradients differ much, and
        finds "l2" best.
    violators : "worst" constrains the worst client alone, as printed; "every" each client above its budget, beyond the paper,
        since others drift over theirs while one is pushed down.
    inactive : gradients of f_max and of the gaps whose budget is met "stay" among the g_j, as printed, or "leave", as in FCFL.
    tested : whether "soft" or "hard" biases are held to the budgets, and say who is worst. Gradients are soft always.
    sign : "descent" is the program above. "printed" is the text's: d = + sum_j alpha_j g_j with d . g_c <= 0, theta + eta d.
    twice : test the gaps less their budget against the budget once more, as Eq. 17-20 do; so a gap may be twice its budget.
    backtrack : in stages 2 and 3 halve the step up to so often while the mean loss would rise above that at the stage's start.
    solver : see linear_program.

    Where the program is infeasible or its direction vanishes, the min-norm point of the g_j is taken (Eq. 11). Gradients that
    vanish take no part. Memory: "stage" 1-3, "objective" and "fallback" (places in OBJECTIVES, FALLBACKS), "violated" [run, 3]
    for bias, loss gap and bias gap, "loss" and "bias" [run, client] before the step, the latter as tested, "length" of d.
    The server must see every loss, bias and gradient by itself, because each can be an objective or a constraint.
    """

    must_see = "every client's loss, bias and gradients"

    eps_b: PerRun
    eps_vl: PerRun
    eps_vb: PerRun
    stages: tuple[int, int, int] = (750, 750, 500)
    bias: Kind = "tpsd"
    eta: PerRun = 0.03
    decay: PerRun = 0.999
    normalise: Literal["none", "l2", "loss", "l2+loss"] = "none"
    violators: Literal["worst", "every"] = "worst"
    inactive: Literal["stay", "leave"] = "stay"
    tested: Literal["soft", "hard"] = "soft"
    sign: Literal["descent", "printed"] = "descent"
    twice: bool = False
    backtrack: int = 0
    sharpness: float = 10.0
    solver: Solver = "simplex"
    name: str = "effl"

    def __post_init__(self) -> None:
        for name in ("eps_b", "eps_vl", "eps_vb"):
            value = np.asarray(getattr(self, name))
            require(name, np.where(np.isposinf(value), 0.0, value) if value.dtype.kind == "f" else getattr(self, name), 0)
        require("eta", self.eta, 0)
        require("decay", self.decay, 0, 1, above=True)
        choose(self.normalise, ("none", "l2", "loss", "l2+loss"), "normalisation named")
        choose(self.violators, ("worst", "every"), "choice of violators named")
        choose(self.inactive, ("stay", "leave"), "way with met constraints named")
        choose(self.tested, ("soft", "hard"), "kind of tested bias named")
        choose(self.sign, ("descent", "printed"), "sign named")
        require_whole("backtrack", self.backtrack, 0)
        if len(self.stages) != 3 or not any(self.stages):
            raise FairFLError(f"EFFL has three stages, at least one of them with rounds, not {self.stages!r}.")
        for rounds in self.stages:
            require_whole("The rounds of a stage", rounds, 0)
        SoftBias(self.bias, self.sharpness)

    def start(self, fed: Federation) -> State:
        for name in ("eps_b", "eps_vl", "eps_vb", "eta", "decay"):
            per_run(fed, name, getattr(self, name))
        return State(fed.start(), {"stage": np.zeros(len(fed.seeds), int), "ceiling": np.full(len(fed.seeds), np.inf)})

    def stage(self, t: int) -> int:
        """The stage, 1 to 3, of round t = 1, 2, ..."""
        last = max(i for i, rounds in enumerate(self.stages) if rounds)
        return 1 + min(last, int(np.searchsorted(np.cumsum(self.stages), t - 1, side="right")))

    def round(self, fed: Federation, state: State, t: int) -> State:
        theta, who, stage = state.params, fed.who(t), self.stage(t)
        values, slopes = fed.gradient(theta, LossAndBias(SoftBias(self.bias, self.sharpness)), who=who, t=t)  # lines 5-7
        there = who >= 0
        l_k, f_k = (np.where(there, value, 0.0) for value in np.moveaxis(values, 2, 0))
        if self.tested == "hard":
            f_k = np.nan_to_num(metrics.MODEL[self.bias](fed.report(theta, who=who)))

        gradients = np.concatenate([slopes[:, :, 0], slopes[:, :, 1]], axis=1)  # of l_1..l_N, then of f_1..f_N
        rows = self.rows(fed, l_k, f_k, there, stage)
        alpha, fallback, length = self.direction(gram_of(gradients), rows)
        d = (alpha[:, None] @ gradients)[:, 0]

        step = per_run(fed, "eta", self.eta) * per_run(fed, "decay", self.decay) ** (t - 1)
        mean = _mean(l_k, there)[:, 0]
        ceiling = np.where(state["stage"] == stage, state["ceiling"], mean)
        if self.backtrack and stage > 1:
            step = self.shortened(fed, theta, d, step, np.maximum(ceiling, mean), who)
        params = (theta - step * d if self.sign == "descent" else theta + step * d).astype(theta.dtype)  # line 18
        found = {"loss": scatter(l_k, who, fed.clients, np.nan), "bias": scatter(f_k, who, fed.clients, np.nan),
                 "stage": np.full(len(who), stage), "objective": rows.goal, "violated": rows.violated, "fallback": fallback,
                 "length": length, "ceiling": ceiling}  # fmt: skip
        return State(params, found)

    def rows(self, fed: Federation, l_k: np.ndarray, f_k: np.ndarray, there: np.ndarray, stage: int) -> Rows:
        """The functions of a stage and their roles, from losses and tested biases [run, participant]."""
        n, runs = l_k.shape[1], np.arange(len(l_k))
        eps_b, eps_vl, eps_vb = (per_run(fed, name, getattr(self, name)) for name in ("eps_b", "eps_vl", "eps_vb"))
        gap_l, gap_f = (np.where(there, v - _mean(v, there), 0.0) for v in (l_k, f_k))
        again = 2 if self.twice else 1
        over = [(f_k > eps_b) & there, np.abs(gap_l) > again * eps_vl, np.abs(gap_f) > again * eps_vb]

        by_l, by_f = np.split(np.broadcast_to(np.eye(2 * n), (len(l_k), 2 * n, 2 * n)), 2, axis=1)
        share = (there / there.sum(1, keepdims=True))[:, None]
        mean_l, mean_f = share @ by_l, share @ by_f  # Eq. 21
        families = [
            Family(_mean(l_k, there), mean_l, np.ones((len(l_k), 1), bool), 0 * runs),
            self.family(f_k, by_f, over[0], there),
            self.family(np.abs(gap_l), np.sign(gap_l)[..., None] * (by_l - mean_l), over[1], there),
            self.family(np.abs(gap_f), np.sign(gap_f)[..., None] * (by_f - mean_f), over[2], there),
            Family(l_k, by_l, there, np.where(there, l_k, -np.inf).argmax(1)),
        ][: (2, 4, 5)[stage - 1]]

        if stage == 1:
            goal = np.where(over[0].any(1), 1, 0)  # Eq. 22
        elif stage == 2:
            goal = np.where((np.abs(gap_l) > eps_vl).any(1), 2, 3)  # Eq. 23
        else:
            goal = np.full(len(l_k), 4)  # Eq. 24
        first = np.cumsum([0, *(family.value.shape[1] for family in families[:-1])])
        worst = np.stack([at + family.worst for at, family in zip(first, families, strict=True)])
        objective = worst[goal, runs]

        value, slope, active = (np.concatenate([family[i] for family in families], axis=1) for i in range(3))
        hull, constrained = active.copy(), active
        if self.inactive == "stay":
            for place in range(1, min(len(families), 4)):
                hull[runs, worst[place]] |= (stage != 2) | (place != 2) | (goal == 2)  # Eq. 17 knows no gap of losses
        hull[runs, objective], constrained[runs, objective] = True, False
        return Rows(value, slope, objective, constrained, hull, goal, np.stack([each.any(1) for each in over], axis=1))

    def family(self, value: np.ndarray, slope: np.ndarray, active: np.ndarray, there: np.ndarray) -> Family:
        """The same function of every client, or of the worst alone."""
        worst = np.where(there, value, -np.inf).argmax(1)
        if self.violators == "every":
            return Family(value, slope, active, worst)
        run = np.arange(len(worst))
        return Family(value[run, worst, None], slope[run, worst][:, None], active[run, worst, None], 0 * worst)

    def direction(self, gram: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """alpha for the 2N gradients whose Gram matrix is given, [run, 2N]; why the min-norm point was taken; the length of d."""
        gram = finite_runs(gram)
        inner = rows.slope @ gram @ np.swapaxes(rows.slope, 1, 2)
        norm = np.sqrt(np.maximum(np.diagonal(inner, axis1=1, axis2=2), 0.0))
        longest = np.sqrt(np.diagonal(gram, axis1=1, axis2=2).max(1, keepdims=True))
        full = norm > VANISHING * longest
        hull, active = rows.hull & full, rows.constrained & full
        by = np.ones_like(norm)
        if self.normalise in ("l2", "l2+loss"):
            by = by / np.where(full, norm, 1.0)
        if self.normalise in ("loss", "l2+loss"):
            by = by / np.maximum(rows.value, LEAST)
        inner = by[:, :, None] * inner * by[:, None]
        hull[~hull.any(1), 0] = True  # every gradient is 0: the mean's is as good as any

        sign = 1.0 if self.sign == "descent" else -1.0
        aim = np.take_along_axis(inner, rows.objective[:, None, None], 1)[:, 0]
        alpha, feasible = linear_program(sign * aim, sign * inner, active=active, there=hull, solver=self.solver)
        largest = np.where(hull, by * norm, 0.0).max(1)
        vanishing = feasible & (_length(alpha, inner) <= VANISHING * largest)
        fallback = np.where(feasible, np.where(vanishing, 2, 0), 1)
        if fallback.any():
            alpha[fallback > 0] = min_norm(inner[fallback > 0], hull[fallback > 0])
        return ((alpha * by)[:, None] @ rows.slope)[:, 0], fallback, _length(alpha, inner)

    def shortened(self, fed: Federation, theta: np.ndarray, d: np.ndarray, step: np.ndarray, ceiling: np.ndarray,
                  who: np.ndarray) -> np.ndarray:  # fmt: skip
        """The step [run, 1], halved while the mean loss would be above the ceiling."""
        sign = -1.0 if self.sign == "descent" else 1.0
        for _ in range(self.backtrack):
            losses = fed.losses((theta + sign * step * d).astype(theta.dtype), who=who)
            high = _mean(np.where(who >= 0, losses, 0.0), who >= 0) > ceiling[:, None]
            if not high.any():
                break
            step = np.where(high, step / 2, step)
        return step


class Family(NamedTuple):
    """One function, of several clients: values [run, row], gradients as combinations of the clients' 2N [run, row, 2N], which
    rows are constrained [run, row], and which is the worst [run]."""

    value: np.ndarray
    slope: np.ndarray
    active: np.ndarray
    worst: np.ndarray


class Rows(NamedTuple):
    """Functions of a stage, one per row: their values [run, row], their gradients as combinations of the clients' 2N
    [run, row, 2N], which of them is the objective [run], which are constrained and which span the hull [run, row]; the
    objective's place in OBJECTIVES [run], and which budgets are exceeded [run, 3]."""

    value: np.ndarray
    slope: np.ndarray
    objective: np.ndarray
    constrained: np.ndarray
    hull: np.ndarray
    goal: np.ndarray
    violated: np.ndarray


def gram_of(gradients: np.ndarray) -> np.ndarray:
    """All inner products in double precision, [run, n, P] -> [run, n, n]; a part at a time, so that nothing large is copied."""
    total = np.zeros((*gradients.shape[:2], gradients.shape[1]))
    for first in range(0, gradients.shape[2], 1 << 16):
        part = gradients[:, :, first : first + (1 << 16)].astype(np.float64)
        total += part @ np.swapaxes(part, 1, 2)
    return total


def _mean(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Over those who are there, [run, 1]; the others' values are 0."""
    return values.sum(1, keepdims=True) / there.sum(1, keepdims=True)


def _length(alpha: np.ndarray, inner: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(np.einsum("ri,rij,rj->r", alpha, inner, alpha), 0.0))
