"""One federation for tables and images, that nothing wrong passes silently; runs that stop and go on to the same bytes."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from test_engine import federation
from toy import rows as toy_rows
from toy import uneven
from waiting import FOR_EVER

from fairfl_lite import metrics
from fairfl_lite.clients import Debias, Local
from fairfl_lite.data import Images, Partition
from fairfl_lite.engines.fused import Fused
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Examples, Federation, Method, Models, Pixels, Shards, Standard, State, gather, scatter
from fairfl_lite.federation.kept import digest
from fairfl_lite.federation.secagg import SecAgg
from fairfl_lite.methods import (
    AFL,
    EFFL,
    FCFL,
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
from fairfl_lite.methods import QFFL as PaperQFFL
from fairfl_lite.models import CNN, Dense


@dataclass(frozen=True)
class QFFL(Method):
    """q-FedAvg in a dozen lines; q = 0 is the plain mean of those who take part."""

    q: float = 1.0
    name: str = "q-ffl"

    def start(self, fed):
        return State(fed.start())

    def round(self, fed, state, t):
        who = fed.who(t)
        there, L = (who >= 0)[..., None], 1 / fed.local.lr
        loss = np.nan_to_num(fed.losses(state.params, who=who))[..., None] + 1e-10
        g = L * (state.params[:, None] - fed.train(state.params, t, who=who).astype(float))
        h = np.where(there, self.q * loss ** (self.q - 1) * (g**2).sum(-1, keepdims=True) + L * loss**self.q, 0)
        step = (np.where(there, loss**self.q * g, 0)).sum(1) / h.sum(1)
        return State((state.params - step).astype(state.params.dtype))


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
    "q-ffl": PaperQFFL(),
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


def tables(**options):
    how = {"validation": 0.25, "minimum": 0, **options}
    return Federation.of(
        toy_rows(), Partition.dirichlet(1.0, 4, over="sensitive+label"), (0, 1), Local("sgd", 0.1, 0, 1, 10), **how
    )


def pictures(n=120, classes=10):
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    x = rng.integers(0, 80, (n, 1, 28, 28), np.uint8)
    for i, label in enumerate(y):
        x[i, 0, 2 * label : 2 * label + 4] += 150
    return Images("mnist", x, y.astype(np.int64), n * 2 // 3, "digest")


def images(**options):
    model = CNN((2, 3), 8)
    return Federation.of_images(pictures(), (0, 20, 90), (0, 1), Local("sgd", 0.05, 0, 1, 5), model, train=20, test=10,
                                validation=6, **options)  # fmt: skip


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
def test_an_empty_client_takes_no_part_and_has_no_weight_in_any_method(name, participants):
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

    def same_keys(purpose, t):  # a client's stream goes by its number: give those with rows the streams they had
        return scatter(three._keys(purpose, t), np.array([[0, 2, 3]] * 2), 5, np.uint64(0))

    places = {1: [[0, 2], [2, 3]], 2: [[2, 3], [0, 3]], 3: [[0, 3], [0, 2]], 4: [[0, 2], [0, 3]]}
    old = {0: 0, 2: 1, 3: 2}
    object.__setattr__(five, "_keys", same_keys)
    for one in (three, five):  # debiasing is drawn for all clients: let the same ones do it
        object.__setattr__(one, "rng", lambda purpose, t=0, one=one: [_Same(one.clients) for _ in one.seeds]
                           if purpose in ("debias", "fairbalance") else Federation.rng(one, purpose, t))  # fmt: skip
    if participants:
        object.__setattr__(five, "who", lambda t: np.array(places[t]))
        object.__setattr__(three, "who", lambda t: np.vectorize(old.get)(np.array(places[t])))
        for one in (three, five):
            object.__setattr__(one, "participants", 2)
    expected, found = (fed.run(METHODS[name], 4) for fed in (three, five))
    np.testing.assert_array_equal(found.answer, expected.answer)
    np.testing.assert_array_equal(found.counts["test"], expected.counts["test"])
    if "weights" in found.state.memory:
        assert (found.state["weights"][:, [1, 4]] == 0).all()


class _Same:
    """A generator that draws the same for a client whatever empty ones are beside it."""

    def __init__(self, clients):
        self.clients = clients

    def permutation(self, n):
        return np.arange(n)

    def integers(self, high, size):
        return {3: np.array([11, 12, 13]), 5: np.array([11, 0, 12, 13, 0])}[size]


def test_a_run_with_fewer_clients_than_another_is_filled_up():
    fed = federation([30, 20, 10], runs=2)
    train = fed.shards["train"]
    dealt = [[train.rows(0, k) for k in range(3)], [train.rows(1, 0), np.empty(0, int), train.rows(1, 2)]]
    shards = Shards.deal(train.examples, dealt)
    uneven = replace(fed, shards={"train": shards, "test": shards, "validation": shards})
    np.testing.assert_array_equal(uneven.everybody(), [[0, 1, 2], [0, 2, -1]])
    np.testing.assert_allclose(uneven.shares(uneven.everybody()), [[1 / 2, 1 / 3, 1 / 6], [3 / 4, 1 / 4, 0]])
    for name, method in METHODS.items():
        if name != "fairbalance":
            assert np.isfinite(uneven.run(method, 2).answer).all(), name


def test_gather_and_scatter_undo_each_other():
    who = np.array([[0, 2, 3], [1, 4, -1]])
    values = np.arange(10.0).reshape(2, 5)
    np.testing.assert_array_equal(gather(values, who), [[0, 2, 3], [6, 9, 0]])
    np.testing.assert_array_equal(scatter(gather(values, who), who, 5, -7.0), [[0, -7, 2, 3, -7], [-7, 6, -7, -7, 9]])


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
                                                            Local(), (0,), Standard.plain(1, 5)), "give it classes=3"),
    (lambda: federation([0, 0, 1]).repeat(1) and federation([20, 20]).train(np.zeros((1, 6), np.float32), 1, who=np.array([[2]])),
     "who must be numbers of clients"),
    (lambda: federation([20, 20]).report(np.zeros((1, 3, 6), np.float32)), r"shape \[1, 6\] or \[1, 2, 6\]"),
    (lambda: Local(lr=1e39), "finite as float32"),
    (lambda: Local(lr=(0.1, np.nan)), "finite as float32"),
])  # fmt: skip
def test_what_is_wrong_is_refused_at_the_door(wrong, sentence):
    with pytest.raises(FairFLError, match=sentence):
        wrong()


def test_three_groups_and_a_hundred_and_one_are_all_counted():
    for groups in (3, 101):
        fed = federation([300, 300], groups=groups)
        counts = fed.report(fed.start())
        assert counts.shape == (1, 2, groups, 2, 2) and counts.sum() == 600
        np.testing.assert_array_equal(counts.sum((0, 1, 4)), fed.shards["train"].census().sum((0, 1)))


def two_runs(**options):
    return federation([20, 20, 20], runs=2, features=4, **options)


def with_part(X, inputs=None, model=None, **options):
    shards = Shards.of(X, np.arange(len(X)) % 2, np.arange(len(X)) % 2, [np.array_split(np.arange(len(X)), 3)])
    made = inputs or Standard.plain(1, X.shape[1])
    return Federation({"train": shards}, model or Dense(X.shape[1]), Local(), (0,), made, **options)


SOME = np.random.default_rng(0).normal(size=(30, 4))


@pytest.mark.parametrize(("wrong", "sentence"), [
    (lambda: with_part(SOME, model=Dense(3)), "reads rows of 3 features and there are 4"),
    (lambda: with_part(SOME, Standard.plain(1, 3)), r"rows of shape \(4,\), and shift and scale are \(1, 3\)"),
    (lambda: with_part(SOME, Standard.plain(2, 4)), "for 1 runs"),
    (lambda: with_part(SOME, Standard(np.full((1, 4), np.nan, np.float32), np.ones((1, 4), np.float32))), "must be finite"),
    (lambda: with_part(SOME, Standard(np.full((1, 4), 1e6, np.float32), np.ones((1, 4), np.float32))), "single precision"),
    (lambda: with_part(SOME * 1e30), "single precision"),
    (lambda: with_part(SOME, Pixels()), "images have 1 channels"),
    (lambda: with_part(SOME, first=np.zeros(3)), "first model must be 5 finite numbers, not of shape"),
    (lambda: with_part(SOME, first=np.full(5, np.nan)), "first model must be 5 finite numbers, not with NaN"),
    (lambda: with_part(SOME, participants=1.5), "participants must be a whole number"),
    (lambda: replace(two_runs(), seeds=(-1, 0)), "whole numbers of at least 0"),
    (lambda: Federation({"test": two_runs().shards["test"]}, Dense(4), Local(), (0, 1), Standard.plain(2, 4)), 'a part "train"'),
    (lambda: two_runs().logits(two_runs().start()[0]), r"shape \[2, 5\] or \[2, 3, 5\]"),
    (lambda: two_runs().gradient(two_runs().start()[:1]), "Models must be numbers of shape"),
    (lambda: two_runs().losses(np.zeros((4, 5), np.float32)), "Models must be numbers of shape"),
    (lambda: two_runs().train(np.zeros((2, 1), np.float32), 1), "Models must be numbers of shape"),
    (lambda: two_runs().train(np.zeros((2, 5), int), 1), "Models must be numbers of shape"),
    (lambda: two_runs().report(two_runs().start(), cross=True), r"shape \[2, model, 5\]"),
    (lambda: two_runs().losses(Models(np.zeros((2, 2, 5), np.float32), np.full((2, 3), 2))), "one of 2 models for all 3"),
    (lambda: two_runs().losses(Models(np.zeros((2, 2, 5), np.float32), np.full((2, 1), 0))), "one of 2 models for all 3"),
    (lambda: two_runs().gradient(two_runs().start(), batch=-1), "batch must be a whole number"),
    (lambda: two_runs().report(two_runs().start(), who=[[0.5], [1.0]]), "who must be numbers of clients"),
    (lambda: two_runs().report(two_runs().start(), who=np.full((2, 1), -7)), "who must be numbers of clients"),
    (lambda: two_runs().train(two_runs().start(), 1, local=Local(lr=(0.1, 0.2, 0.3))), "3 values for 2 runs"),
    (lambda: Shards.deal(door(), [[np.arange(6) < 3, np.arange(6) >= 3]]), "flatnonzero"),
    (lambda: Shards.deal(door(), [[np.array([0.7])]]), "flatnonzero"),
    (lambda: Shards.deal(door(), [[np.array([0])], [np.array([0]), np.array([1])]]), "same number of clients"),
    (lambda: Shards(door(), np.arange(6, dtype=np.int32), np.array([[0, 5, 600]])), "within the 6 places"),
    (lambda: Shards.deal(door(), [[np.array([0])]]).weighted(np.ones((1, 2))), "must be of shape"),
    (lambda: images().run(FedAvg(Debias("fairbalance")), 1), "no meaning for other data"),
    (lambda: tables(central=True).run(CoreFed(on="validation"), 1), "needs rows in part 'validation'"),
    (lambda: two_runs().gradient(two_runs().start(), lambda z, y, a: z[:, None] * z), "one torch value, or a vector"),
    (lambda: two_runs().gradient(two_runs().start(), lambda z, y, a: z[a == 0]), "equally many values"),
])  # fmt: skip
def test_what_does_not_fit_together_is_said_and_never_read_from_elsewhere(wrong, sentence):
    with pytest.raises(FairFLError, match=sentence):
        wrong()


@pytest.mark.parametrize("engine", ["fused", "plain"])
def test_a_client_that_lacks_a_group_has_the_gradient_0(engine):
    a = np.r_[np.zeros(10, int), np.arange(20) % 2]
    shards = Shards.of(SOME, np.arange(30) % 2, a, [np.array_split(np.arange(30), 3)])
    fed = Federation({"train": shards}, Dense(4), Local(), (0,), Standard.of(shards), engine=engine)

    def gap(z, y, a):
        return (z[a == 0].mean() - z[a == 1].mean()).abs() if (a == 1).any() else torch.tensor(0.0)

    values, slopes = fed.gradient(fed.start(), gap)
    assert values[0, 0] == 0 and (slopes[0, 0] == 0).all() and (slopes[0, 1:, :4] != 0).all()


@pytest.mark.parametrize("engine", ["fused", "plain"])
@pytest.mark.parametrize("scale", [0.01, 1, 30])  # models that are all alike, and models of which most are far off
def test_the_model_with_the_lowest_loss_is_that_of_the_losses(engine, scale):
    fed = uneven(Local(), engine=engine, diverged="keep")
    models = (scale * np.random.default_rng(4).normal(size=(2, 9, 5))).astype(np.float32)
    models[0, 2], models[1, 5, 3], models[1, 8] = (
        models[0, 7],
        np.inf,
        models[1, 0],
    )  # the first of equals; none that is not finite
    for who in (None, np.array([[2, -1], [1, 0]])):
        losses = fed.losses(models, who=who, cross=True)
        assert (fed.lowest(models, who=who) == np.nan_to_num(losses, nan=np.inf).argmin(1)).all()
    equal = np.repeat(models[:, :1], 9, axis=1)
    assert (fed.lowest(equal) == 0).all()
    with pytest.raises(FairFLError, match="cannot be asked"):
        replace(fed, diverged="refuse").lowest(models)


def test_most_rows_of_a_model_that_is_far_off_are_not_read(monkeypatch):
    fed, read, score = uneven(Local(), engine="fused"), [], Fused.score
    monkeypatch.setattr(
        Fused, "score", lambda self, work, *more, **loss: read.append(work.rows.sum()) or score(self, work, *more, **loss)
    )
    good = fed.run(FedAvg(), 30, record=()).state.params
    read.clear()
    assert (fed.lowest(np.stack([-900 * good, good, -700 * good], axis=1)) == [[1, 1, 1], [1, 0, 1]]).all()
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
    fed = federation([60, 60], hidden=hidden, local=Local("sgd", 1e20, 0.5, 3, 8))
    with pytest.raises(FairFLError, match=r"Client \d of seed 0 diverged in round 1: .*lower its learning rate \(1e\+20\)"):
        fed.run(FedAvg(), 3)
    kept = replace(fed, diverged="keep").run(FedAvg(), 2)
    assert not np.isfinite(kept.answer).all()
    for metric in ("acc", "eod", "spd"):
        assert np.isnan(kept.values(metric)).all()
    assert np.isnan(replace(fed, diverged="keep").losses(kept.answer)).all()
    with pytest.raises(FairFLError, match="not finite"):
        fed.report(np.full((1, fed.model.size), np.nan, np.float32))


def test_a_method_whose_step_explodes_is_said():
    @dataclass(frozen=True)
    class Explodes(Method):
        name: str = "explodes"

        def start(self, fed):
            return State(fed.start())

        def round(self, fed, state, t):
            return State(state.params * np.float32(np.inf if t == 2 else 1))

    with pytest.raises(FairFLError, match="After round 2 the model of explodes is not finite for seed 0"):
        federation([30, 30]).run(Explodes(), 3)


@pytest.mark.parametrize("hidden", [0, 6])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_clients_nan_reaches_nobody_else(hidden, optimizer):
    """Behind the door, in the kernels themselves: a client whose rows are NaN beside others, with one thread and with two."""
    fed = federation([9, 60, 5], hidden=hidden, local=Local(optimizer, 0.05, 0.0, 2, 8), diverged="keep")
    start, who = fed.start(), np.array([[0, 2]])
    clean, slopes = fed.train(start, 1, who=who), fed.gradient(start, who=who)[1]
    fed.shards["train"].X[fed.shards["train"].rows(0, 1)] = np.nan
    threads = numba.get_num_threads()
    try:
        for many in {1, threads}:
            numba.set_num_threads(many)
            assert np.isnan(fed.train(start, 1)[0, 1]).any()
            np.testing.assert_array_equal(fed.train(start, 1)[:, [0, 2]], clean)
            np.testing.assert_array_equal(fed.gradient(start)[1][:, [0, 2]], slopes)
    finally:
        numba.set_num_threads(threads)


def test_runs_that_read_rows_differently_are_no_twins():
    """Network and SGD: the same rows, order, rate and start, another shift and scale."""
    fed = federation([40, 30], hidden=6, local=Local("sgd", 0.1, 0, 2, 8))
    both = fed.repeat(2)
    inputs = Standard(both.inputs.shift + np.array([[0], [1]], np.float32), both.inputs.scale * np.array([[1], [3]], np.float32))
    both = replace(both, inputs=inputs)
    assert isinstance(both._engine, Fused)
    found, expected = both.train(both.start(), 1), replace(both, engine="plain").train(both.start(), 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 0.01


def test_a_very_large_budget_of_fairfeds_exponential_rule_does_not_vanish():
    fed = federation([60, 40, 50])
    history = fed.run(FairFed(beta=1e5, rule="exp"), 3, remember=("weights",))
    assert np.isfinite(history.answer).all() and history.memory["weights"].sum(-1) == pytest.approx(1)


def test_settings_may_have_one_value_per_run_in_every_method():
    fed = federation([40, 30], runs=2, local=Local("sgd", 0.1, 0, 1, 8), participants=0)
    fed = replace(fed, shards={**fed.shards, "validation": fed.shards["test"]})
    cases = {
        FairFed: {"beta": (0.5, 2.0), "eta": (1.0, 0.3)},
        FedMom: {"beta": (0.5, 0.9)},
        FedDemon: {"beta0": (0.5, 0.9)},
        FairFate: {"lambda0": (0.1, 0.5), "rho": (0.04, 0.1), "cap": (0.3, 0.9), "beta0": (0.5, 0.9)},
        CoreFed: {"M": (1.0, 2.0), "floor": (0.05, 0.7)},
        PaperQFFL: {"q": (0.5, 2.0)},
        AFL: {"lr": (0.1, 0.3), "lr_lambda": (0.1, 0.5)},
        FairBatch: {"alpha": (0.01, 0.2)},
        FairReg: {"mu": (0.5, 2.0), "lr": (0.1, 0.3)},
        lambda **s: FCFL(first=1, **s): {"eps": (0.01, 0.2), "lr": (0.1, 0.3)},
        FedMDFG: {"lr": (0.1, 0.3), "angle": (0.01, 0.5)},
        FedMGDA: {"eps": (0.1, 0.5), "lr": (0.1, 0.3)},
        lambda **s: EFFL(**{"eps_b": 0.1, "eps_vl": 0.1, "eps_vb": 0.1, "stages": (1, 1, 1), **s}): {
            "eps_b": (0.01, 0.5),
            "eps_vl": (0.01, 0.5),
            "eps_vb": (0.01, 0.5),
            "eta": (0.1, 0.3),
            "decay": (1.0, 0.5),
        },
        lambda **s: RankFF(2, J=3, **s): {
            "lr": (0.1, 0.3),
            "sigma0": (1.0, 4.0),
            "growth": (1.0, 2.0),
            "p": (1.0, 3.0),
            "M": (1.0, 2.0),
        },
    }
    for made, settings in cases.items():
        together = fed.run(made(**settings), 3).state.params
        for run in range(2):
            alone = fed.run(made(**{name: value[run] for name, value in settings.items()}), 3).state.params
            np.testing.assert_array_equal(together[run], alone[run], err_msg=str(settings))
        with pytest.raises(FairFLError, match="has 3 values for 2 runs"):
            fed.run(made(**{name: (0.5, 0.5, 0.5) for name in list(settings)[:1]}), 1)


# Sums.


@pytest.mark.parametrize("aggregate", [None, SecAgg(3, seed=1)])
def test_averages_stream_and_agree_with_the_formula(aggregate):
    fed = federation([20, 30, 50], **({"aggregate": aggregate} if aggregate else {}))
    rng = np.random.default_rng(0)
    stacked, weights = rng.normal(size=(1, 3, 40)), rng.random((1, 3))
    np.testing.assert_allclose(fed.average(stacked, weights)[0], np.average(stacked[0], axis=0, weights=weights[0]), atol=1e-8)
    np.testing.assert_allclose(fed.sum(stacked, weights)[0], weights[0] @ stacked[0], atol=1e-8)
    np.testing.assert_allclose(fed.sum(stacked)[0], stacked[0].sum(0), atol=1e-8)


# What a method answers.


def test_an_answer_may_be_one_model_for_each_client_or_group():
    fed = federation([30, 20, 10], local=Local("sgd", 0.3, 0, 3, 5))

    @dataclass(frozen=True)
    class Personal(Method):
        grouped: bool
        name: str = "personal"

        def start(self, fed):
            return State(fed.start(), {"own": np.repeat(fed.start()[:, None], 3, axis=1)})

        def round(self, fed, state, t):
            return State(state.params, {"own": fed.train(state["own"], t)})

        def answer(self, state):
            return Models(state["own"][:, :2], np.array([[0, 1, 1]])) if self.grouped else state["own"]

    own, grouped = fed.run(Personal(False), 2), fed.run(Personal(True), 2)
    trained = fed.train(fed.train(np.repeat(fed.start()[:, None], 3, 1), 1), 2)
    np.testing.assert_array_equal(own.answer, trained)
    np.testing.assert_array_equal(own.counts["test"][:, -1], fed.report(trained, "test"))
    shared = np.stack([trained[:, 0], trained[:, 1], trained[:, 1]], 1)
    np.testing.assert_array_equal(grouped.counts["test"][:, -1], fed.report(shared, "test"))
    np.testing.assert_array_equal(fed.losses(grouped.answer, "test"), fed.losses(shared, "test"))


def test_rankff_answers_with_its_best_model():
    history = federation([30, 30], local=Local("sgd", 0.1, 0, 1, 8)).run(RankFF(2, J=5, p=1.0), 6)
    np.testing.assert_array_equal(history.answer, history.state["best"])
    assert metrics.accuracy(history.counts["test"][:, -1]).shape == (1, 2)


# A run that stops and goes on.


def make(name, folder, rounds=12, every=1):
    fed = tables(participants=0 if name.startswith(WHOLE) else 2)
    remember = ("weights",) if name in ("fedavg", "fairfed", "rankff", "global") else ()
    return fed.run(METHODS[name] if name != "feddemon" else FedDemon(0.5, rounds=rounds), rounds, record=("test", "validation"),
                   remember=remember, keep=folder, every=every)  # fmt: skip


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

    def counted(self, fed, state, t):
        calls.append(t)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return original(self, fed, state, t)

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
    whole, some = (fed.run(FedMom(0.5), 12, remember=("v",), look=look) for look in (1, 3))
    if stopped:
        fed.run(FedMom(0.5), 6, remember=("v",), look=3, keep=tmp_path)
        some = fed.run(FedMom(0.5), 12, remember=("v",), look=3, keep=tmp_path, every=2)
        assert len(list(tmp_path.iterdir())) == 1
        fed.run(FedMom(0.5), 6, remember=("v",), keep=tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_array_equal(some.answer, whole.answer)
    np.testing.assert_array_equal(some.counts["test"], whole.counts["test"][:, 2::3])
    np.testing.assert_array_equal(some.memory["v"], whole.memory["v"][:, 2::3])
    assert sorted(set(some.frame()["round"])) == [3, 6, 9, 12]
    for look in (0, 5, 24):
        with pytest.raises(FairFLError, match="must be recorded"):
            fed.run(FedAvg(), 12, look=look)


def test_another_setting_another_method_and_a_broken_file_begin_anew(tmp_path):
    whole = make("fedavg", tmp_path, rounds=3)
    fed = tables(participants=2)
    other = replace(fed, local=replace(fed.local, lr=0.2)).run(FedAvg(), 3, keep=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2 and (other.answer != whole.answer).any()
    fed.run(FedMom((0.5, 0.6)), 3, keep=tmp_path)
    fed.run(FedMom((0.5, 0.7)), 3, keep=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:200])
    same(make("fedavg", tmp_path, rounds=3), whole)
    same(make("fedavg", tmp_path, rounds=5), make("fedavg", None, rounds=5))
    with pytest.raises(FairFLError, match="at least one round"):
        fed.run(FedAvg(), 3, keep=tmp_path, every=0)


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

    def start(self, fed):
        return State(fed.start())

    def round(self, fed, state, t):
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
    fed.run(FedAvg(), 2, keep=tmp_path)
    fed.run(FedAvg(), 3, keep=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FairFLError, match="depends on a Generator cannot be kept"):
        fed.run(Named(np.random.default_rng(0)), 1, keep=tmp_path)


LAST = 25
CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from test_federation import Federation, make
train = Federation.train

def slowly(self, params, t, *more, **named):
    print(t, flush=True)
    time.sleep(0.02)
    if t == {last}:
        {waits}
    return train(self, params, t, *more, **named)

Federation.train = slowly
make("fairfed", {folder!r}, rounds=30)
"""


def test_killed_at_any_moment_the_next_run_ends_with_the_same_bytes(tmp_path):
    """A moment is random, and none of them comes too late: the run waits in one of its rounds."""
    whole = make("fairfed", None, rounds=30)
    code = CHILD.format(tests=str(Path(__file__).parent), folder=str(tmp_path), last=LAST, waits=FOR_EVER)
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            while int(process.stdout.readline()) < 2:  # in its second round, or a later one: the first is kept
                pass
            time.sleep(random.uniform(0, 0.4))
            process.kill()
        assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("*.npz"))
    same(make("fairfed", tmp_path, rounds=30), whole)


def test_torch_and_numpy_read_rows_alike():
    inputs = Standard(np.array([[0.5, 1.0]], np.float32), np.array([[2.0, 3.0]], np.float32))
    X = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    np.testing.assert_array_equal(inputs(X, 0), inputs(torch.as_tensor(X), 0).numpy())
