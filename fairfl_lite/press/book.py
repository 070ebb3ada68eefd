"""From finished runs to pages, from pages to the book, and the references every run is held against."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairfl_lite.errors import BuildError, FairFLError
from fairfl_lite.press import outputs, runner
from fairfl_lite.press.parameters import QUICK
from fairfl_lite.press.runner import Failure, Job, Project

if TYPE_CHECKING:
    from nbformat import NotebookNode


def page(notebook: NotebookNode) -> NotebookNode:
    """The page made of a finished run: each figure gets its number, caption and alternative text.

    Refuses a picture that did not come through figures.show, and two figures in one cell, which would
    share a name.
    """
    import nbformat

    notebook = deepcopy(notebook)
    for cell in notebook.cells:
        pictures = [output for output in cell.get("outputs", []) if _is_picture(output)]
        if not pictures:
            continue
        shown = [picture.metadata["fairfl"] for picture in pictures if "fairfl" in picture.metadata]
        if len(shown) < len(pictures):
            raise FairFLError(f"Cell In [{cell.execution_count}] displays a picture without figures.show.")
        if len(shown) > 1:
            raise FairFLError(f"Cell In [{cell.execution_count}] shows several figures: use a cell for each.")
        figure = {"name": shown[0]["name"], "caption": shown[0]["caption"]}
        image = {"alt": shown[0]["alt"], **({"classes": "photograph"} if shown[0].get("photograph") else {})}
        cell.metadata["mystnb"] = nbformat.from_dict({"figure": figure, "image": image})
    return notebook


def publish(job: Job) -> Path:
    """Put the page of a finished run into executed/, which the table of contents names."""
    path = job.project.root / "executed" / f"{job.name}.ipynb"
    try:
        made = page(runner.executed(job))
    except FairFLError as error:
        raise FairFLError(f"{job.name}: {error}") from None
    # An unchanged page is left alone, so that the builder need not read it again.
    if not path.is_file() or path.read_text() != outputs.dumps(made):
        outputs.write(made, path)
    return path


def withdraw(project: Project, name: str) -> None:
    """Remove the page of a notebook, also from a book built before."""
    for path in (
        project.root / "executed" / f"{name}.ipynb",
        project.root / "_build" / "html" / "executed" / f"{name}.html",
    ):
        path.unlink(missing_ok=True)


def execute(project: Project, names: Sequence[str], profile: str = QUICK) -> list[Job]:
    """Run what is not finished of the named notebooks and make their pages; BuildError if any fails."""
    for name in names:
        runner.job(project, name, profile)  # refuse what is ill-typed before anything is fetched or run
    runner.fetch(names, project)
    jobs = [runner.job(project, name, profile) for name in names]
    failures = runner.run(jobs)
    settle(project, jobs, failures)
    return jobs


def settle(project: Project, jobs: Sequence[Job], failures: Sequence[Failure]) -> None:
    """Pages for the runs that finished, none for those that failed; BuildError if any did."""
    failed = {failure.name for failure in failures}
    for one in jobs:
        if one.name in failed:
            if not one.overridden:  # a trial with other values says nothing about the page
                withdraw(project, one.name)
        else:
            publish(one)
    if failures:
        raise BuildError("\n\n".join(str(failure) for failure in failures))


def build(project: Project, profile: str = QUICK) -> Path:
    """Run every notebook, make the pages, build the book with warnings as errors; gives the page to open."""
    names = project.names()
    for stale in _pages(project):
        if stale not in names:
            withdraw(project, stale)
    jobs = execute(project, names, profile)
    _refuse_repeated_labels(jobs)
    if (project.root / "book" / "ledger.md").is_file():
        from fairfl_lite.ledger import page as ledger_page

        ledger_page.write(project.root)  # after the chapters, whose tables its rows lead to
    built = project.root / "_build"
    command = [_script("jupyter-book"), "build", str(project.root), "-W", "-n", "--keep-going"]
    # Sphinx reads its own variables; a user's options must not reach the book.
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPHINX")}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        # The builder remembers the pages it has read and would not warn about them again.
        for folder in (built / ".doctrees", built / "html"):
            shutil.rmtree(folder, ignore_errors=True)
        raise BuildError(f"The book was not built:\n{_complaints(done.stdout + done.stderr)}")
    return built / "html" / "index.html"


def differences(project: Project, jobs: Sequence[Job]) -> list[str]:
    """What the finished quick runs show otherwise than the references in notebooks/."""
    found = []
    for one in jobs:
        reference = outputs.read(project.source(one.name))
        found += [f"{one.name}, {text}" for text in outputs.compare(runner.executed(one), reference)]
    return found


def update(project: Project, jobs: Sequence[Job]) -> list[str]:
    """Store the outputs of the finished quick runs as references; names the notebooks that changed."""
    return [one.name for one in jobs if outputs.keep(runner.executed(one), project.source(one.name))]


def _is_picture(output: NotebookNode) -> bool:
    return any(mime.startswith("image/") for mime in output.get("data", {}))


def _pages(project: Project) -> list[str]:
    folder = project.root / "executed"
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.ipynb"))


def _refuse_repeated_labels(jobs: Sequence[Job]) -> None:
    seen: dict[str, str] = {}
    for one in jobs:
        for label in _labels(runner.executed(one)):
            if label in seen:
                raise FairFLError(f"Rename a figure: {label} is in {seen[label]} and in {one.name}.")
            seen[label] = one.name


def _labels(notebook: NotebookNode) -> Iterator[str]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown: dict[str, Any] = output.get("metadata", {}).get("fairfl", {})
            if shown:
                yield shown["name"]


def _script(name: str) -> str:
    """A program installed beside this Python, whatever the path says."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else name


def _complaints(log: str) -> str:
    """The lines of a build log that say what is wrong, or its end when none does."""
    from papermill.exceptions import strip_color

    log = strip_color(log)
    lines = [line for line in log.splitlines() if any(word in line for word in ("WARNING", "ERROR", "rror:"))]
    return "\n".join(lines or log.splitlines()[-30:])
