"""Continuous ranks: exact fractions against hand-worked cases and grids; the fine print of Theorem 3.2; Appendix A."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest

from fairfl_lite import rankings
from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings import continuous, measures, statements
from fairfl_lite.rankings.continuous import (
    EXAMPLE_2,
    LONE_POINT,
    OPEN,
    PLATEAU,
    PUNCTURED,
    Infimum,
    Piece,
    Piecewise,
    existence,
)


def test_example_2_by_hand():
    up, down = EXAMPLE_2
    for c in (F(0), F(1, 3), F(1, 2), F(1)):
        assert (up.rank(c), down.rank(c)) == (1 - c, c)
    found = existence(EXAMPLE_2)
    assert found.alpha == Infimum(F(1, 2), False), "no smallest rank above 1/2 exists"
    assert found.beta == Infimum(F(1, 2), True)
    assert found.exists


def test_a_plateau_by_hand():
    assert [PLATEAU.rank(c) for c in (0, F(1, 5), F(2, 5), 1)] == [F(2, 5), F(2, 5), 1, 1]
    assert PLATEAU.above(1) == [(0, F(2, 5))]
    assert PLATEAU.above(0) == [(0, 1)]
    assert PLATEAU.alpha(F(1, 2)) == Infimum(F(1), True)
    assert PLATEAU.alpha(F(1, 3)) == Infimum(F(2, 5), True)


def test_values_in_floating_point_are_the_exact_ones():
    rng = np.random.default_rng(0)
    for u in (PLATEAU, LONE_POINT, *PUNCTURED, *continuous.drawn(3, rng)):
        at = [c for a, b in pairwise(sorted(u.cuts())) for c in (a, (a + b) / 2, b) if c in u]
        assert u.values([float(c) for c in at]) == pytest.approx([float(u(c)) for c in at])


def test_ranks_on_two_intervals_by_hand():
    u = Piecewise((Piece(0, 1, 0, 2, (True, True)), Piece(3, 4, 3, 1, (True, True))))
    assert u.size == 2
    assert u(F(1, 2)) == 1
    assert u.above(1) == [(F(1, 2), 1), (3, 4)]
    assert u.rank(F(1, 2)) == F(3, 4)
    assert u.top() == Infimum(F(3), True)


def test_without_the_point_one_half_no_model_is_rankwise_proportional_but_almost():
    found = existence(PUNCTURED)
    assert not found.exists
    assert found.beta == Infimum(F(1, 2), False)
    for gap in (F(1, 10), F(1, 1000)):
        assert max(u.rank(F(1, 2) + gap) for u in PUNCTURED) == F(1, 2) + gap


def test_a_set_without_a_best_model_has_no_pareto_optimal_one():
    assert OPEN.top() == Infimum(F(1), False)
    for c in (F(1, 2), F(99, 100)):
        assert OPEN((1 + c) / 2) > OPEN(c), "for two agents with this utility every model is dominated"
    assert not statements.check_continuous([PUNCTURED], "x", always=True).holds


def test_claim_2_and_lemma_1_fail_at_a_rank_that_no_model_has():
    half = F(1, 2)
    assert not PLATEAU.achieves(half)
    assert (PLATEAU.threshold(half), PLATEAU.share(0), PLATEAU.within(half)) == (0, 1, F(2, 5))
    assert not statements.check_lemma1([(PLATEAU, half)], "x").holds
    assert not statements.check_claim2([(PLATEAU, half)], "x").holds
    assert PLATEAU.achieves(F(2, 5))
    assert statements.check_lemma1([(PLATEAU, F(2, 5))], "x").holds
    assert statements.check_claim2([(PLATEAU, F(2, 5))], "x").holds


def test_claim_2_holds_only_up_to_a_set_of_measure_zero():
    assert LONE_POINT.rank(F(1, 2)) == F(2, 5)
    assert LONE_POINT(F(1, 2)) < LONE_POINT.threshold(F(2, 5)) == 1, "the point is in Z and not in L(l*)"
    assert statements.check_claim2([(LONE_POINT, F(2, 5))], "x").holds


def test_random_instances_agree_with_fine_grids_and_with_the_theorem():
    rng = np.random.default_rng(0)
    for _ in range(15):
        utilities = continuous.drawn(int(rng.integers(1, 4)), rng)
        assert statements.check_continuous([utilities], "x").holds
        spans = [(float(p.low), float(p.high)) for p in utilities[0].pieces]
        cells = np.concatenate([np.arange(a, b, 0.05) + 0.025 for a, b in spans])
        u = np.stack([v.values(cells) for v in utilities])
        ranks = rankings.positions(u) / len(cells)
        for i, c in ((i, c) for i in range(len(u)) for c in range(0, len(cells), 37)):
            exact = float(utilities[i].rank(F(cells[c])))
            assert ranks[i, c] == pytest.approx(exact, abs=2 * len(spans) / len(cells))
        assert ranks.max(axis=0).min() >= float(existence(utilities).beta.value) - 2 * len(spans) / len(cells)


def test_the_infimum_of_the_largest_rank_against_a_fine_search():
    rng = np.random.default_rng(3)
    for _ in range(8):
        utilities = continuous.drawn(2, rng)
        beta = existence(utilities).beta
        cuts = sorted(set().union(*(u.cuts() for u in utilities)))
        tried = [a + (b - a) * F(k, 24) for a, b in pairwise(cuts) for k in range(25)]
        seen = min(max(u.rank(c) for u in utilities) for c in tried if c in utilities[0])
        assert 0 <= seen - beta.value <= F(1, 10)


@pytest.mark.parametrize("name", measures.CLOSED)
def test_grid_and_monte_carlo_converge_to_the_closed_form(name):
    instance, rng = measures.CLOSED[name], np.random.default_rng(0)
    points = instance.region.sample(40, rng)
    coarse, fine = (instance.error(points, instance.region.grid(cells)) for cells in (25, 400))
    assert fine <= 4 / 400
    assert fine < coarse / 4
    assert instance.error(points, instance.region.sample(20_000, rng)) < 2.5 / sqrt(20_000)
    box = np.prod(np.subtract(instance.region.high, instance.region.low))
    cells = 400 ** len(instance.region.low)
    assert len(instance.region.grid(400)) / cells * box == pytest.approx(instance.region.measure, rel=0.01)
    assert rankings.check_finite("theorem-3.2", [instance.table(instance.region.grid(25))]).holds


def test_a_wrong_closed_form_is_seen():
    instance, rng = measures.CLOSED["annulus"], np.random.default_rng(0)
    points, grid = instance.region.sample(40, rng), instance.region.grid(200)
    assert rankings.check_measure("x", instance, points, grid, 0.02, "x").holds
    wrong = measures.Closed(instance.region, instance.utilities, (lambda c: np.hypot(*c.T) - 1, *instance.ranks[1:]))
    assert not rankings.check_measure("x", wrong, points, grid, 0.02, "x").holds


def test_theorem_3_2_with_the_counting_measure_and_broken():
    rng = np.random.default_rng(0)
    tables = [measures.tied(int(rng.integers(1, 6)), int(rng.integers(1, 30)), 4, rng) for _ in range(300)]
    assert rankings.check_finite("theorem-3.2", tables).holds
    strict = [rng.random((2, 6)) for _ in range(50)] + [np.array([np.arange(6.0), -np.arange(6.0)])]
    assert rankings.check_finite("theorem-3.2", strict).holds
    assert not rankings.check_finite("x", strict, lambda u: measures.alpha_position(u) - 1).holds
    assert measures.alpha_position([[3, 2, 1, 0], [0, 0, 1, 1]]) == 4


def test_appendix_a_holds_from_four_on_and_proportionality_fails_much_earlier():
    assert rankings.AppendixA(4).utilities([0.5]).tolist() == [[0], [0]]
    assert rankings.AppendixA(4).promise == 0 < rankings.AppendixA(3.99).promise
    assert rankings.AppendixA(1).promise == 0.25
    Ls = [0.1, 0.34, 0.35, 1, 3.9, 4, 4.1, 100]
    assert statements.check_appendix(Ls).holds
    assert statements.check_appendix(Ls, 0.5, statements.no_proportional).holds
    assert not statements.check_appendix(Ls, fails=lambda L: L > 4).holds
    assert not statements.check_appendix(Ls, fails=lambda L: L > 1).holds
    assert not statements.check_appendix(Ls, 0.5, lambda L: L >= 4).holds
    assert statements.check_smooth(Ls).holds
    assert not statements.check_smooth(Ls, 1.9).holds


def test_appendix_a_utilities_gradients_and_ranks():
    a, c = rankings.AppendixA(9), np.linspace(0, 1, 401)
    assert a.utilities([0, 1 / 6, 1 / 3, 1]) == pytest.approx(np.array([[1, 0.25, 0, 0], [0, 0, 0, 1]]))
    slopes = (a.utilities(c + 1e-6) - a.utilities(c - 1e-6))[:, 1:-1] / 2e-6
    assert a.gradients(c)[:, 1:-1] == pytest.approx(slopes, abs=1e-4)
    u = a.utilities(c)
    assert np.abs(rankings.positions(u) / 401 - a.ranks(c)).max() < 0.01
    assert measures.alpha_position(u) == 401, "rankwise proportionality asks nothing here"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Piece(1, 0, 0, 0), "from low to high"),
        (lambda: Piecewise((Piece(0, 1, 0, 0, (True, True)), Piece(1, 2, 0, 0))), "share no point"),
        (lambda: Piecewise((Piece(0, 0, 1, 1, (True, True)),)), "positive measure"),
        (lambda: PLATEAU(2), "not in P"),
        (lambda: PLATEAU.values([0.5, 2]), "2.0 is not in P"),
        (lambda: PLATEAU.threshold(0), "0 < beta <= 1"),
        (lambda: existence([]), "at least one agent"),
        (lambda: existence([PLATEAU, OPEN]), "same set of models"),
        (lambda: rankings.AppendixA(0), "positive"),
        (lambda: measures.CLOSED["annulus"].region.grid(1), "No point"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(FairFLError, match=words):
        call()
