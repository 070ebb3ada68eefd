"""E2FL's Tables 1, 3, 4 and 5, its Figures 3 and 4, and styles of handwriting in the place of FEMNIST.

Long runs are kept in the cache folder, by all that they depend on, and go on where they were stopped. Table 1 and both figures
look at the same runs: whichever is measured first does the work of all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from fairfl_book.experiments.base import Experiment, grid, named
from fairfl_lite import data, metrics, store
from fairfl_lite.clients import Debias
from fairfl_lite.errors import choose
from fairfl_lite.federation import Answer, Federation, Method, Models, OneFederation, State, alone
from fairfl_lite.federation.kept import Book
from fairfl_lite.methods import (
    E2FL,
    FRL,
    IFCA,
    QFFL,
    BinarySearchInference,
    FairFed,
    FedAvg,
    LocalOnly,
    LowestLossInference,
    OneShotInference,
    RankClustering,
)
from fairfl_lite.models import LeNet, Network, Perceptron
from fairfl_lite.supernets import Supernet
from papers.e2fl import federations
from papers.e2fl.curves import after, curve
from papers.e2fl.federations import ADULT, RANKED, STEP, WEIGHED, accuracies_alone, groups_of, levels, true_groups
from papers.e2fl.printed import COUNTS, PRINTED


@dataclass(frozen=True)
class Extent:
    """How large the experiments are. PAPER is what is stored, another one takes the same way.

    network, counts, each, test, participants : of FairMNISTRotate; clients of each group, training images of a client, and test
    images of each angle, 0 for all.
    rounds : after which of them is looked. alone : how many clients of each group train by themselves. asked : how many clients
    infer their group at each look. edges : of a layer that rank clustering compares. styles, styled : clients of each style of
    handwriting, and rounds. adult : widths of the network, adult_rounds and adult_epochs of its training.
    """

    network: Network = LeNet()
    counts: tuple[int, ...] = COUNTS
    each: int = 60
    test: int = 0
    participants: int = PRINTED["drawn"]["fairmnistrotate"]
    rounds: tuple[int, ...] = (10, 30, 100, 200, 300)
    alone: int = 3
    asked: int = 40
    edges: int = 50_000
    styles: tuple[int, ...] = (60, 20, 10, 6, 4)
    styled: int = 60
    adult: tuple[int, ...] = (101, 1024, 1024, 2)
    adult_rounds: int = PRINTED["rounds"]["adult"]
    adult_epochs: int = PRINTED["local_epochs"]["adult"]


PAPER = Extent()
EACH = (60, 90, 120, 150, 180, 210, 230)
"""Images of a client, for local training; with more than 233 the largest group would share images."""
STYLED_GROUPS, STYLED_CLUSTERS = 2, 5
"""Groups for lowest loss and one-shot inference, and clusters of rankings, as on FEMNIST (section 6.2)."""
ADULT_RATE = PRINTED["learning_rate"]["fedavg"]["fairmnistrotate"]
"""Of training weights on Adult. The paper prints 2.0 for all methods, at which FedAvg's network is not finite after its first
round ("fedavg-printed" in the results); 0.01 is what it prints for FedAvg on FairMNISTRotate."""
ADULT_BATCH = 128
"""Not printed. Of 32 and 128 it is the one that takes two thirds of the time."""
ALPHA = {setting: float(alpha) for setting, alpha in PRINTED["alpha"].items()}
LAYERS = ("conv1", "conv2", "fc1", "fc2")
RANKING = ("e2fl", "frl")
"""Approaches, by how they begin, that rank the edges of a supernet; the others train weights."""
WAYS: dict[str, Callable[[int], Any]] = {
    "loss": LowestLossInference,
    "oneshot": OneShotInference,
    "binary": BinarySearchInference,
    "binary-printed": partial(BinarySearchInference, drop="small"),
}
"""Ways to infer a group, by their number of groups. The second binary search is as Algorithm 3 prints it."""
TOGETHER = 8
"""Clients that infer their groups at a time: each holds a mixture of the masks, and its gradient."""


_GLOBAL = {"e2fl (gm)": "e2fl-gm"}


def kept() -> Path:
    """Where runs are kept."""
    return store.cache_folder() / "runs" / "e2fl"


def learner(approach: str, groups: int) -> Method:
    """A method of Table 1, or of the styles, by its name."""
    made: dict[str, Callable[[], Method]] = {
        "local": lambda: LocalOnly(name="local"),
        "fedavg": FedAvg,
        "ifca": lambda: IFCA(groups),
        "ifca-known": lambda: IFCA(groups, known=True, name="ifca-known"),
        "q-ffl": lambda: QFFL(PRINTED["q"]),
        "e2fl": E2FL,
        "frl": FRL,
        "e2fl-oneshot": lambda: E2FL(OneShotInference(STYLED_GROUPS), name="e2fl-oneshot"),
        "e2fl-clusters": lambda: E2FL(RankClustering(STYLED_CLUSTERS), name="e2fl-clusters"),
        "e2fl-loss": lambda: E2FL(LowestLossInference(STYLED_GROUPS), name="e2fl-loss"),
    }
    return made[choose(approach, made, "approach named")]()


def training(approach: str, network: Network) -> dict[str, Any]:
    """What the clients of an approach train, and how: options of a federation."""
    ranks = approach.startswith(RANKING)
    return {"model": Supernet(network) if ranks else network, "local": RANKED if ranks else WEIGHED}


def rotated(approach: str, seed: int, at: Extent = PAPER) -> Federation:
    """FairMNISTRotate for an approach of Table 1."""
    return federations.fair_mnist_rotate([seed], counts=at.counts, each=at.each, test=at.test, participants=at.participants,
                                         **training(approach, at.network))  # fmt: skip


def table1(approach: str, seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Table 1 for one approach and seed after each of the rounds; E2FL's global model is beside it as "e2fl-gm"."""
    return _in_columns(looked(approach, seed, at))


