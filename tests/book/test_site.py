"""The built book: works from a file with no network, warnings stop it, and no page is stale."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import psutil
import pytest
from small import ROOT, code, notebook
from waiting import FOR_EVER, left, until

from fairfl_book.notebooks import runner
from fairfl_book.site import book
from fairfl_book.site import html as press_site

pytestmark = pytest.mark.slow

REMOTE = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|href|data)=\"(?:https?:)?//[^\"]*\""
    r"|@import\s+url\(['\"]?https?:|url\(['\"]?https?://",
)
LOCAL = re.compile(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"([^\"#?]+)[^\"]*\"")


def pages(site: Path) -> list[Path]:
    # _static holds templates of the theme, which no page loads.
    return [path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts]


def check_offline(site: Path) -> None:
    found = pages(site)
    assert len(found) > 3
    for path in [*found, *site.rglob("*.css")]:
        match = REMOTE.search(path.read_text())
        assert match is None, f"{path.relative_to(site)} loads {match and match.group()}"
    for path in found:
        for target in LOCAL.findall(path.read_text()):
            if not target.startswith("data:"):
                assert (path.parent / target).exists(), f"{path.relative_to(site)} lacks {target}"
    assert (site / "searchindex.js").stat().st_size > 0
    assert (site / "search.html").is_file()
    scripts = [re.findall(r'<script[^>]*src="[^"]*mathjax/tex-[a-z]+\.js"', path.read_text()) for path in found]
    assert any(scripts), "maths is rendered by a script that is in the book"


class Links(HTMLParser):
    """The places of a page that a link can lead to, its links, and the links that the ledger's script makes of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places, self.links, self.data = {"", "top"}, [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links += [given["href"]] if tag in ("a", "area") and given.get("href") else []
        self.data = tag == "script" and given.get("id") == "ledger-data"

    def handle_data(self, data):
        if self.data:
            known = json.loads(data)
            columns = [[known["words"][name][number] for number in known["rows"][name]] for name in ("href", "anchor")]
            self.links += {f"{href}#{anchor}" for href, anchor in zip(*columns, strict=True) if href} | {known["judging"]}
            self.data = False


def links_to_nowhere(site: Path) -> list[str]:
    """Links within the book, in text, raw HTML, outputs and the ledger, whose file or place on the page is not there."""

    @cache
    def page(path: Path) -> Links:
        return Links(path.read_text())

    found = []
    for path in pages(site):
        for link in page(path).links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            there = file.is_file() and (file.suffix != ".html" or unquote(target.fragment) in page(file).places)
            if not there:
                found.append(f"{path.relative_to(site)}: {link}")
    return found


TITLE = nbformat.v4.new_markdown_cell("# One\n\n$$a^2 + b^2 = c^2$$\n\nSee {numref}`fig-a` and {cite}`fairfed`.")
SHOW = (
    "import matplotlib.pyplot as plt\nfrom fairfl_book import figures\nfig, ax = plt.subplots()\n"
    "ax.plot([1, 2], [x, 1])\n"
    "figures.show(fig, name='fig-a', caption='A line, $x^2$.', alt='A line that rises.')"
)


def small_book(make_project, title=TITLE):
    return make_project({"a/one": notebook(title, code("x: float = 0.5  # 0..1: start", "parameters"), SHOW)})


def test_a_small_book_has_numbered_figures_and_rebuilds_only_what_changed(make_project):
    project = small_book(make_project)
    index = book.build(project)
    assert index == project.root / "_build" / "html" / "index.html"
    site = index.parent
    check_offline(site)
    page = (site / "executed" / "a" / "one.html").read_text()
    assert 'alt="A line that rises."' in page
    assert re.search(r'caption-number">Fig. 1 ', page)
    assert "# Parameters" not in page
    assert page.count('type="search"') <= 1, "one search box"
    sections = (site / "_static" / "sections.js").read_text()
    assert '["executed/a/one.html#one", "One", "One", ' in sections, "what search finds"
    assert "sections.js" not in page, "only the search page loads it"
    before = (project.root / "executed" / "a" / "one.ipynb").stat().st_mtime_ns
    book.build(project)
    assert (project.root / "executed" / "a" / "one.ipynb").stat().st_mtime_ns == before
    assert runner.why(runner.job(project, "a/one")) == []
    intro = project.root / "book" / "intro.md"
    intro.write_text(intro.read_text() + "\nAdded while the clock was set back.\n")
    os.utime(intro, (1e9, 1e9))
    book.build(project)
    assert "Added while the clock was set back." in (site / "book" / "intro.html").read_text()


def test_a_link_to_nowhere_is_found(make_project):
    """The builder warns of links in Markdown, and lets raw HTML and outputs pass."""
    raw = "# One\n\n<a href='../../intro.html'>no such page</a>, <a href='#nothing'>no such place</a>, <a href='#one'>here</a>."
    links = '<a href="two.html">gone</a> <a href="../../book/intro.html#little-book">there</a>'
    shown = f"from IPython.display import HTML\nHTML({links!r})"
    project = make_project({"a/one": notebook(nbformat.v4.new_markdown_cell(raw), shown)})
    site = book.build(project).parent
    assert links_to_nowhere(site) == [f"executed/a/one.html: {link}" for link in ("../../intro.html", "#nothing", "two.html")]

    data = {
        "words": {"href": ["one.html", ""], "anchor": ["one", "cell-x", ""]},
        "rows": {"href": [0, 0, 1], "anchor": [0, 1, 2]},
    }
    script = f'<script type="application/json" id="ledger-data">{json.dumps(data | {"judging": "judge.html"})}</script>'
    (site / "executed" / "a" / "ledger.html").write_text(script)
    assert sorted(links_to_nowhere(site))[:2] == [f"executed/a/ledger.html: {link}" for link in ("judge.html", "one.html#cell-x")]


