"""What each field of a card is, by its shape. Checked once, before anything is made of the card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairfl_lite.errors import FairFLError
from fairfl_lite.shapes import ANY, COUNT, NUMBER, TEXT, VALUE, WORD, fit

_NAMES, _SELECT = [TEXT], {TEXT: VALUE}

CARD: Mapping[str, Any] = {
    "paper": WORD, "citation": {TEXT: (VALUE, [VALUE])}, "settings": {TEXT: ANY}, "metrics": {TEXT: TEXT}, "labels": {TEXT: TEXT},
    "printed_seeds": COUNT, "margins": {TEXT: {TEXT: VALUE}}, "selection": TEXT, "yes_no": _NAMES, "command": TEXT,
    "notebooks": {TEXT: TEXT}, "tables": {TEXT: {TEXT: ANY}}, "claims": [{TEXT: ANY}],
}  # fmt: skip
CLAIM: Mapping[str, Any] = {
    **dict.fromkeys(("id", "where", "kind", "says", "notebook", "rule", "whose", "results", "metric", "levels", "name"), WORD),
    **dict.fromkeys(("quote", "note", "not_testable", "unless_measured", "by_construction", "margin_reason"), TEXT),
    **dict.fromkeys(("toward", "sense", "how", "sd", "printed", "printed_of"), TEXT),
    "cells": (TEXT, _NAMES), "beta": [NUMBER], **dict.fromkeys(("margin", "tolerance", "power", "scale", "of"), NUMBER),
    **dict.fromkeys(("select", "better", "worse", "from", "to", "relative"), {TEXT: (VALUE, [VALUE])}),
    **dict.fromkeys(("mean_over", "order", "entries", "sum", "over", "fall", "distinct", "positive", "recomputed"), _NAMES),
    **dict.fromkeys(("below", "same", "differ"), {TEXT: TEXT}), **dict.fromkeys(("lead", "difference"), {TEXT: _NAMES}),
    "each": {TEXT: [(VALUE, {TEXT: VALUE})]}, "beside": {TEXT: _SELECT}, "multiples": {TEXT: (VALUE, _NAMES)},
    "check": {TEXT: ANY}, "until_measured": {TEXT: ANY}, "luck": VALUE,
}  # fmt: skip
"""Of a claim, and of what the `override` and the `marks` of a table give to a cell."""
TABLE: Mapping[str, Any] = {
    **dict.fromkeys(("where", "title", "kind", "notebook", "results", "id", "whose"), WORD),
    **dict.fromkeys(("note", "not_testable", "by_construction"), TEXT), "until_measured": {TEXT: ANY},
    "columns": {TEXT: [(VALUE, {TEXT: VALUE})]}, "rows": [[VALUE]], "fixed": _SELECT, "baseline": {TEXT: TEXT},
    **dict.fromkeys(("row_keys", "ignore", "own", "not_best"), _NAMES), "select": {TEXT: {TEXT: _SELECT}},
    "override": {TEXT: {TEXT: {TEXT: ANY}}}, "marks": {TEXT: {TEXT: ANY}}, "beside": {TEXT: {TEXT: {TEXT: _SELECT}}},
}  # fmt: skip


def check(raw: Any) -> None:
    """Refuse a card with a field of another shape, by its place: `tables.t1.rows.2 is ..., and must be a list.`"""
    fit(raw, {TEXT: ANY}, "its contents")
    _fields(raw, CARD, "")
    try:
        raw.get("command", "").format(results="")
    except (LookupError, ValueError, AttributeError):
        raise FairFLError("command has braces other than {results}: correct the card.") from None
    for name, table in raw.get("tables", {}).items():
        _fields(table, TABLE, f"tables.{name}.")
        cells = {**table.get("override", {}), "marks": table.get("marks", {})}
        for part, given in cells.items():
            for value, fields in given.items():
                _fields(fields, CLAIM, f"tables.{name}.{part}.{value}.")
    for position, claim in enumerate(raw.get("claims", ())):
        place = f"claims.{claim.get('id', position)}."
        _fields(claim, CLAIM, place)
        _fields(claim.get("check", {}), CLAIM, f"{place}check.")


def _fields(given: Mapping[str, Any], shapes: Mapping[str, Any], place: str) -> None:
    for name, value in given.items():
        if name in shapes:
            fit(value, shapes[name], f"{place}{name}")
