"""Settings of methods are checked when a method is made."""

from __future__ import annotations

import numpy as np

from fairfl_lite.errors import FairFLError


def require(name: str, value: float, low: float, high: float = np.inf, *, below: bool = False, above: bool = False) -> None:
    """Refuses a setting that is no number in [low, high] ([low, high) with `below`, (low, high] with `above`)."""
    limits = f"{'above' if above else 'at least'} {low:g}"
    limits += "" if high == np.inf else f" and {'below' if below else 'at most'} {high:g}"
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iuf":
        raise FairFLError(f"{name} must be a number {limits}, not {value!r}.")
    if not ((value > low if above else value >= low) and (value < high if below or high == np.inf else value <= high)):
        raise FairFLError(f"{name} must be {limits}, not {value}.")


def require_whole(name: str, value: int, least: int = 1) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise FairFLError(f"{name} must be a whole number of at least {least}, not {value!r}.")
