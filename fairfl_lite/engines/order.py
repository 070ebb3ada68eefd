"""The order in which a client goes through its rows, from one 64-bit key; the same in every engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numba import njit

Shuffle = Literal["splitmix", "numpy"]

_GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@njit(inline="always")
def _mix(z):
    """Splitmix64's finaliser."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@njit
def shuffle(rows, key):
    """Fisher-Yates in place, drawing from splitmix64 started at `key`; returns the generator's next state."""
    for i in range(rows.size - 1, 0, -1):
        key += _GOLDEN
        j = np.int64(((_mix(key) >> _S32) * np.uint64(i + 1)) >> _S32)
        rows[i], rows[j] = rows[j], rows[i]
    return key


def passes(n: int, epochs: int, batch: int, key: np.uint64, how: Shuffle = "splitmix") -> Iterator[np.ndarray]:
    """The order of n rows in each epoch.

    "splitmix" is what the fused kernels do: each order from the one before, and none in full batches. "numpy" is a new
    permutation from numpy's generator in every epoch; RankFF's stored networks were trained in it.
    """
    if how == "numpy":
        rng = np.random.default_rng(key)
        yield from (rng.permutation(n) for _ in range(epochs))
        return
    order = np.arange(n)
    for _ in range(epochs):
        if 0 < batch < n:
            key = np.uint64(shuffle(order, key))
        yield order
