"""One federation for tables and images, that nothing wrong passes silently; runs that stop and go on to the same bytes."""

from dataclasses import dataclass, replace
from functools import partial

import numba
import numpy as np
import pytest
import torch
from asking import best_model, confusion, first_models, gradient, logits, losses, train
from toy import federation, images, tables, uneven

from fairfl_lite import metrics, streams
from fairfl_lite.clients import ClientTraining, Debias
from fairfl_lite.engines.fused import Fused
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Examples, Federation, Method, Models, OneFederation, Pixels, Shards, Standard, State
from fairfl_lite.federation.kept import digest
from fairfl_lite.federation.secagg import SecAgg
from fairfl_lite.methods import (
    AFL,
    EFFL,
    FCFL,
    QFFL,
    CoreFed,
    Ditto,
    FairBatch,
    FairFate,
    FairFed,
    FairReg,
    FedAvg,
    FedDemon,
    FedMDFG,
    FedMGDA,
    FedMom,
    FedVal,
    RankFF,
)
from fairfl_lite.models import Dense

pytestmark = pytest.mark.slow

METHODS = {
    "fedavg": FedAvg(),
    "local": FedAvg(Debias("local")),
    "global": FedAvg(Debias("global")),
    "fairbalance": FedAvg(Debias("fairbalance")),
    "fedmom": FedMom(0.5),
    "feddemon": FedDemon(0.5, rounds=4),
    "fedval": FedVal("acc"),
    "fedval-sp": FedVal("sp"),
    "fair-fate": FairFate("sp", rounds=4),
    "fair-fate-published": FairFate.published("eo", rounds=4),
    "fairfed": FairFed(),
    "fairfed-none": FairFed(rule="none"),
    "fairfed-exp": FairFed(rule="exp", metric="spd", beta=1e5),
    "corefed": CoreFed(),
    "corefed-sum": CoreFed("sum"),
    "rankff": RankFF(2, J=3, p=1.0),
    "q-ffl": QFFL(),
    "afl": AFL(lr_lambda=0.5),
    "ditto": Ditto(),
    "fairbatch": FairBatch(0.1),
    "fairbatch-apsd": FairBatch(0.1, "apsd"),
    "fairreg": FairReg(),
    "fcfl": FCFL(0.02, first=2),
    "fedmdfg": FedMDFG(),
    "fedmgda": FedMGDA(),
    "effl": EFFL(0.05, 0.05, 0.02, (1, 1, 2)),
    "effl-every": EFFL(0.01, 0.01, 0.01, (1, 1, 2), "apsd_acc", violators="every"),
}
ANYWHERE = (
    "fedavg", "fedmom", "feddemon", "fedval", "corefed", "rankff",
    "q-ffl", "afl", "ditto", "fairreg", "fcfl", "fedmdfg", "fedmgda", "effl", "effl-every",
)  # fmt: skip
WHOLE = ("fairfed", "afl", "fcfl")
"""How the names of methods begin that ask every client in every round."""


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("participants", [0, 2])
def test_methods_run_on_tables_and_images_or_say_why_not(name, participants):
    method = METHODS[name]
    if name.startswith(WHOLE) and participants:
        with pytest.raises(FairFLError, match="every client in every round"):
            tables(participants=participants).run(method, 1)
        return
    history = tables(participants=participants).run(method, 4)
    assert np.isfinite(history.values("acc")).all() and np.isfinite(history.values("spd")).any()
    if name in ANYWHERE:
        history = images(participants=participants).run(method, 4)
        assert history.counts["test"].shape == (2, 4, 3, 2, 10, 10) and (history.counts["test"].sum((2, 3, 4, 5)) == 30).all()
        assert np.isfinite(history.values("acc")).all() and set(history.frame().metric) == {"acc", "std_acc"}
        with pytest.raises(FairFLError, match="eod compares two groups in a choice of two: there are 2 groups and 10 classes"):
            history.values("eod")
    elif name in ("fedval-sp", "fairfed", "fair-fate"):
        with pytest.raises(FairFLError, match="compares two groups in a choice of two"):
            images().run(method, 1)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("participants", [0, 2])
