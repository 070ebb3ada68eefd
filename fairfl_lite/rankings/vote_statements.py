"""Checks of what E2FL's votes promise, on every profile of a size where that can be done.

In the rows n counts voters and m edges. Checks take what they compare with, so that a wrong bound is seen to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations, product
from math import e, log2

import numpy as np

from fairfl_lite.rankings import votes
from fairfl_lite.rankings.bounds import Check, gather
from fairfl_lite.rankings.ranks import Ints

EVERY = [(n, 2) for n in range(1, 10)] + [(n, 3) for n in range(1, 7)] + [(n, 4) for n in range(1, 5)] + [(1, 5), (2, 5), (2, 6)]
"""Voters and edges for which every profile is tried."""
SIZES = ((2, 1), (3, 1), (2, 2), (2, 1, 1), (4, 1), (3, 2), (3, 1, 1), (2, 2, 1), (2, 1, 1, 1))
"""Sizes of groups that are tried with every profile."""


@cache
def orders(d: int) -> Ints:
    """Every ranking of d edges, [d!, d]."""
    return np.array(list(permutations(range(d))))


def profiles(n: int, d: int) -> Ints:
    """Every profile of n rankings of d edges, [d!^n, n, d]."""
    R = orders(d)
    return R[np.indices((len(R),) * n).reshape(n, -1).T]


def members(sizes: Sequence[int]) -> Ints:
    """The group of each voter, for groups of these sizes."""
    return np.repeat(np.arange(len(sizes)), sizes)


def _groups_of(sizes: Sequence[int]) -> str:
    return f"groups of {'-'.join(map(str, sizes))}"


def _check(statement: str, how: str, n: int, d: int, bad: np.ndarray, worst: float = 1.0) -> Check:
    """One check from whether each instance goes against the statement."""
    return Check(statement, n, d, how, bad.size, int(bad.sum()), worst)


Vote = Callable[[Ints], Ints]


def borda(n: int, d: int, vote: Vote = votes.vote) -> Iterator[Check]:
    """The vote against Borda's count by pairs, and what follows: unanimity, dominance, anonymity, monotony."""
    R, how = profiles(n, d), "every profile"
    count, place = votes.preferences(R).sum(axis=-1), votes.reputations(vote(R))
    order = np.lexsort((np.broadcast_to(np.arange(d), count.shape), count), axis=-1)
    yield _check("borda", how, n, d, (votes.reputations(order) != place).any(axis=-1))
    above = place[..., :, None] > place[..., None, :]
    yield _check("dominance", how, n, d, ((votes.preferences(R) == n) & ~above).any(axis=(-1, -2)))
    same = np.repeat(orders(d)[:, None], n, axis=1)
    yield _check("unanimity", how, n, d, (vote(same) != orders(d)).any(axis=-1))
    yield _check("anonymity", how, n, d, (vote(R[:, ::-1]) != vote(R)).any(axis=-1))
    yield _check("monotony", how, n, d, _lowered(R, place, vote))


def _lowered(R: Ints, place: Ints, vote: Vote) -> np.ndarray:
    """Whether an edge loses a place when the first voter moves it up by one; [instance, step]."""
    d, out = R.shape[-1], []
    for step in range(d - 1):
        raised = R.copy()
        raised[:, 0, [step, step + 1]] = R[:, 0, [step + 1, step]]
        edge = R[:, 0, step, None]
        after = votes.reputations(vote(raised))
        out.append(np.take_along_axis(after, edge, 1) < np.take_along_axis(place, edge, 1))
    return np.concatenate(out) if out else np.zeros(len(R), bool)


def neutrality(n: int, d: int) -> Iterator[Check]:
    """Renaming the edges renames the result: where all sums differ; in general not, since equal sums go by id."""
    R = profiles(n, d)
    sums = votes.reputations(R).sum(axis=-2)
    strict = (np.diff(np.sort(sums, axis=-1), axis=-1) > 0).all(axis=-1)
    renamed = d - 1 - R
    bad = (votes.vote(renamed) != d - 1 - votes.vote(R)).any(axis=-1)
    yield _check("neutrality", "every profile without equal sums", n, d, bad[strict])
    yield _check("neutrality", "fine print: equal sums, the lowest id first", n, d, bad)


