"""Counting all profiles: three ways that must agree; search beyond; and limits that are broken on purpose."""

from __future__ import annotations

from collections import Counter
from math import factorial

import numpy as np
import pytest

from fairfl_book import bench
from fairfl_lite import rankings
from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings import exhaustive, search

pytestmark = pytest.mark.slow

SMALL = [(1, 4), (2, 1), (2, 2), (2, 5), (3, 3), (3, 4), (4, 3), (5, 3), (7, 2)]


@pytest.mark.parametrize(("n", "m"), SMALL)
def test_three_ways_to_count_agree(n, m):
    by_hand = Counter(rankings.beta(ranks) for ranks in rankings.profiles(n, m))
    expected = [by_hand[b] for b in range(m)]
    assert sum(expected) == rankings.total(n, m) == factorial(m) ** (n - 1)
    assert rankings.counts(n, m) == expected
    assert rankings.counts_by_maxima(n, m) == expected


def test_the_walk_and_the_count_agree_where_numbers_are_large():
    assert rankings.counts_by_maxima(9, 6) == rankings.counts(9, 6)
    assert sum(rankings.counts(9, 6)) == factorial(6) ** 8 > 2**63


@pytest.mark.parametrize(("n", "m"), [(2, 5), (3, 4), (4, 3)])
def test_joint_counts_against_written_out_profiles(n, m):
    found, dominated = rankings.joint(n, m)
    pairs = n * (n - 1) // 2
    kinds = [(d, how) for d, how in found if d in ("md", "fd", "ed") and (how != "radius" or d == "md")]
    seen = {kind: Counter() for kind in kinds}
    for ranks in rankings.profiles(n, m):
        b = rankings.beta(ranks)
        for d, how in kinds:
            value = rankings.spread(ranks, d, how) * (pairs if how == "mean" else 1)
            seen[d, how][round(value), b] += 1
    assert dominated == 0
    for kind in kinds:
        rows, columns = np.nonzero(found[kind])
        assert {(v, b): found[kind][v, b] for v, b in zip(rows, columns, strict=True)} == seen[kind]


def test_theorem_3_1_holds_and_is_attained_for_many_sizes_and_a_smaller_limit_fails():
    for n in range(2, 9):
        for m in range(2, 16):
            exact = rankings.check_existence_all("theorem-3.1-exact", n, m)
            assert exact.holds
            assert exact.worst == 1
            assert rankings.check_existence_all("theorem-3.1", n, m, rankings.paper_bound).holds
            less = rankings.check_existence_all("broken", n, m, lambda n, m: rankings.worst_case(n, m) - 1)
            assert less.violations == rankings.counts(n, m)[rankings.worst_case(n, m)] > 0


def test_both_engines_see_a_broken_limit():
    broken = lambda n, m: rankings.worst_case(n, m) - 1  # noqa: E731
    one, two = (rankings.check_existence_all("x", 3, 5, broken, engine) for engine in ("counts", "maxima"))
    assert one.violations == two.violations > 0
    assert rankings.check_existence("x", rankings.profiles(3, 5), broken).violations == one.violations


@pytest.mark.parametrize(("n", "m"), [(3, 9), (10, 95), (100, 120)])
def test_families_hold_and_cyclic_ones_are_at_the_limit(n, m):
    rng = np.random.default_rng(0)
    for name, ranks in search.families(n, m, rng):
        check = rankings.check_existence("theorem-3.1-exact", [ranks], how=name)
        assert check.holds
    assert rankings.beta(search.cyclic(n, m, 0, rng)) == rankings.worst_case(n, m)
    assert rankings.beta(search.near(n, m, 0, rng)) == 0


def test_climbing_reaches_the_worst_case_and_not_beyond():
    rng = np.random.default_rng(0)
    ranks, left = search.climb(search.uniform(4, 22, rng), 200_000, rng)
    assert rankings.beta(ranks) == rankings.worst_case(4, 22)
    assert left > 0
    ranks, left = search.climb(search.uniform(4, 22, rng), 200_000, rng, goal=rankings.worst_case(4, 22))
    assert left == 0
    assert (np.sort(ranks, axis=1) == np.arange(22)).all()


def test_climbing_on_a_score_does_not_lower_it():
    rng = np.random.default_rng(0)
    start = search.near(3, 8, 1.0, rng)
    assert rankings.beta(search.climb_score(start, rankings.beta, 300, rng)) >= rankings.beta(start)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rankings.counts(0, 3), "at least one agent"),
        (lambda: rankings.counts_by_maxima(3, 9), "take m <= 8"),
        (lambda: rankings.joint(3, 9), "to enumerate"),
        (lambda: exhaustive.check_existence_all("x", 3, 3, engine="fast"), "There is no engine 'fast'"),
        (lambda: rankings.worst("edit", 2, 3), "There is no distance"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(FairFLError, match=words):
        call()


def test_the_benchmark_of_orders_gives_growth_for_each_distance():
    found = bench.orders(n=4, m=32, repeats=1)
    assert {"ranks", "md and fd", "ed"} <= set(found["seconds"])
    assert found["growth"]["ed"].keys() == {"n", "m"}
    assert all(value > 0 for value in found["seconds"].values())
