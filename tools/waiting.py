"""Waiting for a state, however long a busy machine takes to reach it."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

LONG = 1800.0
"""Seconds after which what was to happen is said never to happen. No test passes or fails by a shorter time."""
FOR_EVER = "__import__('threading').Event().wait()"
"""Code that goes on until its process is ended."""
MARK = "FAIRFL_TRIAL"
"""A variable that all processes of a command have, with the same value."""
Found = TypeVar("Found")


def until(state: Callable[[], Found], during: subprocess.Popen | None = None) -> Found:
    """The first answer of `state` that is true; `during` is a process that must still be at work."""
    ends = time.monotonic() + LONG
    while not (found := state()):
        assert during is None or during.poll() is None, f"it ended with {during.returncode} before that"
        assert time.monotonic() < ends, "it never happened"
        time.sleep(0.02)
    return found


def left(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that do not end by themselves; they are ended here."""
    _, alive = psutil.wait_procs(list(processes), timeout=LONG)
    for one in alive:
        one.kill()
    return alive


def marked(mark: str) -> list[psutil.Process]:
    """The processes of a command that are at work, whichever of them started which."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
