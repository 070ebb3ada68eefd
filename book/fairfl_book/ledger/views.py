"""The ledger as tables for pages, terminals and comparisons."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import quote

import pandas as pd

from fairfl_book import cards, ledger, markup
from fairfl_book.ledger.claims import COLUMNS, Claim, interval, shown
from fairfl_book.ledger.rules import KINDS, SYMBOLS
from fairfl_book.markup import View, css
from fairfl_lite.errors import FairFLError, choose, nearest

PAGE = "../../book/ledger.html"
"""The ledger's page, as seen from the page of a chapter."""


def frame(claims: Sequence[Claim]) -> pd.DataFrame:
    """The claims as a table, the columns those of `Claim`."""
    return pd.DataFrame([vars(c) for c in claims], columns=list(COLUMNS))


def scoreboard(claims: Sequence[Claim]) -> pd.DataFrame:
    """How many claims have which verdict, by paper and kind, effects first."""
    counts = frame(claims).groupby(["paper", "kind", "verdict"]).size().unstack(fill_value=0)
    order = [(paper, kind) for paper in cards.names() for kind in KINDS if (paper, kind) in counts.index]
    counts = counts.loc[order, [v for v in SYMBOLS if v in counts]].rename_axis(columns=None)
    return counts.assign(all=counts.sum(axis=1))


def table(name: str) -> View:
    """A table such as "fairfed.t1" in the paper's layout; each cell: printed number, ours, verdict.

    Where standard deviations are printed they follow the number, each with its own verdict. A verdict links to its row
    in the ledger, and the row back to the cell.
    """
    grids = {f"{card.paper}.{grid.id}": (card, grid) for card in map(cards.load, cards.names()) for grid in card.grids.values()}
    if name not in grids:
        near = nearest(name, grids, cutoff=0)
        raise FairFLError(f"There is no table {name!r}; the nearest is {near}.")
    card, grid = grids[name]
    judged = {c.id: c for c in ledger.judged(card.paper)}
    cells = [[[judged[i] for i in (id, f"{id}.sd") if i in judged] for id in line] for line in grid.ids]

    def label(value: str) -> str:
        return card.labels.get(value, value)

    columns, rows = [tuple(map(label, c)) for c in grid.columns], [tuple(map(label, r)) for r in grid.rows]
    head = ""
    for depth, key in enumerate(grid.column_keys):
        corner = f'<th colspan="{len(grid.row_keys)}"></th>'
        if depth == len(grid.column_keys) - 1:  # the names of the rows stand over the rows, those of columns in the headings
            corner = "".join(f'<th scope="col">{html.escape(k)}</th>' for k in grid.row_keys)
        groups = ((f"{key} = {text}" if text.replace(".", "").isdigit() else text, n) for text, n in _groups(columns, depth))
        names = "".join(f'<th scope="col" colspan="{n}">{html.escape(text)}</th>' for text, n in groups)
        head += f"<tr>{corner}{names}</tr>"
    body = "".join(
        "<tr>" + "".join(f'<th scope="row">{html.escape(part)}</th>' for part in row) + "".join(map(_cell, line)) + "</tr>"
        for row, line in zip(rows, cells, strict=True)
    )
    title = f"{grid.where}. {grid.title}: printed, ours, verdict"
    plain = pd.DataFrame(
        [[_plain(c) for c in line] for line in cells],
        index=[" ".join(r) for r in rows],
        columns=[" ".join(c) for c in columns],
    )
    everything = [c for line in cells for cell in line for c in cell]
    return _view(title, f"<thead>{head}</thead><tbody>{body}</tbody>", plain, everything)


def listing(prefix: str) -> View:
    """The claims whose id begins with a prefix such as "fairfed.fig4", one per line with what they say."""
    found = [c for c in ledger.judged(prefix.partition(".")[0]) if c.id.startswith(prefix)]
    if not found:
        near = nearest(prefix, cards.load(prefix.partition(".")[0]).entries, cutoff=0)
        raise FairFLError(f"No claim begins with {prefix!r}; the nearest id is {near}.")
    return _lines(f"Claims {prefix}", found)


def prose(paper: str) -> View:
    """Every claim of a paper that is not a cell of one of its tables."""
    entries = cards.load(paper).entries
    return _lines("Claims of the prose", [c for c in ledger.judged(paper) if not entries[c.id].keys])


