"""`make lab` opens copies: the book's notebooks stay as they are, and a reader's work is never lost."""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from jupyterlab.labapp import LabApp
from small import ROOT, code, notebook

from fairfl_book.notebooks import lab, lessons, outputs, parameters

ANSWER = code("yours = ...", "answer")
CELLS = (nbformat.v4.new_markdown_cell("# One\n\n**It takes** 90 minutes.\n"), "1 + 1", ANSWER, code("other = ...", "answer"))


def written(project, name: str = "a/one") -> Path:
    return project.root / "lab" / "notebooks" / f"{name}.ipynb"


def test_copies_are_made_and_the_notebooks_stay_as_they_are(make_project) -> None:
    project = make_project({"a/one": notebook(*CELLS), "b": notebook("2")})
    before = project.source("a/one").read_bytes()
    assert lab.make(project) == [] and project.source("a/one").read_bytes() == before
    made = outputs.read(written(project))
    assert "**It takes** 5 minutes." in made.cells[0].source, "measured, as on the page"
    assert made.cells[2].source == f"{lessons.FIRST}\n{lessons.DOTS}\nyours = ..."
    assert made.cells[3].source == f"{lessons.DOTS}\nother = ..."
    assert (project.root / "lab" / "book" / "intro.md").is_file(), "links to pages of the book open there"
    assert project.names() == ["a/one", "b"], "copies are no notebooks of the book"


def test_a_copy_that_was_only_looked_at_follows_the_book(make_project) -> None:
    project = make_project({"a/one": notebook(*CELLS)})
    lab.make(project)
    nbformat.write(notebook("3"), project.source("a/one"))
    assert lab.make(project) == [] and outputs.read(written(project)).cells[0].source == "3"


def test_a_copy_that_its_reader_changed_is_kept(make_project, capsys) -> None:
    project = make_project({"a/one": notebook(*CELLS)})
    lab.make(project)
    mine = written(project).read_text().replace("1 + 1", "1 + 2")
    written(project).write_text(mine)
    assert lab.make(project) == [], "the book's is not newer"
    nbformat.write(notebook("3"), project.source("a/one"))
    lab.main(project)
    assert written(project).read_text() == mine
    assert "You have changed a/one" in capsys.readouterr().out
    written(project).unlink()
    assert lab.make(project) == [] and outputs.read(written(project)).cells[0].source == "3"


def test_a_copy_of_which_nothing_is_known_is_kept(make_project) -> None:
    project = make_project({"a/one": notebook(*CELLS)})
    written(project).parent.mkdir(parents=True)
    nbformat.write(notebook("mine"), written(project))
    assert lab.make(project) == ["a/one"] and outputs.read(written(project)).cells[0].source == "mine"


def test_the_command_opens_the_copies_and_asks_nothing() -> None:
    text = (ROOT / "Makefile").read_text()
    recipe = text[text.index("\nlab: ") : text.index("\nbench: ")].replace("\\\n", " ")
    assert "-m fairfl_book.notebooks.lab" in recipe and "--notebook-dir lab " in recipe
    app = LabApp()
    asked = [word for word in shlex.split(recipe) if word.startswith("--LabApp.")]
    given = dict(word.removeprefix("--LabApp.").split("=") for word in asked if "=" in word)
    assert given["news_url"] == "None" and LabApp.news_url.allow_none
    room, _, name = given["check_for_updates_class"].rpartition(".")
    checks = getattr(import_module(room), name)
    assert issubclass(checks, LabApp.check_for_updates_class.klass)
    assert set(given) <= set(app.trait_names())


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("n: int = 3  # 1..20: how many", "n: int, 1..20, default 3 (how many)"),
        ("n: int = 3  # ..20", "n: int, ..20, default 3"),
        ("n: list[float] = [0.5]  # 0..: betas", "n: list[float], 0.., default [0.5] (betas)"),
        ('n: str = "a"  # one of a|b: which', "n: str, one of a|b, default 'a' (which)"),
        ("n: bool = True  # whether to", "n: bool, default True (whether to)"),
        ("n: int | None = None", "n: int | None, default None"),
    ],
)
def test_a_parameter_in_one_line(written: str, said: str) -> None:
    (parameter,) = parameters.declared(notebook(code(written, "parameters"), "n")).values()
    assert str(parameter) == said
