"""E2FL's experiments at a small scale on the same way: columns as the card has them, runs that go on, numbers by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy import shapes

from fairfl_book import cards, results
from fairfl_book.experiments import catalogue
from fairfl_lite.clients import ClientTraining, Debias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Models, OneFederation, State, alone
from fairfl_lite.methods import (
    E2FL,
    FRL,
    IFCA,
    QFFL,
    FairFed,
    FedAvg,
    KnownGroups,
    LocalOnly,
    LowestLossInference,
    OneShotInference,
    RankClustering,
)
from fairfl_lite.models import LeNet, Perceptron
from fairfl_lite.supernets import Supernet
from papers.e2fl import federations, statements, tables

pytestmark = pytest.mark.slow

QUICK = tables.Extent(
    network=Perceptron((784, 16, 10)), counts=(2, 3, 1), test=30, participants=3, rounds=(1, 2, 4), alone=2, asked=4, edges=50,
    styles=(2, 1, 1, 1, 1), styled=2, adult=(101, 16, 2), adult_rounds=2, adult_epochs=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_world(tmp_path, monkeypatch):
    """Random pictures in the place of MNIST, and a folder of its own for what is kept."""
    monkeypatch.setattr(tables, "kept", lambda: tmp_path / "kept")
    monkeypatch.setattr(federations, "mnist", lambda: shapes(400, 300))


def quick(name):
    """All cells of one seed of an experiment, at the small scale."""
    experiment = catalogue.get(name)
    cells = [cell for cell in experiment.cells if cell.get("seed", 0) == 0]
    scale = {} if name == "e2fl/table3" else {"at": QUICK}
    return experiment.finish(pd.concat([experiment.measure(**cell, **scale) for cell in cells], ignore_index=True))


COLUMNS = {
    "table1": {"approach": {"local", "fedavg", "ifca", "ifca-known", "q-ffl", "e2fl", "e2fl-gm", "frl"},
               "level": {"group", "user"}, "metric": {"avg", "worst", "best", "variance"}, "rounds": {1, 2, 4}, "seed": {0}},
    "figure3": {"approach": {"fedavg", "ifca", "ifca-known", "q-ffl", "e2fl", "e2fl-gm", "frl"},
                "metric": {"loss", "acc", "turned"}, "group": {1, 2, 3}, "seed": {0}},
    "inference": {"inference": {"loss", "oneshot", "binary", "binary-printed"}, "round": {1, 2, 4}, "seed": {0}},
    "table4": {"setting": {"iid", "non-iid"}, "method": {"fedavg", "fairfed", "e2fl", "fedavg-printed"},
               "metric": {"acc", "eod", "di", "finite"}, "seed": {0}},
    "table5": {"layer": {"conv1", "conv2", "all"}, "naming": {"one to one", "majority"}, "seed": {0}},
    "styles": {"approach": {"local", "fedavg", "q-ffl", "e2fl-oneshot", "e2fl-clusters", "e2fl-loss"},
               "metric": {"avg", "worst", "best", "variance"}, "seed": {0}},
}  # fmt: skip
"""The head of the card, for two layers where there are four."""


@pytest.mark.parametrize("name", COLUMNS)
def test_an_experiment_gives_what_the_card_asks_for(name):
    frame = quick(f"e2fl/{name}")
    assert list(frame.columns) == [*COLUMNS[name], "value"]
    assert {column: set(frame[column]) for column in COLUMNS[name]} == COLUMNS[name]
    assert not frame.duplicated(list(COLUMNS[name])).any() and np.isfinite(frame.value).all()
    if name == "table4":
        assert len(frame) == 2 * 3 * 3 + 1
        assert frame[frame.metric == "acc"].value.between(50, 100).all() and frame[frame.metric == "eod"].value.abs().max() <= 1
    else:
        assert len(frame) == np.prod([len(values) for values in COLUMNS[name].values()])
        shares = frame[~frame.metric.isin(["variance", "loss"])] if "metric" in frame else frame
        assert shares.value.between(0, 100).all()


RANKING = ("e2fl", "frl", "e2fl-oneshot", "e2fl-clusters", "e2fl-loss")
WEIGHING = ("local", "fedavg", "ifca", "ifca-known", "q-ffl")


def printed():
    return cards.load("e2fl").settings


def test_learners_are_those_of_the_text():
    """Table 2's rank clustering is the row of Table 6 with the same numbers; static groups are as the costs have them."""
    cells, metrics = cards.load("e2fl").entries, ("avg", "worst", "best", "variance")
    t2 = [cells[f"e2fl.t2.e2fl-clusters.{metric}"].printed for metric in metrics]
    (clusters,) = (n for n in range(2, 6) if [cells[f"e2fl.t6.{n}.user.{metric}"].printed for metric in metrics] == t2)
    static = {name: groups for name, (_, groups) in statements.WAYS["femnist"].items()}
    made = (
        LocalOnly(name="local"), FedAvg(), IFCA(7), IFCA(7, known=True, name="ifca-known"), QFFL(printed()["q"]), FRL(),
        E2FL(KnownGroups()),
        E2FL(OneShotInference(static["e2fl-oneshot"]), name="e2fl-oneshot"), E2FL(RankClustering(clusters), name="e2fl-clusters"),
        E2FL(LowestLossInference(static["e2fl-loss"]), name="e2fl-loss"),
    )  # fmt: skip
    assert {method.name for method in made} == {*RANKING, *WEIGHING}
    assert [repr(tables.learner(method.name, 7)) for method in made] == [repr(method) for method in made]


