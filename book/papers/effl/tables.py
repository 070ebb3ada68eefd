"""EFFL's Tables 1 to 6 and Figures 2 and 3: who learns what, with which settings, and how those are chosen.

The paper prints budgets and rounds, and neither rates nor q, lambda or mu. For every method alike they are chosen by the mean
accuracy of the clients on validation rows (effl/grid, effl/chosen); the tables then train on all training rows.

Appendix B.3 suggests to normalise gradients where they differ much, as on eICU, where clients are many. The synthetic data and
Adult have two clients, so there the reading by the paper's words is "effl-plain", with gradients as they are; "effl" normalises
them. The rate of the plain reading is chosen by the same rule (effl/grid-plain, effl/chosen-plain).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book import results
from fairfl_book.experiments.base import Cell, Experiment, grid
from fairfl_book.settings import printed
from fairfl_lite import metrics
from fairfl_lite.clients import Attack
from fairfl_lite.clients.surrogates import SoftBias
from fairfl_lite.errors import choose
from fairfl_lite.federation import Federation, Method, run_together
from fairfl_lite.methods import AFL, EFFL, FCFL, QFFL, Ditto, FairBatch, FairReg, FedAvg, FedMDFG, FedMGDA
from papers.effl.federations import federation

CARD = printed("effl")
STAGES = tuple(CARD["rounds"])
ROUNDS = sum(STAGES)
VALIDATION = 0.2
"""The share of the training rows that is held back while settings are chosen."""


@dataclass(frozen=True)
class Budgets:
    """eps_b for the mean bias of the clients, eps_vl and eps_vb for the spread of their accuracies and biases."""

    b: float
    vl: float
    vb: float


PRINTED = {
    ("synthetic", "tpsd"): Budgets(0.1, 0.01, 0.04), ("synthetic", "apsd"): Budgets(0.08, 0.01, 0.04),
    ("adult", "tpsd"): Budgets(0.01, 0.03, 0.005), ("adult", "apsd"): Budgets(0.02, 0.03, 0.01),
    ("eicu-stand-in", "tpsd"): Budgets(0.02, 0.02, 0.02), ("eicu-stand-in", "apsd"): Budgets(0.02, 0.02, 0.02),
}  # fmt: skip
"""Tables 1 and 2. The stand-in of eICU is held to eICU's."""

PLAIN = (0.1, 0.3, 1.0)
UNIT = (0.01, 0.03, 0.1)
"""Rates that are tried: of gradients as they are, and of directions of length 1, for which a rate is a length."""


@dataclass(frozen=True)
class Learner:
    """One of the compared methods: how it is made from rates, budgets and its other open setting, and what is tried.

    make : (rate, budgets, bias, other) -> the method. local : whether the rate is that of the clients' training.
    biased : whether it looks at the bias, so that it learns otherwise for TPSD than for APSD.
    """

    make: Callable[[float, Budgets, str, float], Method]
    rates: tuple[float, ...] = PLAIN
    other: tuple[float, ...] = (0.0,)
    local: bool = False
    biased: bool = False


def _effl(rate: float, to: Budgets, bias: str, **options: Any) -> EFFL:
    return EFFL(to.b, to.vl, to.vb, **{"stages": STAGES, "normalise": "l2", **options}, bias=bias, eta=rate)  # type: ignore[arg-type]