def test_an_empty_client_takes_no_part_and_has_no_weight_in_any_method(name, participants, monkeypatch):
    """The same rows dealt to three clients, and to five of whom two have none: the answers are equal bit for bit."""
    if (name.startswith(WHOLE) and participants) or name == "ditto":  # whose answer has a place for empty clients: test_baselines
        return
    fed = tables(central=True)
    train = fed.shards["train"]
    dealt = [[train.rows(r, k) for k in range(3)] for r in range(2)]
    empty = np.empty(0, np.int32)
    three = replace(fed, shards={**fed.shards, "train": Shards.deal(train.examples, dealt)})
    five = [[run[0], empty, run[1], run[2], empty] for run in dealt]
    five = replace(fed, shards={**fed.shards, "train": Shards.deal(train.examples, five)})
    if participants:
        three, five = replace(three, participants=2), replace(five, participants=2)
    places = {1: [[0, 2], [2, 3]], 2: [[2, 3], [0, 3]], 3: [[0, 3], [0, 2]], 4: [[0, 2], [0, 3]]}
    old, keys, stream = {0: 0, 2: 1, 3: 2}, streams.keys, streams.stream

    def same_keys(seed, purpose, t, count):  # a client's stream goes by its number: give those with rows the streams they had
        return keys(seed, purpose, t, 3) if count == 3 else keys(seed, purpose, t, 3)[[0, 0, 1, 2, 0]]

    def same_stream(seed, purpose, *more):  # debiasing is drawn for all clients: let the same ones do it
        return _Same() if purpose in ("debias", "fairbalance") else stream(seed, purpose, *more)

    def same_clients(one, t):
        if not participants:
            return one.all_clients
        drawn = places[t][one.seed]
        return np.array(drawn if one.n == 5 else [old[k] for k in drawn])

    monkeypatch.setattr(streams, "keys", same_keys)
    monkeypatch.setattr(streams, "stream", same_stream)
    monkeypatch.setattr(OneFederation, "sample_clients", same_clients)
    expected, found = (fed.run(METHODS[name], 4) for fed in (three, five))
    np.testing.assert_array_equal(found.answer, expected.answer)
    np.testing.assert_array_equal(found.counts["test"], expected.counts["test"])
    if "weights" in found.state.memory:
        assert (found.state["weights"][:, [1, 4]] == 0).all()


class _Same:
    """A generator that draws the same for a client whatever empty ones are beside it."""

    def permutation(self, n):
        return np.arange(n)

    def integers(self, high, size):
        return {3: np.array([11, 12, 13]), 5: np.array([11, 0, 12, 13, 0])}[size]


def test_a_run_may_have_fewer_clients_than_another():
    fed = federation([30, 20, 10], runs=2)
    train = fed.shards["train"]
    dealt = [[train.rows(0, k) for k in range(3)], [train.rows(1, 0), np.empty(0, int), train.rows(1, 2)]]
    shards = Shards.deal(train.examples, dealt)
    uneven = replace(fed, shards={"train": shards, "test": shards, "validation": shards})
    one, other = uneven.one(0), uneven.one(1)
    assert list(one.all_clients) == [0, 1, 2] and list(other.all_clients) == [0, 2]
    np.testing.assert_allclose(one.shares(one.all_clients), [1 / 2, 1 / 3, 1 / 6])
    np.testing.assert_allclose(other.shares(other.all_clients), [3 / 4, 1 / 4])
    for name, method in METHODS.items():
        if name != "fairbalance":
            assert np.isfinite(uneven.run(method, 2).answer).all(), name


def test_values_of_some_clients_stand_in_their_places_among_all():
    one = federation([20] * 5).one()
    np.testing.assert_array_equal(one.by_client(np.array([1.0, 2.0]), np.array([1, 4]), np.nan), [np.nan, 1, np.nan, np.nan, 2])
    np.testing.assert_array_equal(one.by_client(np.ones((2, 3)), np.array([0, 3]))[:, 0], [1, 0, 0, 1, 0])
    assert one.by_client(np.array([True]), np.array([2]), False).dtype == bool


# What is wrong at the door.


