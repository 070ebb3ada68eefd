"""The kernels of RankFF's network against torch's autograd and optimisers, in double precision where rounding would hide."""

from dataclasses import replace

import numba
import numpy as np
import pytest
import torch
from asking import confusion, first_models, gradient, logits, losses, train
from numba import njit
from torch.nn.functional import cross_entropy

from fairfl_lite import engines
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Images
from fairfl_lite.engines import Convolution, Plain, convolution, fit, losses_of, plain
from fairfl_lite.engines.simd import LANES, alive, load, pair, pick, relu, store, transpose
from fairfl_lite.federation import Federation, Pixels
from fairfl_lite.methods import FedAvg
from fairfl_lite.models import CNN, LeNet

pytestmark = pytest.mark.slow

ROWS = 75
NETWORKS = [CNN(), CNN((2, 3), 8), CNN((1, 1), 2), CNN((15, 7), 11)]


def digits(rows=ROWS, seed=0):
    """Blurred noise in a black frame: large black areas, where all four pixels of a window are alike."""
    rng = np.random.default_rng(seed)
    x = np.zeros((rows, 1, 28, 28), np.uint8)
    x[:, :, 6:22, 6:22] = rng.integers(0, 256, (rows, 1, 16, 16)) * (rng.random((rows, 1, 16, 16)) < 0.7)
    return x, rng.integers(0, 10, rows)


def biased(model, seed=1):
    """Parameters with biases that are not 0, so that a bias in the wrong place is seen."""
    rng = np.random.default_rng(seed)
    return (model.init(rng) + 0.05 * rng.normal(size=model.size)).astype(np.float32)


def by_hand(model, theta, x, y, orders, local, lr, weight=None, toward=None):
    """torch.optim.SGD and a scheduler of torch's own, in double precision."""
    params = torch.tensor(theta.astype(np.float64), requires_grad=True)
    anchor = torch.as_tensor(theta if toward is None else toward).double()
    optimizer = torch.optim.SGD([params], lr=lr, momentum=local.momentum, weight_decay=local.weight_decay)
    size = local.batch_size or len(y)
    steps = local.epochs * -(-len(y) // size)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    exact = replace(model, double=True)
    for order in orders:
        for rows in torch.as_tensor(order).split(size):
            optimizer.zero_grad()
            share = torch.ones(len(rows)) if weight is None else weight[rows]
            losses = cross_entropy(
                exact.forward(params, torch.as_tensor(x)[rows] / 255.0), torch.as_tensor(y)[rows], reduction="none"
            )
            loss = (share * losses).mean() + 0.5 * local.prox * (params - anchor).square().sum()
            loss.backward()
            optimizer.step()
            if local.schedule == "cosine":
                falling.step()
    return params.detach().numpy()


def close(ours, exact, theta):
    """Alike to 1e-5 of the way that was gone, or of the largest step of any parameter."""
    np.testing.assert_allclose(ours - theta, exact - theta, rtol=1e-3, atol=1e-5 * np.abs(exact - theta).max() + 1e-7)


@pytest.mark.parametrize("model", NETWORKS, ids=str)
def test_losses_are_torchs(model):
    (x, y), theta = digits(), biased(model)
    exact = cross_entropy(replace(model, double=True).forward(torch.as_tensor(theta).double(), torch.as_tensor(x) / 255.0),
                          torch.as_tensor(y), reduction="none")  # fmt: skip
    ours = losses_of(model, theta, torch.as_tensor(x), torch.as_tensor(y), Pixels())
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-5)
    some = losses_of(model, theta, torch.as_tensor(x[:3]), torch.as_tensor(y[:3]), Pixels())
    np.testing.assert_array_equal(some, ours[:3])  # whatever else is in the block
    read = Pixels((0.13,), (0.31,))
    there = plain.losses_of(model, theta, torch.as_tensor(x), torch.as_tensor(y), read)
    np.testing.assert_allclose(losses_of(model, theta, torch.as_tensor(x), torch.as_tensor(y), read), there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("prox", [0.0, 0.3])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.02), (0.5, 0.0), (0.0, 0.1)])
@pytest.mark.parametrize("batch", [0, 5, 16, 32])
def test_training_is_torchs(batch, momentum, decay, schedule, prox, weighted):
    """A last batch of other size for 32 (11 rows) and for 16; blocks with lanes to spare for 5."""
    (x, y), model = digits(43), NETWORKS[1]
    theta, rng = biased(model), np.random.default_rng(3)
    orders = [rng.permutation(43) for _ in range(2)]
    weight = torch.as_tensor(rng.exponential(size=43)) if weighted else None
    toward = (theta + rng.normal(0, 0.1, theta.size)).astype(np.float32) if prox and weighted else None
    local = ClientTraining("sgd", 0.05, decay, 2, batch, momentum=momentum, prox=prox, schedule=schedule)
    given = dict(lr=0.05, weight=weight, toward=toward)
    ours = fit(model, theta, [(torch.as_tensor(x), order) for order in orders], torch.as_tensor(y), Pixels(), local, **given)
    close(ours, by_hand(model, theta, x, y, orders, local, **given), theta)