@pytest.mark.parametrize("approach", [*RANKING, *WEIGHING])
def test_clients_train_as_printed(approach):
    """The rate of rankings or that of weights, and half of the edges; that rankings' rate fades is the public code's."""
    card, found = printed(), tables.training(approach, LeNet())
    rates, ranks = card["learning_rate"], approach in RANKING
    rate, fade = (rates["e2fl"], 0.999) if ranks else (rates["fedavg"], 1)
    assert found["local"] == ClientTraining(
        "sgd", rate["fairmnistrotate"], card["weight_decay"], card["local_epochs"]["fairmnistrotate"],
        card["batch"]["fairmnistrotate"], momentum=card["momentum"], lr_decay=fade,
    )  # fmt: skip
    assert found["model"] == (Supernet(LeNet(), float(card["subnetwork"].rstrip("%")) / 100) if ranks else LeNet())
    fed = tables.rotated(approach, 0, QUICK)
    assert fed.local == found["local"] and fed.model == tables.training(approach, QUICK.network)["model"]


def test_what_is_stored_has_the_printed_sizes():
    card, paper = printed(), tables.PAPER
    assert {f"G{q}": n for q, n in enumerate(paper.counts, 1)}.items() >= card["group_sizes"].items()
    assert statements.COUNTS == federations.COUNTS == paper.counts
    assert (sum(paper.counts), len(paper.counts)) == (card["clients"]["fairmnistrotate"], card["groups"]["fairmnistrotate"])
    assert paper.participants == card["drawn"]["fairmnistrotate"] and paper.test == 0
    assert (paper.adult_rounds, paper.adult_epochs) == (card["rounds"]["adult"], card["local_epochs"]["adult"])
    assert card["alpha"] == tables.ALPHA and len(catalogue.get("e2fl/table5").cells) == card["runs_of_table_5"]


def numbers(table, approach, rounds):
    """Table 1's eight numbers of an approach, by the names of `levels`."""
    rows = table[(table.approach == approach) & (table.rounds == rounds)]
    return dict(zip(rows.level + "_" + rows.metric.replace("variance", "var"), rows.value, strict=True))


def of_answer(fed, answer):
    found = federations.levels(federations.accuracies(fed, answer), federations.true_groups(fed))
    return pytest.approx({name: float(value[0]) for name, value in found.items()})


def test_the_global_model_is_looked_at_beside_those_of_groups():
    fed, table = tables.rotated("e2fl", 0, QUICK), tables.table1("e2fl", 0, QUICK)
    for t in QUICK.rounds:
        state = fed.run(E2FL(), t, record=()).state
        shared, own = (numbers(table, name, t) for name in ("e2fl-gm", "e2fl"))
        assert shared == of_answer(fed, state.params) and shared != own
        assert own == of_answer(fed, Models(state["groups"], federations.true_groups(fed)))


