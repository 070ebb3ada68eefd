"""EFFL's baselines: each against its formula, a second implementation or a solver, and in its limit cases."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from test_federation import QFFL as SecondQFFL
from test_federation import images, tables
from toy import one_run, uneven
from toy import rows as toy_rows

from fairfl_lite.clients import Attack, Local
from fairfl_lite.clients.surrogates import SoftBias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Shards, Standard
from fairfl_lite.methods import AFL, FCFL, QFFL, Ditto, FairBatch, FairReg, FedAvg, FedMDFG, FedMGDA, fedmdfg
from fairfl_lite.methods.fairbatch import moved, weighted_rows
from fairfl_lite.methods.fcfl import sharper, soft_maximum
from fairfl_lite.methods.fedmdfg import common, fairness, lowered
from fairfl_lite.methods.fedmgda import shortest_within
from fairfl_lite.models import Dense
from fairfl_lite.programs import min_norm

FULL = Local("sgd", 0.3, 0, 1, 0)


def loss_by_hand(fed, params, r, k):
    """Mean log loss of client k of run r, from the rows themselves."""
    train = fed.shards["train"]
    rows = train.rows(r, k)
    z = fed.inputs(train.X[rows].astype(float), r) @ params[:-1] + params[-1]
    return np.logaddexp(0, np.where(train.y[rows] == 1, -z, z)).mean()


# q-FFL


def test_q_0_is_the_plain_mean_and_fedavg_where_clients_hold_equally_much():
    fed = uneven(Local("sgd", 0.1, 0, 2, 10))
    trained = fed.train(fed.start(), 1).astype(float)
    expected = [trained[0].mean(0), trained[1, [0, 2]].mean(0)]  # in the second run client 1 has no rows
    np.testing.assert_allclose(fed.run(QFFL(0.0), 1, record=()).answer, expected, atol=1e-6)
    equal = images()
    np.testing.assert_allclose(equal.run(QFFL(0.0), 3).answer, equal.run(FedAvg(), 3).answer, atol=1e-5)


@pytest.mark.parametrize("q", [0.5, 1.0, 3.0])
def test_q_ffl_agrees_with_a_second_implementation(q):
    for fed in (uneven(Local("sgd", 0.1, 0, 2, 10)), images(participants=2)):
        expected, found = fed.run(SecondQFFL(q), 3), fed.run(QFFL(q), 3)
        np.testing.assert_allclose(found.answer, expected.answer, rtol=1e-4, atol=1e-6)


def test_q_ffl_by_hand():
    """One full batch makes g_k the gradient; D and h from the losses, written out."""
    fed = one_run(uneven(FULL), 0)
    theta, q, L = fed.start()[0].astype(float), 2.0, 1 / 0.3
    loss = np.array([loss_by_hand(fed, theta, 0, k) for k in range(3)])
    g = fed.gradient(fed.start())[1][0].astype(float)
    h = [q * loss[k] ** (q - 1) * g[k] @ g[k] + L * loss[k] ** q for k in range(3)]
    expected = theta - sum(loss[k] ** q * g[k] for k in range(3)) / sum(h)
    state = fed.run(QFFL(q), 1, record=()).state
    np.testing.assert_allclose(state.params[0], expected, atol=1e-6)
    np.testing.assert_allclose(state["weights"][0], loss**q / (loss**q).sum(), rtol=1e-5)


def test_a_large_q_follows_the_worst_client():
    fed = tables()
    plain, fair = fed.run(QFFL(0.0), 60), fed.run(QFFL(5.0), 60)
    spread = [np.nanstd(fed.losses(h.answer), axis=1) for h in (plain, fair)]
    assert (spread[1] < spread[0]).all()


# Ditto


def test_lam_0_is_local_training():
    fed = images()
    own = np.repeat(fed.start()[:, None], 3, axis=1)
    for t in (1, 2):
        own = fed.train(own, t)
    np.testing.assert_array_equal(fed.run(Ditto(0.0), 2).answer, own)


def test_ditto_by_hand():
    """Two full-batch steps of one client: v is pulled to the w of the round, and w goes its own way."""
    fed = one_run(uneven(replace(FULL, epochs=2)), 0)
    fed = replace(fed, shards={"train": fed.shards["train"]})
    for lam in (0.0, 0.7):
        w = fed.start().astype(float)
        v = np.repeat(w[:, None], 3, axis=1)
        for _ in range(3):
            given, w_k = w, np.repeat(w[:, None], 3, axis=1)
            for _ in range(2):
                v = v - 0.3 * (fed.gradient(v.astype(np.float32))[1] + lam * (v - given[:, None]))
                w_k = w_k - 0.3 * fed.gradient(w_k.astype(np.float32))[1]
            w = w_k.mean(1)
        history = fed.run(Ditto(lam), 3, record=())
        np.testing.assert_allclose(history.answer, v, atol=2e-6)
        np.testing.assert_allclose(history.state.params, w, atol=2e-6)


def test_personal_models_are_answered_and_the_server_averages_alike():
    fed = tables()
    near, far = fed.run(Ditto(3.0), 5), fed.run(Ditto(0.1), 5)
    assert near.answer.shape == (2, 4, fed.model.size)
    away = [np.abs(h.answer - h.state.params[:, None]).mean() for h in (near, far)]
    assert away[0] < 0.7 * away[1]
    np.testing.assert_array_equal(near.counts["test"][:, -1], fed.report(near.answer, "test"))
    np.testing.assert_array_equal(near.state.params, far.state.params)  # w does not see the personal models


def test_who_has_not_taken_part_uses_the_servers_model():
    fed = uneven(Local("sgd", 0.1, 0, 1, 10), participants=1)
    fed = replace(fed, shards={"train": fed.shards["train"]})
    history = fed.run(Ditto(0.5), 2, record=())
    for r in range(2):
        asked = {int(fed.who(t)[r, 0]) for t in (1, 2)}
        for k in range(3):
            same = (history.answer[r, k] == history.state.params[r]).all()
            assert same == (k not in asked)
    assert (history.answer[1, 1] == history.state.params[1]).all()  # it has no rows


def test_empty_clients_change_nothing_in_ditto():
    train = uneven(Local("sgd", 0.1, 0, 1, 0)).shards["train"]
    fed = uneven(Local("sgd", 0.1, 0, 1, 0))
    both = [[train.rows(r, k) for k in (0, 2)] for r in range(2)]
    empty = np.empty(0, np.int32)
    two = replace(fed, shards={"train": Shards.deal(train.examples, both)})
    four = replace(fed, shards={"train": Shards.deal(train.examples, [[run[0], empty, run[1], empty] for run in both])})
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
        n, loss, alpha = rng.integers(1, 9, (1, 1, 2, 2)), rng.random((1, 1, 2, 2)), rng.choice([0.005, 0.4])
        share = n / n.sum(3, keepdims=True)
        one, zero = share[0, 0, 1, 1], share[0, 0, 0, 1]
        up = loss[0, 0, 1, 1] > loss[0, 0, 1, 0]
        found = moved(share, n, loss, np.full((1, 1), alpha), "tpsd")[0, 0, :, 1]
        np.testing.assert_allclose(found, [zero, np.clip(one + (alpha if up else -alpha), 0, 1)])
        gap = np.abs(loss[0, 0, :, 1] - loss[0, 0, :, 0])
        if gap[1] > gap[0]:
            expected = [zero, np.clip(one + (alpha if up else -alpha), 0, 1)]
        else:
            expected = [np.clip(zero + (-alpha if loss[0, 0, 0, 1] > loss[0, 0, 0, 0] else alpha), 0, 1), one]
        np.testing.assert_allclose(moved(share, n, loss, np.full((1, 1), alpha), "apsd")[0, 0, :, 1], expected)


def test_of_three_groups_the_two_that_differ_most_are_moved_and_absent_ones_never():
    share = np.array([[[[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], [[1.0, 0, 0], [1.0, 0, 0]]]])
    n = np.array([[[[5, 5, 0], [2, 3, 5]], [[5, 0, 0], [5, 0, 0]]]])
    loss = np.array([[[[0.1, 0.1, 9.0], [0.9, 0.1, 0.5]], [[1.0, 2, 3], [1.0, 2, 3]]]])
    found = moved(share, n, loss, np.full((1, 1), 0.25), "tpsd")
    np.testing.assert_allclose(found[0, 0], [[0.5, 0.5, 0.0], [0.45, 0.05, 0.5]])
    np.testing.assert_array_equal(found[0, 1], share[0, 1])  # one group: plain batches


def test_fairbatchs_losses_and_step_are_those_of_the_drawn_batches():
    """The weighted full batch makes the mean step of batches that are drawn with lambda's shares."""
    fed = one_run(uneven(FULL), 0)
    params, train = fed.start(), fed.shards["train"]
    state = FairBatch(0.2).round(fed, FairBatch(0.2).start(fed), 1)
    theta, expected = params[0].astype(float), []
    for k in range(3):
        rows = train.rows(0, k)
        X, y, a = fed.inputs(train.X[rows].astype(float), 0), train.y[rows], train.a[rows]
        z = X @ theta[:-1] + theta[-1]
        loss = np.logaddexp(0, np.where(y == 1, -z, z))
        share = [(a[y == label] == 1).mean() for label in (0, 1)]
        up = loss[(y == 1) & (a == 1)].mean() > loss[(y == 1) & (a == 0)].mean()
        share[1] = np.clip(share[1] + (0.2 if up else -0.2), 0, 1)
        np.testing.assert_allclose(state["lambda"][0, k, :, 1], share)
        slope = (1 / (1 + np.exp(-z)) - y)[:, None] * np.c_[X, np.ones(len(X))]
        step = 0.0
        for label in (0, 1):
            for group in (0, 1):
                cell = (y == label) & (a == group)
                drawn = share[label] if group else 1 - share[label]  # chance of the group in a batch, given the label
                step = step + (y == label).mean() * drawn * slope[cell].mean(0)
        expected.append(theta - 0.3 * step)
    np.testing.assert_allclose(state.params[0], np.average(expected, axis=0, weights=fed.sizes()[0]), atol=1e-6)


