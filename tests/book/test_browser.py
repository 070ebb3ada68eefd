"""The book in a real browser: every page on a phone and on a wide screen, in the light and in the dark.

Screenshots of every page are kept in _build/screens, for people to look at.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from small import ROOT

pytestmark = pytest.mark.slow

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<style>body {{ margin: 0; background: white; color: black }} td, th {{ white-space: nowrap }}
.box {{ overflow-x: auto }} .fixed {{ position: sticky; left: 0; background: white }} {style}</style></head>
<body><form><input type="search" aria-label="Search"></form><nav aria-label="Main"><a href="#main">Page</a></nav>
<main id="main"><article><p>Words <a href="#main">to read</a>.</p>{body}</article></main></body></html>"""
DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
ROW = "".join(f"<td>{number} and more</td>" for number in range(30))
WIDE = "<div style='width: 2000px'>as wide as two screens, and words up to its end, which nobody sees"
NUMBERED = "<div style='position: relative'><span class='eqno' style='position: absolute; {where}'>(1)</span>{formula}</div>"
FORMULA = "<mjx-container><mjx-math style='display: inline-block; width: 300px'>x</mjx-math></mjx-container>"


def look(browser: chromium.Browser, folder: Path, body: str = "", style: str = "", page: str = GOOD) -> list[str]:
    (folder / "page.html").write_text(page.format(body=body, style=style))
    return chromium.faults(browser, folder)


def test_a_good_page_has_no_faults(browser, tmp_path):
    table = f"<div class='box'><table><tbody><tr><th class='fixed'>Adult</th>{ROW}</tr></tbody></table></div>"
    picture = f"<img alt='A dot.' src='{DOT}'>"
    assert look(browser, tmp_path, table + picture + NUMBERED.format(where="right: 0", formula=FORMULA)) == []


TOOLTIP = """<script>document.querySelector("main a").addEventListener("focus", () => document.body.insertAdjacentHTML(
  "beforeend", "<div class=tooltip style='position: absolute; left: 1400px; width: 999px; color: #999'>Toggle</div>"))</script>"""


def test_what_opens_where_the_focus_is_does_not_count(browser, tmp_path):
    """A theme's tooltip opens half a second after the focus came: on a slow machine while the page is looked at."""
    page = GOOD.replace("</body>", "{body}</body>").replace("</p>{body}", "</p>")
    assert look(browser, tmp_path, TOOLTIP, page=page) == []
    assert browser.run("document.querySelectorAll('.tooltip').length") == 1, "it was opened"
    assert browser.run("document.activeElement === document.body"), "and the focus is let go"
    assert browser.run("document.querySelector(':hover')") is None, "the pointer is nowhere"


PLANTED = {
    "sideways": (f"{WIDE}</div>", "", "the page scrolls sideways"),
    "cut": (f"<div style='overflow: hidden'><p style='white-space: nowrap'>{'cut off ' * 60}</p></div>", "", "is cut by"),
    "cut below": ("<div style='overflow: hidden; height: 10px'><p>One.</p><p>Two.</p></div>", "", "is cut by"),
    "cell": (
        "<table style='table-layout: fixed; width: 60px'><tr><td>much longer</td><td>b</td></tr></table>",
        "",
        "leaves its cell",
    ),
    "column": ("<p style='white-space: nowrap'>far too long a line</p>", "article { width: 60px }", "leaves the column"),
    "first column": (f"<div class='box'><table><tbody><tr><th>Adult</th>{ROW}</tr></tbody></table></div>", "", "scrolls away"),
    "board": (f"<div class='box'><table class='ledger-board'><tr>{ROW}</tr></table></div>", "", "the scoreboard is wider"),
    "table as text": ("<p>| metric | why | |—|—| | EOD | it matters |</p>", "", "a table is left as text"),
    "equation": (NUMBERED.format(where="left: 100px", formula=FORMULA), "", "equation (1) runs behind its number"),
    "alternative text": (f"<img src='{DOT}'>", "", "a picture has no alternative text"),
    "picture": ("<img alt='Not there.' src='nowhere.png'>", "", "a picture is not there"),
    "contrast": ("<p style='color: #999'>faint</p>", "", "contrast 2.85 of <p>"),
    "contrast behind": ("<p style='background: rgba(0, 0, 0, 0.6)'>on grey</p>", "", "contrast 3."),
    "contrast of opacity": ("<p style='opacity: 0.4'>faded</p>", "", "contrast 2."),
    "contrast in the dark": ("<p>dim</p>", "html[data-theme=dark] p { color: #bbb }", "1440 px, dark: contrast"),
    "console": ("<script>console.error('it broke')</script>", "", "console error: it broke"),
    "script": ("<script>nothing.there()</script>", "", "script fails: ReferenceError"),
    "request": ("<img alt='From elsewhere.' src='http://127.0.0.1:9/a.png'>", "", "external request: http://127.0.0.1:9/a.png"),
    "focus": ("", "a:focus { outline: none }", "focus is not visible on <a>"),
    "order": ("", "", "Tab reaches main instead of search, navigation, main"),
}


