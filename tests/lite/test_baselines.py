"""EFFL's baselines: each against its formula, a second implementation or a solver, and in its limit cases."""

from dataclasses import replace

import numpy as np
import pytest
from asking import confusion, first_models, gradient, losses, train
from scipy.optimize import linprog, minimize
from toy import images, one_run, tables, uneven
from toy import rows as toy_rows

from fairfl_lite.clients import Attack, ClientTraining
from fairfl_lite.clients.surrogates import SoftBias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Shards, Standard, State, alone
from fairfl_lite.methods import AFL, FCFL, QFFL, Ditto, FairBatch, FairReg, FedAvg, FedMDFG, FedMGDA, fedmdfg
from fairfl_lite.methods.fairbatch import moved
from fairfl_lite.methods.fcfl import sharper, soft_maximum
from fairfl_lite.methods.fedmdfg import common, fairness, remembered
from fairfl_lite.methods.fedmgda import shortest_within
from fairfl_lite.models import Dense
from fairfl_lite.programs import min_norm

pytestmark = pytest.mark.slow

FULL = ClientTraining("sgd", 0.3, 0, 1, 0)


def loss_by_hand(fed, params, r, k):
    """Mean log loss of client k of run r, from the rows themselves."""
    part = fed.shards["train"]
    rows = part.rows(r, k)
    z = fed.inputs(part.X[rows].astype(float), r) @ params[:-1] + params[-1]
    return np.logaddexp(0, np.where(part.y[rows] == 1, -z, z)).mean()


def rounds(method, one, many):
    """The states of a method on one federation, that of the start first."""
    states = [alone(method.start(one))]
    for t in range(1, many + 1):
        states.append(alone(method.round(one, states[-1], t)))
    return states


# q-FFL


def second_qffl(one, q, many):
    """q-FedAvg client by client; q = 0 is the plain mean of those who take part."""
    theta, L = one.init_params(), 1 / one.local.lr
    for t in range(1, many + 1):
        steps, curvatures = [], []
        for k in one.sample_clients(t):
            (loss,) = alone(one.losses(theta, np.array([k])))
            (trained,) = alone(one.train(theta, np.array([k]), t))
            g = L * (theta - trained.astype(float))
            steps.append(loss**q * g)
            curvatures.append(q * loss ** (q - 1) * g @ g + L * loss**q)
        theta = (theta - sum(steps) / sum(curvatures)).astype(np.float32)
    return theta


def test_q_0_is_the_plain_mean_and_fedavg_where_clients_hold_equally_much():
    fed = uneven(ClientTraining("sgd", 0.1, 0, 2, 10))
    trained = train(fed, first_models(fed), 1).astype(float)
    expected = [trained[0].mean(0), trained[1, [0, 2]].mean(0)]  # in the second run client 1 has no rows
    np.testing.assert_allclose(fed.run(QFFL(0.0), 1, record=()).answer, expected, atol=1e-6)
    equal = images()
    np.testing.assert_allclose(equal.run(QFFL(0.0), 3).answer, equal.run(FedAvg(), 3).answer, atol=1e-5)


@pytest.mark.parametrize("q", [0.5, 1.0, 3.0])
def test_q_ffl_agrees_with_a_second_implementation(q):
    for fed in (uneven(ClientTraining("sgd", 0.1, 0, 2, 10)), images(participants=2)):
        expected = [second_qffl(fed.one(seed), q, 3) for seed in fed.seeds]
        np.testing.assert_allclose(fed.run(QFFL(q), 3, record=()).answer, expected, rtol=1e-4, atol=1e-6)


def test_q_ffl_by_hand():
    """One full batch makes g_k the gradient; D and h from the losses, written out."""
    fed = one_run(uneven(FULL), 0)
    theta, q, L = first_models(fed)[0].astype(float), 2.0, 1 / 0.3
    loss = np.array([loss_by_hand(fed, theta, 0, k) for k in range(3)])
    g = gradient(fed, first_models(fed))[1][0].astype(float)
    h = [q * loss[k] ** (q - 1) * g[k] @ g[k] + L * loss[k] ** q for k in range(3)]
    expected = theta - sum(loss[k] ** q * g[k] for k in range(3)) / sum(h)
    state = fed.run(QFFL(q), 1, record=()).state
    np.testing.assert_allclose(state.params[0], expected, atol=1e-6)
    np.testing.assert_allclose(state["weights"][0], loss**q / (loss**q).sum(), rtol=1e-5)


def test_a_large_q_follows_the_worst_client():
    fed = tables()
    found = fed.run([QFFL(0.0), QFFL(5.0)], 60)
    spread = [np.nanstd(losses(fed, history.answer), axis=1) for history in found.values()]
    assert (spread[1] < spread[0]).all()


# Ditto