@pytest.mark.parametrize("model", NETWORKS, ids=str)
def test_training_every_network_is_torchs(model):
    (x, y), theta = digits(), biased(model)
    orders = [np.random.default_rng(0).permutation(ROWS)]
    local = ClientTraining("sgd", 0.05, 0.01, 1, 32, momentum=0.9)
    ours = fit(model, theta, [(x, orders[0])], torch.as_tensor(y), Pixels(), local, lr=0.05)
    close(ours, by_hand(model, theta, x, y, orders, local, 0.05), theta)
    other = fit(model, theta, [(x, orders[0][::-1])], torch.as_tensor(y), Pixels(), local, lr=0.05)
    assert np.abs(other - ours).max() > 1e-4  # the order counts


def test_what_the_kernels_cannot_do_is_plain_torchs(monkeypatch):
    (x, y), called = digits(20), []
    monkeypatch.setattr(convolution, "_train", lambda *given: called.append(given))
    small, sgd = CNN((2, 3), 8), ClientTraining("sgd", 0.1, 0, 1, 8)
    seen, float_x = [(torch.as_tensor(x), np.arange(20))], [(torch.as_tensor(x).float(), np.arange(20))]
    wide = CNN((16, 3), 8)
    cases = [(small, np.float32, seen, replace(sgd, optimizer="adam")), (replace(small, double=True), np.float64, seen, sgd),
             (small, np.float32, float_x, sgd), (wide, np.float32, seen, sgd)]  # fmt: skip
    for model, kind, images, local in cases:
        theta = biased(model).astype(kind)
        found = [f(model, theta, images, torch.as_tensor(y), Pixels(), local, lr=0.1) for f in (fit, plain.fit)]
        np.testing.assert_array_equal(*found)
        assert not called and found[0].dtype == kind
    fit(small, biased(small), seen, torch.as_tensor(y), Pixels(), sgd, lr=0.1)
    assert called
    assert isinstance(engines.get("fused", small), Convolution) and isinstance(engines.get("plain", small), Plain)
    for other in (LeNet(), wide, replace(small, double=True)):
        assert engines.get("fused", other, "numpy") == Plain(other, "numpy")


def test_one_of_equal_pixels_gets_the_slope():
    """Black and white pixels and convolutions in eighths: no sum is rounded, and other patches give the same one. Torch lets the
    first through."""
    rng, model = np.random.default_rng(0), CNN((2, 3), 8)
    x, y = (255 * (rng.random((20, 1, 28, 28)) < 0.5)).astype(np.uint8), np.arange(20) % 10
    theta, cut = biased(model), 2 * 25 + 2 + 3 * 50 + 3
    theta[:cut] = rng.integers(-2, 4, cut) / 8
    first = torch.conv2d(torch.as_tensor(x) / 255.0, torch.as_tensor(theta[:50]).view(2, 1, 5, 5))
    windows = first.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
    assert ((windows == windows.amax(4, keepdim=True)).sum(4) > 1).float().mean() > 0.1
    local = ClientTraining("sgd", 0.1, 0, 1, 0)
    exact = by_hand(model, theta, x, y, [np.arange(20)], local, 0.1)
    close(fit(model, theta, [(x, np.arange(20))], torch.as_tensor(y), Pixels(), local, lr=0.1), exact, theta)


def agents(engine="fused", sizes=(33, 16, 5), model=NETWORKS[1], local=None, seeds=(0, 1)):
    x, y = digits(240)
    images = Images("mnist", x, y.astype(np.int64), 160, "digest")
    local = local or ClientTraining("sgd", 0.1, 0.01, 2, 8, momentum=0.5)
    fed = Federation.of_images(images, (0, 40, 90), seeds, local, model, train=max(sizes), test=20, engine=engine)
    train = fed.shards["train"]
    keep = np.concatenate([train.rows(r, k)[:n] for r in range(len(seeds)) for k, n in enumerate(sizes)])
    first = np.concatenate([[0], np.cumsum(sizes * len(seeds))])
    first = np.stack([first[r * 3 : r * 3 + 4] for r in range(len(seeds))])
    return replace(fed, shards={**fed.shards, "train": replace(train, index=keep, start=first)})


def of(logits, y, a):
    score = torch.softmax(logits, 1)
    return torch.stack([score[:, 0].mean(), cross_entropy(logits, y.long()) ** 2, (logits[:, 1] * logits[:, 2]).sum()])


