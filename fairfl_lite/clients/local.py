"""How a client trains."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from fairfl_lite.errors import FairFLError, choose


@dataclass(frozen=True, repr=False)
class Local:
    """Local training: `epochs` passes, minibatches of `batch` rows (0 is the full batch), optimiser state new each round.

    epochs = 0 returns the model that was given; lr may be one number or one per run. The step's gradient is that of the mean
    loss over the minibatch, each row times its weight, plus

    decay : L2, decay * theta. prox : the proximal term, prox * (theta - anchor), where the anchor is the model that was given
        unless the method names another. Both 0: neither.
    momentum : of SGD, v <- momentum v + gradient, theta <- theta - rate v. 0 is plain SGD; Adam has its own.
    schedule : "cosine" lets the rate fall to 0 over the steps of one local training as half a cosine.
    fade : the rate of round t is lr * fade^(t - 1). 1 keeps it.
    """

    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float | tuple[float, ...] = 0.01
    decay: float = 0.0
    epochs: int = 1
    batch: int = 32
    momentum: float = 0.0
    prox: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    fade: float = 1.0

    def __post_init__(self) -> None:
        choose(self.optimizer, ("sgd", "adam"), "optimizer")
        choose(self.schedule, ("constant", "cosine"), "schedule")
        if np.ndim(self.lr) > 1:
            raise FairFLError(f"Local.lr must be a number, or one per run, not {self.lr!r}.")
        numbers = np.array([*np.atleast_1d(self.lr), self.decay, self.epochs, self.batch, self.momentum, self.prox, self.fade])
        if numbers.dtype.kind not in "if" or not ((numbers >= 0) & (numbers <= np.finfo(np.float32).max)).all():
            raise FairFLError(
                "Local training needs lr, decay, epochs, batch, momentum, prox and fade of at least 0 that are finite as float32."
            )
        if int(self.epochs) != self.epochs or int(self.batch) != self.batch:
            raise FairFLError(f"Local training needs whole epochs and batch, not {self.epochs} and {self.batch}.")
        for name in ("epochs", "batch"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.momentum >= 1 or (self.momentum and self.optimizer == "adam"):
            raise FairFLError(f"momentum={self.momentum} needs SGD and a value below 1: Adam has momentum of its own.")

    def __repr__(self) -> str:
        """The first five settings, and those of the others that are in use."""
        said = [f for i, f in enumerate(fields(self)) if i < 5 or getattr(self, f.name) != f.default]
        return f"Local({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in said)})"

    def rates(self, runs: int, t: int) -> np.ndarray:
        """The rate of each run at the start of round t, [run]."""
        if np.size(self.lr) not in (1, runs):
            raise FairFLError(f"Local.lr has {np.size(self.lr)} values for {runs} runs: give one, or one per run.")
        return np.broadcast_to(np.asarray(self.lr, np.float64) * self.fade ** max(t - 1, 0), runs)

    def slowed(self, step: int, steps: int) -> float:
        """What the schedule makes of the rate in step 0..steps-1 of one local training."""
        return 0.5 * (1 + math.cos(math.pi * step / steps)) if self.schedule == "cosine" else 1.0
