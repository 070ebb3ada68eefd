"""What is said of a stored result is checked against what can be known of it: the file, the registered data, the history.

`doubts` holds all of it, and each invented field is tried on it.
"""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from small import ROOT

from fairfl_book import results
from fairfl_book.experiments import catalogue
from fairfl_lite import data, store
from fairfl_lite.data import sources

pytestmark = pytest.mark.slow

NAMES = sorted(path.relative_to(ROOT / "results").with_suffix("").as_posix() for path in (ROOT / "results").glob("*/*.json"))
LOCKED = ("numpy", "scipy", "pandas", "scikit-learn", "numba", "llvmlite", "torch")


def git(*arguments: str) -> bytes | None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    return done.stdout if done.returncode == 0 else None


HISTORY = (git("rev-parse", "--is-shallow-repository") or b"").strip() == b"false"
"""Whether the whole history is here: in an archive of the project there is none, and a shallow clone has its end only."""


@cache
def registered(dataset: str) -> str:
    """The digest of a dataset as its registered files have it, whatever its owners' files on this machine are."""
    one = data.DATASETS[dataset]
    return store.fingerprint(one.name, [[file.name, file.sha256] for file in one.files], one.generated)


@cache
def seeds(name: str) -> list[int] | None:
    frame = results.load(name)
    return sorted(map(int, frame["seed"].unique())) if "seed" in frame else None


@cache
def locked(commit: str) -> dict[str, str]:
    text = (git("show", f"{commit}:requirements.lock") or b"").decode()
    return dict(line.split()[0].split("==") for line in text.splitlines() if "==" in line and line[0].isalpha())


@cache
def version(commit: str) -> str:
    text = (git("show", f"{commit}:fairfl_lite/__init__.py") or b"").decode()
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))


