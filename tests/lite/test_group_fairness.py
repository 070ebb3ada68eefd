"""Methods for groups that no paper of the book has: each against its formula by hand, by brute force, and in its limit cases."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from asking import asked, confusion, first_models
from toy import federation, one_run, tables, uneven

from fairfl_lite import metrics
from fairfl_lite.clients import ClientTraining
from fairfl_lite.clients.debias import TrainingRows
from fairfl_lite.clients.summaries import LossSums, ScoreHistogram, edges
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import ByGroup, Shards, State, alone
from fairfl_lite.methods import FedAvg, FedFB, FedGFT, FedMinMax, GroupThresholds
from fairfl_lite.methods.fedfb import moved
from fairfl_lite.methods.group_thresholds import most_accurate, nearest, rates
from fairfl_lite.models import Dense

pytestmark = pytest.mark.slow

FULL = ClientTraining("sgd", 0.3, 0, 1, 0)
MANY = ClientTraining("sgd", 0.1, 0, 2, 10)


def rows_of(fed, r, k, part="train"):
    """X as the model reads it, y and a of one client."""
    shards = fed.shards[part]
    rows = shards.rows(r, k)
    return fed.inputs(shards.X[rows].astype(float), r), shards.y[rows], shards.a[rows]


def at_scores(fed, params, thresholds, part, r=0):
    """Confusion counts of a logistic regression, row by row: 1 where the score is above the threshold of the row's group."""
    shards = fed.shards[part]
    out = np.zeros((shards.clients, 2, 2, 2), int)
    for k in range(shards.clients):
        X, y, a = rows_of(fed, r, k, part)
        score = 1 / (1 + np.exp(-(X @ params[:-1] + params[-1])))
        np.add.at(out[k], (a, y, (score > np.asarray(thresholds)[a]).astype(int)), 1)
    return out


def doubled(fed):
    """The federation of one run in which every row stands twice, once in each group."""
    parts = {}
    for name, part in fed.shards.items():
        X, y = np.concatenate([part.X] * 2), np.concatenate([part.y] * 2)
        a = np.repeat(np.array([0, 1], np.int8), len(part.X))
        dealt = [[np.concatenate([rows := part.rows(0, k), rows + len(part.X)]) for k in range(part.clients)]]
        parts[name] = Shards.of(X, y, a, dealt)
    return replace(fed, shards=parts)


# Models by group


def test_a_model_by_group_decides_the_rows_of_its_group():
    fed = tables()
    models = np.random.default_rng(0).normal(size=(2, 2, 5)).astype(np.float32)
    by_group = [ByGroup(pair) for pair in models]
    found = np.stack(asked(fed, lambda one, run: one.confusion(by_group[run], on="test")))
    each = [confusion(fed, models[:, g], "test") for g in (0, 1)]
    np.testing.assert_array_equal(found, np.stack([each[g][:, :, g] for g in (0, 1)], axis=2))
    some = np.stack(asked(fed, lambda one, run: one.confusion(by_group[run], np.array([2, 0]), "test")))
    np.testing.assert_array_equal(some, found[:, [2, 0]])


def test_models_by_group_are_for_decisions_and_as_many_as_groups():
    two = ByGroup(np.zeros((2, 5), np.float32))
    with pytest.raises(FairFLError, match="ask for its confusion counts, not its losses"):
        tables().ask(lambda one: one.losses(two))
    with pytest.raises(FairFLError, match="ByGroup needs a model for each of 2 groups, and has 3"):
        tables().ask(lambda one: one.confusion(ByGroup(np.zeros((3, 5), np.float32))))
    with pytest.raises(FairFLError, match="Models must be numbers of shape"):
        tables().ask(lambda one: one.train(two, one.all_clients, 1))


def test_summaries_are_what_a_client_works_out_from_its_rows():
    fed = uneven(FULL)
    params = first_models(fed)

    def of(z, y, a):
        return [len(z), z.sum(dtype=float), y.sum(), (a * y).sum()]

    found = asked(fed, lambda one, run: one.summaries(params[run], np.arange(3), of))
    for r, k in product(range(2), range(3)):
        X, y, a = rows_of(fed, r, k)
        z = X @ params[r][:-1] + params[r][-1]
        np.testing.assert_allclose(found[r][k], [len(z), z.sum(), y.sum(), (a * y).sum()], rtol=1e-4, atol=1e-4)
    assert found[1][1].tolist() == [0, 0, 0, 0]  # a client without rows


