"""Links from notebooks to a term of the glossary.

A Sphinx extension. Pages in Markdown use the role {term}, which JupyterLab cannot follow from one file into another. Notebooks
link to the page and name the term, `[rank](../../book/glossary.md#term-rank)`: in Lab this opens the glossary, and in the book
it leads to the entry. The builder knows the headings of a page as such targets; this adds the terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", _name_terms)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _name_terms(app: Sphinx, document: nodes.document) -> None:
    terms = {name: (term.line or 0, name, term.astext()) for term in document.findall(nodes.term) for name in term["ids"]}
    if terms:
        app.env.metadata[app.env.docname].setdefault("myst_slugs", {}).update(terms)
