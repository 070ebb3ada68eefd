"""The kernels against plain torch, and the promises of the federation: same seed same result, whatever else happens."""

from dataclasses import replace

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairfl_lite.clients import Local
from fairfl_lite.engines.plain import train as reference_train
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Shards, standardisation
from fairfl_lite.methods import FedAvg
from fairfl_lite.models import Dense


def federation(sizes, *, features=5, hidden=0, local=None, runs=1, weights=None, seed=0, **options):
    """A federation of random rows; `sizes` per client, `weights` "cells" for random weights by group and label."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.normal(size=(n, features)).astype(np.float32)
    y = (X @ rng.normal(size=features) + rng.normal(size=n) > 0).astype(np.int8)
    a = rng.integers(0, 2, n).astype(np.int8)
    rows = [np.split(rng.permutation(n), np.cumsum(sizes)[:-1]) for _ in range(runs)]
    shards = Shards.of(X, y, a, rows)
    if weights == "cells":
        shards = shards.weighted(rng.uniform(0.2, 2, (runs, len(sizes), 2, 2)))
    model = Dense(features, hidden)
    return Federation(
        {"train": shards, "test": shards},
        model,
        local or Local(),
        tuple(range(runs)),
        *standardisation(shards),
        **options,
    )


problems = st.fixed_dictionaries({
    "sizes": st.lists(st.integers(0, 70), min_size=1, max_size=4).filter(lambda s: sum(s) > 1),
    "features": st.integers(1, 20),
    "hidden": st.sampled_from([0, 1, 7, 10]),
    "runs": st.integers(1, 2),
    "weights": st.sampled_from([None, "cells"]),
    "seed": st.integers(0, 10**6),
    "local": st.builds(Local, optimizer=st.sampled_from(["sgd", "adam"]), lr=st.sampled_from([0.001, 0.01]),
                       decay=st.sampled_from([0.0, 1e-2]), epochs=st.integers(0, 3), batch=st.sampled_from([0, 1, 10, 17, 32])),
})  # fmt: skip


def in_double_precision(fed, start, t):
    """Local training of every client by the torch loop, in float64."""
    shards, how = fed.shards["train"], fed.local
    out = np.empty((*fed.sizes.shape, fed.model.size))
    for r, k in np.ndindex(*fed.sizes.shape):
        X, y, _, weight = fed._rows(shards, r, shards.start[r, k], shards.start[r, k + 1])
        out[r, k] = reference_train(
            fed.model, X.astype(float), y, weight, start[r], adam=how.optimizer == "adam", lr=np.float32(how.lr),
            decay=how.decay, epochs=how.epochs, batch=how.batch, key=fed._keys("train", t)[r, k],
        )  # fmt: skip
    return out


@settings(max_examples=120, deadline=None)
@given(problems)
def test_kernel_agrees_with_plain_torch(problem):
    fed = federation(**problem)
    oracle = replace(fed, engine="reference")
    start = fed.start()
    np.testing.assert_allclose(fed.train(start, 3), in_double_precision(fed, start, 3), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(
        fed.gradients(start), oracle.gradients(start), atol=1e-5 * max(1, sum(problem["sizes"])), rtol=1e-4
    )
    np.testing.assert_allclose(fed.losses(start), oracle.losses(start), rtol=1e-5, atol=1e-6)
    assert fed.report(start).sum() == problem["runs"] * sum(problem["sizes"])


@pytest.mark.parametrize("hidden", [0, 10])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_empty_and_a_one_row_client(hidden, optimizer):
    fed = federation([0, 1, 40], hidden=hidden, local=Local(optimizer, 0.05, 1e-4, 2, 8))
    start = fed.start()
    trained, oracle = fed.train(start, 1), replace(fed, engine="reference").train(start, 1)
    np.testing.assert_array_equal(trained[:, 0], start)
    np.testing.assert_allclose(trained, oracle, atol=1e-5)
    assert np.abs(trained[:, 1] - start).max() > 1e-4
    assert np.isnan(fed.losses(start)[0, 0])


def test_one_sgd_step_worked_by_hand():
    X, y = np.array([[1.0], [-1.0]], np.float32), np.array([1, 0], np.int8)
    shards = Shards.of(X, y, y, [[np.array([0, 1])]])
    fed = Federation(
        {"train": shards},
        Dense(1),
        Local("sgd", 0.5, 0.1, 1, 0),
        (0,),
        np.zeros((1, 1), np.float32),
        np.ones((1, 1), np.float32),
    )
    start = np.array([[0.2, 0.0]], np.float32)
    p = 1 / (1 + np.exp(-0.2))  # both rows err by 1 - p, so dL/dw = -(1 - p) and dL/db = 0
    np.testing.assert_allclose(fed.train(start, 1)[0, 0], [0.2 - 0.5 * (-(1 - p) + 0.1 * 0.2), 0.0], atol=1e-7)


def test_kernel_agrees_at_the_size_of_adult():
    fed = federation([884, 29967, 492, 435, 4399], features=12, weights="cells", local=Local("adam", 0.01, 1e-4, 1, 32))
    start = fed.start()
    np.testing.assert_allclose(fed.train(start, 1), replace(fed, engine="reference").train(start, 1), atol=1e-5)


def test_the_reference_is_an_ordinary_torch_loop():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 3)).astype(np.float32), rng.integers(0, 2, 24)
    layer = torch.nn.Linear(3, 1)
    theta = np.concatenate([layer.weight.detach().numpy().ravel(), layer.bias.detach().numpy()])
    ours = reference_train(
        Dense(3),
        X,
        y,
        np.ones(24, np.float32),
        theta,
        adam=True,
        lr=0.01,
        decay=1e-4,
        epochs=5,
        batch=0,
        key=np.uint64(1),
    )
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01, weight_decay=1e-4)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.BCEWithLogitsLoss()(layer(torch.tensor(X)).ravel(), torch.tensor(y, dtype=torch.float32)).backward()
        optimizer.step()
    expected = np.concatenate([layer.weight.detach().numpy().ravel(), layer.bias.detach().numpy()])
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_standardisation_uses_the_runs_own_training_rows():
    fed = federation([30, 50], runs=2, features=4)
    rows = fed.shards["train"].X[fed.shards["train"].index[:80]]
    np.testing.assert_allclose((rows - fed.shift[0]) * fed.scale[0], (rows - rows.mean(0)) / rows.std(0), atol=1e-5)


def test_bits_do_not_depend_on_threads_order_or_company():
    fed = federation([50, 7, 90, 33], runs=3, features=8, local=Local("adam", 0.01, 0, 2, 16))
    expected = fed.run(FedAvg(), 3).state.params
    fed.run(FedAvg(), 2)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(fed.run(FedAvg(), 3).state.params, expected)
    finally:
        numba.set_num_threads(threads)
    one = Shards(*(getattr(fed.shards["train"], n) for n in ("X", "y", "a", "index")), fed.shards["train"].start[1:2])
    alone = replace(fed, shards={"train": one, "test": one}, seeds=(1,), shift=fed.shift[1:2], scale=fed.scale[1:2])
    np.testing.assert_array_equal(alone.run(FedAvg(), 3).state.params, expected[1:2])


def test_models_side_by_side_do_not_meet():
    """Networks are trained sixteen abreast: other rows, other lengths, the same rows, and equal models among them."""
    fed = federation([50, 7, 0, 90, 1], runs=2, features=8, hidden=6, local=Local("sgd", 0.1, 1e-3, 2, 10))
    many = fed.repeat(9)
    start = many.start() + np.repeat(np.random.default_rng(0).normal(0, 0.1, (9, 1)), 2, axis=0).astype(np.float32)
    start[4:6] = start[0:2]  # the third setting starts as the first one does
    out, who = many.train(start, 3), np.random.default_rng(1).random((18, 5)) < 0.5
    np.testing.assert_array_equal(many.train(start, 3, who=who), np.where(who[..., None], out, start[:, None]))
    for setting in range(9):
        mine = slice(2 * setting, 2 * setting + 2)
        np.testing.assert_array_equal(fed.train(start[mine], 3), out[mine])
        np.testing.assert_array_equal(fed.report(out[mine], "test"), many.report(out, "test")[mine])
        np.testing.assert_array_equal(fed.losses(out[mine], "test"), many.losses(out, "test")[mine])
    np.testing.assert_allclose(out[:2], in_double_precision(fed, start[:2], 3), atol=2e-6)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(many.train(start, 3), out)
    finally:
        numba.set_num_threads(threads)


def test_who_takes_part_is_drawn_by_seed_and_round():
    fed = replace(federation([20] * 6, runs=40), participants=2)
    drawn = np.stack([fed.who(t) for t in range(1, 51)])
    assert (drawn.sum(2) == 2).all() and (drawn[0] != drawn[1]).any() and (drawn[:, 0] != drawn[:, 1]).any()
    np.testing.assert_allclose(drawn.mean((0, 1)), 1 / 3, atol=0.04)  # 2,000 draws: sd 0.0105
    np.testing.assert_array_equal(fed.repeat(2).who(3), np.tile(fed.who(3), (2, 1)))
    assert replace(fed, participants=0).who(1).all()
    with pytest.raises(FairFLError, match="7 cannot take part"):
        replace(fed, participants=7)


def test_settings_are_runs_like_any_other():
    fed = federation([40, 20], runs=2, local=Local("sgd", 0.1, 0, 1, 8))
    both = fed.across([0.1, 0.01])
    out = both.run(FedAvg(), 2).state.params
    np.testing.assert_array_equal(out[:2], fed.run(FedAvg(), 2).state.params)
    np.testing.assert_array_equal(
        out[2:], replace(fed, local=replace(fed.local, lr=0.01)).run(FedAvg(), 2).state.params
    )


def test_only_those_who_are_asked_train():
    fed = federation([20, 20, 20], local=Local("sgd", 0.1, 0, 1, 5))
    start, who = fed.start(), np.array([[True, False, True]])
    out = fed.train(start, 1, who=who)
    np.testing.assert_array_equal(out[:, 1], start)
    np.testing.assert_array_equal(out[:, [0, 2]], fed.train(start, 1)[:, [0, 2]])


def test_cross_reports_every_model_on_every_client():
    fed = federation([20, 30], hidden=3, local=Local("sgd", 0.5, 0, 3, 5))
    local = fed.train(fed.start(), 1)
    cross = fed.report(local, cross=True)
    assert cross.shape == (1, 2, 2, 2, 2, 2)
    own = fed.report(local)
    for k in range(2):
        np.testing.assert_array_equal(cross[:, k, k], own[:, k])
        np.testing.assert_array_equal(cross[:, k], fed.report(local[:, k]))
    assert (cross[:, 0, 1] != cross[:, 1, 1]).any()


def test_signed_weights_give_the_gradient_of_a_gap():
    fed = federation([60], features=3)
    shards = fed.shards["train"]
    cells = shards.cells()[0, 0].sum(1)
    gap = shards.weighted(np.array([[[[1 / cells[0]] * 2, [-1 / cells[1]] * 2]]]))
    start, step = fed.start(), 1e-2

    def difference(params):
        rows, values = shards.rows(0, 0), []
        for group in (0, 1):
            one = Shards.of(shards.X, shards.y, shards.a, [[rows[shards.a[rows] == group]]])
            values.append(replace(fed, shards={"train": one}).losses(params)[0, 0])
        return values[0] - values[1]

    numeric = [
        (difference(start + step * e) - difference(start - step * e)) / (2 * step)
        for e in np.eye(4, dtype=np.float32)[:, None]
    ]
    np.testing.assert_allclose(fed.gradients(start, on=gap)[0, 0], numeric, atol=2e-3)


def test_average_is_linear_and_exact_for_equal_models():
    fed = federation([20, 30, 50])
    stacked = np.repeat(fed.start()[:, None], 3, axis=1)
    np.testing.assert_allclose(fed.average(stacked, [[0.7, -0.4, 0.5]]), fed.start(), rtol=1e-6)


def test_impossible_settings_are_refused():
    with pytest.raises(FairFLError, match="one per run"):
        federation([10, 10], local=Local(lr=(0.1, 0.2, 0.3)))
    for wrong in ({"batch": -1}, {"lr": float("nan")}, {"lr": "fast"}, {"decay": -1}, {"epochs": 1.5}, {"batch": 0.5}):
        with pytest.raises(FairFLError, match="needs"):
            Local(**wrong)
    with pytest.raises(FairFLError, match="did you mean 'adam'"):
        Local("adma")
    with pytest.raises(FairFLError, match="did you mean 'kernel'"):
        federation([10, 10], engine="kernle")
    fed = federation([10, 10])
    with pytest.raises(FairFLError, match="at least one round"):
        fed.run(FedAvg(), 0)
    with pytest.raises(FairFLError, match="did you mean 'test'"):
        fed.run(FedAvg(), 1, record=("tset",))
    with pytest.raises(FairFLError, match="did you mean 'weights'"):
        fed.run(FedAvg(), 1, remember=("wieghts",))
    with pytest.raises(FairFLError, match="recorded part"):
        fed.run(FedAvg(), 1).values("acc", on="train")


def test_frame_is_tidy_and_agrees_with_values():
    fed = federation([40, 20], runs=2)
    history = fed.run(FedAvg(), 3)
    frame = history.frame()
    assert list(frame.columns) == ["method", "seed", "round", "client", "metric", "value"]
    acc = frame[(frame.metric == "acc") & (frame.client == -1)].pivot(index="seed", columns="round", values="value")
    np.testing.assert_array_equal(acc.to_numpy(), history.values("acc"))
    assert not frame[frame.metric == "std_acc"].client.gt(-1).any()
