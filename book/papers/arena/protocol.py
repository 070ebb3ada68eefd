"""What the arena runs, and by which rules it judges. It was written down before anything was measured.

**Question.** Which of these methods is best for a federation, by which notion of fairness, and what does it cost?

**Model and training.** One base model for all: logistic regression, trained by SGD with batches of 32 rows and one local epoch
in each of `ROUNDS` rounds, without weight decay. A round is one exchange with the clients. Methods that take full-batch
gradient steps of their own take one in a round, at higher rates.

**Budget.** Every method has `BUDGET` settings, and no more. A method with a setting of its own has three levels of it, each at
three rates; a method without one has nine rates. So nobody is tuned longer than the others.

**Choice.** Settings are chosen on validation rows, never on test rows, once for each federation and method, by means over all
seeds. Rule "accurate" takes the setting with the best accuracy. Rule "fair" takes the smallest gap, |EOD| of all rows pooled,
among the settings whose validation accuracy is at most `GIVEN_UP` below the best of FedAvg; where none is, the most accurate
one. Both are reported, and so are all settings: the front of a method is all its settings on test rows.

**Seeds.** `SEEDS` of them, the same for all methods: a seed decides split, partition, start, and the order of rows.

**Judgement.** Methods are compared in pairs by the mean difference over seeds with its t interval at `LEVEL`. A difference is
"better" or "worse" when the whole interval is beyond the margin of its metric, "equal" when the whole interval is within it, and
otherwise "cannot tell". There is no league table, since a rank depends on who else is ranked. With n comparisons about (1 -
LEVEL) n of the intervals miss the true difference by chance; n is printed beside the counts.

**Margins.** `MARGINS`, with a reason for each. They were chosen from the sizes of the test sets, not from results. All of this
was fixed before the runs; only two or three seeds of two federations were tried, to see which methods run.

**Fronts.** The front of a method is those of its settings that no other of them beats in both mean accuracy and mean |EOD| on
validation rows. Its hypervolume is the area that these settings dominate on the test rows of a seed, from the reference point
on: the accuracy of the dataset's commonest label, and |EOD| = `LARGEST_GAP`. So a front is judged at all limits of the gap
at once. Hypervolumes are compared by the same intervals, with `VOLUME_MARGIN`.

**What fails.** A run whose model is not finite is kept, has no metric, and is counted. A setting with such a run cannot be
chosen.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from fairfl_lite.clients import ClientTraining, Debias
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Method
from fairfl_lite.methods import (
    AFL,
    EFFL,
    FCFL,
    IFCA,
    QFFL,
    TERM,
    CoreFed,
    Ditto,
    FairBatch,
    FairFate,
    FairFed,
    FairReg,
    FedAvg,
    FedFB,
    FedFV,
    FedGFT,
    FedMDFG,
    FedMGDA,
    FedMinMax,
    FedVal,
    GroupThresholds,
    LocalOnly,
    PropFair,
    RankFF,
)

SEEDS, ROUNDS, LEVEL, GIVEN_UP = 50, 30, 0.95, 0.01
BATCH, EPOCHS = 32, 1
RATES = (0.03, 0.1, 0.3)
NINE_RATES = (0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 1.0)
BUDGETS = (0.01, 0.03, 0.1)
"""Of the bias, of EFFL and FCFL, and of EFFL's two gaps."""
STEPS = (0.3, 1.0, 3.0)
"""Rates of methods that take one full-batch step in a round."""
BUDGET = 9