# Group thresholds


def test_a_histogram_counts_every_row_in_its_bin():
    rng = np.random.default_rng(0)
    z, y, a = rng.normal(size=500) * 3, rng.integers(0, 2, 500), rng.integers(0, 3, 500)
    z[:3] = edges(10)[5]  # a row on an edge is not above it
    found = ScoreHistogram(3, 10)(z, y, a)
    for group, label in product(range(3), range(2)):
        mine = 1 / (1 + np.exp(-z[(a == group) & (y == label)]))
        np.testing.assert_array_equal(found[group, label], np.histogram(-mine, -np.arange(11)[::-1] / 10)[0][::-1])
    assert found.sum() == 500


@pytest.mark.parametrize("metric", ["eod", "spd"])
def test_thresholds_by_brute_force(metric):
    """Every edge of every group, its rate from the rows themselves; and the answer's counts, row by row."""
    fed = one_run(uneven(ClientTraining("sgd", 0.3, 0, 2, 10)), 0)
    plain = fed.run(FedAvg(), 3).state.params[0]
    for gap in (None, 0.02, 1.0):
        history = fed.run(GroupThresholds(metric, gap, bins=20), 3, record=("train", "test"))
        np.testing.assert_array_equal(history.state.params[0], plain)
        chosen = history.state["thresholds"][0]
        at = {pair: at_scores(fed, plain.astype(float), np.array(pair) / 20, "train").sum(0) for pair in
              product(range(21), range(21))}  # fmt: skip
        rate = metrics.true_positive_rate if metric == "eod" else metrics.selection_rate
        if gap is None:
            pooled = metrics.true_positive_rate(at[10, 10].sum(0)[None]) if metric == "eod" else metrics.selection_rate(
                at[10, 10].sum(0)[None])  # fmt: skip
            for g in (0, 1):
                off = [abs(rate(at[j, j])[g] - pooled[0]) for j in range(21)]
                best = min(range(21), key=lambda j: (round(off[j], 9), abs(j - 10)))
                assert chosen[g] * 20 == pytest.approx(best)
        else:
            fine = [pair for pair in at if abs(np.subtract(*rate(at[pair]))) <= gap + 1e-9]
            best = max(metrics.accuracy(at[pair]) for pair in fine)
            mine = tuple(np.rint(chosen * 20).astype(int))
            assert mine in fine and metrics.accuracy(at[mine]) == best
            assert len(fine) == 441 or gap < 1
        for part in ("train", "test"):
            np.testing.assert_array_equal(history.counts[part][0, -1], at_scores(fed, plain.astype(float), chosen, part))


def test_equal_groups_keep_a_half_and_nothing_changes():
    fed = doubled(one_run(uneven(ClientTraining("sgd", 0.3, 0, 1, 10)), 0))
    for metric in ("eod", "spd"):
        plain, found = fed.run([FedAvg(), GroupThresholds(metric)], 4, record=("train", "test"), remember=()).values()
        assert (found.state["thresholds"] == 0.5).all()
        for part in ("train", "test"):
            np.testing.assert_array_equal(found.counts[part], plain.counts[part])


def test_thresholds_of_histograms_by_hand():
    """Four bins. Positives: group 0 has 4, 0, 0, 4 and group 1 has 0, 2, 6, 0; negatives stand in the first bin."""
    counts = np.zeros((2, 2, 4))
    counts[:, 1] = [[4, 0, 0, 4], [0, 2, 6, 0]]
    counts[:, 0, 0] = [8, 2]
    np.testing.assert_array_equal(rates(counts, "eod"), [[1, 0.5, 0.5, 0.5, 0], [1, 1, 0.75, 0, 0]])
    # Pooled rate at the middle edge: (4 + 6) / 16. Group 0 is an eighth below it at three edges, of which 2 is the middle;
    # group 1 an eighth above it there.
    assert nearest(counts, "eod").tolist() == [2, 2]
    # Right rows at each edge: group 0 8 of 16, 12, 12, 12, 8; group 1 8 of 10, 10, 8, 2, 2.
    assert most_accurate(counts, "eod", 1.0).tolist() == [2, 1]
    # Within a gap of .25 edge 2 of both gives 12 + 8, and rates of 1 give 8 + 10.
    assert most_accurate(counts, "eod", 0.25).tolist() == [2, 2]
    assert most_accurate(counts, "eod", 0.2).tolist() == [0, 1]
    nobody = counts.copy()
    nobody[0, 1] = 0
    assert nearest(nobody, "eod").tolist() == [2, 2]  # group 0 has no positives and keeps a half
    assert most_accurate(nobody, "eod", 0.0).tolist() == [2, 1]


