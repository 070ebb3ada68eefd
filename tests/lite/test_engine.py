"""The engines against torch.optim, and the promises of the federation: same seed same result, whatever else happens."""

import math
from dataclasses import replace

import numba
import numpy as np
import pytest
import torch
from asking import confusion, first_models, gradient, logits, losses, train
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import federation

from fairfl_lite import streams
from fairfl_lite.clients import ClientTraining
from fairfl_lite.engines.order import passes
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, OneFederation, Shards, Standard, run_together
from fairfl_lite.federation.lockstep import advance
from fairfl_lite.methods import FedAvg
from fairfl_lite.models import Dense

pytestmark = pytest.mark.slow


problems = st.fixed_dictionaries(
    {
        "sizes": st.lists(st.integers(0, 70), min_size=1, max_size=4).filter(lambda s: sum(s) > 1),
        "features": st.integers(1, 20),
        "hidden": st.sampled_from([0, 1, 7, 10]),
        "runs": st.integers(1, 2),
        "classes": st.sampled_from([2, 2, 3, 5]),
        "groups": st.sampled_from([2, 2, 3, 101]),
        "weights": st.sampled_from([None, "census"]),
        "seed": st.integers(0, 10**6),
        "engine": st.sampled_from(["fused", "plain"]),
        "local": st.builds(
            ClientTraining,
            optimizer=st.just("sgd"),
            lr=st.sampled_from([0.001, 0.01]),
            weight_decay=st.sampled_from([0.0, 1e-2]),
            epochs=st.integers(0, 3),
            batch_size=st.sampled_from([0, 1, 10, 17, 32]),
            momentum=st.sampled_from([0.0, 0.5, 0.9]),
            prox=st.sampled_from([0.0, 0.3]),
            schedule=st.sampled_from(["constant", "cosine"]),
            lr_decay=st.sampled_from([1.0, 0.9]),
        )
        | st.builds(
            ClientTraining,
            optimizer=st.just("adam"),
            lr=st.sampled_from([0.001, 0.01]),
            weight_decay=st.sampled_from([0.0, 1e-2]),
            epochs=st.integers(0, 3),
            batch_size=st.sampled_from([0, 1, 10, 17, 32]),
            prox=st.sampled_from([0.0, 0.3]),
        ),
    }
)


def splitmix(order, key):
    """Fisher-Yates over splitmix64 in whole numbers, as it is published: what both engines' orders are held to."""
    mask = 2**64 - 1
    for i in range(len(order) - 1, 0, -1):
        key = (key + 0x9E3779B97F4A7C15) & mask
        z = key
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        j = (((z ^ (z >> 31)) >> 32) * (i + 1)) >> 32
        order[i], order[j] = order[j], order[i]
    return key


def network(fed, theta):
    """The model as torch.nn modules in double precision, with the parameters theta."""
    d, h, outputs = fed.model.features, fed.model.hidden, 1 if fed.model.classes == 2 else fed.model.classes
    layers = [torch.nn.Linear(d, h), torch.nn.Tanh(), torch.nn.Linear(h, outputs)] if h else [torch.nn.Linear(d, outputs)]
    made = torch.nn.Sequential(*layers).double()
    torch.nn.utils.vector_to_parameters(torch.tensor(theta, dtype=torch.float64), made.parameters())
    return made


def by_torch(fed, start, t):
    """Local training of every client by modules and torch.optim, in float64, the proximal term and the schedule by hand."""
    shards, how = fed.shards["train"], fed.local
    out = np.empty((*fed.sizes().shape, fed.model.size))
    for r, k in np.ndindex(*fed.sizes().shape):
        rows, made = shards.rows(r, k), network(fed, start[r])
        X = torch.tensor((shards.X[rows] - fed.inputs.shift[r]) * fed.inputs.scale[r]).double()
        y, n = torch.tensor(shards.y[rows]).long(), len(rows)
        weight = torch.tensor(shards.weight[shards.start[r, k] : shards.start[r, k + 1]] if shards.weight.size else np.ones(n))
        first = torch.nn.utils.parameters_to_vector(made.parameters()).detach()
        rate = float(np.float32(how.lr)) * how.lr_decay ** (t - 1)
        kind = {"adam": torch.optim.Adam, "sgd": lambda p, **o: torch.optim.SGD(p, momentum=how.momentum, **o)}[how.optimizer]
        optimizer = kind(made.parameters(), lr=rate, weight_decay=how.weight_decay)
        order, key, size = (
            list(range(n)),
            int(streams.keys(fed.seeds[r], "train", t, fed.clients)[k]),
            how.batch_size or max(n, 1),
        )
        steps, step = how.epochs * math.ceil(n / size), 0
        for _ in range(how.epochs if n else 0):
            key = splitmix(order, key) if size < n else key
            for begin in range(0, n, size):
                some = order[begin : begin + size]
                logits = made(X[some])
                if fed.model.classes == 2:
                    losses = torch.nn.functional.binary_cross_entropy_with_logits(
                        logits[:, 0], y[some].double(), reduction="none"
                    )
                else:
                    losses = torch.nn.functional.cross_entropy(logits, y[some], reduction="none")
                away = torch.nn.utils.parameters_to_vector(made.parameters()) - first
                optimizer.zero_grad()
                ((weight[some] * losses).mean() + how.prox / 2 * away.square().sum()).backward()
                if how.schedule == "cosine":
                    optimizer.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
                optimizer.step()
                step += 1
        out[r, k] = torch.nn.utils.parameters_to_vector(made.parameters()).detach().numpy()
    return out