def test_lam_0_is_local_training():
    fed = images()
    own = np.repeat(first_models(fed)[:, None], 3, axis=1)
    for t in (1, 2):
        own = train(fed, own, t)
    np.testing.assert_array_equal(fed.run(Ditto(0.0), 2).answer, own)


def test_ditto_by_hand():
    """Two full-batch steps of one client: v is pulled to the w of the round, and w goes its own way."""
    fed = one_run(uneven(replace(FULL, epochs=2)), 0)
    fed = replace(fed, shards={"train": fed.shards["train"]})
    for lam in (0.0, 0.7):
        w = first_models(fed).astype(float)
        v = np.repeat(w[:, None], 3, axis=1)
        for _ in range(3):
            given, w_k = w, np.repeat(w[:, None], 3, axis=1)
            for _ in range(2):
                v = v - 0.3 * (gradient(fed, v.astype(np.float32))[1] + lam * (v - given[:, None]))
                w_k = w_k - 0.3 * gradient(fed, w_k.astype(np.float32))[1]
            w = w_k.mean(1)
        history = fed.run(Ditto(lam), 3, record=())
        np.testing.assert_allclose(history.answer, v, atol=2e-6)
        np.testing.assert_allclose(history.state.params, w, atol=2e-6)


def test_personal_models_are_answered_and_the_server_averages_alike():
    fed = tables()
    near, far = fed.run([Ditto(3.0), Ditto(0.1)], 5).values()
    assert near.answer.shape == (2, 4, fed.model.size)
    away = [np.abs(h.answer - h.state.params[:, None]).mean() for h in (near, far)]
    assert away[0] < 0.7 * away[1]
    np.testing.assert_array_equal(near.counts["test"][:, -1], confusion(fed, near.answer, "test"))
    np.testing.assert_array_equal(near.state.params, far.state.params)  # w does not see the personal models


def test_who_has_not_taken_part_uses_the_servers_model():
    fed = uneven(ClientTraining("sgd", 0.1, 0, 1, 10), participants=1)
    fed = replace(fed, shards={"train": fed.shards["train"]})
    history = fed.run(Ditto(0.5), 2, record=())
    for r in range(2):
        asked = {int(k) for t in (1, 2) for k in fed.one(fed.seeds[r]).sample_clients(t)}
        for k in range(3):
            same = (history.answer[r, k] == history.state.params[r]).all()
            assert same == (k not in asked)
    assert (history.answer[1, 1] == history.state.params[1]).all()  # it has no rows


def test_empty_clients_change_nothing_in_ditto():
    fed = uneven(ClientTraining("sgd", 0.1, 0, 1, 0))
    part = fed.shards["train"]
    both = [[part.rows(r, k) for k in (0, 2)] for r in range(2)]
    empty = np.empty(0, np.int32)
    two = replace(fed, shards={"train": Shards.deal(part.examples, both)})
    four = replace(fed, shards={"train": Shards.deal(part.examples, [[run[0], empty, run[1], empty] for run in both])})
    expected, found = two.run(Ditto(0.5), 3, record=()), four.run(Ditto(0.5), 3, record=())
    np.testing.assert_array_equal(found.state.params, expected.state.params)
    np.testing.assert_array_equal(found.answer[:, [0, 2]], expected.answer)
    np.testing.assert_array_equal(found.answer[:, 1], expected.state.params)


def test_malicious_clients_spoil_the_servers_model_and_not_their_own():
    fed = uneven(FULL)
    fed = replace(fed, shards={"train": fed.shards["train"]})
    attacked = replace(fed, attack=Attack("zero", clients=(0,)))
    honest, spoilt = fed.run(Ditto(0.0), 2, record=()), attacked.run(Ditto(0.0), 2, record=())
    np.testing.assert_array_equal(spoilt.answer[0], honest.answer[0])
    assert np.abs(spoilt.state.params - honest.state.params).max() > 0.05
    with_pull = attacked.run(Ditto(1.0), 2, record=()).answer
    assert np.abs(with_pull[0] - fed.run(Ditto(1.0), 2, record=()).answer[0]).max() > 0.01


# FairBatch


@pytest.mark.parametrize("bias", ["tpsd", "apsd"])
@pytest.mark.parametrize("participants", [0, 2])
def test_alpha_0_is_fedavg_bit_for_bit(bias, participants):
    fed = tables(participants=participants)
    np.testing.assert_array_equal(fed.run(FairBatch(0.0, bias), 3).answer, fed.run(FedAvg(), 3).answer)