def test_a_target_of_nobody_and_of_everybody():
    fed = one_run(uneven(FULL), 0)
    away = np.array([0, 0, 0, 0, 9], np.float32)
    for sign, chosen in ((-1, 0), (1, 1)):
        start = replace(fed, init_params=sign * away, local=replace(FULL, lr=0.0))
        found = start.run(GroupThresholds("spd"), 1, record=("test",)).counts["test"]
        assert (found[..., 1 - chosen] == 0).all()


def test_scores_beyond_the_numbers_are_still_decided():
    """Thresholds 0 and 1 choose everybody and nobody, however large the logits are."""
    fed = one_run(uneven(FULL), 0)
    method = GroupThresholds("spd", bins=2)
    state = fed.run(method, 1).of_run(0)
    everybody, nobody = replace(state, memory={"thresholds": np.zeros(2)}), replace(state, memory={"thresholds": np.ones(2)})
    for made, right in ((everybody, 1), (nobody, 0)):
        models = method.answer(made).models
        assert np.isfinite(models).all()
        counts = fed.ask(lambda one, models=models: one.confusion(ByGroup(models * np.float32([1e5] * 4 + [1]))))[0]
        assert (counts[..., 1 - right] == 0).all()


def test_thresholds_are_those_of_who_took_part():
    fed = one_run(uneven(FULL, participants=1), 0)
    fed = replace(fed, shards={"train": fed.shards["train"]})
    history = fed.run(GroupThresholds("spd", bins=10), 1, record=())
    (k,) = fed.one().sample_clients(1)
    X, y, a = rows_of(fed, 0, k)
    params = history.state.params[0].astype(float)
    counts = ScoreHistogram(2, 10)(X @ params[:-1] + params[-1], y, a)
    np.testing.assert_array_equal(history.state["thresholds"][0], nearest(counts, "spd") / 10)


def test_what_group_thresholds_refuse():
    with pytest.raises(FairFLError, match="There is no metric of GroupThresholds named 'eqo'"):
        GroupThresholds("eqo")
    with pytest.raises(FairFLError, match="bins must be an even number of at least 2, so that 0.5 is an edge, not 7"):
        GroupThresholds(bins=7)
    with pytest.raises(FairFLError, match="gap must be at least 0 and at most 1, not 2"):
        GroupThresholds(gap=2)
    with pytest.raises(FairFLError, match="GroupThresholds moves the last bias of a Dense model of two classes"):
        federation([30, 40], classes=3).run(GroupThresholds(), 1)


# FedFB


def test_fedfb_without_alpha_and_in_its_first_round_is_fedavg_bit_for_bit():
    for fed in (uneven(MANY), uneven(MANY, participants=2), tables()):
        plain, still = fed.run([FedAvg(), FedFB(0)], 4, record=()).values()
        np.testing.assert_array_equal(still.state.params, plain.state.params)
        assert (still.state["rows"] == 1).all()
        first = fed.run([FedAvg(), FedFB(1.0)], 1, record=()).values()
        np.testing.assert_array_equal(*(history.state.params for history in first))


def second_fedfb(one, alpha, many):
    """FedFB in the paper's letters: lambda[y, z] starts at n_z / N, a row weighs lambda[y, z] / n_z, all clients take part."""
    clients, theta = one.all_clients, one.init_params()
    census = alone(one.group_label_counts(clients))
    m = census.sum(0)
    n_z, N = m.sum(1), m.sum()
    lam = np.stack([n_z / N, n_z / N])
    for t in range(1, many + 1):
        weight = (lam / n_z).T  # [group, label]
        mine = [(census[k] * weight).sum() for k in clients]
        rows = TrainingRows(np.stack([weight * census[k].sum() / mine[k] for k in clients]))
        local = alone(one.train(theta, clients, t, rows=rows)).astype(float)
        theta = (np.average(local, axis=0, weights=mine)).astype(np.float32)
        L = np.zeros((2, 2))
        for k in clients:
            (z,) = alone(one.logits(theta, np.array([k])))
            part = one._fed.shards["train"]
            own = part.rows(one._run, k)
            for z_i, y, a in zip(z.astype(float), part.y[own], part.a[own], strict=True):
                L[y, a] += np.log1p(np.exp(-z_i if y else z_i))
        F = (L[1, 0] - L[0, 0]) / n_z[0] - (L[1, 1] - L[0, 1]) / n_z[1] + m[0, 0] / n_z[0] - m[1, 0] / n_z[1]
        s = alpha / np.sqrt(t)
        lam[0] = np.clip(lam[0] + s * np.array([-F, F]), 0, 2 * n_z / N)
        lam[1] = 2 * n_z / N - lam[0]
    return theta, (lam / n_z).T * N


