"""The rules by which entries are judged: one file for each, with its text, its fields, how it measures and its verdict."""

from __future__ import annotations

from fairfl_book import cards
from fairfl_book.cards import Entry, PaperCard
from fairfl_book.cards.lines import meant
from fairfl_book.ledger.rules import (
    arithmetic,
    at_most,
    draw,
    effect,
    facts,
    gain,
    improvement,
    level,
    mark,
    no_gain,
    ordering,
    share,
    spread,
)
from fairfl_book.ledger.rules.base import COMMON, SERIES, Finding, Rule
from fairfl_lite.errors import FairFLError, choose

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        effect.RULE, gain.RULE, improvement.RULE, effect.TIES, share.RULE, ordering.RULE, no_gain.RULE, no_gain.SIMILARS,
        at_most.RULE, ordering.TRENDS, level.RULE, spread.RULE, draw.RULE, arithmetic.RULE, mark.RULE,
        facts.COUNTS, facts.IDENTITIES, facts.EXISTING, facts.CHECKS,
    )
}  # fmt: skip
KINDS = tuple(dict.fromkeys(rule.kind for rule in RULES.values()))
"""Effects first: they are what a paper claims."""
SYMBOLS = {
    "agrees": "✓",
    "confirmed": "✓",
    "holds": "=",
    "differs": "✗",
    "reversed": "✗",
    "no effect": "0",
    "does not hold": "≠",
    "holds by construction": "≡",
    "cannot tell": "?",
    "not testable": "–",
    "not yet measured": "…",
}
"""The verdicts, and the sign each has in tables."""

__all__ = ["KINDS", "RULES", "SYMBOLS", "Finding", "Rule", "check", "rule_of"]


def rule_of(entry: Entry) -> Rule:
    """The rule of an entry; FairFLError when there is none of that name, or it judges another kind."""
    rule = RULES.get(entry.rule)
    if rule is None or rule.kind != entry.kind:
        raise FairFLError(f"{entry.id}: a {entry.kind} cannot be judged by the rule {entry.rule!r}; correct the card.")
    return rule


SENSES = ("larger", "smaller", "closer")
NUMBERS = ("level", "effect", "tie", "gain", "improvement", "at most", "spread", "share", "draw", "arithmetic", "count")
"""The rules that compare a printed number."""


def check(card: PaperCard) -> None:
    """Refuse what the rules cannot judge: unknown or missing fields, formulas that name no cell, numbers that do not follow."""
    for metric, sense in card.metrics.items():
        with card.naming("metrics", metric):
            choose(sense, SENSES, f"sense of the metric {metric}")
    for metric, margin in card.margins.items():
        with card.naming("margins", metric):
            choose(metric, card.metrics, "metric with a margin")
            size, reason = margin.get("margin"), margin.get("reason", "")
            if not isinstance(size, int | float) or size < 0 or not str(reason).strip():
                raise FairFLError(f"The margin of {metric} needs a number from 0 (margin) and a reason: add them.")
    for entry in card.entries.values():
        with card.naming(*card.places.get(entry.id, ())), cards.well_formed(f"entry {entry.id}"):
            _check(card, entry)


def _check(card: PaperCard, entry: Entry) -> None:
    rule, spec = rule_of(entry), entry.spec
    for name in sorted(set(spec) - {*rule.fields, *COMMON}):
        raise FairFLError(f"{entry.id} is judged by the rule {rule.name!r}, which has no field {name!r}: remove it.")
    cells = SERIES if "cells" in spec else ()  # what stands in for the cells of an effect is carried with it
    for name in sorted(set(spec.get("until_measured", ())) - {*rule.fields, *COMMON, *cells}):
        raise FairFLError(f"until_measured of {entry.id} has a field {name!r}, which its rule does not have: remove it.")
    if "not_testable" not in spec and not any(set(ways) <= set(spec) for ways in rule.needs):
        ways = " or ".join(" and ".join(fields) for fields in rule.needs)
        raise FairFLError(f"{entry.id} is judged by the rule {rule.name!r} and lacks what it needs: {ways}.")
    for name, allowed in (("toward", ("better", "worse")), ("sense", SENSES)):
        if name in spec:
            choose(spec[name], allowed, f"{name} in {entry.id}")
    if "margin" in spec and not spec.get("margin_reason"):
        raise FairFLError(f"{entry.id} has a margin of its own and no margin_reason: say in a few words why.")
    if "by_construction" in spec and not spec["by_construction"].strip():
        raise FairFLError(f"{entry.id} is said to hold by construction: say in a sentence why it could not have failed.")
    if float(spec.get("margin", 0)) < 0:
        raise FairFLError(f"{entry.id} has a margin below 0: correct the card.")
    metric = spec.get("metric", spec.get("select", {}).get("metric"))
    if metric is not None and metric not in card.metrics:
        near = meant(metric, list(card.metrics))
        raise FairFLError(f"{entry.id} is about the metric {metric!r}, which the card does not list{near}: add it to metrics.")
    if entry.rule in NUMBERS and entry.printed != "?" and "not_testable" not in spec:
        cards.number(entry.printed)
        cards.number(spec.get("sd") or "0")
    if entry.rule == "arithmetic":
        arithmetic.recompute(card, spec)
    if entry.rule == "mark":
        mark.violation(card, spec)
    for pattern in spec.get("entries", ()):
        card.matching(pattern)
    if "check" in spec:
        found = arithmetic.recompute(card, spec["check"])
        if abs(found - cards.number(entry.printed)) > cards.unit(entry.printed) / 2:
            raise FairFLError(f"{entry.id} is said to come from printed cells, but they give {float(found):g}: correct the card.")