def winners(R: Ints) -> tuple[np.ndarray, Ints]:
    """Whether an edge is put above each other one by more than half of the voters, and which (0 where none is)."""
    wins = (2 * votes.preferences(R) > R.shape[-2]) | np.eye(R.shape[-1], dtype=bool)
    return wins.all(axis=-1).any(axis=-1), wins.all(axis=-1).argmax(axis=-1)


def majority(n: int, d: int) -> Iterator[Check]:
    """The edge that a majority puts above each other one: is it first, and is it ever last?"""
    R = profiles(n, d)
    there, edge = winners(R)
    if not there.any():
        return
    sums = votes.reputations(R[there]).sum(axis=-2)
    own = np.take_along_axis(sums, edge[there, None], 1)
    ahead = (sums > own).sum(axis=-1)
    yield _check("majority", "fine print: majority against every other edge", n, d, ahead > 0, float(ahead.max() / max(d - 1, 1)))
    if d > 1:
        yield _check("majority-not-last", "every profile", n, d, ahead == d - 1)
    alike = (R[:, :, -1] == R[:, :1, -1]).sum(axis=-1) * 2 > n
    tops = votes.vote(R)[:, -1] != R[:, 0, -1]
    yield _check("majority-top", "fine print: first for more than half of the voters", n, d, (tops & alike)[alike])


def least_mean(place: Ints, d: int) -> np.ndarray:
    """The smallest mean reputation of an edge that a vote puts at this place: place / 2."""
    return place / 2


def mean_place(n: int, d: int, low: Callable[[Ints, int], np.ndarray] = least_mean) -> Iterator[Check]:
    """place / 2 <= mean reputation <= (place + d - 1) / 2."""
    R = profiles(n, d)
    mean, place = votes.reputations(R).mean(axis=-2), votes.reputations(votes.vote(R))
    least, most = low(place, d), d - 1 - low(d - 1 - place, d)
    bad = ((mean < least - 1e-9) | (mean > most + 1e-9)).any(axis=-1)
    tight = np.where(place > 0, least / np.maximum(mean, 1e-9), 0).max()
    yield _check("mean-place", "every profile", n, d, bad, float(tight))


def trivial_groups(n: int, d: int) -> Iterator[Check]:
    """One group, or everybody alone: then the vote in two levels is the flat one."""
    R = profiles(n, d)
    for how, groups in (("one group", np.zeros(n, int)), ("everybody alone", np.arange(n))):
        yield _check("two-level-flat", how, n, d, (votes.two_level(R, groups) != votes.vote(R)).any(axis=-1))


def unanimous_groups(Q: int, d: int) -> Iterator[Check]:
    """Groups of one size whose members agree: flat again. Of different sizes: not."""
    R = profiles(Q, d)
    for each in (2, 3):
        alike = np.repeat(R, each, axis=1)
        bad = (votes.two_level(alike, members((each,) * Q)) != votes.vote(alike)).any(axis=-1)
        yield _check("two-level-flat", f"{_groups_of((each,) * Q)} who agree within", Q * each, d, bad)
    unequal = np.concatenate([np.repeat(R[:, :1], 3, axis=1), R[:, 1:]], axis=1)
    bad = (votes.two_level(unequal, members((3, *(1,) * (Q - 1)))) != votes.vote(unequal)).any(axis=-1)
    yield _check("two-level-flat", f"fine print: {_groups_of((3, *(1,) * (Q - 1)))} who agree within", Q + 2, d, bad)


def equal_groups() -> Iterator[Check]:
    """Two groups of two, every profile: equal sizes are not enough."""
    R = profiles(4, 3)
    bad = (votes.two_level(R, members((2, 2))) != votes.vote(R)).any(axis=-1)
    yield _check("two-level-flat", f"fine print: {_groups_of((2, 2))}", 4, 3, bad)