def test_fairbatch_narrows_the_gap_it_is_asked_for():
    """One client, whose features know the group only in part: the better-off group is drawn less and less, until never."""
    table = toy_rows()
    train = Shards.of(table.X, table.y, table.a, [[np.arange(300)]])
    fed = Federation({"train": train}, Dense(4), FULL, (0,), Standard.of(train))
    for bias, gap, label, group in (("tpsd", "eod", 1, 1), ("apsd", "spd", 0, 0)):
        plain, fair = (fed.run(FairBatch(alpha, bias), 300, record=("train",)) for alpha in (0.0, 0.01))
        gaps = [abs(history.values(gap, "train")[0, -1]) for history in (plain, fair)]
        assert gaps[1] < 0.85 * gaps[0]
        assert fair.state["lambda"][0, 0, label, group] == 0 and plain.state["lambda"][0, 0, label, group] > 0.4


def test_runs_that_share_rows_weigh_them_each_in_its_own_way():
    fed = uneven(Local("sgd", 0.1, 0, 1, 10)).repeat(2)
    found = fed.run(FairBatch((0.0, 0.0, 0.3, 0.3)), 3, record=()).answer
    one = uneven(Local("sgd", 0.1, 0, 1, 10))
    for half, alpha in ((found[:2], 0.0), (found[2:], 0.3)):
        np.testing.assert_array_equal(half, one.run(FairBatch(alpha), 3, record=()).answer)
    who = np.array([[2, -1], [0, 2], [0, 1], [0, -1]])
    held = weighted_rows(fed.shards["train"], who, np.ones((4, 2, 2, 2)))
    np.testing.assert_array_equal(held.sizes, [[0, 0, 80], [40, 0, 50], [60, 30, 0], [40, 0, 0]])
    np.testing.assert_array_equal(held.rows(2, 1), np.arange(60, 90))


