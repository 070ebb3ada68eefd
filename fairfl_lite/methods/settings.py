"""Settings of methods: one number, or one for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairfl_lite.errors import FairFLError

if TYPE_CHECKING:
    from fairfl_lite.federation import Federation

PerRun = float | Sequence[float] | np.ndarray


def require(name: str, value: PerRun, low: float, high: float = np.inf, *, below: bool = False, above: bool = False) -> None:
    """Refuses a setting, or one of its values, outside [low, high] ([low, high) with `below`, (low, high] with `above`)."""
    values = np.asarray(value)
    limits = f"{'above' if above else 'at least'} {low:g}"
    limits += "" if high == np.inf else f" and {'below' if below else 'at most'} {high:g}"
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        raise FairFLError(f"{name} must be a number {limits}, or one per run, not {value!r}.")
    good = ((values > low) if above else (values >= low)) & ((values < high) if below or high == np.inf else (values <= high))
    if not good.all():
        raise FairFLError(f"{name} must be {limits}, not {np.atleast_1d(values)[~np.atleast_1d(good)][0]}.")


def require_whole(name: str, value: int, least: int = 1) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise FairFLError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def per_run(fed: Federation, name: str, value: PerRun) -> np.ndarray:
    """A setting as [run, 1]."""
    values, runs = np.asarray(value, np.float64), len(fed.seeds)
    if values.shape not in ((), (runs,)):
        raise FairFLError(f"{name} has {values.size} values for {runs} runs: give one, or one per run.")
    return np.broadcast_to(values, runs)[:, None]
