"""One table of what the models that methods end with are worth, by every notion of fairness that the library knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Answer, ByGroup, Federation, Histories, History
from fairfl_lite.rankings import positions

if TYPE_CHECKING:
    import pandas as pd

POOLED = ("acc", "eod", "spd", "equalised_odds", "impact", "tpsd", "apsd", "worst_group")
"""Of all rows together, whoever holds them; those of two groups and a choice of two where there are such."""
INSIDE = ("local_eod", "most_eod", "local_spd", "most_spd")
"""Group fairness inside clients: the mean and the largest size of their own gaps."""
BETWEEN = ("min_acc", "worst_acc", "var_acc", "jain_acc")
"""Between clients: the accuracy of the worst, the mean of the worst tenth, the variance, and Jain's index."""


def scorecard(fed: Federation, histories: History | Histories, *, on: str = "test", own: History | None = None,
              crossed_with: ArrayLike | None = None) -> pd.DataFrame:  # fmt: skip
    """All metrics of the models that methods end with, as a tidy table.

    Of all rows together: "acc", "eod", "spd", "equalised_odds", "impact" (disparate impact), "tpsd", "apsd", and
    "worst_group". Inside clients: "local_eod", "most_eod", "local_spd" and "most_spd", the mean and the largest size of the
    clients' own gaps. Between clients: "min_acc", "worst_acc", "var_acc" and "jain_acc". All of them are explained at
    `fairfl_lite.metrics.of_federation`.

    E2FL's "equality" is the standard deviation of the accuracies of clients, and its "equity" that of the accuracies of groups
    of clients. A client belongs to the group of most of its training rows, and the accuracy of a group is the mean of its
    clients'.

    With several histories, RankFF's ranks, where the candidates are the models of all of them and a client's utility is its
    accuracy: "mean_rank", and "worst_rank", which is the smallest beta for which the model is rankwise proportional among them.
    A client's rank is the share of candidates that are at least as good for it, so 1 is the worst. The models of one history
    may differ between clients: a candidate is then what the method gives each of them.

    With `own`, what clients gain over the models that they trained by themselves: "mean_gain" and "worst_gain" of accuracy,
    "losers", the share of clients whose accuracy is lower than alone, and "mean_loss_over_own" and "worst_loss_over_own", the
    log loss minus that of their own model, which is NaN for thresholds by group, since those have no losses.

    With `crossed_with`, the groups are crossed with another attribute: "pair_worst" is the accuracy of the worst intersection,
    and "pair_spd" and "pair_eod" say how far any two are apart in selection rates and in true positive rates.

    Parameters
    ----------
    fed : Federation
        The federation on which the methods were run.
    histories : History or Histories
        What `Federation.run` gave.
    on : str
        The part of the data, which every client holds rows of.
    own : History, optional
        That of `LocalOnly` on the same federation.
    crossed_with : array_like, optional
        Another attribute of the rows, one value for each row of the table, of any kind.

    Returns
    -------
    pandas.DataFrame
        With columns method, seed, metric and value. A value is NaN where its metric is undefined.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FairFed, FedAvg, Federation, LocalOnly, Partition, load, scorecard
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), seeds=range(2), local=ClientTraining(lr=0.1))
    >>> runs, own = fed.run([FedAvg(), FairFed()], rounds=3), fed.run(LocalOnly(), rounds=3)
    >>> frame = scorecard(fed, runs, own=own)
    >>> frame.groupby("metric", sort=False)["value"].mean().round(2).loc[["acc", "most_eod", "worst_rank"]].to_dict()
    {'acc': 0.73, 'most_eod': 0.33, 'worst_rank': 1.0}
    """
    import pandas as pd

    several: Mapping[str, History] = {histories.method: histories} if isinstance(histories, History) else histories
    _require_clients(fed, several, on)
    counts = {label: _counts(fed, history, on) for label, history in several.items()}
    accuracy = {label: metrics.accuracy(found) for label, found in counts.items()}
    found: dict[str, dict[str, np.ndarray]] = {label: _of_counts(each) | _e2fl(fed, accuracy[label])
                                               for label, each in counts.items()}  # fmt: skip
    if len(several) > 1:
        for label, ranks in _ranks(accuracy).items():
            found[label] |= ranks
    if own is not None:
        _require_clients(fed, {own.method: own}, on)
        alone, losses = metrics.accuracy(_counts(fed, own, on)), _losses(fed, own.answer, on)
        for label, history in several.items():
            found[label] |= _against_own(accuracy[label] - alone, _losses(fed, history.answer, on) - losses)
    if crossed_with is not None:
        pairs = crossed(fed, crossed_with)
        for label, history in several.items():
            found[label] |= _of_pairs(_answers(pairs, _split(history.answer, fed, pairs), on).sum(1))
    rows = [(label, seed, metric, float(value)) for label, values in found.items() for metric, by_run in values.items()
            for seed, value in zip(fed.seeds, by_run, strict=True)]  # fmt: skip
    return pd.DataFrame(rows, columns=["method", "seed", "metric", "value"])