def unsure(R: Ints, groups: Ints) -> np.ndarray:
    """2 delta + 2 (d-1) tau, [...]: pairs of edges whose mean reputations are farther apart are ordered alike by both votes.

    delta : the largest distance of an edge's mean reputation in a group from its place in the group's vote. tau : half of the
    sum over groups of |n_q / n - 1 / Q|, the votes that two levels move from one group to another.
    """
    ids, sizes = np.unique(groups, return_counts=True)
    places = votes.reputations(votes.group_votes(R, groups))
    means = np.stack([votes.reputations(R[..., groups == q, :]).mean(axis=-2) for q in ids], axis=-2)
    tau = np.abs(sizes / sizes.sum() - 1 / len(ids)).sum() / 2
    return 2 * np.abs(means - places).max(axis=(-1, -2)) + 2 * (R.shape[-1] - 1) * tau


def apart(R: Ints, groups: Ints, how: str, allowed: Callable[[Ints, Ints], np.ndarray] = unsure) -> Iterator[Check]:
    """Edges that the two votes order differently have mean reputations within `allowed` of each other."""
    mean = votes.reputations(R).mean(axis=-2)
    gap = np.abs(mean[..., :, None] - mean[..., None, :])
    flat, two = (votes.reputations(x)[..., :, None] for x in (votes.vote(R), votes.two_level(R, groups)))
    turned = (flat > np.swapaxes(flat, -1, -2)) & (two < np.swapaxes(two, -1, -2))
    widest, limit = np.where(turned, gap, 0).max(axis=(-1, -2)), allowed(R, groups)
    used = float((widest / np.maximum(limit, 1e-9)).max())
    yield _check("two-level-apart", how, R.shape[-2], R.shape[-1], np.asarray(widest > limit + 1e-9), used)
    share, place = np.asarray(_shared(R, groups)), votes.reputations(votes.two_level(R, groups))
    tight = float(np.where(place > 0, place / 4 / np.maximum(share, 1e-9), 0).max())
    yield _check("two-level-mean", how, R.shape[-2], R.shape[-1], np.less(share, place / 4 - 1e-9).any(axis=-1), tight)


def _shared(R: Ints, groups: Ints) -> np.ndarray:
    """The mean over groups of an edge's mean reputation inside the group, [..., d]."""
    return np.mean([votes.reputations(R[..., groups == q, :]).mean(axis=-2) for q in np.unique(groups)], axis=0)


def all_apart() -> Iterator[Check]:
    for sizes, d in product(SIZES, (2, 3, 4)):
        if sum(sizes) < 5 or d < 4:
            yield from apart(profiles(sum(sizes), d), members(sizes), f"every profile, {_groups_of(sizes)}")
    rng = np.random.default_rng(0)
    for sizes, d in (((5, 5, 5), 12), ((9, 4, 2, 1), 20), ((13, 6, 3, 2, 1), 50)):
        start = np.arange(d) + rng.normal(0, d / 4, (200, len(sizes), d))  # groups that differ, and members near their group
        near = np.repeat(start, sizes, axis=1) + rng.normal(0, 1, (200, sum(sizes), d))
        yield from apart(np.argsort(near, axis=-1), members(sizes), f"drawn, {_groups_of(sizes)} who are alike")


def reversal() -> Iterator[Check]:
    """Groups of 3, 1 and 1, and 3 of 3: two levels can give the very opposite of the flat vote, with no sum equal to another."""
    for how, against in ((_groups_of((3, 1, 1)), (3, 4)), (_groups_of((3, 3, 3)), (0, 1, 3, 4))):
        groups = members((3, 1, 1) if len(against) == 2 else (3, 3, 3))
        rows = []
        for d in range(2, 61):
            up = np.tile(np.arange(d), (len(groups), 1))
            up[list(against)] = np.arange(d)[::-1]
            flat, two = votes.vote(up), votes.two_level(up, groups)
            far = votes.footrule(flat, two), votes.kendall(flat, two), votes.swapped(flat, two)
            most = d * d // 2, d * (d - 1) // 2, 2 * (d - votes.kept(d))
            rows.append((len(groups), d, tuple(map(int, far)) != most, float(far[0] / most[0])))
        yield gather("two-level-opposite", how, rows)