@settings(max_examples=80, deadline=None)
@given(problems)
def test_every_engine_agrees_with_torch_optim(problem):
    fed = federation(**problem)
    start = first_models(fed)
    np.testing.assert_allclose(train(fed, start, 3), by_torch(fed, start, 3), atol=2e-5, rtol=1e-5)
    other = replace(fed, engine="plain" if problem["engine"] == "fused" else "fused")
    np.testing.assert_allclose(losses(fed, start), losses(other, start), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient(fed, start)[1], gradient(other, start)[1], rtol=1e-4, atol=1e-5)
    assert confusion(fed, start).sum() == problem["runs"] * sum(problem["sizes"])
    assert confusion(fed, start).shape[2:] == (problem["groups"], problem["classes"], problem["classes"])


@given(st.integers(0, 2**64 - 1), st.integers(1, 60), st.integers(1, 3))
def test_both_engines_shuffle_by_splitmix64(key, n, epochs):
    order, state = list(range(n)), key
    for found in passes(n, epochs, 1, np.uint64(key)):
        if n > 1:
            state = splitmix(order, state)
        assert found.tolist() == order


def test_counts_by_hand_for_three_groups_and_three_classes():
    X = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32)
    y, a = np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2])
    shards = Shards.of(X, y, a, [[np.arange(4)]])
    fed = Federation({"train": shards}, Dense(3, classes=3), ClientTraining(), (0,), Standard.plain(1, 3))
    theta = np.concatenate([np.eye(3).ravel(), np.zeros(3)])[None].astype(np.float32)  # says the place of the 1
    expected = np.zeros((3, 3, 3), int)
    for group, label, found in ((0, 0, 0), (1, 1, 1), (2, 1, 2), (2, 2, 0)):
        expected[group, label, found] += 1
    np.testing.assert_array_equal(confusion(fed, theta)[0, 0], expected)


@pytest.mark.parametrize("hidden", [0, 10])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_empty_and_a_one_row_client(hidden, optimizer):
    fed = federation([0, 1, 40], hidden=hidden, local=ClientTraining(optimizer, 0.05, 1e-4, 2, 8))
    start = first_models(fed)
    trained, oracle = train(fed, start, 1), train(replace(fed, engine="plain"), start, 1)
    np.testing.assert_array_equal(trained[:, 0], start)
    np.testing.assert_allclose(trained, oracle, atol=1e-5)
    assert np.abs(trained[:, 1] - start).max() > 1e-4
    assert np.isnan(losses(fed, start)[0, 0])


def test_one_sgd_step_worked_by_hand():
    X, y = np.array([[1.0], [-1.0]], np.float32), np.array([1, 0], np.int8)
    shards = Shards.of(X, y, y, [[np.array([0, 1])]])
    fed = Federation(
        {"train": shards},
        Dense(1),
        ClientTraining("sgd", 0.5, 0.1, 1, 0),
        (0,),
        Standard.plain(1, 1),
    )
    start = np.array([[0.2, 0.0]], np.float32)
    p = 1 / (1 + np.exp(-0.2))  # both rows err by 1 - p, so dL/dw = -(1 - p) and dL/db = 0
    np.testing.assert_allclose(train(fed, start, 1)[0, 0], [0.2 - 0.5 * (-(1 - p) + 0.1 * 0.2), 0.0], atol=1e-7)


def test_kernel_agrees_at_the_size_of_adult():
    fed = federation([884, 29967, 492, 435, 4399], features=12, weights="census", local=ClientTraining("adam", 0.01, 1e-4, 1, 32))
    start = first_models(fed)
    np.testing.assert_allclose(train(fed, start, 1), train(replace(fed, engine="plain"), start, 1), atol=1e-5)


def test_standardisation_uses_the_runs_own_training_rows():
    fed = federation([30, 50], runs=2, features=4)
    rows = fed.shards["train"].X[fed.shards["train"].index[:80]]
    np.testing.assert_allclose((rows - fed.inputs.shift[0]) * fed.inputs.scale[0], (rows - rows.mean(0)) / rows.std(0), atol=1e-5)