LEARNERS = {
    "fedavg": Learner(lambda rate, to, bias, other: FedAvg(), local=True),
    "q-ffl": Learner(lambda rate, to, bias, q: QFFL(q), local=True, other=(0.1, 1.0)),
    "ditto": Learner(lambda rate, to, bias, lam: Ditto(lam), local=True, other=(0.1, 1.0)),
    "fedmdfg": Learner(lambda rate, to, bias, other: FedMDFG(rate, rose="last"), rates=(0.3,)),
    "fairbatch": Learner(lambda rate, to, bias, other: FairBatch(0.005, bias), local=True, biased=True),  # type: ignore[arg-type]
    "fairreg": Learner(lambda rate, to, bias, mu: FairReg(mu, rate, bias), biased=True, other=(1.0,)),  # type: ignore[arg-type]
    "fcfl": Learner(lambda rate, to, bias, other: FCFL(to.b, rate, ROUNDS // 2, bias), biased=True),  # type: ignore[arg-type]
    "effl": Learner(lambda rate, to, bias, other: _effl(rate, to, bias), UNIT, biased=True),
    "effl-every": Learner(lambda rate, to, bias, other: _effl(rate, to, bias, violators="every"), UNIT, biased=True),
    "afl": Learner(lambda rate, to, bias, other: AFL(rate, 0.1)),
    "fedmgda": Learner(lambda rate, to, bias, other: FedMGDA(0.1, rate), UNIT),
    "effl-plain": Learner(lambda rate, to, bias, other: _effl(rate, to, bias, normalise="none"), biased=True),
    "effl-plain-every": Learner(lambda rate, to, bias, other: _effl(rate, to, bias, normalise="none", violators="every"),
                                biased=True),
}  # fmt: skip
"""The rows of Table 1, three of ours (EFFL that constrains every client above its budget, AFL and FedMGDA+), and EFFL with
gradients as they are."""

AS_THEY_ARE = ("effl-plain", "effl-plain-every")
OURS = ("effl-every", "afl", "fedmgda", *AS_THEY_ARE)
PAPER = tuple(name for name in LEARNERS if name not in OURS)


def learners(fed: Federation, name: str, rates: Sequence[float], to: Budgets, bias: str, other: float
             ) -> list[tuple[Federation, Method]]:  # fmt: skip
    """A method under each of these rates, with the federation whose clients train with it where the rate is theirs."""
    one = LEARNERS[choose(name, LEARNERS, "method of EFFL named")]
    feds = [replace(fed, local=replace(fed.local, lr=rate)) if one.local else fed for rate in rates]
    return [(fed, one.make(rate, to, bias, other)) for fed, rate in zip(feds, rates, strict=True)]


def learnt(fed: Federation, name: str, rate: float, to: Budgets, bias: str, other: float) -> Any:
    """What a method answers after the printed rounds; models that are not finite are kept and have no metric."""
    (history,) = run_together(learners(fed, name, [rate], to, bias, other), ROUNDS, record=())
    return history.answer


def counted(fed: Federation, answer: Any, part: str = "test") -> np.ndarray:
    """Confusion counts of what a method answers in each run, [run, client, a, y, yhat]."""
    return np.stack(fed.ask(lambda one, model: one.confusion(model, on=part), answer))


def measured(counts: np.ndarray, bias: str, to: Budgets) -> dict[str, np.ndarray]:
    """The four columns of Table 1 from counts [run, client, a, y, yhat], each [run]: means over clients, spreads over clients
    divided by n - 1, as printed, and by n; and whether each budget is met, as the marks beside the tables are set."""
    values = {"acc": metrics.accuracy(counts), "bias": metrics.MODEL[bias](counts)}
    found: dict[str, np.ndarray] = {}
    for metric, value in values.items():
        found |= {
            metric: metrics.mean(value),
            f"{metric}_std": metrics.sample_spread(value),
            f"{metric}_std0": metrics.spread(value),
        }
    met = {"b": found["bias"] <= to.b, "vl": found["acc_std"] <= to.vl, "vb": found["bias_std"] <= to.vb}
    lost = np.isnan(found["acc"])
    found |= {f"met_{budget}": np.where(lost, np.nan, good) for budget, good in met.items()}
    return found | {"met_all": np.where(lost, np.nan, np.logical_and.reduce(list(met.values())))}


def _tidy(found: dict[str, np.ndarray], **same: Any) -> pd.DataFrame:
    """One row for each value; `same` holds values for all rows, or one for each run."""
    return pd.concat(
        [pd.DataFrame({**same, "metric": metric, "value": np.asarray(value, float)}) for metric, value in found.items()]
    )


def tried(dataset: str, bias: str, method: str, seeds: Sequence[int]) -> pd.DataFrame:
    """A method under every setting of its grid, on validation and on test rows; bias "none" for one that does not look at it,
    whose rows then are those of both."""
    one, seeds = LEARNERS[method], seeds[:1] if dataset == "adult" else seeds
    fed = federation(dataset, seeds, validation=VALIDATION, diverged="keep", **SCALE.get(dataset, {}))
    rate, frames = np.repeat(one.rates, len(seeds)), []
    for other in one.other:
        histories = run_together(learners(fed, method, one.rates, budgets(dataset, bias), bias, other), ROUNDS, record=())
        for part in ("validation", "test"):
            counts = np.concatenate([counted(fed, history.answer, part) for history in histories])
            for kind in ("tpsd", "apsd") if bias == "none" else (bias,):
                same = {"dataset": dataset, "bias": kind, "method": method, "rate": rate, "other": other, "part": part}
                frames.append(_tidy(measured(counts, kind, budgets(dataset, kind)), **same, seed=[*seeds] * len(one.rates)))
    return pd.concat(frames, ignore_index=True)


def chosen(tried: str = "effl/grid") -> pd.DataFrame:
    """The setting with the highest mean accuracy on validation rows, of those that never diverged; the smallest rate of equal
    ones. How far its test values lie among those of the other settings: lowest and highest mean of each metric."""
    frame = results.load(tried)
    where, setting = ["dataset", "bias", "method"], ["rate", "other"]
    means = frame.groupby([*where, *setting, "part", "metric"])["value"].agg(lambda v: v.mean(skipna=False)).unstack("metric")
    best = means.xs("validation", level="part")["acc"].dropna().groupby(where).idxmax()
    test, rows = means.xs("test", level="part"), []
    for place in best:
        key, spread = dict(zip([*where, *setting], place, strict=True)), test.loc[place[:3]]
        shown = {
            f"{name}_{end}": getattr(spread[name], end)()
            for name in ("acc", "acc_std", "bias", "bias_std")
            for end in ("min", "max")
        }
        rows.append({**key, "validation": means.loc[(*place, "validation"), "acc"], **shown})
    return pd.DataFrame(rows)


def settings(dataset: str, bias: str, method: str) -> tuple[float, float]:
    """The chosen rate and other setting. EFFL's own stages, budgets and attacks use those of its table."""
    frame = results.load("effl/chosen-plain" if method in AS_THEY_ARE else "effl/chosen")
    row = frame[(frame["dataset"] == dataset) & (frame["bias"] == bias) & (frame["method"] == method)].iloc[0]
    return float(row["rate"]), float(row["other"])


def budgets(dataset: str, bias: str) -> Budgets:
    """The printed budgets; where none are printed, none."""
    return PRINTED.get((dataset, bias), Budgets(np.inf, np.inf, np.inf))


def half(dataset: str, bias: str) -> Budgets:
    """Budgets as the paper says that it sets them: half of what FedAvg has, here on the validation rows of effl/grid."""
    rate, other = settings(dataset, bias, "fedavg")
    frame = results.load("effl/grid")
    at = (frame["dataset"] == dataset) & (frame["bias"] == bias) & (frame["method"] == "fedavg") & (frame["part"] == "validation")
    mean = frame[at & np.isclose(frame["rate"], rate) & np.isclose(frame["other"], other)].groupby("metric")["value"].mean() / 2
    return Budgets(mean["bias"], mean["acc_std"], mean["bias_std"])


def repeated(dataset: str, seeds: Sequence[int]) -> Federation:
    """The federation of a table. Adult's split is printed, so that its seeds differ in the start of training alone: five do."""
    return federation(dataset, seeds[:5] if dataset == "adult" else seeds, diverged="keep")


def table(dataset: str, bias: str, method: str, seeds: Sequence[int]) -> pd.DataFrame:
    """A row of Table 1 (TPSD) or 2 (APSD) by seed, and Figure 3: accuracy and bias of each client as acc_1, bias_1, ..."""
    fed, to = repeated(dataset, seeds), budgets(dataset, bias)
    counts = counted(fed, _answer(fed, dataset, bias, method, to))
    found = measured(counts, bias, to)
    for metric, value in (("acc", metrics.accuracy(counts)), ("bias", metrics.MODEL[bias](counts))):
        found |= {f"{metric}_{k}": column for k, column in enumerate(value.T, 1)}
    return _tidy(found, seed=fed.seeds).assign(dataset=dataset, method=method)


def own_budgets(dataset: str, bias: str, method: str, seeds: Sequence[int]) -> pd.DataFrame:
    """The same with half of our FedAvg's values as budgets."""
    found = _row(repeated(dataset, seeds), dataset, bias, method, to=half(dataset, bias))
    return found.assign(dataset=dataset, bias=bias, method=method)


def splits(method: str, seeds: Sequence[int]) -> pd.DataFrame:
    """Adult with other rows for test, as many at each client."""
    return _row(federation("adult", seeds, split="random", diverged="keep"), "adult", "tpsd", method).assign(method=method)


def states(method: str, seeds: Sequence[int]) -> pd.DataFrame:
    """Table 3 on its stand-in: ACSIncome's states."""
    fed = federation("acsincome", seeds, diverged="keep", **SCALE["acsincome"])
    found = _row(fed, "acsincome", "tpsd", method, to=half("acsincome", "tpsd"))
    return found.assign(dataset="acsincome-stand-in", method=method)


def attacked(attack: str, method: str, seeds: Sequence[int]) -> pd.DataFrame:
    """Table 4 on the stand-in of eICU: four of eleven clients lie, and the metrics are over all. "enlarge update" and so on: what
    training added to the model is changed, and not the model that is sent."""
    fed = federation("eicu-stand-in", seeds, diverged="keep")
    kind, _, of = attack.partition(" ")
    factor = float(CARD["enlarging_factor"])
    lies = Attack(kind, factor=factor, of=of or "model") if kind != "none" else None  # type: ignore[arg-type]
    found = _row(replace(fed, attack=lies), "eicu-stand-in", "tpsd", method)
    return found.assign(attack=attack, method=method)


def level(dataset: str, budget: str, level: float, seeds: Sequence[int]) -> pd.DataFrame:
    """Table 5: EFFL with another value for one of its budgets, the others as in Table 1."""
    to = replace(budgets(dataset, "tpsd"), **{budget: level})
    found = _row(repeated(dataset, seeds), dataset, "tpsd", "effl", to=to)
    return found.assign(dataset=dataset, budget=budget, level=level)


def stage(dataset: str, stage: str, seeds: Sequence[int], method: str = "effl") -> pd.DataFrame:
    """Table 6: one stage alone for all rounds, or the three."""
    alone = {"1": (ROUNDS, 0, 0), "2": (0, ROUNDS, 0), "3": (0, 0, ROUNDS), "all": STAGES}[stage]
    fed, to = repeated(dataset, seeds), budgets(dataset, "tpsd")
    answer = fed.run(replace(_own(dataset, method, to), stages=alone), ROUNDS, record=()).answer
    found = _tidy(measured(counted(fed, answer), "tpsd", to), seed=fed.seeds)
    return found.assign(dataset=dataset, stage=stage)


def choices(dataset: str, choice: str, seeds: Sequence[int]) -> pd.DataFrame:
    """EFFL under one other answer to what the paper leaves open, all else as in Table 1."""
    fed, to = repeated(dataset, seeds), budgets(dataset, "tpsd")
    rate, _ = settings(dataset, "tpsd", "effl")
    method = _effl(rate, to, "tpsd", **CHOICES[choice])
    history = fed.run(method, ROUNDS, record=(), remember=("fallback",))
    found = measured(counted(fed, history.answer), "tpsd", to)
    found["infeasible"] = (history.memory["fallback"] == 1).mean(1)
    soft = fed.ask(lambda one, model: one.value_and_gradient(model, one.all_clients, SoftBias("tpsd")), history.answer)
    train = measured(counted(fed, history.answer, "train"), "tpsd", to)
    found |= {"train_bias": train["bias"], "train_soft_bias": np.array([values.mean() for values, _ in soft]),
              "train_met_all": train["met_all"]}  # fmt: skip
    return _tidy(found, seed=fed.seeds).assign(dataset=dataset, choice=choice)


CHOICES: dict[str, dict[str, Any]] = {
    "as in Table 1": {}, "every violator": {"violators": "every"}, "sign as printed": {"sign": "printed"},
    "budget subtracted twice": {"twice": True}, "no normalisation": {"normalise": "none"}, "by the loss": {"normalise": "loss"},
    "by length and loss": {"normalise": "l2+loss"}, "no decay of the step": {"lr_decay": 1.0},
    "met constraints leave": {"inactive": "leave"}, "hard biases tested": {"tested": "hard"}, "backtracking": {"backtrack": 5},
}  # fmt: skip
"""What the paper leaves open, one answer at a time: options of EFFL."""


def path(dataset: str, seeds: Sequence[int], method: str = "effl") -> pd.DataFrame:
    """Figure 2: EFFL's test metrics every 20 rounds."""
    fed, to = repeated(dataset, seeds), budgets(dataset, "tpsd")
    own, frames = _own(dataset, method, to), []
    first, others = fed.run(own, 1), fed.run(own, ROUNDS, eval_every=20)
    counts = np.concatenate([history.counts["test"] for history in (first, others)], axis=1)
    for i, t in enumerate((1, *range(20, ROUNDS + 1, 20))):
        found = measured(counts[:, i], "tpsd", to)
        frames.append(_tidy({k: found[k] for k in ("acc", "acc_std", "bias", "bias_std")}, seed=fed.seeds, round=t))
    return pd.concat(frames, ignore_index=True).assign(dataset=dataset)


def _row(fed: Federation, dataset: str, bias: str, method: str, to: Budgets | None = None) -> pd.DataFrame:
    to = to or budgets(dataset, bias)
    return _tidy(measured(counted(fed, _answer(fed, dataset, bias, method, to)), bias, to), seed=fed.seeds)


def _own(dataset: str, method: str, to: Budgets) -> Any:
    """EFFL as in Table 1, normalised or plain."""
    rate, other = settings(dataset, "tpsd", method)
    return LEARNERS[method].make(rate, to, "tpsd", other)


def _answer(fed: Federation, dataset: str, bias: str, method: str, to: Budgets) -> Any:
    rate, other = settings(dataset, bias, method)
    return learnt(fed, method, rate, to, bias, other)


SCALE: dict[str, dict[str, Any]] = {"acsincome": {"most": 1_000}}
"""Rows of each state in each part: all of them would take hours."""

DATASETS = ("synthetic", "adult", "eicu-stand-in")
TWO_CLIENTS = ("synthetic", "adult")
_ALL = tuple(name for name in LEARNERS if name not in AS_THEY_ARE)
_KINDS = {name: ("tpsd", "apsd") if one.biased else ("none",) for name, one in LEARNERS.items()}
_TRIED = [
    {"dataset": dataset, "bias": bias, "method": method} for dataset in DATASETS for method in _ALL for bias in _KINDS[method]
]
_TRIED += [{"dataset": "acsincome", "bias": _KINDS[method][0], "method": method} for method in PAPER]
_SETTINGS = {"rounds": ROUNDS, "stages": STAGES, "local": "one full-batch step of SGD in a round", "model": "logistic regression"}
_CHOICE, _BOTH = ("effl/chosen",), ("effl/chosen", "effl/grid")
_PLAIN = ("effl/chosen-plain",)


def _of(name: str, measure: Callable[..., pd.DataFrame], cells: Sequence[Cell], data: tuple[str, ...] = ("adult",),
        reads: tuple[str, ...] = _CHOICE, seeds: int = 10) -> Experiment:  # fmt: skip
    return Experiment(f"effl/{name}", measure, cells, data, seeds=seeds, workers=2, reads=reads, settings=_SETTINGS)


_BUDGETED = ("fedavg", "fcfl", "effl", "effl-every")
_SPLIT = ("fedavg", "fairreg", "fcfl", "effl", "effl-every")
_ATTACKS = ("enlarge", "random", "zero")
_ATTACKED = [*grid(attack=("none", *_ATTACKS), method=PAPER),
             *grid(attack=[f"{kind} update" for kind in _ATTACKS], method=[m for m in PAPER if LEARNERS[m].local])]  # fmt: skip
_LEVELS = grid(dataset=("adult", "eicu-stand-in"), budget=("b", "vl", "vb"), level=(0.01, 0.02, 0.05, 0.1))


def _rows(bias: str) -> list[Cell]:
    """The rows of Table 1 or 2; gradients as they are where there are two clients, every violator in Table 1 alone."""
    plain = AS_THEY_ARE if bias == "tpsd" else ("effl-plain",)
    return [*grid(dataset=DATASETS, bias=(bias,), method=_ALL), *grid(dataset=TWO_CLIENTS, bias=(bias,), method=plain)]


EXPERIMENTS = (
    _of("grid", tried, _TRIED, ("adult", "acsincome"), (), 2),
    Experiment("effl/chosen", chosen, [{}], reads=("effl/grid",)),
    _of("grid-plain", tried, grid(dataset=TWO_CLIENTS, bias=("tpsd", "apsd"), method=AS_THEY_ARE), reads=(), seeds=2),
    Experiment("effl/chosen-plain", chosen, [{"tried": "effl/grid-plain"}], reads=("effl/grid-plain",)),
    _of("table1", table, _rows("tpsd"), reads=(*_CHOICE, *_PLAIN), seeds=20),
    _of("table2", table, _rows("apsd"), reads=(*_CHOICE, *_PLAIN), seeds=20),
    _of("table3", states, grid(method=PAPER), ("acsincome",), _BOTH),
    _of("table4", attacked, _ATTACKED, ()),
    _of("table5", level, _LEVELS, seeds=20),
    _of("table6", stage, grid(dataset=DATASETS, stage=("1", "2", "3", "all")), seeds=20),
    _of("table6-plain", stage, grid(dataset=TWO_CLIENTS, stage=("1", "2", "3", "all"), method=("effl-plain",)), reads=_PLAIN,
        seeds=20),
    _of("splits", splits, grid(method=(*_SPLIT, "effl-plain")), reads=(*_CHOICE, *_PLAIN), seeds=20),
    _of("own-budgets", own_budgets, grid(dataset=DATASETS, bias=("tpsd",), method=_BUDGETED), reads=_BOTH, seeds=5),
    _of("choices", choices, grid(dataset=DATASETS, choice=tuple(CHOICES)), seeds=5),
    _of("path", path, grid(dataset=DATASETS)),
    _of("path-plain", path, grid(dataset=TWO_CLIENTS, method=("effl-plain",)), reads=_PLAIN),
)  # fmt: skip