# AFL


def test_afl_by_hand():
    """Two clients, so that lambda is one number: the nearest point of a segment."""
    fed = one_run(uneven(FULL), 1)  # client 1 has no rows
    theta, lam, models = fed.start()[0].astype(float), 0.5, []
    for _ in range(4):
        loss = [loss_by_hand(fed, theta, 0, k) for k in (0, 2)]
        g = fed.gradient(theta[None].astype(np.float32))[1][0].astype(float)
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
    params = [fed.start().astype(float)]
    for _ in range(3):
        slope = fed.gradient(params[-1].astype(np.float32))[1].astype(float)
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
    train = Shards.deal(fed.shards["train"].examples, [[fed.shards["train"].rows(0, k)]])
    return Federation({"train": train}, fed.model, fed.local, (0,), Standard.of(train))


def test_afl_lowers_the_largest_loss():
    fed = tables(minimum=20)
    plain, fair = (fed.losses(fed.run(AFL(0.3, rate), 400, record=()).state.params).max(1) for rate in (0.0, 0.3))
    assert (fair < plain).all()


# FedMGDA+


def test_eps_0_without_normalising_is_fedavg():
    for fed in (uneven(Local("sgd", 0.1, 0, 1, 10)), images(participants=2)):
        expected = fed.run(FedAvg(), 3)
        found = fed.run(FedMGDA(0.0, 1.0, normalise=False), 3)
        np.testing.assert_allclose(found.answer, expected.answer, atol=1e-5)
        np.testing.assert_allclose(found.state["weights"], expected.state["weights"])


