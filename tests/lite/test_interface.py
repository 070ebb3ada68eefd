"""What people write themselves: a model that no engine knows, and a method that forgets something."""

from asyncio import sleep
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from asking import confusion, first_models, train

from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Partition, Table
from fairfl_lite.engines import Plain
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State
from fairfl_lite.methods import FedAvg

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