def test_fairbatch_moves_lambda_as_the_two_group_rule_does():
    """The rule of two groups, written out: +alpha where group 1 has the larger loss, else -alpha, clipped to [0, 1]."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, loss, alpha = rng.integers(1, 9, (2, 2)), rng.random((2, 2)), rng.choice([0.005, 0.4])
        share = n / n.sum(1, keepdims=True)
        one, zero = share[1, 1], share[0, 1]
        up = loss[1, 1] > loss[1, 0]
        found = moved(share, n, loss, alpha, "tpsd")[:, 1]
        np.testing.assert_allclose(found, [zero, np.clip(one + (alpha if up else -alpha), 0, 1)])
        gap = np.abs(loss[:, 1] - loss[:, 0])
        if gap[1] > gap[0]:
            expected = [zero, np.clip(one + (alpha if up else -alpha), 0, 1)]
        else:
            expected = [np.clip(zero + (-alpha if loss[0, 1] > loss[0, 0] else alpha), 0, 1), one]
        np.testing.assert_allclose(moved(share, n, loss, alpha, "apsd")[:, 1], expected)


def test_of_three_groups_the_two_that_differ_most_are_moved_and_absent_ones_never():
    share, n = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), np.array([[5, 5, 0], [2, 3, 5]])
    found = moved(share, n, np.array([[0.1, 0.1, 9.0], [0.9, 0.1, 0.5]]), 0.25, "tpsd")
    np.testing.assert_allclose(found, [[0.5, 0.5, 0.0], [0.45, 0.05, 0.5]])
    share, n = np.array([[1.0, 0, 0], [1.0, 0, 0]]), np.array([[5, 0, 0], [5, 0, 0]])
    for bias in ("tpsd", "apsd"):  # one group: plain batches
        np.testing.assert_array_equal(moved(share, n, np.array([[1.0, 2, 3], [1.0, 2, 3]]), 0.25, bias), share)


def test_fairbatchs_losses_and_step_are_those_of_the_drawn_batches():
    """The weighted full batch makes the mean step of batches that are drawn with lambda's shares."""
    fed = one_run(uneven(FULL), 0)
    one, part = fed.one(), fed.shards["train"]
    state = rounds(FairBatch(0.2), one, 1)[-1]
    theta, expected = one.init_params().astype(float), []
    for k in range(3):
        rows = part.rows(0, k)
        X, y, a = fed.inputs(part.X[rows].astype(float), 0), part.y[rows], part.a[rows]
        z = X @ theta[:-1] + theta[-1]
        loss = np.logaddexp(0, np.where(y == 1, -z, z))
        share = [(a[y == label] == 1).mean() for label in (0, 1)]
        up = loss[(y == 1) & (a == 1)].mean() > loss[(y == 1) & (a == 0)].mean()
        share[1] = np.clip(share[1] + (0.2 if up else -0.2), 0, 1)
        np.testing.assert_allclose(state["lambda"][k, :, 1], share)
        slope = (1 / (1 + np.exp(-z)) - y)[:, None] * np.c_[X, np.ones(len(X))]
        step = 0.0
        for label in (0, 1):
            for group in (0, 1):
                cell = (y == label) & (a == group)
                drawn = share[label] if group else 1 - share[label]  # chance of the group in a batch, given the label
                step = step + (y == label).mean() * drawn * slope[cell].mean(0)
        expected.append(theta - 0.3 * step)
    np.testing.assert_allclose(state.params, np.average(expected, axis=0, weights=one.sizes(np.arange(3))), atol=1e-6)


def test_fairbatch_narrows_the_gap_it_is_asked_for():
    """One client, whose features know the group only in part: the better-off group is drawn less and less, until never."""
    table = toy_rows()
    part = Shards.of(table.X, table.y, table.a, [[np.arange(300)]])
    fed = Federation({"train": part}, Dense(4), FULL, (0,), Standard.of(part))
    for bias, gap, label, group in (("tpsd", "eod", 1, 1), ("apsd", "spd", 0, 0)):
        plain, fair = fed.run([FairBatch(alpha, bias) for alpha in (0.0, 0.01)], 300, record=("train",)).values()
        gaps = [abs(history.values(gap, "train")[0, -1]) for history in (plain, fair)]
        assert gaps[1] < 0.85 * gaps[0]
        assert fair.state["lambda"][0, 0, label, group] == 0 and plain.state["lambda"][0, 0, label, group] > 0.4


def test_who_does_not_take_part_in_fairbatch_keeps_its_lambda():
    one = uneven(FULL, participants=1).one()
    states = rounds(FairBatch(0.2), one, 4)
    for t in range(1, 5):
        moved_now = (states[t]["lambda"] != states[t - 1]["lambda"]).any((1, 2))
        np.testing.assert_array_equal(np.flatnonzero(moved_now), one.sample_clients(t))
        np.testing.assert_array_equal(states[t]["weights"], np.arange(3) == one.sample_clients(t))


# AFL


