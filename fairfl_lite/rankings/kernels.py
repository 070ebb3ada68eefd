"""Compiled loops of the theory room, all in one file: numba keeps compiled code by the age of the file it is in."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

STATISTICS = ("md max", "fd max", "ed max", "md mean", "fd mean", "ed mean", "md radius", "fd nway", "ed nway")


@njit(cache=True)
def increasing(x, tails):
    """Length of the longest increasing subsequence of distinct numbers x; `tails` is scratch of the same length."""
    length = 0
    for v in x:
        low, high = 0, length
        while low < high:
            mid = (low + high) // 2
            if tails[mid] < v:
                low = mid + 1
            else:
                high = mid
        tails[low] = v
        if low == length:
            length += 1
    return length


@njit(cache=True)
def alignment(x):
    """Places of one longest increasing subsequence of x, in order: tails with links back."""
    m, length = len(x), 0
    tails, before = np.empty(m, np.int64), np.full(m, -1, np.int64)
    for j in range(m):
        low, high = 0, length
        while low < high:
            mid = (low + high) // 2
            if x[tails[mid]] < x[j]:
                low = mid + 1
            else:
                high = mid
        tails[low] = j
        if low > 0:
            before[j] = tails[low - 1]
        if low == length:
            length += 1
    found, j = np.empty(length, np.int64), tails[length - 1]
    for k in range(length - 1, -1, -1):
        found[k] = j
        j = before[j]
    return found


@njit(cache=True)
def pairwise_moves(ranks):
    """Largest and total |difference of ranks| of each pair of agents, two int64 [n, n]."""
    n, m = ranks.shape
    largest, total = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
    for i in range(n):
        for j in range(i):
            top, sum_ = 0, 0
            for k in range(m):
                move = abs(ranks[i, k] - ranks[j, k])
                sum_ += move
                top = max(top, move)
            largest[i, j] = largest[j, i] = top
            total[i, j] = total[j, i] = sum_
    return largest, total


@njit(cache=True)
def common_with_earlier(i, order, ranks, common):
    """Fill common[i, :i] and common[:i, i]: longest common subsequences, by the ranks of j along i's order."""
    m = len(order)
    along, tails = np.empty(m, np.int32), np.empty(m, np.int32)
    common[i, i] = m
    for j in range(i):
        for k in range(m):
            along[k] = ranks[j, order[k]]
        common[i, j] = common[j, i] = increasing(along, tails)


@njit(cache=True)
def pairwise_common(orders, ranks):
    """Length of the longest common subsequence of each pair of orders, int64 [n, n]."""
    common = np.empty((len(ranks), len(ranks)), np.int64)
    for i in range(len(ranks)):
        common_with_earlier(i, orders[i], ranks, common)
    return common


@njit(parallel=True, cache=True)
def pairwise_common_in_parallel(orders, ranks):
    """The same; starting threads costs more than small tables take."""
    common = np.empty((len(ranks), len(ranks)), np.int64)
    for i in prange(len(ranks)):
        common_with_earlier(i, orders[i], ranks, common)
    return common


@njit(cache=True)
def common_to_all(ranks, length):
    """Longest chain of models that every agent ranks alike, models indexed by agent 0's order; `length` is scratch [m]."""
    n, m = ranks.shape
    longest = 0
    for k in range(m):
        length[k] = 1
        for j in range(k - 1, -1, -1):
            if length[j] >= length[k]:
                i = 1
                while i < n and ranks[i, j] < ranks[i, k]:
                    i += 1
                if i == n:
                    length[k] = length[j] + 1
        longest = max(longest, length[k])
    return longest


@njit(cache=True)
def following(p):
    """Turn p into the next permutation in lexicographic order; False after the last."""
    i = len(p) - 2
    while i >= 0 and p[i] > p[i + 1]:
        i -= 1
    if i < 0:
        return False
    j = len(p) - 1
    while p[j] < p[i]:
        j -= 1
    p[i], p[j] = p[j], p[i]
    i, j = i + 1, len(p) - 1
    while i < j:
        p[i], p[j] = p[j], p[i]
        i, j = i + 1, j - 1
    return True


@njit(cache=True)
def dominated(ranks, b):
    """Whether some model with largest rank b is worse than one other model for every agent."""
    n, m = ranks.shape
    for k in range(m):
        largest = 0
        for i in range(n):
            largest = max(largest, ranks[i, k])
        if largest == b:
            for other in range(m):
                i = 0
                while i < n and ranks[i, other] < ranks[i, k]:
                    i += 1
                if i == n:
                    return True
    return False


