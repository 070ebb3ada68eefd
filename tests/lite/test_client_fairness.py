"""Methods for clients that no paper of the book has: each against its formula by hand, a second way, and in its limit cases."""

from dataclasses import replace

import numpy as np
import pytest
from asking import first_models, losses, train
from scipy.special import softmax
from toy import images, one_run, tables, uneven

from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Shards, alone
from fairfl_lite.methods import QFFL, TERM, FedAvg, FedFV, PropFair
from fairfl_lite.methods.fedfv import across, kept, without_conflicts

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


# PropFair


def test_propfair_with_no_baseline_is_fedavg_bit_for_bit_and_goes_there_with_it():
    for fed in (uneven(MANY), uneven(MANY, participants=2), images()):
        plain, found = fed.run([FedAvg(), PropFair(np.inf)], 3, record=()).values()
        np.testing.assert_array_equal(found.state.params, plain.state.params)
    fed = uneven(MANY)
    plain = fed.run(FedAvg(), 3, record=()).answer
    away = [np.abs(fed.run(PropFair(M), 3, record=()).answer - plain).max() for M in (5.0, 50.0, 500.0)]
    assert away[0] > 5 * away[1] > 25 * away[2] > 0


@pytest.mark.parametrize(("M", "epsilon"), [(2.0, 0.2), (0.75, 0.2), (0.3, 0.1)])
def test_one_full_step_of_propfair_is_a_step_up_the_product_of_utilities(M, epsilon):
    """By differences of sum_k p_k M log(M - F_k), continued by its tangent where M - F_k is below epsilon."""
    fed = one_run(uneven(FULL), 0)
    theta, small = first_models(fed)[0].astype(float), 1e-5
    p = fed.sizes()[0] / fed.sizes().sum()

    def value(params):
        left = M - losses(fed, params[None])[0]
        tangent = np.log(epsilon) + (left - epsilon) / epsilon
        return M * p @ np.where(left > epsilon, np.log(np.maximum(left, epsilon)), tangent)

    slope = [(value(theta + small * e) - value(theta - small * e)) / (2 * small) for e in np.eye(len(theta))]
    history = fed.run(PropFair(M, epsilon), 1, record=())
    np.testing.assert_allclose(history.answer[0], theta + 0.3 * np.array(slope), atol=2e-4)
    left = M - losses(fed, theta[None])[0]
    assert (left < epsilon).any() == (M < 2)
    np.testing.assert_allclose(history.state["factor"][0], M / np.maximum(left, epsilon), rtol=1e-4)


def test_clients_of_equal_losses_take_fedavgs_steps_at_another_rate():
    """Three clients with the same rows in another order: what M does is one factor for all."""
    fed = one_run(uneven(replace(FULL, epochs=2)), 0)
    part = fed.shards["train"]
    rows = part.rows(0, 0)
    same = replace(fed, shards={"train": Shards.deal(part.examples, [[rows, rows[::-1], rows]])})
    (F,) = {round(float(value), 5) for value in losses(same, first_models(same))[0]}
    faster = replace(same, local=replace(same.local, lr=0.3 * 2 / (2 - F)))
    found, expected = same.run(PropFair(2.0), 1, record=()).answer, faster.run(FedAvg(), 1, record=()).answer
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_propfair_raises_the_product_of_utilities_above_that_of_fedavg():
    fed = replace(tables(), local=FULL)
    p = fed.sizes() / fed.sizes().sum(1, keepdims=True)
    found = []
    for M in (np.inf, 1.0):
        F = losses(fed, fed.run(PropFair(M), 80).answer)
        found.append(np.nansum(p * np.log(1 - F), axis=1))
    assert (found[1] > found[0]).all()


def test_what_propfair_refuses():
    with pytest.raises(FairFLError, match="M must be above 0, not 0"):
        PropFair(0)
    with pytest.raises(FairFLError, match="epsilon must be above 0, not 0"):
        PropFair(epsilon=0)
    with pytest.raises(FairFLError, match="Adam takes no notice: train by SGD"):
        uneven(ClientTraining("adam")).run(PropFair(), 1)


# FedFV


def test_fedfv_that_keeps_all_updates_is_the_plain_mean():
    for fed in (uneven(MANY), uneven(MANY, participants=2), images()):
        mean, found = fed.run([QFFL(q=0.0), FedFV(1.0, 0)], 3, record=()).values()
        np.testing.assert_allclose(found.answer, mean.answer, atol=2e-6)


def test_without_conflicts_fedfv_is_the_plain_mean():
    """Updates in one quadrant, and clients with the same rows."""
    g = np.random.default_rng(0).uniform(0.1, 1, (5, 3))
    np.testing.assert_array_equal(without_conflicts(g, np.arange(5), 0), g)
    fed = one_run(uneven(replace(MANY, batch_size=0)), 0)
    part = fed.shards["train"]
    near = replace(fed, shards={"train": Shards.deal(part.examples, [[part.rows(0, 2)[:70], part.rows(0, 2)[10:]]])})
    mean, found = near.run([QFFL(q=0.0), FedFV(0.0)], 3, record=()).values()
    np.testing.assert_allclose(found.answer, mean.answer, atol=2e-6)


