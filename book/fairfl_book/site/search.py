"""Search that finds pages, sections, definitions and theorems, and lines of the ledger, also in a book opened from a file.

A Sphinx extension. Sphinx's own search names pages and fetches them for excerpts, which a browser refuses over file://.
This one writes a script, _static/sections.js, with the address, titles and text of everything that can be found, and the
search page loads it with words.js and find.js, which do the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes

from fairfl_book.site import contents
from fairfl_lite import store

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

Entry = tuple[str, str, str, str]
"""Anchor, title, text, and what it is: page, section, definition or theorem."""
LEDGER = "book/ledger"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", _collect)
    app.connect("env-purge-doc", lambda app, env, docname: _found(env).pop(docname, None))
    app.connect("env-merge-info", _merge)
    app.connect("html-page-context", _load)
    app.connect("build-finished", _write)
    return {"version": "1", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}


def entries(document: nodes.document) -> Iterator[Entry]:
    """What of a page can be found: its sections, and in them what has a name of its own, such as a theorem or a term."""
    kind = "page"
    for section in document.findall(nodes.section):
        heading, *rest = section.children
        if isinstance(heading, nodes.title):  # the body of a theorem is a section without one
            own = (child for child in rest if not isinstance(child, nodes.section))
            yield section["ids"][0], heading.astext(), " ".join(filter(None, map(_text, own))), kind
            kind = "section"
    for named in document.findall(lambda node: isinstance(node, nodes.Element) and "realtype" in node and bool(node["ids"])):
        assert isinstance(named, nodes.Element)
        title = f"{named['realtype'].title()} {named.get('title', '')}"
        kind = "definition" if named["realtype"] == "definition" else "theorem"
        yield named["ids"][0], " ".join(title.split()), _text(named), kind
    for glossary in document.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            term = next(item.findall(nodes.term))
            if term["ids"]:
                yield term["ids"][0], term.astext(), _text(item.children[-1]), "definition"


def claims(ledger: Path) -> Iterator[tuple[str, str]]:
    """The lines of the ledger: id, and what they say."""
    if ledger.is_file():
        for row in json.loads(ledger.read_text()):
            yield row["id"], f"{row['says']}. {row['where']}. {row['verdict']}"


def _text(node: nodes.Node) -> str:
    r"""The words of a part of a page: prose with its formulas, as \(a^2\), without code, long displays and raw HTML."""
    left_out = (nodes.comment, nodes.raw, nodes.literal_block)
    words = []
    for leaf in node.findall(nodes.Text):
        text = leaf.astext()
        if isinstance(leaf.parent, nodes.math | nodes.math_block):
            if "&" not in text and r"\\" not in text and r"\begin" not in text:
                words.append(rf"\({text.strip()}\)")
        elif not isinstance(leaf.parent, left_out) and not _is_citation(leaf):
            words.append(text)
    return re.sub(r" (?=[.,;:!?)])", "", " ".join(" ".join(words).split()))


def _is_citation(leaf: nodes.Text) -> bool:
    """Whether a text is the key of a citation, which a reader sees as names and a year."""
    node: Any = leaf
    while node.parent is not None and not isinstance(node, nodes.paragraph):
        node = node.parent
        if node.get("refdomain") == "cite":
            return True
    return False


def _found(env: BuildEnvironment) -> dict[str, list[Entry]]:
    """By page, kept with what Sphinx remembers between builds."""
    return env.__dict__.setdefault("fairfl_sections", {})


def _collect(app: Sphinx, document: nodes.document) -> None:
    _found(app.env)[app.env.docname] = list(entries(document))


def _merge(app: Sphinx, env: BuildEnvironment, docnames: Set[str], other: BuildEnvironment) -> None:
    _found(env).update({name: found for name, found in _found(other).items() if name in docnames})


def _load(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], document: nodes.document | None) -> None:
    if pagename == "search":
        for script in ("sections.js", "words.js", "find.js"):
            app.add_js_file(script)
        app.add_js_file(app.config.mathjax_path, loading_method="async")


def _write(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    among = contents.of(app)
    rows: list[tuple[str, str, str, str, str]] = []
    lines: list[tuple[str, str]] = []
    for docname, found in sorted(_found(app.env).items()):
        if not found:
            continue
        here = app.builder.get_target_uri(docname)
        page = contents.full_title(found[0][1], docname, among)
        for anchor, title, text, kind in found:
            rows.append((f"{here}#{anchor}", page, page if kind == "page" else title, text, kind))
        if docname == LEDGER:
            lines = list(claims(Path(app.srcdir) / "book" / "_static" / "ledger.json"))
    address = json.dumps(app.builder.get_target_uri(LEDGER))
    script = f"{_list('SECTIONS', rows)}{_list('LEDGER', lines)}globalThis.LEDGER_PAGE = {address};\n"
    store.write(Path(app.outdir) / "_static" / "sections.js", script)


def _list(name: str, rows: Iterable[tuple[str, ...]]) -> str:
    data = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"globalThis.{name} = [\n{data}\n];\n"
