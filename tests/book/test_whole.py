"""What pages say of the whole is so: how many papers, chapters, datasets and lines there are, and which versions.

A sentence such as "All five papers" goes stale when a sixth comes, and no cell beside it would notice. `stale` finds the numbers
that speak of the whole. Small ones, "these two papers", may speak of a part, and are left alone.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import prose
import pytest
import yaml
from small import ROOT

import fairfl_book
import fairfl_lite
from fairfl_book import cards, cli, datacards
from fairfl_book.notebooks import runner
from fairfl_book.site import contents

NUMBER = rf"\d[\d,]*|{'|'.join(sorted(prose.WORDS, key=len, reverse=True))}"


@cache
def chapters() -> int:
    return sum(page.startswith("executed/") for part in contents.parts(ROOT / "_toc.yml") for page in part.chapters)


@cache
def lines() -> int:
    return sum(len(cards.load(paper).entries) for paper in cards.names())


@cache
def pages() -> int:
    return len(re.findall(r"^ *(?:- file|root): ", (ROOT / "_toc.yml").read_text(), re.M))


@dataclass(frozen=True)
class Count:
    """The name of what is counted, from which number on it means the whole, and how many there are."""

    things: str
    least: int
    true: Callable[[], int]


COUNTS = (
    Count("papers", 4, lambda: len(cards.names())),
    Count("chapters", 20, chapters),
    Count("notebooks", 20, lambda: len(runner.Project(ROOT).names())),
    Count("pages", 40, pages),
    Count("(?:datasets|data cards|data pages)", 9, lambda: len(datacards.files())),
    Count("(?:lines|entries|rows|claims) (?:of|in) the ledger", 500, lines),
)


def stale(text: str) -> list[str]:
    """The words of a text that say another number of the whole than there is."""
    found = []
    for count in COUNTS:
        for match in re.finditer(rf"\b({NUMBER})\s+(?:real\s+|public\s+)?{count.things}\b", text, re.I):
            said = match[1].lower()
            number = prose.WORDS[said] if said in prose.WORDS else int(said.replace(",", ""))
            if number >= count.least and number != count.true():
                found.append(f"{match[0]!r}, and there are {count.true():,}")
    python = project(ROOT)["requires-python"].removeprefix(">=")
    found += [
        f"{match[0]!r}, and it is {python}" for match in re.finditer(r"Python (3[\d.]*\d) or newer", text) if match[1] != python
    ]
    return found


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def texts() -> dict[str, str]:
    """All that a reader may read, by its path: prose of notebooks, pages, and the files at the root."""
    found = {}
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            cells = json.loads(path.read_text())["cells"]
            found[path] = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    roots = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml", "book/pyproject.toml")]
    for path in [*sorted((ROOT / "book").rglob("*.md")), *roots]:
        found[path] = path.read_text()
    return {path.relative_to(ROOT).as_posix(): text for path, text in found.items()}


@pytest.mark.parametrize("name", texts())
def test_what_a_page_says_of_the_whole_is_so(name: str) -> None:
    assert stale(texts()[name]) == []


def test_the_front_page_and_the_readme_say_how_many_papers_there_are() -> None:
    """Otherwise the test above would hold because nothing is said."""
    for name in ("notebooks/intro.ipynb", "README.md", "CITATION.cff"):
        assert re.search(rf"\b(?:{NUMBER})\s+papers\b", texts()[name], re.I), name


def test_each_number_that_is_not_so_is_found() -> None:
    papers = len(cards.names())
    words = {value: word for word, value in prose.WORDS.items()}
    for said, right in (
        (f"All {words[papers + 1]} papers", f"All {words[papers]} papers"),
        (f"{papers + 1} papers", f"The two papers, and all {papers} papers"),
        (f"in {chapters() + 1} chapters", f"in {chapters()} chapters, and the next three chapters"),
        ("all 99 notebooks", f"all {len(runner.Project(ROOT).names())} notebooks"),
        (f"{pages() + 2} pages", f"{pages()} pages and 12 pages"),
        ("twelve\ndatasets", "the four datasets"),
        (f"{lines() + 1:,} lines of the ledger", f"{lines():,} lines of the ledger, and 12 lines of the ledger"),
        ("Python 3.9 or newer", f"Python {project(ROOT)['requires-python'].removeprefix('>=')} or newer"),
    ):
        assert len(stale(said)) == 1, said
        assert stale(right) == [], right


def test_versions_are_one() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == fairfl_lite.__version__ == fairfl_book.__version__
    assert project(ROOT)["requires-python"] == project(ROOT / "book")["requires-python"]


def test_the_first_line_of_the_command_line_names_its_commands() -> None:
    said = re.search(r"`fairfl (\S+)`", ast.get_docstring(ast.parse(Path(cli.__file__).read_text())) or "")
    (commands,) = (action.choices for action in cli.parser()._actions if action.dest == "command")
    assert said and said[1].split("|") == list(commands)


def test_the_front_page_names_every_paper() -> None:
    text = texts()["notebooks/intro.ipynb"]
    for paper in cards.names():
        assert f"({paper}/" in text or f"/{paper}/" in text, paper