def test_afl_by_hand():
    """Two clients, so that lambda is one number: the nearest point of a segment."""
    fed = one_run(uneven(FULL), 1)  # client 1 has no rows
    theta, lam, models = first_models(fed)[0].astype(float), 0.5, []
    for _ in range(4):
        loss = [loss_by_hand(fed, theta, 0, k) for k in (0, 2)]
        g = gradient(fed, theta[None].astype(np.float32))[1][0].astype(float)
        theta = theta - 0.2 * (lam * g[0] + (1 - lam) * g[2])
        lam = np.clip(lam + 0.9 * (loss[0] - loss[1]) / 2, 0, 1)
        models.append(theta)
    history = fed.run(AFL(0.2, 0.9), 4, record=())
    np.testing.assert_allclose(history.state.params[0], theta, atol=1e-6)
    np.testing.assert_allclose(history.state["weights"][0], [lam, 0, 1 - lam], atol=1e-6)
    np.testing.assert_allclose(history.answer[0], np.mean(models, axis=0), atol=1e-6)


def test_afls_lambda_stays_on_the_simplex_also_when_its_rate_is_huge():
    history = tables().run(AFL(0.1, 50.0), 8, remember=("weights",))
    assert (history.memory["weights"] >= 0).all()
    np.testing.assert_allclose(history.memory["weights"].sum(-1), 1)
    assert (history.memory["weights"].max(-1) == 1).any()  # where the published projection leaves the simplex


def test_lr_lambda_0_and_one_client_are_gradient_descent():
    fed = uneven(FULL)
    params = [first_models(fed).astype(float)]
    for _ in range(3):
        slope = gradient(fed, params[-1].astype(np.float32))[1].astype(float)
        params.append(params[-1] - 0.2 * np.stack([slope[0].mean(0), slope[1, [0, 2]].mean(0)]))
    np.testing.assert_allclose(fed.run(AFL(0.2, 0.0), 3, record=()).state.params, params[-1], atol=1e-6)
    np.testing.assert_allclose(fed.run(FairReg(0.0, 0.2), 3, record=()).answer, params[-1], atol=1e-6)
    one = only(fed, 0)
    expected = one.run(FedAvg(), 4, record=()).answer  # one client, one full batch
    history = one.run(AFL(0.3, 5.0), 4, record=())
    np.testing.assert_allclose(history.state.params, expected, atol=1e-6)
    assert (history.state["weights"] == 1).all()


def only(fed, k):
    """One client by itself, in one run."""
    part = Shards.deal(fed.shards["train"].examples, [[fed.shards["train"].rows(0, k)]])
    return Federation({"train": part}, fed.model, fed.local, (0,), Standard.of(part))


def test_afl_lowers_the_largest_loss():
    fed = tables(minimum=20)
    found = fed.run([AFL(0.3, rate) for rate in (0.0, 0.3)], 400, record=())
    plain, fair = (losses(fed, history.state.params).max(1) for history in found.values())
    assert (fair < plain).all()


# FedMGDA+


def test_eps_0_without_normalising_is_fedavg():
    for fed in (uneven(ClientTraining("sgd", 0.1, 0, 1, 10)), images(participants=2)):
        expected = fed.run(FedAvg(), 3)
        found = fed.run(FedMGDA(0.0, 1.0, normalise=False), 3)
        np.testing.assert_allclose(found.answer, expected.answer, atol=1e-5)
        np.testing.assert_allclose(found.state["weights"], expected.state["weights"])


def test_the_shortest_vector_within_bounds_is_that_of_a_solver_of_quadratic_programs():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 6, 12):
        for eps in (0.0, 0.05, 0.2, 1.0):
            for case in range(3):
                g = rng.normal(size=(n, 8)) + rng.normal(size=(1, 8)) * rng.choice([0, 1, 3])
                shares = rng.dirichlet(np.ones(n))
                if n > 2 and case:
                    shares[1] = 0
                    shares /= shares.sum()
                low, high = np.maximum(shares - eps, 0), np.where(shares > 0, np.minimum(shares + eps, 1), 0)
                gram = g @ g.T
                found = shortest_within(gram, low, high)
                assert found.sum() == pytest.approx(1)
                assert (found >= low - 1e-12).all() and (found <= high + 1e-12).all()
                best = minimize(lambda w, Q=gram: w @ Q @ w, shares, jac=lambda w, Q=gram: 2 * Q @ w, method="SLSQP",
                                bounds=list(zip(low, high, strict=True)), options={"ftol": 1e-14, "maxiter": 500},
                                constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like})  # fmt: skip
                assert found @ gram @ found <= best.fun + 1e-7 * np.trace(gram)
                if eps == 1.0:
                    np.testing.assert_allclose(found @ g, min_norm(gram, high > 0) @ g, atol=1e-5)


def test_free_weights_make_a_step_along_which_nobody_loses():
    fed = uneven(FULL)  # one full batch: updates are gradients
    history = fed.run(FedMGDA(1.0, 0.01), 1, record=())
    step = (first_models(fed).astype(float) - history.answer) / 0.01
    slope = gradient(fed, first_models(fed))[1].astype(float)
    unit = slope / np.maximum(np.linalg.norm(slope, axis=2, keepdims=True), 1e-30)
    along = (unit @ step[..., None])[..., 0]
    for r, k in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        assert along[r, k] >= step[r] @ step[r] - 1e-3 > 0
    before, after = losses(fed, first_models(fed)), losses(fed, history.answer)
    assert (after[~np.isnan(after)] < before[~np.isnan(before)]).all()