def door(X=None, y=None, a=None, **more):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2)) if X is None else X
    y, a = (np.array([0, 1, 0, 1, 0, 1]) if v is None else v for v in (y, a))
    return Examples(X, y, a, **more)


def with_value(value):
    X = np.ones((6, 2))
    X[4, 1] = value
    return X


@pytest.mark.parametrize(("wrong", "sentence"), [
    (lambda: door(X=with_value(np.nan)), "Feature 1 of row 4 is nan"),
    (lambda: door(X=with_value(np.inf)), "Feature 1 of row 4 is inf"),
    (lambda: door(X=with_value(1e300)), "Feature 1 of row 4 is inf"),
    (lambda: door(X=np.array([["a"]] * 6)), "Examples need numbers"),
    (lambda: door(y=np.array([-1, 1, -1, 1, -1, 1])), "labels y must be whole numbers from 0 to 1, but row 0 has -1"),
    (lambda: door(y=np.array([0, 1, 0.5, 1, 0, 1])), "row 2 has 0.5"),
    (lambda: door(y=np.array([0, 1, np.nan, 1, 0, 1])), "labels y must be whole numbers"),
    (lambda: door(a=np.array([0, 1, 2, 1, 0, 1]), groups=2), "groups a must be whole numbers from 0 to 1, but row 2 has 2"),
    (lambda: door(a=np.array([0, 1, 10**9, 1, 0, 1])), "recode"),
    (lambda: door(y=np.array([0, 1])), "one whole number for each of 6 rows"),
    (lambda: Shards.deal(door(), [[np.array([0, 6])]]), "holds rows 0 to 6: there are 6"),
    (lambda: Shards.deal(door(), [[np.array([-1, 2])]]), "holds rows -1 to 2"),
    (lambda: Shards.deal(door(), [[np.array([0, 1])]]).weighted(np.full((1, 1, 2, 2), np.nan)), "Weights of rows must be finite"),
    (lambda: federation([20, 20], classes=3) and Federation({"train": federation([20], classes=3).shards["train"]}, Dense(5),
                                                            ClientTraining(), (0,), Standard.plain(1, 5)), "give it classes=3"),
    (lambda: train(federation([20, 20]), np.zeros((1, 6), np.float32), 1, np.array([2])), "numbered from 0 to 1, and client 2"),
    (lambda: confusion(federation([20, 20]), np.zeros((1, 3, 6), np.float32)), "2 clients are asked, and models were given for"),
    (lambda: ClientTraining(lr=1e39), "finite as float32"),
    (lambda: ClientTraining(lr=(0.1, 0.2)), "must be a number"),
])  # fmt: skip
def test_what_is_wrong_is_refused_at_the_door(wrong, sentence):
    with pytest.raises(FairFLError, match=sentence):
        wrong()


def test_three_groups_and_a_hundred_and_one_are_all_counted():
    for groups in (3, 101):
        fed = federation([300, 300], groups=groups)
        counts = confusion(fed, first_models(fed))
        assert counts.shape == (1, 2, groups, 2, 2) and counts.sum() == 600
        np.testing.assert_array_equal(counts.sum((0, 1, 4)), fed.shards["train"].census().sum((0, 1)))


def two_runs(**options):
    return federation([20, 20, 20], runs=2, features=4, **options)


def with_part(X, inputs=None, model=None, **options):
    shards = Shards.of(X, np.arange(len(X)) % 2, np.arange(len(X)) % 2, [np.array_split(np.arange(len(X)), 3)])
    made = inputs or Standard.plain(1, X.shape[1])
    return Federation({"train": shards}, model or Dense(X.shape[1]), ClientTraining(), (0,), made, **options)


