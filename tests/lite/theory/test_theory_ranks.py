"""Ranks, positions, proportionality and Pareto optimality against hand-worked cases and definitions written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairfl_lite import rankings
from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings import statements

tables = st.tuples(st.integers(1, 4), st.integers(1, 8)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 4))
)


def test_a_table_by_hand():
    u = [[3, 1, 3, 0], [0, 0, 5, 9]]
    assert rankings.orders_of(u).tolist() == [[0, 2, 1, 3], [3, 2, 0, 1]]
    assert rankings.ranks_of(u).tolist() == [[0, 2, 1, 3], [2, 3, 1, 0]]
    assert rankings.positions(u).tolist() == [[2, 3, 2, 4], [4, 4, 2, 1]]
    assert rankings.beta(rankings.ranks_of(u)) == 1
    assert rankings.best(rankings.ranks_of(u)) == 2
    assert rankings.pareto(u).tolist() == [False, False, True, True]
    assert rankings.proportional(rankings.ranks_of(u)).tolist() == [True, False, True, False]
    assert rankings.proportional(rankings.ranks_of(u), 1).tolist() == [False, False, True, False]


@given(tables)
def test_definitions_written_out(u):
    n, m = u.shape
    prefers = [[[u[i, a] > u[i, c] or (u[i, a] == u[i, c] and a < c) for a in range(m)] for c in range(m)] for i in range(n)]
    assert (rankings.ranks_of(u) == np.sum(prefers, axis=2)).all()
    assert (rankings.positions(u) == (u[:, None, :] >= u[:, :, None]).sum(axis=2)).all()
    dominated = [any((u[:, k] >= u[:, j]).all() and (u[:, k] > u[:, j]).any() for k in range(m)) for j in range(m)]
    assert (rankings.pareto(u) == ~np.array(dominated)).all()
    assert (rankings.ranks_of_orders(rankings.orders_of(u)) == rankings.ranks_of(u)).all()


def test_without_ties_a_position_is_a_rank_and_one():
    u = np.random.default_rng(0).random((5, 40))
    assert (rankings.positions(u) == rankings.ranks_of(u) + 1).all()


@pytest.mark.parametrize(("n", "m", "floor", "ceil"), [(3, 3, 2, 2), (3, 4, 2, 3), (2, 7, 3, 4), (1, 5, 0, 0), (9, 4, 3, 4)])
def test_the_two_limits(n, m, floor, ceil):
    assert (rankings.worst_case(n, m), rankings.paper_bound(n, m)) == (floor, ceil)


def test_example_1_is_the_paper_s_where_n_divides_m_and_reaches_the_worst_case_everywhere():
    assert rankings.example1(3, 3).tolist() == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    for n, m in itertools.product(range(1, 15), range(1, 30)):
        assert rankings.beta(rankings.ranks_of_orders(rankings.example1(n, m))) == rankings.worst_case(n, m)


def test_with_u_one_minus_rank_the_floor_is_proportionality_and_the_ceiling_is_not():
    for n, m in itertools.product(range(1, 9), range(1, 13)):
        assert statements.check_definition2(n, m).holds
        assert statements.check_definition2(n, m, rankings.paper_bound).holds == (m % n == 0 or n > m)


def test_the_argmin_is_pareto_optimal_without_ties_and_not_with_them():
    rng = np.random.default_rng(0)
    assert statements.check_argmin(rng.random((200, 3, 7))).holds
    smallest = [(n, m) for n, m in itertools.product((1, 2), repeat=2) if not statements.check_argmin(_all(n, m)).holds]
    assert smallest == [(2, 2)]
    assert not rankings.pareto([[1, 1], [0, 1]])[rankings.best(rankings.ranks_of([[1, 1], [0, 1]]))]
    alone = [[1, 1, 2], [1, 2, 0]]  # here the minimiser is the only one, and dominated
    assert rankings.ranks_of(alone).max(axis=0).tolist() == [1, 2, 2]
    assert rankings.pareto(alone).tolist() == [False, True, True]


def _all(n, m):
    return [np.array(v, dtype=float).reshape(n, m) for v in itertools.product(range(m), repeat=n * m)]


def test_program_2_is_solved_and_needs_care_with_ties():
    rng = np.random.default_rng(1)
    assert statements.check_program(rng.random((50, 3, 9)), "kth").holds
    tied = rng.integers(0, 3, (50, 3, 6))
    assert statements.check_program(tied, "counted").holds
    assert not statements.check_program(tied, "kth").holds
    assert statements.levels([[2, 2, 1]], 1, "kth").tolist() == [2]
    assert statements.levels([[2, 2, 1]], 1).tolist() == [np.inf]
    assert rankings.program([[2, 0, 1], [0, 2, 1]], [1, 1]) == 2
    assert rankings.program([[1, 0], [0, 1]], [1, 1]) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rankings.ranks_of_orders([[0, 0, 1]]), "Row 0 of the orders is not a permutation"),
        (lambda: rankings.beta([[0, 1], [1, 2]]), "Row 1 of the ranks is not a permutation"),
        (lambda: rankings.ranks_of_orders([[0.0, 1.0]]), "whole numbers"),
        (lambda: rankings.ranks_of_orders([0, 1]), "agents x models"),
        (lambda: rankings.beta(np.empty((0, 3), int)), "agents x models"),
        (lambda: rankings.ranks_of([[1.0, np.nan]]), "model 1 for agent 0 is not a number"),
        (lambda: rankings.positions(np.empty((2, 0))), "agents x models"),
        (lambda: rankings.worst_case(0, 3), "at least one agent"),
        (lambda: rankings.example1(2, 0), "at least one agent"),
        (lambda: rankings.paper_bound(2.5, 3), "whole numbers"),
        (lambda: rankings.levels([[1, 2]], 3), "k in 1..2"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(FairFLError, match=words):
        call()