def test_bits_do_not_depend_on_threads_order_or_company():
    fed = federation([50, 7, 90, 33], runs=3, features=8, local=ClientTraining("adam", 0.01, 0, 2, 16))
    expected = fed.run(FedAvg(), 3).state.params
    fed.run(FedAvg(), 2)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(fed.run(FedAvg(), 3).state.params, expected)
    finally:
        numba.set_num_threads(threads)
    one = replace(fed.shards["train"], start=fed.shards["train"].start[1:2])
    inputs = Standard(fed.inputs.shift[1:2], fed.inputs.scale[1:2])
    alone = replace(fed, shards={"train": one, "test": one}, seeds=(1,), inputs=inputs)
    np.testing.assert_array_equal(alone.run(FedAvg(), 3).state.params, expected[1:2])


def test_models_side_by_side_do_not_meet():
    """Networks are trained sixteen abreast: other rows, other lengths, the same rows, and equal models among them."""
    fed = federation([50, 7, 0, 90, 1], runs=2, features=8, hidden=6, local=ClientTraining("sgd", 0.1, 1e-3, 2, 10))
    start = first_models(fed)[None] + np.random.default_rng(0).normal(0, 0.1, (9, 1, 1)).astype(np.float32)
    start[2] = start[0]  # the third setting starts as the first one does

    def together(question):
        """question(one, setting, run) of nine settings on two seeds at once."""
        pairs = [(s, r) for s in range(9) for r in range(2)]
        found = advance([question(OneFederation(fed, r, together=True), s, r) for s, r in pairs])
        return np.stack(found).reshape(9, 2, *np.shape(found[0]))

    everyone = np.arange(5)
    out = together(lambda one, s, r: one.train(start[s, r], everyone, 3))
    some = np.argsort(np.random.default_rng(1).random((9, 2, 5)), axis=2)[..., :3]
    found = together(lambda one, s, r: one.train(start[s, r], some[s, r], 3))
    np.testing.assert_array_equal(found, np.take_along_axis(out, some[..., None], 2))
    counts = together(lambda one, s, r: one.confusion(out[s, r], on="test"))
    lost = together(lambda one, s, r: one.losses(out[s, r], on="test"))
    for s in range(9):
        np.testing.assert_array_equal(train(fed, start[s], 3), out[s])
        np.testing.assert_array_equal(confusion(fed, out[s], "test"), counts[s])
        np.testing.assert_array_equal(losses(fed, out[s], "test"), lost[s])
    np.testing.assert_allclose(out[0], by_torch(fed, start[0], 3), atol=2e-6)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(together(lambda one, s, r: one.train(start[s, r], everyone, 3)), out)
    finally:
        numba.set_num_threads(threads)


def test_who_takes_part_is_drawn_by_seed_and_round():
    fed = replace(federation([20] * 6, runs=40), participants=2)
    drawn = np.stack([[fed.one(seed).sample_clients(t) for seed in fed.seeds] for t in range(1, 51)])
    assert drawn.shape == (50, 40, 2) and (drawn[..., 0] < drawn[..., 1]).all() and (drawn >= 0).all()
    assert (drawn[0] != drawn[1]).any() and (drawn[:, 0] != drawn[:, 1]).any()
    np.testing.assert_allclose(np.bincount(drawn.ravel()) / 2000, 1 / 3, atol=0.04)  # 2,000 draws: sd 0.0105
    np.testing.assert_array_equal(fed.one(7).sample_clients(3), drawn[2, 7])
    np.testing.assert_array_equal(replace(fed, participants=0).one(9).sample_clients(1), np.arange(6))
    with pytest.raises(FairFLError, match="7 cannot take part"):
        replace(fed, participants=7)


def test_only_clients_with_rows_are_drawn():
    fed = replace(federation([20, 0, 20, 0, 20]), participants=2)
    drawn = np.concatenate([fed.one().sample_clients(t) for t in range(1, 60)])
    assert set(drawn) == {0, 2, 4}
    np.testing.assert_array_equal(replace(fed, participants=4).one().sample_clients(1), [0, 2, 4])
    np.testing.assert_array_equal(fed.one().all_clients, [0, 2, 4])


def test_settings_of_training_are_runs_like_any_other():
    fed = federation([40, 20], runs=2, local=ClientTraining("sgd", 0.1, 0, 1, 8))
    slower = replace(fed, local=replace(fed.local, lr=0.01))
    assert fed.together == slower.together  # answered in one call
    found = run_together([(fed, FedAvg()), (slower, FedAvg())], 2)
    for history, one in zip(found, (fed, slower), strict=True):
        np.testing.assert_array_equal(history.state.params, one.run(FedAvg(), 2).state.params)


