"""Exercises as a notebook holds them, and the notebooks for students and instructors made of it.

An exercise is a question ({exercise} with a label), then cells with these tags, in this order: `answer`, whose
dots the reader replaces; `check`; and `solution`, Markdown with {solution} and the answer as its first block of Python.
Further cells tagged `solution` may follow. The metadata of the answer hold wrong ones, for the tests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairfl_book.notebooks import minutes, outputs
from fairfl_book.notebooks.runner import Project
from fairfl_lite.errors import FairFLError

if TYPE_CHECKING:
    from nbformat import NotebookNode

QUESTION = re.compile(r"\{exercise(?:-start)?\}.*\n:label: (\S+)")
SOLUTION = re.compile(r"\{solution\} (\S+)")
FIRST = "# Run all cells above first: in the menu Run, choose Run All Above Selected Cell."
DOTS = "# Replace the dots by your answer. Then run this cell and the next one, which checks it."
CODE = re.compile(r"^```python\n(.*?)\n```$", re.M | re.S)


@dataclass(frozen=True)
class Exercise:
    """One exercise: its label, and code for the cell of the answer: left open, solved, and wrong in several ways."""

    label: str
    stub: str
    check: str
    solution: str
    wrong: tuple[str, ...]


def tagged(cell: Any, tag: str) -> bool:
    return tag in cell["metadata"].get("tags", [])


def exercises(notebook: Any) -> list[Exercise]:
    """The exercises of a notebook in their order; refuses one that is not complete."""
    labels = [
        label for cell in notebook["cells"] if cell["cell_type"] == "markdown" for label in QUESTION.findall(cell["source"])
    ]
    parts: dict[str, list[Any]] = {tag: [c for c in notebook["cells"] if tagged(c, tag)] for tag in ("answer", "check")}
    solutions = [c for c in notebook["cells"] if tagged(c, "solution") and c["cell_type"] == "markdown"]
    solved = [label for cell in solutions for label in SOLUTION.findall(cell["source"])]
    if not labels == solved or any(len(cells) != len(labels) for cells in (*parts.values(), solutions)):
        raise FairFLError(
            f"The exercises are {', '.join(labels)}, the solutions {', '.join(solved)}: give each a cell tagged answer, "
            "one tagged check, and one tagged solution that names its label."
        )
    return [
        Exercise(
            label=label,
            stub=answer["source"],
            check=check["source"],
            solution=_code(label, solution["source"]),
            wrong=tuple(answer["metadata"].get("fairfl", {}).get("wrong", [])),
        )
        for label, answer, check, solution in zip(labels, parts["answer"], parts["check"], solutions, strict=True)
    ]


def student(notebook: NotebookNode) -> NotebookNode:
    """A copy whose answers are left open, without solutions."""
    made = deepcopy(notebook)
    made.cells = [cell for cell in made.cells if not tagged(cell, "solution")]
    for cell in made.cells:
        if tagged(cell, "answer"):
            cell.metadata.pop("fairfl", None)
    return made


def with_hints(notebook: NotebookNode) -> NotebookNode:
    """A copy in which the cell of each answer says what to do, and the first of them what to run before."""
    made = deepcopy(notebook)
    first = True
    for cell in made.cells:
        if tagged(cell, "answer"):
            cell.source = "\n".join([*([FIRST] if first else []), DOTS, cell.source])
            first = False
    return made


def instructor(notebook: NotebookNode) -> NotebookNode:
    """A copy whose answers are the solutions; what the checks say of them appears when it is run."""
    made = deepcopy(notebook)
    answers = iter(exercises(notebook))
    for cell in made.cells:
        if tagged(cell, "answer"):
            cell.source = next(answers).solution
        if tagged(cell, "check"):
            cell.outputs, cell.execution_count = [], None
    return made


def make(project: Project, folder: Path) -> Sequence[str]:
    """Write both versions of every notebook with exercises into folder/student and folder/instructor; gives the names."""
    made = []
    for name in project.names():
        notebook = outputs.read(project.source(name))
        try:
            if not exercises(notebook):
                continue
        except FairFLError as error:
            raise FairFLError(f"{name}: {error}") from None
        notebook = minutes.stated(notebook)
        for version, lesson in (("student", with_hints(student(notebook))), ("instructor", instructor(notebook))):
            outputs.write(lesson, folder / version / f"{name}.ipynb")
        made.append(name)
    return made


def _code(label: str, solution: str) -> str:
    found = CODE.search(solution)
    if not found:
        raise FairFLError(f"Write the answer to {label} as a block of Python in its solution.")
    return found.group(1)
