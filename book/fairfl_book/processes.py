"""Processes that end with the one that started them."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from contextlib import suppress

import psutil


def die_with_parent() -> None:
    """End this process when its standard input does: the parent keeps that open, and it ends however the parent ends."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def end_with_parent() -> None:
    """End this process of multiprocessing, and those that it started, when the one that started it does, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        kill_children(os.getpid())
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def kill_children(pid: int) -> None:
    """End all processes that one has started, directly or through others."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