def test_the_shortest_vector_within_bounds_is_that_of_a_solver_of_quadratic_programs():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 6, 12):
        for eps in (0.0, 0.05, 0.2, 1.0):
            g = rng.normal(size=(3, n, 8)) + rng.normal(size=(3, 1, 8)) * rng.choice([0, 1, 3])
            shares = rng.dirichlet(np.ones(n), 3)
            low, high = np.maximum(shares - eps, 0), np.minimum(shares + eps, 1)
            if n > 2:
                low[:, 1] = high[:, 1] = shares[:, 1] = 0  # nobody
                shares /= shares.sum(1, keepdims=True)
                low, high = np.maximum(shares - eps, 0), np.where(shares > 0, np.minimum(shares + eps, 1), 0)
            gram = g @ np.swapaxes(g, 1, 2)
            found = shortest_within(gram, low, high)
            np.testing.assert_allclose(found.sum(1), 1)
            assert (found >= low - 1e-12).all() and (found <= high + 1e-12).all()
            for r in range(3):
                best = minimize(lambda w, Q=gram[r]: w @ Q @ w, shares[r], jac=lambda w, Q=gram[r]: 2 * Q @ w, method="SLSQP",
                                bounds=list(zip(low[r], high[r], strict=True)), options={"ftol": 1e-14, "maxiter": 500},
                                constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like})  # fmt: skip
                assert found[r] @ gram[r] @ found[r] <= best.fun + 1e-7 * np.trace(gram[r])
            if eps == 1.0:
                free = min_norm(gram, high > 0)
                np.testing.assert_allclose((found[..., None] * g).sum(1), (free[..., None] * g).sum(1), atol=1e-5)


def test_free_weights_make_a_step_along_which_nobody_loses():
    fed = uneven(FULL)  # one full batch: updates are gradients
    history = fed.run(FedMGDA(1.0, 0.01), 1, record=())
    step = (fed.start().astype(float) - history.answer) / 0.01
    slope = fed.gradient(fed.start())[1].astype(float)
    unit = slope / np.maximum(np.linalg.norm(slope, axis=2, keepdims=True), 1e-30)
    along = (unit @ step[..., None])[..., 0]
    for r, k in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        assert along[r, k] >= step[r] @ step[r] - 1e-3 > 0
    before, after = fed.losses(fed.start()), fed.losses(history.answer)
    assert (after[~np.isnan(after)] < before[~np.isnan(before)]).all()


def test_a_longer_update_pulls_no_harder():
    """Client 0 shouts: ten times its update. Normalised, the server's step is the same."""
    fed = one_run(uneven(FULL), 0)
    quiet = fed.run(FedMGDA(0.2, 0.1), 1, record=()).answer

    def shouting(params, t, **more):
        trained = Federation.train(fed, params, t, **more)
        trained[:, 0] = params + 10 * (trained[:, 0] - params)
        return trained

    object.__setattr__(fed, "train", shouting)
    np.testing.assert_allclose(fed.run(FedMGDA(0.2, 0.1), 1, record=()).answer, quiet, atol=1e-6)
    assert np.abs(fed.run(FedMGDA(0.2, 0.1, normalise=False), 1, record=()).answer - quiet).max() > 0.01


# FedMDFG


