"""The order of the book as a reader sees it: parts that open and close, chapters numbered by part, and the core path.

A Sphinx extension. Parts and chapters come from _toc.yml, the core path from `fairfl_core` in _config.yml, and nowhere else.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive

from fairfl_book.notebooks import minutes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

EARLY, LATE = 100, 900
"""Before and after the handlers of Sphinx and of the theme, which have 500."""
NUMBER = re.compile(r'<span class="section-number">.*?</span>|[A-Z\d]+(?:\.\d+)*\. ')
"""The number before a title, as the theme gives it to its buttons."""
CHAPTERS = "executed/"
"""Pages that are made from notebooks: only these are core or advanced."""


@dataclass(frozen=True)
class Part:
    """A part of the book: its caption, its number ("" where its chapters have none, a letter for an appendix), its pages."""

    caption: str
    number: str
    chapters: tuple[str, ...]
    """Its pages at the first level."""
    pages: frozenset[str]
    """Those, and the pages below them."""

    @property
    def appendix(self) -> bool:
        return self.number.isalpha()


def parts(contents: Path) -> list[Part]:
    """The parts of a table of contents, in their order; a book without parts has none."""
    found: list[Part] = []
    given = yaml.safe_load(contents.read_text(encoding="utf-8")).get("parts", [])
    for part in given:
        chapters = tuple(chapter["file"] for chapter in part["chapters"])
        before = [one for one in found if one.number and one.appendix == part["caption"].startswith("Appendix")]
        number = "" if "numbered" not in part else str(len(before) + 1)
        if number and part["caption"].startswith("Appendix"):
            number = chr(ord("A") + len(before))
        found.append(Part(part["caption"], number, chapters, frozenset(_files(part["chapters"]))))
    return found


def _files(chapters: Sequence[dict[str, Any]]) -> Iterator[str]:
    for chapter in chapters:
        yield chapter["file"]
        yield from _files(chapter.get("sections", []))


def home(page: str, among: Sequence[Part]) -> Part | None:
    """The part that a page belongs to."""
    return next((part for part in among if page in part.pages), None)


def place(page: str, among: Sequence[Part], core: Sequence[str]) -> str:
    """The line under a title: whether the page is on the core path, and where in its part it is; nothing for other pages."""
    part = home(page, among)
    if part is None or not part.number or not page.startswith(CHAPTERS):
        return ""
    kind = "Appendix" if part.appendix else "Core" if page in core else "Advanced"
    name = part.caption.partition(": ")[2] or part.caption
    return f"{kind} · {name}, {part.chapters.index(page) + 1} of {len(part.chapters)}"


def full_title(title: str, page: str, among: Sequence[Part]) -> str:
    """A title that says its paper, for where a page is named outside its part: "E2FL: Adult: both groups in every client"."""
    part = home(page, among)
    if part is None or not part.number or part.appendix or not page.startswith(CHAPTERS):
        return title
    return title if part.caption.lower() in title.lower() else f"{part.caption}: {title}"


def read_minutes(page: Path) -> minutes.Minutes:
    """How long a page takes, of its notebook or its Markdown."""
    text = page.read_text(encoding="utf-8")
    return minutes.measured(json.loads(text)["cells"]) if page.suffix == ".ipynb" else minutes.of_text(text)


# ---- the extension ----


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("fairfl_core", [], "env", types=(list,))
    app.add_directive("core-path", CorePath)
    app.connect("env-get-updated", _restore, priority=EARLY)
    app.connect("env-get-updated", _number, priority=LATE)
    app.connect("html-page-context", _dress, priority=LATE)
    app.connect("doctree-resolved", _list_core)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}


def of(app: Sphinx) -> list[Part]:
    """The parts of the book that is built."""
    return parts(Path(app.srcdir, app.config.external_toc_path))


def _restore(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Put back the numbers that Sphinx gave, so that it sees which of them have changed since."""
    if plain := env.__dict__.pop("fairfl_plain_numbers", None):
        env.toc_secnumbers, env.toc_fignumbers = plain
    return []


