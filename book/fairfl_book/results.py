"""Measured results: one tidy CSV per table or figure, and beside it a JSON that says where it came from.

results/<paper>/<table>.csv holds key columns, then `seed`, `metric`, `value`; the .json the commit,
parameters, data digests, versions and code that made it, and the sha256 of the CSV. A large CSV is gzipped.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

import fairfl_lite
from fairfl_lite import data, imports, store
from fairfl_lite.errors import FairFLError

LARGE = 500_000
LONGEST = 100
"""Letters of a name: what every disk can hold as a name of a file."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[a-z0-9][a-z0-9_.-]*)*")
_DECLARED: ContextVar[tuple[str, ...] | None] = ContextVar("declared", default=None)


def path(name: str) -> Path:
    """The CSV of a result such as "fairfed/table1"."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise FairFLError(f"{name[:LONGEST]!r} is not the name of a result; write it as paper/table, e.g. fairfed/table1.")
    plain = store.root() / "results" / f"{name}.csv"
    packed = plain.with_name(f"{plain.name}.gz")
    return packed if packed.is_file() else plain


def _about(target: Path) -> Path:
    """The provenance beside a CSV."""
    return target.with_name(target.name.removesuffix(".gz")).with_suffix(".json")


def exists(name: str) -> bool:
    """Whether a result has been measured: its CSV and its provenance are both there."""
    return path(name).is_file() and _about(path(name)).is_file()


@contextmanager
def reading(names: tuple[str, ...]) -> Iterator[None]:
    """Within it only these results can be loaded: those that the key of a kept cell knows of."""
    token = _DECLARED.set(names)
    try:
        yield
    finally:
        _DECLARED.reset(token)


def load(name: str) -> pd.DataFrame:
    """The rows of a result; FairFLError when it is missing or is not the file its provenance describes."""
    declared = _DECLARED.get()
    if declared is not None and name not in declared:
        raise FairFLError(f"A cell reads the result {name}, which its experiment does not say: add reads=({name!r},) to it.")
    if digest(name) != provenance(name).get("sha256"):
        raise FairFLError(f"{path(name)} was changed after it was measured: restore it from git or measure it again.")
    frame = store.read_csv(path(name), low_memory=False)
    if len(frame) != provenance(name).get("rows"):
        raise FairFLError(f"{path(name)} has {len(frame)} rows, and its provenance says another number: restore it from git.")
    return frame


def digest(name: str) -> str:
    """sha256 of the CSV of a result; FairFLError when it is missing."""
    provenance(name)
    return store.sha256(path(name))


def provenance(name: str) -> dict[str, Any]:
    """How a result was made."""
    if not exists(name):
        raise FairFLError(f"There is no result {name}: {path(name)} and its .json are needed; measure them first.")
    try:
        made = json.loads(_about(path(name)).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # not JSON, or not text at all
        raise FairFLError(f"{_about(path(name))} is not readable: restore it from git.") from error
    if not isinstance(made, dict):
        raise FairFLError(f"{_about(path(name))} is not a provenance: restore it from git.")
    return made


def save(
    name: str,
    frame: pd.DataFrame,
    *,
    parameters: Mapping[str, Any],
    seconds: float,
    command: str,
    datasets: Iterable[str] | None = None,
    module: str | None = None,
    reads: Iterable[str] = (),
    cells: Iterable[Mapping[str, Any]] | None = None,
) -> Path:
    """Write a result and its provenance; returns the CSV's path.

    Rows are sorted by every column but `value`, floats kept to ten digits (five in a large one), so the same
    numbers give the same bytes whatever order they were computed in. `datasets` defaults to the values of the column `dataset`,
    `module` is the one that measured it, `reads` are the results that it was made from. From LARGE bytes on the CSV is gzipped.
    `seconds` is the processor time that the cells took, in all processes that were at them.
    `cells` are those that were measured where it was not all of them: other rows stay as they are stored, and how they were
    made stands under "earlier".
    Each file is replaced in one step, the provenance last: `load` sees an interrupted save as a changed file.
    """
    path(name)
    keys = [column for column in frame.columns if column != "value"]
    if frame.empty:
        raise FairFLError(f"The result {name} has no rows: nothing was measured, so nothing is saved.")
    if frame.duplicated(keys).any():
        raise FairFLError(f"The result {name} has several values for the same {', '.join(keys)}: save each once.")
    part: dict[str, Any] = {}
    if cells is not None:
        now = [dict(cell) for cell in cells]
        before = [one for one in parts(name) if one["cells"] is None or any(cell not in now for cell in one["cells"])]
        part = {"cells": now, "earlier": before}
        if before:
            frame = pd.concat([frame, load(name)], ignore_index=True).drop_duplicates(keys)
        parameters = {**parameters, "seeds": frame["seed"].nunique()} if "seed" in frame else parameters
    frame = frame.sort_values(keys, kind="stable")
    content = _csv(frame, "%.10g")
    if datasets is None:
        datasets = frame["dataset"].unique() if "dataset" in frame else ()
    large = len(content) > LARGE
    if large:
        content = gzip.compress(_csv(frame, "%.5g"), mtime=0)
    other = store.root() / "results" / f"{name}.csv"
    target, other = (other.with_name(f"{other.name}.gz"), other) if large else (other, other.with_name(f"{other.name}.gz"))
    made = {
        "command": command,
        "parameters": dict(parameters),
        "seconds": round(float(seconds), 1),
        "data": {str(dataset): _digest(str(dataset)) for dataset in sorted(datasets)},
        "source": {"module": module, "sha256": imports.digest(module)} if module else None,
        "reads": {other: digest(other) for other in sorted(reads)},
        "git": _git(),
        "versions": versions(),
        "cpu": _cpu(),
        "rows": len(frame),
        "sha256": hashlib.sha256(content).hexdigest(),
        **part,
    }
    store.write(target, content)
    other.unlink(missing_ok=True)
    store.write_json(_about(target), made)
    return target


def parts(name: str) -> list[dict[str, Any]]:
    """How a stored result was made, the newest part first; `cells` of a part is None where it was all of them."""
    if not exists(name):
        return []
    made = provenance(name)
    return [
        {field: made.get(field) for field in ("cells", "seconds", "source", "git", "versions", "cpu")},
        *made.get("earlier", []),
    ]


def _csv(frame: pd.DataFrame, digits: str) -> bytes:
    return frame.to_csv(index=False, float_format=digits, lineterminator="\n").encode()


def versions() -> dict[str, str]:
    """The versions a number can depend on."""
    found = {"python": platform.python_version(), "fairfl_lite": fairfl_lite.__version__}
    for package in ("numpy", "scipy", "pandas", "scikit-learn", "numba", "llvmlite", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _cpu() -> str:
    """The kind of processor, as the compiler of the kernels calls it: other kinds round otherwise."""
    try:
        from llvmlite.binding import get_host_cpu_name
    except ImportError:
        return platform.machine()
    return f"{platform.machine()} {get_host_cpu_name()}"


def _digest(dataset: str) -> str:
    # A finished measurement is not lost because its data has no registered digest.
    try:
        return data.digest(dataset)
    except FairFLError as error:
        return f"unknown: {error}"


def _git() -> dict[str, Any]:
    """The commit of the package, and whether the package differs from it; results themselves do not count."""

    def run(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=store.PACKAGE, capture_output=True, text=True)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changed = run("status", "--porcelain", "--", ".")
    return {"commit": run("rev-parse", "HEAD"), "dirty": None if changed is None else bool(changed)}