def test_only_those_who_are_asked_answer():
    fed = federation([20, 20, 20], local=ClientTraining("sgd", 0.1, 0, 1, 5))
    start, some = first_models(fed), np.array([0, 2])
    local = train(fed, start, 1, some)
    np.testing.assert_array_equal(local, train(fed, start, 1)[:, [0, 2]])
    np.testing.assert_array_equal(confusion(fed, local, clients=some), confusion(fed, train(fed, start, 1))[:, [0, 2]])
    np.testing.assert_array_equal(losses(fed, local, clients=some), losses(fed, train(fed, start, 1))[:, [0, 2]])
    np.testing.assert_array_equal(gradient(fed, start, clients=some)[1], gradient(fed, start)[1][:, [0, 2]])
    np.testing.assert_array_equal(logits(fed, start, clients=some)[0][1], logits(fed, start)[0][2])


def test_cross_reports_every_model_on_every_client():
    fed = federation([20, 30], hidden=3, local=ClientTraining("sgd", 0.5, 0, 3, 5))
    local = train(fed, first_models(fed), 1)
    cross = confusion(fed, local, each_model=True)
    assert cross.shape == (1, 2, 2, 2, 2, 2)
    own = confusion(fed, local)
    for k in range(2):
        np.testing.assert_array_equal(cross[:, k, k], own[:, k])
        np.testing.assert_array_equal(cross[:, k], confusion(fed, local[:, k]))
    assert (cross[:, 0, 1] != cross[:, 1, 1]).any()


@pytest.mark.parametrize("hidden", [0, 4])
def test_the_gradient_of_any_function_of_the_logits(hidden):
    """Three groups' mean scores and a loss, in one call, against differences."""
    fed = federation([60, 45], features=3, groups=3, hidden=hidden)

    def of(logits, y, a):
        score = torch.sigmoid(logits)
        gap = score[a == 0].mean() - score[a == 1].mean()
        return torch.stack([gap, score[a == 2].square().sum(), torch.nn.functional.softplus(logits).mean()])

    start, step = first_models(fed), 1e-2
    values, slopes = gradient(fed, start, of)
    assert values.shape == (1, 2, 3) and slopes.shape == (1, 2, 3, fed.model.size)
    for p in range(fed.model.size):
        move = step * np.eye(fed.model.size, dtype=np.float32)[p]
        numeric = (gradient(fed, start + move, of)[0] - gradient(fed, start - move, of)[0]) / (2 * step)
        np.testing.assert_allclose(slopes[..., p], numeric, atol=3e-3)
    for engine in ("fused", "plain"):
        again = gradient(replace(fed, engine=engine), start, of)
        np.testing.assert_allclose(again[0], values, atol=1e-5)
        np.testing.assert_allclose(again[1], slopes, atol=1e-5)


def test_a_batch_of_rows_is_drawn_by_round_and_client():
    fed = federation([60, 45, 3], features=3)
    start = first_models(fed)
    some = gradient(fed, start, t=2, batch=10)
    np.testing.assert_array_equal(some[1], gradient(fed, start, t=2, batch=10)[1])
    assert (some[0] != gradient(fed, start, t=3, batch=10)[0]).any() and some[0][0, 2] == pytest.approx(
        gradient(fed, start)[0][0, 2]
    )
    sizes = gradient(fed, start, lambda z, y, a: z.new_tensor(float(len(z))) + 0 * z.sum(), t=2, batch=10)[0]
    np.testing.assert_array_equal(sizes, [[10, 10, 3]])


def test_average_is_linear_and_exact_for_equal_models():
    fed = federation([20, 30, 50])
    stacked = np.repeat(first_models(fed)[:, None], 3, axis=1)
    np.testing.assert_allclose(fed.one().average(stacked[0], [0.7, -0.4, 0.5]), first_models(fed)[0], rtol=1e-6)


def test_impossible_settings_are_refused():
    with pytest.raises(FairFLError, match="must be a number"):
        ClientTraining(lr=(0.1, 0.2, 0.3))
    for wrong in (
        {"batch_size": -1},
        {"lr": float("nan")},
        {"lr": "fast"},
        {"weight_decay": -1},
        {"epochs": 1.5},
        {"batch_size": 0.5},
    ):
        with pytest.raises(FairFLError, match="needs"):
            ClientTraining(**wrong)
    with pytest.raises(FairFLError, match="did you mean 'adam'"):
        ClientTraining("adma")
    with pytest.raises(FairFLError, match="did you mean 'fused'"):
        federation([10, 10], engine="fusde")
    with pytest.raises(FairFLError, match="momentum of its own"):
        ClientTraining("adam", momentum=0.9)
    with pytest.raises(FairFLError, match="did you mean 'cosine'"):
        ClientTraining(schedule="cosin")
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