def only(paper: str, *verdicts: str) -> View:
    """Every claim of a paper, table cells included, with one of these verdicts, and the note to each."""
    for verdict in verdicts:
        choose(verdict, SYMBOLS, "verdict")
    return _lines(" and ".join(verdicts).capitalize(), [c for c in ledger.judged(paper) if c.verdict in verdicts], notes=True)


def runs(c: Claim) -> str:
    return str(c.seeds) if c.seeds else "-"


def margin(c: Claim) -> str:
    """How far apart may still be called the same; a factor for spreads, the bound itself for bounds."""
    if c.margin != c.margin:
        return "-"
    return f"×{c.margin:g}" if c.rule == "spread" else f"≤ {shown(c, c.margin)}" if c.rule == "at most" else shown(c, c.margin)


def link(c: Claim, text: str) -> str:
    """A link from the page of a chapter to a claim's row in the ledger."""
    return f'<a href="{PAGE}#{quote(c.id)}">{html.escape(text)}</a>'


def _lines(title: str, found: Sequence[Claim], notes: bool = False) -> View:
    names = ("claim", "printed", "ours", "runs", "margin", "verdict", *(("note",) if notes else ()))
    head = "".join(f'<th scope="col">{h}</th>' for h in names)
    body = "".join(
        f'<tr><td class="fairfl-text" id="line-{html.escape(c.id)}">{html.escape(c.says or c.id)}'
        f"<br><small>{html.escape(c.where)}, {link(c, c.id)}</small></td><td>{html.escape(c.printed)}</td>"
        f"<td>{shown(c, c.measured)}<br><small>{interval(c)}</small></td><td>{runs(c)}</td><td>{margin(c)}</td>"
        f'<td class="fairfl-verdict {css(c.verdict)}" title="{html.escape(c.note)}">{SYMBOLS[c.verdict]} {c.verdict}'
        + (f"<br><small>{html.escape(c.detail)}</small></td>" if c.detail else "</td>")
        + (f'<td class="fairfl-text">{html.escape(c.note)}</td>' if notes else "")
        + "</tr>"
        for c in found
    )
    plain = pd.DataFrame(
        {
            "printed": [c.printed for c in found],
            "ours": [shown(c, c.measured) for c in found],
            "interval": [interval(c) for c in found],
            "runs": list(map(runs, found)),
            "margin": list(map(margin, found)),
            "verdict": [c.verdict for c in found],
        },
        index=[c.id for c in found],
    )
    return _view(title, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", plain, found, "fairfl-lines")


def _view(title: str, rows: str, plain: pd.DataFrame, shown: Sequence[Claim], layout: str = "") -> View:
    counts = {v: sum(c.verdict == v for c in shown) for v in SYMBOLS}
    legend = "".join(f'<span class="{css(v)}">{SYMBOLS[v]} {v} {n}</span>' for v, n in counts.items() if n)
    words = ", ".join(f"{SYMBOLS[v]} {v} {n}" for v, n in counts.items() if n)
    return markup.table(title, rows, legend, f"{title}\n{plain.to_string()}\n{words}", layout)


def _cell(cell: Sequence[Claim]) -> str:
    hint = html.escape(" | ".join(f"{c.id}: {c.verdict}. {interval(c)} {c.note}".strip() for c in cell))
    printed = " ±".join(html.escape(c.printed) for c in cell)
    ours = " ±".join(f"<b>{shown(c, c.measured)}</b>" for c in cell)
    verdicts = "<br>± ".join(link(c, f"{SYMBOLS[c.verdict]} {c.verdict}") for c in cell)
    return (
        f'<td id="cell-{html.escape(cell[0].id)}" class="{css(cell[0].verdict)}" title="{hint}">'
        f'<span class="fairfl-printed">{printed}</span><br>{ours}<br>{verdicts}</td>'
    )


def _plain(cell: Sequence[Claim]) -> str:
    return " ±".join(f"{c.printed} {shown(c, c.measured)} {SYMBOLS[c.verdict]}" for c in cell)


def _groups(columns: Sequence[tuple[str, ...]], depth: int) -> list[tuple[str, int]]:
    """Headings of one level and how many columns each spans; a heading ends where a heading above it does."""
    groups: list[tuple[tuple[str, ...], int]] = []
    for column in columns:
        head = column[: depth + 1]
        if groups and groups[-1][0] == head:
            groups[-1] = (head, groups[-1][1] + 1)
        else:
            groups.append((head, 1))
    return [(head[-1], n) for head, n in groups]
