"""The glossary: every entry is a sentence or more, and every link to a term finds it, from pages and from notebooks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from small import ROOT, code, notebook

from fairfl_book.site import book

GLOSSARY = ROOT / "book" / "glossary.md"
ROLE = re.compile(r"\{term\}`(?:[^`<]*<)?([^`<>]+)>?`")
LINK = re.compile(r"glossary\.md#term-([\w-]+)\)")


def entries(text: str) -> dict[str, str]:
    """The definition of each term; several terms may stand above one."""
    body = text.partition(":::{glossary}\n:sorted:\n")[2].partition(":::")[0]
    found = {}
    for entry in body.strip().split("\n\n"):
        terms = [line for line in entry.splitlines() if not line.startswith(" ")]
        definition = " ".join(line.strip() for line in entry.splitlines() if line.startswith("    "))
        assert len(terms) + sum(line.startswith("    ") for line in entry.splitlines()) == len(entry.splitlines()), entry
        found |= dict.fromkeys(terms, definition)
    return found


def target(term: str) -> str:
    """How a link names the term."""
    return re.sub(r"[^A-Za-z0-9]+", "-", term).strip("-")


def texts() -> dict[Path, str]:
    """All prose: pages in Markdown, and the Markdown cells of notebooks."""
    found = {path: path.read_text() for path in sorted((ROOT / "book").rglob("*.md"))}
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        found[path] = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return found


def test_every_term_is_explained_in_sentences():
    found = entries(GLOSSARY.read_text())
    assert len(found) > 100
    for term, definition in found.items():
        assert re.search(r"[.)]$", definition) and definition[0].isupper(), term


def test_no_two_terms_differ_in_capitals_alone():
    found = [term.lower() for term in entries(GLOSSARY.read_text())]
    assert len(found) == len(set(found))


def test_every_link_to_a_term_finds_it():
    known = entries(GLOSSARY.read_text())
    lower, targets = {term.lower() for term in known}, {target(term) for term in known}
    for path, text in texts().items():
        asked = [" ".join(name.split()) for name in ROLE.findall(text)]
        assert [name for name in asked if name.lower() not in lower] == [], path
        assert [name for name in LINK.findall(text) if name not in targets] == [], path


@pytest.mark.slow
def test_a_notebook_leads_to_a_term_in_the_built_page(make_project):
    """And a term that is not there stops the build."""
    link = nbformat.v4.new_markdown_cell("# One\n\nA [round](../../book/glossary.md#term-round), {cite}`fairfed`.")
    project = make_project({"a/one": notebook(link, code("1 + 1"))})
    (project.root / "book" / "glossary.md").write_text(
        "# Glossary\n\n:::{glossary}\n:sorted:\n\nround\n    What is done again; see {term}`true positive rate`.\n\n"
        "true positive rate\nTPR\n    A share, $a$.\n:::\n"
    )
    contents = project.root / "_toc.yml"
    contents.write_text(contents.read_text() + "  - file: book/glossary\n")
    site = book.build(project).parent
    assert 'href="../../book/glossary.html#term-round"' in (site / "executed" / "a" / "one.html").read_text()
    page = (site / "book" / "glossary.html").read_text()
    assert all(f'id="term-{name}"' in page for name in ("round", target("true positive rate"), "TPR"))
    source = project.root / "notebooks" / "a" / "one.ipynb"
    source.write_text(source.read_text().replace("#term-round", "#term-square"))
    with pytest.raises(book.BuildError, match="term-square"):
        book.build(project)
