"""From finished runs to pages, from pages to the book, and the references every run is held against."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairfl_book import looks
from fairfl_book.notebooks import minutes, outputs, runner
from fairfl_book.notebooks.runner import Failure, Job, Project
from fairfl_book.site import html
from fairfl_lite import store
from fairfl_lite.errors import BuildError, FairFLError

if TYPE_CHECKING:
    from nbformat import NotebookNode


PHONE, STEP, WIDEST = 340, 60, 960
"""Pixels that a phone has for a figure, and the widths from which book.css makes it scroll there."""


def page(notebook: NotebookNode) -> NotebookNode:
    """The page made of a finished run: each figure gets its number, caption and alternative text, each fold a label.

    It says how many minutes it takes, as they are measured.

    Refuses a picture that did not come through figures.show, and two figures in one cell, which would
    share a name.
    """
    import nbformat

    notebook = minutes.stated(notebook)
    for cell in notebook.cells:
        if word := _fold(cell):
            cell.metadata["mystnb"] = nbformat.from_dict({"code_prompt_show": word, "code_prompt_hide": word})
        pictures = [output for output in cell.get("outputs", []) if _is_picture(output)]
        if not pictures:
            continue
        shown = [picture.metadata["fairfl"] for picture in pictures if "fairfl" in picture.metadata]
        if len(shown) < len(pictures):
            raise FairFLError(f"Cell In [{cell.execution_count}] displays a picture without figures.show.")
        if len(shown) > 1:
            raise FairFLError(f"Cell In [{cell.execution_count}] shows several figures: use a cell for each.")
        classes = ["photograph"] if shown[0].get("photograph") else []
        size = {}
        if sharp := pictures[0].metadata.pop(looks.SHARP, None):
            pictures[0].data["image/png"] = sharp["png"]
            size = {"width": f"{sharp['width']}px"}
            wide = min(math.ceil(sharp["legible"] / STEP) * STEP, WIDEST)
            classes += [f"legible-{wide}"] if wide > PHONE else []
        figure = {"name": shown[0]["name"], "caption": shown[0]["caption"]}
        image = {"alt": shown[0]["alt"], **size, **({"classes": " ".join(classes)} if classes else {})}
        labels = cell.metadata.get("mystnb", {})
        cell.metadata["mystnb"] = nbformat.from_dict({**labels, "figure": figure, "image": image})
    return notebook


def _fold(cell: NotebookNode) -> str:
    """What the label of a folded cell says is in it, so that a reader knows what to open; nothing for an open cell."""
    tags, source = set(cell.metadata.get("tags", [])), cell.source
    if not tags & {"hide-input", "hide-output", "hide-cell"}:
        return ""
    if tags & {"parameters", "injected-parameters"}:
        return "Parameters"
    if "check" in tags:
        return "Check of the answer"
    if "figures.show(" in source:
        return "Plot"
    if re.search(r"^\s*assert\b", source, re.M) and not cell.get("outputs"):
        return "Checks"
    hidden = tags & {"hide-output", "hide-cell"}
    if "ledger.listing(" in source and hidden:
        return "Claims in the ledger"
    if any("text/html" in output.get("data", {}) for output in cell.get("outputs", [])):
        return "Table" if hidden else "Code of the table"
    return "Code"


def publish(job: Job) -> Path:
    """Put the page of a finished run into executed/, which the table of contents names: default values only."""
    assert not job.changed, f"{job.name}: a run with {dict(job.changed)} has a page of its own"
    path = job.project.root / "executed" / f"{job.name}.ipynb"
    try:
        made = page(runner.executed(job))
    except FairFLError as error:
        raise FairFLError(f"{job.name}: {error}") from None
    store.renew(path, outputs.dumps(made))
    return path


def withdraw(project: Project, name: str) -> None:
    """Remove the page of a notebook, also from a book built before."""
    for path in (
        project.root / "executed" / f"{name}.ipynb",
        project.root / "_build" / "html" / "executed" / f"{name}.html",
    ):
        path.unlink(missing_ok=True)


def execute(project: Project, names: Sequence[str]) -> list[Job]:
    """Run what is not finished of the named notebooks and make their pages; BuildError if any fails."""
    jobs = _jobs(project, names)
    settle(project, jobs, runner.run(jobs))
    return jobs


def settle(project: Project, jobs: Sequence[Job], failures: Sequence[Failure]) -> None:
    """Pages for the runs that finished, none for those that failed; BuildError if any did."""
    failed = {failure.name for failure in failures}
    for one in jobs:
        if one.name in failed:
            withdraw(project, one.name)
        else:
            publish(one)
    if failures:
        raise BuildError("\n\n".join(str(failure) for failure in failures))


def build(project: Project) -> Path:
    """Run every notebook, make the pages, build the book with warnings as errors; gives the page to open."""
    names = project.names()
    for stale in _pages(project):
        if stale not in names:
            withdraw(project, stale)
    jobs = _jobs(project, names)
    if not any(runner.why(one) for one in jobs) and html.current(project):
        return html.index(project)
    settle(project, jobs, runner.run(jobs))
    _refuse_repeated_labels(jobs)
    if (project.root / "book" / "ledger.md").is_file():
        from fairfl_book.site import crate, ledger_page

        ledger_page.write(project.root)  # after the chapters, whose tables its rows lead to
        crate.write(project.root)
    if (project.root / "book" / "front.md").is_file():
        from fairfl_book.site import front_page

        front_page.write(project.root)
    html.build(project)
    return html.index(project)


def differences(project: Project, jobs: Sequence[Job]) -> list[str]:
    """What the finished quick runs show otherwise than the references in notebooks/."""
    found = []
    for one in jobs:
        reference = outputs.read(project.source(one.name))
        found += [f"{one.name}, {text}" for text in outputs.compare(runner.executed(one), reference)]
    return found


def update(project: Project, jobs: Sequence[Job]) -> list[str]:
    """Store the outputs of the finished quick runs as references; names the notebooks that changed.

    A run without data that its notebook would show leaves the references as they are: it has less to show than they do.
    """
    whole = [one for one in jobs if not one.absent]
    return [one.name for one in whole if outputs.keep(runner.executed(one), project.source(one.name))]


def _jobs(project: Project, names: Sequence[str]) -> list[Job]:
    """The runs of these notebooks with their own values; what is ill-typed is refused before anything is fetched."""
    jobs = [runner.job(project, name) for name in names]
    return [runner.job(project, name) for name in names] if runner.fetch(names, project) else jobs


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
