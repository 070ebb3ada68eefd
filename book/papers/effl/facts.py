"""What EFFL's printed numbers and formulas imply, computed without training.

What the spreads allow, on which lattice accuracies lie, which rows are equal, how near to a half the budgets are, what the
synthetic data allow, what the direction and the statements of the appendix do on instances, and what a gradient costs.

A row of the paper's tables is the mean and the standard deviation over clients of accuracy, and the same of bias. Two
clients with mean m and standard deviation s are m - c s and m + c s, with c = 1 for ddof 0 and 1/sqrt(2) for ddof 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import binom, norm
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairfl_book import cards
from fairfl_book.experiments.base import Experiment, named
from fairfl_lite import data
from fairfl_lite.clients import ClientTraining
from fairfl_lite.clients.surrogates import LossAndBias, SoftBias
from fairfl_lite.data.shards import Shards, Standard
from fairfl_lite.federation import Federation, alone
from fairfl_lite.methods import EFFL
from fairfl_lite.models import Dense
from papers.effl import plane

METRICS = ("acc", "acc_std", "bias", "bias_std")
UNAWARE = ("fedavg", "q-ffl", "ditto", "fedmdfg")
"""The methods that section 5.2 calls those that do not consider decision bias: no bias metric can change their accuracy."""
TEST_ROWS = 181
"""Doctorates in Adult's test file, which is one of the two clients; `adult` counts them."""
HALF = 5e-5
"""Half a unit of the fourth decimal, to which all rows of two clients are printed."""
Row = tuple[float, float, float, float]


def rows(*tables: str) -> dict[str, Row]:
    """The rows of four numbers of the card by what they are called, e.g. "t1.adult.effl" or "t4.zero.fedavg"."""
    card, found = cards.load("effl"), {}
    for table in tables:
        ids = (id for line in card.grids[table].ids for id in line)
        found.update(dict.fromkeys(id.removeprefix("effl.").rpartition(".")[0] for id in ids))
    return {name: _row(card, name) for name in found}


def _row(card: cards.PaperCard, name: str) -> Row:
    acc, acc_std, bias, bias_std = (float(cards.number(card.entries[f"effl.{name}.{metric}"].printed)) for metric in METRICS)
    return acc, acc_std, bias, bias_std


def of_two_clients() -> dict[str, Row]:
    """The rows of Tables 1, 2 and 6 on the two datasets with two clients."""
    return {name: row for name, row in rows("t1", "t2", "t6").items() if name.split(".")[1] in ("synthetic", "adult")}


def factor(ddof: int) -> float:
    """c of the two clients m - c s and m + c s."""
    return 1.0 if ddof == 0 else math.sqrt(0.5)


def excess(row: Row, ddof: int) -> float:
    """By how much the smaller of two biases is below 0, which no bias can be, whatever was rounded; 0 where it need not be."""
    *_, bias, bias_std = row
    return max(0.0, factor(ddof) * (bias_std - HALF) - (bias + HALF))


def on_lattice(row: Row, ddof: int) -> bool:
    """Whether the less accurate of two clients can have been right on k of TEST_ROWS rows, with k whole, whatever was rounded."""
    acc, acc_std, *_ = row
    middle, reach = acc - factor(ddof) * acc_std, HALF * (1 + factor(ddof))
    return abs(middle - round(middle * TEST_ROWS) / TEST_ROWS) <= reach * (1 + 1e-9)


def by_luck(ddof: int) -> float:
    """The chance that a number anywhere passes `on_lattice`."""
    return 2 * HALF * (1 + factor(ddof)) * TEST_ROWS


def spreads() -> Iterator[tuple[str, float]]:
    """Rows whose spread of bias is impossible, and shares of Adult's rows of accuracy on the lattice of the doctorates."""
    two = of_two_clients()
    accuracies = {row[:2]: row for name, row in two.items() if name.split(".")[1] == "adult"}
    yield "lattice.rows", len(accuracies)
    for ddof in (0, 1):
        over = {name: excess(row, ddof) for name, row in two.items()}
        yield from ((f"spread.{name}.ddof{ddof}", value) for name, value in over.items())
        yield f"spread.impossible.ddof{ddof}", sum(value > 0 for value in over.values())
        fit, chance = sum(on_lattice(row, ddof) for row in accuracies.values()), by_luck(ddof)
        yield f"lattice.ddof{ddof}.share", fit / len(accuracies)
        yield f"lattice.ddof{ddof}.chance", chance
        yield f"lattice.ddof{ddof}.luck", float(binom.sf(fit - 1, len(accuracies), chance))