@pytest.mark.parametrize("alpha", [0.3, 3.0])
def test_fedfb_agrees_with_a_second_implementation_in_the_papers_letters(alpha):
    fed = tables()
    history = fed.run(FedFB(alpha), 4, record=())
    for r, seed in enumerate(fed.seeds):
        theta, rows = second_fedfb(fed.one(seed), alpha, 4)
        np.testing.assert_allclose(history.answer[r], theta, atol=2e-5)
        np.testing.assert_allclose(history.state["rows"][r], rows, atol=1e-4)
    assert (history.state["rows"] == 0).any() == (alpha > 1)  # a large one meets the limits


def test_with_decisions_in_the_place_of_losses_it_is_the_gap_of_selection_rates():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 30, (3, 2, 2))
    wrong = np.stack([counts[:, 0, 1], counts[:, 1, 0]], axis=1)
    rate = counts[..., 1].sum(1) / counts.sum((1, 2))
    m, r, s = counts.sum(2), np.ones((3, 2)), 0.01
    gap = rate - rate[0]
    step = np.array([-gap.sum(), *gap[1:]]) * m.sum() / m.sum(1)
    np.testing.assert_allclose(moved(r, wrong, m, s)[:, 0], 1 + s * step, atol=1e-12)
    away = m.copy()
    away[2] = 0
    still = moved(r, wrong * (away > 0), away, s)
    assert (still[2] == 1).all() and still[1, 0] != 1


def test_a_round_of_fedfb_descends_the_weighted_loss():
    """One full step of all clients is a step down sum_i r_i l_i / sum_i r_i, whoever holds the rows."""
    fed = one_run(uneven(FULL), 0)
    r = np.array([[0.4, 1.6], [1.5, 0.5]])
    method = FedFB(0.0)
    start = first_models(fed)[0]
    found = alone(method.round(fed.one(), State(start, {"rows": r}), 1)).params
    slope, whole = np.zeros(5), 0.0
    for k in range(3):
        X, y, a = rows_of(fed, 0, k)
        p = 1 / (1 + np.exp(-(X @ start[:-1].astype(float) + start[-1])))
        weight = r[a, y]
        slope += np.append((weight * (p - y)) @ X, (weight * (p - y)).sum())
        whole += weight.sum()
    # Each client steps along the mean of its own rows, and weighs what its rows weigh.
    np.testing.assert_allclose(found, start - 0.3 * slope / whole, atol=1e-5)


def test_fedfb_lowers_the_gap_that_it_aims_at():
    fed = tables()
    plain, fair = fed.run([FedAvg(), FedFB(1.0)], 40, record=("train",)).values()
    assert (abs(fair.values("spd", "train")[:, -1]) < 0.75 * abs(plain.values("spd", "train")[:, -1])).all()


def test_what_fedfb_refuses():
    with pytest.raises(FairFLError, match="alpha must be at least 0, not -1"):
        FedFB(-1)
    with pytest.raises(FairFLError, match="the favourable one of two labels, not of 3"):
        federation([30, 40], classes=3).run(FedFB(), 1)


# FedMinMax


def test_fedminmax_without_a_step_up_and_with_one_group_is_fedavg_bit_for_bit():
    for fed in (uneven(MANY), tables()):
        plain, still = fed.run([FedAvg(), FedMinMax(0, "last")], 4, record=()).values()
        np.testing.assert_array_equal(still.answer, plain.answer)
    alike = federation([30, 50], groups=1)
    part = alike.shards["train"]
    one_group = Shards.of(part.X, part.y, np.zeros_like(part.a), [[part.rows(0, k) for k in range(2)]], groups=1)
    fed = replace(alike, shards={"train": one_group})
    plain, found = fed.run([FedAvg(), FedMinMax(5.0, "last")], 4, record=()).values()
    np.testing.assert_array_equal(found.answer, plain.answer)