@pytest.mark.parametrize("approach,models", [("ifca", "models"), ("e2fl-loss", "groups")])
def test_who_took_no_part_is_at_the_model_it_would_choose_now(approach, models):
    """After one round, in which three of six clients took part, and another choice would give other numbers."""
    at = replace(QUICK, rounds=(1,))
    fed = tables.rotated(approach, 0, at)
    state = fed.run(tables.learner(approach, 3), 1, record=()).state
    one = fed.one()
    chosen = alone(one.losses(state[models][0], each_model=True)).argmin(0)[None]
    absent = np.setdiff1d(np.arange(fed.clients), one.sample_clients(1))
    assert (chosen != state["of"])[0, absent].any()
    found = numbers(tables.table1(approach, 0, at), approach, 1)
    assert found == of_answer(fed, Models(state[models], chosen)) and found != of_answer(fed, Models(state[models], state["of"]))


class Stopped(Exception):
    pass


@pytest.mark.parametrize(
    "setting,name,method",
    [
        ("iid", "fedavg", FedAvg()),
        ("non-iid", "fairfed", FairFed(beta=1.0, debias=Debias("none"))),
        ("non-iid", "e2fl", E2FL(KnownGroups(), deploy="global")),
        ("iid", "fedavg-printed", FedAvg()),
    ],
)
def test_methods_on_adult_are_run_as_the_card_says(setting, name, method, monkeypatch):
    """Rankings with the printed rate, weights with that of FedAvg on FairMNISTRotate, or with the printed one for one round."""
    card, dealt, runs, adult = printed(), [], [], federations.adult

    def of(alpha, *args, **options):
        dealt.append(alpha)
        return adult(alpha, *args, **options)

    def run(self, *args, **options):
        runs.append((self, *args))
        raise Stopped

    monkeypatch.setattr(federations, "adult", of)
    monkeypatch.setattr(Federation, "run", run)
    with pytest.raises(Stopped):
        tables.table4(setting, name, 0)
    ((fed, doing, rounds),), rate = runs, card["learning_rate"]
    rates = {"e2fl": rate["e2fl"]["adult"], "fedavg-printed": rate["fedavg"]["adult"]}
    assert dealt == [card["alpha"][setting]] and doing == method
    assert rounds == (1 if name == "fedavg-printed" else card["rounds"]["adult"])
    assert fed.local == ClientTraining("sgd", rates.get(name, rate["fedavg"]["fairmnistrotate"]), card["weight_decay"],
                              card["local_epochs"]["adult"], 128, momentum=card["momentum"])  # fmt: skip
    network = Perceptron((101, 1024, 1024, 2))
    assert fed.model == (Supernet(network, 0.5) if name == "e2fl" else network)
    assert fed.clients == card["clients"]["adult"] == len(fed.one().sample_clients(1)) == card["drawn"]["adult"]


def test_a_cell_of_table_4_by_counting_rows():
    """E2FL's global model on all test rows: accuracy, and women's recall and F1 less men's."""
    card, at = printed(), replace(QUICK, adult_rounds=1)
    local = ClientTraining("sgd", card["learning_rate"]["e2fl"]["adult"], card["weight_decay"], 1, 128, momentum=card["momentum"])
    fed = federations.adult(card["alpha"]["non-iid"], [0], model=Supernet(Perceptron(at.adult)), local=local)
    (params,) = fed.run(E2FL(), 1, record=()).state.params
    test = fed.shards["test"]
    rows = np.concatenate([test.rows(0, k) for k in range(fed.clients)])
    high = test.y[rows] == 1
    guess = np.concatenate(alone(fed.one().logits(params, on="test"))) > 0
    recall, f1 = [], []
    for sex in (0, 1):
        own = test.a[rows] == sex
        right = np.sum(guess & high & own)
        recall.append(right / np.sum(high & own))
        f1.append(2 * right / (np.sum(guess & own) + np.sum(high & own)))
    wanted = {"acc": 100 * np.mean(guess == high), "eod": recall[0] - recall[1], "di": f1[0] - f1[1]}
    assert tables.table4("non-iid", "e2fl", 0, at).set_index("metric").value.to_dict() == pytest.approx(wanted)


