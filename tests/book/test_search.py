"""The search of the book: pages and definitions first, the ledger behind them, formulas whole, advice where nothing is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from docutils import nodes
from small import ROOT
from sphinx import addnodes

from fairfl_book.site import search


def section(name: str, title: str, *content: nodes.Node) -> nodes.section:
    return nodes.section("", nodes.title("", title), *content, ids=[name])


def test_sections_definitions_and_terms_of_a_page_can_be_found() -> None:
    page = nodes.document(None, None)  # type: ignore[arg-type]
    term = nodes.term("", "margin", ids=["term-margin"])
    entry = nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", "How far apart.")))
    defined = nodes.admonition("", nodes.section("", nodes.paragraph("", "Nobody envies."), ids=["inside"]), ids=["def-envy"],
                               realtype="definition", title="Envy")  # fmt: skip
    proved = nodes.admonition("", nodes.section("", nodes.paragraph("", "It ends.")), ids=["thm-end"], realtype="theorem")
    page += section("page", "The page", nodes.paragraph("", "Words."), section("part", "A part", defined, proved))
    page += addnodes.glossary("", nodes.definition_list("", entry))
    found = {anchor: (title, text, kind) for anchor, title, text, kind in search.entries(page)}
    assert found["page"] == ("The page", "Words.", "page") and found["part"][2] == "section"
    assert found["def-envy"] == ("Definition Envy", "Nobody envies.", "definition")
    assert found["thm-end"][2] == "theorem" and found["term-margin"] == ("margin", "How far apart.", "definition")


def test_texts_keep_their_formulas_and_leave_code_and_citations_out() -> None:
    cited = addnodes.pending_xref("", nodes.inline("", "fairfed2023"), refdomain="cite")
    long = nodes.math_block("", r"a &= b \\ c &= d")
    text = nodes.paragraph(
        "", "", nodes.Text("Where "), nodes.math("", r"\alpha = 0.5"), nodes.Text(", see "), cited, nodes.Text(".")
    )
    body = nodes.container("", text, long, nodes.literal_block("", "x = 1"), nodes.math_block("", "e = mc^2"))
    assert search._text(body) == r"Where \(\alpha = 0.5\), see. \(e = mc^2\)"


RESULTS = rf"Here Ditto has $\(\alpha + \beta\)$ more. {'filler ' * 60}and then momentum \(\frac{{a b}}{{c}}\) ends"
PLACES = [
    ["a.html#ditto", "Ditto", "Ditto", "How clients keep a model of their own.", "page"],
    ["b.html#results", "Tables", "Results", RESULTS, "section"],
    ["b.html#tables", "Tables", "Tables", "Ditto, Ditto, Ditto, Ditto and Ditto again.", "page"],
    ["g.html#term-ditto", "Glossary", "ditto", "A method.", "definition"],
]  # fmt: skip
LINES = [[f"effl.t1.ditto.{number}", f"Ditto's accuracy, seed {number}. Table 1. agrees"] for number in range(60)]
PAGE = """<!doctype html><meta charset="utf-8"><body><div id="search-results"></div><script>
const Search = {{}}; globalThis.SECTIONS = {places}; globalThis.LEDGER = {lines}; globalThis.LEDGER_PAGE = "book/ledger.html";
</script><script src="words.js"></script><script src="find.js"></script></body>"""


@pytest.fixture
def ask(tmp_path: Path, browser: Any) -> Any:
    """Searches the small book for words; gives the addresses found, the headings, and the words of the page."""
    for name in ("words.js", "find.js"):
        shutil.copy(ROOT / "book" / "_static" / name, tmp_path)
    (tmp_path / "search.html").write_text(PAGE.format(places=json.dumps(PLACES), lines=json.dumps(LINES)), encoding="utf-8")
    browser.open((tmp_path / "search.html").as_uri())

    def asked(words: str) -> tuple[list[str], list[str], str]:
        browser.run(f"Search.performSearch({json.dumps(words)})")
        seen = "[...document.querySelectorAll('#search-results {}')].map((one) => {})"
        links = browser.run(seen.format("a", "one.getAttribute('href')"))
        return links, browser.run(seen.format("h2", "one.innerText")), browser.run("document.body.innerText")

    return asked


def test_pages_and_definitions_come_first_and_the_ledger_is_one_group_behind(ask: Any) -> None:
    links, headings, text = ask("Ditto")
    assert links[:4] == ["a.html#ditto", "g.html#term-ditto", "b.html#tables", "b.html#results"]
    assert links[4:9] == [f"book/ledger.html#effl.t1.ditto.{number}" for number in range(5)]
    assert links[9:] == ["book/ledger.html?find=Ditto"] and headings == ["Search results", "In the ledger"]
    assert "4 places in the book and 60 lines of the ledger" in text


def test_the_id_of_a_line_leads_to_it(ask: Any) -> None:
    links, *_ = ask("effl.t1.ditto.17")
    assert links == ["book/ledger.html#effl.t1.ditto.17"]


def test_an_excerpt_is_around_the_word_and_a_formula_in_it_stays_whole(ask: Any, browser: Any) -> None:
    for word in ("momentum", "alpha", "α"):
        assert ask(word)[0] == ["b.html#results"], word
    ask("momentum")
    assert browser.run("document.querySelector('#search-results .math').innerText") == r"\(\frac{a b}{c}\)"
    assert browser.run("document.querySelector('#search-results mark').innerText") == "momentum"
    assert not browser.run("document.querySelector('#search-results p.context').innerText").startswith("Here")


def test_where_nothing_is_found_the_page_says_what_to_try(ask: Any) -> None:
    links, _, text = ask("momentun")
    assert links == ["?q=momentum"] and "No page has the word “momentun”" in text and "did you mean momentum?" in text
    links, _, text = ask("qwertyuiop")
    assert links == [] and "Nothing has “qwertyuiop”" in text and "another spelling" in text
    links, _, text = ask("momentum seed")
    assert links == [] and "no place has them all: try fewer words" in text
