"""Smooth stand-ins for a client's decision bias, for training: what EFFL, FCFL and FairReg differentiate.

A prediction is softened to p = sigmoid(sharpness * logit), or softmax(sharpness * logits) for more than two classes. The hard
values of the same names are in metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from fairfl_lite.errors import FairFLError, choose

Kind = Literal["tpsd", "apsd", "apsd_acc"]
SMALL = 1e-12  # under the root, so that it has a gradient where all rates are equal


@dataclass(frozen=True)
class SoftBias:
    """f_k: the standard deviation of a rate over the groups that a client has, sqrt(mean_i (r_i - mean r)^2 + 1e-12).

    kind : "tpsd", r_i = P(yhat = 1 | a = i, y = 1); "apsd" as printed, P(yhat = 1 | a = i), which is demographic parity;
    "apsd_acc", P(yhat = y | a = i), which is what the name says. For more than two classes the first two are the largest over
    classes c of P(yhat = c | a = i, y = c) and of P(yhat = c | a = i). A group without rows behind its rate is left out; with
    fewer than two groups left the value is 0 and so is its gradient. For two groups it is |r_0 - r_1| / 2.

    Called with logits [rows] or [rows, classes], labels and groups, as `fed.gradient` does.
    """

    kind: Kind = "tpsd"
    sharpness: float = 10.0

    def __post_init__(self) -> None:
        choose(self.kind, get_args(Kind), "decision bias named")
        if not 0 < self.sharpness < np.inf:
            raise FairFLError(f"sharpness must be a finite number above 0, not {self.sharpness!r}.")

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        y, a = y.long(), a.long()
        if logits.ndim == 1:
            p = torch.sigmoid(self.sharpness * logits)
            if self.kind == "apsd_acc":
                return _deviation(torch.where(y == 1, p, 1 - p), a)
            return _deviation(p, a, y == 1 if self.kind == "tpsd" else None)
        p = torch.softmax(self.sharpness * logits, 1)
        if self.kind == "apsd_acc":
            return _deviation(p.gather(1, y[:, None])[:, 0], a)
        each = [_deviation(p[:, c], a, y == c if self.kind == "tpsd" else None) for c in range(p.shape[1])]
        return torch.stack(each).max()

    @property
    def with_loss(self) -> bool:
        return False

    def by_sums(self, rows: np.ndarray, soft: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value for two classes from sums, [...], and its gradient by them: rows [..., group, label] counts a client's rows,
        soft [..., group, label] is the sum of their p."""
        if self.kind == "tpsd":
            count, found, sign = rows[..., 1], soft[..., 1], np.array([0.0, 1.0])
        elif self.kind == "apsd":
            count, found, sign = rows.sum(-1), soft.sum(-1), np.array([1.0, 1.0])
        else:
            count, found, sign = rows.sum(-1), rows[..., 0] - soft[..., 0] + soft[..., 1], np.array([-1.0, 1.0])
        there = count > 0
        many = np.maximum(there.sum(-1, keepdims=True), 1)
        rate = np.where(there, found / np.maximum(count, 1), 0.0)
        off = np.where(there, rate - rate.sum(-1, keepdims=True) / many, 0.0)
        value = np.sqrt((off**2).sum(-1, keepdims=True) / many + SMALL)
        slope = off / (many * value * np.maximum(count, 1))
        return np.where(there.sum(-1) > 1, value[..., 0], 0.0), slope[..., None] * sign


@dataclass(frozen=True)
class LossAndBias:
    """Both that EFFL asks of a client, as one vector: its mean log loss l_k, and its soft bias f_k."""

    bias: SoftBias = SoftBias()

    @property
    def sharpness(self) -> float:
        return self.bias.sharpness

    @property
    def with_loss(self) -> bool:
        return True

    def by_sums(self, rows: np.ndarray, soft: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of the bias."""
        return self.bias.by_sums(rows, soft)

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        if logits.ndim == 1:
            loss = binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
        else:
            loss = cross_entropy(logits, y.long())
        return torch.stack([loss, self.bias(logits, y, a).to(loss.dtype)])


def _deviation(p: torch.Tensor, a: torch.Tensor, among: torch.Tensor | None = None) -> torch.Tensor:
    """Standard deviation over groups of the mean of p, among the rows of a mask."""
    if among is not None:
        p, a = p[among], a[among]
    if not len(a):
        return 0 * p.sum()
    rows = torch.bincount(a)
    there = rows > 0
    if there.sum() < 2:
        return 0 * p.sum()
    rate = torch.zeros(len(rows), dtype=p.dtype).index_add(0, a, p)[there] / rows[there]
    return torch.sqrt(((rate - rate.mean()) ** 2).mean() + SMALL)
