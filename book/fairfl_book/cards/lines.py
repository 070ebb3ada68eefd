"""Where in its file a part of a card stands: looked up only when there is something to say of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from fairfl_book.shapes import Misfit
from fairfl_lite.errors import FairFLError, nearest

Place = tuple[Any, ...]
"""The way to a part of the loaded card: ("claims", 3, "margin")."""


class Misread(FairFLError):
    """What is wrong with a card, and the place of it."""

    def __init__(self, text: str, place: Place) -> None:
        super().__init__(text)
        self.place = place


@contextmanager
def standing(*place: Any) -> Iterator[None]:
    """What is refused within, and does not say where, stands at this place of the card."""
    try:
        yield
    except Misread:
        raise
    except Misfit as error:
        raise Misread(str(error), (*place, *error.path)) from error
    except FairFLError as error:
        raise Misread(str(error), place) from error


def known(given: Any, allowed: Sequence[str], whole: str, place: Place) -> None:
    """Refuse a name that nothing reads: `there is no field 'marginn' of a claim (did you mean 'margin'?).`"""
    for name in given:
        if name not in allowed:
            raise Misread(f"there is no field {name!r} of {whole}{meant(name, allowed)}.", (*place, name))


def meant(name: Any, allowed: Sequence[Any]) -> str:
    """` (did you mean 'margin'?)`; where no name is like it, all there are, if they are few."""
    words = list(dict.fromkeys(map(str, allowed)))
    near = nearest(str(name), words)
    if near is not None:
        return f" (did you mean {near!r}?)"
    return f" (there are {', '.join(words)})" if 0 < len(words) <= 12 else ""


@dataclass
class Node:
    """A part of a YAML text: its line, and its parts by name or one after another, with the line of each.

    merged : the mappings that `<<` adds to it.
    """

    line: int
    named: dict[str, tuple[int, Node]] = field(default_factory=dict)
    listed: list[tuple[int, Node]] = field(default_factory=list)
    merged: list[Node] = field(default_factory=list)
    text: str = ""

    def part(self, step: Any) -> tuple[int, Node] | None:
        """The line at which a part begins, and the part; one that is merged stands where it is written."""
        if isinstance(step, int) and step < len(self.listed):
            return self.listed[step]
        if str(step) in self.named:
            return self.named[str(step)]
        return next((found for one in self.merged if (found := one.part(step))), None)


def line(text: str, place: Sequence[Any]) -> int:
    """The line, from 1, of the deepest part on the way to a place that is in the text."""
    node, found = _tree(text), 1
    for step in place:
        there = node.part(step)
        if there is None:
            break
        found, node = there
    return found


def _tree(text: str) -> Node:
    events = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    next(events)  # of the stream
    if isinstance(next(events), yaml.StreamEndEvent):  # there is no document in it
        return Node(1)
    return _node(next(events), events, {})[1]


def _node(event: Any, events: Iterator[Any], anchors: dict[str, Node]) -> tuple[int, Node]:
    """The part that begins with an event, and the line where it is written: of an alias not that of what it stands for."""
    here = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        return here, anchors[event.anchor]
    made = Node(here, text=getattr(event, "value", ""))
    if event.anchor:
        anchors[event.anchor] = made
    if isinstance(event, yaml.SequenceStartEvent):
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            made.listed.append(_node(event, events, anchors))
    elif isinstance(event, yaml.MappingStartEvent):
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            at, name = _node(event, events, anchors)
            _, value = _node(next(events), events, anchors)
            if name.text == "<<":
                made.merged += [one for _, one in value.listed] or [value]
            else:
                made.named[name.text] = (at, value)
    return here, made