def test_two_conflicting_updates_by_hand():
    g = np.array([[1.0, 0.0], [-1.0, 1.0]])
    # Each is projected across the other as it was sent, in whatever order: (.5, .5) and (0, 1).
    for order in ([0, 1], [1, 0]):
        np.testing.assert_allclose(without_conflicts(g, np.array(order), 0), [[0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(without_conflicts(g, np.array([0, 1]), 1), [[0.5, 0.5], [-1, 1]])  # the worse one keeps its own
    np.testing.assert_allclose(without_conflicts(g, np.array([1, 0]), 1), [[1, 0], [0, 1]])
    opposite = np.array([[1.0, 0.0], [-2.0, 0.0]])
    assert (without_conflicts(opposite, np.array([0, 1]), 0) == 0).all()
    np.testing.assert_allclose(across(np.array([1.0, 1.0]), np.array([[-2.0, 0.0], [0.0, 3.0]])), [0, 1])
    np.testing.assert_array_equal(across(np.array([1.0, 1.0]), np.zeros((0, 2))), [1, 1])


def test_how_many_keep_their_updates():
    assert [kept(10, alpha) for alpha in (0, 0.1, 0.2, 1 / 3, 0.5, 2 / 3, 1)] == [0, 1, 2, 4, 5, 7, 10]
    assert kept(1, 0.1) == kept(2, 0.1) == 1 and kept(4, 1 / 3) == 2


def second_fedfv(one, alpha, tau, many):
    """FedFV in plain loops, with every update of every round kept."""
    theta, sent = one.init_params(), []
    for t in range(1, many + 1):
        clients = one.sample_clients(t)
        F = alone(one.losses(theta, clients))
        g = {k: theta.astype(float) - local for k, local in zip(clients, alone(one.train(theta, clients, t)), strict=True)}
        by_loss = sorted(clients, key=lambda k: F[list(clients).index(k)])
        changing = by_loss[: int(np.ceil(round((len(clients) - 1) * (1 - alpha), 9)))] if alpha else by_loss
        new = dict(g)
        for k in changing:
            for j in by_loss:
                if j != k and new[k] @ g[j] < 0:
                    new[k] = new[k] - (new[k] @ g[j]) / (g[j] @ g[j]) * g[j]
        step = sum(new.values()) / len(clients)
        for i in range(tau, 0, -1):
            if t - i < 1:
                continue
            later = set(clients).union(*(sent[s - 1] for s in range(t - i + 1, t)))
            conflict = [u for k, u in sent[t - i - 1].items() if k not in later and u @ step < 0]
            if conflict:
                whole = sum(conflict)
                step = step - (step @ whole) / (whole @ whole) * whole
        plain = sum(g.values()) / len(clients)
        step = step / np.linalg.norm(step) * np.linalg.norm(plain)
        sent.append(g)
        theta = (theta - step).astype(np.float32)
    return theta


@pytest.mark.parametrize(("alpha", "tau"), [(0.0, 0), (0.1, 1), (0.5, 3), (2 / 3, 10)])
def test_fedfv_agrees_with_a_second_implementation(alpha, tau):
    for fed in (opposed(), opposed(participants=2)):
        expected = [second_fedfv(fed.one(seed), alpha, tau, 6) for seed in fed.seeds]
        found = fed.run(FedFV(alpha, tau), 6, record=()).answer
        np.testing.assert_allclose(found, expected, atol=1e-5)


def opposed(**options):
    """Six clients, of whom every second has its labels turned, so that updates conflict."""
    fed = tables()
    part = fed.shards["train"]
    dealt, y = [], part.y.copy()
    for r in range(2):
        whole = np.sort(np.concatenate([part.rows(r, k) for k in range(part.clients)]))[:240]
        dealt.append(np.split(whole, 6))
    y[: len(y) // 2] ^= 1
    train = Shards.of(part.X, y, part.a, dealt)
    return replace(fed, shards={"train": train}, **options)


def test_updates_conflict_in_that_federation_and_history_matters():
    fed = opposed(participants=2)
    found = [fed.run(FedFV(alpha, tau), 6, record=()).answer for alpha, tau in ((1.0, 0), (0.0, 0), (0.0, 1), (0.0, 4))]
    for one, other in zip(found, found[1:], strict=False):
        assert np.abs(one - other).max() > 1e-3


def test_where_everything_cancels_the_model_stays():
    """Two clients with the same rows and opposite labels, at a model of zeros."""
    fed = one_run(uneven(FULL), 0)
    part = fed.shards["train"]
    X, y = np.concatenate([part.X[:40]] * 2), np.concatenate([part.y[:40], 1 - part.y[:40]])
    train = Shards.of(X, y, np.concatenate([part.a[:40]] * 2), [[np.arange(40), np.arange(40, 80)]])
    fed = replace(fed, shards={"train": train}, init_params=np.zeros(5, np.float32))
    assert np.abs(fed.run(FedFV(0.0), 2, record=()).answer).max() < 1e-6


def test_what_fedfv_refuses():
    with pytest.raises(FairFLError, match="alpha must be at least 0 and at most 1, not 2"):
        FedFV(2)
    with pytest.raises(FairFLError, match="tau must be a whole number of at least 0, not 0.5"):
        FedFV(tau=0.5)