def _number(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Turn running numbers of chapters (14) into those by part (3.2), in titles, contents, figures and equations."""
    env.__dict__["fairfl_plain_numbers"] = deepcopy(env.toc_secnumbers), deepcopy(env.toc_fignumbers)
    for part in of(app):
        for position, page in enumerate(part.chapters, start=1):
            if not part.number or page not in env.titles:
                continue
            new = (part.number, position)

            def renumbered(old: Any, new: tuple[Any, ...] = new) -> Any:
                return (*new, *tuple(old)[1:]) if old else old

            for element in (env.titles[page], *env.tocs[page].findall(nodes.reference)):
                if element.get("secnumber"):
                    element["secnumber"] = list(renumbered(element["secnumber"]))
            for numbers in (env.toc_secnumbers.get(page, {}), *env.toc_fignumbers.get(page, {}).values()):
                numbers.update({anchor: renumbered(number) for anchor, number in numbers.items()})
    return []


def _dress(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], document: nodes.document | None) -> None:
    """Fold the parts of the sidebar, put the line under the title, and have other places name the paper."""
    among, core = of(app), app.config.fairfl_core
    if "generate_toctree_html" in context:
        plain = context["generate_toctree_html"]

        def folded(kind: str, **options: Any) -> Any:
            made = plain(kind, **options)
            if kind == "sidebar":
                fold(made, among, {context["pathto"](page) for page in core} | ({"#"} if pagename in core else set()))
            return made

        context["generate_toctree_html"] = folded
    if document is None:
        return
    if line := place(pagename, among, core):
        words = f'<p class="fairfl-place">{html.escape(line)}</p>'
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{words}", 1)
    context["title"] = full_title(context["title"], pagename, among)
    for beside, found in zip(("prev", "next"), _neighbours(pagename, among), strict=True):
        if found and context.get(beside):
            shown = context[beside]["title"]
            number = match[0] if (match := NUMBER.match(shown)) else ""
            context[beside] = {**context[beside], "title": number + full_title(shown.removeprefix(number), found, among)}


def _neighbours(page: str, among: Sequence[Part]) -> tuple[str, str]:
    """The chapters before and after a page."""
    every = ["", *(one for part in among for one in part.chapters), ""]
    return (every[every.index(page) - 1], every[every.index(page) + 1]) if page in every[1:-1] else ("", "")


def fold(sidebar: Any, among: Sequence[Part], core: set[str]) -> None:
    """Make each part of a sidebar one that opens and closes, open where the reader is; mark the chapters of the core path.

    `core` has the addresses of these chapters as they are in the sidebar.
    """
    if sidebar.select_one("details.fairfl-part"):
        return  # the theme keeps what it made, and shows it in several places
    numbers = {part.caption: part.number for part in among}
    captions = sidebar.find_all("p", class_="caption", recursive=False)
    for caption in captions:
        chapters = caption.find_next_sibling("ul")
        number = numbers.get(caption.get_text().strip(), "")
        if number.isdigit():
            caption.span.insert(0, f"{number}. ")
        part = sidebar.new_tag("details", attrs={"class": "fairfl-part"})
        if chapters.select_one(".current") or (caption is captions[0] and not sidebar.select_one(".current")):
            part["open"] = ""
        for link in chapters.find_all("a"):
            if link.get("href") in core:
                mark = sidebar.new_tag("span", attrs={"class": "fairfl-core", "role": "img", "aria-label": "core path"})
                mark.string = "●"
                link.extend([" ", mark])
        caption.insert_before(part)
        caption.name = "span"
        summary = sidebar.new_tag("summary")
        summary.append(caption.extract())
        part.extend([summary, chapters.extract()])
    if captions and core:
        legend = sidebar.new_tag("p", attrs={"class": "fairfl-legend"})
        legend.string = "● on the core path"
        sidebar.append(legend)


class core_path(nodes.General, nodes.Element):
    """Where the core path is listed."""


class CorePath(Directive):
    """`{core-path}`: the chapters of the core path with their minutes, and the sum of these."""

    def run(self) -> list[nodes.Node]:
        return [core_path()]


def _list_core(app: Sphinx, document: nodes.document, page: str) -> None:
    for here in list(document.findall(core_path)):
        listed = nodes.enumerated_list(enumtype="arabic", prefix="", suffix=".")
        among, total = of(app), minutes.Minutes(0)
        for name in app.config.fairfl_core:
            if name not in app.env.titles:
                continue
            took = read_minutes(Path(app.env.doc2path(name)))
            total = minutes.Minutes(total.reading + took.reading, total.exercises + took.exercises)
            address = app.builder.get_relative_uri(page, name)
            title = full_title(app.env.titles[name].astext(), name, among)
            link = nodes.reference("", title, internal=True, refuri=address)
            listed += nodes.list_item("", nodes.paragraph("", "", link, nodes.Text(f": {took}")))
        hours = [round(part / 60) for part in (total.reading, total.exercises)]
        words = f"Together they take about {hours[0]} hours to read, and {hours[1]} more with the exercises."
        here.replace_self([listed, nodes.paragraph("", words)])
