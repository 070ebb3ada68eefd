"""Section 5, and Example 1 for the continuous case: against counting, sampling and another search, and with planted errors."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log2

import numpy as np
import pytest
from scipy import optimize

from fairfl_lite import rankings
from fairfl_lite.rankings import continuous, statements, volume
from papers.rankff import penalty

pytestmark = pytest.mark.slow

HALF = Fraction(1, 2)


def test_blocks_have_the_ranks_of_the_orders():
    orders = np.array([[2, 0, 1, 3], [3, 2, 1, 0]])
    for falling in (False, True):
        for order, u in zip(orders, continuous.blocks(orders, falling), strict=True):
            for place, k in enumerate(order):
                within = Fraction(1, 12)  # a third into the block
                assert u.rank(Fraction(int(k), 4) + within) == (
                    Fraction(place, 4) + within if falling else Fraction(place + 1, 4)
                )


def test_example_1_is_carried_over_and_other_orders_are_not_tight():
    assert statements.check_adapted([(2, 4), (3, 6), (3, 7)], "flat").holds
    assert statements.check_adapted([(2, 4), (3, 6)], "falling", falling=True).holds
    assert not statements.check_adapted([(3, 7)], "falling, n does not divide m", falling=True).holds
    alike = statements.check_adapted([(3, 6)], "all agents alike", orders=lambda n, m: np.tile(np.arange(m), (n, 1)))
    assert alike.violations == 1
    middles = (np.arange(6000) + 0.5) / 6000  # the largest rank on a fine grid, by sorting
    u = [piece.values(middles) for piece in continuous.blocks(rankings.example1(3, 6), falling=True)]
    ranks = [(np.searchsorted(np.sort(-values), -values, side="right")) / 6000 for values in u]
    assert np.max(ranks, axis=0).min() == pytest.approx(2 / 3, abs=2 / 6000)


def test_random_utilities_are_concave_and_flat_only_where_they_should_be():
    rng = np.random.default_rng(1)
    for flat in (False, True):
        for _ in range(50):
            u = continuous.concave(rng, 4, flat)
            slopes = [(p.last - p.first) / (p.high - p.low) for p in u.pieces]
            assert slopes == sorted(set(slopes), reverse=True) or flat and slopes == sorted(slopes, reverse=True)
            assert (0 in slopes) is flat and u.size == 1


def test_rounds_by_hand():
    line = continuous.Piecewise.through((0, 0), (1, 1))  # the middle of [0, 1] is reached by half of P
    assert continuous.rounds(line, HALF, Fraction(1, 100)) == 1
    assert continuous.rounds(line, Fraction(1, 4), Fraction(1, 100)) == 2
    # 0.3 of P is asked for to 1/10: levels 1/2, 3/4, 5/8, 11/16 have 1/2, 1/4, 3/8 and 5/16 of it, and the last is near enough
    assert continuous.rounds(line, Fraction(3, 10), Fraction(1, 10)) == 4
    assert continuous.rounds(continuous.PLATEAU, Fraction(1, 5), Fraction(1, 10)) is None  # 2/5 of P are equal


def test_the_level_that_is_found_is_that_of_another_search():
    rng = np.random.default_rng(2)
    for _ in range(20):
        u, r = continuous.concave(rng), 0.3
        level = optimize.brentq(lambda a, u=u: float(u.share(Fraction(a))) - 0.3, float(u.levels[0]), float(u.levels[-1]))
        grid = u.values((np.arange(4000) + 0.5) / 4000)
        assert (grid >= level).mean() == pytest.approx(r, abs=2e-3)
        k = continuous.rounds(u, Fraction(3, 10), Fraction(1, 2**20))
        assert k is not None and k <= ceil(20 + statements.of_utility(u, Fraction(3, 10)))


def test_more_rounds_than_allowed_are_seen():
    rng = np.random.default_rng(3)
    cases = [(continuous.concave(rng), Fraction(1, 10), 10) for _ in range(30)]
    assert statements.check_rounds(cases, "as it is").holds
    assert not statements.check_rounds(cases, "half of them", lambda u, r: -5).holds
    found = [continuous.rounds(continuous.steep(k), HALF, Fraction(1, 32)) for k in (0, 20, 40)]
    assert all(b - a == pytest.approx(20, abs=4) for a, b in zip(found, found[1:], strict=False))  # a round for each doubling
    assert log2(float(-continuous.steep(40).levels[0])) == 40


def test_volumes_with_enough_points_and_with_too_few():
    for _, (u, alpha, body, share) in volume.known(3).items():
        sample = body.sample(200_000, np.random.default_rng(0))
        assert (u(sample) >= alpha).mean() == pytest.approx(share, rel=0.03)
    assert volume.check_volume(2, 0.5).holds
    assert volume.check_volume(6, 0.25, points=lambda d, eps: 4).violations == 3


def test_whole_gradients_lead_away_and_short_steps_do_not():
    printed, short = (penalty.step_check(times=3, short=short) for short in (False, True))
    assert (printed["violations"] == printed["instances"]).all() and (printed["worst"] > 1e6).all()
    assert (short["violations"] == 0).all()
    gentle = penalty.Quadratics.round_ones(
        np.array([[0.2, 0.0], [0.0, 0.2]]), scale=0.1
    )  # so flat that a whole gradient is short
    assert np.linalg.norm(penalty.steps(gentle, np.full(2, -10.0), short=False) - gentle.optimum) < 1e-6
