"""Methods for clients that no paper of the book has: each against its formula by hand, a second way, and in its limit cases."""

import numpy as np
import pytest
from asking import first_models, losses, train
from scipy.special import softmax
from toy import images, one_run, tables, uneven

from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import FairFLError
from fairfl_lite.methods import QFFL, TERM, FedAvg

pytestmark = pytest.mark.slow

FULL = ClientTraining("sgd", 0.3, 0, 1, 0)
MANY = ClientTraining("sgd", 0.1, 0, 2, 10)


# TERM


def test_term_without_a_tilt_is_fedavg_bit_for_bit():
    for fed in (uneven(MANY), uneven(MANY, participants=2), images()):
        plain, tilted = fed.run([FedAvg(), TERM(0)], 3, record=()).values()
        np.testing.assert_array_equal(tilted.state.params, plain.state.params)
    fed = uneven(MANY)
    mean, tilted = fed.run([QFFL(q=0.0), TERM(0, "uniform")], 3, record=()).values()
    np.testing.assert_allclose(tilted.state.params, mean.state.params, atol=1e-6)


def test_term_goes_to_fedavg_with_its_tilt():
    fed = uneven(MANY)
    plain = fed.run(FedAvg(), 2, record=()).answer
    away = [np.abs(fed.run(TERM(tilt), 2, record=()).answer - plain).max() for tilt in (1.0, 0.1, 0.01)]
    assert away[0] > 5 * away[1] > 25 * away[2] > 0


@pytest.mark.parametrize("prior", ["rows", "uniform"])
@pytest.mark.parametrize("tilt", [-2.0, 0.7, 5.0])
def test_term_by_hand(tilt, prior):
    fed = one_run(uneven(MANY), 0)
    start = first_models(fed)
    local, F = train(fed, start, 1)[0].astype(float), losses(fed, start)[0]
    p = fed.sizes()[0] / fed.sizes().sum() if prior == "rows" else np.full(3, 1 / 3)
    w = softmax(tilt * F + np.log(p))
    history = fed.run(TERM(tilt, prior), 1, record=())
    np.testing.assert_allclose(history.state["weights"][0], w, rtol=1e-6)
    np.testing.assert_allclose(history.answer[0], w @ local, atol=1e-6)


def test_one_full_step_of_term_is_a_step_down_the_tilted_loss():
    fed = one_run(uneven(FULL), 0)
    start, t = first_models(fed), 3.0
    p = fed.sizes()[0] / fed.sizes().sum()

    def tilted_loss(params):
        F = losses(fed, params[None].astype(np.float64))[0]
        return np.log(p @ np.exp(t * F)) / t

    theta, small = start[0].astype(float), 1e-5
    slope = [(tilted_loss(theta + small * e) - tilted_loss(theta - small * e)) / (2 * small) for e in np.eye(len(theta))]
    np.testing.assert_allclose(fed.run(TERM(t), 1, record=()).answer[0], theta - 0.3 * np.array(slope), atol=1e-4)


@pytest.mark.parametrize("tilt", [1e4, -1e4])
def test_a_large_tilt_follows_the_worst_or_the_best_client_alone(tilt):
    fed = one_run(uneven(MANY), 0)
    start = first_models(fed)
    F = losses(fed, start)[0]
    chosen = F.argmax() if tilt > 0 else F.argmin()
    np.testing.assert_array_equal(fed.run(TERM(tilt), 1, record=()).answer[0], train(fed, start, 1)[0, chosen])


def test_a_tilt_brings_the_worst_client_nearer():
    fed = tables()
    plain, tilted = (losses(fed, fed.run(TERM(tilt), 60).answer) for tilt in (0.0, 5.0))
    assert (np.nanmax(tilted, 1) < np.nanmax(plain, 1)).all()


def test_what_term_refuses():
    with pytest.raises(FairFLError, match="tilt must be at least 0, not nan"):
        TERM(np.nan)
    with pytest.raises(FairFLError, match="There is no prior of TERM named 'even'"):
        TERM(prior="even")
