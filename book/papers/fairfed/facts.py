"""What FairFed's text claims beyond its tables: facts of the datasets, and identities that can be computed both ways."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairfl_book.experiments.base import Experiment, named
from fairfl_lite import data, metrics
from fairfl_lite.clients import ClientTraining, Debias
from fairfl_lite.clients.debias import reweighing
from fairfl_lite.data import Partition, Table
from fairfl_lite.federation import Federation, OneFederation, alone, secagg
from fairfl_lite.methods import FairFed, FedAvg
from fairfl_lite.methods.fairfed import global_component, group_sizes


def counts(dataset: str) -> pd.DataFrame:
    """Counts and shares that the paper prints or that its tables imply, from the data themselves."""
    return named({"adult": _adult, "compas": _compas, "acsincome": _acsincome}[dataset]())


def _adult() -> dict[str, float]:
    complete, file = data.load("adult"), data.load("adult", rows="train")
    return {
        "adult.rows.train_file": len(file),
        "adult.rows.complete": len(complete),
        "adult.features": complete.X.shape[1],
        "adult.male.share": complete.a.mean(),
        "adult.white.share": data.load("adult", sensitive="race").a.mean(),
        "adult.female.share.train_file": 1 - file.a.mean(),
    }


def _compas() -> dict[str, float]:
    rows, raw = data.load("compas"), pd.read_csv(data.fetch("compas")["compas-scores-two-years.csv"])
    screened = pd.to_datetime(raw["compas_screening_date"]).dt.year
    return {
        "compas.rows": len(rows),
        "compas.first_year": screened.min(),
        "compas.last_year": screened.max(),
        "compas.female.share": data.load("compas", sensitive="sex").a.mean(),
        "compas.caucasian.share": rows.a.mean(),
    }


def _acsincome() -> dict[str, float]:
    rows = data.load("acsincome")
    by_state = pd.DataFrame({"state": rows.columns["state"], "white": rows.a}).groupby("state")["white"].agg(["size", "mean"])
    size, white = by_state["size"], by_state["mean"]
    return {
        "acsincome.rows.wyoming": size["WY"],
        "acsincome.smaller_than.wyoming": (size < size["WY"]).sum(),
        "acsincome.white.hawaii": white["HI"],
        "acsincome.less_white_than.hawaii": (white < white["HI"]).sum(),
        "acsincome.white.vermont": white["VT"],
        "acsincome.whiter_than.vermont": (white > white["VT"]).sum(),
    }


def identities(seeds: Sequence[int]) -> pd.DataFrame:
    """The largest error over all seeds when both sides of an identity are computed; a violation counts as its number."""
    errors = pd.DataFrame([_errors(seed) for seed in seeds]).max().to_dict()
    return named({**errors, "secagg.leak": leaked_bits(), "local_not_global": abs(local_but_not_global())})


def _errors(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    compas = data.load("compas")
    train = ClientTraining("adam", 0.01, 1e-4, 1, 32)
    fed = Federation.of(compas, Partition.dirichlet(0.5, 5), (seed,), train)
    single = Partition.single_group(0.5, (2, 3)).clients(compas, compas.split(seed), seed)["train"]
    counts = rng.integers(0, 40, (5, 2, 2, 2)) + 1
    gap, one = rng.random(5), fed.one()
    shares = one.shares(one.all_clients)
    change = FairFed(rule="none").update(one, shares, gap, gap.mean(), shares) - shares
    words = [secagg.encode(x, 32, 5) for x in rng.normal(size=(5, 50))]
    ring = np.sum(words, axis=0, dtype=np.uint64)
    summed = secagg.SecAgg(5, 2)(np.stack([secagg.decode(w, 32) for w in words])[None])[0]
    return {
        "beta0.fedavg": np.abs(fed.run(FairFed(0.0), 3).state.params - fed.run(FedAvg(Debias("local")), 3).state.params).max(),
        "eta1.eq6": np.abs(fed.run(FairFed(eta=1.0), 2).state.params[0] - alone(_equation_6(one, 2))).max(),
        "eq6.weights": int((np.sign(-change) != np.sign(gap - gap.mean())).sum()),
        **{f"{eq}.{m}": _apart(m, counts) for eq, m in (("eq7", "eod"), ("eq10", "spd"))},
        "secagg.sum": int((secagg.encode(summed, 32, 5) != ring).sum()),
        "single_group.local_weights": max(np.abs(reweighing(_census(compas, rows)) - 1).max() for rows in single),
        "single_group.pure": sum(np.ptp(compas.a[rows]) > 0 for rows in single),
        "dirichlet.iid": _far_from_iid(compas, seed),
    }


def _apart(metric: str, counts: np.ndarray) -> float:
    total = global_component(metric, counts, group_sizes(metric, counts.sum(-1)).sum(0)).sum()
    return float(np.abs(total - metrics.MODEL[metric](counts.sum(0))))


async def _equation_6(fed: OneFederation, rounds: int) -> np.ndarray:
    """FairFed by Eq. 6 alone, without eta."""
    clients, params = fed.all_clients, fed.init_params()
    rows, weights = await Debias("local").training_rows(fed, clients), fed.shares(clients)
    for t in range(1, rounds + 1):
        counts = await fed.confusion(params, clients)
        gap = np.abs(metrics.eod(counts) - metrics.eod(counts.sum(0)))
        accuracy = np.abs(metrics.accuracy(counts) - metrics.accuracy(counts.sum(0)))
        gap = np.where(np.isnan(gap), accuracy, gap)
        weights = FairFed().update(fed, weights, gap, gap.mean(), fed.shares(clients))
        params = fed.average(await fed.train(params, clients, t, rows=rows), weights)
    return params


def _census(table: Table, rows: np.ndarray) -> np.ndarray:
    return np.bincount(2 * table.a[rows] + table.y[rows], minlength=4).reshape(2, 2)


def _far_from_iid(table: Table, seed: int) -> float:
    split = table.split(seed)
    clients = Partition.dirichlet(1e9, 5).clients(table, split, seed)["train"]
    whole = table.a[split["train"]].mean()
    return max(abs(table.a[rows].mean() - whole) for rows in clients)


def local_but_not_global() -> float:
    """Global EOD of two clients that are each perfectly fair: one finds nine in ten positives of either group, the other one
    in ten, and the groups are spread unevenly over them. Counts [client, a, y, yhat]."""
    first = [[[0, 0], [1, 9]], [[0, 0], [9, 81]]]
    second = [[[0, 0], [81, 9]], [[0, 0], [9, 1]]]
    counts = np.array([first, second])
    assert (metrics.eod(counts) == 0).all()
    return float(metrics.eod(counts.sum(0)))


def leaked_bits(modulus: int = 4, clients: int = 3) -> float:
    """I(x; y | sum x) in bits with uniform pairwise masks, by enumerating every input and every mask: Eq. 9, exactly."""
    pairs = list(itertools.combinations(range(clients), 2))
    joint = np.zeros((modulus**clients, modulus**clients))
    place = modulus ** np.arange(clients)
    for x in itertools.product(range(modulus), repeat=clients):
        for masks in itertools.product(range(modulus), repeat=len(pairs)):
            y = np.array(x)
            for (i, j), mask in zip(pairs, masks, strict=True):
                y[i] += mask
                y[j] -= mask
            joint[np.dot(x, place), np.dot(y % modulus, place)] += 1
    joint /= joint.sum()
    sums = np.array([sum(x[::-1]) % modulus for x in itertools.product(range(modulus), repeat=clients)])
    information = 0.0
    for s in range(modulus):
        part = joint[sums == s]
        weight = part.sum()
        part = part / weight
        independent = part.sum(1, keepdims=True) * part.sum(0, keepdims=True)
        seen = part > 0
        information += weight * float((part[seen] * np.log2(part[seen] / independent[seen])).sum())
    return information


def states(dataset: str) -> pd.DataFrame:
    """Figure 11: rows of every client (state) by group and label, counts alone; shares and rates follow from them."""
    rows, partition = data.load(dataset), Partition.by_column("state")
    cell, names = partition.strata(rows)[0], partition.names(rows)
    held = data.histogram(rows, [np.flatnonzero(cell == k) for k in range(len(names))], names).rename_axis(index="state")
    return held.stack(["a", "y"]).rename("value").reset_index().assign(dataset=dataset)[["dataset", "state", "a", "y", "value"]]


DATASETS = ("adult", "compas", "acsincome")
EXPERIMENTS = (
    Experiment("fairfed/counts", counts, [{"dataset": d} for d in DATASETS], DATASETS),
    Experiment("fairfed/identities", identities, [{}], ("compas",), seeds=20),
    Experiment("fairfed/states", states, [{"dataset": "acsincome"}], ("acsincome",)),
)
