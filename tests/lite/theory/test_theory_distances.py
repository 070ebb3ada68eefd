"""Distances and bounds: against plain loops, and broken bounds that must be seen to fail."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairfl_lite import rankings
from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings import exhaustive, search, statements
from fairfl_lite.rankings.bounds import merge
from fairfl_lite.rankings.distances import DISTANCES, HOW

pytestmark = pytest.mark.slow

profiles = st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 10**6)).map(
    lambda drawn: search.uniform(drawn[0], drawn[1], np.random.default_rng(drawn[2]))
)
KINDS = [(d, how) for d in DISTANCES for how in HOW if how != "radius" or d == "md"]


def common_by_hand(orders) -> int:
    """The longest sequence of models that appears in every order, by trying all."""
    m = len(orders[0])
    for size in range(m, 0, -1):
        for kept in itertools.combinations(orders[0], size):
            if all([x for x in order if x in kept] == list(kept) for order in orders):
                return size
    return 0


@given(profiles)
def test_matrices_and_heterogeneity_by_plain_loops(ranks):
    n, m = ranks.shape
    orders = np.argsort(ranks, axis=1).tolist()
    pairs = [(i, j) for i in range(n) for j in range(n)]
    found = {"md": rankings.maximum_displacement(ranks), "fd": rankings.footrule(ranks), "ed": rankings.edit(ranks)}
    for i, j in pairs:
        assert found["md"][i, j] == np.abs(ranks[i] - ranks[j]).max()
        assert found["fd"][i, j] == np.abs(ranks[i] - ranks[j]).sum()
        assert found["ed"][i, j] == statements.edit_by_table(orders[i], orders[j])
    assert rankings.common(ranks) == common_by_hand(orders)
    for d, unit in (("md", m), ("fd", m), ("ed", 1)):
        apart = [found[d][i, j] / unit for i, j in pairs if i != j] or [0.0]
        assert rankings.heterogeneity(ranks, d) == pytest.approx(max(apart))
        assert rankings.heterogeneity(ranks, d, "mean") == pytest.approx(np.mean(apart))
        assert rankings.heterogeneity(ranks, d, "radius") == pytest.approx(min(found[d].max(axis=1)) / unit)
    if n == 2:
        for d in DISTANCES:
            assert len({rankings.heterogeneity(ranks, d, how) for how in HOW}) == 1


def test_large_tables_take_the_parallel_kernel_and_agree():
    ranks = search.near(30, 1200, 40, np.random.default_rng(0))
    assert ranks.size * len(ranks) > 1_000_000
    pair = rankings.edit(ranks[[3, 17]])[0, 1]
    assert rankings.edit(ranks)[3, 17] == pair == statements.edit_by_table(np.argsort(ranks[3]), np.argsort(ranks[17]))


@given(profiles)
def test_an_alignment_is_common_and_as_long_as_possible(ranks):
    x, y = np.argsort(ranks[0]), np.argsort(ranks[-1])
    matched = rankings.aligned(x, y)
    for order in (x, y):
        assert (np.diff(np.argsort(order)[matched]) > 0).all()
    assert 2 * len(x) - 2 * len(matched) == statements.edit_by_table(x, y)


@given(profiles)
def test_bounds_hold_and_are_ordered(ranks):
    n, m = ranks.shape
    b = rankings.beta(ranks)
    for d, how in KINDS:
        h = rankings.heterogeneity(ranks, d, how)
        ours, sharp = (m * rankings.bound(d, h, n, m, version, how) for version in ("ours", "sharp"))
        assert b <= sharp + 1e-9
        assert sharp <= ours + 1e-9
        if how == "max":
            assert ours <= m * rankings.bound(d, h, n, m) + 1e-9


@pytest.mark.parametrize(("n", "m"), [(2, 2), (2, 5), (2, 8), (3, 4), (3, 5), (4, 3), (4, 4), (5, 3)])
def test_every_bound_on_every_profile(n, m):
    for d, how in KINDS:
        for version in ("ours", "sharp") if how != "max" else ("paper", "ours", "sharp"):
            check = rankings.check_all("x", d, n, m, partial(rankings.bound, d, version=version, how=how), how)
            assert check.holds
            assert check.instances == rankings.total(n, m)


@pytest.mark.parametrize("m", [2, 5, 8, 9])
def test_the_exact_worst_case_of_two_agents(m):
    assert rankings.worst("md", 2, m) == {d / m: min(d, m // 2) for d in range(m)}
    assert rankings.worst("ed", 2, m) == {float(2 * u): min(u, m // 2) for u in range(m)}
    assert rankings.worst("fd", 2, m) == {F / m: int((F / 2) ** 0.5) for F in range(0, m * m // 2 + 1, 2)}


@pytest.mark.parametrize(("n", "m"), [(3, 5), (3, 6), (4, 4), (4, 5), (5, 4)])
def test_maximum_displacement_and_nway_edit_are_exact_for_more_agents(n, m):
    U = rankings.worst_case(n, m)
    assert rankings.worst("md", n, m) == {d / m: min(d, U) for d in range(m)}
    assert rankings.worst("ed", n, m, "nway") == {float(2 * u): min(u, U) for u in range(m)}


def test_edit_is_exact_for_three_agents_by_cyclic_blocks():
    ranks = rankings.ranks_of_orders(rankings.example1(3, 30))
    assert rankings.beta(ranks) == 30 * rankings.bound("ed", rankings.heterogeneity(ranks, "ed"), 3, 30, "ours")


BROKEN = {
    "half the edit bound": ("ed", "max", lambda h, n, m: rankings.bound("ed", h, n, m, "ours") / 2),
    "md less one place": ("md", "max", lambda h, n, m: rankings.bound("md", h, n, m) - 1 / m),
    "a smaller constant for fd": ("fd", "max", lambda h, n, m: 0.99 * rankings.bound("fd", h, n, m, "ours")),
    "the plain mean of md": ("md", "mean", lambda h, n, m: h),
    "half the n-way edit": ("ed", "nway", lambda h, n, m: h / (4 * m)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_bound_is_seen_to_fail(name):
    distance, kind, limit = BROKEN[name]
    n = 3 if kind == "mean" else 2
    check = rankings.check_all(name, distance, n, 5, limit, kind)
    assert check.violations > 0
    assert check.worst > 1
    everyone = rankings.check_heterogeneity(name, exhaustive.profiles(n, 5), distance, limit, kind)
    assert everyone.violations == check.violations


def test_the_plain_mean_of_md_fails_with_one_outsider_and_n_over_2_is_attained():
    ranks = search.blocks(6, 20, 5)
    mean = rankings.heterogeneity(ranks, "md", "mean")
    assert rankings.beta(ranks) / 20 > mean
    assert rankings.beta(ranks) / 20 == pytest.approx(rankings.bound("md", mean, 6, 20, "ours", "mean"))


def test_blocks_have_the_numbers_they_promise():
    ranks = search.blocks(4, 20, 5)
    assert (rankings.beta(ranks), rankings.spread(ranks, "md"), rankings.spread(ranks, "ed"), rankings.spread(ranks, "fd")) == (
        5,
        5,
        10,
        50,
    )
    ranks = search.dropped(4, 20, 3)
    assert (rankings.beta(ranks), rankings.spread(ranks, "ed")) == (9, 12)


def test_lemmas_2_and_3_on_every_pair_and_broken():
    pairs = [(np.arange(6), np.array(p)) for p in itertools.permutations(range(6))]
    assert statements.check_alignment(pairs).holds
    assert statements.check_unmatched(pairs, statements.edit_by_table).holds
    assert statements.check_alignment(pairs).worst == 1
    assert not statements.check_alignment(pairs, lambda ed: ed / 2 - 1).holds
    assert not statements.check_unmatched(pairs, statements.edit_by_table, lambda ed: ed / 2 - 1).holds


def test_lemma_2_for_every_optimal_alignment_of_words_of_equal_length_and_not_of_unequal_length():
    words = list(itertools.product("ab", repeat=4))
    for x, y in itertools.product(words, repeat=2):
        assert _farthest_match(x, y) <= statements.edit_by_table(x, y) / 2
    assert statements.edit_by_table("a", "ba") == 1
    assert _farthest_match("a", "ba") == 1


def _farthest_match(x, y) -> int:
    """Largest |i - j| over the matches of all optimal alignments, found by splitting at each match."""
    edit = statements.edit_by_table
    pairs = [(i, j) for i in range(len(x)) for j in range(len(y)) if x[i] == y[j]]
    optimal = [(i, j) for i, j in pairs if edit(x[:i], y[:j]) + edit(x[i + 1 :], y[j + 1 :]) == edit(x, y)]
    return max((abs(i - j) for i, j in optimal), default=0)


def test_merging_checks_adds_them():
    one = rankings.check_existence("x", [search.uniform(2, 4, np.random.default_rng(0))])
    two = rankings.check_existence("x", [search.uniform(3, 2, np.random.default_rng(0))], limit=lambda n, m: -1)
    both = merge([one, two])
    assert (both.n, both.m, both.instances, both.violations, both.worst) == (3, 4, 2, 1, np.inf)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rankings.heterogeneity([[0, 1]], "footrule"), "There is no distance 'footrule'"),
        (lambda: rankings.heterogeneity([[0, 1]], "fd", "average"), "kind of heterogeneity"),
        (lambda: rankings.bound("fd", 1, 2, 3, "new"), "version of a bound"),
        (lambda: rankings.bound("fd", 1, 2, 3, "paper", "mean"), "The paper has no bound by the mean"),
        (lambda: rankings.bound("fd", 1, 2, 3, "ours", "radius"), "radius bounds beta for md"),
        (lambda: rankings.bound("fd", float("nan"), 2, 3), "number of at least 0"),
        (lambda: rankings.bound("fd", -1, 2, 3), "number of at least 0"),
        (lambda: rankings.edit([[0, 2]]), "not a permutation"),
        (lambda: rankings.check_existence("x", []), "no instance"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(FairFLError, match=words):
        call()