SOME = np.random.default_rng(0).normal(size=(30, 4))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: with_part(SOME, model=Dense(3)), "reads rows of 3 features and there are 4"),
        (lambda: with_part(SOME, Standard.plain(1, 3)), r"rows of shape \(4,\), and shift and scale are \(1, 3\)"),
        (lambda: with_part(SOME, Standard.plain(2, 4)), "for 1 runs"),
        (lambda: with_part(SOME, Standard(np.full((1, 4), np.nan, np.float32), np.ones((1, 4), np.float32))), "must be finite"),
        (lambda: with_part(SOME, Standard(np.full((1, 4), 1e6, np.float32), np.ones((1, 4), np.float32))), "single precision"),
        (lambda: with_part(SOME * 1e30), "single precision"),
        (lambda: with_part(SOME, Pixels()), "images have 1 channels"),
        (lambda: with_part(SOME, init_params=np.zeros(3)), "first model must be 5 finite numbers, not of shape"),
        (lambda: with_part(SOME, init_params=np.full(5, np.nan)), "first model must be 5 finite numbers, not with NaN"),
        (lambda: with_part(SOME, participants=1.5), "participants must be a whole number"),
        (lambda: replace(two_runs(), seeds=(-1, 0)), "whole numbers of at least 0"),
        (
            lambda: Federation({"test": two_runs().shards["test"]}, Dense(4), ClientTraining(), (0, 1), Standard.plain(2, 4)),
            'a part "train"',
        ),
        (lambda: logits(two_runs(), first_models(two_runs())[:, :3]), r"shape \[5\], or \[client, 5\]"),
        (lambda: gradient(two_runs(), np.zeros((2, 2, 2, 5))), "Models must be numbers of shape"),
        (lambda: losses(two_runs(), np.zeros((2, 6), np.float32)), "Models must be numbers of shape"),
        (lambda: train(two_runs(), np.zeros((2, 1), np.float32), 1), "Models must be numbers of shape"),
        (lambda: train(two_runs(), np.zeros((2, 5), int), 1), "Models must be numbers of shape"),
        (lambda: confusion(two_runs(), first_models(two_runs()), each_model=True), r"shape \[model, 5\]"),
        (
            lambda: losses(two_runs(), [Models(np.zeros((2, 5), np.float32), np.full(3, 2))] * 2),
            "one of 2 models for each client",
        ),
        (lambda: losses(two_runs(), [Models(np.zeros((2, 5), np.float32), np.full(1, 0))] * 2), "of 1 clients, and client 2 is"),
        (lambda: gradient(two_runs(), first_models(two_runs()), batch=-1), "batch must be a whole number"),
        (lambda: confusion(two_runs(), first_models(two_runs()), clients=[0.5, 1.0]), "Name clients by their numbers"),
        (lambda: confusion(two_runs(), first_models(two_runs()), clients=np.array([[0], [1]])), "Name clients by their numbers"),
        (lambda: confusion(two_runs(), first_models(two_runs()), clients=np.array([-7])), "numbered from 0 to 2, and client -7"),
        (lambda: confusion(two_runs(), first_models(two_runs()), "tset"), "did you mean 'test'"),
        (lambda: two_runs().one(7), "There is no run of seed 7"),
        (lambda: Shards.deal(door(), [[np.arange(6) < 3, np.arange(6) >= 3]]), "flatnonzero"),
        (lambda: Shards.deal(door(), [[np.array([0.7])]]), "flatnonzero"),
        (lambda: Shards.deal(door(), [[np.array([0])], [np.array([0]), np.array([1])]]), "same number of clients"),
        (lambda: Shards(door(), np.arange(6, dtype=np.int32), np.array([[0, 5, 600]])), "within the 6 places"),
        (lambda: Shards.deal(door(), [[np.array([0])]]).weighted(np.ones((1, 2))), "must be of shape"),
        (lambda: images().run(FedAvg(Debias("fairbalance")), 1), "no meaning for other data"),
        (lambda: tables(central=True).run(CoreFed(on="validation"), 1), "needs rows in part 'validation'"),
        (lambda: gradient(two_runs(), first_models(two_runs()), lambda z, y, a: z[:, None] * z), "one torch value, or a vector"),
        (lambda: gradient(two_runs(), first_models(two_runs()), lambda z, y, a: z[a == 0]), "equally many values"),
    ],
)
def test_what_does_not_fit_together_is_said_and_never_read_from_elsewhere(wrong, sentence):
    with pytest.raises(FairFLError, match=sentence):
        wrong()


