"""The plane in which EFFL's first chapters are drawn: its values against the federation's own, its clients, its path."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from asking import gradient
from matplotlib.contour import ContourSet

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


def test_a_survey_holds_what_each_model_of_the_grid_does():
    fed = plane.federation(rows=200)
    seen = plane.survey(fed, points=7)
    assert seen.models.shape == (7, 7, 2) and seen.losses.shape == (7, 7, 2) and seen.bounded.shape == (7, 7, 3)
    v, w = 2, 5
    close(seen.models[v, w], [seen.w[w], seen.v[v]])
    (l0, l1), (f0, f1) = plane.surface(fed, seen.models[v, w])
    close(seen.mean_loss[v, w], (l0 + l1) / 2)
    close(seen.bounded[v, w], [max(f0, f1), abs(l0 - l1) / 2, abs(f0 - f1) / 2])
    assert not seen.within(seen.bounded[v, w] - [0, 1e-9, 0])[v, w] and seen.within(seen.bounded[v, w])[v, w]


def test_a_map_fills_where_a_budget_is_met_and_nowhere_else():
    fed = plane.federation(rows=200)
    seen = plane.survey(fed, points=31)
    fig, axes = plt.subplots()
    plane.draw_map(axes, seen, (0.1, 0.01, 0.04), which=[0])
    (filled,) = (drawn for drawn in axes.collections if isinstance(drawn, ContourSet) and drawn.filled)
    plt.close(fig)
    (region,) = filled.get_paths()
    met = seen.bounded[..., 0] <= 0.1
    inside = region.contains_points(seen.models.reshape(-1, 2)).reshape(met.shape)
    assert (
        inside[1:-1, 1:-1] == met[1:-1, 1:-1]
    ).mean() > 0.97 and 0 < met.mean() < 0.5  # points on the outline may be on either side
