"""The frame of a chapter: question, figure, answer, header; short visible cells; what to take away at the end.

`faults` says what a notebook lacks of it. Chapters that are not yet in the frame are listed; the list can only shrink.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from small import ROOT, code, notebook

LINES = 12
"""Lines of a visible cell; blank ones are not counted."""
ASSERTS = 6
"""Visible asserts of a chapter: what a reader is shown on purpose. Those that hold sentences are folded."""
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
HEADER = ("In this chapter", "**You will learn**", "**You need**", "**It takes**")
LAST = "What to take away"

NO_CHAPTERS = ("data/", "intro")
"""Data cards, and the front page, which has no header and no exercises."""

NOT_YET: set[str] = set()
"""Chapters still to be moved into the frame. Take one out when it has no faults left; nothing is ever added."""


def source(cell: Any) -> str:
    return "".join(cell["source"])


def tags(cell: Any) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def faults(cells: list[Any]) -> list[str]:
    """What the cells of a chapter lack of the frame, in the order of the page."""
    found = [*_opening(cells)]
    visible = [cell for cell in cells if cell["cell_type"] == "code" and not tags(cell) & FOLDED]
    for cell in visible:
        lines = [line for line in source(cell).splitlines() if line.strip()]
        if len(lines) > LINES:
            found.append(f"cell {cell.get('id')} shows {len(lines)} lines of code: fold it, or split it")
        if "figures.show(" in source(cell):
            found.append(f"cell {cell.get('id')} shows how a figure is drawn: fold it")
    asserts = sum(len(re.findall(r"^\s*assert\b", source(cell), re.M)) for cell in visible)
    if asserts > ASSERTS:
        found.append(f"{asserts} asserts are visible: fold those that hold a sentence")
    headings = [
        line for cell in cells if cell["cell_type"] == "markdown" for line in re.findall(r"^## (.+)$", source(cell), re.M)
    ]
    if not headings or headings[-1].strip() != LAST:
        found.append(f"the last section is not {LAST!r}")
    return found


def _opening(cells: list[Any]) -> list[str]:
    """Title and question, parameters, figure, answer, header: the cells before the first section, all code of them folded."""
    text = [i for i, cell in enumerate(cells) if cell["cell_type"] == "markdown"]
    if not text or text[0] != 0 or not re.match(r"# .+\n", source(cells[0])):
        return ["it does not open with a title and a question"]
    found = []
    question = source(cells[0]).partition("\n")[2].strip()
    if "?" not in question or ":::" in question or "```" in question:
        found.append("the title is not followed by a question")
    answer = text[1] if len(text) > 1 else len(cells)
    before = cells[1:answer]
    if not any("figures.show(" in source(cell) for cell in before):
        found.append("no figure stands between question and answer")
    if any(not tags(cell) & FOLDED for cell in before):
        found.append("code of the opening is not folded")
    said, _, header = source(cells[answer]).partition(HEADER[0]) if answer < len(cells) else ("", "", "")
    prose = re.sub(r"[:`]{3,}\{\w+\}|\W+", "", said)
    if not prose or said.lstrip().startswith(("#", ":::", "```")):
        found.append("no answer follows the figure")
    places = [header.find(part) for part in HEADER[1:]]
    if not header or -1 in places or places != sorted(places):
        found.append("no header follows the answer: In this chapter; You will learn, You need, It takes")
    return found


def chapters() -> list[str]:
    folder = ROOT / "notebooks"
    names = (path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.ipynb"))
    return sorted(name for name in names if not name.startswith(NO_CHAPTERS) and ".ipynb_checkpoints" not in name)


@pytest.mark.parametrize("name", chapters())
def test_a_chapter_is_in_the_frame(name):
    found = faults(json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"])
    if name in NOT_YET:
        assert found, f"{name} is in the frame now: take it out of NOT_YET"
    else:
        assert found == []


def test_what_is_still_to_be_moved_is_there():
    assert set(chapters()) >= NOT_YET


def text(words: str) -> Any:
    return {"cell_type": "markdown", "metadata": {}, "source": words}


FIGURE = code("figures.show(fig)", "hide-input")
HEAD = """It is not.

:::{admonition} In this chapter
**You will learn** a thing.

**You need** nothing.

**It takes** a minute.
:::"""


def chapter(**other: Any) -> list[Any]:
    """A small chapter in the frame, with some of its cells exchanged for others; None leaves one out."""
    parts = {
        "title": text("# Averages\n\nIs an average fair?"),
        "parameters": code("x: int = 1  # 0..: start", "parameters", "hide-input"),
        "figure": FIGURE,
        "answer": text(HEAD),
        "section": text("## One idea\n\nA sentence."),
        "cell": code("print(x)"),
        "end": text("## What to take away\n\n- It is not."),
    }
    return [cell for cell in (parts | other).values() if cell is not None]


def test_a_chapter_in_the_frame_has_no_faults():
    assert faults(chapter()) == []
    assert faults(chapter(cell=code("\n\n".join(["assert x"] * ASSERTS)))) == []
    assert faults(chapter(cell=code("\n".join(["assert x"] * 40), "hide-input"))) == []


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        ({"title": code("x = 1")}, "does not open with a title"),
        ({"title": text("# Averages\n\nAn average is fair.")}, "not followed by a question"),
        ({"title": text("# Averages\n\n:::{admonition} Why?\n:::")}, "not followed by a question"),
        ({"figure": None}, "no figure"),
        ({"figure": code("figures.show(fig)")}, "not folded"),
        ({"figure": code("figures.show(fig)")}, "how a figure is drawn"),
        ({"answer": text(HEAD.partition("\n\n")[2])}, "no answer"),
        ({"answer": text(HEAD), "figure": text("## A section"), "section": FIGURE}, "no figure"),
        ({"answer": text("It is not.")}, "no header"),
        ({"answer": text(HEAD.replace("You need", "You want"))}, "no header"),
        ({"answer": text(HEAD.replace("You will learn", "A").replace("It takes", "You will learn"))}, "no header"),
        ({"cell": code("\n".join(["print(x)"] * (LINES + 1)))}, "13 lines"),
        ({"cell": code("\n".join(["assert x"] * (ASSERTS + 1)))}, "7 asserts"),
        ({"end": text("## Exercises")}, "last section"),
        ({"end": None}, "last section"),
    ],
)
def test_each_fault_is_found(other, fault):
    assert any(fault in found for found in faults(chapter(**other))), faults(chapter(**other))


def test_faults_of_a_notebook_as_it_is_read_from_a_file():
    made = notebook(*chapter())
    assert faults(json.loads(json.dumps(made))["cells"]) == []
