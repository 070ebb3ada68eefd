"""VOTE (E2FL, Algorithm 1, lines 17 to 21) at the size of a network: Borda's count over rankings of each layer's edges.

A ballot is a vector of scores; its reputations, the places of edges in its ranking, are added up in whole numbers, and the
sums are ranked again. Of equal scores or sums the lower edge id comes first. Rankings are found by a radix sort, stable as
that asks, which leaves each edge's place where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from numba import njit

from fairfl_lite.supernets import Supernet

_LOW = np.uint64(0xFFFFFFFF)


@njit(nogil=True, cache=True)
def _places(keys: np.ndarray, out: np.ndarray) -> None:
    """The place of each of the keys [n], int32 of at least 0, in their order from low to high, first come first of equals."""
    n = keys.size
    counts = np.zeros((3, 2048), np.int64)
    for i in range(n):
        key = keys[i]
        counts[0, key & 2047] += 1
        counts[1, (key >> 11) & 2047] += 1
        counts[2, key >> 22] += 1
    for part in range(3):
        before = 0
        for value in range(2048):
            counts[part, value], before = before, before + counts[part, value]
    once, twice = np.empty(n, np.uint64), np.empty(n, np.uint64)
    for i in range(n):
        digit = keys[i] & 2047
        once[counts[0, digit]] = (np.uint64(keys[i]) << np.uint64(32)) | np.uint64(i)
        counts[0, digit] += 1
    for i in range(n):
        digit = np.int64(once[i] >> np.uint64(43)) & 2047
        twice[counts[1, digit]] = once[i]
        counts[1, digit] += 1
    for i in range(n):
        digit = np.int64(twice[i] >> np.uint64(54))
        out[np.int64(twice[i] & _LOW)] = counts[2, digit]
        counts[2, digit] += 1


def places(model: Supernet, values: np.ndarray) -> np.ndarray:
    """The place of each edge within its layer, int32 [P], for values [P]: scores, of which the size counts, or sums of places."""
    if values.dtype == np.float32:
        keys = values.view(np.int32) & np.int32(0x7FFFFFFF)  # numbers of at least 0 are ordered as their bits are
    elif values.dtype.kind in "iu" and values.max(initial=0) < 2**31:
        keys = values.astype(np.int32)
    else:
        parts = [np.unique(np.abs(values[layer]), return_inverse=True)[1] for layer in model.layers]
        keys = np.concatenate(parts).astype(np.int32)
    out = np.empty(len(keys), np.int32)
    for layer in model.layers:
        _places(np.ascontiguousarray(keys[layer]), out[layer])
    return out


def reputations(model: Supernet, ballots: Iterable[np.ndarray]) -> list[np.ndarray]:
    """The reputations int32 [P] of the edges on each ballot [P]."""
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        return list(pool.map(lambda ballot: places(model, ballot), ballots))


def vote(model: Supernet, ballots: Iterable[np.ndarray]) -> np.ndarray:
    """The reputations int32 [P] in what the vote over these reputations [P] gives; at least one ballot is needed."""
    total: np.ndarray | None = None
    for ballot in ballots:
        total = ballot.astype(np.int64) if total is None else np.add(total, ballot, out=total)
    assert total is not None
    return places(model, total)
