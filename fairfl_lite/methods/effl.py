"""EFFL: high and equal performance of all clients, by three stages of constrained descent (anonymous, under review, 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fairfl_lite import metrics
from fairfl_lite.clients.surrogates import Kind, LossAndBias, SoftBias
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require, require_whole
from fairfl_lite.programs import Solver, finite_runs, linear_program, min_norm

OBJECTIVES = ("mean loss", "worst bias", "loss gap", "bias gap", "worst loss")
"""What a round can lower, as numbers in memory "objective": l-bar, f_max, l-hat_max, f-hat_max, l_max."""
FALLBACKS = ("none", "infeasible", "vanishing")
"""Why a round took the min-norm point, as numbers in memory "fallback"."""
VANISHING = 1e-6  # of the longest gradient: what gradients in single precision leave where they cancel
LEAST = 1e-3  # loss-based normalisation divides by no less


@dataclass(frozen=True)
class EFFL(Method):
    """EFFL: high and equal performance of all clients, by three stages of constrained descent (anonymous, under review, 2023).

    Algorithm 1. In each round the clients send losses l_k, soft biases f_k and the gradients of both; the server steps by
    ``theta <- theta - eta sum_j alpha_j g_j``, where the g_j are gradients of the functions below and alpha solves ::

        maximise  alpha . (G g_objective)   subject to  alpha . (G g_c) >= 0 for each constraint c,  alpha >= 0,  sum alpha =
        1.

    Stage 1 lowers the mean loss, or f_max while that is above eps_b (Eq. 13, 14). Stage 2 lowers the largest gap ``|l_k -
    mean l|`` while it is above eps_vl, else ``|f_k - mean f|`` (Eq. 17, 18). Stage 3 lowers the largest loss (Eq. 20). The
    mean loss must not rise, nor what is above its budget, nor in stage 3 anybody's loss. Infinite budgets leave descent on
    the mean loss.

    Where the program is infeasible or its direction vanishes, the min-norm point of the g_j is taken (Eq. 11). Gradients that
    vanish take no part. The server must see every loss, bias and gradient by itself, because each can be an objective or a
    constraint.

    Memory has "stage" 1 to 3, "objective" and "fallback" (places in ``OBJECTIVES`` and ``FALLBACKS``), "violated" of shape
    (3,) for bias, loss gap and bias gap, "loss" and "bias" of each client before the step, the latter as tested, and "length"
    of the direction.

    Parameters
    ----------
    eps_b, eps_vl, eps_vb : float
        Budgets of the bias, of the gaps of losses, and of the gaps of biases.
    stages : tuple of three int
        How many rounds each stage has. A stage of 0 rounds is left out, and rounds beyond the last go on with it, so (1, 0,
        0) is stage 1 alone.
    bias : {"tpsd", "apsd", "apsd_acc"}
        The metric, see `fairfl_lite.metrics`.
    eta, lr_decay : float
        The step of round t is ``eta * lr_decay^(t - 1)``, which is not in the paper. With unit gradients eta is a length, and
        must fall.
    normalise : {"none", "l2", "loss", "l2+loss"}
        What each g_j is divided by, Eq. 25-27: nothing, as in Algorithm 1; its length; the value of its function (at least
        0.001); or both. The paper normalises where clients are many and gradients differ much, and finds "l2" best.
    violators : {"worst", "every"}
        "worst" constrains the worst client alone, as printed; "every" each client above its budget, beyond the paper, since
        others drift over theirs while one is pushed down.
    inactive : {"stay", "leave"}
        Gradients of f_max and of the gaps whose budget is met "stay" among the g_j, as printed, or "leave", as in FCFL.
    tested : {"soft", "hard"}
        Which biases are held to the budgets, and say who is worst. Gradients are soft always.
    sign : {"descent", "printed"}
        "descent" is the program above. "printed" is the text's: ``d = + sum_j alpha_j g_j`` with ``d . g_c <= 0``, and theta
        + eta d.
    twice : bool
        Test the gaps less their budget against the budget once more, as Eq. 17-20 do; so a gap may be twice its budget.
    backtrack : int
        In stages 2 and 3 halve the step up to so often while the mean loss would rise above that at the stage's start.
    sharpness : float
        Of the soft bias; 10 as in FCFL.
    solver : {"simplex", "highs"}
        What solves the program, see `fairfl_lite.programs.linear_program`.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import EFFL, ClientTraining, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining())
    >>> effl = EFFL(eps_b=0.05, eps_vl=0.05, eps_vb=0.05, stages=(2, 2, 1))
    >>> fed.run(effl, rounds=5, remember=["stage"]).memory["stage"][0]
    array([1, 1, 2, 2, 3])
    """

    must_see = "every client's loss, bias and gradients"

    eps_b: float
    eps_vl: float
    eps_vb: float
    stages: tuple[int, int, int] = (750, 750, 500)
    bias: Kind = "tpsd"
    eta: float = 0.03
    lr_decay: float = 0.999
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
            budget = getattr(self, name)
            require(name, 0.0 if budget == np.inf else budget, 0)
        require("eta", self.eta, 0)
        require("lr_decay", self.lr_decay, 0, 1, above=True)
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

    async def start(self, fed: OneFederation) -> State:
        return State(fed.init_params(), {"stage": 0, "ceiling": np.inf})

    def stage(self, t: int) -> int:
        """The stage of a round.

        Parameters
        ----------
        t : int
            The number of the round, from 1.

        Returns
        -------
        int
            1, 2 or 3.

        Examples
        --------
        >>> [effl.stage(t) for t in range(1, 7)]
        [1, 1, 2, 2, 3, 3]
        """
        last = max(i for i, rounds in enumerate(self.stages) if rounds)
        return 1 + min(last, int(np.searchsorted(np.cumsum(self.stages), t - 1, side="right")))

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        theta, clients, stage = state.params, fed.sample_clients(t), self.stage(t)
        asked = LossAndBias(SoftBias(self.bias, self.sharpness))
        values, slopes = await fed.value_and_gradient(theta, clients, asked, t=t)  # lines 5-7
        l_k, f_k = values.T
        if self.tested == "hard":
            f_k = np.nan_to_num(metrics.MODEL[self.bias](await fed.confusion(theta, clients)))

        gradients = np.concatenate([slopes[:, 0], slopes[:, 1]])  # of l_1..l_N, then of f_1..f_N
        rows = self.rows(l_k, f_k, stage)
        alpha, fallback, length = self.direction(gram_of(gradients), rows)
        d = alpha @ gradients if self.sign == "printed" else -alpha @ gradients

        step, mean = self.eta * self.lr_decay ** (t - 1), l_k.mean()
        ceiling = state["ceiling"] if state["stage"] == stage else mean
        if self.backtrack and stage > 1:
            for _ in range(self.backtrack):
                if not (await fed.losses((theta + step * d).astype(theta.dtype), clients)).mean() > max(ceiling, mean):
                    break
                step /= 2
        found = {"loss": fed.by_client(l_k, clients, np.nan), "bias": fed.by_client(f_k, clients, np.nan), "stage": stage,
                 "objective": rows.goal, "violated": rows.violated, "fallback": fallback, "length": length,
                 "ceiling": ceiling}  # fmt: skip
        return State((theta + step * d).astype(theta.dtype), found)  # line 18

    def rows(self, l_k: np.ndarray, f_k: np.ndarray, stage: int) -> Rows:
        """The functions of a stage and their roles, from losses and tested biases [client]."""
        n, again = len(l_k), 2 if self.twice else 1
        gap_l, gap_f = l_k - l_k.mean(), f_k - f_k.mean()
        high_b, high_vl, high_vb = f_k > self.eps_b, np.abs(gap_l) > again * self.eps_vl, np.abs(gap_f) > again * self.eps_vb
        by_l, by_f = np.split(np.eye(2 * n), 2)
        mean_l, mean_f = by_l.mean(0), by_f.mean(0)  # Eq. 21
        functions = [  # in the order of OBJECTIVES: values, gradients, and who must not rise
            (l_k.mean(keepdims=True), mean_l[None], np.ones(1, bool)),
            (f_k, by_f, high_b),
            (np.abs(gap_l), np.sign(gap_l)[:, None] * (by_l - mean_l), high_vl),
            (np.abs(gap_f), np.sign(gap_f)[:, None] * (by_f - mean_f), high_vb),
            (l_k, by_l, np.ones(n, bool)),
        ][: (2, 4, 5)[stage - 1]]
        if stage == 1:
            goal = 1 if high_b.any() else 0  # Eq. 22
        elif stage == 2:
            goal = 2 if (np.abs(gap_l) > self.eps_vl).any() else 3  # Eq. 23
        else:
            goal = 4  # Eq. 24

        parts, objective, before = [], 0, 0
        for place, (value, slope, high) in enumerate(functions):
            worst = value.argmax()
            held = high if self.violators == "every" or place == 4 else high & (np.arange(len(high)) == worst)
            member = held.copy()
            if place == goal or (self.inactive == "stay" and (stage, place, goal) != (2, 2, 3)):  # Eq. 17 knows no gap of losses
                member[worst] = True
            if place == goal:
                objective = before + int(member[:worst].sum())
            before += int(member.sum())
            parts.append((value[member], slope[member], held[member]))
        value, slope, constrained = (np.concatenate(part) for part in zip(*parts, strict=True))
        constrained[objective] = False
        return Rows(value, slope, objective, constrained, goal, np.array([high_b.any(), high_vl.any(), high_vb.any()]))

    def direction(self, gram: np.ndarray, rows: Rows) -> tuple[np.ndarray, int, float]:
        """alpha for the 2N gradients whose Gram matrix is given, [2N]; why the min-norm point was taken; the length of d."""
        gram = finite_runs(gram)
        inner = rows.slope @ gram @ rows.slope.T
        norm = np.sqrt(np.maximum(inner.diagonal(), 0.0))
        full = norm > VANISHING * np.sqrt(gram.diagonal().max())
        by = np.ones_like(norm)
        if self.normalise in ("l2", "l2+loss"):
            by = by / np.where(full, norm, 1.0)
        if self.normalise in ("loss", "l2+loss"):
            by = by / np.maximum(rows.value, LEAST)
        inner = by[:, None] * inner * by
        active = rows.constrained & full
        if not full.any():
            full[0] = True  # every gradient is 0: the mean's is as good as any

        sign = 1.0 if self.sign == "descent" else -1.0
        alpha = np.zeros(len(norm))
        aim, limits = sign * inner[rows.objective, full], sign * inner[active][:, full]
        alpha[full], feasible = linear_program(aim, limits, solver=self.solver)
        length, fallback = _length(alpha, inner), 0
        if not feasible or length <= VANISHING * (by * norm)[full].max():
            fallback = 2 if feasible else 1
            alpha[full] = min_norm(inner[full][:, full])
            length = _length(alpha, inner)
        return (alpha * by) @ rows.slope, fallback, length


class Rows(NamedTuple):
    """The g_j of a stage, one per row: values of their functions [row], gradients as combinations of the clients' 2N [row, 2N],
    which of them is the objective, which are constrained [row]; the objective's place in OBJECTIVES, and which of the three
    budgets are exceeded."""

    value: np.ndarray
    slope: np.ndarray
    objective: int
    constrained: np.ndarray
    goal: int
    violated: np.ndarray


def gram_of(gradients: np.ndarray) -> np.ndarray:
    """All inner products in double precision, [n, P] -> [n, n]; a part at a time, so that nothing large is copied."""
    total = np.zeros((len(gradients), len(gradients)))
    for first in range(0, gradients.shape[1], 1 << 16):
        part = gradients[:, first : first + (1 << 16)].astype(np.float64)
        total += part @ part.T
    return total


def _length(alpha: np.ndarray, inner: np.ndarray) -> float:
    return np.sqrt(max(np.einsum("i,ij,j->", alpha, inner, alpha), 0.0))
