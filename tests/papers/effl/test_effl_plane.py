"""The plane in which EFFL's first chapters are drawn: its values against the federation's own, its clients, its path."""

import numpy as np
import pytest
from asking import gradient

from fairfl_lite.clients.surrogates import LossAndBias
from fairfl_lite.data.synthetic import BORDER
from fairfl_lite.methods import EFFL
from papers.effl import federations, plane

pytestmark = pytest.mark.slow

close = np.testing.assert_allclose


@pytest.mark.parametrize("theta", [(0.0, 0.0), (0.6, 0.2), (-0.4, 1.3), (1.1, -0.9)])
def test_the_surface_is_what_clients_would_send(theta):
    fed = plane.federation(rows=500)
    values, _ = gradient(fed, np.array([theta]), LossAndBias())  # by torch, [run, client, loss and bias]
    close(plane.surface(fed, np.array(theta)), np.moveaxis(values[0], 1, 0), atol=1e-6)


def test_clients_are_cut_by_x1_and_keep_all_rows():
    table = federations.table("synthetic", seed=3, train=500, test=500)
    below = ((table.X[:, 0] <= BORDER) & (table.columns["part"] == "train")).sum()
    assert plane.federation(rows=500, seed=3).sizes().tolist() == [[below, 500 - below]]
    assert plane.federation(rows=500, seed=3, borders=(-1.0, 0.0, 1.0)).sizes().sum() == 500


def test_gaps_by_hand():
    close(plane.gaps(np.array([[1.0, 2.0, 6.0], [0.5, 0.5, 0.5]])), [[2, 1, 3], [0, 0, 0]])


def test_a_path_is_the_run_of_the_federation():
    fed, method = plane.federation((0.5, 0.5), rows=200), EFFL(0.1, 0.01, 0.04, stages=(4, 3, 3))
    way, states = plane.path(fed, method, 10)
    assert way.shape == (11, 2) and [state["stage"] for state in states] == [1] * 4 + [2] * 3 + [3] * 3
    close(way[0], [0.5, 0.5])
    close(way[-1], fed.run(method, 10).answer[0])
