"""How long a page takes to read, counted from what is on it.

A reader is taken to read 180 words a minute, and 12 lines of the code that is shown; a figure or a table takes half a minute, a
displayed formula a quarter, an exercise five minutes. Folded cells and solutions are not counted. `measured` counts, and
`stated` writes the result where a notebook says "It takes": on every page, in every copy and in every lesson.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

WORDS = 180
LINES = 12
PICTURE = 0.5
FORMULA = 0.25
EXERCISE = 5
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
HIDDEN = {"hide-output", "hide-cell", "remove-output", "remove-cell"}

STATED = re.compile(
    r"(?P<head>\*\*(?:It takes|Time:)\*\*) (?:about )?(?:\d+ minutes?|a minute)"
    r"(?:, and (?:about )?\d+ more(?: minutes?)? with the exercises?)?"
)
"""The words of a notebook that say how long it takes."""
_SOLUTION = re.compile(r"^([`:]{3,})\{solution\}.*?^\1\s*$", re.M | re.S)
_CODE = re.compile(r"^```(?:python|bash|text)?\n.*?^```$", re.M | re.S)
_DISPLAYED = re.compile(r"\$\$.*?\$\$(?: \([\w-]+\))?|^[`:]{3,}\{math\}.*?^[`:]{3,}$", re.M | re.S)
_FORM = re.compile(r"^[`:]{3,}.*?$|^:[\w-]+:.*$|^\([\w-]+\)=$|(?<=\])\([^)]*\)|</?[a-z][^>\n]*>", re.M)


@dataclass(frozen=True)
class Minutes:
    """Of a page: to read it, and more for its exercises. Both are multiples of five, and a page takes five at least."""

    reading: int
    exercises: int = 0

    def __str__(self) -> str:
        if not self.exercises:
            return f"{self.reading} minutes"
        return f"{self.reading} minutes, and {self.exercises} more with the exercise{'s' * (self.exercises > EXERCISE)}"


def measured(cells: Sequence[Mapping[str, Any]]) -> Minutes:
    """Count the words, the visible code, the pictures and the exercises of a notebook's cells."""
    minutes, exercises = 0.0, 0
    for cell in cells:
        source, tags = "".join(cell["source"]), set(cell["metadata"].get("tags", []))
        if cell["cell_type"] == "markdown" and not tags & {"solution", "remove-cell"}:
            exercises += len(re.findall(r"^[`:]{3,}\{exercise(?:-start)?\}", source, re.M))
            minutes += _of_prose(source)
        elif cell["cell_type"] == "code":
            if not tags & FOLDED:
                minutes += _lines(source) / LINES
            shown = [] if tags & HIDDEN else cell.get("outputs", [])
            minutes += PICTURE * sum(bool({"image/png", "text/html"} & set(one.get("data", {}))) for one in shown)
    return Minutes(_rounded(minutes), EXERCISE * exercises)


def of_text(text: str) -> Minutes:
    """The same for a page in Markdown."""
    return measured([{"cell_type": "markdown", "source": text, "metadata": {}}])


def stated(notebook: Any) -> Any:
    """A copy of the notebook that says the minutes measured, in the place of those that it says."""
    made = deepcopy(notebook)
    minutes = measured(made["cells"])
    for cell in made["cells"]:
        if cell["cell_type"] == "markdown" and STATED.search(text := "".join(cell["source"])):
            cell["source"] = STATED.sub(lambda found: f"{found['head']} {minutes}", text)
    return made


def _of_prose(text: str) -> float:
    text = _SOLUTION.sub("", text)
    lines = sum(_lines(block) - 2 for block in _CODE.findall(text))
    text = _CODE.sub("", text)
    formulas = len(_DISPLAYED.findall(text))
    words = re.findall(r"[^\W_][\w’'-]*", _FORM.sub("", _DISPLAYED.sub("", text)))
    return len(words) / WORDS + lines / LINES + formulas * FORMULA


def _lines(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


def _rounded(minutes: float) -> int:
    return 5 * max(1, math.floor(minutes / 5 + 0.5))
