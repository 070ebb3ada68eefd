"""What every engine does, and what it is given to do it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.data.shards import Examples, Pixels, Standard

if TYPE_CHECKING:
    import torch

Of = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""Any function of the logits of a client's rows, their labels and their groups: one value, or a vector of them."""


@runtime_checkable
class BySums(Protocol):
    """An `Of` which, for two classes, needs of a client's rows no more than sums over them by group and label, so that an engine
    can answer it in one pass: with p = sigmoid(sharpness * logit), how many rows there are and the sum of their p.

    with_loss : whether the mean log loss comes before the value, as one vector of both.
    """

    @property
    def sharpness(self) -> float: ...

    @property
    def with_loss(self) -> bool: ...

    def by_sums(self, rows: np.ndarray, soft: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value [...] and its gradient by `soft`; rows [..., group, label] are counts, soft [..., group, label] sums of p."""
        ...


@dataclass(frozen=True)
class Work:
    """Replicas, each one client of one run: replica i has the rows index[start[i]:stop[i]], read as its run[i] reads them.

    weight : one for each place of `index`, or empty where all rows weigh alike.
    """

    examples: Examples
    inputs: Standard | Pixels
    index: np.ndarray
    weight: np.ndarray
    run: np.ndarray
    start: np.ndarray
    stop: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """How many rows each replica has."""
        return self.stop - self.start

    @property
    def ends(self) -> np.ndarray:
        """Where the rows of each replica end when those of all are laid side by side."""
        return np.cumsum(self.rows)


class Engine(Protocol):
    """theta is [model, P]; model[i] says which one replica i takes."""

    def train(self, work: Work, theta: np.ndarray, local: ClientTraining, lr: np.ndarray, key: np.ndarray,
              toward: np.ndarray | None) -> np.ndarray:  # fmt: skip
        """Local training of every replica from theta [replica, P], in place; lr and key have one value per replica.

        toward : the anchors of the proximal term, [replica, P]; None where it is the model that was given.
        """
        ...

    def score(self, work: Work, theta: np.ndarray, model: np.ndarray, loss: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Confusion counts [replica, group, label, prediction], and if asked the sum of log losses [replica]."""
        ...

    def logits(self, work: Work, theta: np.ndarray, model: np.ndarray) -> np.ndarray:
        """The logits of every replica's rows, side by side: [rows of all], or [rows of all, classes] for more than two."""
        ...

    def counts(self, of: Of) -> bool:
        """Whether `pull` of this function takes the weight of a row as how often it is there, so that equal rows go as one."""
        ...

    def pull(self, work: Work, theta: np.ndarray, model: np.ndarray, of: Of) -> tuple[np.ndarray, np.ndarray]:
        """For each replica the value of `of` [replica, value] and its gradient by the parameters [replica, value, P]."""
        ...