def test_table_5_has_a_cluster_for_each_group(monkeypatch):
    """Of each layer, and of all together."""
    asked, cluster = [], RankClustering.cluster

    def noted(self, fed, sent):
        asked.append((self.count, self.layer, self.edges))
        return cluster(self, fed, sent)

    monkeypatch.setattr(RankClustering, "cluster", noted)
    tables.table5(0, QUICK)
    assert asked == [(len(QUICK.counts), layer, QUICK.edges) for layer in (0, 1, None)]


@pytest.mark.parametrize("approach", ["e2fl", "fedavg", "local"])
def test_a_stopped_cell_goes_on_and_ends_with_the_same_bytes(approach, tmp_path, monkeypatch):
    """Stopped in the third of four rounds, or in the training of the third client, with all before it kept."""
    first, folder, calls, train = tables.kept(), tmp_path / "other", [], OneFederation.train
    stop = 3 if approach != "local" else 2 * QUICK.rounds[-1] + 1

    async def counted(self, *args, **options):
        calls.append(1)
        if len(calls) == stop:
            raise Stopped
        return await train(self, *args, **options)

    whole = tables.table1(approach, 0, QUICK).to_csv()
    monkeypatch.setattr(tables, "kept", lambda: folder)
    monkeypatch.setattr(OneFederation, "train", counted)
    with pytest.raises(Stopped):
        tables.table1(approach, 0, QUICK)
    assert tables.table1(approach, 0, QUICK).to_csv() == whole
    clients = sum(min(n, QUICK.alone) for n in QUICK.counts)
    assert len(calls) - stop == (2 if approach != "local" else (clients - 2) * QUICK.rounds[-1])
    before = len(calls)
    assert tables.table1(approach, 0, QUICK).to_csv() == whole and len(calls) == before
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in first.iterdir())


@pytest.mark.parametrize("approach", ["e2fl", "fedavg"])
def test_a_longer_run_goes_on_from_that_of_table_1_and_leaves_it(approach, monkeypatch):
    """Six rounds after four are two more, and give what six at once give; the state after four is still there."""
    table, calls, train = tables.table1(approach, 0, QUICK).to_csv(), [], OneFederation.train

    async def counted(self, *args, **options):
        calls.append(1)
        return await train(self, *args, **options)

    monkeypatch.setattr(OneFederation, "train", counted)
    found = tables.longer(6, approach, 0, QUICK)
    assert len(calls) == 2
    tables.longer(5, approach, 0, QUICK), tables.figure3(approach, 0, QUICK)
    assert len(calls) == 2 + 5 and tables.table1(approach, 0, QUICK).to_csv() == table
    folder = tables.kept().with_name("other")
    monkeypatch.setattr(tables, "kept", lambda: folder)
    whole = tables.table1(approach, 0, replace(QUICK, rounds=(1, 6))).query("rounds == 6")
    columns = found[found.level.isin(["group", "user"])]
    pd.testing.assert_frame_equal(columns.reset_index(drop=True), whole.reset_index(drop=True))
    groups = tables.figure3(approach, 0, replace(QUICK, rounds=(1, 6)))
    groups["level"], groups["rounds"] = "G" + groups.pop("group").astype(str), 6
    rest = found.drop(columns.index)[groups.columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, groups)


def test_clients_may_have_more_images_than_there_are_for_all_of_them():
    """No image with two clients while they last; then none with two clients of a group. Three groups, 400 images to train on."""

    def images_of(each):
        fed = federations.fair_mnist_rotate([0], counts=(2, 3, 1), step=0.0, each=each, test=30, model=Perceptron((784, 8, 10)))
        shards = fed.shards["train"]
        return [{shards.examples.X[r].tobytes() for r in shards.rows(0, k)} for k in range(6)]

    few, many = images_of(66), images_of(130)
    assert [len(one) for one in few] == [66] * 6 and len(set().union(*few)) == 396
    assert [len(one) for one in many] == [130] * 6 and len(set().union(*many)) <= 400
    assert not many[0] & many[1] and not many[2] & many[3] and not many[3] & many[4] and many[0] & many[2]
    with pytest.raises(FairFLError, match="3 clients of a group cannot have 134 images each"):
        images_of(134)