def moved(rest: Ints, groups: Ints, own: int, start: Ints) -> int:
    """The farthest that voter `own` moves an edge from its place in `start`, over all its rankings; rest [n, d]."""
    tried = np.repeat(rest[None], len(orders(rest.shape[-1])), axis=0)
    tried[:, own] = orders(rest.shape[-1])
    return int(np.abs(votes.reputations(votes.two_level(tried, groups)) - votes.reputations(start)).max())


def one_against_all(n: int, d: int, limit: Callable[[int, int], int] = votes.reach) -> Check:
    """How far one voter moves an edge when the others agree, over all rankings of theirs and its own: exactly reach(n, d)."""
    R = np.repeat(orders(d)[:, None], n, axis=1)
    far = max(moved(rest, np.zeros(n, int), 0, rest[0]) for rest in R)
    return Check("reach", n, d, "one voter, every ranking", len(R) ** 2, int(far != limit(n, d)), far / max(limit(n, d), 1))


def some_against_all(n: int, d: int, m: int) -> Check:
    """The same for m voters, with the others' ranking fixed to each of all."""
    P, far = votes.reputations(orders(d)), 0
    given = np.unique(np.array([P[list(c)].sum(axis=0) for c in product(range(len(P)), repeat=m)]), axis=0)
    for rest in P:
        place = votes.reputations(np.argsort((n - m) * rest + given, axis=-1, kind="stable"))
        far = max(far, int(np.abs(place - rest).max()))
    wanted = votes.reach(n, d, m)
    return Check("reach", n, d, f"{m} voters, every ranking", len(P) ** (m + 1), int(far != wanted), far / max(wanted, 1))


def reaches() -> Iterator[Check]:
    for n, d in [(n, d) for d in range(2, 6) for n in range(2, 9)]:
        yield one_against_all(n, d)
    for n, d, m in [(n, d, m) for d in (3, 4) for n in range(3, 10) for m in (2, 3) if m < n]:
        yield some_against_all(n, d, m)
    rows = []
    for n, d in ((5, 40), (10, 288), (25, 288), (25, 1280)):  # one voter sends the ranking of the proof
        s, rest = votes.reach(n, d), np.arange(d)
        edge = d - 1 - s  # those it is to pass have the lower ids, so that equal sums count for the voter
        own = np.concatenate([rest[edge + 1 :][::-1], np.delete(rest, np.s_[edge:]), [edge]])
        place = votes.reputations(votes.vote(np.stack([*[_named(d, edge)] * (n - 1), _renamed(own, edge, d)])))
        rows.append((n, d, bool(place[d - 1] != d - 1), 1.0))
    yield gather("reach", "one voter, the ranking of the proof", rows)


def _named(d: int, edge: int) -> Ints:
    """0..d-1 with the edge at place `edge` called d - 1, and those above it one less."""
    return _renamed(np.arange(d), edge, d)


def _renamed(R: Ints, edge: int, d: int) -> Ints:
    return np.where(edge == R, d - 1, np.where(edge < R, R - 1, R))


def leaving() -> Iterator[Check]:
    """By majorisation or by trying all: can m voters put an edge out of the mask, for every sum of the others?"""
    for n, d, m in ((2, 3, 1), (4, 3, 1), (2, 4, 1), (3, 4, 1), (3, 3, 2), (3, 4, 2), (4, 4, 2)):
        P = votes.reputations(orders(d))
        given = np.unique(np.array([P[list(c)].sum(axis=0) for c in product(range(len(P)), repeat=m)]), axis=0)
        others = np.unique(np.array([P[list(c)].sum(axis=0) for c in product(range(len(P)), repeat=n - m)]), axis=0)
        keep, rows = votes.kept(d), []
        for rest in others:
            place = votes.reputations(np.argsort(rest + given, axis=-1, kind="stable"))
            out = np.asarray((place < d - keep).any(axis=0))
            rows += [(n, d, bool(out[edge] != votes.can_leave(rest, d, edge, m, keep)), 1.0) for edge in range(d)]
        yield gather("mask-exit", f"{m} of the voters, every sum of the others", rows)


