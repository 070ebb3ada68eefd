"""What the compiled engines share: where their machine code is kept, and how threads divide replicas."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import numba
import numpy as np
from numba import get_num_threads

from fairfl_lite.errors import FairFLError
from fairfl_lite.store import cache_folder


def code_folder() -> Path:
    """Where compiled code is kept: a folder of the cache for this user, since what lies in it is run.

    The rest of a cache may be shared, because it is held to digests. FairFLError when somebody else can write here.
    """
    if os.name != "posix":
        return cache_folder() / "numba"
    folder = cache_folder() / f"numba-{os.getuid()}"
    with contextlib.suppress(OSError):  # numba will say that it can keep nothing
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        if about.st_uid != os.getuid() or about.st_mode & 0o022:
            raise FairFLError(
                f"Somebody else can write to {folder}, and compiled code in it is run: remove that folder, or name another cache"
                " by FAIRFL_CACHE."
            )
    return folder


def keep_compiled(*files: str) -> None:
    """Keep the compiled code of a module, from here on, in a folder named by the text of all it is made of.

    Numba goes by the age of the module alone, and would miss a change in the others.
    """
    made_of = b"".join(Path(file).read_bytes() for file in files)
    numba.config.CACHE_DIR = str(code_folder() / hashlib.sha256(made_of).hexdigest()[:16])  # type: ignore[attr-defined]


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
