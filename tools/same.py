"""Builds the book of this commit twice, each time in a clone and from nothing, and compares all that was made: `make same`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fairfl_lite import store

ROOT = Path(__file__).parent.parent
MADE = ("_build/html", "executed")
LEDGER = "_build/html/_static/ledger.csv"


def made(root: Path) -> dict[str, str]:
    """sha256 of every file that was made in a folder, by its path."""
    paths = (path for folder in MADE for path in (root / folder).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): store.sha256(path) for path in sorted(paths)}


def differing(one: Path, other: Path) -> list[str]:
    """Files that are in one of two builds only, or not the same in both."""
    here, there = made(one), made(other)
    assert here, f"nothing was built in {one}"
    return sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))


def build(root: Path) -> None:
    """The book of a clone, by the packages installed here and the clone's own code."""
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'book'}", "FAIRFL_ROOT": str(root)}
    subprocess.run([sys.executable, "-m", "fairfl_book.cli", "build"], cwd=root, env=env, check=True)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        clones = [Path(folder) / name for name in ("one", "other")]
        for clone in clones:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
            build(clone)
        names = differing(*clones)
        print(f"The ledger's digest is {' and '.join(sorted({store.sha256(clone / LEDGER) for clone in clones}))}.")
        print(f"{len(made(clones[0]))} files were made twice.")
        print("\n".join(f"not the same: {name}" for name in names) or "All are the same, byte by byte.")
        return int(bool(names))


if __name__ == "__main__":
    sys.exit(main())
