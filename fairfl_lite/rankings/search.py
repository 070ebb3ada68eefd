"""Instances beyond enumeration: drawn at random, nearly identical, cyclic with noise, and climbed towards a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fairfl_lite.rankings import kernels
from fairfl_lite.rankings.ranks import Ints, example1, ranks_of_orders, sizes, worst_case

Random = np.random.Generator


def uniform(n: int, m: int, rng: Random) -> Ints:
    """Ranks [n, m], every agent's order drawn uniformly."""
    n, m = sizes(n, m)
    return rng.permuted(np.tile(np.arange(m), (n, 1)), axis=1)


def near(n: int, m: int, spread: float, rng: Random) -> Ints:
    """Ranks of agents who see one common order through noise of `spread` places, as in a Mallows model; 0 = identical."""
    n, m = sizes(n, m)
    seen = np.arange(m) + spread * rng.standard_normal((n, m))
    return np.argsort(np.argsort(seen, axis=1, kind="stable"), axis=1)


def cyclic(n: int, m: int, swaps: int, rng: Random) -> Ints:
    """Example 1's ranks with `swaps` random swaps of two models in a random agent's order."""
    ranks = ranks_of_orders(example1(n, m))
    for i, x, y in zip(rng.integers(n, size=swaps), *rng.integers(m, size=(2, swaps)), strict=True):
        ranks[i, [x, y]] = ranks[i, [y, x]]
    return ranks


def blocks(n: int, m: int, d: int) -> Ints:
    """Ranks in which agent 1 exchanges the first two blocks of d models and the others do not: b = md = d, ed = 2d."""
    n, m = sizes(n, m)
    orders = np.tile(np.arange(m), (n, 1))
    orders[1:2, : 2 * d] = np.roll(orders[1:2, : 2 * d], d, axis=1)
    return ranks_of_orders(orders)


def dropped(n: int, m: int, k: int) -> Ints:
    """Ranks in which agent i puts the i-th of the first n blocks of k models behind the other n - 1: b = (n-1) k."""
    n, m = sizes(n, m)
    top = np.arange(n * k).reshape(n, k)
    rest = np.arange(n * k, m)
    return ranks_of_orders([np.concatenate([np.delete(top, i, axis=0).ravel(), top[i], rest]) for i in range(n)])


def families(n: int, m: int, rng: Random) -> Iterator[tuple[str, Ints]]:
    """One instance of each kind, named."""
    yield "random", uniform(n, m, rng)
    for share in (0.001, 0.01, 0.1):
        yield "near-identical", near(n, m, share * m, rng)
    for swaps in (1, m // 10, n * m):
        yield "cyclic, perturbed", cyclic(n, m, swaps, rng)
    yield "blocks", blocks(n, m, m // 4)
    yield "blocks", dropped(n, m, max(m // (2 * n), 1) if n <= m else 0)


def climb(ranks: Ints, steps: int, rng: Random, goal: int | None = None) -> tuple[Ints, int]:
    """Hill climbing on b: swaps of two models in one order that do not raise sum_theta max(0, goal - max_i rank_i).

    goal : floor(m (n-1) / n) + 1, one more than the theorem allows, unless given. Returns ranks and the sum that is
    left: 0 would be an instance with b >= goal.
    """
    ranks = np.array(ranks, dtype=np.int64)
    goal = worst_case(*ranks.shape) + 1 if goal is None else goal
    return ranks, int(kernels.climb(ranks, goal, steps, int(rng.integers(2**31))))


def climb_score(ranks: Ints, score: Callable[[Ints], float], steps: int, rng: Random) -> Ints:
    """Hill climbing on any score: moves of one model to another place in one order that do not lower it."""
    ranks = np.array(ranks, dtype=np.int64)
    n, m = ranks.shape
    value = score(ranks)
    for _ in range(steps):
        i, start, end = rng.integers(n), *rng.integers(m, size=2)
        order = np.argsort(ranks[i])
        tried = ranks.copy()
        tried[i] = np.argsort(np.insert(np.delete(order, start), end, order[start]))
        new = score(tried)
        if new >= value:
            ranks, value = tried, new
    return ranks
