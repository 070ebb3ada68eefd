"""The papers' cards and their reader: what each paper prints, and the rule each number will be judged by."""

from fairfl_lite.papers.card import (
    FOLDER,
    RULES,
    WHOSE,
    Entry,
    Grid,
    PaperCard,
    load,
    names,
    number,
    of,
    parse,
    text,
    unit,
    well_formed,
)

__all__ = [
    "FOLDER", "RULES", "WHOSE", "Entry", "Grid", "PaperCard", "load", "names", "number", "of", "parse", "text", "unit",
    "well_formed",
]  # fmt: skip
