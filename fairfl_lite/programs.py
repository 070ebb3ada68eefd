"""Small optimisation programs that servers solve in every round: the projection onto the simplex, the min-norm point of a convex
hull, and the linear program of FCFL and EFFL. The last two need no more of the gradients g_1..g_n than their Gram matrix,
gram[i, j] = g_i . g_j. All take one problem, or a stack of them with any leading axes."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numba import njit

from fairfl_lite.errors import FairFLError, choose

Solver = Literal["simplex", "highs"]
FEASIBLE, PIVOT = 1e-10, 1e-9  # how far below 0 a slack may end, and what is too small to divide by, with rows of size 1
NOT_FINITE = "A program of numbers that are not finite has no solution: a gradient left the numbers."


def project_simplex(v: np.ndarray) -> np.ndarray:
    """The nearest point of {a : a >= 0, sum a = 1} to v, over the last axis: max(v - tau, 0) with the tau that sums to 1."""
    v = np.ascontiguousarray(v, np.float64)
    return _nearest(v.reshape(-1, v.shape[-1])).reshape(v.shape)


def min_norm(gram: np.ndarray, there: np.ndarray | None = None) -> np.ndarray:
    """Weights a of the shortest vector sum_i a_i g_i of the convex hull: a >= 0, sum a = 1 minimise a' gram a.

    gram [..., n, n], a [..., n]. there [..., n] : which vectors span the hull, all of them if None; one of them at least.
    The shortest vector d has d . g_i >= |d|^2 for every i, so -d lowers every function whose gradient is in the hull, unless
    it is 0. Where vectors depend on each other several a give the same d, and this is one of them. Wolfe's algorithm.
    """
    gram = np.ascontiguousarray(gram, np.float64)
    shape = gram.shape[:-1]
    inside, out = _mask(there, shape, "there"), np.zeros(shape)
    n = shape[-1]
    fault = _shortest(gram.reshape(-1, n, n), inside.reshape(-1, n), out.reshape(-1, n))
    if fault:
        raise FairFLError("A convex hull needs at least one vector." if fault == 1 else NOT_FINITE)
    return out


def finite_runs(gram: np.ndarray) -> np.ndarray:
    """Gram matrices [..., n, n] with 0 for one that is not finite: a run that diverged and is kept has no weights worth
    finding."""
    finite = np.isfinite(gram)
    return gram if finite.all() else np.where(finite.all((-2, -1), keepdims=True), gram, 0.0)


def linear_program(c: np.ndarray, A: np.ndarray, *, active: np.ndarray | None = None, there: np.ndarray | None = None,
                   solver: Solver = "simplex") -> tuple[np.ndarray, np.ndarray | bool]:  # fmt: skip
    """maximise a . c subject to A a >= 0, a >= 0 and sum a = 1: (a [..., n], feasible [...]).

    c [..., n], A [..., m, n]. active [..., m] : which constraints count, there [..., n] : which a may be positive; all of them
    if None. For directions -sum_i a_i g_i give c = gram[j], which is what function j loses, and A = gram: with an active
    constraint i function i does not rise to first order. Where no a is feasible it is 0 and `feasible` is False.
    solver : "simplex", a dense dual simplex for programs of a hundred rows or fewer, or "highs", scipy's, the reference.
    """
    c, A = np.asarray(c, np.float64), np.asarray(A, np.float64)
    if A.shape[:-2] != c.shape[:-1] or A.shape[-1] != c.shape[-1]:
        raise FairFLError(f"A linear program needs c [..., n] and A [..., m, n], not {c.shape} and {A.shape}.")
    choose(solver, ("simplex", "highs"), "solver")
    if c.ndim == 1 and active is None and there is None:
        return _solve(np.ascontiguousarray(c), np.ascontiguousarray(A), solver)
    rows, columns = _mask(active, A.shape[:-1], "active"), _mask(there, c.shape, "there")
    found, feasible = np.zeros(c.shape), np.zeros(c.shape[:-1], bool)
    for where in np.ndindex(*c.shape[:-1]):
        free = columns[where]
        found[where][free], feasible[where] = _solve(c[where][free], A[where][np.ix_(rows[where], free)], solver)
    return found, feasible if feasible.ndim else bool(feasible)


def _solve(c: np.ndarray, A: np.ndarray, solver: str) -> tuple[np.ndarray, bool]:
    """One program: its solution, and whether there is one."""
    if not _finite(c, A):
        raise FairFLError(NOT_FINITE)
    if not c.size:
        return c, False
    if solver == "simplex":
        a, status = _dual_simplex(c, A)
        if status < 2:  # 2: it went round too often, which exact arithmetic would not
            return a, status == 0
    from scipy.optimize import linprog

    size = np.abs(A).max(1, initial=0)
    upper = -A / np.where(size > 0, size, 1)[:, None] if len(A) else None
    best = linprog(-c, A_ub=upper, b_ub=None if upper is None else np.zeros(len(A)), A_eq=np.ones((1, c.size)), b_eq=[1.0])
    return (best.x, True) if best.status == 0 else (np.zeros(c.size), False)


def _mask(mask: np.ndarray | None, shape: tuple[int, ...], name: str) -> np.ndarray:
    if mask is None:
        return np.ones(shape, np.bool_)
    mask = np.ascontiguousarray(mask, np.bool_)
    if mask.shape != shape:
        raise FairFLError(f"{name} must be of shape {shape}, not {mask.shape}.")
    return mask


@njit(cache=True)
def _finite(c, A):
    for x in c:
        if not np.isfinite(x):
            return False
    for row in A:
        for x in row:
            if not np.isfinite(x):
                return False
    return True


@njit(cache=True, error_model="numpy")
def _nearest(stack):
    """The projections of all rows; what is not finite ends as numbers that are not."""
    out, n = np.empty_like(stack), stack.shape[1]
    for r in range(len(stack)):
        ordered = -np.sort(-stack[r])
        excess = np.cumsum(ordered) - 1
        kept = 0
        for j in range(n):
            if ordered[j] * (j + 1) > excess[j]:
                kept += 1
        tau = excess[kept - 1] / kept
        out[r] = np.maximum(stack[r] - tau, 0.0)
    return out


@njit(cache=True)
def _dual_simplex(c, A):
    """Without A a >= 0 the best a is the unit vector of the largest c. From there slacks that are negative leave one by one,
    the objective falling as little as it can; a slack that nothing can raise has no feasible a.

    The dictionary: basic = value + table @ nonbasic, objective = .. + reduced @ nonbasic with reduced <= 0. Variables are
    a_0..a_(n-1), then the slacks. Status 0 solved, 1 infeasible, 2 given up.
    """
    m, n = A.shape
    first = np.argmax(c)
    basic, nonbasic = np.empty(m + 1, np.int64), np.empty(n - 1, np.int64)
    value, table, reduced = np.empty(m + 1), np.empty((m + 1, n - 1)), np.empty(n - 1)
    basic[m], value[m] = first, 1.0
    largest = max(np.abs(c).max(), 1e-300)
    k = 0
    for j in range(n):
        if j != first:
            nonbasic[k], reduced[k], table[m, k] = j, (c[j] - c[first]) / largest, -1.0
            k += 1
    for i in range(m):
        size = max(np.abs(A[i]).max(), 1e-300)
        basic[i], value[i] = n + i, A[i, first] / size
        for k in range(n - 1):
            table[i, k] = (A[i, nonbasic[k]] - A[i, first]) / size
    patience = 20 * (m + n + 1)
    for turn in range(10 * patience):
        careful = turn > patience  # smallest numbers first, which cannot go round in a circle
        leaving = -1
        for i in range(m + 1):
            worse = leaving < 0 or (basic[i] < basic[leaving] if careful else value[i] < value[leaving])
            if worse and value[i] < -FEASIBLE:
                leaving = i
        if leaving < 0:
            a = np.zeros(n)
            for i in range(m + 1):
                if basic[i] < n:
                    a[basic[i]] = max(value[i], 0.0)
            return a / a.sum(), 0
        entering, best = -1, np.inf
        for k in range(n - 1):
            if table[leaving, k] > PIVOT:
                ratio = max(-reduced[k], 0.0) / table[leaving, k]
                tie = abs(ratio - best) <= 1e-12 * (1 + best) if entering >= 0 else False
                if tie:
                    better = nonbasic[k] < nonbasic[entering] if careful else table[leaving, k] > table[leaving, entering]
                else:
                    better = ratio < best
                if better:
                    entering, best = k, ratio
        if entering < 0:
            return np.zeros(n), 1
        pivot = table[leaving, entering]
        table[leaving] /= -pivot
        table[leaving, entering] = 1 / pivot
        value[leaving] /= -pivot
        for i in range(m + 1):
            by = table[i, entering]
            if i != leaving and by != 0:
                table[i, entering] = 0.0
                value[i] += by * value[leaving]
                table[i] += by * table[leaving]
        by = reduced[entering]
        reduced[entering] = 0.0
        reduced += by * table[leaving]
        basic[leaving], nonbasic[entering] = nonbasic[entering], basic[leaving]
    return np.zeros(n), 2


@njit(cache=True)
def _shortest(grams, inside, out):
    """Wolfe's algorithm on each Gram matrix: vectors are added while one of them has less of the current point than the point
    itself, and leave again where the nearest point of their affine hull is outside their convex hull. `out` comes as zeros.
    Returns 0, or 1 for a hull of nothing, or 2 for numbers that are not finite."""
    n = grams.shape[1]
    for r in range(len(grams)):
        if not inside[r].any():
            return 1
    for r in range(len(grams)):
        for i in range(n):
            for j in range(n):
                if inside[r, i] and inside[r, j] and not np.isfinite(grams[r, i, j]):
                    return 2
    chosen, factor, y = np.empty(n, np.int64), np.empty((n, n)), np.empty(n)
    for r in range(grams.shape[0]):
        Q, w = grams[r], out[r]
        scale, first = 0.0, -1
        for j in range(n):
            if inside[r, j]:
                scale = max(scale, Q[j, j])
                if first < 0 or Q[j, j] < Q[first, first]:
                    first = j
        w[first], chosen[0], size = 1.0, first, 1
        for _ in range(50 * n + 100):
            norm, least, new = 0.0, np.inf, -1
            for j in range(n):
                if inside[r, j]:
                    along = 0.0
                    for i in range(size):
                        along += Q[j, chosen[i]] * w[chosen[i]]
                    norm += w[j] * along
                    if along < least:
                        least, new = along, j
            if least >= norm - max(1e-11 * norm, 1e-15 * scale) or w[new] > 0:
                break
            chosen[size], size = new, size + 1
            while size > 0:
                if not _affine(Q, chosen, size, scale, factor, y):
                    size = 0  # the new vector depends on the others, so to rounding nothing is nearer
                    break
                step = 1.0
                for i in range(size):
                    if y[i] <= 0:
                        step = min(step, w[chosen[i]] / (w[chosen[i]] - y[i]) if w[chosen[i]] > y[i] else 0.0)
                kept = 0
                for i in range(size):
                    j = chosen[i]
                    now = w[j] + step * (y[i] - w[j])
                    if y[i] <= 0 and now <= 1e-15:
                        w[j] = 0.0
                    else:
                        w[j], chosen[kept] = now, j
                        kept += 1
                if kept == size:
                    break
                size = kept
            if size == 0:
                break
        total = w.sum()
        for j in range(n):
            w[j] /= total
    return 0


@njit(cache=True)
def _affine(Q, chosen, size, scale, factor, y):
    """Weights y of the nearest point to 0 of the affine hull: (Q + scale 11') u = 1, y = u / sum u, by Cholesky.

    The added 11' changes nothing but the length of u, and makes the matrix definite also where the hull holds 0.
    """
    for i in range(size):
        for j in range(i + 1):
            entry = Q[chosen[i], chosen[j]] + scale
            for k in range(j):
                entry -= factor[i, k] * factor[j, k]
            if i > j:
                factor[i, j] = entry / factor[j, j]
            elif entry <= 1e-14 * scale:
                return False
            else:
                factor[i, i] = np.sqrt(entry)
    for i in range(size):
        entry = 1.0
        for k in range(i):
            entry -= factor[i, k] * y[k]
        y[i] = entry / factor[i, i]
    total = 0.0
    for i in range(size - 1, -1, -1):
        entry = y[i]
        for k in range(i + 1, size):
            entry -= factor[k, i] * y[k]
        y[i] = entry / factor[i, i]
        total += y[i]
    for i in range(size):
        y[i] /= total
    return True
