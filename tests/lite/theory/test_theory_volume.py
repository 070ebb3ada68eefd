"""Hit-and-run volumes against closed forms."""

from __future__ import annotations

from math import factorial, gamma, pi

import numpy as np
import pytest

from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings import Ball, Box, level_of_rank, volume, volume_share

pytestmark = pytest.mark.slow


def ball(d, r):
    return pi ** (d / 2) / gamma(d / 2 + 1) * r**d


CASES = {
    "ball in a box, 2": (volume.ball_utility([0.5] * 2), -0.5, Box.unit(2), ball(2, 0.5)),
    "ball in a box, 6": (volume.ball_utility([0.5] * 6), -0.5, Box.unit(6), ball(6, 0.5)),
    "small ball in a ball, 10": (volume.ball_utility([0.0] * 10), -0.5, Ball((0.0,) * 10), 0.5**10),
    "simplex in a box, 5": (lambda c: -c.sum(axis=1), -1.0, Box.unit(5), 1 / factorial(5)),
    "half-space of a box": (lambda c: c[:, 0], 0.9, Box((-1.0, 0.0, 0.0), (1.0, 1.0, 2.0)), 0.05),
    "half of a ball": (lambda c: c @ np.array([1.0, 2.0, -1.0]), 0.0, Ball((0.0, 0.0, 0.0), 2.0), 0.5),
    "everything": (lambda c: c[:, 0], -1.0, Box.unit(3), 1.0),
    "nothing": (lambda c: -np.abs(c[:, 0]), 1.0, Box.unit(3), 0.0),
    "nothing above a plateau": (lambda c: np.minimum(c[:, 0], 0.5), 0.6, Box.unit(2), 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_closed_forms(name):
    u, alpha, body, exact = CASES[name]
    found = volume_share(u, alpha, body, size=200, repeats=6)
    assert abs(found.value - exact) <= 4 * found.error
    assert found.error <= 0.2 * exact


def test_a_wrong_volume_is_far_beyond_the_standard_error():
    u, alpha, body, exact = CASES["simplex in a box, 5"]
    found = volume_share(u, alpha, body, size=300, repeats=8)
    assert abs(found.value - 2 * exact) > 4 * found.error


def test_points_stay_in_the_set_and_fill_it_evenly():
    body, rng = Box.unit(3), np.random.default_rng(0)

    def inside(c):
        return body.contains(c) & (c.sum(axis=1) <= 1)

    start = np.full((2000, 3), 0.1)
    points = volume.hit_and_run(inside, start, body.diameter, 30, rng)
    assert inside(points).all()
    assert points.mean(axis=0) == pytest.approx([0.25] * 3, abs=0.015)  # the centre of the simplex
    assert (points**2).mean(axis=0) == pytest.approx([0.1] * 3, abs=0.01)


def test_the_level_that_a_share_of_models_reaches():
    assert level_of_rank(lambda c: c[:, 0], 0.25, Box.unit(2), halvings=8, size=500) == pytest.approx(0.75, abs=0.02)
    found = level_of_rank(volume.ball_utility([0.0] * 4), 0.001, Ball((0.0,) * 4), halvings=7, size=100)
    assert -found == pytest.approx(0.001 ** (1 / 4), rel=0.15)


def test_samples_of_a_ball_are_uniform():
    points = Ball((1.0, -1.0), 2.0).sample(20_000, np.random.default_rng(0))
    r = np.linalg.norm(points - [1.0, -1.0], axis=1) / 2
    assert (r <= 1).all()
    assert (r <= 0.5).mean() == pytest.approx(0.25, abs=0.012)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Box((0.0,), (0.0,)), "each low below its high"),
        (lambda: Ball((), 1.0), "positive radius"),
        (lambda: volume_share(lambda c: c[:, 0], 0.5, Box.unit(1), repeats=1), "two repeats"),
        (lambda: level_of_rank(lambda c: c[:, 0], 0, Box.unit(1)), "between 0 and 1"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(FairFLError, match=words):
        call()
