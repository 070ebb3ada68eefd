"""The built book in _build/html: made by Jupyter Book, left alone while nothing it is made from has changed.

_build/book.json is written last, after the builder has ended well. It holds what the book was made from, every file
that was built, and the builder's own memory (.doctrees) as it was left. Where it is missing or disagrees, the
builder starts again: from nothing if its memory cannot be trusted, since it says no warning twice; with all pages if
one of them is not as it was built or what every page shows has changed; else with the pages that changed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from filelock import FileLock

from fairfl_book import cards
from fairfl_book.notebooks import minutes
from fairfl_book.notebooks.runner import Project
from fairfl_lite import imports, store
from fairfl_lite.errors import BuildError

BUILDER = (sys.executable, "-P", "-m", "fairfl_book.site.builder")
LEDGER = ("ledger.csv", "ledger.json", "crate.zip")
"""Made with the ledger's page, and read by nothing but a reader who downloads them."""


def record(project: Project) -> Path:
    return project.root / "_build" / "book.json"


def memory(project: Project) -> Path:
    """Where the builder keeps the pages it has read."""
    return project.root / "_build" / ".doctrees"


def html(project: Project) -> Path:
    return project.root / "_build" / "html"


def index(project: Project) -> Path:
    """The page to open."""
    return html(project) / "index.html"


def current(project: Project) -> bool:
    """Whether the built book is whole, and is what a builder started now would make."""
    kept = store.kept(record(project))
    return bool(kept) and kept["inputs"] == inputs(project) and kept["built"] == _digests(html(project))


def build(project: Project) -> None:
    """Make _build/html from the pages, with warnings as errors; does nothing when it is current."""
    project.state.mkdir(exist_ok=True)
    with FileLock(project.state / "book.lock"):
        if not current(project):
            _build(project)


def inputs(project: Project) -> dict[str, dict[str, str]]:
    """Digests of all the book is made from, by what a change of them asks for."""
    root = project.root
    pages = {
        **_digests(root / "book", "book/", ("*.md", "*.bib", "_static/*", "lab/*")),
        **_digests(root / "executed", "executed/"),
        **_digests(root / "fairfl_lite", "fairfl_lite/", ("*.py", "*.pyi")),  # whose docstrings are the reference
    }
    static = {name: digest for name, digest in pages.items() if name.startswith("book/_static/")}
    return {
        "frame": {
            **{name: store.sha256(root / name) for name in ("_config.yml", "_toc.yml", "requirements.lock")},
            "python": sys.version,
            "versions": store.fingerprint(sorted(f"{found.name} {found.version}" for found in distributions())),
        },
        "every page": {
            **{name: digest for name, digest in static.items() if Path(name).name not in LEDGER},
            **{name: _title(root / name) for name in pages if name.endswith((".md", ".ipynb"))},
        },
        "pages": pages,
        # The ledger's page and that of the movable front are written from these, at every build that is not left out.
        "ledger": {
            "code": imports.digest("fairfl_book.site.ledger_page"),
            "front": imports.digest("fairfl_book.site.front_page"),
            "cards": store.fingerprint([store.sha256(card) for card in cards.files()]),
            "results": store.fingerprint(_digests(root / "results")),
        },
    }


def _build(project: Project) -> None:
    kept = store.kept(record(project))
    record(project).unlink(missing_ok=True)
    now = inputs(project)
    if not kept or kept["memory"] != _memory(project) or kept["inputs"]["frame"] != now["frame"]:
        _clear(memory(project), html(project))
    elif kept["inputs"]["every page"] != now["every page"] or kept["built"] != _digests(html(project)):
        _clear(html(project))
    _forget(project, kept["inputs"]["pages"] if kept else {}, now["pages"])
    command = [*BUILDER, "build", str(project.root), "-W", "-n", "--keep-going"]
    # Sphinx reads its own variables; a user's options must not reach the book.
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPHINX")}
    ours, held = os.pipe()  # the builder's standard input, which ends with this process
    try:
        done = subprocess.run(command, stdin=ours, capture_output=True, text=True, env=env)
    finally:
        os.close(ours)
        os.close(held)
    if done.returncode:
        _clear(memory(project), html(project))
        raise BuildError(f"The book was not built:\n{_complaints(done.stdout + done.stderr)}")
    built = {"inputs": now, "built": _digests(html(project)), "memory": _memory(project)}
    store.keep(record(project), built)


def _clear(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _forget(project: Project, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Have the builder read again what changed: it goes by times, which are wrong after a clock was set back."""
    changed = {name for name in now if now[name] != before.get(name)}
    if not all(name.endswith((".md", ".ipynb")) for name in changed):  # what a page of the book may include
        changed |= {name for name in now if name.startswith("book/")}
    for name in changed:
        (memory(project) / name).with_suffix(".doctree").unlink(missing_ok=True)


def _memory(project: Project) -> str:
    pickled = memory(project) / "environment.pickle"
    return store.sha256(pickled) if pickled.is_file() else ""


def _digests(folder: Path, prefix: str = "", patterns: Iterable[str] = ("*",)) -> dict[str, str]:
    paths = (path for pattern in patterns for path in folder.rglob(pattern))
    return {prefix + path.relative_to(folder).as_posix(): store.sha256(path) for path in sorted(paths) if path.is_file()}


def _title(path: Path) -> str:
    """What other pages show of a page, beside their text and at their end: its first line, and of a chapter its minutes."""
    text = path.read_text(encoding="utf-8")
    took = ""
    if path.suffix == ".ipynb":
        cells: list[dict[str, Any]] = json.loads(text)["cells"]
        took = f" ({minutes.measured(cells)})"
        text = next(("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"), "")
    return next((line for line in text.splitlines() if line.startswith("# ")), "") + took


def _complaints(log: str) -> str:
    """The lines of a build log that say what is wrong, or its end when none does."""
    from papermill.exceptions import strip_color

    log = strip_color(log)
    lines = [line for line in log.splitlines() if any(word in line for word in ("WARNING", "ERROR", "rror:"))]
    return "\n".join(lines or log.splitlines()[-30:])
