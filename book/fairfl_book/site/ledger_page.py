"""The ledger's page: every claim in plain tables, and beside them what book/_static/ledger.js searches, sorts and draws."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fairfl_book import cards, ledger
from fairfl_book.ledger.claims import Claim, interval, shown
from fairfl_book.ledger.rules import KINDS, RULES, SYMBOLS
from fairfl_book.ledger.views import margin, runs
from fairfl_book.markup import css
from fairfl_lite import store
from fairfl_lite.errors import FairFLError

JUDGING = "notebooks/ledger/how_it_judges.ipynb"
"""The chapter that explains the rules."""
OUTCOMES = {
    "agrees, confirmed, holds": ("agrees", "confirmed", "holds"),
    "differs, reversed, does not hold": ("differs", "reversed", "does not hold"),
    **{
        verdict: (verdict,)
        for verdict in ("no effect", "holds by construction", "cannot tell", "not testable", "not yet measured")
    },
}
"""The columns of the scoreboard: verdicts that say the same of claims of different kinds are counted together."""
ASKED = {"paper": "What the papers claim", "ours": "What this book asks beyond them"}
PLACES = {
    "t": "Table", "fig": "Figure", "s": "Section", "app": "Appendix", "alg": "Algorithm", "thm": "Theorem", "lemma": "Lemma",
    "claim": "Claim", "prop": "Proposition", "ex": "Example", "fn": "Footnote", "eq": "Equation",
}  # fmt: skip
"""How the second word of an id begins, and what that means."""
INSTEAD = {"level": "the baseline's number would agree too", "effect": "the effect of another row would agree too"}
"""What `stand_in` says of a claim, in words."""
HEADINGS = ("claim", "printed", "ours", "runs", "margin", "verdict", "note")
SUFFIXES = re.compile(r"\.(?:sd|effect|contribution)$")


@dataclass(frozen=True)
class Chapter:
    """A page of the book as the ledger links to it: its address from the ledger's page, its title, and what it shows."""

    href: str
    title: str
    anchors: frozenset[str] = frozenset()

    def anchor(self, c: Claim) -> str:
        """Where on this page a claim is shown: a line of a list, a cell of a table, or nowhere in particular."""
        wanted = (f"cell-{c.id}", f"line-{c.id}", f"cell-{SUFFIXES.sub('', c.id)}")
        return next((name for name in wanted if name in self.anchors), "")


