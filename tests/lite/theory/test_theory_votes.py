"""E2FL's votes: by hand, against Borda's own count, against brute force; and checks that see a planted error."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import factorial, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings import mask, reputations, two_level, vote, vote_statements, votes
from papers.e2fl import statements

pytestmark = pytest.mark.slow

ROUND = [[4, 0, 2, 3, 5, 1], [0, 1, 2, 3, 4, 5], [5, 0, 2, 4, 3, 1]]
"""The first is the paper's C_1; with the other two group A's vote is the one that Figure 2 prints."""
COLUMNS = ["statement", "n", "m", "how", "instances", "violations", "worst"]


@st.composite
def profiles(draw, least=1):
    n, d = draw(st.integers(least, 6)), draw(st.integers(1, 7))
    return np.array([draw(st.permutations(range(d))) for _ in range(n)])


def by_hand(rankings):
    """Borda's count in plain Python: an edge gets a point for each voter and each edge that the voter puts below it."""
    d = len(rankings[0])
    points = {e: sum(list(R).index(e) > list(R).index(f) for R in rankings for f in range(d) if f != e) for e in range(d)}
    return sorted(range(d), key=lambda e: (points[e], e))


def test_the_worked_example_of_figure_2():
    assert vote(ROUND).tolist() == [0, 2, 4, 5, 3, 1]
    assert reputations(ROUND).sum(0).tolist() == [2, 11, 6, 10, 7, 9]
    assert np.flatnonzero(mask(ROUND[0])).tolist() == [1, 3, 5]  # "C_1 uses edges {3, 5, 1}"
    assert reputations([2, 3, 0, 5, 1, 4]).argmax() == 4 and reputations([2, 3, 0, 5, 1, 4]).argmin() == 2
    assert statements.figure_2() == {"figure2.pairs": 734, "figure2.pairs.strict": 83, "figure2.results": 52, "figure2.wrong": 0}


@given(profiles())
def test_a_vote_is_bordas_count(R):
    assert vote(R).tolist() == by_hand(R.tolist())
    assert votes.preferences(R).sum(-1).tolist() == reputations(R).sum(-2).tolist()


@given(profiles(2), st.randoms())
def test_who_votes_first_and_what_groups_are_called_changes_nothing(R, random):
    order, groups = list(range(len(R))), np.array([random.randrange(3) for _ in R])
    random.shuffle(order)
    assert (vote(R[order]) == vote(R)).all()
    assert (two_level(R[order], groups[order]) == two_level(R, groups)).all()
    renamed = np.array([7, -1, 3])[groups]
    assert (two_level(R, renamed) == two_level(R, groups)).all()


def test_leading_axes_are_profiles_of_their_own():
    R = vote_statements.profiles(3, 3)
    assert vote(R).shape == (216, 3) and two_level(R, [0, 0, 1]).shape == (216, 3)
    assert vote(R).tolist() == [by_hand(r.tolist()) for r in R]
    assert votes.group_votes(R, [1, 0, 1]).tolist() == [[r[1].tolist(), by_hand(r[[0, 2]].tolist())] for r in R]


def test_three_against_two_is_turned_round_by_groups():
    up, down = [0, 1, 2, 3], [3, 2, 1, 0]
    R = [up, up, up, down, down]
    assert vote(R).tolist() == up and two_level(R, [0, 0, 0, 1, 2]).tolist() == down
    assert votes.footrule(up, down) == 8 and votes.kendall(up, down) == 6 and votes.swapped(up, down) == 4


@pytest.mark.parametrize(("d", "k", "many"), [(4, 0.5, 2), (5, 0.5, 3), (288, 0.5, 144), (10, 0.1, 1), (3, 1, 3)])
def test_a_mask_keeps_the_last_of_a_ranking(d, k, many):
    R = np.random.default_rng(0).permutation(d)
    assert set(np.flatnonzero(mask(R, k))) == set(R[int((1 - k) * d) :]) and mask(R, k).sum() == many == votes.kept(d, k)


