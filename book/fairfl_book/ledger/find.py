"""Find lines of the ledger by words, in any order: "FairFed EOD Adult alpha 0.5".

Spellings that mean the same are equal: α and alpha, FAIR-FATE and fairfate, 0.50 and 0.5. `book/_static/words.js` does the same
for the pages of the book.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairfl_book import cards
from fairfl_book.ledger.claims import Claim, shown

GREEK = {
    letter: unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda") for letter in "αβγδεζηθικλμνξοπρσςτυφχψω"
}
_NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(sorted(set(GREEK.values()), key=len, reverse=True))})_?(?=\d)")
_PIECE = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*|\d+(?:,\d{3})*(?:\.\d+)?|(?<![a-z0-9])\.\d+")


@dataclass(frozen=True)
class Term:
    """A word of a query: as it was written, and the ways in which it may stand in a text. One of them is enough."""

    written: str
    ways: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Found:
    """The lines that have the words, best first, and the words that no line has."""

    claims: list[Claim]
    missing: list[str]


def pieces(text: str) -> list[str]:
    """A text in small letters, cut into words and numbers."""
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    text = "".join(f" {GREEK[c]} " if c in GREEK else c for c in text)
    return _PIECE.findall(_NAMED.sub(r"\1 ", text))


def words(text: str) -> list[str]:
    """What of a text can be found: its words and numbers; one with hyphens also in one word, and by its parts."""
    return [word for piece in pieces(text) for way in _ways(piece) for word in way]


def terms(query: str) -> list[Term]:
    """The words of a query."""
    return [Term(piece, _ways(piece)) for piece in pieces(query)]


def _ways(piece: str) -> tuple[tuple[str, ...], ...]:
    if not piece[0].isalpha():
        whole, _, decimals = piece.replace(",", "").partition(".")
        decimals = decimals.rstrip("0")
        return ((f"{int(whole or 0)}.{decimals}" if decimals else str(int(whole or 0)),),)
    parts = tuple(re.split("[-_]", piece))
    return ((piece,),) if len(parts) == 1 else (("".join(parts),), parts)


def strength(word: str, among: Iterable[str]) -> int:
    """2 where the word is among these, 1 where it begins one of them, 0 where it does neither.

    A number begins another only from two decimals on: 0.04 finds 0.049, and 0.5 does not find 0.57.
    """
    stem = word[:-1] if len(word) > 4 and word.endswith("s") and word.isalpha() else word
    if any(one in (word, stem) for one in among):
        return 2
    open_ended = word[0].isalpha() or len(word.partition(".")[2]) > 1
    return int(open_ended and any(one.startswith(stem) for one in among))


def matches(term: Term, among: Iterable[str]) -> int:
    """How well a text of these words has a word of the query; 0 where it does not have it."""
    among = list(among)
    return max(min(strength(word, among) for word in way) for way in term.ways)


def find(claims: Sequence[Claim], query: str) -> Found:
    """The lines that have every word of the query which any line has, best first.

    A line is better the more of the words are in its id, and the fewer other words are there.
    """
    asked = terms(query)
    texts = [(c, words(c.id), words(_text(c))) for c in claims]
    missing = [term.written for term in asked if not any(matches(term, [*id, *rest]) for _, id, rest in texts)]
    asked = [term for term in asked if term.written not in missing]
    scored = []
    for order, (c, id, rest) in enumerate(texts):
        if asked and all(matches(term, [*id, *rest]) for term in asked):
            scored.append((-score(asked, id, rest), order, c))
    return Found([c for *_, c in sorted(scored, key=lambda one: one[:2])], missing)


def score(asked: Sequence[Term], id: Sequence[str], rest: Sequence[str]) -> int:
    """Points of a line: more for words in its id than in its text, fewer for words in its id that nobody asked for."""
    counts = Counter(id)
    points = 0
    for term in asked:
        twice = any(all(counts[word] > 1 for word in way) for way in term.ways)
        points += 10 * matches(term, id) + 3 * matches(term, rest) + 5 * twice
    return points - sum(not any(strength(word, [one]) for term in asked for way in term.ways for word in way) for one in id)


def _text(c: Claim) -> str:
    name = cards.load(c.paper).citation.get("name") or c.paper
    ours = shown(c, c.measured)
    return " ".join((c.says, c.where, str(name), c.kind, c.printed, ours, c.verdict, c.detail, c.note, c.quote, c.source))
