"""RankFF learning one model, CoreFed, and agents with images: against autograd, sorting, scipy and torch.nn."""

import os
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from asking import confusion, first_models, gradient, losses, train
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, optimize
from toy import one_run, rows, uneven

from fairfl_lite import metrics
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Images, Partition
from fairfl_lite.data.rotation import deal, rotate
from fairfl_lite.engines import Plain, fit, losses_of
from fairfl_lite.engines.order import passes
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, OneFederation, Pixels, alone
from fairfl_lite.methods import CoreFed, FedAvg, RankFF
from fairfl_lite.methods.rankff import local_approx, penalty_weights, place, threshold
from fairfl_lite.models import CNN, VGG11, channels_last, pool
from fairfl_lite.streams import keys
from papers.rankff import penalty as rankff_facts
from papers.rankff.model_sets import ModelSet
from papers.rankff.penalty import descend
from papers.rankff.tables import ROTATIONS, SETTINGS, learner, measured, ray_beta, rotations

pytestmark = pytest.mark.slow


def toy(seeds=(0,), clients=4, **options):
    return Federation.of(rows(), Partition.dirichlet(0.5, clients), seeds, ClientTraining("sgd", 0.1, 0.0, 1, 0), **options)


def equations(fed, run=0, among=lambda k, rows: rows):
    """Losses and slopes of a logistic regression in double precision, from the rows themselves, or from some of them."""
    shards = fed.shards["train"]
    held = [among(k, shards.rows(run, k)) for k in range(fed.clients)]
    X = [np.c_[(shards.X[i].astype(float) - fed.inputs.shift[run]) * fed.inputs.scale[run], np.ones(len(i))] for i in held]
    y = [shards.y[i].astype(float) for i in held]

    def losses(theta):
        return np.array([np.mean(np.logaddexp(0, x @ theta) - z * (x @ theta)) for x, z in zip(X, y, strict=True)])

    def slopes(theta):
        return np.stack([x.T @ (1 / (1 + np.exp(-x @ theta)) - z) / len(z) for x, z in zip(X, y, strict=True)])

    return losses, slopes


@pytest.fixture(scope="module")
def table3():
    """Three agents, and the model with the largest sum of utilities."""
    fed = toy(clients=3, diverged="keep")
    return fed, fed.run(RankFF(400, 1.0, sigma0=0.0, J=1), 400, record=()).state.params[0]


# The identity: RankFF's gradient is FedSGD's, with weights


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1e4))
def test_the_weights_give_the_gradient_of_phi_in_double_precision(seed, sigma):
    """Phi differentiated numerically, in double precision, on the rows of a federation; the weights against it."""
    fed, rng = toy(), np.random.default_rng(seed)
    losses, slopes = equations(fed)
    theta, M = rng.normal(size=5), 1.0
    alpha = M - losses(theta) + rng.uniform(-1, 1, 4)

    def phi(theta):
        u = M - losses(theta)
        return -u.sum() + sigma * (np.maximum(0, alpha - u) ** 2).sum()

    ours = penalty_weights(M - losses(theta), alpha, sigma) @ slopes(theta)
    found = optimize.approx_fprime(theta, phi, 1e-7)
    np.testing.assert_allclose(ours, found, atol=1e-4 * (1 + np.abs(ours).max()))


@pytest.mark.parametrize("engine", ["fused", "plain"])
@pytest.mark.parametrize("batch", [0, 32])
def test_gradients_of_a_table_are_those_of_all_rows_or_of_a_batch(batch, engine):
    fed = toy(seeds=(0, 1), engine=engine)
    theta = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    loss, slope = gradient(fed, theta, t=1, batch=batch)
    for run in range(2):
        key = keys(fed.seeds[run], "slopes", 1, fed.clients)

        def drawn(k, rows, key=key):
            return rows[np.random.default_rng(key[k]).permutation(len(rows))[: batch or None]]

        mean, slopes = equations(fed, run, drawn)
        np.testing.assert_allclose(loss[run], mean(theta[run].astype(float)), rtol=1e-5)
        np.testing.assert_allclose(slope[run], slopes(theta[run].astype(float)), atol=1e-5)
    if batch:
        assert fed.sizes().max() > batch and not np.allclose(loss, gradient(fed, theta)[0])
        assert not np.allclose(loss, gradient(fed, theta, t=2, batch=batch)[0])


