"""What other papers ask of a federation, each in its own terms and on one screen: no method needs a special case."""

from asyncio import sleep
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from asking import confusion, first_models, gradient, losses, train
from toy import federation

from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Partition, Table
from fairfl_lite.engines import Plain, mean_loss
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State
from fairfl_lite.methods import QFFL, FedAvg

pytestmark = pytest.mark.slow


def table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n).astype(np.int8)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] + 0.5 * a + 0.5 * rng.normal(size=n) > 0).astype(np.int8)
    return Table("toy", X, y, a, tuple("abcdefghijklmnopqrstuvwxyz"[:d]), "a", {}, "digest")


def toy(**options):
    rows = Partition.dirichlet(5.0, 4)
    return Federation.of(table(), rows, (0, 1), ClientTraining("sgd", 0.1, 0, 2, 10), validation=0.25, **options)


def test_q_ffl_with_q_zero_is_the_plain_mean():
    fed = toy()
    expected = train(fed, first_models(fed), 1).mean(1)
    np.testing.assert_allclose(fed.run(QFFL(0.0), 1).answer, expected, atol=1e-6)


@dataclass(frozen=True)
class Ditto(Method):
    """Ditto's shape: a personal model for each client, drawn toward the server's; they are what it answers."""

    pull: float
    name: str = "ditto"

    async def start(self, fed):
        return State(fed.init_params(), {"own": np.repeat(fed.init_params()[None], fed.n, axis=0)})

    async def round(self, fed, state, t):
        clients, near = fed.all_clients, replace(fed.local, prox=self.pull)
        own = await fed.train(state["own"], clients, t, local=near, toward=state.params)
        local = await fed.train(state.params, clients, t)
        return State(fed.average(local, fed.sizes(clients)), {"own": own})

    def answer(self, state):
        return state["own"]


def test_personal_models_are_what_ditto_answers():
    fed = toy()
    alone, near = fed.run(Ditto(0.0), 3), fed.run(Ditto(5.0), 3)
    expected = np.repeat(first_models(fed)[:, None], 4, axis=1)
    for t in (1, 2, 3):
        expected = train(fed, expected, t)
    np.testing.assert_array_equal(alone.answer, expected)  # without a pull: everybody for itself
    away = [np.abs(h.answer - h.state.params[:, None]).mean() for h in (alone, near)]
    assert away[1] < 0.7 * away[0]
    np.testing.assert_array_equal(near.counts["test"][:, -1], confusion(fed, near.answer, "test"))


def test_gradients_of_loss_and_of_bias_make_a_common_descent_direction():
    """EFFL's shape: a direction that lowers every client's loss, from their gradients alone."""
    fed = toy()
    params = first_models(fed)

    def both(logits, y, a):  # the loss, and a smooth gap between the groups' rates among the positive rows
        rate = torch.sigmoid(logits)
        return torch.stack([mean_loss(logits, y, a), rate[(a == 0) & (y == 1)].mean() - rate[(a == 1) & (y == 1)].mean()])

    (loss, gap), (g, slope) = (np.moveaxis(found, 2, 0) for found in gradient(fed, params, both))
    np.testing.assert_allclose(loss, losses(fed, params), rtol=1e-5)
    moved, _ = gradient(fed, (params[:, None] - 0.01 * np.sign(gap)[..., None] * slope).astype(np.float32), both)
    assert (np.abs(moved[..., 1]) < np.abs(gap)).all()
    for run in range(2):
        weights = np.full(4, 0.25)
        for _ in range(500):  # Frank-Wolfe on the Gram matrix: the shortest convex combination
            worst = (g[run] @ (weights @ g[run])).argmin()
            weights = 0.99 * weights + 0.01 * np.eye(4)[worst]
        step = np.array(params)
        step[run] -= 1e-3 * weights @ g[run]
        assert (losses(fed, step)[run] < losses(fed, params)[run]).all()