def test_the_engine_does_what_plain_torch_does():
    fast = agents()
    slow, theta = replace(fast, engine="plain"), first_models(fast) * np.float32(1.5)
    assert isinstance(fast._engine, Convolution) and isinstance(slow._engine, Plain)
    personal = theta[:, None] * np.linspace(1, 2, 3, dtype=np.float32)[:, None]
    for one, other in zip(*((train(f, personal, 3), train(f, theta, 3), losses(f, theta, "test"),
                             losses(f, personal, "test", each_model=True), *gradient(f, personal), *gradient(f, theta, of),
                             *gradient(f, theta, t=2, batch=7), np.concatenate(sum(logits(f, personal), [])))
                            for f in (fast, slow)), strict=True):  # fmt: skip
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5 * np.abs(other).max())
    np.testing.assert_array_equal(
        confusion(fast, personal, "test", each_model=True), confusion(slow, personal, "test", each_model=True)
    )
    far = theta + np.float32(0.1)
    anchored = ClientTraining("sgd", 0.1, 0, 1, 8, prox=0.5)
    close(train(fast, theta, 1, local=anchored, toward=far), train(slow, theta, 1, local=anchored, toward=far), theta[:, None])
    adam = ClientTraining("adam", 0.01, 0, 1, 8)
    np.testing.assert_array_equal(train(fast, theta, 1, local=adam), train(slow, theta, 1, local=adam))
    rows = fast.shards["train"]
    by = np.random.default_rng(0).uniform(0.2, 2, (2, 3, rows.examples.groups, 10))
    weighted = {**fast.shards, "train": rows.weighted(by)}
    close(*(train(replace(f, shards=weighted), theta, 1) for f in (fast, slow)), theta[:, None])


def test_numpys_order_of_rows():
    fed = agents(Convolution(NETWORKS[1], "numpy"))
    there = replace(fed, engine=Plain(NETWORKS[1], "numpy"))
    theta = first_models(fed)
    close(train(fed, theta, 2), train(there, theta, 2), theta[:, None])
    assert np.abs(train(fed, theta, 2) - train(agents(), theta, 2)).max() > 1e-4


def test_clients_without_rows():
    fed = agents(sizes=(20, 0, 3))
    theta = first_models(fed)
    trained, (values, slopes) = train(fed, theta, 1), gradient(fed, theta)
    np.testing.assert_array_equal(trained[:, 1], theta)
    assert np.isnan(values[:, 1]).all() and (slopes[:, 1] == 0).all() and np.isfinite(values[:, [0, 2]]).all()
    assert np.isnan(losses(fed, theta)[:, 1]).all()


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="there is one thread")
def test_threads_change_nothing():
    fed, found = agents(), []
    for threads in (1, 2):
        before = numba.get_num_threads()
        numba.set_num_threads(threads)
        try:
            theta = train(fed, first_models(fed), 1)
            found.append((theta, losses(fed, theta), gradient(fed, theta)[1], fed.run(FedAvg(), 2).state.params))
        finally:
            numba.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_model_that_is_no_number_stays_alone():
    """It says so itself, and its neighbours have what they have without it."""
    fed = replace(agents(), diverged="keep")
    theta = np.repeat(first_models(fed)[:, None], 3, 1)
    alone = train(fed, theta, 1), losses(fed, theta), gradient(fed, theta)[1]
    for p in (3, 60, 120, 400, -1):  # in every layer
        bad = theta.copy()
        bad[0, 1, p] = np.nan
        for got, fine in zip((train(fed, bad, 1), losses(fed, bad), gradient(fed, bad)[1]), alone, strict=True):
            assert not np.isfinite(got[0, 1]).all()
            rest = np.ones((2, 3), bool)
            rest[0, 1] = False
            np.testing.assert_array_equal(got[rest], fine[rest])


@njit
def _operations(x, y, out):
    store(out, 0, pick(load(x, 0), load(y, 0), load(x, 0), load(y, 0)))
    store(out, 16, relu(load(x, 0)))
    store(out, 32, alive(load(x, 0), load(y, 0)))
    store(out, 48, pair(x, 3, 7))


@njit
def _transpose(x, out):
    transpose(x, 2, 20, out, 1, 17)


def test_operations_on_lanes():
    rng = np.random.default_rng(0)
    x, y, out = rng.normal(size=LANES).astype(np.float32), rng.normal(size=LANES).astype(np.float32), np.empty(64, np.float32)
    x[3], y[5], x[7], x[8], y[8] = np.nan, np.nan, y[7], 0, -1
    _operations(x, y, out)
    best = torch.max_pool1d(torch.as_tensor(np.stack([y, x], 1))[:, None], 2).numpy().ravel()
    np.testing.assert_array_equal(out[:16], best)
    np.testing.assert_array_equal(out[16:32], torch.relu(torch.as_tensor(x)).numpy())
    np.testing.assert_array_equal(out[32:48], np.where(x > 0, y, 0))
    np.testing.assert_array_equal(out[48:], np.concatenate([x[3:11], x[7:15]]))
    square, turned = rng.normal(size=400).astype(np.float32), np.zeros(300, np.float32)
    _transpose(square, turned)
    wanted = np.stack([square[2 + 20 * i : 18 + 20 * i] for i in range(16)]).T
    np.testing.assert_array_equal(np.stack([turned[1 + 17 * i : 17 + 17 * i] for i in range(16)]), wanted)