def test_a_longer_update_pulls_no_harder():
    """Client 0 shouts: ten times its update. Normalised, the server's step is the same."""
    fed = one_run(uneven(FULL), 0)
    shouting = replace(fed, attack=Attack("enlarge", (0,), 10.0, of="update"))
    quiet = fed.run(FedMGDA(0.2, 0.1), 1, record=()).answer
    np.testing.assert_allclose(shouting.run(FedMGDA(0.2, 0.1), 1, record=()).answer, quiet, atol=1e-6)
    assert np.abs(shouting.run(FedMGDA(0.2, 0.1, normalise=False), 1, record=()).answer - quiet).max() > 0.01


# FedMDFG


def test_fedmdfgs_direction_lowers_every_loss_in_every_round():
    fed = uneven(FULL)
    history = fed.run(FedMDFG(0.05), 25, record=(), remember=("losses", "step"))
    found = history.memory["losses"]  # of the model before each round
    there = np.isfinite(found[:, 0])
    np.testing.assert_allclose(found[:, 0][there], losses(fed, first_models(fed))[there])
    assert (history.memory["step"] > 0).all()
    assert (np.diff(found[0], axis=0) < 0).all() and (np.diff(found[1][:, [0, 2]], axis=0) < 0).all()
    assert np.isinf(found[1, :, 1]).all()  # it has no rows


@pytest.mark.parametrize("participants", [0, 2])
def test_where_everybody_has_arrived_nothing_moves(participants, monkeypatch):
    one = uneven(FULL, participants=participants).one()
    moving = rounds(FedMDFG(), one, 2)[-1]
    monkeypatch.setattr(fedmdfg, "STILL", np.inf)
    still = alone(FedMDFG().round(one, moving, 3))
    np.testing.assert_array_equal(still.params, moving.params)
    assert still["step"] == 0 and not len(still["clients"]) and not len(still["rows"])
    now = alone(one.losses(moving.params, one.sample_clients(3)))
    np.testing.assert_array_equal(still["losses"][one.sample_clients(3)], now)
    assert set(still.memory) == set(moving.memory)


def test_the_common_direction_has_the_asked_length_and_descends_along_every_row():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        for _ in range(4):
            rows = rng.normal(size=(n, 12)) + 0.5 * rng.normal(size=(1, 12))
            d = common(rows, 0.3)
            assert (rows @ d >= -1e-9).all()
            assert np.linalg.norm(d) == pytest.approx(0.3)
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]])  # their hull holds 0: nowhere to go
    np.testing.assert_allclose(common(opposite, 1.0), 0, atol=1e-12)


def test_the_row_of_fairness_is_the_gradient_of_the_angle():
    rng = np.random.default_rng(1)
    for n in (4, 4, 3, 2):
        loss = rng.random(n) + 0.1
        cosine, turn = fairness(loss)
        assert cosine == pytest.approx(loss.sum() / np.linalg.norm(loss) / np.sqrt(n))
        slope = [(np.arccos(fairness(loss + e)[0]) - np.arccos(cosine)) / 1e-6 for e in 1e-6 * np.eye(n)]
        np.testing.assert_allclose(turn, slope / np.linalg.norm(slope), atol=1e-4)
        several = fairness(np.stack([loss, loss[::-1]]))
        np.testing.assert_allclose(several[0], cosine)
        np.testing.assert_allclose(several[1], [turn, turn[::-1]])
    cosine, turn = fairness(np.full(3, 0.7))
    assert cosine == pytest.approx(1) and (turn == 0).all()


def test_fedmdfg_of_one_client_is_gradient_descent_with_a_line_search():
    fed = only(uneven(FULL), 0)
    theta, steps = first_models(fed)[0].astype(float), []
    for _ in range(5):
        g = gradient(fed, theta[None].astype(np.float32))[1][0, 0].astype(float)
        before = loss_by_hand(fed, theta, 0, 0)
        step = 0.5 * 2**5
        while before - loss_by_hand(fed, theta - step * g, 0, 0) < 1e-4 * step * g @ g:
            step /= 2
        theta = theta - step * g
        steps.append(step)
    history = fed.run(FedMDFG(0.5), 5, record=(), remember=("step",))
    np.testing.assert_array_equal(history.memory["step"][0], steps)
    np.testing.assert_allclose(history.answer[0], theta, atol=1e-5)