@pytest.mark.parametrize("engine", ["fused", "plain"])
def test_a_client_that_lacks_a_group_has_the_gradient_0(engine):
    a = np.r_[np.zeros(10, int), np.arange(20) % 2]
    shards = Shards.of(SOME, np.arange(30) % 2, a, [np.array_split(np.arange(30), 3)])
    fed = Federation({"train": shards}, Dense(4), ClientTraining(), (0,), Standard.of(shards), engine=engine)

    def gap(z, y, a):
        return (z[a == 0].mean() - z[a == 1].mean()).abs() if (a == 1).any() else torch.tensor(0.0)

    values, slopes = gradient(fed, first_models(fed), gap)
    assert values[0, 0] == 0 and (slopes[0, 0] == 0).all() and (slopes[0, 1:, :4] != 0).all()


@pytest.mark.parametrize("engine", ["fused", "plain"])
@pytest.mark.parametrize("scale", [0.01, 1, 30])  # models that are all alike, and models of which most are far off
def test_the_model_with_the_lowest_loss_is_that_of_the_losses(engine, scale):
    fed = uneven(ClientTraining(), engine=engine, diverged="keep")
    models = (scale * np.random.default_rng(4).normal(size=(2, 9, 5))).astype(np.float32)
    models[0, 2], models[1, 5, 3], models[1, 8] = (
        models[0, 7],
        np.inf,
        models[1, 0],
    )  # the first of equals; none that is not finite
    for some in (None, np.array([2, 0])):
        found = losses(fed, models, clients=some, each_model=True)
        assert (best_model(fed, models, some) == np.nan_to_num(found, nan=np.inf).argmin(1)).all()
    equal = np.repeat(models[:, :1], 9, axis=1)
    assert (best_model(fed, equal) == 0).all()
    with pytest.raises(FairFLError, match="cannot be asked"):
        best_model(replace(fed, diverged="refuse"), models)


def test_most_rows_of_a_model_that_is_far_off_are_not_read(monkeypatch):
    fed, read, score = uneven(ClientTraining(), engine="fused"), [], Fused.score
    monkeypatch.setattr(
        Fused, "score", lambda self, work, *more, **loss: read.append(work.rows.sum()) or score(self, work, *more, **loss)
    )
    good = fed.run(FedAvg(), 30, record=()).state.params
    read.clear()
    assert (best_model(fed, np.stack([-900 * good, good, -700 * good], axis=1)) == [[1, 1, 1], [1, 0, 1]]).all()
    assert (
        sum(read) == fed.sizes().sum() + 2 * 8 * (fed.sizes() > 0).sum()
    )  # of the other two the first eight rows of each client


def test_a_part_that_lacks_the_last_class_is_counted_like_the_others():
    fed = federation([30, 30], classes=3)
    few = Shards.of(fed.shards["train"].X, np.arange(60) % 2, np.zeros(60, int), [np.array_split(np.arange(60), 2)])
    history = replace(fed, shards={"train": fed.shards["train"], "test": few}).run(FedAvg(), 2)
    assert history.counts["test"].shape == (1, 2, 2, 2, 3, 3)


def test_nothing_is_known_of_no_rows():
    nothing = np.zeros((2, 2, 2))
    assert all(np.isnan(metrics.MODEL[name](nothing)) for name in ("acc", "mcc", "eod", "spd", "balanced_acc"))


# What goes wrong inside.


@pytest.mark.parametrize("hidden", [0, 6])
def test_divergence_is_said_with_round_and_client_and_never_scores_as_fair(hidden):
    fed = federation([60, 60], hidden=hidden, local=ClientTraining("sgd", 1e20, 0.5, 3, 8))
    with pytest.raises(FairFLError, match=r"Client \d of seed 0 diverged in round 1: .*lower its learning rate \(1e\+20\)"):
        fed.run(FedAvg(), 3)
    kept = replace(fed, diverged="keep").run(FedAvg(), 2)
    assert not np.isfinite(kept.answer).all()
    for metric in ("acc", "eod", "spd"):
        assert np.isnan(kept.values(metric)).all()
    assert np.isnan(losses(replace(fed, diverged="keep"), kept.answer)).all()
    with pytest.raises(FairFLError, match="not finite"):
        confusion(fed, np.full((1, fed.model.size), np.nan, np.float32))


