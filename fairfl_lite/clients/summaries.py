"""What clients work out from their rows and send as sums: losses by group and label, and histograms of scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LossSums:
    """The log loss summed over a client's rows of each group and label, [group, label]; for two classes."""

    groups: int

    def __call__(self, logits: np.ndarray, y: np.ndarray, a: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # a run that diverged and is kept has no loss
            loss = np.logaddexp(0.0, np.where(y == 1, -logits, logits).astype(np.float64))
        cell = a.astype(np.int64) * 2 + y
        return np.bincount(cell, loss, minlength=2 * self.groups).reshape(self.groups, 2)


@dataclass(frozen=True)
class ScoreHistogram:
    """How many rows of each group and label have their score in each of `bins` bins of one width, [group, label, bin].

    The score is sigmoid(logit), and a row is above an edge if its score is: the same comparison as in a prediction, logit > 0.
    """

    groups: int
    bins: int

    def __call__(self, logits: np.ndarray, y: np.ndarray, a: np.ndarray) -> np.ndarray:
        place = np.searchsorted(edges(self.bins)[1:-1], logits.astype(np.float64), side="left")
        cell = (a.astype(np.int64) * 2 + y) * self.bins + place
        return np.bincount(cell, minlength=2 * self.groups * self.bins).reshape(self.groups, 2, self.bins)


def edges(bins: int) -> np.ndarray:
    """The logits of the edges 0, 1 / bins, ..., 1 between bins of scores; the first is -inf and the last inf."""
    score = np.arange(bins + 1) / bins
    with np.errstate(divide="ignore"):
        return np.log(score) - np.log1p(-score)
