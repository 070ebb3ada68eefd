"""From an entry of a card and the stored results to a judged claim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from fairfl_book import cards
from fairfl_book.cards import Entry, PaperCard
from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.numbers import NAN
from fairfl_book.ledger.rules import Finding, check, rule_of
from fairfl_book.ledger.rules.facts import file_of, selectors
from fairfl_book.ledger.series import Case, Missing, Results, Unknown, words
from fairfl_lite.errors import FairFLError

SIDES = ("better", "worse", "from", "to")
GOOD = ("agrees", "confirmed", "holds")
"""What rules say where all is as claimed."""


@cache
def card(paper: str) -> PaperCard:
    """The card of a paper, with entries that its rules can judge."""
    loaded = cards.load(paper)
    check(loaded)
    return loaded


@dataclass(frozen=True)
class Judge:
    """Judges the entries of a card by what `files` has."""

    card: PaperCard
    files: Results

    def claim(self, entry: Entry) -> Claim:
        """The entry as a line of the ledger; FairFLError names the line of one that asks for no column."""
        try:
            return self._claim(entry)
        except Unknown as error:
            raise FairFLError(f"{self.card.at(*self.card.places.get(entry.id, ()))}: {entry.id}: {error}") from error

    def _claim(self, entry: Entry) -> Claim:
        spec = entry.spec
        found, notes = Finding(), [spec.get("not_testable", ""), spec.get("note", "")]
        if "margin_reason" in spec:
            notes.append(f"the margin is {spec['margin_reason']}")
        try:
            if _measurable(entry):
                found = self.find(entry, self.card.selection)
                notes.append(found.note)
        except Missing as missing:
            if spec.get("until_measured"):
                return self.meanwhile.claim(self.meanwhile.card.entries[entry.id])
            if "unless_measured" in spec:
                found = Finding(verdict="not testable")
                notes.append(spec["unless_measured"])
            elif "not_testable" not in spec:
                notes.append(f"{missing}: run `{self.card.command.format(results=missing.file or file_of(entry))}`")
        if "would_decide" in spec and found.verdict != "not yet measured":  # measured, but not what was printed
            found = replace(found, verdict="cannot tell", detail=spec["would_decide"], power=NAN, against=NAN, stand_in=None)
        if "by_construction" in spec and found.verdict in GOOD:  # what fails all the same keeps its verdict
            because = spec["by_construction"]
            found = replace(found, verdict="holds by construction", detail=because, power=NAN, against=NAN, stand_in=None)
        if "not_testable" in spec:
            found = replace(found, verdict="not testable", detail="", power=NAN, against=NAN, stand_in=None)
        measured, verdict = self.validation(entry)
        return Claim(
            id=entry.id,
            paper=entry.paper,
            where=entry.where,
            kind=entry.kind,
            whose=entry.whose,
            says=entry.says,
            printed=entry.printed,
            rule=entry.rule,
            notebook=entry.notebook,
            source=_source(entry),
            quote=spec.get("quote", ""),
            measured_validation=measured,
            verdict_validation=verdict,
            **{**vars(found), "note": "; ".join(filter(None, notes))},
        )

    @cached_property
    def meanwhile(self) -> Judge:
        """Judges the entries that say so by what stands in until their own runs are there."""
        return replace(self, card=replace(self.card, entries={id: until_measured(e) for id, e in self.card.entries.items()}))

    def find(self, entry: Entry, selection: str) -> Finding:
        return rule_of(entry).judge(Case(self.card, entry, self.files, selection))

    def validation(self, entry: Entry) -> tuple[float, str]:
        """The number and the verdict when settings are selected on validation data, where that makes a difference."""
        sources = self._sources(entry)
        if not sources or entry.rule in ("draw", "checked", "count", "identity", "exists") or any(map(_selects, sources)):
            return NAN, ""
        try:
            if any("selection" not in self.files.frame(e.spec["results"]) for e in sources):
                return NAN, ""
            found = self.find(entry, "validation")
        except Missing:
            return NAN, ""
        return found.measured, "" if "not_testable" in entry.spec else found.verdict

    def _sources(self, entry: Entry) -> list[Entry]:
        """The entries that name the results by which this one is judged."""
        if "cells" in entry.spec:
            return [self.card.entries[id] for id in entry.spec["cells"]]
        if "entries" in entry.spec:
            return [e for pattern in entry.spec["entries"] for e in self.card.matching(pattern)]
        return [entry] if "results" in entry.spec else []


def until_measured(entry: Entry) -> Entry:
    """An entry under the fields of its `until_measured`; selectors are added to its own, and those without a value taken away."""
    spec = {name: value for name, value in entry.spec.items() if name != "until_measured"}
    for name, value in entry.spec.get("until_measured", {}).items():
        spec[name] = (
            {k: v for k, v in (spec.get(name, {}) | value).items() if v is not None} if isinstance(value, dict) else value
        )
    return replace(entry, spec=spec)


def _measurable(entry: Entry) -> bool:
    printed = entry.kind in ("arithmetic", "mark")
    return printed or any(key in entry.spec for key in ("results", "name", "entries", "beta", "cells"))


def _selects(entry: Entry) -> bool:
    """Whether an entry says itself on which data its settings are selected."""
    return any("selection" in entry.spec.get(side, {}) for side in ("select", *SIDES))


def _source(entry: Entry) -> str:
    """Where the measured number is read: results file and selector, or the formula over printed cells."""
    spec: Any = entry.spec
    if entry.kind in ("arithmetic", "mark"):
        return "printed cells"
    if "name" in spec:
        return f"results/{file_of(entry)}.csv: {spec['name']}"
    if "entries" in spec or "cells" in spec:
        return f"entries {', '.join(spec.get('entries') or spec['cells'])}"
    if "beta" in spec:
        return f"Beta({', '.join(map(str, spec['beta']))})"
    if "results" not in spec:
        return ""
    sides = [f"{side} {words(spec[side])}" for side in SIDES if side in spec]
    return f"results/{spec['results']}.csv: {'; '.join([words(selectors(spec)), *sides])}"


def judge_all(paper: str) -> dict[str, Claim]:
    """Every claim of a paper by id, in the order of its card."""
    judge = Judge(card(paper), Results())
    return {id: judge.claim(entry) for id, entry in judge.card.entries.items()}


def judge_one(id: str) -> Claim:
    judge = Judge(card(cards.of(id).paper), Results())
    return judge.claim(judge.card.entries[id])
