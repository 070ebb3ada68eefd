"""Whether what was read from a file has the shape it should: one check, one sentence, for cards, notebooks and provenance.

A shape is WORD, TEXT, NUMBER, SIZE, COUNT, VALUE or ANY; [shape] is a list of it, {name: shape} a mapping from names to it, and
(shape, shape) either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from fairfl_lite.errors import FairFLError

WORD, TEXT, NUMBER, COUNT = "a text that is not empty", "a text", "a number", "a whole number from 1"
SIZE, VALUE, ANY = "a number from 0", "a number or a text", "anything"
LARGEST = 10**30
"""No number that is written in a card is larger."""


class Misfit(FairFLError):
    """A value of another shape, and the way to it from what was to fit."""

    def __init__(self, text: str, path: tuple[Any, ...]) -> None:
        super().__init__(text)
        self.path = path


def fit(value: Any, shape: Any, place: str, path: tuple[Any, ...] = ()) -> None:
    """Refuse a value of another shape, by its place: `tables.t1.rows.2 is 7, and must be a list: correct it.`"""
    if isinstance(shape, tuple):
        shape = next((one for one in shape if isinstance(value, _kinds(one))), shape[0])
    if not isinstance(value, _kinds(shape)) or (isinstance(shape, str) and not _sound(value, shape)):
        raise Misfit(f"{place} is {_shown(value)}, and must be {_words(shape)}: correct it.", path)
    if isinstance(shape, list):
        for position, part in enumerate(value):
            fit(part, shape[0], f"{place}.{position}", (*path, position))
    elif isinstance(shape, Mapping):
        ((_, inside),) = shape.items()
        for name, part in value.items():
            fit(name, TEXT, f"a name in {place}", (*path, name))
            fit(part, inside, f"{place}.{name}", (*path, name))


def _kinds(shape: Any) -> Any:
    if isinstance(shape, list):
        return list
    if isinstance(shape, Mapping):
        return Mapping
    return {
        WORD: str,
        TEXT: str,
        COUNT: int,
        NUMBER: (int, float, str),
        SIZE: (int, float),
        VALUE: (int, float, str),
        ANY: object,
    }[shape]


def _sound(value: Any, shape: str) -> bool:
    if shape == ANY:
        return True
    if isinstance(value, str):
        return bool(value.strip()) if shape == WORD else shape != NUMBER or _number(value)
    if shape == VALUE and isinstance(value, bool):
        return True
    least = {COUNT: 1, SIZE: 0}.get(shape, -math.inf)
    return not isinstance(value, bool) and least <= value < math.inf and value > -math.inf


def _number(text: str) -> bool:
    """Whether a text is a number, or will be once its braces are filled."""
    if "{" in text:
        return True
    try:
        return abs(Fraction(text.replace(",", ""))) < LARGEST
    except (ValueError, ZeroDivisionError):
        return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _words(shape: Any) -> str:
    if isinstance(shape, list):
        return "a list"
    if isinstance(shape, Mapping):
        return "a mapping of names"
    return str(shape)
