"""What the compiled engines share: where their machine code is kept, and how threads divide replicas."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numba
import numpy as np
from numba import get_num_threads

from fairfl_lite.store import cache_folder


def keep_compiled(*files: str) -> None:
    """Keep the compiled code of a module, from here on, in a folder named by the text of all it is made of.

    Numba goes by the age of the module alone, and would miss a change in the others.
    """
    made_of = b"".join(Path(file).read_bytes() for file in files)
    numba.config.CACHE_DIR = str(cache_folder() / "numba" / hashlib.sha256(made_of).hexdigest()[:16])  # type: ignore[attr-defined]


def lots(work: np.ndarray) -> np.ndarray:
    """Deal replicas to threads, longest first to the least loaded: [thread, place], -1 where a thread has no more."""
    threads = max(1, min(get_num_threads(), work.size))
    load = np.zeros(threads)
    hands: list[list[int]] = [[] for _ in range(threads)]
    for r in np.argsort(-work, kind="stable"):
        lightest = int(load.argmin())
        load[lightest] += work[r] + 1
        hands[lightest].append(int(r))
    table = np.full((threads, max(map(len, hands))), -1, np.int64)
    for row, hand in zip(table, hands, strict=True):
        row[: len(hand)] = hand
    return table