def test_a_method_whose_step_explodes_is_said():
    @dataclass(frozen=True)
    class Explodes(Method):
        name: str = "explodes"

        async def start(self, fed):
            return State(fed.init_params())

        async def round(self, fed, state, t):
            return State(state.params * np.float32(np.inf if t == 2 else 1))

    with pytest.raises(FairFLError, match="After round 2 the model of explodes is not finite for seed 0"):
        federation([30, 30]).run(Explodes(), 3)


@pytest.mark.parametrize("hidden", [0, 6])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_clients_nan_reaches_nobody_else(hidden, optimizer):
    """Behind the door, in the kernels themselves: a client whose rows are NaN beside others, with one thread and with two."""
    fed = federation([9, 60, 5], hidden=hidden, local=ClientTraining(optimizer, 0.05, 0.0, 2, 8), diverged="keep")
    start, some = first_models(fed), np.array([0, 2])
    clean, slopes = train(fed, start, 1, some), gradient(fed, start, clients=some)[1]
    fed.shards["train"].X[fed.shards["train"].rows(0, 1)] = np.nan
    threads = numba.get_num_threads()
    try:
        for many in {1, threads}:
            numba.set_num_threads(many)
            assert np.isnan(train(fed, start, 1)[0, 1]).any()
            np.testing.assert_array_equal(train(fed, start, 1)[:, [0, 2]], clean)
            np.testing.assert_array_equal(gradient(fed, start)[1][:, [0, 2]], slopes)
    finally:
        numba.set_num_threads(threads)


def test_runs_that_read_rows_differently_are_no_twins():
    """Network and SGD: the same rows, order, rate and start, another shift and scale."""
    fed = federation([40, 30], hidden=6, local=ClientTraining("sgd", 0.1, 0, 2, 8))
    shards = {part: replace(each, start=np.tile(each.start, (2, 1))) for part, each in fed.shards.items()}
    shift, scale = (np.repeat(each, 2, 0) for each in (fed.inputs.shift, fed.inputs.scale))
    inputs = Standard(shift + np.array([[0], [1]], np.float32), scale * np.array([[1], [3]], np.float32))
    both = replace(fed, shards=shards, seeds=(0, 0), inputs=inputs)
    assert isinstance(both._engine, Fused)
    found, expected = (train(each, first_models(both), 1) for each in (both, replace(both, engine="plain")))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.01


def test_a_very_large_budget_of_fairfeds_exponential_rule_does_not_vanish():
    fed = federation([60, 40, 50])
    history = fed.run(FairFed(beta=1e5, rule="exp"), 3, remember=("weights",))
    assert np.isfinite(history.answer).all() and history.memory["weights"].sum(-1) == pytest.approx(1)


def test_many_settings_at_once_are_each_what_they_are_alone():
    fed = federation([40, 30], runs=2, local=ClientTraining("sgd", 0.1, 0, 1, 8))
    methods = [FairFed(beta=0.5), FairFed(beta=2.0, eta=0.3), FedMom(0.5), QFFL(2.0), AFL(0.3, 0.5), FedMDFG(0.3), FairReg(0.5)]
    together = fed.run(methods, 3)
    assert list(together) == [
        "fairfed beta=0.5 eta=1.0",
        "fairfed beta=2.0 eta=0.3",
        "fedmom",
        "q-ffl",
        "afl",
        "fedmdfg",
        "fairreg",
    ]
    assert together.values("acc").shape == (7, 2, 3)
    assert len(together.frame()) == sum(len(history.frame()) for history in together.values())
    for method, history in zip(methods, together.values(), strict=True):
        same(history, fed.run(method, 3))
    with pytest.raises(FairFLError, match="are both 'fedavg'"):
        fed.run([FedAvg(), FedAvg()], 1)


# Sums.


