"""Small notebooks and projects, made for one test."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from fairfl_book.notebooks.runner import Project
from fairfl_book.site.html import LEDGER

ROOT = Path(__file__).parent.parent


def sources() -> list[Path]:
    """The modules of the library, of what makes the book, and of the papers."""
    return [path for room in ("fairfl_lite", "book/fairfl_book", "book/papers") for path in sorted((ROOT / room).rglob("*.py"))]


def code(source: str, *tags: str, **metadata: Any) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(source, metadata={**({"tags": list(tags)} if tags else {}), **metadata})


def notebook(*cells: nbformat.NotebookNode | str, about: Mapping[str, Any] | None = None) -> nbformat.NotebookNode:
    """A notebook of the given cells, where text is a code cell; ids are positions, so that two are equal."""
    made = nbformat.v4.new_notebook(metadata={"fairfl": dict(about)} if about else {})
    made.cells = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    for position, cell in enumerate(made.cells):
        cell["id"] = f"c{position}"
    return made


def small_project(folder: Path, notebooks: Mapping[str, nbformat.NotebookNode]) -> Project:
    """A project of these notebooks, with the settings of the real book and a little package of its own."""
    (folder / "book" / "_static").mkdir(parents=True)
    (folder / "results").mkdir()
    package = folder / "little"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "metrics.py").write_text("FACTOR = 2.0\n")
    (folder / "requirements.lock").write_text("numpy==1\n")
    shutil.copy(ROOT / "_config.yml", folder)
    shutil.copy(ROOT / "book" / "references.bib", folder / "book")
    made = shutil.ignore_patterns(*LEDGER)  # by a build of the book, which there need not have been
    shutil.copytree(ROOT / "book" / "_static", folder / "book" / "_static", dirs_exist_ok=True, ignore=made)
    (folder / "book" / "intro.md").write_text("# Little book\n\nSee {cite}`fairfed`. Maths: $\\beta^2$.\n")
    (folder / "book" / "references.md").write_text("# References\n\n```{bibliography}\n```\n")
    chapters = "".join(f"  - file: executed/{name}\n" for name in notebooks)
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: book/intro\nchapters:\n{chapters}  - file: book/references\n")
    for name, content in notebooks.items():
        path = folder / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(content, path)
    return Project(folder)
