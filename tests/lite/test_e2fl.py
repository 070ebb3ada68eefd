"""E2FL and FRL: votes, groups known and inferred, IFCA, costs; by hand, by limit cases, and by a second way to a number."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy import shapes

from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Models, Shards, Standard, State, alone
from fairfl_lite.methods import (
    E2FL,
    FRL,
    IFCA,
    BinarySearchInference,
    FedAvg,
    KnownGroups,
    LocalOnly,
    LowestLossInference,
    OneShotInference,
    RankClustering,
)
from fairfl_lite.methods.groups import entropy, slopes
from fairfl_lite.methods.local_only import trained_alone
from fairfl_lite.methods.vote import places, reputations, vote
from fairfl_lite.models import LeNet, Perceptron
from fairfl_lite.rankings import votes
from fairfl_lite.supernets import Supernet
from papers.e2fl import federations, statements
from papers.e2fl.curves import curve

pytestmark = pytest.mark.slow

SIX = Supernet(Perceptron((3, 2)))  # one layer of six edges


def of(ranking):
    """Reputations of a ranking that lists edges from the least to the most important one."""
    return np.argsort(ranking).astype(np.int32)


def ranking(reputation):
    return np.argsort(reputation).tolist()


def test_figure_2_as_far_as_the_text_goes():
    first, second, third = [4, 0, 2, 3, 5, 1], [0, 1, 2, 3, 4, 5], [5, 0, 2, 4, 3, 1]
    votes = [of(r) for r in (first, second, third)]
    assert np.sum(votes, 0).tolist() == [2, 11, 6, 10, 7, 9]
    assert ranking(vote(SIX, votes)) == [0, 2, 4, 5, 3, 1]  # R_gA of the paper, with a client that it prints
    scores = SIX.scored(of(first), np.ones(6))
    assert np.flatnonzero(SIX.mask(scores)).tolist() == [1, 3, 5]
    assert ranking(places(SIX, SIX.scored(of([2, 3, 0, 5, 1, 4]), np.ones(6)))) == [2, 3, 0, 5, 1, 4]


@given(st.lists(st.permutations(range(6)), min_size=1, max_size=5))
def test_a_vote_is_bordas_count_with_ties_by_edge_id(rankings):
    votes = [of(r) for r in rankings]
    points = {edge: sum(r.index(edge) for r in rankings) for edge in range(6)}
    assert ranking(vote(SIX, votes)) == sorted(range(6), key=lambda edge: (points[edge], edge))
    assert vote(SIX, votes).tolist() == vote(SIX, votes[::-1]).tolist()


@given(st.permutations(range(6)), st.integers(1, 4))
def test_equal_rankings_vote_for_themselves(order, n):
    assert ranking(vote(SIX, [of(order)] * n)) == list(order)


def test_a_flat_vote_and_one_by_groups_differ():
    a, b, c = [0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [4, 5, 3, 2, 1, 0]
    flat = vote(SIX, [of(r) for r in (a, a, a, b, c)])
    by_group = vote(SIX, [vote(SIX, [of(a)] * 3), of(b), of(c)])
    kept = [set(ranking(r)[3:]) for r in (flat, by_group)]
    assert kept == [{3, 4, 5}, {0, 1, 2}]  # three clients of one group outvote the others, as one group they do not


def test_places_are_those_of_a_stable_sort_layer_by_layer():
    model = Supernet(Perceptron((30, 20, 5)))
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=700).astype(np.float32), rng.integers(-3, 4, 700).astype(np.float32),
                   rng.integers(0, 9, 700), rng.integers(0, 2**40, 700), rng.normal(size=700)):  # fmt: skip
        wanted = [np.argsort(np.argsort(np.abs(values[layer]), kind="stable")) for layer in model.layers]
        assert (places(model, values) == np.concatenate(wanted)).all()
    both = [rng.normal(size=700).astype(np.float32) for _ in range(3)]
    assert all((one == places(model, ballot)).all() for one, ballot in zip(reputations(model, both), both, strict=True))


def test_the_vote_of_networks_is_that_of_the_theory():
    votes = pytest.importorskip("fairfl_lite.rankings.votes")
    rng = np.random.default_rng(1)
    model = Supernet(Perceptron((9, 7)))
    rankings, groups = np.array([rng.permutation(63) for _ in range(7)]), np.array([0, 0, 1, 2, 2, 2, 1])
    flat = vote(model, [of(r) for r in rankings])
    assert (np.argsort(flat) == votes.vote(rankings)).all()
    by_group = vote(model, [vote(model, [of(r) for r in rankings[groups == q]]) for q in range(3)])
    assert (np.argsort(by_group) == votes.two_level(rankings, groups)).all()


LOCAL = ClientTraining("sgd", 0.2, 1e-4, 2, 8, momentum=0.9, lr_decay=0.99)


def blocks(counts=(2, 3, 4), local=LOCAL, each=24, seeds=(0, 1), permute=None, groups=None, **options):
    """Clients whose group says in which columns the class is written; the others are noise of a tenth of the size. Each has as
    many test rows as training rows."""
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(len(counts)), counts)
    n, classes, wide = len(group), 4, 12

    def drawn():
        return 0.1 * rng.normal(size=(n * each, wide * len(counts))).astype(np.float32), rng.integers(0, classes, n * each)

    X, y = drawn()
    heads = rng.normal(size=(len(counts), classes, wide)).astype(np.float32)
    parts = {"train": (X, y), "test": drawn()}
    for written, labels in parts.values():
        for row, label in enumerate(labels):
            q = group[row // each]
            written[row, q * wide : (q + 1) * wide] += heads[q, label]
    names = np.arange(len(counts)) if groups is None else np.asarray(groups)
    clients = np.arange(n) if permute is None else np.asarray(permute)
    rows = [np.arange(k * each, (k + 1) * each) for k in clients]
    a = names[np.repeat(group, each)]
    shards = {part: Shards.of(*own, a, [rows] * len(seeds), classes=classes, groups=len(counts)) for part, own in parts.items()}
    model = options.pop("model", Supernet(Perceptron((wide * len(counts), 32, classes))))
    return Federation(shards, model, local, seeds, Standard.plain(len(seeds), X.shape[1]), **options)


def test_with_one_group_e2fl_is_frl_to_the_bit():
    fed = blocks(counts=(5,), participants=3)
    fed = replace(fed, shards={part: replace_groups(shards) for part, shards in fed.shards.items()})
    flat, grouped = fed.run(FRL(), 3), fed.run(E2FL(), 3)
    assert flat.state.params.tobytes() == grouped.state.params.tobytes() == grouped.answer.models[:, 0].tobytes()


def replace_groups(shards):
    return replace(shards, examples=replace(shards.examples, a=np.zeros(len(shards.examples), int)))


def by_layer(model, values):
    """The places of |values| in each layer, of equals the lower edge first."""
    return np.concatenate([np.argsort(np.argsort(np.abs(values[layer]), kind="stable")) for layer in model.layers])


def test_a_round_is_the_two_votes_of_algorithm_1():
    fed = blocks(seeds=(3,)).one()
    method = E2FL()
    state = alone(method.start(fed))
    for t in (1, 2):
        rep = [by_layer(fed.model, scores) for scores in alone(fed.train(state.params, np.arange(9), t))]
        members = ([0, 1], [2, 3, 4], [5, 6, 7, 8])
        voted = [by_layer(fed.model, np.sum([rep[k] for k in own], axis=0)) for own in members]
        whole = by_layer(fed.model, np.sum(voted, axis=0))
        state = alone(method.round(fed, state, t))
        assert (places(fed.model, state.params) == whole).all()
        assert all((places(fed.model, own) == rank).all() for own, rank in zip(state["groups"], voted, strict=True))
    first = fed.model.layers[0]
    assert (np.sort(np.abs(state.params[first])) == np.sort(np.abs(fed.init_params()[first]))).all()


def test_permuting_clients_or_renaming_groups_changes_nothing():
    whole = ClientTraining("sgd", 0.2, 1e-4, 2, 0, momentum=0.9)  # full batches: the order of rows has no part in it
    plain = blocks(local=whole).run(E2FL(), 3)
    order = np.random.default_rng(0).permutation(9)
    moved = blocks(local=whole, permute=order).run(E2FL(), 3)
    assert moved.state.params.tobytes() == plain.state.params.tobytes()
    assert (moved.answer.of == plain.answer.of[:, order]).all()
    renamed = blocks(local=whole, groups=[2, 0, 1]).run(E2FL(), 3)
    assert renamed.state.params.tobytes() == plain.state.params.tobytes()
    assert renamed.answer.models[:, [2, 0, 1]].tobytes() == plain.answer.models.tobytes()


def test_absent_groups_vote_again_or_are_left_out():
    whole = blocks(counts=(1, 1, 6), participants=2, seeds=(0,))
    (truth,), fed = federations.true_groups(whole), whole.one()
    for absent in ("keep", "skip"):
        method = E2FL(absent=absent)
        state, ever = alone(method.start(fed)), set()
        for t in range(1, 8):
            before, state = state, alone(method.round(fed, state, t))
            present = {int(q) for q in truth[fed.sample_clients(t)]}
            ever |= present
            assert set(np.flatnonzero(state["seen"])) == ever
            for q in set(range(3)) - present:
                expected = before["groups"][q] if q in ever else state.params
                assert (state["groups"][q] == expected).all()
            voters = ever if absent == "keep" else present
            again = vote(fed.model, [places(fed.model, state["groups"][q]) for q in sorted(voters)])
            assert (places(fed.model, state.params) == again).all()


def test_a_client_with_rows_of_two_groups_votes_in_both():
    fed = blocks(counts=(2, 2), seeds=(0,))
    train = fed.shards["train"]
    mixed = [np.concatenate([train.rows(0, k)[:12], train.rows(0, (k + 2) % 4)[12:]]) for k in range(4)]
    fed = replace(fed, shards={"train": Shards.deal(train.examples, [mixed])}).one()
    ballots = alone(KnownGroups().ballots(fed, None, fed.sample_clients(1), 1))
    assert [own.voters.tolist() for own in ballots] == [[0, 1, 2, 3]] * 2
    assert [own.group.tolist() for own in ballots] == [[0] * 4, [1] * 4] and [own.rows.group for own in ballots] == [0, 1]
    state = alone(E2FL(deploy="global").round(fed, alone(E2FL().start(fed)), 1))
    assert state["seen"].all() and E2FL(deploy="global").answer(state) is state.params


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_each_ballot_of_a_client_is_trained_on_that_groups_rows_alone(engine):
    """Three clients of both groups, in unequal parts, and one of the first, who has no vote in the second."""
    fed = blocks(counts=(2, 2), seeds=(0,), engine=engine)
    train = fed.shards["train"]
    own = [train.rows(0, k) for k in range(4)]
    held = [np.r_[own[0][:12], own[2][:12]], own[1][:20], np.r_[own[2][12:], own[0][12:]], np.r_[own[1][20:], own[3]]]
    whole = replace(fed, shards={"train": Shards.deal(train.examples, [held])})
    fed, voters = whole.one(), ([0, 1, 2, 3], [0, 2, 3])
    assert [own.voters.tolist() for own in alone(KnownGroups().ballots(fed, None, fed.sample_clients(1), 1))] == [*voters]
    method = E2FL()
    state = alone(method.start(fed))
    for t in (1, 2):
        voted = []
        for q, who in enumerate(voters):
            rows = [[row for row in mine if train.a[row] == q] for mine in held]
            only = replace(whole, shards={"train": Shards.deal(train.examples, [rows])}).one()
            local = alone(only.train(state.params, np.array(who), t))
            voted.append(by_layer(fed.model, np.sum([by_layer(fed.model, scores) for scores in local], axis=0)))
        state = alone(method.round(fed, state, t))
        assert all((places(fed.model, own) == rank).all() for own, rank in zip(state["groups"], voted, strict=True))
        assert (places(fed.model, state.params) == by_layer(fed.model, np.sum(voted, axis=0))).all()
    assert state["of"].tolist() == alone(method.settled(fed, state))["of"].tolist() == [0, 0, 0, 1]  # the group of most rows


@pytest.fixture(scope="module")
def trained():
    """A federation and the state of its only run."""
    fed = blocks(counts=(4, 4, 4, 4), seeds=(0,))
    state = fed.run(E2FL(), 40, record=()).state
    return fed, State(state.params[0], {name: value[0] for name, value in state.memory.items()})


def test_group_models_beat_the_global_one_and_chance(trained):
    fed, state = trained
    one = fed.one()
    assert alone(federations.accuracies_of(one, E2FL().answer(state))).mean() > 0.9
    own, shared = alone(one.losses(E2FL().answer(state))), alone(one.losses(state.params))
    assert (own < shared).all() and shared.mean() < np.log(4)


def test_inference_finds_the_group_that_is_known(trained):
    fed, state = trained
    (truth,), one = federations.true_groups(fed), fed.one()
    right = {}
    for way in (LowestLossInference(4), OneShotInference(4), BinarySearchInference(4), BinarySearchInference(4, "small")):
        right[way] = (alone(way.infer(one, state["groups"], one.all_clients)) == truth).mean()
    assert right[LowestLossInference(4)] == 1 and right[OneShotInference(4)] > 0.8 and right[BinarySearchInference(4)] > 0.8
    assert right[BinarySearchInference(4, "small")] < 0.2  # as printed, the search goes uphill


def test_groups_are_chosen_by_training_rows_alone(trained):
    """Everybody has test rows of another group, and nobody follows them: not to infer, nor in a round, nor to settle."""
    fed, state = trained
    test, (truth,), clients = fed.shards["test"], federations.true_groups(fed), fed.one().all_clients
    turned = [test.rows(0, k) for k in reversed(range(fed.clients))]
    led = replace(fed, shards={**fed.shards, "test": Shards.deal(test.examples, [turned])}).one()
    assert (alone(led.best_model(state["groups"], clients, "test")) == truth[::-1]).all() and (truth[::-1] != truth).all()
    assert (alone(LowestLossInference(4).infer(led, state["groups"], clients)) == truth).all()
    for way in (OneShotInference(4), BinarySearchInference(4)):
        by_led, by_fed = (alone(way.infer(one, state["groups"], clients)) for one in (led, fed.one()))
        assert (by_led == by_fed).all()
    for method, begun in (
        (E2FL(LowestLossInference(4)), state),
        (IFCA(4), State(state.params, {"models": state["groups"], "of": np.zeros_like(truth)})),
    ):
        assert (alone(method.round(led, begun, 1))["of"] == truth).all()
        assert (alone(method.settled(led, begun))["of"] == truth).all()


def test_slopes_are_those_of_finite_differences(trained):
    fed, state = trained
    model, clients = fed.model, np.array([0, 5])
    alpha = np.full((2, 4), 0.25)
    found = alone(slopes(fed.one(), state["groups"], clients, alpha))
    masks, weights = model.mask(state["groups"]).astype(float), model.weights(state["groups"][0]).astype(float)

    def at(client, shares):
        mixed, X = weights * (shares @ masks), torch.tensor(fed.shards["train"].X[fed.shards["train"].rows(0, client)]).double()
        network = replace(model.network, double=True)
        return float(entropy(network.forward(torch.tensor(mixed), X), None, None))

    for i, client in enumerate(clients):
        for q in range(4):
            step = 1e-5 * np.eye(4)[q]
            wanted = (at(client, alpha[i] + step) - at(client, alpha[i] - step)) / 2e-5
            assert found[i, q] == pytest.approx(wanted, rel=2e-3, abs=1e-4)


def test_entropy_of_one_logit_is_that_of_two():
    logit = torch.tensor([0.3, -2.0])
    both = torch.stack([torch.zeros(2), logit], 1)
    assert entropy(logit, None, None) == pytest.approx(float(entropy(both, None, None)))
    assert float(entropy(torch.zeros(3, 10), None, None)) == pytest.approx(np.log(10))


@pytest.mark.parametrize(
    "count,drop,steps", [(10, "large", [5, 3, 2, 1]), (10, "small", [5, 2, 1]), (1, "large", []), (7, "large", [4, 2, 1])]
)
def test_a_binary_search_halves_until_one_is_left(monkeypatch, count, drop, steps):
    left = []

    async def known(fed, models, clients, alpha):
        alive = alpha > 0
        left.append(int(alive.sum()))
        np.testing.assert_allclose(alpha.sum(1), 1)
        return np.where(alive, np.arange(count) - 3.5, 1e9)

    monkeypatch.setattr("fairfl_lite.methods.groups.slopes", known)
    found = alone(BinarySearchInference(count, drop).infer(None, np.zeros((count, 1)), np.array([0])))
    assert found.item() == (0 if drop == "large" else count - 1)
    assert left == [count, *steps][: len(steps)]


@pytest.mark.parametrize("plus", [True, False])
def test_clusters_of_rankings_are_found(plus):
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], [30, 6, 10])
    base = [rng.permutation(200) for _ in range(3)]
    near = np.array([of(np.argsort(base[q] + rng.normal(0, 20, 200))) for q in truth])
    found = RankClustering(3, starts=10, plus=plus).kmeans([near], rng)
    assert max((np.array(names)[found] == truth).mean() for names in itertools.permutations(range(3))) == 1


class Begun(RankClustering):
    """Begins once, at the first clients."""

    def _seeds(self, n, far, rng):
        return np.arange(self.count)


def test_a_cluster_that_was_left_keeps_its_centre():
    """Two clusters begin at one ranking, and all are in the first; it moves to the three, and the two are back in the second."""
    two, three = [3, 2, 1, 0], [2, 3, 1, 0]
    found = Begun(2, starts=1).kmeans([np.array([two] * 2 + [three] * 3, np.int32)], np.random.default_rng(0))
    assert found.tolist() == [1, 1, 0, 0, 0]


@given(st.lists(st.permutations(range(5)), min_size=3, max_size=9))
def test_clusters_are_those_of_lloyds_steps(rows):
    """Step by step: the nearest centre, the first of equals, then for each cluster the vote of its members."""
    centres, of = rows[:3], []
    for _ in range(20):
        far = [[sum(abs(a - b) for a, b in zip(row, centre, strict=True)) for centre in centres] for row in rows]
        before, of = of, [own.index(min(own)) for own in far]
        if of == before:
            break
        for q in set(of):
            points = [sum(row[edge] for row, own in zip(rows, of, strict=True) if own == q) for edge in range(5)]
            order = sorted(range(5), key=lambda edge: (points[edge], edge))  # noqa: B023
            centres[q] = [order.index(edge) for edge in range(5)]
    assert Begun(3, starts=1).kmeans([np.array(rows, np.int32)], np.random.default_rng(0)).tolist() == of


def test_clustering_sends_rankings_of_what_clients_learn():
    fed = blocks(counts=(4, 5), seeds=(0, 1))
    way = RankClustering(2, edges=100)
    for one in (fed.one(seed) for seed in fed.seeds):
        (only,) = alone(way.rankings(one, one.init_params(), at_once=4))
        assert only.shape == (9, 100) and (np.sort(only, 1) == np.arange(100)).all()
        scores = np.abs(alone(one.train(one.init_params(), one.all_clients, 0))[:, fed.model.layers[-1]])
        assert only.shape[1] < scores.shape[1]
        (whole,) = alone(RankClustering(2, edges=10_000).rankings(one, one.init_params()))
        assert (whole == np.argsort(np.argsort(scores, 1, kind="stable"), 1)).all()
    history = fed.run(E2FL(RankClustering(2)), 2)
    truth = federations.true_groups(fed)
    assert all((own == known).all() or (own == 1 - known).all() for own, known in zip(history.answer.of, truth, strict=True))
    with pytest.raises(FairFLError, match="cannot be dealt"):
        fed.run(E2FL(RankClustering(20)), 1)


def test_inferred_groups_can_be_trained_and_settled():
    fed = blocks(counts=(3, 3), participants=3, seeds=(0,)).one()
    method = E2FL(LowestLossInference(2))
    state = alone(method.start(fed))
    assert (state["groups"][0] != state["groups"][1]).any()
    for t in range(1, 4):
        chosen = alone(LowestLossInference(2).infer(fed, state["groups"], fed.sample_clients(t)))
        state = alone(method.round(fed, state, t))
        assert (state["of"][fed.sample_clients(t)] == chosen).all()
    settled = alone(method.settled(fed, state))
    assert (settled["of"] == alone(LowestLossInference(2).infer(fed, state["groups"], fed.all_clients))).all()


@pytest.mark.parametrize("way", [LowestLossInference(8), OneShotInference(8)])
def test_a_group_that_nobody_has_chosen_keeps_its_start(way):
    """Eight groups, and six choices in two rounds."""
    fed, method = blocks(counts=(3, 3), participants=3, seeds=(0,)).one(), E2FL(way)
    begun = state = alone(method.start(fed))
    for t in (1, 2):
        state = alone(method.round(fed, state, t))
        never = ~state["seen"]
        assert never.sum() >= 2 and (state["groups"][never] == begun["groups"][never]).all()
        assert (state["groups"][never] != state.params).any(1).all()


def test_ifca_averages_what_was_trained_from_each_model():
    fed = blocks(model=Perceptron((36, 16, 4)), local=ClientTraining("sgd", 0.1, 0, 1, 8), participants=4)
    method = IFCA(3)
    for one in (fed.one(seed) for seed in fed.seeds):
        state, clients = alone(method.start(one)), one.sample_clients(1)
        assert (state["models"][0] != state["models"][1]).any()
        chosen = alone(one.losses(state["models"], clients, each_model=True)).argmin(0)
        new = alone(method.round(one, state, 1))
        for q in range(3):
            took = np.flatnonzero(chosen == q)
            trained = alone(one.train(state["models"][q], clients, 1))[took]
            wanted = trained.mean(0) if len(took) else state["models"][q]
            np.testing.assert_allclose(new["models"][q], wanted, atol=1e-6)
        settled = alone(method.settled(one, new))["of"]
        assert (settled == alone(one.losses(new["models"], each_model=True)).argmin(0)).all()


def test_ifca_with_one_known_group_is_fedavg_of_equal_clients():
    fed = blocks(counts=(5,), model=Perceptron((12, 16, 4)), local=ClientTraining("sgd", 0.1, 0, 1, 8))
    one, average = fed.run(IFCA(1, known=True), 2), fed.run(FedAvg(), 2)
    np.testing.assert_allclose(one.answer.models[:, 0], average.answer, atol=1e-6)


def test_local_training_shares_nothing():
    fed = blocks(model=Perceptron((36, 16, 4)), local=ClientTraining("sgd", 0.1, 0, 1, 8))
    both = fed.run(LocalOnly(), 2).answer
    for seed, own, clients in zip(fed.seeds, both, np.array([[1, 7], [0, 2]]), strict=True):
        assert (alone(trained_alone(fed.one(seed), clients, 2)) == own[clients]).all()


def test_rankings_need_a_supernet():
    fed = blocks(model=Perceptron((36, 16, 4)))
    for method in (FRL(), E2FL()):
        with pytest.raises(FairFLError, match="supernet"):
            fed.run(method, 1)
    with pytest.raises(FairFLError):
        E2FL(absent="sometimes")
    with pytest.raises(FairFLError):
        LowestLossInference(0)


@pytest.mark.parametrize("dataset,classes", [("mnist", 10), ("femnist", 62)])
def test_costs_are_counted_on_the_layers_of_lenet(dataset, classes):
    assert tuple(math.prod(shape) for shape in LeNet(classes=classes).shapes) == statements.LENET[dataset]
    assert votes.bits(statements.LENET["mnist"]) == 288 * 9 + 18432 * 15 + 1605632 * 21 + 1280 * 11 == 34_011_424
    assert votes.bits([1]) == 0 and votes.bits([2, 8]) == 2 + 24


def test_fair_mnist_rotate_deals_every_image_once_and_turns_it_by_its_group():
    images = shapes()
    fed = federations.fair_mnist_rotate(
        (0, 1), model=federations.small(16), counts=(1, 3, 2), each=60, step=90, images=images, look=7
    )
    train, test = fed.shards["train"], fed.shards["test"]
    assert federations.true_groups(fed).tolist() == [[0, 1, 1, 1, 2, 2]] * 2
    assert (
        train.sizes.tolist() == [[60] * 6] * 2 and test.sizes.tolist() == [[60] * 3] * 2 and fed.shards["look"].sizes.max() == 7
    )
    upright = {x.tobytes(): i for i, x in enumerate(images.x)}
    for r in range(2):
        seen = [
            upright[np.rot90(train.X[i, 0], -q).tobytes()] for k, q in enumerate((0, 1, 1, 1, 2, 2)) for i in train.rows(r, k)
        ]
        assert len(set(seen)) == 360 and max(seen) < images.train
        assert (images.y[seen] == train.y[np.concatenate([train.rows(r, k) for k in range(6)])]).all()
        held = [upright[np.rot90(test.X[i, 0], -q).tobytes()] for q in range(3) for i in test.rows(r, q)]
        assert held == [*range(400, 460)] * 3
    assert sum(federations.COUNTS) == 1000 and federations.COUNTS[0] == 8 and federations.COUNTS[5] == 257
    with pytest.raises(FairFLError, match="cannot have"):
        federations.fair_mnist_rotate((0,), images=images)


def test_every_client_is_scored_on_its_groups_images():
    fed = federations.fair_mnist_rotate((0, 1), model=federations.small(16), counts=(1, 3, 2), images=shapes())
    group = federations.true_groups(fed)
    models = np.stack([[fed.model.init(np.random.default_rng([r, q])) for q in range(4)] for r in range(2)])
    for answer in (models[:, 0], Models(models, group), Models(models, np.array([[3, 0, 1, 2, 2, 1], [0, 0, 0, 1, 1, 3]]))):
        found = federations.accuracies(fed, answer)
        for r, k in np.ndindex(2, 6):
            rows = fed.shards["test"].rows(r, group[r, k])
            own = answer[r] if isinstance(answer, np.ndarray) else models[r, answer.of[r, k]]
            logits = fed.model.forward(torch.tensor(own), torch.tensor(fed.shards["test"].X[rows]).float() / 255)
            right = (logits.argmax(1).numpy() == fed.shards["test"].y[rows]).mean()
            assert abs(found[r, k] - right) < 0.04  # one image in sixty may hang on the last digit
    alike = alone(federations.accuracies_alone(fed.one(1), models[1, 1:3], np.array([2, 4])))
    assert alike[1] == federations.accuracies(fed, models[:, 2])[1, 4]


def test_levels_by_hand():
    accuracy = np.array([[0.5, 0.7, 0.9, 1.0]])
    found = {name: float(value[0]) for name, value in federations.levels(accuracy, np.array([[0, 0, 1, 2]])).items()}
    assert found == pytest.approx({
        "group_avg": 250 / 3, "group_worst": 60, "group_best": 100, "group_var": np.var([60, 90, 100]),
        "user_avg": 77.5, "user_worst": 50, "user_best": 100, "user_var": np.var([50, 70, 90, 100]),
    })  # fmt: skip


def test_styles_are_made_of_the_same_images():
    fed = federations.handwriting((0,), model=federations.small(16), counts=(2, 1, 1, 1, 1), each=40, test=10, images=shapes())
    assert federations.true_groups(fed).tolist() == [[0, 0, 1, 2, 3, 4]] and fed.shards["test"].clients == 6
    x = np.zeros((1, 1, 28, 28), np.uint8)
    x[..., 10:18, 12:16] = 200
    ink = {style: int((federations.styled(x, style) > 100).sum()) for style in federations.STYLES}
    assert ink["bold"] == 10 * 6 and ink["thin"] == 7 * 3 and ink["upright"] == 32
    columns = {s: [federations.styled(x, s)[0, 0, row].argmax() for row in (10, 17)] for s in ("slanted", "leaning back")}
    assert columns["slanted"][0] > columns["slanted"][1] and columns["leaning back"][0] < columns["leaning back"][1]


def test_a_curve_goes_on_where_it_was_and_is_not_measured_twice(tmp_path, monkeypatch):
    fed = federations.fair_mnist_rotate((0, 1), model=federations.small(16), counts=(2, 3), participants=2, images=shapes())
    whole = curve(fed, E2FL(), (1, 3), tmp_path / "whole")
    curve(fed, E2FL(), (1,), tmp_path / "parts")
    found = curve(fed, E2FL(), (1, 3), tmp_path / "parts")
    pd.testing.assert_frame_equal(found, whole)
    assert set(found.method) == {"e2fl", "e2fl (gm)"} and set(found["round"]) == {1, 3} and len(found) == 2 * 2 * 2 * 8
    last = federations.levels(federations.accuracies(fed, fed.run(E2FL(), 3, record=()).answer), federations.true_groups(fed))
    own = found[(found.method == "e2fl") & (found["round"] == 3) & (found.metric == "group_avg")]
    np.testing.assert_allclose(own.value, last["group_avg"])
    monkeypatch.setattr(Federation, "run", None)
    pd.testing.assert_frame_equal(curve(fed, E2FL(), (1, 3), tmp_path / "parts"), whole)
    with pytest.raises(FairFLError, match="ascending"):
        curve(fed, E2FL(), (3, 1), tmp_path)