def test_fedmdfgs_direction_lowers_every_loss_in_every_round():
    fed = uneven(FULL)
    history = fed.run(FedMDFG(0.05), 25, record=(), remember=("losses", "step"))
    losses = history.memory["losses"]  # of the model before each round
    np.testing.assert_allclose(losses[:, 0][np.isfinite(losses[:, 0])], fed.losses(fed.start())[np.isfinite(losses[:, 0])])
    assert (history.memory["step"] > 0).all()
    assert (np.diff(losses[0], axis=0) < 0).all() and (np.diff(losses[1][:, [0, 2]], axis=0) < 0).all()
    assert np.isinf(losses[1, :, 1]).all()  # it has no rows


def test_the_common_direction_has_the_asked_length_and_descends_along_every_row():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        rows = rng.normal(size=(4, n, 12)) + 0.5 * rng.normal(size=(4, 1, 12))
        there = rng.random((4, n)) < 0.7
        there[0] = False
        d = common(rows, there, np.full(4, 0.3))
        assert (d[0] == 0).all()
        along = (rows @ d[..., None])[..., 0]
        assert (along[there] >= -1e-9).all()
        some = there.any(1)
        np.testing.assert_allclose(np.linalg.norm(d[some], axis=1), 0.3)
    opposite = np.array([[[1.0, 0.0], [-1.0, 0.0]]])  # their hull holds 0: nowhere to go
    np.testing.assert_allclose(common(opposite, np.ones((1, 2), bool), np.ones(1)), 0, atol=1e-12)


def test_the_row_of_fairness_is_the_gradient_of_the_angle():
    rng = np.random.default_rng(1)
    loss, live = rng.random((5, 4)) + 0.1, np.ones((5, 4), bool)
    live[2, 1] = False
    cosine, turn = fairness(loss, live)
    for r in range(5):
        here = np.flatnonzero(live[r])
        ones = np.ones(len(here))
        assert cosine[r] == pytest.approx(loss[r, here] @ ones / np.linalg.norm(loss[r, here]) / np.sqrt(len(here)))
        slope = np.zeros(4)
        for k in here:
            more = loss.copy()
            more[r, k] += 1e-6
            slope[k] = (np.arccos(fairness(more, live)[0][r]) - np.arccos(cosine[r])) / 1e-6
        np.testing.assert_allclose(turn[r], slope / np.linalg.norm(slope), atol=1e-4)
    cosine, turn = fairness(np.full((1, 3), 0.7), np.ones((1, 3), bool))
    assert cosine == pytest.approx(1) and (turn == 0).all()


def test_fedmdfg_of_one_client_is_gradient_descent_with_a_line_search():
    fed = only(uneven(FULL), 0)
    theta, steps = fed.start()[0].astype(float), []
    for _ in range(5):
        g = fed.gradient(theta[None].astype(np.float32))[1][0, 0].astype(float)
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
    fed = one_run(uneven(FULL), 0)
    who, params = np.arange(clients)[None], fed.start()
    loss, slope = fed.gradient(params, who=who)
    d = slope[:, 0].astype(float)

    def told(moved, who, cross):
        steps = [(params[0] - model) @ d[0] / (d[0] @ d[0]) for model in moved[0]]
        return np.array([[loss[0] + changes(round(step, 3), step * slope[0] @ d[0]) for step in steps]])

    object.__setattr__(fed, "losses", told)
    no = np.zeros(1, bool)
    return FedMDFG(lr, s=s).search(fed, params, d, who, np.ones(who.shape, bool), loss, slope, no, no)


def test_a_step_must_make_a_ten_thousandth_of_the_promised_drop():
    made = {32.0: -0.5e-4, 16.0: 0.5e-4, 8.0: -2e-4}  # too little, a rise, enough
    assert searched(lambda step, drop: made.get(step, -1) * drop) == 8.0


def test_where_not_all_losses_fall_the_longest_step_that_lowers_their_sum_is_taken():
    sums = {2.0: 0.05, 1.0: -0.05, 0.5: -0.3}
    assert searched(lambda step, drop: np.array([sums[step] - 0.1, 0.1]), s=1, clients=2) == 1.0
    sums = {2.0: 0.05, 1.0: 0.02, 0.5: 0.03}  # none does: the least of the rises
    assert searched(lambda step, drop: np.array([sums[step] - 0.1, 0.1]), s=1, clients=2) == 1.0