@given(profiles(2))
def test_distances_are_those_of_scipy(R):
    from scipy.stats import kendalltau

    a, b = reputations(R[0]), reputations(R[1])
    d = len(a)
    tau = kendalltau(a, b).statistic if d > 1 else 1
    assert votes.kendall(R[0], R[1]) == pytest.approx((1 - tau) * d * (d - 1) / 4)
    assert votes.footrule(R[0], R[1]) == sum(abs(x - y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("rankings", "groups"),
    [([[0, 0]], [0]), ([[0.0, 1.0]], [0]), ([0, 1], [0]), ([[0, 1]], [0, 1]), ([[]], [0])],
)
def test_what_is_no_profile_is_refused(rankings, groups):
    with pytest.raises(FairFLError):
        two_level(rankings, groups)


def test_a_mask_of_nothing_is_refused():
    for wrong in (lambda: mask([0, 1], 0), lambda: votes.reach(2, 3, 4), lambda: votes.fewest(4, 3, 3)):
        with pytest.raises(FairFLError):
            wrong()


def test_reach_by_trying_every_ranking_of_every_coalition():
    for n, d, m in ((2, 4, 1), (4, 4, 1), (5, 3, 2), (3, 4, 2), (6, 3, 2)):
        far = {True: 0, False: d}
        for R in permutations(range(d)):
            best = 0
            for own in product(permutations(range(d)), repeat=m):
                place = reputations(by_hand([R] * (n - m) + list(own)))
                best = max(best, int(np.abs(place - reputations(R)).max()))
            far = {True: max(far[True], best), False: min(far[False], best)}
        assert far[True] == votes.reach(n, d, m)
        assert votes.reach(n, d, m, ties=False) <= far[False]


def test_fewest_is_the_first_that_reaches():
    assert votes.fewest(1000, 10**6, 10**6 // 2, ties=False) == 334  # a third
    assert votes.fewest(25, 1_605_632, 1) == 1  # one client of 25 moves an edge at the rim of the mask
    assert votes.fewest(25, 1_605_632, 1_605_632 // 24) == 1 and votes.fewest(25, 1_605_632, 1_605_632 // 23) == 2
    assert [votes.reach(n, 10, n) for n in (1, 3)] == [9, 9]


def test_dictators_and_no_fewer():
    assert votes.dictators((1000,)) == 501 and votes.dictators(statements.COUNTS) == 5 + 5 + 13 + 13 + 36 + 36
    R = vote_statements.profiles(3, 3)
    agree = R[(R[:, 0] == R[:, 1]).all(-1)]  # one voter of three does not make the first edge of the two others last
    assert (vote(agree)[:, 0] != agree[:, 0, -1]).all() and (vote(R)[:, 0] == R[:, 0, -1]).any()


def test_every_printed_cost():
    """From the layers by another way: bytes of weights, bits of ids, a bit a mask."""
    layers, mib = [1 * 32 * 9, 32 * 64 * 9, 64 * 14 * 14 * 128, 128 * 10], 2**20
    assert tuple(layers) == statements.LENET["mnist"]
    ranking = sum(n * len(bin(n - 1)[2:]) for n in layers) / 8 / mib
    femnist = (ranking * 8 * mib - 1280 * 11 + 7936 * 13) / 8 / mib
    edges, more = sum(layers), sum(layers) - 1280 + 7936
    printed = {"6.20": 4 * edges / mib, "62.0": 40 * edges / mib, "4.05": ranking, "5.99": ranking + 10 * edges / 8 / mib,
               "6.23": 4 * more / mib, "6.01": femnist + 10 * more / 8 / mib}  # fmt: skip
    assert all(f"{value:.{len(text) - text.index('.') - 1}f}" == text for text, value in printed.items())
    assert int(100 * femnist) / 100 == 4.06 and f"{femnist:.2f}" == "4.07"  # truncated in the paper
    facts = statements.costs()
    assert [facts[f"mnist.{x}"] for x in ("weights", "weights.10", "ranking", "down.10")] == pytest.approx(
        list(printed.values())[:4]
    )
    assert [facts[f"femnist.{x}"] for x in ("weights", "down.10", "ranking")] == pytest.approx(
        [*list(printed.values())[4:], femnist]
    )
    assert {n: facts[f"cost.mnist.{n}.down"] for n in ("local", "ifca")} == pytest.approx({"local": 0, "ifca": printed["62.0"]})
    assert facts["cost.femnist.e2fl-clusters.down"] == facts["cost.femnist.e2fl-loss.up"] == pytest.approx(femnist)
    assert {k: v for k, v in statements.edges().items() if "mnist" in k and "fem" not in k} == dict(
        zip([f"edges.mnist.{x}" for x in ("conv1", "conv2", "fc1", "fc2", "all")], [*layers, edges], strict=True)
    )
    assert facts["femnist.down.2"] == pytest.approx(4.454, abs=5e-4)  # what two groups would cost


def test_bits_lie_above_the_logarithm_of_all_rankings():
    for n in (1, 2, 3, 10, 288):
        assert votes.least_bits([n]) == pytest.approx(log2(factorial(n)))
        assert votes.bits([n]) == n * int(np.ceil(log2(n)))
    assert votes.bits([288, 1280]) == 288 * 9 + 1280 * 11


def test_the_least_variance_is_attained_and_not_undercut():
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = np.sort(rng.integers(0, 50, 10))
        least = statements.least_variance(*(str(Fraction(int(v), w)) for v, w in ((x.sum(), 10), (x[0], 1), (x[-1], 1))))
        assert float(least) <= x.var() + 1e-9
    flat = np.array([1, *[4] * 8, 9.0])
    assert float(statements.least_variance("4.2", "1", "9")) == pytest.approx(flat.var())
    assert float(statements.least_variance("98.79", "96.86", "99.08")) == pytest.approx(0.4145, abs=1e-4)  # IFCA's clients: 0.35
    with pytest.raises(FairFLError):
        statements.least_variance("1", "2", "3", of=1)


QUICK = ("unanimous groups", "equal groups", "opposite", "leaving", "dictators", "bits", "norms", "impact")


@pytest.mark.parametrize("part", QUICK)
def test_a_part_fails_only_in_the_fine_print(part):
    frame = statements.EXPERIMENTS[0].frame(part=[part])
    assert list(frame) == COLUMNS and (frame.instances > 0).all()
    fine = frame.how.str.startswith("fine print")
    assert (frame[~fine].violations == 0).all() and (frame[fine].violations > 0).all()


def test_a_planted_error_is_seen():
    def wrong_ties(R):
        return np.argsort(reputations(R).sum(-2)[..., ::-1], axis=-1, kind="stable")  # edges counted from the other end

    def first_places(R):
        return np.argsort((reputations(R) == R.shape[-1] - 1).sum(-2), axis=-1, kind="stable")  # plurality

    for planted in (wrong_ties, first_places):
        found = {c.statement: c.violations for c in vote_statements.borda(3, 3, planted)}
        assert found["borda"] > 0
    assert next(vote_statements.mean_place(3, 3, lambda place, d: place / 2 + 0.1)).violations > 0
    assert vote_statements.one_against_all(3, 4, lambda n, d: votes.reach(n, d) + 1).violations == 1
    R, groups = vote_statements.profiles(3, 3), vote_statements.members((2, 1))
    assert next(vote_statements.apart(R, groups, "", lambda R, g: 0.9 * vote_statements.unsure(R, g))).violations > 0


def test_majorities_are_not_first():
    """The smallest cases: three voters and four edges, five voters and three; fewer voters never."""
    tried = ((2, 4), (3, 3), (4, 3), (3, 4), (5, 3))
    found = {(n, d): {c.statement: c for c in vote_statements.majority(n, d)} for n, d in tried}
    assert [key for key, checks in found.items() if checks["majority"].violations] == [(3, 4), (5, 3)]
    assert all(checks["majority-not-last"].holds for checks in found.values())
    R = [[3, 2, 1, 0], [3, 2, 1, 0], [0, 3, 2, 1]]  # two of three put 0 first, the vote puts 1 first
    assert reputations(R).sum(0).tolist() == [6, 7, 4, 1] and vote(R)[-1] == 1