def test_columns_by_the_number_of_images():
    local, fedavg = (tables.images(20, approach, 0, QUICK) for approach in ("local", "fedavg"))
    assert set(local.rounds) == {2} and set(fedavg.rounds) == {4} and set(local.each) == {20}
    at = replace(QUICK, each=20)
    pd.testing.assert_frame_equal(fedavg.drop(columns="each"), tables.table1("fedavg", 0, at).query("rounds == 4"))


def test_figure_4_is_of_the_run_of_table_1(monkeypatch):
    tables.table1("e2fl", 0, QUICK)
    monkeypatch.setattr(Federation, "run", None)
    assert set(tables.inference(0, QUICK).inference) == set(tables.WAYS)


def test_clients_infer_their_groups_in_lots_as_they_do_together(monkeypatch):
    fed, method = tables.rotated("e2fl", 0, QUICK), tables.learner("e2fl", 3)
    state = fed.run(method, 3, record=()).state
    together = tables.inferred(fed, state, asked=5)
    monkeypatch.setattr(tables, "TOGETHER", 2)
    in_lots = tables.inferred(fed, state, asked=5)
    assert list(in_lots) == list(together) and all((in_lots[way] == together[way]).all() for way in together)


def test_figure_3_is_of_the_runs_of_table_1(monkeypatch):
    """No round is run again; accuracies of groups have the mean and the variance of the table."""
    for approach in ("fedavg", "ifca", "e2fl"):
        table = tables.table1(approach, 0, QUICK).query("level == 'group' and rounds == 4")
        with monkeypatch.context() as patch:
            patch.setattr(OneFederation, "train", None)
            found = tables.figure3(approach, 0, QUICK)
        for name in found.approach.unique():
            acc, wanted = (f[f.approach == name] for f in (found[found.metric == "acc"], table))
            wanted = wanted.set_index("metric").value
            assert acc.value.mean() == pytest.approx(wanted["avg"]) and acc.value.var(ddof=0) == pytest.approx(wanted["variance"])


def test_what_is_seen_of_four_images():
    """A six taken for a nine, a nine for a zero, a nine and a one that are right."""
    logits = np.full((4, 10), -np.inf)
    for row, (guess, label, certain) in enumerate([(9, 6, 0.75), (0, 9, 0.5), (9, 9, 0.5), (1, 1, 1.0)]):
        logits[row, guess], logits[row, label] = np.log(certain), np.log(1 - certain if guess != label else certain)
    logits[1, 0] += 1e-9
    found = tables.seen(logits, np.array([6, 9, 9, 1]))
    assert found["acc"] == 50 and found["turned"] == pytest.approx(100 / 3)
    assert found["loss"] == pytest.approx((np.log(4) + np.log(2)) / 4)


def test_shares_of_groups_that_are_found(monkeypatch):
    fed = tables.rotated("e2fl", 0, QUICK)
    truth, seen = federations.true_groups(fed)[0], []

    class First:
        """Takes everybody for one of the first group."""

        def __init__(self, count):
            self.count = count

        async def infer(self, fed, models, clients):
            seen.append((self.count, clients))
            return np.zeros(len(clients), int)

    monkeypatch.setattr(tables, "WAYS", {"first": First})
    found = tables.inferred(fed, State(fed.one().init_params()[None], {"groups": np.zeros((1, 3, 1))}), asked=4)
    ((count, clients),) = seen
    assert count == 3 and clients.shape == (4,) and len(set(clients)) == 4
    assert found["first"].tolist() == [(truth[clients] == 0).mean()]


