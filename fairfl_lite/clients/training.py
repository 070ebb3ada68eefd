"""How a client trains."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal

import numpy as np

from fairfl_lite.errors import FairFLError, choose


@dataclass(frozen=True, repr=False)
class ClientTraining:
    """How a client trains: passes over its own rows, with an optimiser whose state is new in each round.

    The gradient of a step is that of the mean loss over the minibatch, each row times its weight, plus
    ``weight_decay * theta + prox * (theta - anchor)``.

    Parameters
    ----------
    optimizer : {"sgd", "adam"}
        The optimiser.
    lr : float
        The learning rate of the first round.
    weight_decay : float
        L2 regularisation; 0 is none.
    epochs : int
        Passes over the rows. 0 returns the model that was given.
    batch_size : int
        Rows of a minibatch; 0 is the full batch.
    momentum : float
        Of SGD: ``v <- momentum * v + gradient; theta <- theta - rate * v``. 0 is plain SGD, and Adam has its own.
    prox : float
        The proximal term. The anchor is the model that was given, unless the method names another. FedAvg with
        ``prox=mu`` is FedProx; 0 is none.
    schedule : {"constant", "cosine"}
        "cosine" lets the rate fall to 0 over the steps of one local training, as half a cosine.
    lr_decay : float
        The rate of round t is ``lr * lr_decay ** (t - 1)``; 1 keeps it.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining
    >>> ClientTraining("adam", lr=0.01, epochs=2)
    ClientTraining(optimizer='adam', lr=0.01, weight_decay=0.0, epochs=2, batch_size=32)
    >>> local = ClientTraining(lr=0.1, schedule="cosine", lr_decay=0.5)
    >>> local.rate(3)
    0.025

    The examples of the methods below go on from these lines.
    """

    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 1
    batch_size: int = 32
    momentum: float = 0.0
    prox: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    lr_decay: float = 1.0

    def __post_init__(self) -> None:
        choose(self.optimizer, ("sgd", "adam"), "optimizer")
        choose(self.schedule, ("constant", "cosine"), "schedule")
        if np.ndim(self.lr):
            raise FairFLError(f"ClientTraining.lr must be a number, not {self.lr!r}: run a federation for each rate.")
        numbers = np.array([self.lr, self.weight_decay, self.epochs, self.batch_size, self.momentum, self.prox, self.lr_decay])
        if numbers.dtype.kind not in "if" or not ((numbers >= 0) & (numbers <= np.finfo(np.float32).max)).all():
            raise FairFLError(
                "Local training needs lr, weight_decay, epochs, batch_size, momentum, prox and lr_decay of at least 0 that are"
                " finite as float32."
            )
        if int(self.epochs) != self.epochs or int(self.batch_size) != self.batch_size:
            raise FairFLError(f"Local training needs whole epochs and batch_size, not {self.epochs}, {self.batch_size}.")
        for name in ("epochs", "batch_size"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.momentum >= 1 or (self.momentum and self.optimizer == "adam"):
            raise FairFLError(f"momentum={self.momentum} needs SGD and a value below 1: Adam has momentum of its own.")

    def __repr__(self) -> str:
        """The first five settings, and those of the others that are in use."""
        said = [f for i, f in enumerate(fields(self)) if i < 5 or getattr(self, f.name) != f.default]
        return f"ClientTraining({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in said)})"

    @cached_property
    def whatever_rate(self) -> ClientTraining:
        """The same training at the rate 0, which is what trainings have in common that differ in their rates alone.

        Examples
        --------
        >>> local.whatever_rate == ClientTraining(lr=0.2, schedule="cosine", lr_decay=0.5).whatever_rate
        True
        """
        return replace(self, lr=0.0)

    def rate(self, t: int) -> float:
        """The learning rate at the start of a round.

        Parameters
        ----------
        t : int
            The number of the round, from 1.

        Returns
        -------
        float

        Examples
        --------
        >>> [local.rate(t) for t in (1, 2, 3)]
        [0.1, 0.05, 0.025]
        """
        return float(self.lr) * self.lr_decay ** max(t - 1, 0)

    def slowed(self, step: int, steps: int) -> float:
        """By what the schedule multiplies the rate in one step of one local training.

        Parameters
        ----------
        step : int
            The step, from 0 to steps - 1.
        steps : int
            How many steps the training has.

        Returns
        -------
        float
            1 for a constant schedule.

        Examples
        --------
        >>> [round(local.slowed(step, 4), 3) for step in range(4)]
        [1.0, 0.854, 0.5, 0.146]
        """
        return 0.5 * (1 + math.cos(math.pi * step / steps)) if self.schedule == "cosine" else 1.0