@pytest.mark.parametrize("aggregate", [None, SecAgg(3, seed=1)])
def test_averages_stream_and_agree_with_the_formula(aggregate):
    fed = federation([20, 30, 50], **({"aggregate": aggregate} if aggregate else {}))
    rng = np.random.default_rng(0)
    models, weights, one = rng.normal(size=(3, 40)), rng.random(3), fed.one()
    np.testing.assert_allclose(one.average(models, weights), np.average(models, axis=0, weights=weights), atol=1e-8)
    np.testing.assert_allclose(one.sum(models, weights), weights @ models, atol=1e-8)
    np.testing.assert_allclose(one.sum(models), models.sum(0), atol=1e-8)
    np.testing.assert_allclose(one.sum(weights), weights.sum(), atol=1e-8)


# What a method answers.


def test_an_answer_may_be_one_model_for_each_client_or_group():
    fed = federation([30, 20, 10], local=ClientTraining("sgd", 0.3, 0, 3, 5))

    @dataclass(frozen=True)
    class Personal(Method):
        grouped: bool
        name: str = "personal"

        async def start(self, fed):
            return State(fed.init_params(), {"own": np.repeat(fed.init_params()[None], 3, axis=0)})

        async def round(self, fed, state, t):
            return State(state.params, {"own": await fed.train(state["own"], fed.all_clients, t)})

        def answer(self, state):
            return Models(state["own"][:2], np.array([0, 1, 1])) if self.grouped else state["own"]

    own, grouped = fed.run(Personal(False), 2), fed.run(Personal(True), 2)
    trained = train(fed, train(fed, np.repeat(first_models(fed)[:, None], 3, 1), 1), 2)
    np.testing.assert_array_equal(own.answer, trained)
    np.testing.assert_array_equal(own.counts["test"][:, -1], confusion(fed, trained, "test"))
    shared = np.stack([trained[:, 0], trained[:, 1], trained[:, 1]], 1)
    np.testing.assert_array_equal(grouped.counts["test"][:, -1], confusion(fed, shared, "test"))
    of_groups = [Models(grouped.answer.models[0], grouped.answer.of[0])]
    np.testing.assert_array_equal(losses(fed, of_groups, "test"), losses(fed, shared, "test"))


def test_rankff_answers_with_its_best_model():
    history = federation([30, 30], local=ClientTraining("sgd", 0.1, 0, 1, 8)).run(RankFF(2, J=5, p=1.0), 6)
    np.testing.assert_array_equal(history.answer, history.state["best"])
    assert metrics.accuracy(history.counts["test"][:, -1]).shape == (1, 2)


# A run that stops and goes on.


def make(name, folder, rounds=12, every=1):
    fed = tables(participants=0 if name.startswith(WHOLE) else 2)
    remember = ("weights",) if name in ("fedavg", "fairfed", "rankff", "global") else ()
    return fed.run(METHODS[name] if name != "feddemon" else FedDemon(0.5, rounds=rounds), rounds, record=("test", "validation"),
                   remember=remember, checkpoint_dir=folder, checkpoint_every=every)  # fmt: skip


def everything(history):
    """Every array of a history by name."""
    parts = {"counts": history.counts, "memory": history.memory, "state": history.state.memory}
    named = {f"{what} {name}": value for what, part in parts.items() for name, value in part.items()}
    return {**named, "params": history.state.params, "answer": history.answer}


def same(one, other):
    one, other = everything(one), everything(other)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("name", ["fedavg", "global", "fedmom", "feddemon", "fedval-sp", "fairfed", "corefed", "rankff", "afl",
                                  "ditto", "fairbatch", "fcfl", "fedmdfg", "effl"])  # fmt: skip
