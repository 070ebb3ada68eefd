"""How a client trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.errors import FairFLError, choose


@dataclass(frozen=True)
class Local:
    """Local training: `epochs` passes, minibatches of `batch` rows (0 is the full batch), optimiser state new each round.

    epochs = 0 returns the server's model; decay is L2, added to the gradient; lr may be one number or one per run.
    """

    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float | tuple[float, ...] = 0.01
    decay: float = 0.0
    epochs: int = 1
    batch: int = 32

    def __post_init__(self) -> None:
        choose(self.optimizer, ("sgd", "adam"), "optimizer")
        numbers = np.array([*np.atleast_1d(self.lr), self.decay, self.epochs, self.batch])
        if numbers.dtype.kind not in "if" or not np.isfinite(numbers).all() or (numbers < 0).any():
            raise FairFLError("Local training needs lr, decay, epochs and batch that are finite numbers of at least 0.")
        if int(self.epochs) != self.epochs or int(self.batch) != self.batch:
            raise FairFLError(f"Local training needs whole epochs and batch, not {self.epochs} and {self.batch}.")
