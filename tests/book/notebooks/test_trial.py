"""A run with other values has a page of its own; the builder starts when it must, and only then."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from small import code, notebook, small_project

from fairfl_book.notebooks import runner
from fairfl_book.site import book, html, trial

pytestmark = pytest.mark.slow

SHOW = (
    "import matplotlib.pyplot as plt\nfrom fairfl_book import figures\nfig, ax = plt.subplots()\nax.plot([1, 2], [x, 1])\n"
    "figures.show(fig, name='fig-a', caption='A line.', alt='A line that rises.')"
)
ONE = (
    nbformat.v4.new_markdown_cell("# One\n\nSee {numref}`fig-a`, {cite}`fairfed` and [two](two.ipynb)."),
    code("x: float = 0.5  # 0..1: start\nn: int = 1  # 1..9: count", "parameters"),
    "print('x is', x)\nprint(n)",
    SHOW,
)
TWO = (nbformat.v4.new_markdown_cell("# Two\n\nSee {numref}`fig-a` and [the line](#fig-a)."), "print('two')")


@pytest.fixture(scope="module")
def little(tmp_path_factory):
    """A book of two notebooks, built once; tests leave it built."""
    notebooks = {"a/one": notebook(*ONE), "a/two": notebook(*TWO)}
    project = small_project(tmp_path_factory.mktemp("book") / "project", notebooks)
    book.build(project)
    return project


def tried(project: runner.Project, **values: str) -> Path:
    job = runner.job(project, "a/one", overrides=values)
    assert runner.run([job]) == []
    return trial.make(job)


def led(page: Path) -> set[Path]:
    """The files that a page's addresses lead to."""
    found = re.findall(r'\s(?:href|src|action|data-content_root)="([^"#?:]+)[^":]*"', page.read_text())
    return {(page.parent / path).resolve() for path in found}


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_changed_values_have_a_page_in_the_books_look_beside_the_book(little):
    before = snapshot(html.html(little)) | snapshot(little.root / "executed")
    page = tried(little, x="0.75")
    text = page.read_text()
    assert page.is_relative_to(little.root / "_build" / "trials")
    banner = re.sub(r"<[^>]+>|\s+", " ", text[text.index("A trial, not a page") :])
    assert re.search(r"parameter +default +in this run +x +0.5 +0.75 +n +1 +the same", banner)
    assert "x is 0.75" in text
    beside = text[text.index("x is 0.75") :]
    assert beside.index("With the default values") < beside.index("x is 0.5"), "the old result is under the new one"
    assert text.count("With the default values:") == 2, "one for the text, one for the figure, none for what is as it was"
    assert len(re.findall(r'<img[^>]*alt="A line that rises."', text)) == 2 and text.count('id="fig-a"') == 1
    assert "Fig. 1" in text
    missing = [path for path in led(page) if not path.exists()]
    assert missing == []
    default = html.html(little) / "executed" / "a" / "one.html"
    assert {default, default.with_name("two.html"), html.html(little) / "_static" / "book.css"} <= led(page)
    assert "x is 0.75" in page.with_suffix(".ipynb").read_text(), "what the page offers to download is the trial"
    assert snapshot(html.html(little)) | snapshot(little.root / "executed") == before, "the book is as it was"
    book.build(little)
    assert "x is 0.5" in default.read_text()
    assert not [path for path in html.html(little).rglob("*.html") if "fairfl-trial" in path.read_text()]
    assert page.is_file()


def test_default_values_written_out_are_the_default_run(little):
    assert runner.job(little, "a/one", overrides={"x": "0.5"}).slot == "quick"
    with pytest.raises(AssertionError, match="page of its own"):
        book.publish(runner.job(little, "a/one", overrides={"x": "0.75"}))


def test_a_trial_without_a_book_says_so(make_project):
    project = make_project({"a/one": notebook(*ONE), "a/two": notebook(*TWO)})
    page = tried(project, x="0.75", n="2")
    text = page.read_text()
    assert "The book is not built yet" in text
    assert "the same" not in text and text.count("With the default values:") == 0, "nothing is stored of this notebook"
    assert (project.root / "_build" / "trials" / "_static" / "book.css") in led(page)
    assert not (project.root / "executed").exists()
    assert not html.html(project).exists()


def test_nothing_changed_starts_no_builder(little, monkeypatch):
    book.build(little)
    monkeypatch.setattr(html, "_build", lambda project: pytest.fail("the builder was started"))
    monkeypatch.setattr(book, "publish", lambda job: pytest.fail("a page was made again"))
    book.build(little)


def test_one_changed_chapter_rebuilds_one_chapter(little):
    before = snapshot(html.html(little) / "executed")
    source = little.source("a/two")
    source.write_text(source.read_text().replace("print('two')", "print('second')"))
    book.build(little)
    changed = [Path(path).name for path, was in before.items() if snapshot(html.html(little) / "executed")[path] != was]
    assert changed == ["two.html"]
    assert "second" in (html.html(little) / "executed" / "a" / "two.html").read_text()


@pytest.mark.parametrize("what", ["deleted", "changed", "added", "style", "config", "title"])
def test_what_is_not_as_it_was_built_is_built_again(little, what):
    page = html.html(little) / "executed" / "a" / "one.html"
    extra = html.html(little) / "executed" / "a" / "three.html"
    match what:
        case "deleted":
            page.unlink()
        case "changed":
            page.write_text(page.read_text().replace("x is 0.5", "x is 0.6"))
        case "added":
            extra.write_text("a page of nothing")
        case "style":
            with (little.root / "book" / "_static" / "book.css").open("a") as style:
                style.write("p { color: red }\n")
        case "config":
            config = little.root / "_config.yml"
            config.write_text(config.read_text().replace("title: Fair", "title: Very fair"))
        case "title":
            source = little.source("a/two")
            source.write_text(source.read_text().replace("# Two", "# Twice"))
    assert not html.current(little) or what == "title"
    book.build(little)
    assert html.current(little)
    assert "x is 0.5" in page.read_text()
    assert not extra.exists()
    if what == "title":
        assert "Twice" in page.read_text(), "the list of chapters is on every page"
