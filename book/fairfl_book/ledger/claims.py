"""The lines of the ledger, and where judged ones are kept: reading them needs neither results nor statistics."""

from __future__ import annotations

import hashlib
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fairfl_book import cards
from fairfl_lite import imports, store
from fairfl_lite.errors import StorageError

NAN = float("nan")
MANY = 1e12
"""Counts from here on are shown as powers of ten."""


@dataclass(frozen=True)
class Claim:
    """One line of the ledger: an entry of a card, what was measured, and the verdict.

    whose : "paper" where the paper says it, "ours" where this book asks. printed : as it stands there. measured, low, high,
    seeds : ours, over that many independent runs, with the settings selected as we read the paper; for orderings and
    trends the gain, positive as claimed. margin, verdict, detail, power, against, stand_in : see `rules.base.Finding`.
    measured_validation, verdict_validation : the same when settings are selected on validation data. says : the entry in
    words. quote : a few of the paper's own, where the reading matters. source : where the measured number is read. Numbers
    that do not exist are nan, `seeds` then 0.
    """

    id: str
    paper: str
    where: str
    kind: str
    whose: str
    says: str
    printed: str
    measured: float = NAN
    low: float = NAN
    high: float = NAN
    seeds: int = 0
    margin: float = NAN
    verdict: str = "not yet measured"
    detail: str = ""
    power: float = NAN
    against: float = NAN
    stand_in: bool | None = None
    measured_validation: float = NAN
    verdict_validation: str = ""
    rule: str = ""
    notebook: str = ""
    source: str = ""
    quote: str = ""
    note: str = ""

    def __str__(self) -> str:
        numbers = f"printed {self.printed or '-'}, ours {shown(self, self.measured)} {interval(self)}".strip()
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.id}: {self.says}; {numbers}: {self.verdict}{detail}"


COLUMNS = tuple(Claim.__dataclass_fields__)


def shown(c: Claim, value: float) -> str:
    """A number to three decimals; whole counts without, percentages as the paper prints them."""
    if value != value:
        return "-"
    if c.printed.endswith("%") and c.kind in ("level", "effect", "arithmetic", "count", "draw"):
        return f"{100 * value:.1f}%"
    if abs(value) >= MANY:
        return f"{value:.2e}"
    if float(value).is_integer() and (abs(value) >= 1 or c.kind in ("arithmetic", "count")):
        return f"{value:,.0f}" if "," in c.printed or abs(value) >= 10_000 else f"{value:.0f}"
    return f"{value:.3f}" if abs(value) >= 0.0005 or value == 0 else f"{value:.1g}"


def interval(c: Claim) -> str:
    return f"[{shown(c, c.low)}, {shown(c, c.high)}]" if c.low == c.low else ""


def key(paper: str) -> str:
    """What the verdicts on a paper depend on: its card, its results, and the code that judges."""
    parts = hashlib.sha256(cards.text(paper).encode())
    folder = store.root() / "results" / paper
    for file in sorted(folder.glob("*.csv*")):
        parts.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    parts.update(imports.digest("fairfl_book.ledger.judge").encode())
    return parts.hexdigest()[:24]


def kept(paper: str) -> dict[str, Claim]:
    """The claims of a paper that were judged before, by id, as long as nothing they depend on has changed."""
    stored = store.kept(_file(paper))
    found = stored.get("claims", []) if stored.get("key") == key(paper) else []
    return {line["id"]: _claim(line) for line in found}


def keep(paper: str, claims: dict[str, Claim], judged_by: str) -> None:
    """`judged_by` : the key as it was before they were judged."""
    lines = [{k: _plain(v) for k, v in vars(claim).items()} for claim in claims.values()]  # in the card's order
    with suppress(StorageError):  # where nothing can be written, they are judged each time
        store.keep(_file(paper), {"key": judged_by, "claims": lines})


def _claim(line: dict[str, Any]) -> Claim:
    fields: dict[str, Any] = {name: NAN if value is None and name in _FLOATS else value for name, value in line.items()}
    return Claim(**fields)


_FLOATS = {name for name, field in Claim.__dataclass_fields__.items() if field.type == "float"}


def _file(paper: str) -> Any:
    return store.root() / ".fairfl" / "ledger" / f"{paper}.json"


def _plain(value: Any) -> Any:
    """JSON has no nan."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