def budgets() -> dict[str, Row]:
    """The printed budgets by "t1.adult", each in the place of the metric that it bounds; accuracy itself has none."""
    card, found = cards.load("effl"), {}
    for line in card.grids["budgets"].ids:
        acc_std, bias, bias_std = (float(cards.number(card.entries[id].printed)) for id in line)
        found[line[0].removeprefix("effl.budgets.").rpartition(".")[0]] = (math.nan, acc_std, bias, bias_std)
    return found


def promises() -> Iterator[tuple[str, float]]:
    """How many methods meet all budgets by their printed row, stages too, and whether EFFL's row meets Eq. 3 at both clients."""
    given, two = budgets(), of_two_clients()
    for where, budget in given.items():
        others = [row for name, row in rows("t1", "t2").items() if name.startswith(f"{where}.") and not name.endswith(".effl")]
        yield f"met.{where}.others", sum(meets(row, budget) for row in others)
        yield f"met.{where}.bias", sum(row[2] <= budget[2] for row in others)
        yield f"met.{where}.effl", meets(rows("t1", "t2")[f"{where}.effl"], budget)
        own = two.get(f"{where}.effl")
        if own:  # the larger of two biases, which Eq. 3 bounds by the same budget as the mean
            yield f"worst.{where}.effl", max(0.0, own[2] - HALF + factor(1) * (own[3] - HALF) - budget[2])
    for name, row in rows("t6").items():
        yield f"met.{name}", meets(row, given[f"t1.{name.split('.')[1]}"])
    shares = [share for where, budget in given.items() for share in shares_of(budget, rows("t1", "t2")[f"{where}.fedavg"])]
    yield "budgets.near-half", sum(0.45 <= share <= 0.55 for share in shares)
    yield "budgets.smallest", min(shares)
    yield "budgets.largest", max(shares)


def shares_of(budget: Row, row: Row) -> list[float]:
    """The three budgets, each as a share of what a row has."""
    return [most / value for most, value in zip(budget[1:], row[1:], strict=True)]


def meets(row: Row, budget: Row) -> bool:
    """Whether a row is within the three budgets, as the marks of the tables judge."""
    return all(value <= most for value, most in zip(row[1:], budget[1:], strict=True))


def equal_rows() -> Iterator[tuple[str, float]]:
    """Pairs of rows of one block of a table that share two or more of their four numbers, and what Tables 1 and 2 share."""
    blocks: dict[str, list[Row]] = {}
    for name, row in rows("t1", "t2", "t3", "t4").items():
        blocks.setdefault(name.rpartition(".")[0], []).append(row)
    for name, block in blocks.items():
        yield f"equal-rows.{name}", sum(shared(a, b) >= 2 for a, b in itertools.combinations(block, 2))
    first = rows("t1")
    pairs = {name.removeprefix("t1."): (row, rows("t2")[name.replace("t1.", "t2.")]) for name, row in first.items()}
    yield "t1t2.spread", sum(a[0] != b[0] and a[1] == b[1] for a, b in pairs.values())
    yield "t1t2.bias", sum(a[2:] == b[2:] for a, b in pairs.values())
    for dataset in ("synthetic", "adult", "eicu"):
        differ = [pairs[f"{dataset}.{method}"] for method in UNAWARE]
        yield f"t1t2.acc.{dataset}", sum(a[0] != b[0] for a, b in differ)
        yield f"t1t2.acc_std.{dataset}", sum(a[1] != b[1] for a, b in differ)


def shared(one: Row, other: Row) -> int:
    return sum(a == b for a, b in zip(one, other, strict=True))


