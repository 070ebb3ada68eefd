"""What every contender is given, how it is timed, and what it hands back.

The same for all of them, so nobody is charged for these lines. A contender is a script that is started as
`python SCRIPT GIVEN ANSWER`, two files.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil


def _fail(*error: Any) -> None:
    """A contender that fails ends, also where threads of its library would go on."""
    traceback.print_exception(*error)
    os._exit(1)


sys.excepthook = _fail


@dataclass(frozen=True)
class Workload:
    """A federation, and how it trains.

    X [row, feature] and y [row], 0 or 1, are with client[row]; `group` is a sensitive attribute. Every run begins with the
    model `start`, a flat vector of W [hidden, feature], c, V [1, hidden] and b for ``V tanh(W x + c) + b``, or of V and b where
    hidden is 0. A client trains `epochs` passes over its rows in minibatches, by torch's "sgd" or "adam" or what does the same,
    with a new optimiser in each round. `betas` are settings of a momentum at the server, ``v <- beta v + (1 - beta) step`` and
    ``theta <- theta + v / (1 - beta^t)``; 0 is federated averaging.
    """

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray
    client: np.ndarray
    start: np.ndarray
    hidden: int
    optimizer: str
    lr: float
    weight_decay: float
    epochs: int
    batch_size: int
    seeds: int = 1
    betas: tuple[float, ...] = (0.0,)
    rounds: int = 3
    repeats: int = 3

    @property
    def clients(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rows of each client, X and y."""
        return [(self.X[self.client == k], self.y[self.client == k]) for k in range(self.client.max() + 1)]


def given() -> Workload:
    """The workload that this process was started with."""
    with Path(sys.argv[1]).open("rb") as file:
        return pickle.load(file)


class Clock:
    """Seconds that a round takes: those that pass, and those of processors in this process and all that it has started."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.marks = [self._now()]

    def tick(self, rounds: int = 1) -> None:
        """So many rounds have ended since the last call. The first call ends the warm-up, which does not count."""
        self.rounds.append(rounds)
        self.marks.append(self._now())

    def _now(self) -> tuple[float, float]:
        others = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
        return time.perf_counter(), time.process_time() + sum(one.user + one.system for one in others)

    @property
    def seconds(self) -> np.ndarray:
        """Of a round, by the clock and of processors, for each stretch that counts, [stretch, 2]."""
        return np.diff(self.marks, axis=0)[1:] / np.array(self.rounds[1:])[:, None]


def timed(work: Workload, run: Callable[[], Any]) -> None:
    """Time a function that does all rounds on all seeds and settings, and hand back the models [setting, seed, parameter]."""
    clock = Clock()
    for _ in range(1 + work.repeats):
        params = run()
        clock.tick(work.rounds)
    hand_back(params, clock)


def hand_back(params: Any, clock: Clock) -> None:
    """Write the models that training ended with, [setting, seed, parameter], and the seconds of a round."""
    np.savez(sys.argv[2], params=np.asarray(params, np.float64), seconds=clock.seconds)