def crossed(fed: Federation, other: ArrayLike) -> Federation:
    """The federation with a group for each pair of a group and a value of another attribute, numbered group * n + value."""
    values, code = np.unique(np.asarray(other), return_inverse=True)
    examples = fed.shards["train"].examples
    if code.shape != (len(examples),):
        raise FairFLError(f"crossed_with needs one value for each of {len(examples)} rows, not values of shape {code.shape}.")
    if any(part.examples is not examples for part in fed.shards.values()):
        raise FairFLError("crossed_with needs a federation whose parts are dealt from the rows of one table.")
    pairs = replace(examples, a=examples.a.astype(np.int64) * len(values) + code, groups=examples.groups * len(values))
    return replace(fed, shards={name: replace(part, examples=pairs) for name, part in fed.shards.items()})


def _require_clients(fed: Federation, several: Mapping[str, History], on: str) -> None:
    for label, history in several.items():
        if history.seeds != fed.seeds:
            raise FairFLError(f"The history of {label} has other seeds than the federation: give the one on which it was run.")
    if fed.one().holders(on) != fed.clients:
        raise FairFLError(f"Every client needs rows of its own in part {on!r}: deal it to clients, without central=True.")


def _counts(fed: Federation, history: History, on: str) -> np.ndarray:
    """Confusion counts of the last answer, [run, client, group, label, prediction]."""
    return history.counts[on][:, -1] if on in history.counts else _answers(fed, history.answer, on)


def _answers(fed: Federation, answer: Answer, on: str) -> np.ndarray:
    return np.stack(fed.ask(lambda one, model: one.confusion(model, on=on), answer))


def _losses(fed: Federation, answer: Answer, on: str) -> np.ndarray:
    """Mean log losses of an answer, [run, client]; NaN for models by group."""
    if isinstance(answer, ByGroup):
        return np.full((len(fed.seeds), fed.clients), np.nan)
    return np.stack(fed.ask(lambda one, model: one.losses(model, on=on), answer))


def _split(answer: Answer, fed: Federation, pairs: Federation) -> Answer:
    """The answer for groups that were crossed: a model by group is that of all its pairs."""
    if not isinstance(answer, ByGroup):
        return answer
    many = pairs.shards["train"].examples.groups // fed.shards["train"].examples.groups
    return ByGroup(np.repeat(answer.models, many, axis=1))


def _of_counts(counts: np.ndarray) -> dict[str, np.ndarray]:
    two = counts.shape[-3:] == (2, 2, 2)
    names = (*POOLED, *INSIDE) if two else ("acc", "tpsd", "apsd", "worst_group")
    return {name: metrics.of_federation(name, counts) for name in (*names, *BETWEEN)}


def _e2fl(fed: Federation, accuracy: np.ndarray) -> dict[str, np.ndarray]:
    """Standard deviations of accuracies [run, client] between clients, and between groups of clients."""
    group = fed.shards["train"].census().sum(3).argmax(2)
    by_group = [metrics.mean(np.where(group == q, accuracy, np.nan)) for q in range(group.max() + 1)]
    return {"equality": metrics.spread(accuracy), "equity": metrics.spread(np.stack(by_group, axis=1))}


def _ranks(accuracy: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Over clients the mean and the largest share of candidates that are at least as good, for each candidate."""
    whole: dict[str, Any] = {label: {"mean_rank": [], "worst_rank": []} for label in accuracy}
    for run in np.stack(list(accuracy.values()), axis=2):  # [client, candidate]
        share = (
            positions(known) / run.shape[1] if len(known := run[~np.isnan(run).any(1)]) else np.full((1, run.shape[1]), np.nan)
        )
        for each, column in zip(whole.values(), share.T, strict=True):
            each["mean_rank"].append(column.mean())
            each["worst_rank"].append(column.max())
    return whole


def _against_own(gain: np.ndarray, excess: np.ndarray) -> dict[str, np.ndarray]:
    """What clients gain in accuracy, and what they lose in log loss, [run, client], over their own models."""
    lower = np.where(np.isnan(gain), np.nan, gain < 0)
    return {"mean_gain": metrics.mean(gain), "worst_gain": metrics.worst(gain), "losers": metrics.mean(lower),
            "mean_loss_over_own": metrics.mean(excess), "worst_loss_over_own": -metrics.worst(-excess)}  # fmt: skip


def _of_pairs(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Of intersections, from counts [run, pair, label, prediction]."""
    found = {"pair_worst": metrics.worst_group(counts)}
    if counts.shape[-1] == 2:
        found["pair_spd"] = metrics.farthest_apart(metrics.selection_rate(counts))
        found["pair_eod"] = metrics.farthest_apart(metrics.true_positive_rate(counts))
    return found