def searched(changes, lr=1.0, s=5, clients=1):
    """The step of a search along the first client's gradient; changes(step, promised drop) says what each loss does."""
    one = uneven(FULL).one()
    who, params = np.arange(clients), one.init_params()
    loss, slope = alone(one.value_and_gradient(params, who))
    d = slope[0].astype(float)

    async def told(models, who, each_model):
        steps = [(params - model) @ d / (d @ d) for model in models]
        return np.array([loss + changes(round(step, 3), step * slope @ d) for step in steps])

    one.losses = told
    return alone(FedMDFG(lr, s=s).search(one, params, d, who, loss, slope @ d, False, False))


def test_a_step_must_make_a_ten_thousandth_of_the_promised_drop():
    made = {32.0: -0.5e-4, 16.0: 0.5e-4, 8.0: -2e-4}  # too little, a rise, enough
    assert searched(lambda step, drop: made.get(step, -1) * drop) == 8.0


def test_where_not_all_losses_fall_the_longest_step_that_lowers_their_sum_is_taken():
    sums = {2.0: 0.05, 1.0: -0.05, 0.5: -0.3}
    assert searched(lambda step, drop: np.array([sums[step] - 0.1, 0.1]), s=1, clients=2) == 1.0
    sums = {2.0: 0.05, 1.0: 0.02, 0.5: 0.03}  # none does: the least of the rises
    assert searched(lambda step, drop: np.array([sums[step] - 0.1, 0.1]), s=1, clients=2) == 1.0


def second_fedmdfg(one, method, many):
    """FedMDFG in loops over clients and steps: the models and the steps taken, [round]."""
    theta, last, times, old = one.init_params(), {}, {}, {}
    models, steps, seen = [], [], {"row": 0, "rose": 0, "gone": 0, "lower": 0, "best": 0}
    everybody = np.arange(one.n)

    def cosine(now, who):
        return now[who].sum() / np.linalg.norm(now[who]) / np.sqrt(len(who))

    for t in range(1, many + 1):
        loss, slope = alone(one.value_and_gradient(theta, everybody))
        there = one.sample_clients(t).tolist()
        who = [k for k in there if np.linalg.norm(slope[k]) > 1e-6]
        g = {k: slope[k].astype(float) for k in who}
        mean = np.mean([np.linalg.norm(g[k]) for k in who])
        rows = {k: g[k] / np.linalg.norm(g[k]) * mean for k in who}
        length = np.linalg.norm(np.mean(list(rows.values()), axis=0))
        rose = [k for k in who if loss[k] > last.get(k, np.inf)]
        cos = cosine(loss, who)
        h = cos * loss[who] / np.linalg.norm(loss[who]) - 1 / np.sqrt(len(who))
        unequal = np.linalg.norm(h) > 1e-7 and (np.arccos(min(cos, 1)) > method.angle or 0 < len(rose) < len(who))
        hull = list(rows.values())
        if unequal:
            hull.append(sum(h[i] * rows[k] for i, k in enumerate(who)) / np.linalg.norm(h))
        gone = [k for k in old if k not in there]
        hull = np.array(hull + [old[k] for k in gone])
        d = min_norm(hull @ hull.T) @ hull
        if (hull @ (d / np.linalg.norm(d) * length) >= -1e-6).all():
            d = d / np.linalg.norm(d) * length
        tried, taken = [], None
        for power in range(0 if gone else method.s, -method.s - 1, -1):
            step = method.lr * 2.0**power
            now = alone(one.losses((theta - step * d).astype(np.float32), everybody))
            tried.append((step, now[who].sum()))
            enough = all(loss[k] - now[k] >= 1e-4 * step * (g[k] @ d) for k in who)
            if enough and (not unequal or cosine(now, who) > cos):
                taken = step
                break
        if taken is None:
            lower = [step for step, total in tried if total < loss[who].sum()]
            taken = lower[0] if lower else min(tried, key=lambda pair: pair[1])[0]
            seen["lower" if lower else "best"] += 1
        seen["row"] += unequal
        seen["rose"] += 0 < len(rose) < len(who) and np.arccos(min(cos, 1)) <= method.angle
        seen["gone"] += len(gone)
        theta = (theta - taken * d).astype(np.float32)
        for k in there:
            times[k] = times.get(k, 0) + 1
            if method.rose == "last" or times[k] == 1:
                last[k] = loss[k]
            elif loss[k] <= last[k]:
                last[k] += (loss[k] - last[k]) / times[k]
        old = rows if one.participants else {}
        models.append(theta)
        steps.append(taken)
    return models, steps, seen


@pytest.mark.parametrize("rose", ["mean", "last"])
def test_fedmdfg_agrees_with_a_second_implementation(rose):
    seen = {}
    for participants in (0, 2):
        fed = uneven(FULL, participants=participants)
        for lr, angle, s in ((0.1, np.pi / 16, 5), (0.1, 0.01, 5), (8.0, 0.01, 1), (30.0, 0.3, 0), (3.0, np.pi / 2, 1)):
            method = FedMDFG(lr, angle, s, rose)
            history = fed.run(method, 6, record=(), remember=("step",))
            for r, seed in enumerate(fed.seeds):
                models, steps, found = second_fedmdfg(fed.one(seed), method, 6)
                np.testing.assert_array_equal(history.memory["step"][r], steps)
                np.testing.assert_allclose(history.answer[r], models[-1], rtol=1e-3, atol=1e-4)
                seen = {name: seen.get(name, 0) + found[name] for name in found}
    assert min(seen.values()) > 0, seen  # every branch was taken


