"""Jupyter Book in a process that ends with the one that started it: `python -m fairfl_book.site.builder ARGUMENT ...`."""

from __future__ import annotations

import sys

from fairfl_book.processes import die_with_parent


def main() -> int:
    die_with_parent()
    from jupyter_book.cli.main import main as build

    sys.argv[0] = "jupyter-book"
    return int(build() or 0)


if __name__ == "__main__":
    sys.exit(main())