def test_stored_checks_find_no_violation_and_see_a_wrong_identity():
    found = rankff_facts.identity_check()
    assert list(found) == ["statement", "n", "m", "how", "instances", "violations", "worst"]
    assert set(found["statement"]) == {"identity-weights"} and found["instances"].min() >= 20
    assert found["violations"].sum() == 0 and found["worst"].max() < 1e-12
    wrong = rankff_facts.identity_check(lambda u, alpha, sigma: 1 + sigma * np.maximum(0, alpha - u), times=40)
    assert (wrong["violations"] > 0).all()


def test_penalty_converges_to_the_program_and_not_without_a_penalty():
    found = rankff_facts.penalty_check(times=10)
    assert found["violations"].sum() == 0 and set(found["statement"]) == {"penalty-convergence"}
    fed, alpha = rankff_facts.contested(3, 2, np.random.default_rng(1))
    exact = rankff_facts.solve(fed.u, fed.grad, alpha, fed.optimum)
    path = rankff_facts.penalty_path(fed, alpha, [0.0, 10.0, 1000.0])
    away = np.linalg.norm(path - exact, axis=1)
    assert away[0] > 0.01 and away[0] > away[1] > away[2] > 0
    np.testing.assert_allclose(path[0], fed.optimum, atol=1e-8)
    u = fed.u(exact)
    assert (u >= alpha - 1e-8).all() and np.isclose(u, alpha, atol=1e-6).any()
    cells = np.stack(np.meshgrid(*[x + np.linspace(-0.3, 0.3, 601) for x in exact]), -1).reshape(-1, 2)  # by looking everywhere
    v = fed.u(cells)
    assert v[(v >= alpha).all(1)].sum(1).max() <= u.sum() + 1e-9 < v.sum(1).max()
    with pytest.raises(FairFLError, match="larger r"):
        rankff_facts.solve(fed.u, fed.grad, np.ones(3), fed.optimum)


