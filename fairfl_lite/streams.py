"""Named randomness: a stream for each seed and purpose, so that no result depends on the order of calls."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *more: int) -> np.random.Generator:
    """The random stream of one seed and one purpose (and round); two purposes never share a stream."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *more])


def keys(seed: int, purpose: str, t: int, count: int) -> np.ndarray:
    """`count` 64-bit keys of the streams (seed, purpose, round t, 0..count-1)."""
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), t]).generate_state(count, np.uint64)
