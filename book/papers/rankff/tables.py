"""RankFF's Tables 1 and 2 and Figure 1: agents with rotated images, finite sets of models, and one model learnt by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book import settings
from fairfl_book.experiments.base import Experiment, grid, named
from fairfl_lite import data, engines, imports, metrics, rankings, store
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data.rotation import deal
from fairfl_lite.errors import choose
from fairfl_lite.federation import Federation, Method, OneFederation, alone
from fairfl_lite.methods import CoreFed, FedAvg, RankFF
from fairfl_lite.methods.rankff import discrete, literal, local_approx, nearest, place
from fairfl_lite.models import CNN, VGG11, Network
from fairfl_lite.store import cache_folder, fingerprint
from papers.rankff import model_sets
from papers.rankff.model_sets import ModelSet

PRINTED = settings.printed("rankff")
ROTATIONS = {instance: tuple(angles) for instance, angles in PRINTED["rotations"].items()}
"""Table 3: the angle of each of ten agents, in degrees. CIFAR-10's hundred agents repeat a list ten times."""

M, AGENTS = PRINTED["M"], PRINTED["agents"]
P, J = 10.0, 100
"""The step bound of LocalApprox and its samples. J = 100 follows from Table 2, whose betas are multiples of 1/101; p is not
printed, and 10 is ours."""

METHODS = ("fedavg", "corefed", "rankff")


@dataclass(frozen=True)
class Scale:
    """How much each agent has, and how long all learn: FedAvg's rounds and RankFF's steps see equally many images."""

    agents: int
    network: Network
    skip: int
    train: int
    validation: int
    test: int
    probe: int
    look: int
    rounds: int
    batch: int
    searches: int
    steps: int
    sample: int
    lr: float
    rankff_lr: float
    warm: str = ""


SETTINGS = {
    "mnist": Scale(AGENTS["mnist"], CNN(), skip=20_000, train=3_000, validation=500, test=1_000, probe=100, look=250, rounds=16,
                   batch=32, searches=8, steps=80, sample=75, lr=0.4, rankff_lr=0.4),
    "cifar10": Scale(AGENTS["cifar10"], VGG11(1 / 8), skip=6_000, train=200, validation=50, test=50, probe=10, look=20, rounds=4,
                     batch=32, searches=4, steps=10, sample=20, lr=0.01, rankff_lr=0.05, warm="cifar10-fixed"),
}  # fmt: skip
"""MNIST's lr and rankff_lr were chosen on validation images (rankff/rates), CIFAR-10's were not: its hundred agents start
from the unrotated model of its set and learn for a few minutes."""