@cache
def code(commit: str, module: str | None, folder: Path) -> str:
    """The digest of the code at a commit, by the code of that commit itself."""
    there = folder / commit
    if not there.exists():
        packed = git("archive", commit, "fairfl_lite", "book")
        assert packed is not None
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(there, filter="data")
    ask = f"imports; print(imports.digest({module!r}))" if module else "results; print(results.source_digest())"
    parted = (there / "book" / "fairfl_book").is_dir()  # before that, library and book were one package
    done = subprocess.run(
        [sys.executable, "-c", f"{'import fairfl_book; ' if parted else ''}from fairfl_lite import {ask}"],
        cwd=there,
        env={"PYTHONPATH": f"{there}{os.pathsep}{there / 'book'}"},
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def doubts(name: str, made: dict[str, Any]) -> list[str]:
    """What of a provenance cannot be so; nothing of what the history would say where it is not here."""
    found = []
    asked, frame = made["parameters"], results.load(name)
    if made["command"] != f"fairfl paper {name}":
        found.append("command")
    if made["rows"] != len(frame):
        found.append("rows")
    if set(made["data"]) != set(asked["data"]) or any(made["data"][one] != registered(one) for one in made["data"]):
        found.append("data")
    there = seeds(name)
    if there is None:
        if name in catalogue.names() and asked["seeds"] != catalogue.get(name).seeds:
            found.append("seeds")
    elif asked["seeds"] != len(there) or there != list(range(there[0], there[0] + len(there))):
        found.append("seeds")
    if any(results.digest(other) != digest for other, digest in (made.get("reads") or {}).items()):
        found.append("reads")
    if made["git"]["dirty"] is not False:
        found.append("dirty")
    for part in made.get("earlier", []):
        if part["git"]["dirty"] is not False:
            found.append("dirty")
        found += _history(name, part) if HISTORY else []
    return found + (_history(name, made) if HISTORY else [])


def _history(name: str, made: dict[str, Any]) -> list[str]:
    commit = made["git"]["commit"]
    if git("merge-base", "--is-ancestor", commit, "HEAD") is None:
        return ["commit"]
    found = []
    # A result is stored after the commit that it was measured with.
    stored = (git("log", "-1", "--format=%H", "--", f"results/{name}.json") or b"").decode().strip()
    if stored and git("merge-base", "--is-ancestor", commit, stored) is None:
        found.append("commit")
    lock, versions = locked(commit), made["versions"]
    if versions["fairfl_lite"] != version(commit) or any(
        versions[one].split("+")[0] != lock[one] for one in LOCKED if one in versions
    ):
        found.append("versions")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_said_of_a_result_is_in_doubt(name: str) -> None:
    assert doubts(name, results.provenance(name)) == []


@pytest.mark.skipif(not HISTORY, reason="the history of the project is not here")
def test_the_code_is_that_of_the_commit(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each digest of code is computed again from the commit that is named, which therefore cannot be invented."""
    folder, wrong = tmp_path_factory.mktemp("commits"), []
    for name in NAMES:
        for made in results.parts(name):
            if tuple(map(int, made["versions"]["python"].split(".")[:2])) != sys.version_info[:2]:
                continue  # another Python writes the same code otherwise
            source = made["source"]
            module, stated = (source["module"], source["sha256"]) if isinstance(source, dict) else (None, source)
            if code(made["git"]["commit"], module, folder) != stated:
                wrong.append(name)
    assert wrong == []
    made = results.provenance("fairfed/table1")
    before = (git("rev-parse", f"{results.provenance('fairfed/rules')['git']['commit']}") or b"").decode().strip()
    assert code(before, made["source"]["module"], folder) != made["source"]["sha256"], "another commit has other code"


def put(*place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(made: dict[str, Any]) -> None:
        for step in place[:-1]:
            made = made[step]
        made[place[-1]] = value

    return change


INVENTED = {
    "a commit": ("commit", put("git", "commit", value="0" * 40)),
    "uncommitted code": ("dirty", put("git", "dirty", value=True)),
    "digest of data": ("data", put("data", "adult", value="0" * 64)),
    "more data": ("data", put("data", "mnist", value=registered("mnist"))),
    "seeds": ("seeds", put("parameters", "seeds", value=201)),
    "numpy": ("versions", put("versions", "numpy", value="2.4.5")),
    "torch": ("versions", put("versions", "torch", value="2.13.1+cpu")),
    "the package": ("versions", put("versions", "fairfl_lite", value="9.9")),
    "rows": ("rows", put("rows", value=63_999)),
    "command": ("command", put("command", value="fairfl paper fairfed/table2")),
}


@pytest.mark.parametrize("what", INVENTED)
def test_what_is_invented_is_in_doubt(what: str) -> None:
    field, change = INVENTED[what]
    if field in ("commit", "versions") and not HISTORY:
        pytest.skip("the history of the project is not here")
    made = copy.deepcopy(results.provenance("fairfed/table1"))
    change(made)
    assert doubts("fairfed/table1", made) == [field]


def test_an_invented_commit_of_an_earlier_part_is_in_doubt() -> None:
    if not HISTORY:
        pytest.skip("the history of the project is not here")
    made = copy.deepcopy(results.provenance("fairfed/table1"))
    part = {field: copy.deepcopy(made[field]) for field in ("git", "versions")}
    assert doubts("fairfed/table1", made | {"earlier": [part]}) == []
    put("git", "commit", value="0" * 40)(part)
    assert doubts("fairfed/table1", made | {"earlier": [part]}) == ["commit"]


def test_seeds_that_no_column_shows_are_those_of_the_experiment() -> None:
    made = copy.deepcopy(results.provenance("fairfed/draws"))
    made["parameters"]["seeds"] = 1999
    assert doubts("fairfed/draws", made) == ["seeds"]


def test_registered_digests_are_those_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FAIRFL_DATA", raising=False)
    monkeypatch.setenv("FAIRFL_CACHE", str(tmp_path))
    for name, dataset in data.DATASETS.items():
        if dataset.files or dataset.generated:
            assert registered(name) == sources.raw_digest(dataset)