def second_fedmdfg(fed, method, rounds):
    """FedMDFG in loops over runs, clients and steps: the models and the steps taken, [round][run]."""
    runs = range(len(fed.seeds))
    theta, last, times = fed.start(), [{} for _ in runs], [{} for _ in runs]
    old = [{} for _ in runs]
    models, steps, seen = [], [], {"row": 0, "rose": 0, "gone": 0, "lower": 0, "best": 0}

    def losses(r, model):
        every = theta.copy()
        every[r] = model
        return fed.losses(every)[r]

    for t in range(1, rounds + 1):
        loss, slope = fed.gradient(theta)
        after = theta.copy()
        for r in runs:
            who = [k for k in fed.who(t)[r] if k >= 0 and np.linalg.norm(slope[r, k]) > 1e-6]
            g = {k: slope[r, k].astype(float) for k in who}
            mean = np.mean([np.linalg.norm(g[k]) for k in who])
            rows = {k: g[k] / np.linalg.norm(g[k]) * mean for k in who}
            length = np.linalg.norm(np.mean(list(rows.values()), axis=0))
            rose = [k for k in who if loss[r, k] > last[r].get(k, np.inf)]

            def cosine(now, who=who):
                return now[who].sum() / np.linalg.norm(now[who]) / np.sqrt(len(who))

            cos = cosine(loss[r])
            h = cos * loss[r, who] / np.linalg.norm(loss[r, who]) - 1 / np.sqrt(len(who))
            unequal = np.linalg.norm(h) > 1e-7 and (np.arccos(min(cos, 1)) > method.angle or 0 < len(rose) < len(who))
            hull = list(rows.values())
            if unequal:
                hull.append(sum(h[i] * rows[k] for i, k in enumerate(who)) / np.linalg.norm(h))
            gone = [k for k in old[r] if k not in fed.who(t)[r]]
            hull = np.array(hull + [old[r][k] for k in gone])
            d = min_norm(hull @ hull.T) @ hull
            if (hull @ (d / np.linalg.norm(d) * length) >= -1e-6).all():
                d = d / np.linalg.norm(d) * length
            tried, taken = [], None
            for power in range(0 if gone else method.s, -method.s - 1, -1):
                step = method.lr * 2.0**power
                now = losses(r, (theta[r] - step * d).astype(np.float32))
                tried.append((step, now[who].sum()))
                enough = all(loss[r, k] - now[k] >= 1e-4 * step * (g[k] @ d) for k in who)
                if enough and (not unequal or cosine(now) > cos):
                    taken = step
                    break
            if taken is None:
                lower = [step for step, total in tried if total < loss[r, who].sum()]
                taken = lower[0] if lower else min(tried, key=lambda one: one[1])[0]
                seen["lower" if lower else "best"] += 1
            seen["row"] += unequal
            seen["rose"] += 0 < len(rose) < len(who) and np.arccos(min(cos, 1)) <= method.angle
            seen["gone"] += len(gone)
            after[r] = (theta[r] - taken * d).astype(np.float32)
            for k in fed.who(t)[r]:
                if k >= 0:
                    times[r][k] = times[r].get(k, 0) + 1
                    if method.rose == "last" or times[r][k] == 1:
                        last[r][k] = loss[r, k]
                    elif loss[r, k] <= last[r][k]:
                        last[r][k] += (loss[r, k] - last[r][k]) / times[r][k]
            old[r] = rows if fed.participants else {}
            steps.append(taken)
        theta = after
        models.append(theta)
    return models, np.array(steps).reshape(rounds, -1).T, seen


@pytest.mark.parametrize("rose", ["mean", "last"])
def test_fedmdfg_agrees_with_a_second_implementation(rose):
    seen = {}
    for participants in (0, 2):
        fed = uneven(FULL, participants=participants)
        for lr, angle, s in ((0.1, np.pi / 16, 5), (0.1, 0.01, 5), (8.0, 0.01, 1), (30.0, 0.3, 0), (3.0, np.pi / 2, 1)):
            method = FedMDFG(lr, angle, s, rose)
            models, steps, found = second_fedmdfg(fed, method, 6)
            history = fed.run(method, 6, record=(), remember=("step",))
            np.testing.assert_array_equal(history.memory["step"], steps)
            np.testing.assert_allclose(history.answer, models[-1], rtol=1e-3, atol=1e-4)
            seen = {name: seen.get(name, 0) + found[name] for name in found}
    assert min(seen.values()) > 0, seen  # every branch was taken