MARGINS: Mapping[str, tuple[float, str]] = {
    "acc": (0.01, "one row in a hundred; COMPAS has about 1,200 test rows, on which an accuracy of 0.7 deviates by 0.013"),
    "eod": (0.03, "a rate of 0.5 among 300 people deviates by 0.03; a few hundred women of Adult's test rows have y = 1"),
    "spd": (0.01, "a rate of 0.3 among 3,000 people deviates by 0.008; Adult's test rows have about as many women"),
    "most_eod": (0.06, "a client has about a fifth of the rows, so its rates deviate about twice as much as those of eod"),
    "min_acc": (0.02, "a client has about a fifth of the test rows, so its accuracy deviates about twice as much as acc"),
    "equality": (0.01, "a standard deviation of accuracies is in the unit of acc"),
    "worst_group": (0.02, "the smaller group has about a third of the rows, so its accuracy deviates about twice as much as acc"),
    "pair_eod": (
        0.06,
        "the smallest intersection has far fewer people with y = 1 than the smaller group, so twice the margin of eod",
    ),
}
"""How large a difference has to be to count, and why; of gaps it is their sizes that are compared."""
LARGER = ("acc", "min_acc", "worst_group")
"""Metrics of which more is better. Of all others less is, by size."""

COMMONEST = {"adult": 0.7522, "compas": 0.5445, "made": 0.5073}
"""The share of each dataset's commonest label, which is the accuracy of a model that predicts it for everybody."""
LARGEST_GAP = 0.5
VOLUME_MARGIN = MARGINS["acc"][0] * LARGEST_GAP
"""A front whose every accuracy is better by the margin of acc has a hypervolume larger by at most this."""


@dataclass(frozen=True)
class Setting:
    """A method at one level of its own setting and one rate; `rate` is None where it takes steps of its own."""

    method: Method
    level: float
    rate: float

    @property
    def local(self) -> ClientTraining:
        """How clients train at this rate."""
        return ClientTraining("sgd", self.rate, 0.0, EPOCHS, BATCH)


def _trained(methods: Mapping[float, Method]) -> list[Setting]:
    """Three levels at three rates of local training."""
    return [Setting(method, level, rate) for level, method in methods.items() for rate in RATES]


def _stepping(make: type[Method], name: str, levels: Sequence[float]) -> list[Setting]:
    """Three levels at three rates of a method's own full-batch steps."""
    return [Setting(make(**{name: level, "lr": rate}), level, rate) for level in levels for rate in STEPS]


def _plain(method: Method) -> list[Setting]:
    return [Setting(method, 0.0, rate) for rate in NINE_RATES]