@pytest.mark.parametrize(("body", "style", "says"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_found(browser, tmp_path, body, style, says, request):
    page = GOOD
    if request.node.callspec.id == "order":
        page = page.replace("<body>", "<body><main><a href='#'>first</a></main>")
    found = look(browser, tmp_path, body, style, page)
    assert any(says in fault for fault in found), found


def test_every_page_of_the_book(browser, site):
    screens = ROOT / "_build" / "screens"
    shutil.rmtree(screens, ignore_errors=True)
    found = chromium.faults(browser, site, screens)
    kept = len(list(screens.rglob("*.jpg")))
    assert kept == len(chromium.pages(site)) * len(chromium.WIDTHS) * len(chromium.THEMES)
    assert not found, "\n".join([f"{len(found)} faults; pictures of the pages are in {screens.relative_to(ROOT)}.", *found])


MEASURED = """(() => {
  const article = document.querySelector("article.bd-article"), height = article.getBoundingClientRect().height;
  const cells = [...article.querySelectorAll(".cell_input")].filter((cell) => !cell.closest("details:not([open])"));
  return [height, cells.reduce((sum, cell) => sum + cell.getBoundingClientRect().height, 0) / height];
})()"""
SCREENS, CODE = 20, 1 / 6


def test_no_chapter_is_longer_than_its_frame_or_a_wall_of_code(browser, site):
    browser.size(1440)
    found = {}
    for page in sorted(site.glob("executed/*/*.html")):
        if page.parent.name != "data":
            browser.open(page.resolve().as_uri())
            found[page.relative_to(site / "executed").as_posix()] = browser.run(MEASURED)
    assert len(found) > 20
    long = {name: f"{height / chromium.HEIGHT:.1f} screens, {code:.0%} visible code" for name, (height, code) in found.items()
            if height > SCREENS * chromium.HEIGHT or code > CODE}  # fmt: skip
    assert not long, f"Split these chapters, or fold their code: {long}"


@pytest.mark.parametrize("width", [390, 1440])
def test_the_ledgers_search_and_its_first_row_are_on_the_first_screen(browser, site, width):
    browser.size(width)
    browser.open((site / "book" / "ledger.html").resolve().as_uri())
    tops = [f"document.querySelector('{one}').getBoundingClientRect().top" for one in ("#ledger-find", ".ledger-live tbody tr")]
    search, row = browser.run(f"[{', '.join(tops)}]")
    assert 0 < search < row < chromium.HEIGHT * 3 / 4


@pytest.fixture(params=["file", "http"])
def address(request, site) -> Iterator[str]:
    """The book opened as a file, and from a server."""
    if request.param == "file":
        yield site.resolve().as_uri()
        return
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


SOUGHT = {
    "a method": ("fair-fate momentum", "executed/fair-fate/"),
    "a theorem": ("theorem 3.1", "executed/rankff/1_ranks.html#thm-rankff-3-1"),
    "a claim": ("fairfed.t1.adult.eod.alpha0.1.fairfed", "book/ledger.html#fairfed.t1.adult.eod.alpha0.1.fairfed"),
    "a section": ("what we decided compas", "executed/data/compas.html#what-we-decided"),
}


@pytest.mark.parametrize(("words", "leads"), SOUGHT.values(), ids=SOUGHT)
def test_search_leads_to_the_place(browser, address, words, leads):
    browser.size(1440)
    browser.open(f"{address}/search.html?q={words.replace(' ', '+')}")
    found = browser.run(
        "[...document.querySelectorAll('#search-results li')].map((one) => [one.querySelector('a').href, one.innerText])"
    )
    assert found[0][0].startswith(f"{address}/{leads}"), found[:3]
    assert browser.complaints(address) == []
    browser.open(found[0][0])
    anchor = found[0][0].partition("#")[2]
    assert browser.run(f"Boolean(document.getElementById({anchor!r}))"), "the place is on the page"
    assert browser.complaints(address) == []


def test_search_shows_the_words_where_they_stand_and_says_when_there_are_none(browser, site):
    address = f"{site.resolve().as_uri()}/search.html?q="
    browser.open(f"{address}momentum")
    assert browser.run("document.querySelector('#search-results mark').innerText.toLowerCase()").startswith("momentum")
    browser.open(f"{address}qwertyuiop")
    assert "Nothing has" in browser.run("document.getElementById('search-results').innerText")
