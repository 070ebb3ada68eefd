"""The ledger's page: every claim once, whole without a script, safe from what claims say, and linked both ways."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat
import pytest
import yaml
from small import ROOT

from fairfl_book import cards, ledger
from fairfl_book.ledger import find, views
from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.rules import KINDS, SYMBOLS
from fairfl_book.site import ledger_page as page

LEVEL = Claim(
    "fairfed.t1.adult.eod.alpha0.1.fairfed", "fairfed", "Table 1", "level", "paper", "EOD, FairFed, Adult", "-0.049",
    measured=-0.0411111, low=-0.05, high=-0.03, seeds=20, margin=0.02, verdict="agrees", power=0.87, stand_in=True,
    measured_validation=-0.04, verdict_validation="agrees", rule="level", notebook="notebooks/fairfed/2_tables.ipynb",
    source="results/fairfed/table1.csv: metric eod", note="run `fairfl paper fairfed/table1`",
)  # fmt: skip
NASTY = replace(
    LEVEL, id="fairfed.s6.2.a<b", kind="ordering", rule="ordering", whose="ours", verdict="cannot tell", where="section 6.2",
    says='A < B & "C" <b>bold</b>', printed="1 vs <2>", detail="<i>about</i> 30 runs would decide", stand_in=None,
    power=float("nan"), note="</script><script>alert(1)</script>", source="results/'x'\".csv: <y>", verdict_validation="",
)  # fmt: skip
EFFECT = replace(
    LEVEL, id=f"{LEVEL.id}.effect", kind="effect", rule="effect", printed="+0.10", verdict="differs", detail="ours is 1 lower"
)
BARE = Claim("rankff.t1.mnist.high.fedavg.beta", "rankff", "Table 1", "level", "paper", "β", "0.97", rule="level")
CLAIMS = [LEVEL, NASTY, EFFECT, BARE]  # the two of Table 1 do not stand together
BOOK = {LEVEL.notebook: page.Chapter("../executed/fairfed/2_tables.html", "Tables <1> & 2", frozenset([f"cell-{LEVEL.id}"]))}


class Reader(HTMLParser):
    """The rows that have an id, as the texts of their cells; every id, link, script and heading of a table on the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.tags: list[str] = []
        self.row: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if given.get("id") else []
        self.links += [given["href"]] if tag == "a" and given.get("href") else []
        if tag == "tr":
            self.row = self.rows.setdefault(given["id"], []) if given.get("id") else None
        if tag == "td" and self.row is not None:
            self.row.append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr":
            self.row = None

    def handle_data(self, text: str) -> None:
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += text
        elif self.row:
            self.row[-1] += text


def known(text: str) -> dict[str, Any]:
    return json.loads(next(script for script in Reader(text).scripts if script.startswith("{")))


def column(data: dict[str, Any], name: str) -> list[Any]:
    values = data["rows"][name]
    return [data["words"][name][value] for value in values] if name in data["words"] else values


def test_every_claim_is_once_on_the_page_and_whole_without_a_script() -> None:
    rows = Reader(page.markup(CLAIMS, BOOK)).rows
    assert list(rows) == [LEVEL.id, EFFECT.id, NASTY.id, BARE.id]
    claim, printed, ours, runs, margin, verdict, note = rows[LEVEL.id]
    assert LEVEL.says in claim and LEVEL.where in claim and LEVEL.id in claim
    assert (printed, ours, runs, margin) == ("-0.049", "-0.041 [-0.050, -0.030]", "20", "0.020")
    assert verdict == "✓ agrees the baseline's number would agree too" and note == "run fairfl paper fairfed/table1"
    assert rows[BARE.id][1:] == ["0.97", "-", "-", "-", "… not yet measured", ""]


def test_ids_are_unique_and_can_be_linked_to() -> None:
    read = Reader(page.markup(CLAIMS, BOOK))
    assert len(set(read.ids)) == len(read.ids)
    here = [link.removeprefix("#") for link in read.links if link.startswith("#")]
    assert {f"part-{page.part(c)}" for c in CLAIMS} | {c.id for c in CLAIMS} >= {link.replace("%3C", "<") for link in here}
    entries = [id for name in cards.names() for id in cards.load(name).entries]
    assert len(set(entries)) == len(entries)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", id) for id in entries)


