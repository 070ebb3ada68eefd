"""Search that finds sections, theorems and claims, also in a book opened from a file.

A Sphinx extension. Sphinx's own search names pages and fetches them for excerpts, which a browser refuses over file://.
This one writes a script, _static/sections.js, with the address, titles and text of everything that can be found, and the
search page loads it with find.js, which does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes

from fairfl_lite import store

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

Entry = tuple[str, str, str]
"""Anchor, title and text."""
LEDGER = "book/ledger"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", _collect)
    app.connect("env-purge-doc", lambda app, env, docname: _found(env).pop(docname, None))
    app.connect("env-merge-info", _merge)
    app.connect("html-page-context", _load)
    app.connect("build-finished", _write)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}


def entries(document: nodes.document) -> Iterator[Entry]:
    """What of a page can be found: its sections, and in them what has a name of its own, such as a theorem."""
    for section in document.findall(nodes.section):
        heading, *rest = section.children
        if isinstance(heading, nodes.title):  # the body of a theorem is a section without one
            own = (child for child in rest if not isinstance(child, nodes.section))
            yield section["ids"][0], heading.astext(), " ".join(filter(None, map(_text, own)))
    for named in document.findall(lambda node: isinstance(node, nodes.Element) and "realtype" in node and bool(node["ids"])):
        assert isinstance(named, nodes.Element)
        title = f"{named['realtype'].title()} {named.get('title', '')}"
        yield named["ids"][0], " ".join(title.split()), _text(named)


def claims(ledger: Path) -> Iterator[Entry]:
    """The rows of the ledger, by their ids."""
    if ledger.is_file():
        for row in json.loads(ledger.read_text()):
            yield row["id"], row["id"], f"{row['says']}. {row['where']}. {row['verdict']}"


def _text(node: nodes.Node) -> str:
    """The words of a part of a page: prose, without code, formulas and raw HTML."""
    left_out = (nodes.comment, nodes.raw, nodes.literal_block, nodes.math, nodes.math_block)
    words = [leaf.astext() for leaf in node.findall(nodes.Text) if not isinstance(leaf.parent, left_out)]
    return " ".join(" ".join(words).split())


def _found(env: BuildEnvironment) -> dict[str, list[Entry]]:
    """By page, kept with what Sphinx remembers between builds."""
    return env.__dict__.setdefault("fairfl_sections", {})


def _collect(app: Sphinx, document: nodes.document) -> None:
    _found(app.env)[app.env.docname] = list(entries(document))


def _merge(app: Sphinx, env: BuildEnvironment, docnames: Set[str], other: BuildEnvironment) -> None:
    _found(env).update({name: found for name, found in _found(other).items() if name in docnames})


def _load(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], document: nodes.document | None) -> None:
    if pagename == "search":
        app.add_js_file("sections.js")
        app.add_js_file("find.js")


def _write(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    rows: list[tuple[str, str, str, str]] = []
    for docname, found in sorted(_found(app.env).items()):
        if not found:
            continue
        here = app.builder.get_target_uri(docname)
        page = found[0][1]
        rows += [(f"{here}#{anchor}", page, title, text) for anchor, title, text in found]
        if docname == LEDGER:
            ledger = Path(app.srcdir) / "book" / "_static" / "ledger.json"
            rows += [(f"{here}#{anchor}", page, title, text) for anchor, title, text in claims(ledger)]
    data = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    store.write(Path(app.outdir) / "_static" / "sections.js", f"globalThis.SECTIONS = [\n{data}\n];\n")
