"""FairFed by its limit cases, its identities, hand-worked rounds and a second implementation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_engine import federation
from toy import one_run, rows, uneven

from fairfl_lite import metrics
from fairfl_lite.clients import Debias, Local
from fairfl_lite.clients.debias import reweighing
from fairfl_lite.data import Partition
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Shards
from fairfl_lite.federation.secagg import SecAgg
from fairfl_lite.methods import FairFed, FedAvg
from fairfl_lite.methods.fairfed import global_component, group_sizes, metric_gap


def toy(alpha=0.5, seeds=(0, 1), **options):
    return Federation.of(rows(), Partition.dirichlet(alpha, 4), seeds, Local("adam", 0.05, 1e-4, 1, 16), **options)


counts = st.integers(0, 2**32 - 1).map(lambda s: np.random.default_rng(s).integers(0, 9, (2, 5, 2, 2, 2)))


@settings(max_examples=100)
@given(counts)
def test_eq7_is_pooled_eod_and_eq10_is_pooled_spd(counts):
    for metric in ("eod", "spd"):
        statistics = group_sizes(metric, counts.sum(-1)).sum(1)
        if (statistics > 0).all():
            total = global_component(metric, counts, statistics).sum(1)
            np.testing.assert_allclose(total, metrics.MODEL[metric](counts.sum(1)), atol=1e-12)


@settings(max_examples=50)
@given(counts)
def test_eq7_as_printed_in_probabilities(counts):
    """The printed product of probabilities, term by term, against our counts."""
    counts = counts + 1
    n = counts.sum((2, 3, 4))
    share, printed = n / n.sum(1, keepdims=True), 0
    for a in (0, 1):
        tpr = counts[:, :, a, 1, 1] / counts[:, :, a, 1].sum(-1)
        here = counts[:, :, a, 1].sum(-1) / n
        everywhere = counts[:, :, a, 1].sum((1, 2)) / n.sum(1)
        printed = printed + (-1) ** a * share * tpr * here / everywhere[:, None]
    ours = global_component("eod", counts, group_sizes("eod", counts.sum(-1)).sum(1))
    np.testing.assert_allclose(ours, printed, atol=1e-12)


@pytest.mark.parametrize("rule", ["clip", "none", "exp"])
@pytest.mark.parametrize("kind", ["none", "local"])
def test_beta_zero_is_fedavg_bit_for_bit(rule, kind):
    fed = toy(alpha=0.2)
    fair = fed.run(FairFed(beta=0, rule=rule, debias=Debias(kind)), 4)
    plain = fed.run(FedAvg(Debias(kind)), 4)
    if rule == "exp":  # it normalises shares that already add up to 1, which may cost a last bit
        np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-6)
    else:
        np.testing.assert_array_equal(fair.state.params, plain.state.params)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 20.0, 50.0]))
def test_the_printed_recursion_keeps_the_sum_and_the_clipped_one_stays_in_the_simplex(seed, beta):
    rng = np.random.default_rng(seed)
    fed = federation([10, 20, 30, 40, 50])
    literal = clipped = fed.shares()
    for _ in range(10):
        gap = rng.random((1, 5))
        literal = FairFed(beta, rule="none").update(fed, literal, gap, gap.mean(1))
        clipped = FairFed(beta).update(fed, clipped, gap, gap.mean(1))
        np.testing.assert_allclose(literal.sum(), 1, atol=1e-9)
        np.testing.assert_allclose(clipped.sum(), 1, atol=1e-9)
        assert (clipped >= 0).all()


def test_one_weight_update_by_hand():
    fed = federation([50, 30, 20])
    gap = np.array([[0.3, 0.0, 0.0]])
    method = FairFed(beta=1, rule="none")
    np.testing.assert_allclose(method.update(fed, fed.shares(), gap, gap.mean(1)), [[0.3, 0.4, 0.3]])
    np.testing.assert_allclose(FairFed(beta=3).update(fed, fed.shares(), gap, gap.mean(1)), [[0, 0.6 / 1.1, 0.5 / 1.1]])
    np.testing.assert_allclose(FairFed(beta=1, rule="exp").update(fed, fed.shares(), gap, gap.mean(1)),
                               [np.array([0.5 * np.exp(-0.3), 0.3, 0.2]) / (0.5 * np.exp(-0.3) + 0.5)])  # fmt: skip


def test_clipping_everything_away_falls_back_to_data_shares():
    fed = federation([50, 50])
    weights = FairFed().update(fed, np.array([[-1.0, -1.0]]), np.zeros((1, 2)), np.zeros(1))
    np.testing.assert_array_equal(weights, fed.shares())


def test_gap_uses_accuracy_where_fairness_is_undefined():
    F_k, acc_k = np.array([[0.1, np.nan]]), np.array([[0.9, 0.6]])
    gap = metric_gap(F_k, np.array([[0.3]]), acc_k, np.array([[0.8]]), eta=0.25)
    np.testing.assert_allclose(gap, [[0.25 * 0.2 + 0.75 * 0.1, 0.2]])
    everywhere = metric_gap(F_k, np.array([[np.nan]]), acc_k, np.array([[0.8]]))
    np.testing.assert_allclose(everywhere, [[0.1, 0.2]])


def test_single_group_clients_take_the_accuracy_branch():
    fed = Federation.of(rows(), Partition.single_group(0.5, (2, 2)), (0, 1), Local("adam", 0.05, 0, 1, 16))
    method = FairFed()
    state = method.round(fed, method.start(fed), 1)
    acc = metrics.accuracy(fed.report(fed.start()))
    pooled = metrics.accuracy(fed.report(fed.start()).sum(1))
    np.testing.assert_allclose(state["gap"], np.abs(acc - pooled[:, None]), atol=1e-12)


@pytest.mark.parametrize("metric", ["eod", "spd"])
@pytest.mark.parametrize("eta", [1.0, 0.2])
def test_a_second_implementation_written_as_a_loop(metric, eta):
    """Algorithm 1 client by client on pooled predictions, sharing only local training with ours."""
    fed, beta = toy(alpha=0.5, seeds=(3,)), 2.0
    ours = fed.run(FairFed(beta=beta, eta=eta, metric=metric), 3, remember=("weights", "F"))
    shards = Debias("local").rows(fed)
    theta, weight = fed.start()[0], fed.shares()[0]
    for t in (1, 2, 3):
        preds = []
        for k in range(4):
            r = fed.shards["train"].rows(0, k)
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
        local = fed.train(theta[None], t, on=shards)[0]
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


def test_global_reweighing_pools_the_counts_of_all_clients():
    fed = toy(alpha=0.5)
    shards = Debias("global").rows(fed)
    expected = reweighing(fed.shards["train"].census()[0].sum(0))
    r = fed.shards["train"].rows(0, 2)
    start = fed.shards["train"].start[0, 2]
    np.testing.assert_allclose(shards.weight[start : start + len(r)], expected[shards.a[r], shards.y[r]], rtol=1e-6)


def test_local_reweighing_does_nothing_to_single_group_clients():
    fed = Federation.of(rows(), Partition.single_group(0.5, (2, 2)), (0,), Local("adam", 0.05, 0, 1, 16))
    np.testing.assert_array_equal(fed.run(FedAvg(Debias("local")), 3).state.params, fed.run(FedAvg(), 3).state.params)


def test_shares_of_debiasing_clients_are_nested():
    fed = toy(seeds=(0, 1, 2))
    few, many = Debias("local", 0.25).choices(fed) == "local", Debias("local", 0.75).choices(fed) == "local"
    assert few.sum(1).tolist() == [1, 1, 1] and many.sum(1).tolist() == [3, 3, 3]
    assert (many | ~few).all()


def test_fairbalance_balances_labels_and_reads_no_group():
    fed = toy(alpha=5000)
    grown = Debias("fairbalance").rows(fed)
    labels = [grown.y[grown.rows(0, k)].mean() for k in range(4)]
    before = [fed.shards["train"].y[fed.shards["train"].rows(0, k)].mean() for k in range(4)]
    assert np.abs(np.array(labels) - 0.5).max() < np.abs(np.array(before) - 0.5).max()
    other = {part: replace(s, examples=replace(s.examples, a=1 - s.a)) for part, s in fed.shards.items()}
    flipped = replace(fed, shards=other)
    np.testing.assert_array_equal(Debias("fairbalance").rows(flipped).X, grown.X)
    made = grown.X[len(fed.shards["train"].X) :]
    assert (
        len(made) and (made.min(0) >= fed.shards["train"].X.min(0)).all() and (made.max(0) <= fed.shards["train"].X.max(0)).all()
    )


def test_mixed_debiasing_keeps_each_clients_own_kind():
    fed = toy(alpha=5000)
    mixed = Debias("local", 0.5, "fairbalance")
    grown, choices = mixed.rows(fed), mixed.choices(fed)
    for r, k in np.ndindex(*choices.shape):
        reweighed = np.ptp(grown.weight[grown.start[r, k] : grown.start[r, k + 1]]) > 0
        assert reweighed == (choices[r, k] == "local")


@pytest.mark.parametrize("method", [FairFed(beta=2), FairFed(beta=2, eta=0.3, metric="spd"), FedAvg(Debias("global"))])
def test_a_run_through_secure_aggregation_equals_the_plain_run(method):
    fed = toy(alpha=0.5, seeds=(0,))
    plain = fed.run(method, 5)
    secure = replace(fed, aggregate=SecAgg(clients=4, dropouts=2)).run(method, 5)
    np.testing.assert_allclose(secure.state.params, plain.state.params, atol=1e-6)
    np.testing.assert_array_equal(secure.counts["test"], plain.counts["test"])


@pytest.mark.parametrize("rule", ["clip", "none", "exp"])
def test_a_client_without_rows_takes_no_part(rule):
    """It weighs nothing, has no gap and does not count in their mean, beside a run in which it has rows and alone."""
    method = FairFed(beta=2, eta=0.5, rule=rule)
    fed = uneven(Local("adam", 0.05, 1e-4, 1, 16))
    together = fed.run(method, 3, remember=("weights", "gap"))
    for r in range(2):
        alone = one_run(fed, r).run(method, 3, remember=("weights", "gap"))
        np.testing.assert_array_equal(alone.state.params[0], together.state.params[r])
        for name in ("weights", "gap"):
            np.testing.assert_array_equal(alone.memory[name][0], together.memory[name][r])
    assert (together.memory["weights"][1, :, 1] == 0).all() and np.isnan(together.memory["gap"][1, :, 1]).all()
    np.testing.assert_allclose(together.memory["weights"].sum(2), 1)
    first = FairFed(beta=2, eta=0.5, rule=rule).update(
        federation([40, 50]), fed.shares()[1:, [0, 2]], together.memory["gap"][1:, 0, [0, 2]],
        together.memory["gap"][1:, 0, [0, 2]].mean(1), fed.shares()[1:, [0, 2]],
    )  # fmt: skip
    np.testing.assert_allclose(together.memory["weights"][1, 0, [0, 2]], first[0])


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
    table = np.arange(8.0).reshape(1, 2, 2, 2)
    shards: Shards = fed.shards["train"].weighted(table)
    for k in range(2):
        r = shards.rows(0, k)
        np.testing.assert_array_equal(
            shards.weight[shards.start[0, k] : shards.start[0, k + 1]], table[0, k][shards.a[r], shards.y[r]]
        )
