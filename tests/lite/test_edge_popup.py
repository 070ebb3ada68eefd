"""Edge-popup against a network written in plain torch with autograd, a sort for every mask, and torch's own optimiser."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import conv2d, cross_entropy, linear, max_pool2d, relu

from fairfl_lite.clients import ClientTraining
from fairfl_lite.data.shards import Examples, Pixels, Standard
from fairfl_lite.engines import Plain, Work, edge_popup, get
from fairfl_lite.engines.edge_popup import EdgePopup
from fairfl_lite.engines.order import passes
from fairfl_lite.errors import FairFLError
from fairfl_lite.models import CNN, LeNet, Perceptron
from fairfl_lite.supernets import Supernet, top

pytestmark = pytest.mark.slow

KEY = np.array([7], np.uint64)
NETWORKS = {
    "table": Perceptron((21, 40, 24, 3)),
    "large": Perceptron((784, 512, 10)),
    "lenet": LeNet(),
    "two": Perceptron((9, 20, 2)),
}


def rows(network, n, seed=0):
    """A client with n rows of numbers that hit no tie and no exact 0, unlike pixels."""
    rng = np.random.default_rng(seed)
    shape = (1, 28, 28) if isinstance(network, LeNet) else (network.widths[0],)
    X = rng.normal(size=(n, *shape)).astype(np.float32)
    examples = Examples(X, rng.integers(0, network.classes, n), np.zeros(n, int), classes=network.classes)
    inputs = Pixels(scale=(0.01,)) if X.ndim == 4 else Standard.plain(1, shape[0])
    return Work(examples, inputs, np.arange(n), np.empty(0, np.float32), np.zeros(1, int), np.array([0]), np.array([n]))


class Popped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, size, left):
        out = size.clone()
        _, order = out.flatten().sort(stable=True)
        out.flatten()[order[:left]], out.flatten()[order[left:]] = 0, 1
        return out

    @staticmethod
    def backward(ctx, g):
        return g, None


def network_by_hand(network, weights, X):
    if isinstance(network, LeNet):
        X = max_pool2d(relu(conv2d(relu(conv2d(X, weights[0], padding=1)), weights[1], padding=1)), 2).flatten(1)
        weights = weights[2:]
    for w in weights[:-1]:
        X = relu(linear(X, w))
    return linear(X, weights[-1])


def by_hand(network, params, work, local, k=0.5):
    """Signed scores, masks of their sizes, autograd; the sizes it ends with, and the masks of the last step."""
    X = torch.as_tensor(work.inputs(work.examples.X, 0)).double()
    y = torch.as_tensor(work.examples.y).long()
    scores, signs, first = [], [], 0
    for shape in network.shapes:
        part = params[first : first + np.prod(shape)].reshape(shape)
        first += part.size
        scores.append(torch.tensor(np.abs(part), dtype=torch.float64, requires_grad=True))
        signs.append(torch.tensor(np.where(np.signbit(part), -1, 1) * np.sqrt(2 / np.prod(shape[1:]))))
    optimizer = torch.optim.SGD(scores, lr=local.lr, momentum=local.momentum, weight_decay=local.weight_decay)
    for order in passes(len(y), local.epochs, local.batch_size, KEY[0]):
        for batch in torch.as_tensor(order.copy()).split(local.batch_size or len(y)):
            weights = [w * Popped.apply(s.abs(), int((1 - k) * s.numel())) for s, w in zip(scores, signs, strict=True)]
            optimizer.zero_grad()
            cross_entropy(network_by_hand(network, weights, X[batch]), y[batch]).backward()
            optimizer.step()
    return np.concatenate([s.detach().abs().numpy().ravel() for s in scores])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("engine", [EdgePopup, Plain])
def test_a_local_training_is_that_of_plain_autograd(name, engine):
    network = NETWORKS[name]
    work, model = rows(network, 20), Supernet(network)
    start = model.init(np.random.default_rng(1))
    local = ClientTraining("sgd", 0.05, 1e-3, 2, 8, momentum=0.9)
    wanted = by_hand(network, start, work, local)
    found = engine(model).train(work, start[None].copy(), local, np.array([0.05]), KEY, None)[0]
    assert (np.signbit(found) == np.signbit(start)).all()  # weights never change
    moved = np.abs(wanted - np.abs(start))
    assert np.abs(np.abs(found) - wanted).max() < 2e-4 * moved.max()
    chosen, sought = model.mask(found), model.mask(np.copysign(wanted, start))
    assert (
        (chosen != sought).sum() <= 2 < (model.mask(start) != sought).sum()
    )  # a swap, where two scores differ in the last digit


@pytest.mark.parametrize("batch,weighed", [(0, False), (8, False), (10, False), (16, False), (8, True)])
def test_any_batch_is_that_of_plain_torch(batch, weighed):
    network = NETWORKS["table"]
    work, model = rows(network, 37), Supernet(network, 0.3)
    if weighed:
        work = replace(work, weight=np.random.default_rng(6).uniform(0.2, 2, 37).astype(np.float32))
    start = model.init(np.random.default_rng(2))[None]
    local = ClientTraining("sgd", 0.2, 1e-3, 3, batch, momentum=0.9, schedule="cosine")
    both = [engine(model).train(work, start.copy(), local, np.array([0.2]), KEY, None) for engine in (EdgePopup, Plain)]
    np.testing.assert_allclose(*both, atol=1e-6)


def by_torch(network, params, work, local):
    """The weights that torch's own SGD ends with, in double precision, each row's loss times its weight."""
    X = torch.as_tensor(work.inputs(work.examples.X, 0)).double()
    y = torch.as_tensor(work.examples.y).long()
    share = torch.as_tensor(work.weight if work.weight.size else np.ones(len(y))).double()
    parts = np.split(params, np.cumsum([np.prod(shape) for shape in network.shapes])[:-1])
    weights = [torch.tensor(p.reshape(shape)).double().requires_grad_() for p, shape in zip(parts, network.shapes, strict=True)]
    optimizer = torch.optim.SGD(weights, lr=local.lr, momentum=local.momentum, weight_decay=local.weight_decay)
    for order in passes(len(y), local.epochs, local.batch_size, KEY[0]):
        for batch in torch.as_tensor(order.copy()).split(local.batch_size or len(y)):
            optimizer.zero_grad()
            losses = cross_entropy(network_by_hand(network, weights, X[batch]), y[batch], reduction="none")
            (share[batch] * losses).mean().backward()
            optimizer.step()
    return np.concatenate([w.detach().numpy().ravel() for w in weights])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("weighed", [False, True])
def test_weights_are_trained_as_torch_trains_them(name, weighed):
    network = NETWORKS[name]
    rng = np.random.default_rng(5)
    work = rows(network, 20)
    if weighed:
        work = replace(work, weight=rng.uniform(0.2, 2, 20).astype(np.float32))
    start = network.init(rng)
    local = ClientTraining("sgd", 0.05, 1e-2, 2, 8, momentum=0.9)
    wanted = by_torch(network, start, work, local)
    engine = get("fused", network)
    assert isinstance(engine, EdgePopup)
    found = engine.train(work, start[None].copy(), local, np.array([0.05]), KEY, None)[0]
    moved = np.abs(wanted - start)
    assert np.abs(found - wanted).max() < 2e-4 * moved.max()
    assert (np.signbit(wanted) != np.signbit(start)).any()  # unlike those of a supernet, weights pass 0
    params = np.stack([start, found])
    fast, plain = (one.score(work, params, np.array([1]), True) for one in (engine, Plain(network)))
    assert (fast[0] == plain[0]).all()
    np.testing.assert_allclose(fast[1], plain[1], rtol=1e-5)


@given(st.integers(1, 40), st.sampled_from([0, 3, 8, 11, 16]), st.integers(1, 3), st.sampled_from([0.0, 0.5, 0.9]),
       st.sampled_from([0.0, 0.05]), st.integers(0, 9))  # fmt: skip
def test_any_training_of_weights_is_that_of_torch(n, batch, epochs, momentum, decay, seed):
    network = NETWORKS["table"]
    work, start = rows(network, n, seed), network.init(np.random.default_rng(seed))
    local = ClientTraining("sgd", 0.05, decay, epochs, batch, momentum=momentum)
    found = EdgePopup(network).train(work, start[None].copy(), local, np.array([0.05]), KEY, None)[0]
    wanted = by_torch(network, start, work, local)
    assert np.abs(found - wanted).max() < 1e-3 * np.abs(wanted - start).max()


@pytest.mark.parametrize("batch", [1, 3, 7, 8, 10])
def test_a_row_whose_probability_is_1_hardly_moves_anything(batch):
    """One input, and a weight for each of two labels, far apart; at so high a rate the rest of a gradient is seen."""
    one, rate = rows(Perceptron((1, 2)), batch), 1e12
    work = replace(one, examples=Examples(np.ones((batch, 1), np.float32), np.zeros(batch, int), np.zeros(batch, int), 2))
    start = np.array([[200.0, -200.0]], np.float32)
    trained = EdgePopup(Perceptron((1, 2))).train(
        work, start.copy(), ClientTraining("sgd", rate, 0.0, 1, batch), np.array([rate]), KEY, None
    )
    moved = np.abs(trained - start)[0] / rate
    assert moved[1] == 0 and moved[0] <= (0 if batch in (1, 8) else 1e-8 * batch)


def test_a_score_that_passes_zero_comes_back_and_its_weight_keeps_its_sign():
    network = NETWORKS["table"]
    work, model = rows(network, 30), Supernet(network)
    start = model.init(np.random.default_rng(3))
    local = ClientTraining("sgd", 0.5, 0.0, 4, 8, momentum=0.9)
    wanted = by_hand(network, start, work, local)
    found = EdgePopup(model).train(work, start[None].copy(), local, np.array([0.5]), KEY, None)[0]
    np.testing.assert_allclose(np.abs(found), wanted, atol=1e-5)
    assert np.abs(wanted - np.abs(start)).max() > 2 * np.abs(start).max()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.data())
def test_the_top_is_that_of_a_stable_sort_with_ties(values, data):
    keep = data.draw(st.integers(0, len(values)))
    scores = np.array(values, np.float32)
    wanted = np.zeros(len(values), bool)
    wanted[np.argsort(scores, kind="stable")[len(values) - keep :]] = True
    assert (top(scores, keep) == wanted).all()


@pytest.mark.parametrize("levels", [1, 3, 50])
@pytest.mark.parametrize("name", ["table", "lenet"])
def test_ties_at_the_threshold_go_to_the_higher_edge_ids(name, levels):
    network = NETWORKS[name]
    work, model = rows(network, 10), Supernet(network)
    rng = np.random.default_rng(4)
    params = np.copysign(rng.integers(0, levels, model.size).astype(np.float32), rng.normal(size=model.size).astype(np.float32))
    mask = np.concatenate([by_sort(np.abs(params[layer]), model.k) for layer in model.layers])
    assert (model.mask(params) == mask).all()
    weights, first = [], 0
    for shape in network.shapes:
        part = slice(first, first := first + int(np.prod(shape)))
        sizes = np.where(np.signbit(params[part]), -1, 1) * np.sqrt(2 / np.prod(shape[1:]))
        weights.append(torch.tensor((sizes * mask[part]).reshape(shape)))
    X = torch.as_tensor(work.inputs(work.examples.X, 0)).double()
    wanted = network_by_hand(network, weights, X).numpy()
    for engine in (EdgePopup, Plain):
        np.testing.assert_allclose(
            engine(model).logits(work, params[None], np.array([0])), wanted, atol=1e-5 * np.abs(wanted).max()
        )


def by_sort(scores, k):
    mask = np.zeros(len(scores), bool)
    mask[np.argsort(scores, kind="stable")[int((1 - k) * len(scores)) :]] = True
    return mask


def test_scores_and_losses_are_those_of_plain_torch():
    for name in ("table", "two"):
        network = NETWORKS[name]
        work, model = rows(network, 50), Supernet(network)
        params = np.stack([model.init(np.random.default_rng(s)) for s in (0, 1)])
        which = np.array([1])
        fast, plain = (engine(model).score(work, params, which, True) for engine in (EdgePopup, Plain))
        assert (fast[0] == plain[0]).all() and fast[0].sum() == 50
        np.testing.assert_allclose(fast[1], plain[1], rtol=1e-5)
        np.testing.assert_allclose(*(engine(model).logits(work, params, which) for engine in (EdgePopup, Plain)), atol=1e-5)


@pytest.mark.parametrize("name", ["table", "lenet"])
def test_a_look_in_pieces_is_that_at_once(name, monkeypatch):
    """100 rows, 32 at a time: the same bits, and never more rows held as numbers."""
    model, held, whole_rows = Supernet(NETWORKS[name]), [], EdgePopup._rows
    work, params = rows(NETWORKS[name], 100), model.init(np.random.default_rng(0))[None]
    at_once = EdgePopup(model).logits(work, params, np.array([0]))

    def seen(*args):
        found = whole_rows(*args)
        held.append(len(found[0]))
        return found

    monkeypatch.setattr(EdgePopup, "_rows", seen)
    monkeypatch.setattr(edge_popup, "LOOK", 32)
    assert np.array_equal(EdgePopup(model).logits(work, params, np.array([0])), at_once)
    assert held == [32, 32, 32, 4]


def test_a_start_has_each_score_once_and_both_signs():
    model = Supernet(LeNet())
    start = model.init(np.random.default_rng(0))
    assert model.size == 1_625_632 and [s.stop - s.start for s in model.layers] == [288, 18432, 1605632, 1280]
    for layer, fan in zip(model.layers, (9, 288, 12544, 128), strict=True):
        sizes = np.sort(np.abs(start[layer]))
        assert (np.diff(sizes) > 0).all() and sizes[0] > 0 and sizes[-1] < fan**-0.5
    assert abs(np.signbit(start).mean() - 0.5) < 0.01
    assert model.mask(start).sum() == model.size / 2
    assert np.unique(np.abs(model.weights(start))).size == 4
    np.testing.assert_allclose(np.abs(model.weights(start))[:288], np.sqrt(2 / 9), rtol=1e-6)


def test_sizes_of_table_7():
    assert Supernet(LeNet(classes=62)).size == 1_625_632 + 128 * 52
    assert [int(np.prod(s)) for s in Perceptron((101, 1024, 1024, 2)).shapes] == [103424, 1048576, 2048]


def test_an_odd_layer_keeps_the_larger_half_and_k_1_keeps_all():
    assert [Supernet(LeNet(), k).keep(7) for k in (0.5, 1, 0.3)] == [4, 7, 3]
    whole = Supernet(Perceptron((5, 3)), 1)
    assert whole.mask(whole.init(np.random.default_rng(0))).all()


def test_threads_change_nothing():
    network = NETWORKS["table"]
    one, model = rows(network, 24), Supernet(network)
    work = Work(one.examples, one.inputs, one.index, one.weight, np.zeros(3, int), np.array([0, 5, 9]), np.array([12, 9, 24]))
    start = np.stack([model.init(np.random.default_rng(0))] * 3)
    key, found, before = np.arange(3, dtype=np.uint64), [], numba.get_num_threads()
    for threads in {1, before}:
        numba.set_num_threads(threads)
        local = ClientTraining("sgd", 0.1, 1e-4, 2, 8, momentum=0.9)
        found.append(EdgePopup(model).train(work, start.copy(), local, np.full(3, 0.1), key, None).tobytes())
    assert len(set(found)) == 1


def test_the_process_that_compiles_trains_as_those_that_find_the_code(tmp_path):
    train = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from test_edge_popup import KEY, NETWORKS, ClientTraining, EdgePopup, Supernet, np, rows
model = Supernet(NETWORKS["large"])
start, local = model.init(np.random.default_rng(1))[None], ClientTraining("sgd", 0.1, 1e-4, 3, 8, momentum=0.9)
found = EdgePopup(model).train(rows(model.network, 64), start, local, np.array([0.1]), KEY)
print(hashlib.sha256(found.tobytes()).hexdigest())
"""
    told = [sys.executable, "-c", train, str(Path(__file__).parent)]
    env = os.environ | {"FAIRFL_CACHE": str(tmp_path)}
    first, second = (subprocess.run(told, env=env, check=True, capture_output=True, text=True).stdout for _ in range(2))
    assert first == second != ""


def test_what_the_kernel_does_not_serve_goes_to_plain_torch():
    double = Supernet(LeNet(double=True))
    assert isinstance(get("fused", double), Plain) and isinstance(get("fused", Supernet(LeNet())), EdgePopup)
    assert isinstance(get("plain", Supernet(LeNet())), Plain)
    network = NETWORKS["table"]
    work, model = rows(network, 20), Supernet(network)
    start, local = model.init(np.random.default_rng(0))[None], ClientTraining("adam", 0.01, 0.0, 1, 8)
    both = [engine(model).train(work, start.copy(), local, np.array([0.01]), KEY, None) for engine in (EdgePopup, Plain)]
    assert (both[0] == both[1]).all() and (both[0] != start).any()


@pytest.mark.parametrize("wrong", [lambda: Supernet(LeNet(), 0), lambda: Supernet(LeNet(), 1.5), lambda: Supernet(CNN())])
def test_what_is_no_supernet_is_refused(wrong):
    with pytest.raises(FairFLError):
        wrong()
