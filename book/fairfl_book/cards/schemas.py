"""The shape of a card as a JSON schema, for editors: made from the fields and the shapes by which cards are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairfl_book.cards import fields
from fairfl_book.cards.card import FOLDER, RULES, WHOSE
from fairfl_book.shapes import ANY, COUNT, NUMBER, SIZE, TEXT, VALUE, WORD
from fairfl_lite import store

FILE = "card.schema.json"
_WORDS: Mapping[str, Mapping[str, Any]] = {
    WORD: {"type": "string", "pattern": r"\S"},
    TEXT: {"type": "string"},
    COUNT: {"type": "integer", "minimum": 1},
    NUMBER: {"type": ["number", "string"]},
    SIZE: {"type": "number", "minimum": 0},
    VALUE: {"type": ["number", "string", "boolean"]},
    ANY: {},
}


def schema() -> dict[str, Any]:
    """What an editor can say of a card while it is written; what the parts mean to each other is checked when it is read."""
    words = {"kind": _one_of(RULES), "whose": _one_of(WHOSE), "until_measured": _ref("instead")}
    claim = _closed(_properties(fields.CLAIM) | words | {"check": _ref("cell")})
    instead = {"type": "object", "propertyNames": {"enum": list(fields.CLAIM)}}
    cells = {"type": "object", "additionalProperties": _ref("cell")}
    parts = {"marks": cells, "override": {"type": "object", "additionalProperties": cells}}
    table = _closed(_properties(fields.TABLE) | words | parts, fields.LAYOUT)
    card = _closed(_properties(fields.CARD), [name for name in fields.CARD if name not in fields.OPTIONAL])
    margin = {"margin": _WORDS[SIZE], "reason": _WORDS[WORD]}
    card["properties"] |= {
        "citation": _closed({name: card["properties"]["citation"]["additionalProperties"] for name in fields.CITATION}),
        "margins": {"type": "object", "additionalProperties": _closed(margin, fields.MARGIN)},
        "tables": {"type": "object", "additionalProperties": _ref("table")},
        "claims": {"type": ["array", "null"], "items": _ref("claim")},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A paper's card",
        "description": "Made by `fairfl cards schema`: change book/fairfl_book/cards/fields.py, and make it again.",
        **card,
        "$defs": {"table": table, "claim": claim | {"required": list(fields.HEAD)}, "cell": claim, "instead": instead},
    }


def text() -> str:
    """The schema as it stands in its file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def write() -> Path:
    """Write the schema beside the cards, where their first lines name it."""
    target = FOLDER / FILE
    store.write(target, text())
    return target


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _closed(properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    """A mapping that has these names and no others."""
    return {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}


def _one_of(names: Iterable[str]) -> dict[str, Any]:
    """One of these words, or a name in braces that `each` fills."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string", "pattern": "[{]"}]}


def _properties(shapes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _shape(shape) for name, shape in shapes.items()}


def _shape(shape: Any) -> dict[str, Any]:
    if isinstance(shape, tuple):
        return {"anyOf": [_shape(one) for one in shape]}
    if isinstance(shape, list):
        return {"type": "array", "items": _shape(shape[0])}
    if isinstance(shape, Mapping):
        ((_, inside),) = shape.items()
        return {"type": "object", "additionalProperties": _shape(inside)}
    return dict(_WORDS[shape])