def synthetic(variance: float) -> dict[str, float]:
    """The best that any model can do on the synthetic data of appendix B, over the two clients x1 <= -0.5 and x1 > -0.5.

    The label is 1 with probability 0.6 or 0.9 (A = 0 or 1) where x1 + x2 > 0, else with 0.3 or 0.1, so the sign of x1 + x2 is
    the most accurate answer for both groups. With p the share of A = 0 that has it, the group is right in 0.7 - 0.1 p and
    finds 2p / (1 + p) of its positives; A = 1 is right in 0.9. A larger TPSD is cheapest had by answering 0 to a share m of
    A = 0 with x1 + x2 > 0: it costs the client 0.1 m of accuracy and gives m / (1 + p) of TPSD, so it is done first
    where p is small. frontier : the accuracy left, of the mean over clients, at FedAvg's printed TPSD.
    """
    share = [[positive(client, a, variance) for a in (0, 1)] for client in (0, 1)]
    accuracy = np.array([(0.7 - 0.1 * p + 0.9) / 2 for p, _ in share])
    tpsd = np.array([(0.9 * q / (0.9 * q + 0.1 * (1 - q)) - 2 * p / (1 + p)) / 2 for p, q in share])
    acc, _, bias, _ = rows("t1")["t1.synthetic.fedavg"]
    wanted, cost = 2 * (bias - tpsd.mean()), 0.0
    for p in sorted(p for p, _ in share):
        step = min(wanted, p / (1 + p))
        wanted, cost = wanted - step, cost + 0.1 * step * (1 + p)
    frontier = accuracy.mean() - cost / 2
    return {
        "acc": accuracy.mean(),
        "acc_std": accuracy.std(ddof=1),
        "tpsd": tpsd.mean(),
        "tpsd_std": tpsd.std(ddof=1),
        "frontier": frontier,
        "over": max(0.0, acc - frontier),
    }


def positive(client: int, a: int, variance: float) -> float:
    """P(x1 + x2 > 0 | A = a) at a client; x1 ~ N(0, 1), x2 ~ N(a, variance)."""
    low, high = (-np.inf, -0.5) if client == 0 else (-0.5, np.inf)
    whole = norm.cdf(high) - norm.cdf(low)
    return float(quad(lambda x: norm.pdf(x) * norm.sf(-x, a, math.sqrt(variance)), low, high)[0] / whole)


def min_norm(g: np.ndarray) -> np.ndarray:
    """The shortest point between two gradients [2, parameter], d* of Eq. 11."""
    gap = g[1] - g[0]
    alpha = np.clip(g[1] @ gap / (gap @ gap), 0, 1)
    return alpha * g[0] + (1 - alpha) * g[1]


def steepest(g: np.ndarray) -> np.ndarray:
    """The weights [2] of Eq. 13's direction, the sign mended: the d between two gradients with the largest d.g_1."""
    return np.eye(2)[int(np.argmax(g @ g[0]))]


def statements(tried: int = 1000) -> Iterator[tuple[str, float]]:
    """Eq. 11 with the step theta + eta d, Proposition 1, the convergence of C.2, and the two inequalities of C.3."""
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(tried, 2, 20))
    yield "eq11.descends", float(np.mean([(g @ min_norm(g) <= 0).all() for g in pairs]))
    yield "eq11.mended", float(np.mean([(g @ -min_norm(g) <= 1e-12).all() for g in pairs]))
    yield "prop1.strict", max(_increase(rng) for _ in range(tried))
    # l(x, y) = x + y^2 at 0 has the gradient (1, 0); along d = (0, 1) it grows by eta^2 for every eta, and d.gradient = 0
    yield "prop1.equal", min(eta**2 for eta in (1.0, 1e-2, 1e-4))
    yield "convergence.last-step", min(last_step(eta) for eta in (1.0, 1e-2, 1e-4))
    error = 1e-6
    gradients = [np.array([[1.0, 0.0], [1.0 + e, 1.0]]) for e in (-error / 2, error / 2)]
    before, after = (steepest(g) for g in gradients)
    yield "stability.ratio", float(np.linalg.norm(after - before) / error)
    moved = after @ gradients[1] - before @ gradients[0]  # of theta, divided by eta
    yield "stability.theta", float(np.linalg.norm(moved) / error)


def last_step(eta: float, rounds: int = 1_000) -> float:
    """The length of the last of many steps, divided by eta, where the second stage of two clients lowers a gap of biases.

    Their losses are constant and within their budget, their biases are 0.5 + theta and 0.5 - theta. The gap |theta| is the
    objective (Eq. 17), its gradient the sign of theta, and the step is eta times that in every round.
    """
    theta = np.array([eta / 3])
    for _ in range(rounds):
        before, theta = theta, theta - eta * np.sign(theta)
    return float(np.abs(theta - before).max() / eta)


