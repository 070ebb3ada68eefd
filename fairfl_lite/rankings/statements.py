"""Checks of the smaller statements: Definition 2, Lemmas 1-3, Claims 1 and 2, the argmin of Theorem 3.1, Appendix A.

Each takes what it checks against as an argument, so that a wrong bound is seen to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import ceil, log2, sqrt

import numpy as np
from numpy.typing import ArrayLike

from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings.bounds import SLACK, Check, gather, ratio
from fairfl_lite.rankings.continuous import NEVER, Infimum, Piecewise, blocks, existence, rounds
from fairfl_lite.rankings.distances import aligned
from fairfl_lite.rankings.measures import AppendixA
from fairfl_lite.rankings.ranks import Ints, best, example1, pareto, positions, ranks_of, table, worst_case

Half = Callable[[int], float]


def half(edit: int) -> float:
    return edit / 2


def check_definition2(n: int, m: int, limit: Callable[[int, int], int] = worst_case) -> Check:
    """With u = 1 - rank/m: rank <= limit(n, m) exactly where u >= max u / n. One instance for each rank."""
    seen = ((n, m, (r <= limit(n, m)) != (n * (m - r) >= m), limit(n, m) / max(worst_case(n, m), 1)) for r in range(m))
    return gather("definition-2", "u = 1 - rank", seen)


def check_argmin(tables: Iterable[ArrayLike], how: str = "utilities") -> Check:
    """The model with the smallest largest rank (lowest index first) is Pareto optimal."""
    rows = ((*np.shape(u), not pareto(u)[best(ranks_of(u))], 1.0) for u in tables)
    return gather("argmin-pareto", how, rows)


def levels(utilities: ArrayLike, k: int, rule: str = "counted") -> np.ndarray:
    """The utility that each agent needs for a share of the models, alpha_i(k/m).

    Parameters
    ----------
    utilities : array_like of shape (n, m)
        Utility of each model for each agent.
    k : int
        How many models, from 1 to m.
    rule : {"counted", "kth"}
        "kth" is the k-th highest utility; "counted" the smallest utility that at most k models reach, inf where a tie at the
        top is longer than k. Without ties they are equal.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.levels([[3.0, 2.0, 1.0], [1.0, 2.0, 2.0]], k=2)
    array([2., 2.])
    """
    u = table(utilities)
    if not 1 <= k <= u.shape[1] or rule not in ("counted", "kth"):
        raise FairFLError(f"Levels are for k in 1..{u.shape[1]} and by rule 'counted' or 'kth', not k = {k} and {rule!r}.")
    if rule == "kth":
        return -np.sort(-u, axis=1)[:, k - 1]
    return np.where(positions(u) <= k, u, np.inf).min(axis=1)


def program(utilities: ArrayLike, alpha: ArrayLike) -> int | None:
    """Program (2) on a finite set: the model with the largest sum of utilities among those that give every agent alpha_i.

    Parameters
    ----------
    utilities : array_like of shape (n, m)
        Utility of each model for each agent.
    alpha : array_like of shape (n,)
        What each agent needs.

    Returns
    -------
    int, or None if there is no such model

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> utilities = [[3.0, 2.0, 1.0], [1.0, 2.0, 2.5]]
    >>> rankings.program(utilities, rankings.levels(utilities, k=2))
    1
    """
    u = table(utilities)
    feasible = (u >= np.asarray(alpha)[:, None]).all(axis=0)
    return int(np.where(feasible, u.sum(axis=0), -np.inf).argmax()) if feasible.any() else None


def check_program(tables: Iterable[ArrayLike], rule: str = "counted", how: str = "random") -> Check:
    """Claim 1 at every r = k/m with a feasible model: the optimum has positions <= k and is Pareto optimal."""

    def seen() -> Iterable[tuple[int, int, bool, float]]:
        for u in map(table, tables):
            p, front = positions(u), pareto(u)
            for k in range(1, u.shape[1] + 1):
                model = program(u, levels(u, k, rule))
                if model is not None:
                    largest = p[:, model].max()
                    yield *u.shape, largest > k or not front[model], ratio(largest, k)

    return gather("claim-1", how, seen())


def check_alignment(pairs: Iterable[tuple[Ints, Ints]], limit: Half = half, how: str = "one optimal alignment") -> Check:
    """Lemma 2: a model matched by an optimal alignment of two orders moves by at most limit(ed)."""

    def one(x: Ints, y: Ints) -> tuple[int, int, bool, float]:
        matched, m = aligned(x, y), len(x)
        move = int(np.abs(np.argsort(x)[matched] - np.argsort(y)[matched]).max())
        allowed = limit(2 * (m - len(matched)))
        return 2, m, move > allowed + SLACK, ratio(move, allowed)

    return gather("lemma-2", how, (one(np.asarray(x), np.asarray(y)) for x, y in pairs))


def check_unmatched(pairs: Iterable[tuple[Ints, Ints]], edit: Callable[[Ints, Ints], int], limit: Half = half,
                    how: str = "one optimal alignment") -> Check:  # fmt: skip
    """Lemma 3: at most limit(ed) models are unmatched, so any limit(ed) + 1 models hold a matched one.

    edit : the distance by a way of its own, not from the alignment."""

    def one(x: Ints, y: Ints) -> tuple[int, int, bool, float]:
        left, allowed = len(x) - len(aligned(x, y)), limit(edit(x, y))
        return 2, len(x), left > allowed + SLACK, ratio(left, allowed)

    return gather("lemma-3", how, (one(np.asarray(x), np.asarray(y)) for x, y in pairs))


def edit_by_table(x: Ints, y: Ints) -> int:
    """Edit distance by insertions and deletions with the usual O(m^2) table, for any two strings."""
    row = list(range(len(y) + 1))
    for i, a in enumerate(x, 1):
        before, row = row, [i]
        for j, b in enumerate(y, 1):
            row.append(before[j - 1] if a == b else 1 + min(before[j], row[-1]))
    return row[-1]


def check_lemma1(cases: Iterable[tuple[Piecewise, Fraction]], how: str) -> Check:
    """measure{rank <= beta} >= beta measure(P), exactly."""
    rows = ((1, len(u.pieces), u.within(b) < b, ratio(float(b), float(u.within(b)))) for u, b in cases)
    return gather("lemma-1", how, rows)


def check_claim2(cases: Iterable[tuple[Piecewise, Fraction]], how: str) -> Check:
    """measure{rank <= beta} = measure{u >= l*}: Claim 2 up to a set of measure 0, exactly."""
    rows = ((1, len(u.pieces), u.within(b) != u.share(u.threshold(b)), float(u.share(u.threshold(b)) / max(u.within(b), b)))
            for u, b in cases)  # fmt: skip
    return gather("claim-2", how, rows)


def check_continuous(instances: Iterable[Iterable[Piecewise]], how: str, always: bool = False) -> Check:
    """Theorem 3.2's existence, exactly: inf_c max_i rank_i <= alpha, attained where alpha > 1 - 1/n (or `always`)."""

    def one(utilities: list[Piecewise]) -> tuple[int, int, bool, float]:
        found = existence(utilities)
        bad = found.beta.value > found.alpha.value or ((always or found.strict) and not found.exists)
        return found.n, len(utilities[0].pieces), bad, ratio(float(found.beta.value), float(found.alpha.value))

    return gather("theorem-3.2", how, (one(list(utilities)) for utilities in instances))


