"""What other papers ask of a federation, each in its own terms and on one screen: no method needs a special case."""

from dataclasses import dataclass

import numpy as np
import torch
from test_engine import federation

from fairfl_lite.clients import Local
from fairfl_lite.data import Partition, Table
from fairfl_lite.federation import Federation, State
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


@dataclass(frozen=True)
class QFedAvg:
    """Loss-weighted steps; q = 0 is the plain mean of the clients' models."""

    q: float
    name: str = "q-fedavg"

    def start(self, fed):
        return State(fed.start())

    def round(self, fed, state, t):
        loss, L = fed.losses(state.params)[..., None] + 1e-10, 1 / fed.local.lr
        g = L * (state.params[:, None] - fed.train(state.params, t))
        h = self.q * loss ** (self.q - 1) * (g**2).sum(-1, keepdims=True) + L * loss**self.q
        return State((state.params - (loss**self.q * g).sum(1) / h.sum(1)).astype(np.float32))


def test_q_fedavg_with_q_zero_is_the_plain_mean():
    fed = toy()
    expected = fed.train(fed.start(), 1).mean(1)
    np.testing.assert_allclose(fed.run(QFedAvg(0.0), 1).state.params, expected, atol=1e-6)


def test_gradients_of_loss_and_of_bias_make_a_common_descent_direction():
    """EFFL's shape: a direction that lowers every client's loss, from their gradients alone."""
    fed = toy()
    params, sizes = fed.start(), fed.sizes
    mean = fed.shards["train"].weighted(np.ones((*sizes.shape, 2, 2)) / sizes[..., None, None])
    g = fed.gradients(params, on=mean)
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
    assert fed.engine == "reference"
    personal = fed.train(fed.train(fed.start(), 1), 2)  # [run, client, P] in, [run, client, P] out
    assert personal.shape == (1, 3, 27) and np.abs(personal - fed.start()[:, None]).max() > 1e-3
    assert fed.report(personal).sum() == fed.sizes.sum()
    assert fed.run(FedAvg(), 2).counts["test"].shape == (1, 2, 3, 2, 2, 2)