def reached(normalise: Literal["none", "l2"]) -> float:
    """By how much the largest bias is above its budget where EFFL ends, begun at the lowest mean loss: Figure 1's path does not
    arrive, since no stage lets the mean loss rise, and every model within the budgets has a higher one."""
    budgets, first = (0.1, 0.01, 0.04), plane.federation()
    start = minimize(lambda theta: plane.surface(first, theta)[0].mean(), [0.5, 0.0]).x
    fed = plane.federation(start)
    method = EFFL(*budgets, stages=(80, 60, 60), eta=0.05 if normalise == "l2" else 0.3, lr_decay=0.985, normalise=normalise)
    way, _ = plane.path(fed, method, 200)
    inside = plane.surface(fed, np.array([0.6, -0.5]))  # a model within all three budgets, so that there is a front to reach
    gaps = [plane.gaps(value).max() for value in inside]
    assert inside[1].max() <= budgets[0] and gaps[0] <= budgets[1] and gaps[1] <= budgets[2]
    return float(plane.surface(fed, way[-1])[1].max() - budgets[0])


class _Touched(TorchDispatchMode):
    """Counts the numbers that the operations within it read and write: a product of n x d with d counts n d and a little."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.count += sum(value.numel() for value in tree_leaves((args, kwargs, made)) if isinstance(value, torch.Tensor))
        return made


def touched(n: int, d: int) -> int:
    """The numbers that a client of n rows of d features touches to give the gradients of its loss and its bias."""
    rng = np.random.default_rng(0)
    X, y, a = rng.normal(size=(n, d)).astype(np.float32), np.arange(n) % 2, np.arange(n) // 2 % 2
    shards = {part: Shards.of(X, y, a, [[np.arange(n)]]) for part in ("train", "test")}
    one = Federation(shards, Dense(d), ClientTraining(), (0,), Standard.plain(1, d), engine="plain").one()
    with _Touched() as mode:
        alone(one.value_and_gradient(one.init_params(), one.all_clients, LossAndBias(SoftBias())))
    return mode.count


def costs() -> Iterator[tuple[str, float]]:
    """The largest factor by which the work of a gradient grows where the rows, or the features, are doubled."""
    rows, features = (1_000, 2_000, 4_000), (50, 100, 200)
    count = {(n, d): touched(n, d) for n in rows for d in features}
    yield "cost.rows", max(count[2 * n, d] / count[n, d] for n in rows[:-1] for d in features)
    yield "cost.features", max(count[n, 2 * d] / count[n, d] for n in rows for d in features[:-1])


def _increase(rng: np.random.Generator) -> float:
    """Largest increase of a random quadratic along a d with d.gradient < 0, for steps up to where it is back; rounding aside."""
    half, b, d = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=5)
    curved = d @ half @ half.T @ d
    slope = -abs(b @ d)  # d or -d descends
    steps = np.linspace(0, 1, 11) * (-2 * slope / curved)
    change = slope * steps + curved * steps**2 / 2
    return float(max(0.0, (change - 1e-12 * np.abs(slope * steps)).max()))


def adult() -> Mapping[str, float]:
    """The rows of Adult's two clients, and how often the better constant answer is right on the doctorates of the test file."""
    table = data.load("adult", rows="all")
    doctor, test = (np.asarray(table.columns[name]) == value for name, value in (("education", "Doctorate"), ("file", "test")))
    paid = table.y[doctor & test].mean()
    return {
        "adult.rows": len(table),
        "adult.doctorates.train": (doctor & ~test).sum(),
        "adult.doctorates.test": (doctor & test).sum(),
        "adult.others.train": (~doctor & ~test).sum(),
        "adult.others.test": (~doctor & test).sum(),
        "adult.doctorates.majority": max(paid, 1 - paid),
    }


def facts() -> pd.DataFrame:
    limits = {f"synthetic.{name}.{k}": v for name, of in (("variance", 2), ("sd", 4)) for k, v in synthetic(of).items()}
    ends = {"pareto.none": reached("none"), "pareto.l2": reached("l2")}
    found = {**dict(spreads()), **dict(promises()), **dict(equal_rows()), **dict(statements()), **ends, **dict(costs())}
    return named({**found, **limits, **adult()})


EXPERIMENTS = (Experiment("effl/facts", facts, [{}], ("adult",)),)