def test_a_client_alone_stands_for_a_part_of_its_group(monkeypatch):
    """Groups of 2, 3 and 1 clients, of which two train: client 4 counts as client 2 does."""

    async def by_itself(fed, client, rounds):
        return {str(t): (10 * client + t) / 100 for t in rounds}

    monkeypatch.setattr(tables, "_by_itself", by_itself)
    fed = tables.rotated("local", 0, QUICK)
    found = tables.by_themselves(fed, 2, (1, 2)).set_index(["round", "metric"]).value
    for t in (1, 2):
        own = np.array([0, 10, 20, 30, 20, 50]) + t
        assert found[t, "user_avg"] == pytest.approx(own.mean()) and found[t, "user_var"] == pytest.approx(own.var())
        assert found[t, "group_avg"] == pytest.approx(np.mean([5, 70 / 3, 50]) + t)


def test_a_client_by_itself_is_local_training():
    fed = tables.rotated("local", 0, QUICK)
    (models,) = fed.run(LocalOnly(), 2, record=()).answer
    found = alone(tables._by_itself(fed.one(), 4, (1, 2)))
    (own,) = alone(federations.accuracies_alone(fed.one(), models[[4]], np.array([4])))
    assert found["2"] == own and set(found) == {"1", "2"}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_clusters_have_the_best_names(pairs):
    found, truth = np.array(pairs).T
    tried = max((np.array(names)[found] == truth).mean() for names in itertools.permutations(range(4)))
    anyhow = max((np.array(names)[found] == truth).mean() for names in itertools.product(range(4), repeat=4))
    assert tables.named_right(found, truth) == pytest.approx({"one to one": tried, "majority": anyhow})


def test_a_layer_counts_as_its_scale_says():
    """Two layers that say different things: the one with the larger scale is believed."""
    rng = np.random.default_rng(0)
    base = np.array([rng.permutation(100) for _ in range(4)])
    parity, half = np.arange(12) % 2, np.arange(12) // 6
    both = [base[parity].astype(np.int32), base[2 + half].astype(np.int32)]
    for scales, truth in (([1.0, 0.01], parity), ([0.01, 1.0], half)):
        assert tables.named_right(RankClustering(2).kmeans(both, rng, scales), truth)["one to one"] == 1


def test_some_edges_of_a_layer_stand_for_all(monkeypatch):
    fed, seen = tables.rotated("e2fl", 0, QUICK).one(), []
    monkeypatch.setattr(RankClustering, "kmeans", lambda self, rankings, rng, scales: seen.append(scales) or np.zeros(6, int))
    way = RankClustering(2, layer=None, edges=QUICK.edges)
    sent = alone(way.rankings(fed, fed.init_params()))
    way.cluster(fed, sent)
    replace(way, layer=1).cluster(fed, sent[1:])
    np.testing.assert_allclose([*seen[0], *seen[1]], [(784 * 16 / 50) ** 2, 3.2**2, 3.2**2])
    assert [len(scales) for scales in seen] == [2, 1]
    rng = np.random.default_rng(1)
    whole = np.array([rng.permutation(4000), rng.permutation(4000)])
    some = np.argsort(np.argsort(whole[:, rng.permutation(4000)[:1000]], axis=1), axis=1)
    near, far = (np.abs(np.diff(x, axis=0)).sum() for x in (some, whole))
    assert near * (4000 / 1000) ** 2 == pytest.approx(far, rel=0.05)


def test_table_3_agrees_with_the_publishers_own_share():
    """adult.names says that of 30,162 and 15,060 complete rows in the two files 24.78 % have a high income."""
    found, high = results.load("e2fl/table3").set_index("name").value, 0.0
    for part, rows in (("train", 30_162), ("test", 15_060)):
        high += rows / 45_222 * sum(found[f"{part}.{sex}"] * found[f"{part}.{sex}.positive"] for sex in ("male", "female"))
    assert round(100 * high, 2) == 24.78 and found["rows"] == 48_842
    whole = sum(found[f"all.{sex}"] * found[f"all.{sex}.positive"] for sex in ("male", "female"))
    assert whole == pytest.approx(high)
    for part in ("train", "test", "all"):
        assert found[f"{part}.male"] + found[f"{part}.female"] == pytest.approx(1)
        pd.testing.assert_frame_equal(
            tables.table3(part).sort_values("name").reset_index(drop=True),
            found[found.index.str.startswith(part)].sort_index().reset_index(),
        )
