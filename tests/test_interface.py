"""What other papers ask of a federation, each in its own terms and on one screen: no method needs a special case."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from test_engine import federation
from test_federation import QFFL

from fairfl_lite.clients import Local
from fairfl_lite.data import Partition, Table
from fairfl_lite.engines import Plain, mean_loss
from fairfl_lite.federation import Federation, Method, State
from fairfl_lite.methods import FedAvg


def table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n).astype(np.int8)
    X = rng.normal(size=(n, d)).astype(np.float32)
    y = (X[:, 0] + 0.5 * a + 0.5 * rng.normal(size=n) > 0).astype(np.int8)
    return Table("toy", X, y, a, tuple("abcdefghijklmnopqrstuvwxyz"[:d]), "a", {}, "digest")


def toy(**options):
    rows = Partition.dirichlet(5.0, 4)
    return Federation.of(table(), rows, (0, 1), Local("sgd", 0.1, 0, 2, 10), validation=0.25, **options)


def test_q_ffl_with_q_zero_is_the_plain_mean():
    fed = toy()
    expected = fed.train(fed.start(), 1).mean(1)
    np.testing.assert_allclose(fed.run(QFFL(0.0), 1).answer, expected, atol=1e-6)


@dataclass(frozen=True)
class Ditto(Method):
    """Ditto's shape: a personal model for each client, drawn toward the server's; they are what it answers."""

    pull: float
    name: str = "ditto"

    def start(self, fed):
        return State(fed.start(), {"own": np.repeat(fed.start()[:, None], fed.clients, axis=1)})

    def round(self, fed, state, t):
        near = replace(fed.local, prox=self.pull)
        own = fed.train(state["own"], t, local=near, toward=state.params)
        return State(fed.average(fed.train(state.params, t), fed.sizes()), {"own": own})

    def answer(self, state):
        return state["own"]


def test_personal_models_are_what_ditto_answers():
    fed = toy()
    alone, near = fed.run(Ditto(0.0), 3), fed.run(Ditto(5.0), 3)
    expected = np.repeat(fed.start()[:, None], 4, axis=1)
    for t in (1, 2, 3):
        expected = fed.train(expected, t)
    np.testing.assert_array_equal(alone.answer, expected)  # without a pull: everybody for itself
    away = [np.abs(h.answer - h.state.params[:, None]).mean() for h in (alone, near)]
    assert away[1] < 0.7 * away[0]
    np.testing.assert_array_equal(near.counts["test"][:, -1], fed.report(near.answer, "test"))


def test_gradients_of_loss_and_of_bias_make_a_common_descent_direction():
    """EFFL's shape: a direction that lowers every client's loss, from their gradients alone."""
    fed = toy()
    params = fed.start()

    def both(logits, y, a):  # the loss, and a smooth gap between the groups' rates among the positive rows
        rate = torch.sigmoid(logits)
        return torch.stack([mean_loss(logits, y, a), rate[(a == 0) & (y == 1)].mean() - rate[(a == 1) & (y == 1)].mean()])

    (loss, gap), (g, slope) = (np.moveaxis(found, 2, 0) for found in fed.gradient(params, both))
    np.testing.assert_allclose(loss, fed.losses(params), rtol=1e-5)
    moved, _ = fed.gradient((params[:, None] - 0.01 * np.sign(gap)[..., None] * slope).astype(np.float32), both)
    assert (np.abs(moved[..., 1]) < np.abs(gap)).all()
    for run in range(2):
        weights = np.full(4, 0.25)
        for _ in range(500):  # Frank-Wolfe on the Gram matrix: the shortest convex combination
            worst = (g[run] @ (weights @ g[run])).argmin()
            weights = 0.99 * weights + 0.01 * np.eye(4)[worst]
        step = np.array(params)
        step[run] -= 1e-3 * weights @ g[run]
        assert (fed.losses(step)[run] < fed.losses(params)[run]).all()


def test_utilities_of_many_models_for_every_agent():
    """RankFF's shape: every agent ranks every model."""
    fed = federation([30, 40, 50], features=3, runs=1)
    models = np.random.default_rng(0).normal(size=(1, 25, fed.model.size)).astype(np.float32)
    utility = -fed.losses(models, cross=True)
    assert utility.shape == (1, 25, 3)
    best = utility[0, :, 1].argmax()
    alone = [-fed.losses(models[:, m])[0, 1] for m in range(25)]
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
    fed = Federation.of(rows, Partition.dirichlet(50.0, 3), (0,), Local("sgd", 0.1, 0, 1, 8), model=Masked())
    assert isinstance(fed._engine, Plain)
    personal = fed.train(fed.train(fed.start(), 1), 2)  # [run, client, P] in, [run, client, P] out
    assert personal.shape == (1, 3, 27) and np.abs(personal - fed.start()[:, None]).max() > 1e-3
    assert fed.report(personal).sum() == fed.sizes().sum()
    assert fed.run(FedAvg(), 2).counts["test"].shape == (1, 2, 3, 2, 2, 2)