def test_links_in_markdown_to_nowhere_stop_the_build(make_project):
    links = "[gone](two.md) [gone](../../book/three.md) [gone](#four) {doc}`gone <five>`"
    project = small_book(make_project, nbformat.v4.new_markdown_cell(f"# One\n\n{links} {{numref}}`fig-a`"))
    with pytest.raises(book.BuildError) as refused:
        book.build(project)
    assert all(target in str(refused.value) for target in ("two.md", "three.md", "four", "five"))


def test_a_warning_stops_the_build_every_time(make_project):
    """The builder remembers pages and would say nothing the second time."""
    project = small_book(make_project, nbformat.v4.new_markdown_cell("# One\n\nSee {numref}`nowhere`."))
    for _ in range(2):
        with pytest.raises(book.BuildError, match="nowhere"):
            book.build(project)
        assert not (project.root / "_build" / "html").exists()


def test_a_warning_stops_the_build_after_one_that_was_killed(make_project, monkeypatch):
    """The builder has read the page and kept it; nobody was left to hear of the warning, or to clear what it keeps."""
    project = small_book(make_project, nbformat.v4.new_markdown_cell("# One\n\nSee {numref}`nowhere`."))
    usual = subprocess.run

    def killed(*arguments, **options):
        usual(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(press_site.subprocess, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            book.build(project)
    assert (project.root / "_build" / ".doctrees" / "environment.pickle").is_file()
    with pytest.raises(book.BuildError, match="nowhere"):
        book.build(project)


BUILD = """
import sys
from pathlib import Path
from fairfl_book.notebooks import runner
from fairfl_book.site import html
root = Path(sys.argv[1])
html.BUILDER = (sys.executable, "-c", sys.argv[2], str(root / "input"))
html._build(runner.Project(root))
"""


BUILDER = f"""
import select, sys
from pathlib import Path
from fairfl_book.processes import die_with_parent
ended = bool(select.select([sys.stdin], [], [], 0)[0])
die_with_parent()
path = Path(sys.argv[1])
path.with_suffix(".part").write_text("ended" if ended else "open")
path.with_suffix(".part").rename(path)
{FOR_EVER}
"""


def test_a_builder_ends_with_the_command_that_started_it(make_project):
    """Otherwise one whose command was killed would write into the pages of the next."""
    project = make_project({})
    command, env = [sys.executable, "-c", BUILD, str(project.root), BUILDER], {**os.environ, "FAIRFL_ROOT": str(project.root)}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE) as process:  # ours stays open, theirs must not
        until((project.root / "input").is_file, process)
        assert (project.root / "input").read_text() == "open", "what ends the builder has not come while its command is there"
        started = psutil.Process(process.pid).children()
        process.kill()
        assert started and not left(started)


@pytest.mark.parametrize(
    ("cell", "word"),
    [
        (code("x: int = 1", "parameters", "hide-input"), "Parameters"),
        (code("figures.show(fig)\nassert x", "hide-input"), "Plot"),
        (code("a = 1\nassert a", "hide-input"), "Checks"),
        (code("if x:\n    assert a", "hide-input"), "Checks"),
        (code("check('sum', right=1)", "check", "hide-input"), "Check of the answer"),
        (code("ledger.listing('fairfed.s3')", "hide-input", "hide-output"), "Claims in the ledger"),
        (code("ledger.listing('fairfed.s3')", "hide-cell"), "Claims in the ledger"),
        (code("def f(): pass", "hide-cell"), "Code"),
        (code("figures.show(fig)"), None),
    ],
)
def test_a_fold_says_what_is_in_it(cell, word):
    (made,) = book.page(notebook(cell)).cells
    assert made.metadata.get("mystnb", {}).get("code_prompt_show") == word


def test_a_folded_table_and_the_code_of_one_that_is_shown_are_told_apart():
    words = []
    for tags in (["hide-input"], ["hide-input", "hide-output"], ["hide-cell"]):
        cell = code("frame", *tags)
        cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/html": "<table></table>"}, execution_count=1)]
        words.append(book.page(notebook(cell)).cells[0].metadata["mystnb"]["code_prompt_show"])
    assert words == ["Code of the table", "Table", "Table"]


def test_a_notebook_that_was_removed_has_no_page(make_project):
    project = small_book(make_project)
    old = [project.root / path for path in ("executed/old.ipynb", "_build/html/executed/old.html")]
    for path in old:
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    book.build(project)
    assert not any(path.exists() for path in old)


def test_the_book_itself(site):
    project = runner.Project(ROOT)
    check_offline(site)
    assert links_to_nowhere(site) == []
    for name in project.names():
        assert runner.why(runner.job(project, name)) == [], name
        page = (site / "executed" / f"{name}.html").read_text()
        assert "Traceback" not in page, name
        pictures = re.findall(r"<img[^>]*_images/[^>]*>", page)
        assert all(re.search(r'alt="[^"]{10,}"', picture) for picture in pictures), name
