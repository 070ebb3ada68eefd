"""FairFed by its limit cases, its identities, hand-worked rounds and a second implementation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import federation, rows, uneven

from fairfl_lite import metrics
from fairfl_lite.clients import ClientTraining, Debias
from fairfl_lite.clients.debias import TrainingRows, reweighing
from fairfl_lite.data import Partition
from fairfl_lite.engines import Plain
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Shards, alone
from fairfl_lite.federation.secagg import SecAgg
from fairfl_lite.methods import FairFed, FedAvg
from fairfl_lite.methods.fairfed import global_component, group_sizes, metric_gap

pytestmark = pytest.mark.slow


def toy(alpha=0.5, seeds=(0, 1), **options):
    return Federation.of(rows(), Partition.dirichlet(alpha, 4), seeds, ClientTraining("adam", 0.05, 1e-4, 1, 16), **options)


def everybody(fed, debias=None):
    """The federation of the first seed, all its clients, and what they do to their rows."""
    one = fed.one()
    return one, one.all_clients, alone(debias.training_rows(one, one.all_clients)) if debias else None


def trained_on(fed, debias):
    """What reaches the engine when all clients of the first seed train: the rows of each of them, and what they weigh."""
    seen = []

    class Watched(Plain):
        def train(self, work, theta, *_):
            seen.append(work)
            return theta

    one, clients, rows = everybody(replace(fed, engine=Watched(fed.model)), debias)
    alone(one.train(one.init_params(), clients, 1, rows=rows))
    return seen[0]


def weights_of(work, k):
    return work.weight[work.start[k] : work.stop[k]]


counts = st.integers(0, 2**32 - 1).map(lambda s: np.random.default_rng(s).integers(0, 9, (5, 2, 2, 2)))


@settings(max_examples=100)
@given(counts)
def test_eq7_is_pooled_eod_and_eq10_is_pooled_spd(counts):
    for metric in ("eod", "spd"):
        statistics = group_sizes(metric, counts.sum(-1)).sum(0)
        if (statistics > 0).all():
            total = global_component(metric, counts, statistics).sum()
            np.testing.assert_allclose(total, metrics.MODEL[metric](counts.sum(0)), atol=1e-12)


@settings(max_examples=50)
@given(counts)
def test_eq7_as_printed_in_probabilities(counts):
    """The printed product of probabilities, term by term, against our counts."""
    counts = counts + 1
    n = counts.sum((1, 2, 3))
    share, printed = n / n.sum(), 0
    for a in (0, 1):
        tpr = counts[:, a, 1, 1] / counts[:, a, 1].sum(-1)
        here = counts[:, a, 1].sum(-1) / n
        everywhere = counts[:, a, 1].sum() / n.sum()
        printed = printed + (-1) ** a * share * tpr * here / everywhere
    ours = global_component("eod", counts, group_sizes("eod", counts.sum(-1)).sum(0))
    np.testing.assert_allclose(ours, printed, atol=1e-12)


@pytest.mark.parametrize("rule", ["clip", "none", "exp"])
@pytest.mark.parametrize("kind", ["none", "local"])
def test_beta_zero_is_fedavg_bit_for_bit(rule, kind):
    fed = toy(alpha=0.2)
    fair, plain = fed.run([FairFed(beta=0, rule=rule, debias=Debias(kind)), FedAvg(Debias(kind))], 4).values()
    if rule == "exp":  # it normalises shares that already add up to 1, which may cost a last bit
        np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-6)
    else:
        np.testing.assert_array_equal(fair.state.params, plain.state.params)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 20.0, 50.0]))
def test_the_printed_recursion_keeps_the_sum_and_the_clipped_one_stays_in_the_simplex(seed, beta):
    rng = np.random.default_rng(seed)
    fed, clients, _ = everybody(federation([10, 20, 30, 40, 50]))
    literal = clipped = shares = fed.shares(clients)
    for _ in range(10):
        gap = rng.random(5)
        literal = FairFed(beta, rule="none").update(fed, literal, gap, gap.mean(), shares)
        clipped = FairFed(beta).update(fed, clipped, gap, gap.mean(), shares)
        np.testing.assert_allclose(literal.sum(), 1, atol=1e-9)
        np.testing.assert_allclose(clipped.sum(), 1, atol=1e-9)
        assert (clipped >= 0).all()


def test_one_weight_update_by_hand():
    fed, clients, _ = everybody(federation([50, 30, 20]))
    gap, shares = np.array([0.3, 0.0, 0.0]), fed.shares(clients)

    def updated(**settings):
        return FairFed(**settings).update(fed, shares, gap, gap.mean(), shares)

    np.testing.assert_allclose(updated(beta=1, rule="none"), [0.3, 0.4, 0.3])
    np.testing.assert_allclose(updated(beta=3), [0, 0.6 / 1.1, 0.5 / 1.1])
    np.testing.assert_allclose(updated(beta=1, rule="exp"),
                               np.array([0.5 * np.exp(-0.3), 0.3, 0.2]) / (0.5 * np.exp(-0.3) + 0.5))  # fmt: skip


def test_clipping_everything_away_falls_back_to_data_shares():
    fed, clients, _ = everybody(federation([50, 50]))
    weights = FairFed().update(fed, np.array([-1.0, -1.0]), np.zeros(2), 0.0, fed.shares(clients))
    np.testing.assert_array_equal(weights, fed.shares(clients))


def test_gap_uses_accuracy_where_fairness_is_undefined():
    F_k, acc_k = np.array([0.1, np.nan]), np.array([0.9, 0.6])
    gap = metric_gap(F_k, 0.3, acc_k, 0.8, eta=0.25)
    np.testing.assert_allclose(gap, [0.25 * 0.2 + 0.75 * 0.1, 0.2])
    everywhere = metric_gap(F_k, np.nan, acc_k, 0.8)
    np.testing.assert_allclose(everywhere, [0.1, 0.2])


def test_single_group_clients_take_the_accuracy_branch():
    fed = Federation.of(rows(), Partition.single_group(0.5, (2, 2)), (0, 1), ClientTraining("adam", 0.05, 0, 1, 16))
    method = FairFed()
    for seed in fed.seeds:
        one = fed.one(seed)
        state = alone(method.round(one, alone(method.start(one)), 1))
        counts = alone(one.confusion(one.init_params()))
        away = np.abs(metrics.accuracy(counts) - metrics.accuracy(counts.sum(0)))
        np.testing.assert_allclose(state["gap"], away, atol=1e-12)


@pytest.mark.parametrize("metric", ["eod", "spd"])
@pytest.mark.parametrize("eta", [1.0, 0.2])
def test_a_second_implementation_written_as_a_loop(metric, eta):
    """Algorithm 1 client by client on pooled predictions, sharing only local training with ours."""
    fed, beta = toy(alpha=0.5, seeds=(3,)), 2.0
    ours = fed.run(FairFed(beta=beta, eta=eta, metric=metric), 3, remember=("weights", "F"))
    one, clients, reweighed = everybody(fed, Debias("local"))
    shards = fed.shards["train"]
    theta, weight = one.init_params(), one.shares(clients)
    for t in (1, 2, 3):
        preds = []
        for k in range(4):
            r = shards.rows(0, k)
            X = (shards.X[r] - fed.inputs.shift[0]) * fed.inputs.scale[0]
            preds.append((shards.a[r], shards.y[r], (X @ theta[:-1] + theta[-1] > 0).astype(int)))

        def fairness(a, y, p):
            keep = y == 1 if metric == "eod" else np.ones(len(y), bool)
            if not ((a == 0) & keep).any() or not ((a == 1) & keep).any():
                return None
            return p[(a == 0) & keep].mean() - p[(a == 1) & keep].mean()

        F = fairness(*(np.concatenate(part) for part in zip(*preds, strict=True)))
        acc = np.concatenate([y == p for _, y, p in preds]).mean()
        gap = []
        for a, y, p in preds:
            F_k, away = fairness(a, y, p), abs((y == p).mean() - acc)
            gap.append(away if F_k is None else eta * abs(F - F_k) + (1 - eta) * away)
        weight = weight - beta * (np.array(gap) - np.mean(gap))
        if (weight < 0).any():
            weight = np.clip(weight, 0, None) / np.clip(weight, 0, None).sum()
        local = alone(one.train(theta, clients, t, rows=reweighed))
        theta = (weight[:, None] * local).sum(0).astype(np.float32)
        np.testing.assert_allclose(ours.memory["weights"][0, t - 1], weight, atol=1e-6)
        np.testing.assert_allclose(ours.memory["F"][0, t - 1], F, atol=1e-12)
    np.testing.assert_allclose(ours.state.params[0], theta, atol=1e-5)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_reweighing_makes_label_and_group_independent(seed):
    cells = np.random.default_rng(seed).integers(1, 50, (3, 2, 2))
    weighted = cells * reweighing(cells)
    rate = weighted[..., 1] / weighted.sum(-1)
    np.testing.assert_allclose(rate[:, 0], rate[:, 1])
    np.testing.assert_allclose(weighted.sum((1, 2)), cells.sum((1, 2)))


def test_reweighing_of_a_one_group_client_is_one_and_of_a_known_table():
    np.testing.assert_array_equal(reweighing(np.array([[0, 0], [7, 5]])), np.ones((2, 2)))
    np.testing.assert_allclose(reweighing(np.array([[30, 10], [20, 40]])), [[40 * 50 / 3000, 2.0], [1.5, 0.75]])


def test_global_reweighing_pools_the_counts_of_those_who_take_part():
    fed = toy(alpha=0.5)
    shards, work = fed.shards["train"], trained_on(fed, Debias("global"))
    for k in range(4):
        r = shards.rows(0, k)
        expected = reweighing(shards.census()[0].sum(0))
        np.testing.assert_array_equal(work.index[work.start[k] : work.stop[k]], r)
        np.testing.assert_allclose(weights_of(work, k), expected[shards.a[r], shards.y[r]], rtol=1e-6)
    one, some = fed.one(), np.array([1, 3])
    rows = alone(Debias("global").training_rows(one, some))
    np.testing.assert_array_equal(rows.weights, [reweighing(shards.census()[0, some].sum(0))] * 2)


def test_local_reweighing_does_nothing_to_single_group_clients():
    fed = Federation.of(rows(), Partition.single_group(0.5, (2, 2)), (0,), ClientTraining("adam", 0.05, 0, 1, 16))
    np.testing.assert_array_equal(fed.run(FedAvg(Debias("local")), 3).state.params, fed.run(FedAvg(), 3).state.params)


def test_shares_of_debiasing_clients_are_nested():
    fed = toy(alpha=5000, seeds=(0, 1, 2))  # so that every client has something to reweigh
    for seed in fed.seeds:
        one = fed.one(seed)

        def who(kind, share, one=one):
            rows = alone(Debias(kind, share).training_rows(one, one.all_clients))
            return rows.balanced if kind == "fairbalance" else (rows.weights != 1).any((1, 2))

        few, many = who("local", 0.25), who("local", 0.75)
        assert (few.sum(), many.sum()) == (1, 3) and (many | ~few).all()
        np.testing.assert_array_equal(who("fairbalance", 0.75), many)  # whatever it is that they do
        assert alone(Debias("local", 0.0).training_rows(one, one.all_clients)) is None


def test_fairbalance_balances_labels_and_reads_no_group():
    fed = toy(alpha=5000)
    shards, work = fed.shards["train"], trained_on(fed, Debias("fairbalance"))
    labels = [work.examples.y[work.index[work.start[k] : work.stop[k]]].mean() for k in range(4)]
    before = [shards.y[shards.rows(0, k)].mean() for k in range(4)]
    assert np.abs(np.array(labels) - 0.5).max() < np.abs(np.array(before) - 0.5).max()
    other = {part: replace(s, examples=replace(s.examples, a=1 - s.a)) for part, s in fed.shards.items()}
    flipped = trained_on(replace(fed, shards=other), Debias("fairbalance"))
    np.testing.assert_array_equal(flipped.examples.X, work.examples.X)
    np.testing.assert_array_equal(flipped.index, work.index)
    made = work.examples.X[len(shards.X) :]
    assert len(made) and (made.min(0) >= shards.X.min(0)).all() and (made.max(0) <= shards.X.max(0)).all()


def test_mixed_debiasing_keeps_each_clients_own_kind():
    fed = toy(alpha=5000)
    mixed = Debias("local", 0.5, "fairbalance")
    work, (_, _, rows) = trained_on(fed, mixed), everybody(fed, mixed)
    assert rows.balanced.sum() == 2
    for k in range(4):
        assert (np.ptp(weights_of(work, k)) > 0) == (not rows.balanced[k])


@pytest.mark.parametrize("method", [FairFed(beta=2), FairFed(beta=2, eta=0.3, metric="spd"), FedAvg(Debias("global"))])
def test_a_run_through_secure_aggregation_equals_the_plain_run(method):
    fed = toy(alpha=0.5, seeds=(0,))
    plain = fed.run(method, 5)
    secure = replace(fed, aggregate=SecAgg(clients=4, dropouts=2)).run(method, 5)
    np.testing.assert_allclose(secure.state.params, plain.state.params, atol=1e-6)
    np.testing.assert_array_equal(secure.counts["test"], plain.counts["test"])


@pytest.mark.parametrize("rule", ["clip", "none", "exp"])
def test_a_client_without_rows_takes_no_part(rule):
    """It weighs nothing, has no gap and does not count in their mean, beside a run in which it has rows."""
    method = FairFed(beta=2, eta=0.5, rule=rule)
    fed = uneven(ClientTraining("adam", 0.05, 1e-4, 1, 16))
    together = fed.run(method, 3, remember=("weights", "gap"))
    assert (together.memory["weights"][1, :, 1] == 0).all() and np.isnan(together.memory["gap"][1, :, 1]).all()
    np.testing.assert_allclose(together.memory["weights"].sum(2), 1)
    two, gap = np.array([0, 2]), together.memory["gap"][1, 0, [0, 2]]
    one = fed.one(8)
    first = method.update(one, one.shares(two), gap, gap.mean(), one.shares(two))
    np.testing.assert_allclose(together.memory["weights"][1, 0, two], first)


def test_impossible_hyper_parameters_are_refused():
    with pytest.raises(FairFLError, match="Debias"):
        FedAvg("local")
    with pytest.raises(FairFLError, match="seeds"):
        toy(seeds=())
    impossible = ({"beta": -1}, {"beta": float("nan")}, {"beta": "1"}, {"debias": "local"}, {"eta": 1.5}, {"rule": "clamp"})
    for wrong in (*impossible, {"metric": "dp"}):
        with pytest.raises(FairFLError):
            FairFed(**wrong)
    with pytest.raises(FairFLError, match="choose among"):
        Debias("reweighting")
    with pytest.raises(FairFLError, match="between 0 and 1"):
        Debias("local", 1.2)


def test_weighted_rows_are_what_the_table_says():
    fed = federation([6, 8])
    table = np.arange(8.0).reshape(2, 2, 2)

    class Table(Debias):
        async def training_rows(self, fed, clients):
            return TrainingRows(table[clients])

    dealt: Shards = fed.shards["train"].weighted(table[None])
    work = trained_on(fed, Table())
    for k in range(2):
        r = dealt.rows(0, k)
        expected = table[k][dealt.a[r], dealt.y[r]]
        np.testing.assert_array_equal(dealt.weight[dealt.start[0, k] : dealt.start[0, k + 1]], expected)
        np.testing.assert_array_equal(weights_of(work, k), expected)