CONTESTANTS: Mapping[str, Sequence[Setting]] = {
    "fedavg": _plain(FedAvg()),
    "local-only": _plain(LocalOnly()),
    "local": _plain(FedAvg(Debias("local"), name="local")),
    "global": _plain(FedAvg(Debias("global"), name="global")),
    "group-thresholds": _trained({gap: GroupThresholds("eod", gap) for gap in (0.0, 0.05, 0.1)}),
    "fairfed": _trained({beta: FairFed(beta=beta) for beta in (0.5, 1.0, 5.0)}),
    "fair-fate": _trained({trust: FairFate("eo", lambda0=trust, rounds=ROUNDS) for trust in (0.1, 0.3, 0.9)}),
    "fedval": _plain(FedVal("eo")),
    "fairbatch": _trained({alpha: FairBatch(alpha) for alpha in (0.005, 0.02, 0.1)}),
    "fedfb": _trained({alpha: FedFB(alpha) for alpha in (0.1, 0.3, 1.0)}),
    "fedminmax": _trained({lr: FedMinMax(lr) for lr in (0.01, 0.05, 0.2)}),
    "fairreg": _stepping(FairReg, "mu", (0.3, 1.0, 3.0)),
    "fedgft": _stepping(FedGFT, "gamma", (2.0, 10.0, 50.0)),
    "fcfl": [Setting(FCFL(eps, lr, first=ROUNDS // 2), eps, lr) for eps in BUDGETS for lr in STEPS],
    "effl": [Setting(EFFL(eps, eps, eps, (ROUNDS // 3,) * 3, eta=lr), eps, lr) for eps in BUDGETS for lr in STEPS],
    "afl": _stepping(AFL, "lr_lambda", (0.01, 0.1, 0.5)),
    "q-ffl": _trained({q: QFFL(q) for q in (0.1, 1.0, 5.0)}),
    "term": _trained({tilt: TERM(tilt) for tilt in (0.1, 1.0, 5.0)}),
    "propfair": _trained({M: PropFair(M) for M in (1.0, 2.0, 5.0)}),
    "corefed": _trained({M: CoreFed(M=M) for M in (1.0, 2.0, 5.0)}),
    "rankff": [Setting(RankFF(ROUNDS // 5, lr, sigma0=sigma, J=20), sigma, lr) for sigma in (0.3, 1.0, 3.0) for lr in STEPS],
    "fedfv": _trained({alpha: FedFV(alpha) for alpha in (0.1, 1 / 3, 2 / 3)}),
    "fedmgda+": _trained({eps: FedMGDA(eps, lr=1.0, normalise=False) for eps in (0.1, 0.3, 1.0)}),
    "fedmdfg": _stepping(FedMDFG, "angle", (0.05, 0.2, 0.8)),
    "ditto": _trained({lam: Ditto(lam) for lam in (0.1, 1.0, 10.0)}),
    "ifca": _trained({many: IFCA(many) for many in (2, 3, 4)}),
}
"""The settings of each method. "local" and "global" reweigh rows by the counts of a client, or of all. FAIR-FATE and FedVal let
the server score models on the validation rows of all clients, by which settings are chosen too: no other method sees them.
Stages and searches that are made for hundreds of rounds share the rounds there are: a third for each stage of EFFL, half for the
first of FCFL, a fifth for each rank that RankFF asks about. E2FL and FRL are left out: they choose edges of a network with random
weights, which a logistic regression does not have."""
NEED_ALL = ("fairfed", "fedminmax", "fcfl", "afl")
"""Methods that need every client in every round: they are left out where only some take part."""


def chosen(frame: pd.DataFrame, rule: str) -> pd.DataFrame:
    """One setting of each method in each federation, by means over seeds on validation rows.

    It has columns federation, method, level and rate.

    frame : tidy, with columns federation, method, level, rate, part, seed, metric and value.
    """
    choose(rule, ("accurate", "fair"), "rule of choice")
    held = frame[(frame["part"] == "validation") & frame["metric"].isin(["acc", "eod"])]
    held = held.assign(value=held["value"].abs())
    keys = ["federation", "method", "level", "rate"]
    mean = held.groupby([*keys, "metric"])["value"].agg(lambda value: value.mean(skipna=False)).unstack().reset_index()
    picked = []
    for (federation, method), rows in mean.groupby(["federation", "method"], sort=False):
        whole = rows.dropna(subset=["acc"])
        if whole.empty:
            raise FairFLError(f"Every setting of {method} diverged in {federation}: give it lower rates.")
        best = whole.loc[whole["acc"].idxmax()]
        if rule == "fair":
            of_fedavg = mean[(mean["federation"] == federation) & (mean["method"] == "fedavg")]["acc"].max()
            near = whole[whole["acc"] >= of_fedavg - GIVEN_UP].dropna(subset=["eod"])
            best = near.loc[near["eod"].idxmin()] if len(near) else best
        picked.append(best[keys])
    return pd.DataFrame(picked).reset_index(drop=True)


def judged(mine: np.ndarray, other: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The verdict on paired values over seeds, the last axis, and the mean difference with its interval; above 0 the first is
    better."""
    margin = MARGINS[choose(metric, MARGINS, "metric with a margin named")][0]
    mine, other = np.asarray(mine, float), np.asarray(other, float)
    return weighed(mine - other if metric in LARGER else np.abs(other) - np.abs(mine), margin)


def weighed(gain: np.ndarray, margin: float | np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The verdict on gains over seeds, the last axis, their mean and its t interval. Undefined gains are left out."""
    gain = np.asarray(gain, float)
    n = np.isfinite(gain).sum(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no gain is defined, or only one
        mean, deviation = np.nanmean(gain, -1), np.nanstd(gain, -1, ddof=1)
    half = special.stdtrit(n - 1, 0.5 + LEVEL / 2) * deviation / np.sqrt(n)
    low, high = mean - half, mean + half
    verdict = np.select(
        [low > margin, high < -margin, (low >= -margin) & (high <= margin)], ["better", "worse", "equal"], "cannot tell"
    )
    return verdict, mean, low, high