def images(each: int, approach: str, seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Table 1's columns after its last round where every client has `each` images; those of local training, which is flat by
    then, after the second look."""
    rounds = at.rounds[:2] if approach == "local" else at.rounds
    found = table1(approach, seed, replace(at, each=each, rounds=rounds))
    found.insert(0, "each", each)
    return found[found.rounds == rounds[-1]]


def longer(rounds: int, approach: str, seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Table 1's columns after more rounds than its own, and Figure 3c's for each group, with the level "G1", "G2", and so on.

    The run goes on from Table 1's in a folder of its own, so that what the table and the figures look at stays.
    """
    fed, method = rotated(approach, seed, at), learner(approach, len(at.counts))
    begun = Book(fed, method, (), (), kept()).path
    assert begun is not None
    folder = begun.parent / "longer"
    if not (folder / begun.name).exists():
        after(fed, method, at.rounds[-1], kept(), every=25)
        store.write_arrays(folder / begun.name, **store.read_arrays(begun))
    whole = _in_columns(curve(fed, method, [rounds], folder, every=25))
    _, answers = after(fed, method, rounds, folder, every=25)
    groups = by_group(fed, answers).assign(seed=seed, rounds=rounds)
    groups["level"] = "G" + groups.pop("group").astype(str)
    return pd.concat([whole, groups[whole.columns]], ignore_index=True)


def _in_columns(found: pd.DataFrame) -> pd.DataFrame:
    """What `curve` gives, by Table 1's levels and metrics."""
    found = found[found.metric.str.match("group_|user_")]
    parts = found.metric.str.split("_", expand=True)
    return pd.DataFrame({"approach": found.method.replace(_GLOBAL), "level": parts[0],
                         "metric": parts[1].replace("var", "variance"), "rounds": found["round"], "seed": found.seed,
                         "value": found.value})  # fmt: skip


def looked(approach: str, seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """The curve of one approach and seed; that of E2FL with the share of groups that each way of inference finds."""
    fed, method = rotated(approach, seed, at), learner(approach, len(at.counts))
    if approach == "local":
        return by_themselves(fed, at.alone, at.rounds)
    also = partial(inferred, asked=at.asked) if approach == "e2fl" else None
    return curve(fed, method, at.rounds, kept(), every=25, also=also)


def figure3(approach: str, seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Figure 3c after the last round of Table 1's run: see `by_group`."""
    fed, method = rotated(approach, seed, at), learner(approach, len(at.counts))
    _, answers = after(fed, method, at.rounds[-1], kept(), every=25)
    return by_group(fed, answers).assign(seed=seed)[["approach", "metric", "group", "seed", "value"]]


def by_group(fed: Federation, answers: Mapping[str, Answer]) -> pd.DataFrame:
    """What the test images of each group show of what a method answers, for a client of the group on average; groups from 1.

    See `seen` for the metrics. The federation has one seed.
    """
    (group,), tested, one, rows = true_groups(fed), fed.shards["test"], fed.one(), []
    for name, answer in answers.items():
        models, of = (answer.models[0], answer.of[0]) if isinstance(answer, Models) else (answer, np.zeros(fed.clients, int))
        for q in range(tested.clients):
            y, found = tested.examples.y[tested.rows(0, q)], dict.fromkeys(SEEN, 0.0)
            for m, share in zip(*np.unique(of[group == q], return_counts=True), strict=True):
                (logits,) = alone(one.logits(models[m], np.array([q]), "test"))
                for metric, value in seen(logits, y).items():
                    found[metric] += value * share / np.sum(group == q)
            rows += [(_GLOBAL.get(name, name), metric, q + 1, value) for metric, value in found.items()]
    return pd.DataFrame(rows, columns=["approach", "metric", "group", "value"])


SEEN = ("loss", "acc", "turned")


def seen(logits: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Of a model on images: mean log loss, accuracy in percent, and percent of the sixes and nines that are taken for the other,
    which half a turn makes of them."""
    guess, other = logits.argmax(1), y * (y != 6) * (y != 9) + 9 * (y == 6) + 6 * (y == 9)
    loss = np.logaddexp.reduce(logits.astype(float), axis=1) - logits[np.arange(len(y)), y]
    return dict(zip(SEEN, (loss.mean(), 100 * np.mean(guess == y), 100 * np.mean((guess == other)[other != y])), strict=True))


def inferred(fed: Federation, state: State, asked: int) -> dict[str, np.ndarray]:
    """The share of clients, drawn at random, whose group each way finds from the groups' masks, by run."""
    groups = dict(zip(fed.seeds, state["groups"], strict=True))
    found = fed.ask(lambda one: _inferred(one, groups[one.seed], asked))
    return {name: np.array([shares[name] for shares in found]) for name in WAYS}


async def _inferred(fed: OneFederation, groups: np.ndarray, asked: int) -> dict[str, float]:
    clients = np.sort(fed.rng("asked for their group").permutation(fed.n)[:asked])
    truth, lots, found = await groups_of(fed, clients), np.split(clients, range(TOGETHER, len(clients), TOGETHER)), {}
    for name, made in WAYS.items():
        chosen = [await made(len(groups)).infer(fed, groups, lot) for lot in lots]
        found[name] = float((np.concatenate(chosen) == truth).mean())
    return found


def inference(seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Figure 4: percent of clients whose group is found in a run of E2FL that knows the groups."""
    found = looked("e2fl", seed, at)
    found = found[(found.method == "e2fl") & found.metric.isin(list(WAYS))]
    return pd.DataFrame({"inference": found.metric, "round": found["round"], "seed": found.seed, "value": 100 * found.value})


def by_themselves(fed: Federation, each: int, rounds: tuple[int, ...]) -> pd.DataFrame:
    """As `curve`, for local training of the first `each` clients of every group, with one seed. Each of them stands for an equal
    part of its group, so that groups count as many clients as they have."""
    (group,), folder = true_groups(fed), kept()
    book = Book(fed, learner("local", 0), (), (), folder)
    assert book.path is not None
    accuracy = np.empty((len(rounds), fed.clients))
    for q in np.unique(group):
        members = np.flatnonzero(group == q)
        for i, client in enumerate(members[:each]):
            path = book.path.with_name(f"{book.path.stem}-{client}.json")
            known = json.loads(store.kept_text(path) or "{}")
            if not {str(t) for t in rounds} <= known.keys():
                known = alone(_by_itself(fed.one(), int(client), rounds))
                store.keep_text(path, json.dumps(known))
            accuracy[:, members[i::each]] = [[known[str(t)]] for t in rounds]
    found = levels(accuracy, np.broadcast_to(group, accuracy.shape))
    return pd.concat([pd.DataFrame({"method": "local", "seed": fed.seeds[0], "round": rounds, "metric": metric, "value": values})
                      for metric, values in found.items()], ignore_index=True)  # fmt: skip


async def _by_itself(fed: OneFederation, client: int, rounds: tuple[int, ...]) -> dict[str, float]:
    """The accuracy of one client's own model after each of the rounds."""
    params, clients, found = fed.init_params(), np.array([client]), {}
    for t in range(1, rounds[-1] + 1):
        params = await fed.train(params, clients, t)
        if t in rounds:
            found[str(t)] = float((await accuracies_alone(fed, params, clients))[0])
    return found


def table3(part: str) -> pd.DataFrame:
    """Table 3: shares of the sexes, and of incomes above 50,000 dollars among them, in a file of Adult, or in "all"; "rows": how
    many there are in both files, incomplete ones among them."""
    if part == "rows":
        return named({"rows": len(data.load("adult", rows="all"))})
    table = data.load("adult")
    own = (table.columns["file"] == part) | (part == "all")
    y, male = table.y[own], table.a[own] == 1
    return named({f"{part}.male": male.mean(), f"{part}.female": (~male).mean(), f"{part}.male.positive": y[male].mean(),
                  f"{part}.female.positive": y[~male].mean()})  # fmt: skip


def table4(setting: str, method: str, seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Table 4 for one cell: accuracy in percent, EOD and DI of one model on all test rows.

    "fedavg-printed" is FedAvg with the printed rate for one round: whether its model is finite after it.
    """
    made: dict[str, Method] = {"fedavg": FedAvg(), "fairfed": FairFed(beta=1.0, debias=Debias("none")),
                               "e2fl": E2FL(deploy="global"), "fedavg-printed": FedAvg()}  # fmt: skip
    doing, network = made[choose(method, made, "method on Adult named")], Perceptron(at.adult)
    rate = ADULT.lr if method in ("e2fl", "fedavg-printed") else ADULT_RATE
    local = replace(ADULT, lr=rate, batch_size=ADULT_BATCH, epochs=at.adult_epochs)
    fed = federations.adult(ALPHA[setting], [seed], model=Supernet(network) if method == "e2fl" else network, local=local,
                            diverged="keep")  # fmt: skip
    if method == "fedavg-printed":
        found = {"finite": float(np.isfinite(fed.run(doing, 1, record=()).state.params).all())}
    else:
        answer = fed.run(doing, at.adult_rounds, record=(), checkpoint_dir=kept(), checkpoint_every=2).answer
        assert isinstance(answer, np.ndarray)  # one model for all, in each of these methods
        counts = alone(fed.one().confusion(answer[0], on="test")).sum(0)
        found = {metric: float(metrics.MODEL[metric](counts)) for metric in ("acc", "eod", "di")}
        found["acc"] *= 100
    return pd.DataFrame({"setting": setting, "method": method, "metric": list(found), "seed": seed, "value": [*found.values()]})


def table5(seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Table 5: percent of clients in the cluster of their group, by the rankings of each layer and of all, for either way to name
    the clusters: see `named_right`."""
    fed, way = rotated("e2fl", seed, at), RankClustering(len(at.counts), layer=None, edges=at.edges)
    one, (truth,) = fed.one(), true_groups(fed)
    sent = alone(way.rankings(one, one.init_params()))
    found = {name: replace(way, layer=i).cluster(one, [own]) for i, (name, own) in enumerate(zip(LAYERS, sent, strict=False))}
    found["all"] = way.cluster(one, sent)
    rows = [
        (layer, naming, seed, 100 * share) for layer, own in found.items() for naming, share in named_right(own, truth).items()
    ]
    return pd.DataFrame(rows, columns=["layer", "naming", "seed", "value"])


def named_right(found: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The share of clients that are right when clusters get names of groups: "one to one", each group's name once, so that most
    clients are right; "majority", each cluster the name of the group that most of its clients are of, whoever else has it."""
    together = np.zeros((max(found.max(), truth.max()) + 1,) * 2)
    np.add.at(together, (found, truth), 1)
    right = {"one to one": together[linear_sum_assignment(together, maximize=True)].sum(), "majority": together.max(1).sum()}
    return {naming: float(count / len(truth)) for naming, count in right.items()}


def styles(approach: str, seed: int, at: Extent = PAPER) -> pd.DataFrame:
    """Table 2's columns for handwriting styles made from MNIST, whose groups nobody knows; each client has test images."""
    fed = federations.handwriting([seed], counts=at.styles, **training(approach, at.network))
    method = learner(approach, len(at.styles))
    found = by_themselves(fed, at.alone, (at.styled,)) if approach == "local" else curve(fed, method, [at.styled], kept())
    found = found[(found.method == method.name) & found.metric.str.startswith("user_")]
    metric = found.metric.str.removeprefix("user_").replace("var", "variance")
    return pd.DataFrame({"approach": approach, "metric": metric, "seed": seed, "value": found.value})


_SEEDS, _RUNS = range(3), PRINTED["runs_of_table_5"]
_ROTATED = {
    "rounds": PAPER.rounds,
    "counts": COUNTS,
    "degrees": STEP,
    "ranked": repr(RANKED),
    "weighed": repr(WEIGHED),
    "q": PRINTED["q"],
}
_APPROACHES = ("e2fl", "fedavg", "ifca-known", "frl", "q-ffl", "ifca", "local")
_STYLED = ("fedavg", "q-ffl", "e2fl-oneshot", "e2fl-clusters", "e2fl-loss", "local")
_MILESTONES = (600, 1000, 2000, PRINTED["rounds"]["fairmnistrotate"])
_LONGER = [*grid(seed=_SEEDS, approach=(*_APPROACHES[:4], "ifca"), rounds=_MILESTONES),
           *grid(seed=(0,), approach=("q-ffl",), rounds=(*_MILESTONES, PRINTED["rounds"]["q-ffl"]))]  # fmt: skip
_ADULT = [*grid(seed=range(PRINTED["seeds"]), setting=tuple(ALPHA), method=("fedavg", "fairfed", "e2fl")),
          *grid(seed=(0,), setting=("iid",), method=("fedavg-printed",))]  # fmt: skip

EXPERIMENTS = (
    Experiment("e2fl/table1", table1, grid(seed=_SEEDS, approach=_APPROACHES), ("mnist",), seeds=3, workers=2,
               settings=_ROTATED | {"clients alone": f"the first {PAPER.alone} of each group"}),
    Experiment("e2fl/longer", longer, _LONGER, ("mnist",), seeds=3, workers=2, settings=_ROTATED),
    Experiment("e2fl/images", images, grid(each=EACH, approach=("local",), seed=(0,)), ("mnist",), seeds=1, workers=2,
               settings=_ROTATED | {"clients alone": f"the first {PAPER.alone} of each group"}),
    Experiment("e2fl/inference", inference, grid(seed=_SEEDS), ("mnist",), seeds=3, workers=2,
               settings=_ROTATED | {"clients asked": PAPER.asked}),
    Experiment("e2fl/figure3", figure3, grid(seed=_SEEDS, approach=_APPROACHES[:-1]), ("mnist",), seeds=3, workers=2,
               settings=_ROTATED),
    Experiment("e2fl/table3", table3, grid(part=("train", "test", "all", "rows")), ("adult",), seeds=1),
    Experiment("e2fl/table4", table4, _ADULT, ("adult",), seeds=PRINTED["seeds"], workers=2,
               settings={"ranked": repr(replace(ADULT, batch_size=ADULT_BATCH)), "weighed rate": ADULT_RATE,
                         "rounds": PAPER.adult_rounds, "network": PAPER.adult, "fairfed": "beta 1, no debiasing of rows"}),
    Experiment("e2fl/table5", table5, grid(seed=range(_RUNS)), ("mnist",), seeds=_RUNS, workers=2,
               settings={"edges": PAPER.edges, "starts": RankClustering.starts, "ranked": repr(RANKED), "degrees": STEP}),
    Experiment("e2fl/styles", styles, grid(seed=_SEEDS, approach=_STYLED), ("mnist",), seeds=3, workers=2,
               settings={"clients": PAPER.styles, "rounds": PAPER.styled, "drawn": 10, "groups": STYLED_GROUPS,
                         "clusters": STYLED_CLUSTERS, "clients alone": f"the first {PAPER.alone} of each style"}),
)  # fmt: skip