def test_a_loss_rose_that_is_above_a_mean_that_only_moves_down():
    """By hand: 4 and 2 have the mean 3; 5 is above it and leaves it, as the third time; 1 is taken in as the fourth."""
    mean, times, there = np.array([[np.inf, np.inf]]), np.zeros((1, 2), int), np.array([[True, False]])
    means = []
    for loss in (4.0, 2.0, 5.0, 1.0, 3.0):
        found = lowered(mean, times, np.array([[loss, np.inf]]), there)
        mean, times = found["mean"], found["times"]
        means.append(mean[0, 0])
    assert means == [4.0, 3.0, 3.0, 2.5, 2.5] and np.isinf(mean[0, 1]) and times.tolist() == [[5, 0]]


def test_guidance_brings_losses_nearer_to_each_other():
    fed = tables(minimum=20)

    def angle(limit):
        loss = fed.losses(fed.run(FedMDFG(0.1, limit), 60, record=()).answer)
        return np.arccos(fairness(loss, np.ones(loss.shape, bool))[0])

    assert (angle(0.01) < angle(np.pi / 2)).all()


def test_who_has_gone_keeps_its_row_for_a_round(monkeypatch):
    fed = uneven(FULL, participants=1)
    asked = []

    def watched(rows, there, length):
        asked.append((rows, there, common(rows, there, length)))
        return asked[-1][2]

    monkeypatch.setattr(fedmdfg, "common", watched)
    fed.run(FedMDFG(), 4, record=())
    for t in (2, 3, 4):
        now, before = fed.who(t), fed.who(t - 1)
        rows, there, d = asked[t - 1]
        np.testing.assert_array_equal(there[:, 2], now[:, 0] != before[:, 0])
        np.testing.assert_allclose(rows[:, 2], asked[t - 2][0][:, 0], rtol=1e-6)
        assert ((rows[:, 2] * d).sum(1)[there[:, 2]] >= -1e-9).all()
    assert any((fed.who(t) != fed.who(t - 1)).any() for t in (2, 3, 4))


# FairReg


def soft_gap(fed, theta, r, k):
    """|r_0 - r_1| / 2 among the positive rows of a client, r the mean of sigmoid(10 logit)."""
    train = fed.shards["train"]
    rows = train.rows(r, k)
    p = 1 / (1 + np.exp(-10 * (fed.inputs(train.X[rows].astype(float), r) @ theta[:-1] + theta[-1])))
    y, a = train.y[rows], train.a[rows]
    return abs(p[(y == 1) & (a == 0)].mean() - p[(y == 1) & (a == 1)].mean()) / 2


def test_fairreg_descends_on_losses_and_biases():
    """Against differences of the objective, computed from the rows."""
    fed = one_run(uneven(FULL), 0)
    theta = fed.start()[0].astype(float)

    def objective(theta):
        return np.mean([loss_by_hand(fed, theta, 0, k) + 2.0 * soft_gap(fed, theta, 0, k) for k in range(3)])

    slope = [(objective(theta + e) - objective(theta - e)) / 2e-5 for e in 1e-5 * np.eye(5)]
    history = fed.run(FairReg(2.0, 0.1), 1, record=())
    np.testing.assert_allclose(history.answer[0], theta - 0.1 * np.array(slope), atol=1e-5)
    np.testing.assert_allclose(history.state["bias"][0], [soft_gap(fed, theta, 0, k) for k in range(3)], atol=1e-5)


def test_fairreg_lowers_the_bias_and_does_nothing_where_there_is_one_group():
    fed = tables(minimum=20)
    free, fair = (np.nanmean(fed.run(FairReg(mu, 0.2), 100, record=()).state["bias"]) for mu in (0.0, 1.0))
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
            found = FCFL().stage1((rows @ rows.T)[None], np.array([fair]))[0]
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
            found = FCFL().stage2((g @ g.T)[None], np.ones((1, n), bool))[0]
            d = found @ g
            best = linprog(-(g @ g[:-1].mean(0)), A_ub=-(g @ g.T), b_ub=np.zeros(n + 1), A_eq=np.ones((1, n + 1)), b_eq=[1])
            assert d @ g[:-1].mean(0) == pytest.approx(-best.fun, abs=1e-7)
            assert (g @ d >= -1e-7).all() and found.sum() == pytest.approx(1)