@pytest.mark.parametrize("lr_mu", [0.1, 2.0])
def test_fedminmax_agrees_with_full_gradients_of_all_rows(lr_mu):
    """One full step of all clients is a step down sum_a mu_a r_a on the pooled rows, then mu goes up and is projected."""
    fed = one_run(uneven(FULL), 0)
    X, y, a = (np.concatenate(parts) for parts in zip(*(rows_of(fed, 0, k) for k in range(3)), strict=True))
    theta, mu = first_models(fed)[0].astype(float), np.bincount(a) / len(a)
    models = []
    for _ in range(4):
        z = X @ theta[:-1] + theta[-1]
        loss, off = np.logaddexp(0, np.where(y == 1, -z, z)), 1 / (1 + np.exp(-z)) - y
        slopes = [np.append(off[a == g] @ X[a == g], off[a == g].sum()) / (a == g).sum() for g in (0, 1)]
        risk = np.array([loss[a == g].mean() for g in (0, 1)])
        theta = theta - 0.3 * (mu @ slopes)
        free = mu + lr_mu * risk
        mu = np.clip((free - free[::-1] + 1) / 2, 0, 1)  # the nearest point of a simplex of two
        models.append(theta)
    last, mean = fed.run([FedMinMax(lr_mu, "last"), FedMinMax(lr_mu, name="mean")], 4, record=()).values()
    np.testing.assert_allclose(last.answer[0], theta, atol=1e-5)
    np.testing.assert_allclose(mean.answer[0], np.mean(models, axis=0), atol=1e-5)
    np.testing.assert_allclose(last.state["mu"][0], mu, atol=1e-5)


def test_a_long_step_up_leaves_the_worst_group_alone():
    fed = tables()
    found = fed.run(FedMinMax(1e6), 3, record=()).state["mu"]
    assert ((found == 1).sum(1) == 1).all() and ((found == 0).sum(1) == 1).all()


def test_groups_of_equal_risk_keep_their_weights():
    """Every row stands twice, once in each group."""
    fed = doubled(one_run(uneven(MANY), 0))
    plain, found = fed.run([FedAvg(), FedMinMax(1.0, "last")], 3, record=()).values()
    np.testing.assert_allclose(found.state["mu"], 0.5, atol=1e-12)
    np.testing.assert_allclose(found.answer, plain.answer, atol=1e-6)


def test_fedminmax_lowers_the_loss_of_the_worst_group():
    fed = replace(tables(), local=replace(FULL, lr=0.5))
    worst = []
    for history in fed.run([FedMinMax(0.0, "last", "plain"), FedMinMax(0.05, "last")], 80, record=()).values():
        sums = asked(fed, lambda one, run, h=history: one.summaries(h.answer[run], one.all_clients, LossSums(2)))
        rows = asked(fed, lambda one, run: one.group_label_counts(one.all_clients))
        worst.append([(loss.sum((0, 2)) / many.sum((0, 2))).max() for loss, many in zip(sums, rows, strict=True)])
    assert (np.array(worst[1]) < np.array(worst[0])).all()


def test_what_fedminmax_refuses():
    with pytest.raises(FairFLError, match="There is no model of FedMinMax named 'best'"):
        FedMinMax(deployed="best")
    with pytest.raises(FairFLError, match="FedMinMax needs every client in every round"):
        tables(participants=2).run(FedMinMax(), 1)
    with pytest.raises(FairFLError, match="compares groups in a choice of two, and there are 3 classes"):
        federation([30, 40], classes=3).run(FedMinMax(), 1)


# FedGFT


@pytest.mark.parametrize("hidden", [0, 3])
def test_fedgft_without_a_penalty_is_fedavg_with_full_steps(hidden):
    fed = replace(uneven(replace(FULL, epochs=3)), model=Dense(4, hidden))
    plain, found = fed.run([FedAvg(), FedGFT(0.0, 0.3, 3)], 3, record=()).values()
    np.testing.assert_allclose(found.answer, plain.answer, atol=2e-6)