def test_the_federation_of_quadratics_answers_as_its_formula():
    """u_i = 1 - x'Ax, by hand in the plane, and gradients by differences."""
    A = np.array([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.5, 3.0]]])
    fed = rankff_facts.Quadratics(A, np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(fed.u(fed.first), [1 - 1, 1 - 5])
    np.testing.assert_allclose(alone(fed.losses(fed.init_params())), [1, 5])
    np.testing.assert_allclose(alone(fed.losses(np.array([[1.0, 1.0], [0.0, 2.0]]))), [1, 12])  # a model of each agent's own
    loss, slope = alone(fed.value_and_gradient(fed.init_params(), fed.all_clients))
    np.testing.assert_allclose(loss, [1, 5])
    found = optimize.approx_fprime(fed.first, lambda c: 1 - fed.u(c), 1e-7)
    np.testing.assert_allclose(slope, found, atol=1e-5)
    np.testing.assert_allclose(optimize.approx_fprime(fed.optimum, lambda c: fed.u(c).sum(), 1e-7), 0, atol=1e-5)
    own = rankff_facts.Quadratics.round_ones([[0.0, 0.0], [2.0, 4.0]], scale=3.0)
    np.testing.assert_allclose(own.first, [1, 2])
    np.testing.assert_allclose(own.u(own.first), 1 - 3 * 5.0)


def test_the_logistic_equations_are_the_federations(table3):
    fed, plain = table3
    (loss, slopes), (u, grad), theta = equations(fed), rankff_facts.logistic(fed), plain.astype(float)
    np.testing.assert_allclose(u(theta), 1 - loss(theta))
    np.testing.assert_allclose(grad(theta), slopes(theta))


@pytest.mark.parametrize("normalise", [True, False])
def test_sigma_zero_is_fedsgd(normalise):
    """Every agent weighs 1, so a step is the mean gradient whatever alpha is."""
    fed = toy(seeds=(0, 1))
    theta = first_models(fed)
    for t in range(1, 7):
        theta = (theta - 0.3 * gradient(fed, theta, t=t)[1].astype(np.float64).mean(1)).astype(np.float32)
    state = fed.run(RankFF(3, 0.3, sigma0=0.0, normalise=normalise, J=5), 6).state
    np.testing.assert_array_equal(state.params, theta)
    np.testing.assert_array_equal(state["weights"], 1.0)


def test_a_round_is_a_step_along_the_weighted_slopes():
    fed = toy().one()
    method = RankFF(2, 0.5, sigma0=3.0, J=20, p=2.0, normalise=False)
    first, everybody, start = fed.init_params(), fed.all_clients, alone(method.start(fed))
    state = alone(method.round(fed, start, 1))
    loss, slope = alone(fed.value_and_gradient(first, everybody))
    u, _ = alone(local_approx(fed, first, everybody, 2.0, 20, key="search 1"))
    alpha = threshold(u, 0.5)
    weights = 1 + 6.0 * np.maximum(0, alpha - (1 - loss))
    assert weights.max() > 1.1
    np.testing.assert_allclose(state["alpha"], alpha)
    np.testing.assert_allclose(state.params, first - 0.5 * (weights[:, None] * slope).sum(0) / 4, rtol=1e-5)
    whole = alone(replace(method, normalise=True).round(fed, start, 1)).params
    np.testing.assert_allclose(whole - first, (state.params - first) * 4 / weights.sum(), rtol=1e-4)


# LocalApprox


@settings(max_examples=100)
@given(st.integers(1, 30), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_threshold_is_a_place_in_the_sorted_list_and_place_counts(count, r, seed):
    u = np.random.default_rng(seed).integers(0, 6, (3, count)).astype(float)
    alpha, at = threshold(u, r), place(u)
    for agent in range(3):
        best_first = sorted(u[agent], reverse=True)
        k = min(max(int(r * count), 1), count)
        assert alpha[agent] == best_first[k - 1]
        assert at[agent] == sum(v >= u[agent, 0] for v in u[agent])
    np.testing.assert_array_equal(threshold(u, 1.0), u.min(-1))
    np.testing.assert_array_equal(threshold(u, 0.0), u.max(-1))


def bowls(scales, best, seed=0):
    """Agents with u_i = 1 - scale_i |theta - best_i|^2, from the origin."""
    best = np.asarray(best, float)
    return rankff_facts.Quadratics(np.asarray(scales)[:, None, None] * np.eye(best.shape[1]), best, 0 * best[0], seed)


def looked(fed, p, J, **how):
    return alone(local_approx(fed, fed.init_params(), fed.all_clients, p, J, **how))


def test_along_a_bowl_is_a_parabola_and_beta_a_share_of_p():
    """u(xi) = 1 - a (R - xi)^2 with R the distance to the best model, so that xi <= 2 R is at least as good."""
    u, xi = looked(bowls([1.0, 3.0], [[3.0, 4.0], [0.0, 1.0]]), 20.0, 4000)
    assert u.shape == (2, 4001) and xi.shape == (4000,) and xi.min() >= 0 and xi.max() < 20
    R = np.array([5.0, 1.0])[:, None]
    np.testing.assert_allclose(u[:, 1:], 1 - np.array([[1.0], [3.0]]) * (R - xi) ** 2, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(place(u), 1 + (xi <= 2 * R + 1e-6).sum(-1))
    np.testing.assert_allclose(place(u) / 4001, [10 / 20, 2 / 20], atol=0.03)


def test_along_is_flat_where_the_gradient_is_zero_and_drawn_by_seed_and_key():
    fed, other = (bowls([1.0], [[0.0, 0.0]], seed) for seed in (0, 1))
    u, xi = looked(fed, 5.0, 7)
    assert (u == 1).all() and (place(u) == 8).all()
    assert not np.allclose(xi, looked(other, 5.0, 7)[1])
    np.testing.assert_array_equal(xi, looked(fed, 5.0, 7)[1])
    assert not np.allclose(xi, looked(fed, 5.0, 7, key="another")[1])


# The search, and program (2)


def test_rankff_approaches_scipys_solution_of_program_2(table3):
    """Logistic regression on the toy table with alpha of one r, by steps and by SLSQP in double precision."""
    fed, plain = table3
    loss, slopes = equations(fed)
    far = []
    for sigma, lr, rounds in ((10.0, 1.0, 400), (100.0, 1.0, 800), (1000.0, 0.15, 4000)):
        method = RankFF(rounds, lr, sigma0=sigma, growth=1.0, J=40, p=3.0, normalise=False)
        state = descend(fed.one(), method, rounds, plain)
        alpha = state["alpha"]
        served = {"type": "ineq", "fun": lambda c, a=alpha: 1 - loss(c) - a, "jac": lambda c: -slopes(c)}
        exact = optimize.minimize(lambda c: loss(c).sum(), plain.astype(float), jac=lambda c: slopes(c).sum(0),
                                  constraints=[served], method="SLSQP", options={"ftol": 1e-14, "maxiter": 500})  # fmt: skip
        slack = 1 - loss(exact.x) - alpha
        assert exact.success and np.isclose(slack, 0, atol=1e-6).sum() == 1 and slack.min() > -1e-8
        far.append(np.linalg.norm(state.params - exact.x))
    assert np.linalg.norm(plain - exact.x) > 0.3 > far[0] > 2 * far[1] > 8 * far[2]
    assert far[2] < 0.02


def test_normalised_weights_have_the_same_end_and_outlast_a_large_sigma(table3):
    fed, plain = table3
    how = dict(steps=800, lr=1.0, sigma0=100.0, growth=1.0, J=40, p=3.0)
    ours, printed = (descend(fed.one(), RankFF(**how, normalise=n), 800, plain) for n in (True, False))
    np.testing.assert_array_equal(ours["alpha"], printed["alpha"])
    np.testing.assert_allclose(ours.params, printed.params, atol=2e-3)
    how["sigma0"] = 1000.0
    with np.errstate(all="ignore"):
        ours, printed = (descend(fed.one(), RankFF(**how, normalise=n), 800, plain) for n in (True, False))
    assert not np.isfinite(printed.params).all() and np.linalg.norm(ours.params - plain) < 2
    with np.errstate(all="ignore"), pytest.raises(FairFLError, match="not finite"):
        descend(replace(fed, diverged="refuse").one(), RankFF(**how, normalise=False), 800, plain)


@pytest.mark.parametrize("lr", [0.2, 5.0])
def test_the_search_halves_and_keeps_the_model_of_the_smallest_rank_that_was_met(lr):
    """Two agents who want different places: r is met or not by the utilities themselves, checked at the end of each r."""
    steps = 4
    for fed in (bowls([1.0, 1.0], [[-1.0, 0.0], [1.0, 0.0]], seed) for seed in (0, 1)):
        method = RankFF(steps, lr, J=30, p=4.0)
        state, low, high, best, beta = alone(method.start(fed)), 0.0, 1.0, fed.init_params(), 1.0
        for search in range(5):
            for t in range(search * steps + 1, (search + 1) * steps + 1):
                state = alone(method.round(fed, state, t))
            assert state["r"] == (low + high) / 2
            if (1 - alone(fed.losses(state.params)) >= state["alpha"]).all():
                high, best, beta = state["r"], state.params, state["r"]
            else:
                low = state["r"]
            np.testing.assert_array_equal(state["best"], best)
            np.testing.assert_array_equal(method.answer(state), best)
            assert (state["low"], state["high"], state["beta"]) == (low, high, beta)
        assert high - low == 2.0**-5


# CoreFed


def test_corefed_with_equal_utilities_is_fedavg_of_equal_agents(monkeypatch):
    fed = toy(seeds=(0, 1))

    async def equal(self, params, clients, on):
        return np.full(len(clients), 0.2)

    monkeypatch.setattr(OneFederation, "losses", equal)
    first = first_models(fed)
    trained = train(fed, first, 1).astype(np.float64)
    np.testing.assert_allclose(fed.run(CoreFed(), 1, record=()).state.params, trained.mean(1), rtol=1e-5, atol=1e-6)
    longer = first + (trained.mean(1) - first) / 0.8
    np.testing.assert_allclose(fed.run(CoreFed("sum"), 1, record=()).state.params, longer, rtol=1e-5, atol=1e-6)


def test_corefed_by_hand():
    fed = toy()
    first = first_models(fed)
    w = 1 / np.maximum(1 - losses(fed, first), 0.05)
    away = train(fed, first, 1).astype(np.float64) - first[:, None]
    for scaling, whole in (("normalised", w.sum()), ("sum", 4)):
        state = fed.run(CoreFed(scaling), 1, record=()).state
        np.testing.assert_allclose(state.params, first + (w[..., None] * away).sum(1) / whole, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state["weights"], w)
    assert np.ptp(w) > 0.05


def test_a_negative_utility_weighs_as_the_floor_does():
    fed = toy()
    state = fed.run(CoreFed(M=-3.0, floor=0.1), 1, record=()).state
    np.testing.assert_allclose(state["weights"], 10.0)


def test_a_client_without_rows_takes_no_part():
    """Of two runs the second has one client fewer: each is what it is alone, and the one without rows weighs nothing."""
    fed = uneven(ClientTraining("sgd", 0.1, 0.0, 1, 0))
    methods = (CoreFed(), CoreFed("sum"), RankFF(2, 0.3, J=5, p=2.0), RankFF(2, 0.3, 20, J=5, p=2.0, normalise=False))
    for method in methods:
        together = fed.run(method, 6)
        assert (together.state["weights"] > 0).tolist() == [[True, True, True], [True, False, True]]
        assert "alpha" not in together.state.memory or together.state["alpha"][1, 1] == -np.inf
        for r in range(2):
            by_itself = one_run(fed, r).run(method, 6)
            np.testing.assert_array_equal(by_itself.state.params[0], together.state.params[r])
            np.testing.assert_array_equal(by_itself.answer[0], together.answer[r])
            for name in by_itself.state.memory:
                np.testing.assert_array_equal(by_itself.state[name][0], together.state[name][r])


# Images


def pictures(side=28, many=240, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (many, 1, side, side), dtype=np.uint8)
    y = rng.integers(0, 10, many)
    return Images("mnist", x, y.astype(np.int64), many * 2 // 3, "digest")


SMALL = CNN((2, 3), 8)


def agents(angles=(0, 90, 200), seeds=(0, 1), local=None, model=SMALL, **more):
    how = dict(train=12, validation=4, test=9, probe=5, look=6, engine=Plain(model, "numpy")) | more
    return Federation.of_images(pictures(), angles, seeds, local or ClientTraining("sgd", 0.1, 0.01, 2, 5), model, **how)


def layers(theta, channels=(2, 3), hidden=8):
    """SMALL in torch.nn, with the same parameters."""
    a, b = channels
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, a, 5), torch.nn.MaxPool2d(2), torch.nn.ReLU(),
        torch.nn.Conv2d(a, b, 5), torch.nn.MaxPool2d(2), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(16 * b, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10),
    )  # fmt: skip
    torch.nn.utils.vector_to_parameters(torch.tensor(theta), net.parameters())
    return net


@pytest.mark.parametrize(("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)])
def test_agents_train_as_a_plain_loop_does(name, kind):
    fed = agents(local=ClientTraining(name, 0.1, 0.01, 2, 5))
    theta = first_models(fed)
    trained = train(fed, theta, 3)
    for run, k in np.ndindex(2, 3):
        net, held = layers(theta[run]), fed.shards["train"].rows(run, k)
        x, y = torch.as_tensor(fed.shards["train"].X[held] / np.float32(255)), torch.as_tensor(fed.shards["train"].y[held]).long()
        optimizer = kind(net.parameters(), lr=0.1, weight_decay=0.01)
        rng = np.random.default_rng(keys(fed.seeds[run], "train", 3, 3)[k])
        for _ in range(2):
            for batch in torch.as_tensor(rng.permutation(12)).split(5):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
                optimizer.step()
        ours = torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy()
        np.testing.assert_allclose(trained[run, k], ours, atol=1e-5)


def test_fit_has_momentum_and_a_rate_that_falls_as_half_a_cosine():
    images = pictures(many=30)
    x, y = torch.as_tensor(images.x), torch.as_tensor(images.y)
    theta = SMALL.init(np.random.default_rng(0))
    seen = ((x, order) for order in passes(30, 2, 8, np.uint64(5), "numpy"))
    local = ClientTraining("sgd", 0.05, epochs=2, batch_size=8, momentum=0.9, schedule="cosine")
    ours = fit(SMALL, theta, seen, y, Pixels(), local, lr=0.05)
    net, rng = layers(theta), np.random.default_rng(5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    for _ in range(2):
        for batch in torch.as_tensor(rng.permutation(30)).split(8):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[batch] / 255), y[batch]).backward()
            optimizer.step()
            falling.step()
    np.testing.assert_allclose(ours, torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy(), atol=1e-5)


def test_images_of_a_model_set_are_turned_anew_within_an_angle():
    images = pictures(many=20)
    x, y = torch.as_tensor(images.x), torch.as_tensor(images.y)
    theta = SMALL.init(np.random.default_rng(0))
    models = ModelSet("mnist", "random", 2, 90, SMALL, images=20, epochs=2, batch=0, lr=0.05)
    local = ClientTraining("sgd", 0.05, epochs=2, batch_size=0)
    turned = fit(SMALL, theta, models._seen(x, 90.0, np.random.default_rng(5)), y, Pixels(), local, lr=0.05)
    rng, plain = np.random.default_rng(5), theta
    for _ in range(2):
        seen = rotate(x, torch.as_tensor(rng.uniform(-90, 90, 20)))
        plain = fit(SMALL, plain, [(seen, rng.permutation(20))], y, Pixels(), replace(local, epochs=1), lr=0.05)
    np.testing.assert_allclose(turned, plain, atol=1e-6)
    upright = [(x, order) for _, order in models._seen(x, 90.0, np.random.default_rng(5))]
    assert np.abs(turned - fit(SMALL, theta, upright, y, Pixels(), local, lr=0.05)).max() > 1e-4


def test_slopes_of_images_are_autograds_and_a_batch_is_a_batch():
    fed = agents(train=130, validation=0, angles=(0,), seeds=(0,))  # more than go through the network together
    theta = first_models(fed)
    net, held = layers(theta[0]), fed.shards["train"].rows(0, 0)
    x, y = torch.as_tensor(fed.shards["train"].X[held] / np.float32(255)), torch.as_tensor(fed.shards["train"].y[held]).long()
    loss, slope = gradient(fed, theta)
    whole = torch.nn.functional.cross_entropy(net(x), y)
    whole.backward()
    np.testing.assert_allclose(loss[0, 0], whole.item(), rtol=1e-5)
    np.testing.assert_allclose(slope[0, 0], torch.cat([p.grad.ravel() for p in net.parameters()]), atol=1e-5)
    np.testing.assert_allclose(loss, losses(fed, theta), rtol=1e-5)
    some, _ = gradient(fed, theta, t=4, batch=10)
    rows_ = np.random.default_rng(keys(0, "slopes", 4, 1)[0]).permutation(130)[:10]
    each = losses_of(SMALL, theta[0], x.mul(255).round().byte(), y, Pixels())
    np.testing.assert_allclose(some[0, 0], each[rows_].mean(), rtol=1e-4)


def test_losses_of_images_in_all_shapes():
    fed = agents()
    own = np.stack([scale * first_models(fed) for scale in (1, 0.5, 2)], 1).astype(np.float32)
    crossed, each = losses(fed, own, "test", each_model=True), losses(fed, own, "test")
    assert crossed.shape == (2, 3, 3) and each.shape == (2, 3)
    for m in range(3):
        np.testing.assert_allclose(crossed[:, m], losses(fed, own[:, m], "test"))
        np.testing.assert_allclose(crossed[:, m, m], each[:, m])
    first = replace(fed, shards={**fed.shards, "test": fed.shards["test"].head(6)})
    np.testing.assert_allclose(losses(first, own[:, 0], "test"), losses(fed, own[:, 0], "look"))
    net, held = layers(own[1, 2]), fed.shards["test"].rows(1, 2)
    x, y = torch.as_tensor(fed.shards["test"].X[held] / np.float32(255)), torch.as_tensor(fed.shards["test"].y[held]).long()
    np.testing.assert_allclose(each[1, 2], torch.nn.functional.cross_entropy(net(x), y).item(), rtol=1e-5)
    right = (net(x).argmax(1) == y).double().mean().item()
    assert metrics.accuracy(confusion(fed, own[:, 2], "test"))[1, 2] == right


def test_agents_share_no_image_and_see_it_turned():
    images, fed = pictures(), agents(skip=10)
    dealt = [deal(0, "train", 10, 160, 3, 16), deal(0, "test", 160, 240, 3, 9)]
    assert len(np.unique(np.concatenate(dealt[0]))) == 48 and min(map(min, dealt[0])) >= 10 and max(map(max, dealt[0])) < 160
    assert min(map(min, dealt[1])) >= 160
    for k, quarter in ((0, 0), (1, 1)):  # 0 and 90 degrees
        held = fed.shards["train"].rows(0, k)
        np.testing.assert_array_equal(fed.shards["train"].X[held], np.rot90(images.x[dealt[0][k][:12]], quarter, (2, 3)))
        np.testing.assert_array_equal(fed.shards["train"].y[held], images.y[dealt[0][k][:12]])
    assert [fed.shards[p].sizes[0, 0] for p in ("train", "validation", "test", "probe", "look")] == [12, 4, 9, 5, 6]
    np.testing.assert_array_equal(fed.shards["probe"].rows(0, 1), fed.shards["train"].rows(0, 1)[:5])


def test_a_given_first_model_is_where_all_start():
    first = SMALL.init(np.random.default_rng(9))
    np.testing.assert_array_equal(first_models(agents(init_params=first)), np.stack([first, first]))
    assert not np.allclose(*first_models(agents()))


@settings(max_examples=25)
@given(st.floats(-400, 400), st.sampled_from([1, 3]), st.integers(0, 2**32 - 1))
def test_rotate_is_scipys(degrees, channels, seed):
    x = np.random.default_rng(seed).random((2, channels, 9, 9)).astype(np.float32)
    there = ndimage.rotate(x, degrees, axes=(3, 2), reshape=False, order=1, mode="grid-constant", prefilter=False)
    np.testing.assert_allclose(rotate(torch.as_tensor(x), degrees).numpy(), there, atol=2e-3)


def test_rotate_by_quarters_is_exact_and_by_turns_is_nothing():
    x = torch.as_tensor(pictures(many=6).x)
    for turns in (-360, 0, 360, 720):
        assert rotate(x, turns) is x
    for quarter in (1, 2, 3, 5):
        turned = rotate(x, 90 * quarter)
        assert turned.dtype == torch.uint8
        np.testing.assert_array_equal(turned, np.rot90(x, quarter, (2, 3)))
    each = rotate(x, [0, 90, 0, 180, 30, 0])
    np.testing.assert_array_equal(each[[0, 2, 5]], x[[0, 2, 5]])
    np.testing.assert_array_equal(each[1], np.rot90(x[1], 1, (1, 2)))


def elsewhere() -> tuple[int, np.ndarray]:
    """Turned images, many of whose pixels are halves before they are rounded, and a model learnt in double precision."""
    ramps = [a * np.add.outer(np.arange(28), b * np.arange(28)) % 256 for a in range(1, 9) for b in (-1, 0, 1)]
    x = rotate(torch.as_tensor(np.array(ramps, np.uint8)[:, None]), 60)
    fed = agents(angles=(0, 60, 200), seeds=(0,), local=ClientTraining("sgd", 0.2, 0.0, 4, 4), model=CNN((2, 3), 8, double=True))
    return zlib.crc32(x.numpy().tobytes()), fed.run(RankFF(10, 0.3, 6), 40, record=()).state.params


def test_double_precision_learns_the_same_with_other_instructions(tmp_path):
    """A machine without AVX, as far as torch, MKL and oneDNN can be told to be one."""
    script = "import sys, numpy as np, test_rankff_continuous as t; a, b = t.elsewhere(); np.savez(sys.argv[1], a=a, b=b)"
    other = {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "DNNL_MAX_CPU_ISA": "SSE41",
    }
    kept = tmp_path / "there.npz"
    subprocess.run([sys.executable, "-c", script, kept], env=os.environ | other, check=True)
    there, (pixels, params) = np.load(kept), elsewhere()
    assert params.dtype == np.float64 and there["a"] == pixels
    np.testing.assert_allclose(params, there["b"], rtol=0, atol=1e-9)


def test_pool_is_max_pool_with_and_without_learning():
    x = torch.randn(3, 4, 8, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        np.testing.assert_array_equal(pool(x), torch.nn.functional.max_pool2d(x, 2))
        np.testing.assert_array_equal(pool(channels_last(x)), torch.nn.functional.max_pool2d(x, 2))
    one = x[:, :1]
    assert channels_last(one).shape == one.shape and torch.equal(channels_last(one), one)


def test_networks_are_as_large_as_their_layers():
    assert CNN().size == 250 + 10 + 5000 + 20 + 16_000 + 50 + 500 + 10
    convolutions = sum(9 * i * o + o for i, o in zip((3, 64, 128, 256, 256, 512, 512, 512), VGG11().channels, strict=True))
    assert VGG11().size == convolutions + 512 * 10 + 10 == 9_225_610
    assert VGG11(1 / 8).channels == [8, 16, 32, 32, 64, 64, 64, 64]
    logits = VGG11(1 / 8).forward(torch.as_tensor(VGG11(1 / 8).init(np.random.default_rng(0))), torch.rand(2, 3, 32, 32))
    assert logits.shape == (2, 10) and torch.isfinite(logits).all()


def test_pixels_are_brought_to_each_datasets_scale():
    x = np.array([0, 255], np.uint8).reshape(2, 1, 1, 1)
    np.testing.assert_array_equal(Pixels.of("mnist")(x).ravel(), [0, 1])
    colour = Pixels.of("cifar10")(np.full((1, 3, 1, 1), 51, np.uint8)).ravel()
    np.testing.assert_allclose(colour, (0.2 - np.array([0.4914, 0.4822, 0.4465])) / [0.2470, 0.2435, 0.2616], rtol=1e-5)


# The runs of Table 2, made small


def test_table_2_with_little_images():
    fed = agents(local=ClientTraining("sgd", 0.1, 0.0, 1, 5))
    how = replace(SETTINGS["mnist"], searches=2, steps=3, sample=4, rounds=2)
    for name in ("fedavg", "corefed", "corefed-sum", "rankff"):
        method, rounds = learner(name, how)
        assert (method.name, rounds) == (name, 6 if name == "rankff" else 2)
        state = fed.run(replace(method, J=5) if name == "rankff" else method, rounds, record=()).state
        assert np.isfinite(state.params).all()
    one = agents(seeds=(0,)).one()
    theta = one.init_params()
    u = 1 - alone(one.losses(theta, on="test"))
    found = measured(one, theta)
    assert found["sum"] == pytest.approx(u.sum()) and found["worst"] == pytest.approx(u.min())
    assert found["rank"] == pytest.approx(found["beta"] - 1 / 101) and found["beta"] == ray_beta(one, theta)
    assert 101 * found["beta"] == pytest.approx(round(101 * found["beta"]))
    assert found["accuracy"] == metrics.accuracy(alone(one.confusion(theta, on="test"))).mean()


def test_fedavg_on_images_is_the_mean_of_what_agents_learnt():
    fed = agents()
    state = fed.run(FedAvg(), 1, record=()).state
    np.testing.assert_allclose(state.params, train(fed, first_models(fed), 1).mean(1), atol=1e-6)


def test_a_hundred_agents_repeat_the_list_of_ten():
    assert rotations("high", 100) == ROTATIONS["high"] * 10 and len(set(ROTATIONS["high"])) == 8


# Bad input


BAD = [
    (lambda: RankFF(steps=0), "steps must be a whole number of at least 1"),
    (lambda: RankFF(lr=0.0), "lr must be above 0"),
    (lambda: RankFF(sigma0=-1.0), "sigma0 must be at least 0"),
    (lambda: CoreFed("mean"), "CoreFed scaling"),
    (lambda: CoreFed(floor=0.0), "floor must be above 0"),
    (lambda: looked(bowls([1.0], [[0.0]]), 0.0, 5), "p must be above 0"),
    (lambda: looked(bowls([1.0], [[0.0]]), 1.0, 0), "J must be a whole number of at least 1"),
    (lambda: agents(train=60), "3 clients cannot have 64 train images each, there are 160 in all"),
    (lambda: agents(test=40), "3 clients cannot have 40 test images"),
    (lambda: losses(agents(), first_models(agents()), "tset"), "test"),
    (lambda: Pixels.of("mnits"), "mnist"),
    (lambda: rotations("medium"), "instance"),
    (lambda: learner("fedsgd", SETTINGS["mnist"]), "method of RankFF"),
]


@pytest.mark.parametrize(("call", "says"), BAD, ids=[says for _, says in BAD])
def test_bad_input_is_said_in_one_sentence(call, says):
    with pytest.raises(FairFLError) as caught:
        call()
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_model_that_left_the_numbers_is_last():
    nan = float("nan")
    assert place(np.array([[nan, 0.1, nan, 0.3], [0.2, nan, 0.3, 0.1]])).tolist() == [4, 2]


def test_agents_need_no_validation_images():
    images = Images("mnist", np.zeros((8, 1, 28, 28), np.uint8), np.arange(8) % 2, 6, "toy")
    fed = Federation.of_images(images, (0, 20), [0], ClientTraining("sgd", 0.1, 0.0, 1, 2), CNN((2, 2), 3), train=3, test=1)
    assert fed.shards["validation"].sizes.tolist() == [[0, 0]] and fed.sizes().tolist() == [[3, 3]]