@njit(cache=True)
def joint_two(m):
    """Histograms [3, m * m // 2 + 2, m] of (md, b), (F, b), (ed, b) over all m! second orders; and argmins dominated."""
    found, bad = np.zeros((3, max(m * m // 2, 2 * m) + 2, m), np.int64), 0
    ranks, tails, p = np.empty((2, m), np.int64), np.empty(m, np.int64), np.arange(m)
    while True:
        b, top, total = m, 0, 0
        for k in range(m):
            ranks[0, k], ranks[1, k] = k, p[k]
            move = abs(p[k] - k)
            top, total, b = max(top, move), total + move, min(b, max(p[k], k))
        found[0, top, b] += 1
        found[1, total, b] += 1
        found[2, 2 * m - 2 * increasing(p, tails), b] += 1
        bad += dominated(ranks, b)
        if not following(p):
            return found, bad


@njit(cache=True)
def all_permutations(m, count):
    rows, p = np.empty((count, m), np.int8), np.arange(m)
    for r in range(count):
        for k in range(m):
            rows[r, k] = p[k]
        following(p)
    return rows


@njit(cache=True)
def all_distances(perms):
    """md, F and ed of every pair of rank vectors, uint8 [3, count, count]."""
    count, m = perms.shape
    found = np.zeros((3, count, count), np.uint8)
    order, along, tails = np.empty(m, np.int8), np.empty(m, np.int8), np.empty(m, np.int8)
    for a in range(count):
        for k in range(m):
            order[perms[a, k]] = k
        for b in range(a):
            top, total = 0, 0
            for k in range(m):
                move = abs(perms[a, k] - perms[b, k])
                top, total = max(top, move), total + move
                along[k] = perms[b, order[k]]
            found[0, a, b] = found[0, b, a] = top
            found[1, a, b] = found[1, b, a] = total
            found[2, a, b] = found[2, b, a] = 2 * m - 2 * increasing(along, tails)
    return found


@njit(cache=True)
def joint_many(n, perms, far, size):
    """Histograms [9, size, m] of (statistic, b) in the order of STATISTICS, with sums in place of means.

    Agent 0 has the identity. The others are n - 1 permutations in non-decreasing order, each weighed by the number of
    ways to deal them to the agents, so that the counts are those of all (m!)^(n-1) profiles.
    """
    count, m = perms.shape
    found, bad = np.zeros((9, size, m), np.int64), 0
    pick = np.zeros(n, np.int64)
    ranks, length, value = np.empty((n, m), np.int8), np.empty(m, np.int64), np.empty(9, np.int64)
    changed = 0
    while True:
        for i in range(changed, n):
            for k in range(m):
                ranks[i, k] = perms[pick[i], k]
        ways, same = 1, 1
        for i in range(1, n):
            same = same + 1 if i > 1 and pick[i] == pick[i - 1] else 1
            ways = ways * i // same
        for s in range(9):
            value[s] = 0
        radius = m
        for i in range(n):
            reach = 0
            for j in range(n):
                reach = max(reach, far[0, pick[i], pick[j]])
            radius = min(radius, reach)
            for j in range(i):
                for d in range(3):
                    value[d] = max(value[d], far[d, pick[i], pick[j]])
                    value[3 + d] += far[d, pick[i], pick[j]]
        value[6] = radius
        b = m
        for k in range(m):
            low, high = m, 0
            for i in range(n):
                low, high = min(low, ranks[i, k]), max(high, ranks[i, k])
            value[7] += high - low
            b = min(b, high)
        value[8] = 2 * m - 2 * common_to_all(ranks, length)
        for s in range(9):
            found[s, value[s], b] += ways
        if dominated(ranks, b):
            bad += ways
        changed = n - 1
        while changed > 0 and pick[changed] == count - 1:
            changed -= 1
        if changed == 0:
            return found, bad
        for i in range(n - 1, changed - 1, -1):
            pick[i] = pick[changed] + 1


@njit(cache=True)
def steps_of_maxima(states, place):
    """T[s, t]: how many of the m! permutations turn the sorted maxima s into t.

    states : int8 [S, m], sorted. place : where the state with a given base-m number is.
    """
    S, m = states.shape
    T = np.zeros((S, S), np.int64)
    counts = np.empty(m, np.int64)
    for s in range(S):
        p = np.arange(m)
        while True:
            counts[:] = 0
            for k in range(m):
                counts[max(states[s, k], p[k])] += 1
            code = 0
            for v in range(m):
                for _ in range(counts[v]):
                    code = code * m + v
            T[s, place[code]] += 1
            if not following(p):
                break
    return T


@njit(cache=True)
def climb(ranks, goal, steps, seed):
    """Swap two models in one order, again and again, keeping what does not raise the sum over models of
    max(0, goal - largest rank): it is 0 exactly when every model has a rank of at least `goal`. Works on `ranks` itself."""
    np.random.seed(seed)
    n, m = ranks.shape
    largest = np.empty(m, np.int64)
    for k in range(m):
        largest[k] = ranks[:, k].max()
    lack = np.maximum(goal - largest, 0).sum()
    for _ in range(steps):
        i, x, y = np.random.randint(n), np.random.randint(m), np.random.randint(m)
        if x == y:
            continue
        ranks[i, x], ranks[i, y] = ranks[i, y], ranks[i, x]
        to_x, to_y = ranks[:, x].max(), ranks[:, y].max()
        gain = max(goal - largest[x], 0) + max(goal - largest[y], 0) - max(goal - to_x, 0) - max(goal - to_y, 0)
        if gain >= 0:
            largest[x], largest[y], lack = to_x, to_y, lack - gain
        else:
            ranks[i, x], ranks[i, y] = ranks[i, y], ranks[i, x]
        if lack == 0:
            break
    return lack