@pytest.mark.parametrize("metric", ["spd", "eod"])
@pytest.mark.parametrize("penalty", ["square", "absolute"])
def test_one_step_of_fedgft_is_a_step_down_the_penalised_loss_of_all_rows(metric, penalty):
    fed = one_run(uneven(FULL), 0)
    X, y, a = (np.concatenate(parts) for parts in zip(*(rows_of(fed, 0, k) for k in range(3)), strict=True))
    among = (y == 1) | (metric == "spd")

    def gap(theta):
        score = 1 / (1 + np.exp(-(X @ theta[:-1] + theta[-1])))
        return score[among & (a == 0)].mean() - score[among & (a == 1)].mean()

    def whole(theta):
        z = X @ theta[:-1] + theta[-1]
        F = gap(theta)
        return np.logaddexp(0, np.where(y == 1, -z, z)).mean() + 5 * (F**2 / 2 if penalty == "square" else abs(F))

    theta, small = first_models(fed)[0].astype(float), 1e-6
    slope = [(whole(theta + small * e) - whole(theta - small * e)) / (2 * small) for e in np.eye(5)]
    history = fed.run(FedGFT(5.0, 0.3, metric=metric, penalty=penalty), 1, record=())
    np.testing.assert_allclose(history.answer[0], theta - 0.3 * np.array(slope), atol=1e-4)
    assert history.state["gap"][0] == pytest.approx(gap(theta), abs=1e-5)


@pytest.mark.parametrize("hidden", [0, 3])
def test_later_steps_of_a_round_keep_the_gap_of_its_start(hidden):
    """Client by client, by torch on its own rows."""
    fed = replace(one_run(uneven(FULL), 0), model=Dense(4, hidden))
    start, n = first_models(fed)[0].astype(np.float64), fed.sizes()[0]
    census = np.stack(asked(fed, lambda one, run: one.group_label_counts(one.all_clients)))[0].sum(2)
    n_a = census.sum(0)

    def scores(params, X):
        return torch.sigmoid(fed.model.forward(params, X))

    parts = [[torch.as_tensor(part) for part in rows_of(fed, 0, k)] for k in range(3)]
    given = torch.tensor(start)
    sums = [torch.stack([scores(given, X)[a == g].sum() for X, y, a in parts]).sum() / n_a[g] for g in (0, 1)]
    c, local = float(sums[0] - sums[1]), []
    for k, (X, y, a) in enumerate(parts):
        params = given.clone()
        for _ in range(3):
            params.requires_grad_()
            p = scores(params, X)
            F_k = sum(sign * p[a == g].sum() / n[k] / (n_a[g] / n.sum()) for g, sign in ((0, 1), (1, -1)))
            loss = torch.nn.functional.binary_cross_entropy(p, y.double()) + 4 * c * F_k
            (slope,) = torch.autograd.grad(loss, params)
            params = (params - 0.3 * slope).detach()
        local.append(params.numpy())
    found = fed.run(FedGFT(4.0, 0.3, 3), 1, record=()).answer[0]
    np.testing.assert_allclose(found, np.average(local, axis=0, weights=n), atol=1e-5)


def test_a_batch_as_large_as_a_client_is_the_full_batch():
    fed = uneven(FULL)
    full, batch = fed.run([FedGFT(5.0, 0.3, 2), FedGFT(5.0, 0.3, 2, batch=100)], 2, record=()).values()
    np.testing.assert_allclose(batch.answer, full.answer, atol=1e-5)
    less = fed.run(FedGFT(5.0, 0.3, 2, batch=10), 2, record=()).answer
    assert np.abs(less - full.answer).max() > 1e-3


def test_fedgft_lowers_the_gap_that_it_aims_at():
    fed = tables()
    plain, fair = fed.run([FedGFT(0.0, 0.5), FedGFT(20.0, 0.5)], 60, record=("train",)).values()
    assert (abs(fair.state["gap"]) < 0.6 * abs(plain.state["gap"])).all()  # of scores
    assert (abs(fair.values("spd", "train")[:, -1]) < abs(plain.values("spd", "train")[:, -1])).all()  # of decisions


def test_where_a_group_is_missing_there_is_no_penalty():
    alike = federation([30, 50], groups=2)
    part = alike.shards["train"]
    lone = Shards.of(part.X, part.y, np.zeros_like(part.a), [[part.rows(0, k) for k in range(2)]], groups=2)
    fed = replace(alike, shards={"train": lone}, local=FULL)
    plain, found = fed.run([FedGFT(0.0), FedGFT(20.0)], 3, record=()).values()
    np.testing.assert_array_equal(found.answer, plain.answer)


def test_what_fedgft_refuses():
    with pytest.raises(FairFLError, match="There is no penalty of FedGFT named 'cube'"):
        FedGFT(penalty="cube")
    with pytest.raises(FairFLError, match="compares two groups in a choice of two, and there are 3 groups and 2 classes"):
        federation([30, 40], groups=3).run(FedGFT(), 1)