def test_infinite_budgets_leave_common_descent_and_one_client_gradient_descent():
    fed = uneven(FULL)
    history = fed.run(FCFL(np.inf, 0.05, first=0), 20, record=())
    before = fed.start()
    for t in range(1, 4):
        state = fed.run(FCFL(np.inf, 0.01, first=0), t, record=()).state
        now, was = fed.losses(state.params), fed.losses(before)
        assert (now[0] <= was[0] + 1e-4).all() and np.nanmean(now) < np.nanmean(was)
        assert (state["weights"].sum(1) == pytest.approx(1)) and (state["weights"][1, 1] == 0)
        before = state.params
    assert np.isfinite(history.answer).all()
    one = only(fed, 0)
    np.testing.assert_allclose(one.run(FCFL(np.inf, 0.3, first=0), 4, record=()).answer, one.run(FedAvg(), 4, record=()).answer,
                               atol=1e-6)  # fmt: skip


def test_fcfl_takes_the_bias_into_its_budget():
    fed = tables(minimum=20)
    free, kept = (fed.run(FCFL(eps, 0.1, first=150), 300, record=()).answer for eps in (np.inf, 0.03))
    worst = [np.nanmax(fed.gradient(theta, SoftBias())[0], axis=1) for theta in (free, kept)]
    assert (worst[1] < 0.05).all() and (worst[0] > 2 * worst[1]).all()


def test_soft_maxima_are_between_the_largest_and_the_mean():
    values, there = np.array([[1.0, 3.0, 2.0, np.nan]]), np.array([[True, True, True, False]])
    np.testing.assert_allclose(soft_maximum(values, there, np.full((1, 1), 1e-4)), [[0, 1, 0, 0]])
    np.testing.assert_allclose(soft_maximum(values, there, np.full((1, 1), 1e9)), [[1 / 3, 1 / 3, 1 / 3, 0]])
    np.testing.assert_allclose(
        soft_maximum(values, there, np.full((1, 1), 0.5))[0, :3], np.exp([-4, 0, -2]) / np.exp([-4, 0, -2]).sum()
    )
    delta = np.full((1, 2), 0.5)
    for expected in ([0.005, 0.5], [0.00005, 0.5], [0.00005, 0.5]):  # 0.1 times 0 is not above it, 0.1 times 9 is
        delta = sharper(delta, np.array([[0.0, 9.0]]))
        np.testing.assert_allclose(delta, [expected])


# What makes no sense.


@pytest.mark.parametrize(("wrong", "sentence"), [
    (lambda: QFFL(-1.0), "q must be at least 0"),
    (lambda: uneven(Local("sgd", 0.0)).run(QFFL(), 1), "give Local an lr above 0"),
    (lambda: Ditto((0.1, 1.0)), "lam is one number"),
    (lambda: Ditto(-0.1), "lam must be at least 0"),
    (lambda: uneven(Local()).run(Ditto(), 1), "part 'validation' is dealt to 1: make the federation with central=False"),
    (lambda: FairBatch(2.0), "alpha must be at least 0 and at most 1"),
    (lambda: FairBatch(bias="tspd"), "did you mean 'tpsd'"),
    (lambda: images().run(FairBatch(), 1), "two labels, and there are 10 classes"),
    (lambda: AFL(lr=0.0), "lr must be above 0"),
    (lambda: AFL(batch=-1), "batch must be a whole number"),
    (lambda: tables(participants=2).run(AFL(), 1), "AFL needs every client in every round"),
    (lambda: tables(participants=2).run(FCFL(), 1), "FCFL needs every client in every round"),
    (lambda: FCFL(eps=-0.1), "eps must be at least 0"),
    (lambda: FCFL(eps=(np.inf, np.nan)), "eps must be at least 0"),
    (lambda: FedMGDA(eps=1.5), "eps must be at least 0 and at most 1"),
    (lambda: FedMDFG(angle=2.0), "angle must be at least 0 and at most 1.57"),
    (lambda: FairReg(mu=-1), "mu must be at least 0"),
    (lambda: uneven(FULL).run(FairReg(lr=(0.1, 0.2, 0.3)), 1), "lr has 3 values for 2 runs"),
])  # fmt: skip
def test_what_makes_no_sense_is_said(wrong, sentence):
    with pytest.raises(FairFLError, match=sentence):
        wrong()