def test_a_loss_rose_that_is_above_a_mean_that_only_moves_down():
    """By hand: 4 and 2 have the mean 3; 5 is above it and leaves it, as the third time; 1 is taken in as the fourth."""
    none = np.full(2, np.inf)
    state = State(np.zeros(1), {"losses": none, "mean": none, "times": np.zeros(2, int)})
    means = []
    for loss in (4.0, 2.0, 5.0, 1.0, 3.0):
        state = State(state.params, remembered(state, np.array([0]), np.array([loss])))
        means.append(state["mean"][0])
        assert state["losses"].tolist() == [loss, np.inf]
    assert means == [4.0, 3.0, 3.0, 2.5, 2.5] and np.isinf(state["mean"][1]) and state["times"].tolist() == [5, 0]


def test_guidance_brings_losses_nearer_to_each_other():
    fed = tables(minimum=20)

    found = fed.run([FedMDFG(0.1, 0.01), FedMDFG(0.1, np.pi / 2)], 60, record=())
    guided, free = (np.arccos(fairness(losses(fed, history.answer))[0]) for history in found.values())
    assert (guided < free).all()


def test_who_has_gone_keeps_its_row_for_a_round(monkeypatch):
    """One client in a round has no row of fairness: its own row comes first, and then that of the one that has gone."""
    fed = uneven(FULL, participants=1)
    asked, changes = [], 0

    def watched(rows, length):
        asked.append((rows, common(rows, length)))
        return asked[-1][1]

    monkeypatch.setattr(fedmdfg, "common", watched)
    for seed in fed.seeds:
        asked.clear()
        one = fed.one(seed)
        rounds(FedMDFG(), one, 4)
        for t in (2, 3, 4):
            (rows, d), before = asked[t - 1], asked[t - 2][0]
            changed = (one.sample_clients(t) != one.sample_clients(t - 1)).any()
            assert len(rows) == 1 + changed
            if changed:
                np.testing.assert_allclose(rows[1], before[0], rtol=1e-6)
                assert rows[1] @ d >= -1e-9
                changes += 1
    assert changes


# FairReg


def soft_gap(fed, theta, r, k):
    """|r_0 - r_1| / 2 among the positive rows of a client, r the mean of sigmoid(10 logit)."""
    part = fed.shards["train"]
    rows = part.rows(r, k)
    p = 1 / (1 + np.exp(-10 * (fed.inputs(part.X[rows].astype(float), r) @ theta[:-1] + theta[-1])))
    y, a = part.y[rows], part.a[rows]
    return abs(p[(y == 1) & (a == 0)].mean() - p[(y == 1) & (a == 1)].mean()) / 2


def test_fairreg_descends_on_losses_and_biases():
    """Against differences of the objective, computed from the rows."""
    fed = one_run(uneven(FULL), 0)
    theta = first_models(fed)[0].astype(float)

    def objective(theta):
        return np.mean([loss_by_hand(fed, theta, 0, k) + 2.0 * soft_gap(fed, theta, 0, k) for k in range(3)])

    slope = [(objective(theta + e) - objective(theta - e)) / 2e-5 for e in 1e-5 * np.eye(5)]
    history = fed.run(FairReg(2.0, 0.1), 1, record=())
    np.testing.assert_allclose(history.answer[0], theta - 0.1 * np.array(slope), atol=1e-5)
    np.testing.assert_allclose(history.state["bias"][0], [soft_gap(fed, theta, 0, k) for k in range(3)], atol=1e-5)


def test_fairreg_lowers_the_bias_and_does_nothing_where_there_is_one_group():
    fed = tables(minimum=20)
    found = fed.run([FairReg(mu, 0.2) for mu in (0.0, 1.0)], 100, record=())
    free, fair = (np.nanmean(history.state["bias"]) for history in found.values())
    assert fair < 0.5 * free
    np.testing.assert_allclose(images().run(FairReg(5.0), 2).answer, images().run(FairReg(0.0), 2).answer, atol=1e-6)


# FCFL


def test_stage_1_is_the_best_point_of_a_segment():
    """Two rows: alpha on a fine grid."""
    rng = np.random.default_rng(0)
    a = np.linspace(0, 1, 20001)
    mix = np.stack([a, 1 - a], 1)
    for _ in range(200):
        rows = rng.normal(size=(2, 3))
        for fair in (True, False):
            found = FCFL().stage1(rows @ rows.T, fair)
            d = mix @ rows
            gain = np.where(fair | (d @ rows[0] >= 0), d @ rows[0 if fair else 1], -np.inf)
            assert found @ rows @ rows[0 if fair else 1] == pytest.approx(gain.max(), abs=2e-3)
            assert fair or found @ rows @ rows[0] >= -1e-9