def check_adapted(pairs: Iterable[tuple[int, int]], how: str, falling: bool = False,
                  orders: Callable[[int, int], np.ndarray] = example1) -> Check:  # fmt: skip
    """Example 1 with blocks of [0, 1) for models, exactly: some model has all ranks <= alpha, and none has all below it."""

    def one(n: int, m: int) -> tuple[int, int, bool, float]:
        found = existence(blocks(orders(n, m), falling))
        return n, m, found.beta != Infimum(found.alpha.value, True), float(found.beta.value / found.alpha.value)

    return gather("example-1-continuous", how, (one(n, m) for n, m in pairs))


def of_utility(u: Piecewise, r: Fraction) -> float:
    """What a binary search needs beyond log2(1/eps) rounds: log2 of range x 2 / (smallest slope x r).

    A concave utility in one dimension passes a level twice at most, so the measure changes by at most 2 / slope for a unit of
    the level, and a middle that is near enough to the right level lies within 1 ± eps."""
    slopes = (Fraction(p.last - p.first) / Fraction(p.high - p.low) for p in u.pieces)
    return log2((u.levels[-1] - u.levels[0]) * 2 / (min(map(abs, slopes)) * r))


def check_rounds(cases: Iterable[tuple[Piecewise, Fraction, int]], how: str,
                 beyond: Callable[[Piecewise, Fraction], float] = of_utility) -> Check:  # fmt: skip
    """Binary search finds a level for each (u, r, k) with eps = 2^-k in at most k + beyond(u, r) rounds."""

    def one(u: Piecewise, r: Fraction, k: int) -> tuple[int, int, bool, float]:
        taken, allowed = rounds(u, r, Fraction(1, 2**k)) or NEVER, ceil(k + beyond(u, r))
        return 1, len(u.pieces), taken > allowed, ratio(taken, allowed)

    return gather("rounds", how, (one(*case) for case in cases))


def leaves_nothing(L: float) -> bool:
    """Appendix A: at every model some agent has utility 0."""
    return L >= 4


def no_proportional(L: float) -> bool:
    """Appendix A: no model gives both agents half of their maximum."""
    return sqrt(L) > 2 - sqrt(2)


def check_appendix(
    Ls: Iterable[float], promise: float = 0.0, fails: Callable[[float], bool] = leaves_nothing, cells: int = 1000
) -> Check:
    """No model of a grid of [0, 1] gives both agents more than `promise` of their maximum exactly where fails(L) says so.

    With promise 0 "more than" is strict; otherwise it is "at least", as proportionality has it with promise 1/2."""
    c = np.linspace(0, 1, 2 * cells + 1)  # holds 1/2, the best model

    def one(L: float) -> tuple[int, int, bool, float]:
        least = AppendixA(L).utilities(c).min(axis=0).max()
        none = least <= 0 if promise == 0 else least < promise
        return 2, len(c), none != fails(L), float(least)

    return gather("appendix-a", f"no model gives both {'anything' if promise == 0 else promise}", map(one, Ls))


def check_smooth(Ls: Iterable[float], limit: float = 2.0, cells: int = 400) -> Check:
    """|u'(a) - u'(b)| <= limit L |a - b| on a grid: Appendix A's utilities are 2L-smooth."""
    c = np.linspace(0, 1, cells + 1)

    def one(L: float) -> tuple[int, int, bool, float]:
        slope = np.abs(np.diff(AppendixA(L).gradients(c), axis=1)).max() * cells / L
        return 2, len(c), slope > limit * (1 + SLACK), float(slope / limit)

    return gather("appendix-a", "smooth with constant 2L", map(one, Ls))