def chapters(executed: Path) -> dict[str, Chapter]:
    """The pages in executed/ by the notebook that each was made of."""
    found = {}
    for path in sorted(executed.rglob("*.ipynb")):
        name, text = path.relative_to(executed).with_suffix("").as_posix(), path.read_text(encoding="utf-8")
        prose = ("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
        title = next(prose, name).partition("\n")[0].lstrip("# ")
        anchors = frozenset(re.findall(r'id=\\"((?:cell|line)-[^"\\]+)\\"', text))
        found[f"notebooks/{name}.ipynb"] = Chapter(f"../executed/{name}.html", title, anchors)
    return found


def write(project: Path) -> None:
    """The body of the page into executed/, and beside the book's style the ledger as CSV and JSON."""
    claims = everything()
    ledger.to_csv(project / "book" / "_static" / "ledger.csv")
    store.write(project / "book" / "_static" / "ledger.json", as_json(claims))
    store.renew(project / "executed" / "ledger.html", markup(claims, chapters(project / "executed")))


def everything() -> list[Claim]:
    """Every claim of every paper, papers in the order of the book and claims in that of the card."""
    judged = {c.id: c for c in ledger.judged()}
    return [judged[id] for paper in in_order() for id in cards.load(paper).entries]


def in_order() -> list[str]:
    """The papers in the order of their chapters in the book; those without a chapter come last."""
    contents = (cards.FOLDER.parents[1] / "_toc.yml").read_text(encoding="utf-8")
    return sorted(cards.names(), key=lambda paper: f"{contents}executed/{paper}/".index(f"executed/{paper}/"))


def as_json(claims: Iterable[Claim]) -> str:
    """The claims as a JSON list, one on each line; numbers to six digits, null where there is none."""
    lines = (json.dumps({k: _number(v) for k, v in vars(c).items()}, ensure_ascii=False) for c in claims)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def markup(claims: Sequence[Claim], book: Mapping[str, Chapter]) -> str:
    """The page's body as HTML. It is whole without a script: a scoreboard, and a table for each part of each paper."""
    claims = [c for found in _parts(claims).values() for c in found]
    boards = "".join(_scoreboard([c for c in claims if c.whose == whose], whose) for whose in ASKED)
    sections = "".join(_paper(paper, list(found), book) for paper, found in groupby(claims, lambda c: c.paper))
    return f"""<link rel="stylesheet" href="../_static/ledger.css">
<script>document.documentElement.classList.add("ledger-js")</script>
<div id="ledger">
<details class="ledger-summary" open><summary>Scoreboard</summary><div class="ledger-boards">{boards}</div></details>
<div class="ledger-plain"><h2>Every claim</h2>{sections}</div>
<script type="application/json" id="ledger-data">{_embedded(claims, book)}</script>
<script src="../_static/words.js" defer></script>
<script src="../_static/ledger.js" defer onerror="document.documentElement.classList.remove('ledger-js')"></script>
</div>
"""


def part(c: Claim) -> str:
    """The part of the paper that a claim is filed under: the first two words of its id, e.g. fairfed.t1."""
    return ".".join(c.id.split(".")[:2])


def place(c: Claim) -> str:
    """That part in words."""
    name = part(c).partition(".")[2]
    grid = cards.load(c.paper).grids.get(name)
    if grid:
        return grid.where
    words = re.fullmatch(r"([a-z]+?)(\d+|[A-Z])", name)
    return f"{PLACES[words[1]]} {words[2]}" if words and words[1] in PLACES else PLACES.get(name, name).capitalize()


def label(paper: str) -> str:
    """The name by which people call a paper."""
    citation = cards.load(paper).citation
    return str(citation.get("name") or citation["title"].partition(":")[0])


def _parts(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """The claims by part, each where its first claim stands; those of one paper together."""
    found: dict[str, dict[str, list[Claim]]] = {}
    for c in claims:
        found.setdefault(c.paper, {}).setdefault(part(c), []).append(c)
    return {key: group for parts in found.values() for key, group in parts.items()}


def _scoreboard(claims: Sequence[Claim], whose: str) -> str:
    given = {c.verdict for c in claims}
    outcomes = {words: verdicts for words, verdicts in OUTCOMES.items() if given & set(verdicts)}
    head = "".join(f'<th scope="col"><b>{_sign(words)}</b> <span>{words}</span></th>' for words in outcomes)
    body = ""
    for paper, group in groupby(claims, lambda c: c.paper):
        counts = Counter((c.kind, c.verdict) for c in group)
        body += f'<tbody><tr><th scope="rowgroup" colspan="{len(outcomes) + 2}">{html.escape(label(paper))}</th></tr>'
        for kind in KINDS:
            numbers = [sum(counts[kind, verdict] for verdict in verdicts) for verdicts in outcomes.values()]
            if any(numbers):
                cells = "".join(_count(words, n) for words, n in zip(outcomes, numbers, strict=True))
                row = f'data-paper="{paper}" data-kind="{kind}" data-whose="{whose}"'
                body += f'<tr {row}><th scope="row">{kind}</th>{cells}<td data-verdict="">{sum(numbers)}</td></tr>'
        body += "</tbody>"
    return (
        f'<div class="ledger-scroll" tabindex="0" role="region" aria-label="{ASKED[whose]}"><table class="ledger-board">'
        f"<caption>{ASKED[whose]}: {len(claims):,} entries</caption>"
        f'<thead><tr><th scope="col">kind</th>{head}<th scope="col">all</th></tr></thead>{body}</table></div>'
    )


def _count(words: str, n: int) -> str:
    return f'<td data-verdict="{words}" class="{css(OUTCOMES[words][0])}">{n}</td>' if n else "<td>·</td>"


def _sign(words: str) -> str:
    return " ".join(dict.fromkeys(SYMBOLS[verdict] for verdict in OUTCOMES[words]))


def _paper(paper: str, claims: Sequence[Claim], book: Mapping[str, Chapter]) -> str:
    parts = _parts(claims)
    index = " · ".join(f'<a href="#part-{quote(key)}">{html.escape(place(found[0]))}</a>' for key, found in parts.items())
    tables = "".join(_part(key, found, book) for key, found in parts.items())
    return f"<h3>{html.escape(label(paper))}</h3><p>{index}</p>{tables}"


def _part(key: str, claims: Sequence[Claim], book: Mapping[str, Chapter]) -> str:
    pages = dict.fromkeys(book[c.notebook] for c in claims if c.notebook in book)
    links = ", ".join(f'<a href="{quote(page.href)}">{html.escape(page.title)}</a>' for page in pages)
    title = f"{label(claims[0].paper)}, {place(claims[0])}"
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADINGS)
    return (
        f'<h4 id="part-{html.escape(key)}">{html.escape(title)}</h4>' + (f"<p>Shown in {links}.</p>" if links else "") + "<table>"
        f"<thead><tr>{head}</tr></thead><tbody>\n{''.join(map(_row, claims))}</tbody></table>"
    )


def _row(c: Claim) -> str:
    id, between = html.escape(c.id), interval(c)
    detail = "; ".join(filter(None, (c.detail, INSTEAD.get(c.kind, "") if c.stand_in else "")))
    return (
        f'<tr id="{id}"><td>{html.escape(c.says or c.id)}<br><small>{html.escape(c.where)}</small> '
        f'<a href="#{quote(c.id)}">{id}</a></td>'
        f"<td>{html.escape(c.printed)}</td><td>{shown(c, c.measured)}{f' <small>{between}</small>' if between else ''}</td>"
        f'<td>{runs(c)}</td><td>{margin(c)}</td><td class="{css(c.verdict)}">{SYMBOLS[c.verdict]} {c.verdict}'
        f"{f' <small>{html.escape(detail)}</small>' if detail else ''}</td><td>{_note(c)}</td></tr>\n"
    )


def _note(c: Claim) -> str:
    words = f"The paper: “{c.quote}”. {c.note}" if c.quote else c.note
    return re.sub("`(.+?)`", r"<code>\1</code>", html.escape(words))


def _embedded(claims: Sequence[Claim], book: Mapping[str, Chapter]) -> str:
    """What the script knows of each row, in their order: columns of words as numbers of a list of words, columns of numbers."""
    columns = {name: list(values) for name, values in _columns(claims, book)}
    words: dict[str, list[str]] = {}
    for name, values in columns.items():
        if any(isinstance(value, str) for value in values):
            words[name] = list(dict.fromkeys(values))
            numbered = {word: number for number, word in enumerate(words[name])}
            columns[name] = [numbered[value] for value in values]
    known = {
        "words": words,
        "rows": columns,
        "papers": {paper: label(paper) for paper in dict.fromkeys(c.paper for c in claims)},
        "parts": {part(c): place(c) for c in claims},
        "kinds": KINDS,
        "verdicts": SYMBOLS,
        "outcomes": OUTCOMES,
        "rules": {name: " ".join(rule.text.split()) for name, rule in RULES.items()},
        "judging": book[JUDGING].href if JUDGING in book else "",
    }
    return json.dumps(known, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _columns(claims: Sequence[Claim], book: Mapping[str, Chapter]) -> Iterator[tuple[str, Iterable[Any]]]:
    for name in ("paper", "kind", "whose", "verdict", "rule", "source"):
        yield name, (getattr(c, name) for c in claims)
    yield "part", map(part, claims)
    pages = [book.get(c.notebook) for c in claims]
    yield "chapter", (page.title if page else "" for page in pages)
    yield "href", (page.href if page else "" for page in pages)
    yield "anchor", (page.anchor(c) if page else "" for c, page in zip(claims, pages, strict=True))
    yield "validation", (_validation(c) for c in claims)
    yield "printed", map(_printed, claims)
    for name in ("measured", "low", "high", "seeds", "margin", "power", "against", "stand_in"):
        yield name, (_number(getattr(c, name)) for c in claims)


def _validation(c: Claim) -> str:
    return f"{shown(c, c.measured_validation)}, {c.verdict_validation}" if c.verdict_validation else ""


def _printed(c: Claim) -> Any:
    """The printed number where there is one to draw or to sort by."""
    try:
        return _number(float(cards.number(c.printed)))
    except FairFLError:
        return None


def _number(value: Any) -> Any:
    """Floats to six digits; JSON has no nan."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if abs(value) < float("inf") else None