def rotations(instance: str, agents: int = AGENTS["mnist"]) -> tuple[int, ...]:
    """The angles of all agents of an instance."""
    listed = ROTATIONS[choose(instance, ROTATIONS, "instance named")]
    return listed * (agents // len(listed))


def utilities(models: ModelSet, angles: Sequence[float], seed: int, each: int, rows: int, **how: Any) -> np.ndarray:
    """u_i of every model, [agent, model]: M minus the mean loss on `each` test images of the first `rows`, drawn by seed."""
    dealt = deal(seed, "test", 0, rows, len(angles), each)
    losses = {a: models.losses(a, slice(0, rows), **how) for a in dict.fromkeys(angles)}
    return M - np.stack([losses[a][:, mine].mean(1, dtype=np.float64) for a, mine in zip(angles, dealt, strict=True)])


def subsets(models: ModelSet) -> dict[str, np.ndarray]:
    """The set as the paper counts it, and without the models that are there twice: indices into it."""
    return {"all": np.arange(models.count), "distinct": np.unique(models.first)}


def judged(u: np.ndarray, params: np.ndarray) -> Iterator[tuple[str, dict[str, float]]]:
    """What each method chooses from a set, and how the agents like it: (method, metrics)."""
    at, rank, m = rankings.positions(u), rankings.ranks_of(u), u.shape[1]
    exact, printed = discrete(u), literal(u)
    chosen = {name: nearest(u, params, name) for name in ("fedavg", "corefed")} | {"rankff": exact.model}
    for method, model in chosen.items():
        facts = {"beta": at[:, model].max() / m, "rank": rank[:, model].max() / m, "sum": u[:, model].sum(),
                 "worst": u[:, model].min(), "model": model}  # fmt: skip
        if method == "rankff":
            facts |= {"k": exact.k / m, "literal": printed.k / m, "literal_lost": float(printed.model < 0)}
        yield method, facts


def table1(dataset: str, reading: str, instance: str, training: int, seeds: Sequence[int]) -> pd.DataFrame:
    """Table 1 for one instance and one trained set: rows models, method, metric, by draw of the agents' test images."""
    models, out = model_sets.get(f"{dataset}-{reading}", training), []
    params = models.train()
    for seed, u in draws(dataset, models, instance, seeds):
        for which, rows in subsets(models).items():
            for method, facts in judged(u[:, rows], params[rows]):
                out += [{"dataset": dataset, "reading": reading, "models": which, "instance": instance, "method": method,
                         "training": training, "seed": seed, "metric": metric, "value": float(value)}
                        for metric, value in facts.items()]  # fmt: skip
    return pd.DataFrame(out)


def draws(dataset: str, models: ModelSet, instance: str, seeds: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    how = SETTINGS[dataset]
    for seed in seeds:
        yield seed, utilities(models, rotations(instance, how.agents), seed, how.test, how.test * how.agents)


def heterogeneity(dataset: str, reading: str, instance: str, training: int, seeds: Sequence[int]) -> pd.DataFrame:
    """Figure 1 for one trained set: the three distances, as the largest and as the mean over pairs of agents."""
    models, out = model_sets.get(f"{dataset}-{reading}", training), []
    for seed, u in draws(dataset, models, instance, seeds):
        for which, rows in subsets(models).items():
            ranks = rankings.ranks_of(u[:, rows])
            out += [{"dataset": dataset, "reading": reading, "models": which, "instance": instance,
                     "training": training, "seed": seed, "distance": distance, "how": how,
                     "value": rankings.heterogeneity(ranks, distance, how)}
                    for distance in ("md", "fd", "ed") for how in ("max", "mean")]  # fmt: skip
    return pd.DataFrame(out)


def landscape(dataset: str, reading: str, instance: str) -> pd.DataFrame:
    """Every model of the first trained set as the agents of draw 0 see it: angle, largest and smallest position, sum of
    utilities, smallest utility."""
    models = model_sets.get(f"{dataset}-{reading}")
    ((_, u),) = draws(dataset, models, instance, [0])
    at = rankings.positions(u) / models.count
    frame = pd.DataFrame({"model": np.arange(models.count), "angle": models.angles, "beta": at.max(0), "best": at.min(0),
                          "sum": u.sum(0), "worst": u.min(0)})  # fmt: skip
    return frame.assign(dataset=dataset, reading=reading, instance=instance)


def shares(dataset: str, reading: str, instance: str, seeds: Sequence[int]) -> pd.DataFrame:
    """Share of the models of a set that are rankwise proportional, and that are proportional in utility, mean over trained
    sets and draws."""
    ranked, utility = [], []
    for models in model_sets.trainings(f"{dataset}-{reading}"):
        for _, u in draws(dataset, models, instance, seeds):
            ranked.append(rankings.proportional(rankings.ranks_of(u)).mean())
            utility.append(np.all(u >= u.max(1, keepdims=True) / len(u), axis=0).mean())
    prefix = f"{dataset}.{reading}.{instance}"
    return named({f"{prefix}.proportional_share": np.mean(ranked), f"{prefix}.utility_share": np.mean(utility)})


def federation(dataset: str, instance: str, seeds: Sequence[int], **changes: Any) -> Federation:
    """The agents of Table 2; `changes` replace fields of the setting."""
    how = replace(SETTINGS[choose(dataset, SETTINGS, "dataset of RankFF named")], **changes)
    first = model_sets.get(how.warm).train()[0] if how.warm else None
    return Federation.of_images(
        data.images(dataset),
        rotations(instance, how.agents),
        seeds,
        ClientTraining("sgd", how.lr, 0.0, 1, how.batch),
        how.network,
        train=how.train,
        validation=how.validation,
        test=how.test,
        probe=how.probe,
        look=how.look,
        skip=how.skip,
        init_params=first,
        engine=engines.get("fused", how.network, "numpy"),
        diverged="keep",
    )


def learner(name: str, how: Scale, **changes: Any) -> tuple[Method, int]:
    """A method by name and how many rounds it takes."""
    made: dict[str, Callable[[], Method]] = {
        "fedavg": FedAvg,
        "corefed": lambda: CoreFed("normalised", M),
        "corefed-sum": lambda: CoreFed("sum", M, name="corefed-sum"),
        "rankff": lambda: RankFF(how.steps, how.rankff_lr, how.sample, p=P, J=J, M=M, on="probe", **changes),
    }
    return made[choose(name, made, "method of RankFF named")](), how.searches * how.steps if name == "rankff" else how.rounds


def measured(fed: OneFederation, params: np.ndarray) -> dict[str, float]:
    """A model as the agents see it: beta and rank along their gradients, sum and smallest utility, accuracy."""
    at, u = ray_beta(fed, params), M - alone(fed.losses(params, on="test"))
    return {
        "beta": at,
        "rank": at - 1 / (J + 1),
        "sum": u.sum(),
        "worst": u.min(),
        "accuracy": metrics.accuracy(alone(fed.confusion(params, on="test"))).mean(),
    }


def ray_beta(fed: OneFederation, params: np.ndarray, p: float = P, samples: int = J) -> float:
    """beta as Table 2 counts it: the worst agent's position of the model among `samples` along its gradient and itself."""
    u, _ = alone(local_approx(fed, params, fed.all_clients, p, samples, M=M, on="look"))
    return float(place(u).max() / (samples + 1))


def learnt(dataset: str, instance: str, method: str, seed: int, **changes: Any) -> tuple[OneFederation, dict[str, np.ndarray]]:
    """The agents, and what a method has learnt with them: its answer, RankFF's last model, and the r it reached.

    `changes` are fields of RankFF. Kept in the cache folder for as long as the package is the same.
    """
    how, fed = SETTINGS[dataset], federation(dataset, instance, [seed])
    doing, rounds = learner(method, how, **changes)
    key = fingerprint(imports.digest(__name__), data.digest(dataset), instance, seed, repr(how), repr(doing))[:16]
    path = cache_folder() / "models" / "learnt" / f"{dataset}-{instance}-{method}-{seed}-{key}.npz"
    kept = store.read_arrays(path)
    if not kept:
        history = fed.run(doing, rounds, record=())
        searched = {"last": history.state.params[0], "searched": history.state["beta"][0]} if method == "rankff" else {}
        kept = {"answer": np.asarray(history.answer)[0], **searched}
        store.write_arrays(path, **kept)
    return fed.one(), kept


def table2(dataset: str, instance: str, method: str, seed: int) -> pd.DataFrame:
    """Table 2 for one instance, method and seed. RankFF's last model, met or not, is beside it as "rankff-last"."""
    fed, models = learnt(dataset, instance, method, seed)
    rows = [(method, measured(fed, models["answer"]))]
    if method == "rankff":
        rows[0][1]["searched"] = float(models["searched"])
        rows.append(("rankff-last", measured(fed, models["last"])))
    return _tidy(rows, dataset=dataset, instance=instance, seed=seed)


def steps(dataset: str, instance: str, method: str, seed: int) -> pd.DataFrame:
    """beta of one model for other bounds p and numbers of samples J: how much of Table 2 is the ruler."""
    fed, models = learnt(dataset, instance, method, seed)
    tried = [(p, J) for p in (1.0, 3.0, 10.0, 30.0, 100.0)] + [(P, j) for j in (10, 30, 300)]
    rows = [{"p": p, "J": j, "value": ray_beta(fed, models["answer"], p, j)} for p, j in tried]
    return pd.DataFrame(rows).assign(dataset=dataset, instance=instance, method=method, seed=seed)


def penalty(dataset: str, instance: str, sigma: float, weights: str, seed: int) -> pd.DataFrame:
    """RankFF with another penalty; sigma = 0 is FedSGD. weights : "normalised" as ours, "printed" as Algorithm 3 has it."""
    fed, models = learnt(dataset, instance, "rankff", seed, sigma0=sigma, normalise=weights == "normalised")
    rows = [("rankff", measured(fed, models["answer"])), ("rankff-last", measured(fed, models["last"]))]
    return _tidy(rows, dataset=dataset, instance=instance, sigma=sigma, weights=weights, seed=seed)


def rates(dataset: str, method: str, lr: float) -> pd.DataFrame:
    """Sum of utilities on validation images, for choosing a learning rate (instance mid, seed 0)."""
    change: dict[str, Any] = {"rankff_lr" if method == "rankff" else "lr": lr}
    how, fed = replace(SETTINGS[dataset], **change), federation(dataset, "mid", [0], **change)
    doing, rounds = learner(method, how)
    answer = np.asarray(fed.run(doing, rounds, record=()).answer)[0]
    value = float((M - alone(fed.one().losses(answer, on="validation"))).sum())
    return pd.DataFrame([{"dataset": dataset, "method": method, "lr": lr, "value": value}])


def _tidy(rows: Sequence[tuple[str, dict[str, float]]], **same: Any) -> pd.DataFrame:
    return pd.DataFrame([{**same, "method": name, "metric": metric, "value": float(value)}
                         for name, facts in rows for metric, value in facts.items()])  # fmt: skip


_SETS = [*grid(dataset=("mnist",), reading=("fixed", "random"), instance=tuple(ROTATIONS)),
         *grid(dataset=("cifar10",), reading=("fixed",), instance=tuple(ROTATIONS))]  # fmt: skip
_TRAINED = [{**cell, "training": models.seed} for cell in _SETS
            for models in model_sets.trainings(f"{cell['dataset']}-{cell['reading']}")]  # fmt: skip
_BOTH = ("mnist", "cifar10")
_RATES = [*grid(dataset=("mnist",), method=("fedavg",), lr=(0.05, 0.1, 0.2, 0.4, 0.8)),
          *grid(dataset=("mnist",), method=("rankff",), lr=(0.2, 0.4, 0.8))]  # fmt: skip
_LEARNT = [*grid(dataset=("mnist",), seed=range(8), instance=tuple(ROTATIONS), method=METHODS),
           *grid(dataset=("mnist",), seed=(0,), instance=tuple(ROTATIONS), method=("corefed-sum",)),
           *grid(dataset=("cifar10",), seed=(0,), instance=tuple(ROTATIONS), method=METHODS)]  # fmt: skip
_STEPS = grid(dataset=("mnist",), instance=("high", "low"), method=METHODS, seed=(0,))
_PENALTY = [*grid(dataset=("mnist",), instance=("high",), sigma=(0.0, 1.0, 10.0, 100.0), weights=("normalised",), seed=(0,)),
            *grid(dataset=("mnist",), instance=("high",), sigma=(1.0, 10.0), weights=("printed",), seed=(0,)),
            *grid(dataset=("mnist",), instance=("mid", "low"), sigma=(0.0,), weights=("normalised",), seed=(0,))]  # fmt: skip

EXPERIMENTS = (
    Experiment("rankff/discrete", table1, _TRAINED, _BOTH),
    Experiment("rankff/heterogeneity", heterogeneity, _TRAINED, _BOTH),
    Experiment("rankff/landscape", landscape, _SETS, _BOTH),
    Experiment("rankff/facts", shares, _SETS, _BOTH),
    Experiment("rankff/rates", rates, _RATES, ("mnist",), seeds=1, workers=2),
    Experiment("rankff/continuous", table2, _LEARNT, _BOTH, seeds=8, workers=2),
    Experiment("rankff/steps", steps, _STEPS, ("mnist",), seeds=1, workers=2),
    Experiment("rankff/penalty", penalty, _PENALTY, ("mnist",), seeds=1, workers=2),
)
