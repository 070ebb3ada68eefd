"""The papers' cards and their reader: what each paper prints, and the rule each number will be judged by."""

from fairfl_book.cards.card import (
    FOLDER,
    RULES,
    WHOSE,
    Entry,
    Grid,
    PaperCard,
    file,
    files,
    load,
    names,
    number,
    of,
    parse,
    raw,
    text,
    unit,
    well_formed,
)
from fairfl_book.cards.schemas import schema

__all__ = [
    "FOLDER", "RULES", "WHOSE", "Entry", "Grid", "PaperCard", "file", "files", "load", "names", "number", "of", "parse", "raw",
    "schema", "text", "unit", "well_formed",
]  # fmt: skip
