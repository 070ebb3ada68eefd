"""Jupyter Book in a process that ends with the one that started it: `python -m fairfl_lite.press.builder ARGUMENT ...`."""

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


def main() -> int:
    die_with_parent()
    from jupyter_book.cli.main import main as build

    sys.argv[0] = "jupyter-book"
    return int(build() or 0)


if __name__ == "__main__":
    sys.exit(main())
