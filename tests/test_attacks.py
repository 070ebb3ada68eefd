"""Malicious clients: what leaves them, and that nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest
from test_federation import images, tables
from toy import uneven

from fairfl_lite import metrics
from fairfl_lite.clients import Attack, Local
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation.kept import digest
from fairfl_lite.methods import FairBatch, FedAvg


@pytest.mark.parametrize("make", [tables, images])
@pytest.mark.parametrize("kind", ["enlarge", "random", "zero"])
def test_what_leaves_a_malicious_client(make, kind):
    fed = make()
    bad = replace(fed, attack=Attack(kind, (1,)))
    theta = fed.start()
    for t in (1, 2):
        honest = (fed.train(theta, t), fed.gradient(theta, t=t)[1])
        sent = (bad.train(theta, t), bad.gradient(theta, t=t)[1])
        for before, after in zip(honest, sent, strict=True):
            others = [k for k in range(fed.clients) if k != 1]
            np.testing.assert_array_equal(after[:, others], before[:, others])
            if kind == "enlarge":
                np.testing.assert_allclose(after[:, 1], 10 * before[:, 1], rtol=1e-6)
            elif kind == "zero":
                assert (after[:, 1] == 0).all()
            else:
                length = np.linalg.norm(before[:, 1], axis=-1)
                np.testing.assert_allclose(np.linalg.norm(after[:, 1], axis=-1), length, rtol=1e-4)
                cosine = (after[:, 1] * before[:, 1]).sum(-1) / length**2
                assert (np.abs(cosine) < 0.95).all()
    np.testing.assert_array_equal(bad.honest.train(theta, 1), fed.train(theta, 1))
    np.testing.assert_array_equal(bad.losses(theta), fed.losses(theta))
    np.testing.assert_array_equal(bad.gradient(theta)[0], fed.gradient(theta)[0])
    np.testing.assert_array_equal(bad.report(theta), fed.report(theta))
    assert fed.honest is fed and digest(bad) != digest(fed)


@pytest.mark.parametrize("make", [tables, images])
@pytest.mark.parametrize("kind", ["enlarge", "random", "zero"])
def test_an_update_is_what_training_added(make, kind):
    """The liar's model lies ten times as far from what it was given, as far in another direction, or nowhere."""
    fed = make()
    bad, theta = replace(fed, attack=Attack(kind, (1,), of="update")), fed.start()
    honest, sent = fed.train(theta, 1), bad.train(theta, 1)
    others = [k for k in range(fed.clients) if k != 1]
    np.testing.assert_array_equal(sent[:, others], honest[:, others])
    true, told = honest[:, 1] - theta, sent[:, 1] - theta
    if kind == "random":
        np.testing.assert_allclose(np.linalg.norm(told, axis=-1), np.linalg.norm(true, axis=-1), rtol=1e-4)
    np.testing.assert_allclose(told, {"enlarge": 10 * true, "zero": 0 * true, "random": told}[kind], rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(bad.gradient(theta)[1], replace(bad, attack=Attack(kind, (1,))).gradient(theta)[1])


def test_random_messages_are_new_in_every_round_and_go_by_seed_and_client():
    fed = replace(tables(), attack=Attack("random", 4))
    theta = fed.start()
    first, second = fed.gradient(theta, t=1)[1], fed.gradient(theta, t=2)[1]
    assert (first != second).any(-1).all()
    np.testing.assert_array_equal(first, fed.gradient(theta, t=1)[1])
    who = np.array([[2, 0], [3, 1]])
    np.testing.assert_array_equal(fed.gradient(theta, t=1, who=who)[1], np.take_along_axis(first, who[..., None], 1))
    flat = first / np.linalg.norm(first, axis=-1, keepdims=True)
    flat = flat.reshape(-1, flat.shape[-1])
    assert (np.abs(flat @ flat.T - np.eye(len(flat))) < 1 - 1e-3).all()
    vector = fed.gradient(theta, lambda z, y, a: z[:2], t=1)[1]  # each value's gradient has its own direction
    assert (np.abs((vector[:, :, 0] * vector[:, :, 1]).sum(-1)) < 0.999 * np.linalg.norm(vector, axis=-1).prod(-1)).all()


def test_malicious_clients_are_drawn_by_seed_among_those_with_rows():
    fed = uneven(Local("sgd", 0.1))
    liars = Attack("zero", 2).malicious(fed)
    assert (liars.sum(1) == 2).all() and not liars[1, 1]
    fed = replace(tables(), seeds=(0, 1))
    drawn = [Attack("zero", 2).malicious(replace(fed, seeds=(seed, seed + 100))) for seed in range(8)]
    assert len({each.tobytes() for each in drawn}) > 3
    np.testing.assert_array_equal(Attack("zero", (0, 3)).malicious(fed), [[True, False, False, True]] * 2)


def test_an_attack_by_nobody_or_by_one_changes_nothing():
    fed = tables()
    plain = fed.run(FedAvg(), 2).answer
    np.testing.assert_array_equal(replace(fed, attack=Attack("zero", 0)).run(FedAvg(), 2).answer, plain)
    np.testing.assert_array_equal(replace(fed, attack=Attack("enlarge", 4, factor=1.0)).run(FedAvg(), 2).answer, plain)
    zeros = replace(fed, attack=Attack("zero", 4)).run(FedAvg(), 2).answer
    assert (zeros == 0).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", [FedAvg(), FairBatch()], ids=lambda method: method.name)
def test_a_model_that_is_enlarged_until_it_is_infinite_is_kept_without_a_metric_and_without_a_warning(method):
    fed = replace(tables(diverged="keep"), attack=Attack("enlarge", 2))
    answer = fed.run(method, 120, record=()).answer
    assert not np.isfinite(answer).all(-1).any()
    of_clients = metrics.accuracy(fed.report(answer, "test"))
    for over in (metrics.mean, metrics.spread, metrics.sample_spread):
        assert np.isnan(over(of_clients)).all()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Attack("enlarged"), "attack named"),
        (lambda: Attack("zero", of="gradient"), "message to attack"),
        (lambda: Attack("zero", -1), "numbers, or say how many"),
        (lambda: Attack("zero", 1.5), "numbers, or say how many"),
        (lambda: Attack("enlarge", factor=np.inf), "finite"),
        (lambda: replace(tables(), attack=Attack("zero", 5)), "5 clients cannot be malicious: 4 have"),
        (lambda: replace(tables(), attack=Attack("zero", (4,))), "Client 4 cannot be malicious"),
    ],
)
def test_attacks_that_cannot_be_are_refused(made, said):
    with pytest.raises(FairFLError, match=said):
        made()