def test_what_a_claim_says_cannot_become_markup() -> None:
    text = page.markup(CLAIMS, BOOK)
    read = Reader(text)
    row = read.rows[NASTY.id]
    assert NASTY.says in row[0] and row[1] == NASTY.printed and NASTY.detail in row[5] and row[6] == NASTY.note
    assert len(read.scripts) == 4 and "alert" not in "".join([read.scripts[0], *read.scripts[2:]])
    plain = page.markup([c for c in CLAIMS if c.id != NASTY.id], BOOK)
    assert "i" not in read.tags and text.count("<b>") - plain.count("<b>") <= 1  # a column of the scoreboard, and none of its own
    assert "Tables &lt;1&gt; &amp; 2" in text
    assert column(known(text), "source")[2] == NASTY.source


def test_what_the_script_filters_by_fits_the_rows() -> None:
    text = page.markup(CLAIMS, BOOK)
    data, rows = known(text), Reader(text).rows
    order = [LEVEL, EFFECT, NASTY, BARE]
    assert list(rows) == [c.id for c in order] and {len(values) for values in data["rows"].values()} == {4}
    for name in ("paper", "kind", "whose", "verdict", "rule", "source"):
        assert column(data, name) == [getattr(c, name) for c in order]
    assert column(data, "part") == ["fairfed.t1", "fairfed.t1", "fairfed.s6", "rankff.t1"]
    assert data["parts"] == {"fairfed.t1": "Table 1", "fairfed.s6": "Section 6", "rankff.t1": "Table 1"}
    assert column(data, "power") == [0.87, 0.87, None, None] and column(data, "stand_in") == [True, True, None, None]
    assert column(data, "printed") == [-0.049, 0.1, None, 0.97]
    assert column(data, "measured")[0] == -0.0411111 and column(data, "measured")[3] is None
    assert column(data, "validation") == ["-0.040, agrees", "-0.040, agrees", "", ""]
    assert set(data["rules"]) >= {c.rule for c in order} and data["papers"] == {"fairfed": "FairFed", "rankff": "RankFF"}


def test_a_row_leads_to_the_cell_of_the_chapter_that_shows_it(tmp_path: Path) -> None:
    data = known(page.markup(CLAIMS, BOOK))
    assert column(data, "href") == ["../executed/fairfed/2_tables.html"] * 3 + [""]
    assert column(data, "anchor") == [f"cell-{LEVEL.id}", f"cell-{LEVEL.id}", "", ""]
    assert (
        data["judging"] == "" and known(page.markup(CLAIMS, {page.JUDGING: page.Chapter("j.html", "J")}))["judging"] == "j.html"
    )
    shown = nbformat.v4.new_output("display_data", {"text/html": f'<td id="cell-{LEVEL.id}" class="x"><tr id="line-{NASTY.id}">'})
    cells = [nbformat.v4.new_markdown_cell('# Its "title"\n\nText'), nbformat.v4.new_code_cell("1", outputs=[shown])]
    (tmp_path / "fairfed").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "fairfed" / "2_tables.ipynb")
    (chapter,) = page.chapters(tmp_path).values()
    assert (chapter.href, chapter.title) == ("../executed/fairfed/2_tables.html", 'Its "title"')
    assert [chapter.anchor(c) for c in CLAIMS] == [f"cell-{LEVEL.id}", f"line-{NASTY.id}", f"cell-{LEVEL.id}", ""]


def test_chapters_that_entries_name_are_in_the_book() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = {chapter["file"] for part in toc["parts"] for chapter in part["chapters"]}
    assert "book/ledger" in files
    named = {e.notebook for paper in cards.names() for e in cards.load(paper).entries.values()} | {page.JUDGING}
    for name in named:
        assert (ROOT / name).is_file() and name.removesuffix(".ipynb").replace("notebooks/", "executed/", 1) in files, name
    assert {path.name for path in (ROOT / "notebooks" / "ledger").glob("*.ipynb")} == {Path(page.JUDGING).name}


def test_papers_stand_in_the_order_of_the_book() -> None:
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
    folders = dict.fromkeys(Path(chapter["file"]).parent.name for part in parts for chapter in part["chapters"])
    assert list(dict.fromkeys(c.paper for c in page.everything())) == [name for name in folders if name in cards.names()]


def test_the_scoreboard_has_effects_first_and_our_questions_apart() -> None:
    assert sorted(verdict for verdicts in page.OUTCOMES.values() for verdict in verdicts) == sorted(SYMBOLS)
    assert KINDS[0] == "effect"
    text = page.markup(CLAIMS, BOOK)
    theirs, ours = re.findall(r"<caption>(.*?)</table>", text, re.S)
    assert theirs.startswith("What the papers claim: 3 entries") and ours.startswith("What this book asks beyond them: 1 entries")
    assert re.findall(r'data-kind="(\w+)"', theirs) == ["effect", "level", "level"]
    assert re.findall(r'data-paper="(\w+)" data-kind="(\w+)" data-whose="(\w+)"', ours) == [("fairfed", "ordering", "ours")]
    assert re.findall(r'data-verdict="([^"]+)"[^>]*>(\d+)<', ours) == [("cannot tell", "1")]


