"""The ledger: every printed number and claim beside what was measured, judged by rules that could say no.

`claims()` is the whole ledger as a table, `claim(id)` one line of it, `table("fairfed.t1")` a table in the
paper's own layout with ours beside. The rules are in `rules`, one file for each; the cards in papers/ say which applies.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairfl_book import cards
from fairfl_book.ledger.claims import COLUMNS, Claim, keep, kept, key
from fairfl_lite import store

if TYPE_CHECKING:
    import pandas as pd

    from fairfl_book.markup import View

__all__ = [
    "COLUMNS", "Claim", "claim", "claims", "judged", "listing", "only", "prose", "scoreboard", "table", "to_csv",
]  # fmt: skip


def judged(paper: str | None = None) -> list[Claim]:
    """Every claim of a paper, or of all papers, in the order of the cards; kept until card, rules or results change."""
    found: list[Claim] = []
    for name in cards.names() if paper is None else [cards.load(paper).paper]:
        lines = kept(name)
        if len(lines) < len(cards.load(name).entries):
            from fairfl_book.ledger.judge import judge_all

            before = key(name)
            lines = judge_all(name)
            keep(name, lines, before)
        found += lines.values()
    return found


def claim(id: str) -> Claim:
    """One claim by its id; FairFLError names the nearest id when there is none."""
    lines = kept(cards.of(id).paper)
    if id in lines:
        return lines[id]
    from fairfl_book.ledger.judge import judge_one

    return judge_one(id)


def claims(paper: str | None = None) -> pd.DataFrame:
    """The ledger: one row per claim, the columns those of `Claim`."""
    from fairfl_book.ledger import views

    return views.frame(judged(paper))


def scoreboard(paper: str | None = None) -> pd.DataFrame:
    """How many claims have which verdict, by paper and kind, effects first."""
    from fairfl_book.ledger import views

    return views.scoreboard(judged(paper))


def to_csv(path: str | Path, paper: str | None = None) -> Path:
    """Write the ledger as CSV in one step, numbers to six digits."""
    target = Path(path)
    store.write(target, claims(paper).to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    return target


def table(name: str) -> View:
    """A table such as "fairfed.t1" in the paper's layout; each cell: printed number, ours, verdict."""
    from fairfl_book.ledger import views

    return views.table(name)


def listing(prefix: str) -> View:
    """The claims whose id begins with a prefix such as "fairfed.fig4", one per line with what they say."""
    from fairfl_book.ledger import views

    return views.listing(prefix)


def prose(paper: str) -> View:
    """Every claim of a paper that is not a cell of one of its tables."""
    from fairfl_book.ledger import views

    return views.prose(paper)


def only(paper: str, *verdicts: str) -> View:
    """Every claim of a paper, table cells included, with one of these verdicts, and the note to each."""
    from fairfl_book.ledger import views

    return views.only(paper, *verdicts)
