"""What the arena's results say: verdicts, pairs of methods, fronts and regret, by the rules of `protocol`.

All functions but `load` take the tidy frame of one dataset, with columns federation, method, level, rate, part, seed, metric and
value. They give tables of which each row has a federation; `everywhere` puts those of several datasets below each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import pandas as pd

from fairfl_book import results
from fairfl_lite.errors import FairFLError, choose
from papers.arena.federations import attainable
from papers.arena.protocol import LARGER, LARGEST_GAP, MARGINS, VOLUME_MARGIN, chosen, weighed
from papers.arena.runs import tidy

RULES = ("accurate", "fair")
STORED = ("adult", "compas", "made", "crowds")
"""The stored results; crowds are of Adult."""
VERDICTS = ("better", "equal", "cannot tell", "worse")
SETTING = ["federation", "method", "level", "rate"]
FOR_WHOM = {
    "groups of people": ("local", "global", "group-thresholds", "fairfed", "fair-fate", "fedval", "fairbatch", "fedfb",
                         "fedminmax", "fedgft"),
    "groups inside clients": ("fairreg", "fcfl", "effl"),
    "clients": ("afl", "q-ffl", "term", "propfair", "corefed", "rankff", "fedfv", "fedmgda+", "fedmdfg"),
    "several models": ("ditto", "ifca", "local-only"),
}  # fmt: skip
"""Whom each method compares, all but FedAvg; the last ones give clients, or groups of clients, models of their own."""
WORDS = {
    "acc": "accuracy", "worst_group": "accuracy of the worse group", "eod": "|EOD|", "spd": "|SPD|",
    "pair_eod": "largest EOD of intersections", "most_eod": "largest |EOD| of a client",
    "min_acc": "accuracy of the worst client", "equality": "spread of clients' accuracies",
}  # fmt: skip
"""What the metrics with margins are called, people first and clients last."""


@lru_cache(maxsize=4)
def load(name: str) -> pd.DataFrame:
    """A stored result of the arena, tidy."""
    return tidy(results.load(f"arena/{choose(name, STORED, 'result of the arena')}")).drop(columns="dataset")


def everywhere(of: Callable[[pd.DataFrame], pd.DataFrame], names: tuple[str, ...] = ("adult", "compas", "made")) -> pd.DataFrame:
    """The same table of several stored results, with a first column that says of which."""
    return pd.concat({name: of(load(name)) for name in names}, names=["dataset", None]).reset_index("dataset")


def picked(frame: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Test values of the settings that a rule chooses: a row for each federation, method, level, rate and metric, a column for
    each seed. Gaps have no sign."""
    test = frame[(frame["part"] == "test") & frame["metric"].isin(MARGINS)]
    kept = test.merge(chosen(frame, rule), on=SETTING)
    return kept.assign(value=kept["value"].abs()).pivot(index=[*SETTING, "metric"], columns="seed", values="value")


def gains(values: pd.DataFrame, against: str = "fedavg") -> pd.DataFrame:
    """By how much each method is better than another on the same seeds, from what `picked` gives."""
    at = values.index.to_frame(index=False)
    other = values[at["method"].eq(against).to_numpy()].droplevel(["method", "level", "rate"])
    there = pd.MultiIndex.from_frame(at[["federation", "metric"]])
    if not there.isin(other.index).all():
        raise FairFLError(f"Methods are compared with {against}: run it too.")
    sign = np.where(at["metric"].isin(LARGER), 1, -1)[:, None]
    return (values - other.reindex(there).to_numpy()) * sign


def _margins(values: pd.DataFrame) -> np.ndarray:
    return np.array([MARGINS[metric][0] for metric in values.index.get_level_values("metric")])


def verdicts(frame: pd.DataFrame, rule: str, against: str = "fedavg") -> pd.DataFrame:
    """The setting that each method is given by a rule, its mean test values, and how it compares with another method.

    Columns method, level, rate, metric, mean, gain, low, high and verdict, for each federation in `frame`. The gain is NaN where
    a metric is not defined, such as the gap inside clients of one group.
    """
    values = picked(frame, rule)
    gain = gains(values, against)
    verdict, mean, low, high = weighed(gain.to_numpy(), _margins(gain))
    found = gain.index.to_frame(index=False).assign(mean=values.mean(axis=1).to_numpy(), gain=mean, low=low,
                                                    high=high, verdict=verdict)  # fmt: skip
    found.loc[found["method"] == against, "verdict"] = ""
    return found