def test_a_run_goes_on_where_it_was_stopped(name, tmp_path, monkeypatch):
    whole = make(name, None)
    calls = []
    original = type(METHODS[name]).round

    async def counted(self, fed, state, t):
        if fed.seed == 0:  # each of two seeds has a round of its own
            calls.append(t)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return await original(self, fed, state, t)

    monkeypatch.setattr(type(METHODS[name]), "round", counted)
    with pytest.raises(KeyboardInterrupt):
        make(name, tmp_path, every=3)
    same(make(name, tmp_path, every=3), whole)
    assert calls == [*range(1, 9), *range(7, 13)]
    same(make(name, tmp_path, every=3), whole)
    assert len(calls) == 14 and [path.suffix for path in tmp_path.iterdir()] == [".npz"]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_may_record_every_so_many_rounds(stopped, tmp_path):
    fed = tables()
    whole, some = (fed.run(FedMom(0.5), 12, remember=("v",), eval_every=look) for look in (1, 3))
    if stopped:
        fed.run(FedMom(0.5), 6, remember=("v",), eval_every=3, checkpoint_dir=tmp_path)
        some = fed.run(FedMom(0.5), 12, remember=("v",), eval_every=3, checkpoint_dir=tmp_path, checkpoint_every=2)
        assert len(list(tmp_path.iterdir())) == 1
        fed.run(FedMom(0.5), 6, remember=("v",), checkpoint_dir=tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_array_equal(some.answer, whole.answer)
    np.testing.assert_array_equal(some.counts["test"], whole.counts["test"][:, 2::3])
    np.testing.assert_array_equal(some.memory["v"], whole.memory["v"][:, 2::3])
    assert sorted(set(some.frame()["round"])) == [3, 6, 9, 12]
    for look in (0, 5, 24):
        with pytest.raises(FairFLError, match="must be recorded"):
            fed.run(FedAvg(), 12, eval_every=look)


def test_another_setting_another_method_and_a_broken_file_begin_anew(tmp_path):
    whole = make("fedavg", tmp_path, rounds=3)
    fed = tables(participants=2)
    other = replace(fed, local=replace(fed.local, lr=0.2)).run(FedAvg(), 3, checkpoint_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2 and (other.answer != whole.answer).any()
    fed.run(FedMom(0.6), 3, checkpoint_dir=tmp_path)
    fed.run(FedMom(0.7), 3, checkpoint_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:200])
    same(make("fedavg", tmp_path, rounds=3), whole)
    same(make("fedavg", tmp_path, rounds=5), make("fedavg", None, rounds=5))
    with pytest.raises(FairFLError, match="at least one round"):
        fed.run(FedAvg(), 3, checkpoint_dir=tmp_path, checkpoint_every=0)


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, messages):
        return self.by * np.asarray(messages).sum(axis=1)

    def bound(self, messages):
        return self(messages)


def closure(by):
    return lambda messages: by * np.asarray(messages).sum(axis=1)


@dataclass(frozen=True)
class Named(Method):
    setting: object = None
    name: str = "named"

    async def start(self, fed):
        return State(fed.init_params())

    async def round(self, fed, state, t):
        return state


@pytest.mark.parametrize("pair", [
    (closure(1), closure(2)), (partial(closure, 1), partial(closure, 2)), (Scaled(1), Scaled(2)),
    (Scaled(1).bound, Scaled(2).bound),
    (np.zeros(5000), np.eye(1, 5000, 2500)[0]), (torch.zeros(5000), torch.eye(1, 5000)[0]), ({"a": {"b": 1}}, {"a": {}, "b": 1}),
    ((1, 2), (12,)), (1, 1.0), (1, True), ("1", 1), (lambda x: x + 1, lambda x: x + 2), (range(3), range(4)),
    ([[1], [2]], [[1, 2]]),
])  # fmt: skip
def test_the_name_of_a_kept_run_tells_settings_apart(pair):
    fed = federation([20, 20])
    first, other = (digest(fed, Named(setting)) for setting in pair)
    assert first != other and first == digest(federation([20, 20]), Named(pair[0]))


def test_a_kept_run_goes_on_after_secure_sums_and_refuses_what_it_cannot_tell_apart(tmp_path):
    fed = federation([20, 20, 20], aggregate=SecAgg(3, seed=1))
    fed.run(FedAvg(), 2, checkpoint_dir=tmp_path)
    fed.run(FedAvg(), 3, checkpoint_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FairFLError, match="depends on a Generator cannot be kept"):
        fed.run(Named(np.random.default_rng(0)), 1, checkpoint_dir=tmp_path)


def test_torch_and_numpy_read_rows_alike():
    inputs = Standard(np.array([[0.5, 1.0]], np.float32), np.array([[2.0, 3.0]], np.float32))
    X = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    np.testing.assert_array_equal(inputs(X, 0), inputs(torch.as_tensor(X), 0).numpy())
