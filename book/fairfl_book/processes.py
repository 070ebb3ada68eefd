"""Processes that end with the one that started them."""

from __future__ import annotations

import os
import sys
import threading


def die_with_parent() -> None:
    """End this process when its standard input does: the parent keeps that open, and it ends however the parent ends."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
