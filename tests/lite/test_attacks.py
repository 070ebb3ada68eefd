"""Malicious clients: what leaves them, and that nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest
from asking import asked, confusion, first_models, gradient, losses, train
from toy import images, tables, uneven

from fairfl_lite import metrics
from fairfl_lite.clients import Attack, ClientTraining
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation.kept import digest
from fairfl_lite.methods import FairBatch, FedAvg

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("make", [tables, images])
@pytest.mark.parametrize("kind", ["enlarge", "random", "zero"])
def test_what_leaves_a_malicious_client(make, kind):
    fed = make()
    bad = replace(fed, attack=Attack(kind, (1,)))
    theta = first_models(fed)
    for t in (1, 2):
        honest = (train(fed, theta, t), gradient(fed, theta, t=t)[1])
        sent = (train(bad, theta, t), gradient(bad, theta, t=t)[1])
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
    kept = asked(bad, lambda one, run: one.honest.train(theta[run], one.all_clients, 1))
    np.testing.assert_array_equal(kept, asked(fed, lambda one, run: one.train(theta[run], one.all_clients, 1)))
    np.testing.assert_array_equal(losses(bad, theta), losses(fed, theta))
    np.testing.assert_array_equal(gradient(bad, theta)[0], gradient(fed, theta)[0])
    np.testing.assert_array_equal(confusion(bad, theta), confusion(fed, theta))
    one = fed.one()
    assert one.honest is one and digest(bad) != digest(fed)


@pytest.mark.parametrize("make", [tables, images])
@pytest.mark.parametrize("kind", ["enlarge", "random", "zero"])
def test_an_update_is_what_training_added(make, kind):
    """The liar's model lies ten times as far from what it was given, as far in another direction, or nowhere."""
    fed = make()
    bad, theta = replace(fed, attack=Attack(kind, (1,), of="update")), first_models(fed)
    honest, sent = train(fed, theta, 1), train(bad, theta, 1)
    others = [k for k in range(fed.clients) if k != 1]
    np.testing.assert_array_equal(sent[:, others], honest[:, others])
    true, told = honest[:, 1] - theta, sent[:, 1] - theta
    if kind == "random":
        np.testing.assert_allclose(np.linalg.norm(told, axis=-1), np.linalg.norm(true, axis=-1), rtol=1e-4)
    np.testing.assert_allclose(told, {"enlarge": 10 * true, "zero": 0 * true, "random": told}[kind], rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(gradient(bad, theta)[1], gradient(replace(bad, attack=Attack(kind, (1,))), theta)[1])


def test_random_messages_are_new_in_every_round_and_go_by_seed_and_client():
    fed = replace(tables(), attack=Attack("random", 4))
    theta = first_models(fed)
    first, second = gradient(fed, theta, t=1)[1], gradient(fed, theta, t=2)[1]
    assert (first != second).any(-1).all()
    np.testing.assert_array_equal(first, gradient(fed, theta, t=1)[1])
    for clients in (np.array([2, 0]), np.array([3, 1])):
        np.testing.assert_array_equal(gradient(fed, theta, t=1, clients=clients)[1], first[:, clients])
    flat = first / np.linalg.norm(first, axis=-1, keepdims=True)
    flat = flat.reshape(-1, flat.shape[-1])
    assert (np.abs(flat @ flat.T - np.eye(len(flat))) < 1 - 1e-3).all()
    vector = gradient(fed, theta, lambda z, y, a: z[:2], t=1)[1]  # each value's gradient has its own direction
    assert (np.abs((vector[:, :, 0] * vector[:, :, 1]).sum(-1)) < 0.999 * np.linalg.norm(vector, axis=-1).prod(-1)).all()


def test_malicious_clients_are_drawn_by_seed_among_those_with_rows():
    fed = uneven(ClientTraining("sgd", 0.1))
    liars = np.stack([Attack("zero", 2).liars(fed.one(seed), np.arange(3)) for seed in fed.seeds])
    assert (liars.sum(1) == 2).all() and not liars[1, 1]
    fed, everybody = tables(), np.arange(4)
    drawn = [Attack("zero", 2).liars(replace(fed, seeds=(seed, seed + 100)).one(), everybody) for seed in range(16)]
    assert len({each.tobytes() for each in drawn}) > 3 and all(each.sum() == 2 for each in drawn)
    np.testing.assert_array_equal(Attack("zero", (0, 3)).liars(fed.one(), everybody), [True, False, False, True])
    np.testing.assert_array_equal(Attack("zero", (0, 3)).liars(fed.one(), np.array([3, 1])), [True, False])


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
    of_clients = metrics.accuracy(confusion(fed, answer, "test"))
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
