"""What each field of a card is, by its shape. Checked once, before anything is made of the card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairfl_book.cards.lines import Misread, known, meant, standing
from fairfl_book.shapes import ANY, COUNT, NUMBER, TEXT, VALUE, WORD, Misfit, fit

_NAMES, _SELECT = [TEXT], {TEXT: VALUE}

CARD: Mapping[str, Any] = {
    "paper": WORD, "citation": {TEXT: (VALUE, [VALUE])}, "settings": {TEXT: ANY}, "metrics": {TEXT: TEXT}, "labels": {TEXT: TEXT},
    "printed_seeds": COUNT, "margins": {TEXT: {TEXT: VALUE}}, "selection": TEXT, "yes_no": _NAMES,
    "awaited": {TEXT: {TEXT: [VALUE]}}, "command": TEXT, "notebooks": {TEXT: TEXT},
    "tables": {TEXT: {TEXT: ANY}}, "claims": [{TEXT: ANY}],
}  # fmt: skip
OPTIONAL = ("selection", "yes_no", "awaited")
"""The fields that a card may leave out."""
CITATION = ("name", "title", "authors", "venue", "year", "arxiv", "doi", "code", "version")
MARGIN = ("margin", "reason")
CLAIM: Mapping[str, Any] = {
    **dict.fromkeys(("id", "where", "kind", "says", "notebook", "rule", "whose", "results", "metric", "levels", "name"), WORD),
    **dict.fromkeys(("quote", "note", "not_testable", "unless_measured", "by_construction", "margin_reason"), TEXT),
    **dict.fromkeys(("toward", "sense", "how", "sd", "printed", "printed_of"), TEXT),
    "cells": (TEXT, _NAMES), "beta": [NUMBER], **dict.fromkeys(("margin", "tolerance", "power", "scale", "of"), NUMBER),
    **dict.fromkeys(("select", "better", "worse", "from", "to", "relative"), {TEXT: (VALUE, [VALUE])}),
    **dict.fromkeys(("mean_over", "order", "entries", "sum", "over", "fall", "distinct", "positive", "recomputed"), _NAMES),
    **dict.fromkeys(("below", "same", "differ"), {TEXT: TEXT}), **dict.fromkeys(("lead", "difference"), {TEXT: _NAMES}),
    "each": {TEXT: [(VALUE, {TEXT: VALUE})]}, "beside": {TEXT: _SELECT}, "multiples": {TEXT: (VALUE, _NAMES)},
    "check": {TEXT: ANY}, "until_measured": {TEXT: ANY}, "luck": VALUE, "mark": {TEXT: VALUE}, "would_decide": TEXT,
}  # fmt: skip
"""Of a claim, and of what the `override` and the `marks` of a table give to a cell."""
HEAD = ("id", "where", "kind", "says", "notebook")
"""What no claim leaves out."""
TABLE: Mapping[str, Any] = {
    **dict.fromkeys(("where", "title", "kind", "notebook", "results", "id", "whose"), WORD),
    **dict.fromkeys(("note", "not_testable", "by_construction"), TEXT), "until_measured": {TEXT: ANY},
    "columns": {TEXT: [(VALUE, {TEXT: VALUE})]}, "rows": [[VALUE]], "fixed": _SELECT, "baseline": {TEXT: TEXT},
    **dict.fromkeys(("row_keys", "ignore", "own", "not_best"), _NAMES), "select": {TEXT: {TEXT: _SELECT}},
    "override": {TEXT: {TEXT: {TEXT: ANY}}}, "marks": {TEXT: {TEXT: ANY}}, "beside": {TEXT: {TEXT: {TEXT: _SELECT}}},
}  # fmt: skip
LAYOUT = ("where", "title", "kind", "notebook", "id", "columns", "row_keys", "rows")
"""What no table leaves out."""


def check(raw: Any) -> None:
    """Refuse a card with an unknown field, or one of another shape: `tables.t1.rows.2 is ..., and must be a list.`"""
    with standing():
        fit(raw, {TEXT: ANY}, "its contents")
    _fields(raw, CARD, "the card", (), "")
    missing = sorted(set(CARD) - set(OPTIONAL) - set(raw))
    if missing:
        raise Misread(f"The card lacks {', '.join(missing)}: add them.", ())
    try:
        raw["command"].format(results="")
    except (LookupError, ValueError, AttributeError):
        raise Misread("command has braces other than {results}: correct the card.", ("command",)) from None
    known(raw["citation"], CITATION, "the citation", ("citation",))
    for metric, margin in raw["margins"].items():
        known(margin, MARGIN, "a margin", ("margins", metric))
    for name, table in raw["tables"].items():
        at = ("tables", name)
        _fields(table, TABLE, "a table", at, f"tables.{name}.")
        _until(table, at)
        _keys(table, at)
        for key, given in table.get("override", {}).items():
            for value, fields in given.items():
                _cell(fields, (*at, "override", key, value), f"tables.{name}.{key}.{value}.")
        for mark, fields in table.get("marks", {}).items():
            _cell(fields, (*at, "marks", mark), f"tables.{name}.marks.{mark}.")
    for position, claim in enumerate(raw["claims"]):
        _cell(claim, ("claims", position), f"claims.{claim.get('id', position)}.")


def _cell(given: Mapping[str, Any], at: tuple[Any, ...], said: str) -> None:
    """The fields of a claim, or of what a table gives to a cell."""
    _fields(given, CLAIM, "a claim", at, said)
    _fields(given.get("check", {}), CLAIM, "a claim", (*at, "check"), f"{said}check.")
    _until(given, at)


def _until(given: Mapping[str, Any], at: tuple[Any, ...]) -> None:
    known(given.get("until_measured", {}), list(CLAIM), "a claim", (*at, "until_measured"))


def _keys(table: Mapping[str, Any], at: tuple[Any, ...]) -> None:
    """Refuse a field of a table that speaks of a row key or a column which the table does not have."""
    if not set(LAYOUT) <= set(table):
        return
    inner = [key for values in table["columns"].values() for value in values if isinstance(value, Mapping) for key in value]
    keys = [*table["row_keys"], *table["columns"], *inner]
    for field in ("select", "override", "ignore", "beside", "baseline"):
        for key in table.get(field, ()):
            for part in key.split("."):
                if part not in keys:
                    raise Misread(f"{field} names {part!r}, which the table does not have{meant(part, keys)}.", (*at, field, key))


def _fields(given: Mapping[str, Any], shapes: Mapping[str, Any], whole: str, at: tuple[Any, ...], said: str) -> None:
    known(given, list(shapes), whole, at)
    for name, value in given.items():
        try:
            fit(value, shapes[name], f"{said}{name}")
        except Misfit as error:
            raise Misread(str(error), (*at, name, *error.path)) from error