def dictating() -> Iterator[Check]:
    """A strict majority that knows the others' rankings gives the vote any result, so in enough groups; one fewer does not."""
    rng = np.random.default_rng(0)
    for sizes in ((1,), (2,), (3,), (4,), (5,), (25,), (3, 1, 1), (3, 3, 3), (4, 2, 2, 1), (6, 5, 3, 2, 1)):
        rows = []
        for d in (2, 5, 30):
            for _ in range(20):
                wanted, R = rng.permutation(d), np.argsort(rng.random((sum(sizes), d)), axis=-1)
                taken = dictate(R, sizes, wanted)
                groups = members(sizes)
                rows.append(
                    (sum(sizes), d, taken != votes.dictators(sizes) or bool((votes.two_level(R, groups) != wanted).any()), 1.0)
                )
        yield gather("dictators", _groups_of(sizes), rows)
    for n in range(2, 8):
        m = votes.dictators((n,)) - 1
        far = votes.reach(n, 3, m, ties=False)
        yield Check("dictators-flat", n, 3, "one fewer against a unanimous rest", 1, int(far >= 2), float(far / 2))


def dictate(R: Ints, sizes: Sequence[int], wanted: Ints) -> int:
    """Change the rankings of as few voters as `dictators` says, in place, so that the vote is `wanted`; how many were changed."""
    groups, taken = members(sizes), 0
    by_size = np.argsort(sizes, kind="stable")
    mine, others = by_size[: len(sizes) // 2 + 1], by_size[len(sizes) // 2 + 1 :]
    opposed = [votes.vote(R[groups == q])[::-1] for q in others]
    for q, aim in zip(mine, [*opposed, *[wanted] * (len(mine) - len(opposed))], strict=True):
        inside = np.flatnonzero(groups == q)
        own = inside[: len(inside) // 2 + 1]
        R[own] = aim
        R[own[: len(inside) - len(own)]] = R[inside[len(own) :], ::-1]  # each cancels one of the others of its group
        taken += len(own)
    return taken


def coding(layers: Iterable[int]) -> Iterator[Check]:
    """log2(n!) <= n ceil(log2 n) < log2(n!) + n (1 + log2 e), for layers of n edges."""
    over = [(n, votes.bits([n]) - votes.least_bits([n])) for n in layers]
    rows = ((1, n, not -1e-6 <= more < n * (1 + log2(e)), more / (n * (1 + log2(e)))) for n, more in over)
    yield gather("bits", "n ceil(log2 n) against log2(n!)", rows)


def norms() -> Iterator[Check]:
    """Every ranking of 1..d has the norm sqrt(1^2 + ... + d^2)."""
    for d in range(1, 8):
        squares = ((votes.reputations(orders(d)) + 1) ** 2).sum(axis=-1)
        yield _check("norm", "every ranking", 1, d, squares != d * (d + 1) * (2 * d + 1) // 6)


def same_impact() -> Iterator[Check]:
    """Exchanging two voters' rankings changes nothing: in one vote never, between groups of different sizes it can."""
    for n, d in ((2, 3), (3, 3), (4, 3), (3, 4)):
        R = profiles(n, d)
        turned = R.copy()
        turned[:, [0, n - 1]] = R[:, [n - 1, 0]]
        yield _check("impact", "one vote", n, d, (votes.vote(turned) != votes.vote(R)).any(axis=-1))
        if n > 2:
            groups = members((n - 1, 1))
            bad = (votes.two_level(turned, groups) != votes.two_level(R, groups)).any(axis=-1)
            yield _check("impact", "fine print: a group of one", n, d, bad)
