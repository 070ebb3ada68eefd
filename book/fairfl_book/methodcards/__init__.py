"""What to know about each method of the library: one file per method, named as its class, and the page made of them.

`python -m fairfl_book.methodcards` writes book/every_method.md. Settings and what the server must see are read from the class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fairfl_lite.errors import FairFLError, choose

if TYPE_CHECKING:
    from fairfl_lite.federation import Method

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "every_method.md"
ASKS = {
    "counts": "count its rows by group and label",
    "train": "train the model it is given",
    "score": "count or measure how it does on its own rows",
    "gradient": "work out gradients on its own rows",
    "best model": "choose among several models",
    "summary": "sum up what it finds on its own rows, by group",
    "metric": "let the server score its model on rows of the server",
}
"""What a method asks of its clients, by the name of the question in the library."""
NEEDS = {
    "server rows": "rows at the server",
    "everybody": "all clients in every round",
    "groups": "known groups",
    "supernet": "a network whose edges are chosen",
}
"""What a method needs beside clients who train."""
KINDS = (
    "all rows", "groups of people", "groups inside clients", "clients, and groups inside them", "clients",
    "clients, and groups of clients", "groups of clients", "each client alone",
)  # fmt: skip
"""Who is compared, in the order of the page."""

INTRODUCTION = """Which method would suit your federation? Begin with the table. It says whom a method compares, what it
needs, and what the server must see of a single client. *Sums alone* means that the server only needs sums over clients, so
that secure aggregation can hide what each client sends. Methods have the names of their classes in the library. After the
table each has an entry, with its update rule and its settings at their defaults.

The symbols are those of {doc}`notation </book/notation>`. {doc}`The glossary </book/glossary>` has the words, and
{doc}`the reference </book/reference/methods>` says what the settings mean.

A test runs every method, and compares what it needs and what it asks of a client with what this page says. If a method needs
more than sums, it refuses to run with secure aggregation.
"""


@dataclass(frozen=True)
class MethodCard:
    """What the page says of a method, in MyST.

    compares : one of `KINDS`. idea : two sentences. update : the rule, in LaTeX; lines are parted by a double backslash.
    asks, needs : of `ASKS` and `NEEDS`; a test runs the method and compares. sends : what a client sends, to follow "It sends".
    limit : the setting at which it is a simpler method. source : keys of the bibliography. departures : how ours differs.
    chapter : the notebook in which it is met first.
    """

    compares: str
    idea: str
    update: str
    asks: tuple[str, ...]
    needs: tuple[str, ...]
    sends: str
    limit: str
    source: tuple[str, ...]
    departures: str
    chapter: str


def files() -> dict[str, Path]:
    """The file of each card, by the class of its method."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yml"))}


def load(name: str) -> MethodCard:
    """The card of a method; FairFLError when it has none, or when a field of it is missing or unknown."""
    if name not in files():
        raise FairFLError(
            f"The method {name} has no card: write book/fairfl_book/methodcards/{name}.yml with the fields that FedAvg.yml "
            "has, and run `python -m fairfl_book.methodcards`."
        )
    path = files()[name]
    written: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = [field.name for field in fields(MethodCard)]
    for field in written:
        choose(field, known, f"field of a method's card (in {path.name}) named")
    if missing := [field for field in known if written.get(field) is None]:
        raise FairFLError(f"The card {path.name} says nothing of {missing[0]!r}: add it.")
    texts: dict[str, Any] = {field: tuple(said) if isinstance(said, list) else said for field, said in written.items()}
    card = MethodCard(**texts)
    choose(card.compares, KINDS, f"comparison (in {path.name}) named")
    for said, of, what in ((card.asks, ASKS, "question to clients"), (card.needs, NEEDS, "need")):
        for one in said:
            choose(one, of, f"{what} (in {path.name}) named")
    return card


def methods() -> dict[str, type[Method]]:
    """Every method of the library, by the name of its class."""
    import fairfl_lite.methods
    from fairfl_lite.federation import Method

    kinds = {name: getattr(fairfl_lite.methods, name) for name in fairfl_lite.methods.__all__}
    return {name: kind for name, kind in kinds.items() if issubclass(kind, Method)}


def settings(kind: type[Method]) -> str:
    """The call with all settings at their defaults; one that has to be given stands as dots."""

    def default(field: Any) -> str:
        if field.default is not MISSING:
            return repr(field.default)
        return "..." if field.default_factory is MISSING else repr(field.default_factory())

    said = (f"{field.name}={default(field)}" for field in fields(kind) if field.name != "name")  # type: ignore[arg-type]
    return f"{kind.__name__}({', '.join(said)})"


def must_see(kind: type[Method]) -> str:
    """What the server must see of single clients, with settings at their defaults; "" where sums are enough."""
    return kind.must_see if isinstance(kind.must_see, str) else kind().must_see


def page(cards: Mapping[str, MethodCard] | None = None) -> str:
    """The page, in MyST: a table of all methods, then each with its card."""
    known = methods()
    cards = {name: load(name) for name in known} if cards is None else cards
    ordered = sorted(cards, key=lambda name: (KINDS.index(cards[name].compares), name))
    return "\n".join(_lines(ordered, cards, known))


def _lines(ordered: list[str], cards: Mapping[str, MethodCard], known: Mapping[str, type[Method]]) -> Iterator[str]:
    yield "% Made by `python -m fairfl_book.methodcards` from the files in book/fairfl_book/methodcards/. Change those.\n"
    yield "# Every method on one page\n"
    yield INTRODUCTION
    yield "| method | who is compared | needs | the server must see |\n|---|---|---|---|"
    for name in ordered:
        card = cards[name]
        needs = "; ".join(NEEDS[need] for need in card.needs) or "–"
        yield f"| [{name}](#method-{_anchor(name)}) | {card.compares} | {needs} | {must_see(known[name]) or 'sums alone'} |"
    for name in ordered:
        card = cards[name]
        equations = re.sub(r",?\s*\\qquad\s*", r" \\\\ ", card.update)
        asked = "; ".join(ASKS[one] for one in card.asks)
        cited = " and ".join(f"{{cite:t}}`{key}`" for key in card.source)
        yield f"\n(method-{_anchor(name)})=\n## {name}\n\n{card.idea}\n"
        yield f"$$\\begin{{gathered}} {equations} \\end{{gathered}}$$\n"
        yield f"```text\n{settings(known[name])}\n```\n"
        yield f"- **Each round** a client is asked to {asked}. It sends {card.sends}."
        yield f"- **The server must see** {must_see(known[name]) or 'sums alone'}."
        yield f"- **Limit case.** {card.limit}"
        yield f"- **Differences from the paper.** {card.departures}"
        paper = f"; the {'paper is' if len(card.source) == 1 else 'papers are'} {cited}" if cited else ""
        yield f"- **Read more** in {{doc}}`/executed/{card.chapter}`{paper}."
    yield ""


def _anchor(name: str) -> str:
    return name.lower()