def pairs(frame: pd.DataFrame, rule: str, metric: str) -> pd.DataFrame:
    """Every method against every other by one metric: columns federation, method, other, gain, low, high and verdict."""
    values = picked(frame, rule).xs(choose(metric, MARGINS, "metric with a margin named"), level="metric")
    found = []
    for federation, here in values.groupby(level="federation", sort=False):
        names, v = here.index.get_level_values("method"), here.to_numpy()
        gain = (v[:, None] - v[None]) * (1 if metric in LARGER else -1)
        verdict, mean, low, high = (part.ravel() for part in weighed(gain, MARGINS[metric][0]))
        both = pd.MultiIndex.from_product([names, names], names=["method", "other"]).to_frame(index=False)
        both = both.assign(federation=federation, gain=mean, low=low, high=high, verdict=verdict)
        found.append(both[both["method"] != both["other"]])
    return pd.concat(found, ignore_index=True)


def counts(found: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How many verdicts of each kind; what is not defined, and a method beside itself, is not counted."""
    told = found[found["gain"].notna() & (found["verdict"] != "")]
    table = told.groupby([*by, "verdict"], sort=False).size().unstack(fill_value=0)
    return table.reindex(columns=list(VERDICTS), fill_value=0)


def by_chance(frame: pd.DataFrame, rule: str, times: int = 20, seed: int = 0) -> tuple[int, float]:
    """How many comparisons with FedAvg there are, and how many would be called better or worse by chance alone.

    Chance is a coin that decides for each federation and seed which way round all differences are, so that no method is better
    than FedAvg on average. The second number is a mean over `times` rounds of tossing.
    """
    gain = gains(picked(frame, rule)).drop("fedavg", level="method").dropna(how="all")
    of, rng = gain.index.get_level_values("federation").factorize()[0], np.random.default_rng(seed)
    called = 0
    for _ in range(times):
        coins = rng.choice([-1, 1], (of.max() + 1, gain.shape[1]))
        called += np.isin(weighed(gain.to_numpy() * coins[of], _margins(gain))[0], ["better", "worse"]).sum()
    return len(gain), float(called / times)


# Fronts


def settings(frame: pd.DataFrame) -> pd.DataFrame:
    """Every setting of every method: its mean test values, those by which settings are chosen, and whether it is on the front.

    Columns federation, method, level, rate, the metrics of test rows, "validation acc" and "validation eod", and "front". A
    setting with a run that diverged has NaN, and is not on the front.
    """
    sized = frame.assign(value=frame["value"].abs())
    name = np.where(sized["part"] == "validation", "validation " + sized["metric"].astype(str), sized["metric"])
    mean = sized.assign(metric=name).groupby([*SETTING, "metric"], sort=False)["value"].mean()
    bad = sized[sized["metric"].isin(["acc", "eod"]) & sized["value"].isna()].groupby(SETTING).size()
    table = mean.unstack("metric").rename_axis(columns=None)
    table.loc[table.index.isin(bad.index)] = np.nan
    acc, gap = table["validation acc"], table["validation eod"]
    on = pd.Series(False, table.index)
    for _, here in table.groupby(level=["federation", "method"], sort=False):
        on[here.index] = undominated(acc[here.index].to_numpy(), gap[here.index].to_numpy())
    return table.assign(front=on).reset_index()


def undominated(acc: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Which points no other point beats: is at least as good in both, and better in one. NaN is beaten."""
    no_worse = (acc[None] >= acc[:, None]) & (gap[None] <= gap[:, None])
    better = (acc[None] > acc[:, None]) | (gap[None] < gap[:, None])
    return np.isfinite(acc + gap) & ~(no_worse & better).any(1)


def hypervolume(acc: np.ndarray, gap: np.ndarray, commonest: float, largest: float = LARGEST_GAP) -> np.ndarray:
    """The area between a reference point and the best of some settings, the last axis: the integral over all limits of the gap
    up to `largest` of the best accuracy within the limit, as far as it is above `commonest`."""
    order = np.argsort(-acc, axis=-1)
    above = np.maximum(np.take_along_axis(acc, order, -1) - commonest, 0)
    lowest = np.minimum.accumulate(np.minimum(np.take_along_axis(gap, order, -1), largest), axis=-1)
    before = np.concatenate([np.full((*lowest.shape[:-1], 1), largest), lowest[..., :-1]], -1)
    return (above * (before - lowest)).sum(-1)


def volumes(frame: pd.DataFrame, commonest: float) -> pd.DataFrame:
    """The hypervolume of each method's front on the test rows of each seed: a row for each federation and method."""
    fronts = settings(frame).query("front")[SETTING]
    test = frame[(frame["part"] == "test") & frame["metric"].isin(["acc", "eod"])].merge(fronts, on=SETTING)
    points = test.assign(value=test["value"].abs()).pivot(index=[*SETTING, "metric"], columns="seed", values="value")
    found = {
        at: hypervolume(own.xs("acc", level="metric").to_numpy().T, own.xs("eod", level="metric").to_numpy().T, commonest)
        for at, own in points.groupby(level=["federation", "method"], sort=False)
    }
    return pd.DataFrame(found, points.columns).T.rename_axis(["federation", "method"])


def fronts(frame: pd.DataFrame, commonest: float, against: str = "fedavg") -> pd.DataFrame:
    """Hypervolumes compared with those of a method: columns federation, method, mean, gain, low, high and verdict."""
    values = volumes(frame, commonest)
    other = values.xs(against, level="method").reindex(values.index.get_level_values("federation"))
    verdict, gain, low, high = weighed(values.to_numpy() - other.to_numpy(), VOLUME_MARGIN)
    found = values.index.to_frame(index=False).assign(mean=values.mean(axis=1).to_numpy(), gain=gain, low=low, high=high,
                                                      verdict=verdict)  # fmt: skip
    found.loc[found["method"] == against, "verdict"] = ""
    return found


# The made federation, and what failed

LIMITS = np.linspace(0, 1, 201)


@lru_cache(maxsize=1)
def _best() -> np.ndarray:
    return np.array([attainable(limit, "eod") for limit in LIMITS])


def regret(frame: pd.DataFrame, rule: str) -> pd.DataFrame:
    """How far below the best attainable accuracy each method is in the federation whose truth is known, at the gap |EOD| that it
    has itself: columns method, acc, eod, regret, low and high. Test rows are a sample, so a regret can be below 0."""
    values = picked(frame, rule)
    acc, gap = (values.xs(metric, level="metric") for metric in ("acc", "eod"))
    lost = np.interp(gap.to_numpy(), LIMITS, _best()) - acc.to_numpy()  # the best accuracy is a line between few corners
    _, mean, low, high = weighed(lost, 0.0)
    return acc.index.to_frame(index=False).assign(acc=acc.mean(axis=1).to_numpy(), eod=gap.mean(axis=1).to_numpy(), regret=mean,
                                                  low=low, high=high)  # fmt: skip


def failed(frame: pd.DataFrame) -> pd.DataFrame:
    """How many runs ended with a model that is not finite, and of how many: columns federation, method, failed, runs."""
    acc = frame[(frame["part"] == "test") & (frame["metric"] == "acc")]
    by = acc.assign(failed=acc["value"].isna()).groupby(["federation", "method"], sort=False)["failed"]
    return by.agg(failed="sum", runs="size").reset_index()


def shown(found: Mapping[str, pd.DataFrame]) -> str:
    """Verdicts by rule as text: a line for each method, and a mark beside each mean."""
    marks = {"better": "+", "worse": "-", "equal": "=", "cannot tell": "?", "": " "}
    lines = []
    for rule, frame in found.items():
        lines.append(f"Settings chosen by rule '{rule}', on validation rows; test means, and against fedavg: + better, - worse, "
                     "= equal, ? cannot tell")  # fmt: skip
        metrics = list(dict.fromkeys(frame["metric"]))
        width = max(map(len, frame["method"]))
        lines.append(f"{'':{width}}  " + "  ".join(f"{metric:>10}" for metric in metrics))
        for name, rows in frame.groupby("method", sort=False):
            by = rows.set_index("metric")
            cells = [f"{by.loc[metric, 'mean']:8.3f} {marks[str(by.loc[metric, 'verdict'])]}" for metric in metrics]
            lines.append(f"{name:{width}}  " + "  ".join(cells))
        lines.append("")
    return "\n".join(lines)