def test_the_ledger_as_json() -> None:
    read = json.loads(page.as_json(CLAIMS))
    assert [line["id"] for line in read] == [c.id for c in CLAIMS]
    assert tuple(read[0]) == ledger.COLUMNS
    assert read[1]["note"] == NASTY.note and read[1]["power"] is None and read[0]["measured"] == -0.0411111


def test_the_page_of_the_book_explains_every_verdict_and_includes_the_rows() -> None:
    text = (ROOT / "book" / "ledger.md").read_text()
    for verdict, sign in SYMBOLS.items():
        assert f"| {sign} {verdict} |" in text
    included = re.search(r"```\{raw\} html\n:file: (\S+)\n", text)
    assert included and (ROOT / "book" / included[1]).resolve() == ROOT / "executed" / "ledger.html"
    for name in ("ledger.js", "ledger.css"):
        assert f"../_static/{name}" in page.markup(CLAIMS, {}) and (ROOT / "book" / "_static" / name).is_file()


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger before anything is measured."""

    def judged(paper: str) -> list[Claim]:
        entries = cards.load(paper).entries.values()
        return [Claim(e.id, e.paper, e.where, e.kind, e.whose, e.says, e.printed, rule=e.rule) for e in entries]

    monkeypatch.setattr(ledger, "judged", judged)


@pytest.mark.usefixtures("unmeasured")
def test_a_table_names_its_rows_and_each_cell_leads_to_its_row() -> None:
    grid, text = cards.load("fairfed").grids["t1"], views.table("fairfed.t1")._repr_html_()
    assert '<th scope="col">metric</th><th scope="col">method</th><th scope="col" colspan="1">alpha = 0.1</th>' in text
    cells = [id for line in grid.ids for id in line]
    assert re.findall(r'<td id="cell-([^"]+)"', text) == cells
    assert re.findall(rf'<a href="{re.escape(views.PAGE)}#([^"]+)">… not yet measured</a>', text) == cells
    built = Path("_build/html")
    assert (built / "executed" / "fairfed" / views.PAGE).resolve() == (built / "book" / "ledger.html").resolve()


@pytest.mark.usefixtures("unmeasured")
def test_a_cell_with_a_standard_deviation_leads_to_both_rows() -> None:
    text = views.table("fair-fate.t1")._repr_html_()
    first = re.search(r'<td id="cell-fair-fate.t1.compas.acc.0.5.fedavg".*?</td>', text)
    assert first and re.findall(r"#([^\"]+)\"", first[0]) == [f"fair-fate.t1.compas.acc.0.5.fedavg{end}" for end in ("", ".sd")]


@pytest.mark.usefixtures("unmeasured")
def test_a_listing_shows_ids_that_lead_to_their_rows() -> None:
    view = views.listing("fairfed.fig4")
    found = [id for id in cards.load("fairfed").entries if id.startswith("fairfed.fig4")]
    read = Reader(view._repr_html_())
    assert [id.removeprefix("line-") for id in read.ids] == found
    assert read.links == [f"{views.PAGE}#{id}" for id in found]
    assert all(name in repr(view) for name in ("runs", "margin", *found))


def test_margins_say_what_they_are() -> None:
    assert views.margin(LEVEL) == "0.020" and views.margin(BARE) == "-"
    assert views.margin(replace(LEVEL, rule="spread", margin=2.0)) == "×2"
    assert views.margin(replace(LEVEL, rule="at most", margin=0.03)) == "≤ 0.030"


@pytest.fixture
def opened(tmp_path: Path, browser: Any) -> Any:
    """Opens the page from a file, after a change to its text, and gives what the browser made of it."""
    (tmp_path / "book").mkdir()
    shutil.copytree(ROOT / "book" / "_static", tmp_path / "_static", ignore=shutil.ignore_patterns("*.csv", "*.json"))

    def open_page(address: str = "", change: tuple[str, str] = ("", "")) -> str:
        body = page.markup(CLAIMS, BOOK).replace(*change)
        (tmp_path / "book" / "ledger.html").write_text(f"<!doctype html><meta charset=utf-8><body>{body}", encoding="utf-8")
        browser.open("about:blank")  # an address that differs only behind its # would not be loaded again
        browser.open(f"file://{tmp_path}/book/ledger.html{address}")
        return str(browser.run("document.documentElement.outerHTML"))

    return open_page


def test_in_a_browser_a_link_shows_its_row_though_a_filter_hides_it(opened: Any) -> None:
    text = opened(f"?kind=level#{EFFECT.id}")
    rows = Reader(text[text.index('class="ledger-live"') :]).rows
    assert list(rows) == [LEVEL.id, EFFECT.id, NASTY.id, BARE.id]
    assert "ledger-plain" not in text and f"The filters were cleared. {EFFECT.id} is shown" in text
    target = text[text.index(f'<tr id="{EFFECT.id}"') :]
    assert "ledger-target" in target[: target.index(">")] and "ledger-more" in target[: target.index(NASTY.where)]
    assert f"fairfl claims {EFFECT.id} --rerun" in target and f"2_tables.html#cell-{LEVEL.id}" in target


def test_in_a_browser_filters_stand_in_the_address_and_marks_are_drawn(opened: Any, browser: Any) -> None:
    text = opened("?whose=ours&find=bold")
    assert list(Reader(text[text.index('class="ledger-live"') :]).rows) == [NASTY.id]
    assert "1 of 4 claims" in text
    picture = "document.querySelector('.ledger-picture')"
    browser.run(f"new Promise((done) => {{ {picture}.addEventListener('toggle', done); {picture}.open = true; }})")
    assert "None of these rows has both" in browser.run(f"{picture}.innerText")
    assert 'href="#fairfed.t1.adult.eod.alpha0.1.fairfed.effect"' in opened("?kind=effect")


SAME = ["alpha 0.1 eod", "α=0.1 EOD", "eod α = .10", "EOD adult FAIRFED alpha0.1"]


@pytest.mark.parametrize("words", SAME)
def test_in_a_browser_spellings_and_orders_of_words_find_the_same_rows_best_first(opened: Any, words: str) -> None:
    text = opened(f"?find={quote(words)}")
    assert list(Reader(text[text.index('class="ledger-live"') :]).rows) == [LEVEL.id, EFFECT.id]


def test_in_a_browser_a_word_that_no_row_has_is_named(opened: Any) -> None:
    text = opened("?find=adult+qwertyuiop")
    assert "No row has “qwertyuiop”" in text
    assert LEVEL.id in list(Reader(text[text.index('class="ledger-live"') :]).rows), "the other words are looked for"
    assert list(Reader((none := opened("?find=qwertyuiop"))[none.index('class="ledger-live"') :]).rows) == []


def test_in_a_browser_the_list_comes_first_and_the_rest_is_folded(opened: Any, browser: Any) -> None:
    opened()
    assert browser.run("[...document.querySelectorAll('#ledger details')].map((one) => one.open)") == [False] * 3
    order = browser.run("[...document.getElementById('ledger').children].map((one) => one.className).filter(Boolean)")
    assert order == ["ledger-tools", "ledger-folds", "ledger-live", "ledger-pager"]


TEXTS = [
    "FairFed, α = 0.50 (Table 1)", "fair-fate.t1.compas.acc.0.5.fedavg", "q-FFL’s λ ≤ 1,024.250", "Σ of ΔEOD: −0.049…[-.05, .10]",
    "fairfed-eta0.2", "É 10rounds α0.1 alpha_0.1 naïve", "E2FL t10 1e-3 5%", "", "ϵ_b beta2 alphabet",
]  # fmt: skip


def test_the_page_and_the_terminal_cut_texts_into_the_same_words(opened: Any, browser: Any) -> None:
    opened()
    for text in TEXTS:
        assert browser.run(f"fairflWords.words({json.dumps(text)})") == find.words(text), text
        ways = [[list(way) for way in term.ways] for term in find.terms(text)]
        assert browser.run(f"fairflWords.terms({json.dumps(text)}).map((one) => one.ways)") == ways, text
    among = find.words("fairfed alpha 0.5 0.049 fair-fate effect")
    for query in ("fair", "fairfate", "fair-fate", "fair-fed", "effects", "0.5", "0.50", "0.04", "0.4", "5", "alpha"):
        (term,) = find.terms(query)
        asked = f"fairflWords.terms({json.dumps(query)})"
        assert browser.run(f"fairflWords.matches({asked}[0], {json.dumps(among)})") == find.matches(term, among), query
        points = browser.run(f"fairflWords.score({asked}, {json.dumps(among)}, {json.dumps(among[2:])})")
        assert points == find.score([term], among, among[2:]), query


def test_in_a_browser_a_broken_script_leaves_the_plain_tables(opened: Any) -> None:
    for change in (('"rows":{', '"rows":{{'), ("../_static/ledger.js", "../_static/nowhere.js")):
        text = opened(change=change)
        assert 'class="ledger-plain"' in text and '<html class="ledger-js"' not in text
    assert '<html class="ledger-js"' in opened()
