"""The programs that servers solve: against HiGHS, against every face of a simplex, and against scipy's own optimisers."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from fairfl_lite import programs
from fairfl_lite.errors import FairFLError
from fairfl_lite.programs import linear_program, min_norm, project_simplex

pytestmark = pytest.mark.slow


def test_the_projection_onto_the_simplex():
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(project_simplex(np.array([1.2, 0.15])), [1, 0])  # the published AFL gives 1.025 and 0
    np.testing.assert_allclose(project_simplex(np.array([0.6, 0.6])), [0.5, 0.5])
    np.testing.assert_allclose(project_simplex(np.array([-3.0])), [1.0])
    v = rng.normal(0, 2, (50, 3, 7))
    found = project_simplex(v)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(project_simplex(found), found, atol=1e-12)
    for one, near in zip(v[:, 0], found[:, 0], strict=True):  # nearest: no vertex lies ahead of it as seen from v
        assert ((one - near) @ (np.eye(7) - near).T).max() <= 1e-12
        best = minimize(lambda a: ((a - one) ** 2).sum(), np.full(7, 1 / 7), bounds=[(0, 1)] * 7, method="SLSQP",  # noqa: B023
                        constraints={"type": "eq", "fun": lambda a: a.sum() - 1}, tol=1e-14)  # fmt: skip
        np.testing.assert_allclose(near, best.x, atol=1e-5)


def shortest_by_faces(G):
    """The least norm in the convex hull of the rows of G, by the affine minimiser of every subset of them."""
    best, n = np.inf, len(G)
    for size in range(1, n + 1):
        for face in map(list, itertools.combinations(range(n), size)):
            K = np.block([[G[face] @ G[face].T, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            y = np.linalg.lstsq(K, np.r_[np.zeros(size), 1.0], rcond=None)[0][:size]
            if (y >= -1e-12).all() and abs(y.sum() - 1) < 1e-9:
                best = min(best, np.linalg.norm(y @ G[face]))
    return best


@pytest.mark.parametrize("kind", ["random", "few dimensions", "whole numbers", "repeated", "far apart in size"])
def test_the_min_norm_point_is_the_shortest_of_all_faces(kind):
    rng = np.random.default_rng(len(kind))
    for _ in range(150):
        n, d = rng.integers(1, 7), rng.integers(1, 9)
        G = rng.normal(size=(n, d)) + 0.5
        if kind == "few dimensions":
            G = G[:, :2] @ rng.normal(size=(min(d, 2), d))
        elif kind == "whole numbers":
            G = rng.integers(-2, 3, (n, d)).astype(float)
        elif kind == "repeated":
            G[-1] = G[0]
        elif kind == "far apart in size":
            G *= 10.0 ** rng.integers(-3, 3, (n, 1))
        a = min_norm(G @ G.T)
        assert (a >= 0).all() and a.sum() == pytest.approx(1, abs=1e-12)
        point, size = a @ G, np.linalg.norm(G, axis=1).max()
        assert np.linalg.norm(point) == pytest.approx(shortest_by_faces(G), abs=2e-7 * max(size, 1e-3))
        assert (G @ point >= point @ point - 1e-9 * max(size, 1) ** 2).all()  # what makes it a fallback: no function rises


def test_the_min_norm_point_of_many_gradients_against_slsqp():
    rng = np.random.default_rng(3)
    for n in (11, 30, 56):
        G = rng.normal(size=(n, 2 * n)) / np.sqrt(n) + rng.normal(size=2 * n) / 5
        Q = G @ G.T
        best = minimize(lambda a: a @ Q @ a, np.full(n, 1 / n), jac=lambda a: 2 * Q @ a, bounds=[(0, 1)] * n, method="SLSQP",  # noqa: B023
                        constraints={"type": "eq", "fun": lambda a: a.sum() - 1}, tol=1e-15)  # fmt: skip
        a = min_norm(Q)
        np.testing.assert_allclose(a @ Q @ a, best.fun, rtol=1e-5)
        assert a @ Q @ a <= best.fun + 1e-9
        np.testing.assert_allclose(a, best.x, atol=2e-3)


def test_min_norm_by_hand_and_in_stacks():
    np.testing.assert_allclose(min_norm(np.array([[1.0, 0], [0, 1]])), [0.5, 0.5])
    np.testing.assert_allclose(min_norm(np.array([[4.0, 0], [0, 1]])), [0.2, 0.8])
    np.testing.assert_allclose(min_norm(np.array([[1.0, 2], [2, 9]])), [1, 0])  # the longer one leans the same way
    np.testing.assert_allclose(min_norm(np.array([[1.0, -1], [-1, 1]])), [0.5, 0.5])  # 0 itself
    rng = np.random.default_rng(0)
    G = rng.normal(size=(4, 3, 6, 5))
    Q = G @ np.swapaxes(G, -1, -2)
    there = rng.random((4, 3, 6)) < 0.6
    there[..., 0] = True
    together = min_norm(Q, there)
    assert together.shape == (4, 3, 6) and (together[~there] == 0).all()
    for where in np.ndindex(4, 3):
        among = np.flatnonzero(there[where])
        np.testing.assert_array_equal(together[where][among], min_norm(Q[where][np.ix_(among, among)]))
    Q[0, 0, :, 1] = Q[0, 0, 1] = np.nan  # a vector that is not there is not looked at
    there[..., 1] = False
    assert np.isfinite(min_norm(Q, there)).all()
    with pytest.raises(FairFLError, match="not finite"):
        min_norm(Q)
    with pytest.raises(FairFLError, match="at least one vector"):
        min_norm(Q, np.zeros((4, 3, 6), bool))


def programme(kind, rng):
    n, m = rng.integers(1, 13), rng.integers(0, 11)
    if kind == "whole numbers":  # many ties, and many faces that just touch
        return rng.integers(-2, 3, n).astype(float), rng.integers(-2, 3, (m, n)).astype(float)
    if kind == "gram":
        G = rng.normal(size=(n, rng.integers(1, 9)))
        Q = G @ G.T
        return Q[rng.integers(n)], Q[rng.permutation(n)[:m]]
    if kind == "out of scale":
        return 1e3 * rng.normal(size=n), (rng.normal(size=(m, n)) - 2 * rng.random()) * 10.0 ** rng.integers(-6, 6, (m, 1))
    return rng.normal(size=n), rng.normal(size=(m, n))


@pytest.mark.parametrize("kind", ["random", "whole numbers", "gram", "out of scale"])
def test_the_simplex_agrees_with_highs(kind, monkeypatch):
    rng = np.random.default_rng(len(kind))
    drawn = [programme(kind, rng) for _ in range(750)]
    reference = [linear_program(c, A, solver="highs") for c, A in drawn]
    real = programs._dual_simplex

    def never_gives_up(c, A):
        a, status = real(c, A)
        assert status < 2
        return a, status

    monkeypatch.setattr(programs, "_dual_simplex", never_gives_up)
    for (c, A), (best, feasible) in zip(drawn, reference, strict=True):
        a, found = linear_program(c, A)
        assert found == feasible
        if found:
            assert (a >= 0).all() and a.sum() == pytest.approx(1)
            assert (A @ a >= -1e-8 * np.abs(A).max(1, initial=0)).all()
            assert a @ c == pytest.approx(best @ c, abs=1e-8 * max(1, np.abs(c).max()))
        else:
            assert (a == 0).all()
    infeasible = sum(not feasible for _, feasible in reference)
    assert infeasible > 50 or kind == "gram"


def test_a_program_whose_constraints_are_all_in_the_hull_is_feasible():
    """The min-norm point satisfies them, so only rounding could say otherwise."""
    rng = np.random.default_rng(1)
    for n in (2, 4, 16, 56):
        G = rng.normal(size=(20, n, 3 * n))
        Q = G @ np.swapaxes(G, 1, 2)
        objective = rng.integers(n, size=20)
        c = Q[np.arange(20), objective]
        a, feasible = linear_program(c, Q)
        assert feasible.all()
        shortest = min_norm(Q)
        gain, least = (a * c).sum(1), (shortest * c).sum(1)
        assert (gain >= least - 1e-9).all() and (np.einsum("rij,rj->ri", Q, a) >= -1e-8 * n).all()
        assert np.einsum("rij,rj->ri", Q, shortest).min() >= 0


def test_programs_by_hand_and_in_stacks():
    c, A = np.array([3.0, 1.0]), np.array([[-1.0, 1.0]])  # as much of the first as the second allows
    np.testing.assert_allclose(linear_program(c, A)[0], [0.5, 0.5])
    np.testing.assert_allclose(linear_program(c, A, active=np.array([False]))[0], [1, 0])
    np.testing.assert_allclose(linear_program(c, A, there=np.array([False, True]))[0], [0, 1])
    a, feasible = linear_program(c, A, there=np.array([True, False]))
    assert not feasible and (a == 0).all()
    assert not linear_program(c, A, there=np.array([False, False]))[1]
    rng = np.random.default_rng(2)
    c, A = rng.normal(size=(5, 2, 4)), rng.normal(size=(5, 2, 3, 4))
    active, there = rng.random((5, 2, 3)) < 0.7, rng.random((5, 2, 4)) < 0.8
    together, feasible = linear_program(c, A, active=active, there=there)
    assert not feasible.all() and feasible.any()
    for where in np.ndindex(5, 2):
        among = there[where]
        alone, found = linear_program(c[where][among], A[where][active[where]][:, among])
        assert found == feasible[where]
        np.testing.assert_array_equal(together[where][among], alone)
    with pytest.raises(FairFLError, match="not finite"):
        linear_program(np.array([np.nan, 1.0]), A[0, 0, :, :2])
    with pytest.raises(FairFLError, match="needs c"):
        linear_program(c, A[0])
    with pytest.raises(FairFLError, match="active must be of shape"):
        linear_program(c, A, active=np.ones(3, bool))
    with pytest.raises(FairFLError, match="solver"):
        linear_program(c, A, solver="glpk")


def test_where_the_simplex_gives_up_highs_is_asked(monkeypatch):
    monkeypatch.setattr(programs, "_dual_simplex", lambda c, A: (np.zeros(2), 2))
    a, feasible = linear_program(np.array([3.0, 1.0]), np.array([[-1.0, 1.0]]))
    assert feasible
    np.testing.assert_allclose(a, [0.5, 0.5])