def test_utilities_of_many_models_for_every_agent():
    """RankFF's shape: every agent ranks every model."""
    fed = federation([30, 40, 50], features=3, runs=1)
    models = np.random.default_rng(0).normal(size=(1, 25, fed.model.size)).astype(np.float32)
    utility = -losses(fed, models, each_model=True)
    assert utility.shape == (1, 25, 3)
    best = utility[0, :, 1].argmax()
    alone = [-losses(fed, models[:, m])[0, 1] for m in range(25)]
    assert best == int(np.argmax(alone))


@dataclass(frozen=True)
class Masked:
    """E2FL's shape: fixed convolution weights, scores as parameters, the better half of them open (straight through)."""

    side: int = 4
    filters: int = 3
    classes: int = 2

    @property
    def size(self):
        return self.filters * 9

    def init(self, rng):
        return np.abs(rng.normal(size=self.size)).astype(np.float32)

    def forward(self, params, X):
        fixed = torch.linspace(-1, 1, self.size)
        hard = (params.abs() >= params.abs().median()).to(params.dtype)
        mask = hard + params.abs() - params.abs().detach()
        kernel = (fixed * mask).reshape(self.filters, 1, 3, 3)
        image = X.reshape(-1, 1, self.side, self.side)
        return torch.nn.functional.conv2d(image, kernel, padding=1).amax((2, 3)).sum(1)


def test_convolutional_supermasks_and_personal_models_go_through_the_same_calls():
    rows = table(n=120, d=16)
    fed = Federation.of(rows, Partition.dirichlet(50.0, 3), (0,), ClientTraining("sgd", 0.1, 0, 1, 8), model=Masked())
    assert isinstance(fed._engine, Plain)
    personal = train(fed, train(fed, first_models(fed), 1), 2)  # [run, client, P] in, [run, client, P] out
    assert personal.shape == (1, 3, 27) and np.abs(personal - first_models(fed)[:, None]).max() > 1e-3
    assert confusion(fed, personal).sum() == fed.sizes().sum()
    assert fed.run(FedAvg(), 2).counts["test"].shape == (1, 2, 3, 2, 2, 2)


async def nothing(fed, state, t):
    await fed.train(state.params, fed.all_clients, t)


async def bare(fed, state, t):
    return fed.average(await fed.train(state.params, fed.all_clients, t), 1.0)


async def not_awaited(fed, state, t):
    clients = fed.all_clients
    return State(fed.average(await fed.train(fed.train(state.params, clients, t), clients, t), 1.0))


async def summed(fed, state, t):
    return State(fed.sum(fed.train(state.params, fed.all_clients, t), np.ones(len(fed.all_clients))))


async def averaged(fed, state, t):
    return State(fed.average(fed.train(state.params, fed.all_clients, t), 1.0))


async def remembered(fed, state, t):
    return State(state.params, {"losses": fed.losses(state.params)})


async def slept(fed, state, t):
    await sleep(0)
    return state


@pytest.mark.parametrize(("round", "said"), [
    (summed, "answer to train was not awaited: write `await`"),
    (averaged, "answer to train was not awaited: write `await`"),
    (remembered, "answer to losses was not awaited: write `await`"),
    (slept, "await answers of its clients and nothing else"),
    (nothing, r"A round of forgetful must return a State\(params, memory\), not NoneType"),
    (bare, r"A round of forgetful must return a State\(params, memory\), not ndarray"),
    (not_awaited, "answer to train was not awaited: write `await`"),
])  # fmt: skip
def test_a_method_that_forgets_something_is_told(round, said):
    class Forgetful(Method):
        name = "forgetful"

        async def start(self, fed):
            return State(fed.init_params())

        async def round(self, fed, state, t):
            return await round(fed, state, t)

    with pytest.raises(FairFLError, match=said):
        toy().run(Forgetful(), 1)


def test_a_method_without_async_is_told():
    class Plain(Method):
        name = "plain"

        def start(self, fed):
            return State(fed.init_params())

        def round(self, fed, state, t):
            return state

    with pytest.raises(FairFLError, match="write `async def` before start and round"):
        toy().run(Plain(), 1)