def test_stage_2_is_the_linear_program_of_all_gradients():
    rng = np.random.default_rng(0)
    for n in (1, 2, 4, 7):
        for _ in range(30):
            g = rng.normal(size=(n + 1, 5)) + 0.3
            g[-1] *= rng.random() < 0.5  # the bias is within its budget
            found = FCFL().stage2(g @ g.T)
            d = found @ g
            best = linprog(-(g @ g[:-1].mean(0)), A_ub=-(g @ g.T), b_ub=np.zeros(n + 1), A_eq=np.ones((1, n + 1)), b_eq=[1])
            assert d @ g[:-1].mean(0) == pytest.approx(-best.fun, abs=1e-7)
            assert (g @ d >= -1e-7).all() and found.sum() == pytest.approx(1)


def test_infinite_budgets_leave_common_descent_and_one_client_gradient_descent():
    fed = uneven(FULL)
    history = fed.run(FCFL(np.inf, 0.05, first=0), 20, record=())
    before = first_models(fed)
    for t in range(1, 4):
        state = fed.run(FCFL(np.inf, 0.01, first=0), t, record=()).state
        now, was = losses(fed, state.params), losses(fed, before)
        assert (now[0] <= was[0] + 1e-4).all() and np.nanmean(now) < np.nanmean(was)
        assert (state["weights"].sum(1) == pytest.approx(1)) and (state["weights"][1, 1] == 0)
        before = state.params
    assert np.isfinite(history.answer).all()
    one = only(fed, 0)
    np.testing.assert_allclose(one.run(FCFL(np.inf, 0.3, first=0), 4, record=()).answer, one.run(FedAvg(), 4, record=()).answer,
                               atol=1e-6)  # fmt: skip


def test_fcfl_takes_the_bias_into_its_budget():
    fed = tables(minimum=20)
    found = fed.run([FCFL(eps, 0.1, first=150) for eps in (np.inf, 0.03)], 300, record=())
    worst = [np.nanmax(gradient(fed, history.answer, SoftBias())[0], axis=1) for history in found.values()]
    assert (worst[1] < 0.05).all() and (worst[0] > 2 * worst[1]).all()


def test_soft_maxima_are_between_the_largest_and_the_mean():
    values = np.array([1.0, 3.0, 2.0])
    np.testing.assert_allclose(soft_maximum(values, 1e-4), [0, 1, 0])
    np.testing.assert_allclose(soft_maximum(values, 1e9), [1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(soft_maximum(values, 0.5), np.exp([-4, 0, -2]) / np.exp([-4, 0, -2]).sum())
    delta = np.full(2, 0.5)
    for expected in ([0.005, 0.5], [0.00005, 0.5], [0.00005, 0.5]):  # 0.1 times 0 is not above it, 0.1 times 9 is
        delta = sharper(delta, np.array([0.0, 9.0]))
        np.testing.assert_allclose(delta, expected)


# What makes no sense.


@pytest.mark.parametrize(("wrong", "sentence"), [
    (lambda: QFFL(-1.0), "q must be at least 0"),
    (lambda: uneven(ClientTraining("sgd", 0.0)).run(QFFL(), 1), "give ClientTraining an lr above 0"),
    (lambda: Ditto(-0.1), "lam must be at least 0"),
    (lambda: uneven(ClientTraining()).run(Ditto(), 1), "part 'validation' is dealt to 1: make the federation with central=False"),
    (lambda: FairBatch(2.0), "alpha must be at least 0 and at most 1"),
    (lambda: FairBatch(bias="tspd"), "did you mean 'tpsd'"),
    (lambda: images().run(FairBatch(), 1), "two labels, and there are 10 classes"),
    (lambda: AFL(lr=0.0), "lr must be above 0"),
    (lambda: AFL(batch=-1), "batch must be a whole number"),
    (lambda: tables(participants=2).run(AFL(), 1), "AFL needs every client in every round"),
    (lambda: tables(participants=2).run(FCFL(), 1), "FCFL needs every client in every round"),
    (lambda: FCFL(eps=-0.1), "eps must be at least 0"),
    (lambda: FCFL(eps=np.nan), "eps must be at least 0"),
    (lambda: FedMGDA(eps=1.5), "eps must be at least 0 and at most 1"),
    (lambda: FedMDFG(angle=2.0), "angle must be at least 0 and at most 1.57"),
    (lambda: FairReg(mu=-1), "mu must be at least 0"),
])  # fmt: skip
def test_what_makes_no_sense_is_said(wrong, sentence):
    with pytest.raises(FairFLError, match=sentence):
        wrong()
