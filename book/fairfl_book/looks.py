"""What a method looks like in figures: a label, a colour of the palette and a marker. Those of a paper are in its looks.py."""

from __future__ import annotations

from typing import NamedTuple

# Okabe and Ito's palette, which the common kinds of colour blindness keep apart; yellow is left out on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MORE_COLOURS = ("#332288", "#882255", "#44AA99", "#999933", "#6A3D9A", "#777777", "#8B5A2B", "#117733")
"""Tol's muted colours, a grey and a brown, for the many methods that papers compare with."""
SPARE_COLOURS = ("#AA0000", "#0000CD", "#AA4499", "#00CED1", "#661100")
"""For the methods of papers to come: `fairfl new paper` takes the first that nothing has."""
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = COLOURS
INDIGO, WINE, TEAL, OLIVE, PURPLE, GREY, BROWN, FOREST = MORE_COLOURS

SHARP = "sharp"
"""In the metadata of a picture: the same with twice the pixels, for the page. A reference does without."""


class Look(NamedTuple):
    """How a method or a group is called in a legend, its colour, and its marker."""

    label: str
    colour: str
    marker: str


LOOKS = {
    # The plain baseline is black, and the method of a paper has a colour that no other method has.
    "fedavg": Look("FedAvg", BLACK, "o"),
    "printed": Look("printed", GREY, "|"),
    # Methods that no paper of the book has.
    "group-thresholds": Look("group thresholds", FOREST, "D"),
    "fedfb": Look("FedFB", BROWN, "v"),
    "fedminmax": Look("FedMinMax", INDIGO, "H"),
    "fedgft": Look("FedGFT", OLIVE, "d"),
    "term": Look("TERM", TEAL, "8"),
    "propfair": Look("PropFair", PURPLE, "P"),
    "fedfv": Look("FedFV", WINE, "h"),
    # Groups: the one that has been disadvantaged (a = 0) is wine, the other teal, whatever the attribute.
    "a=0": Look("a = 0", WINE, "o"),
    "a=1": Look("a = 1", TEAL, "s"),
    "women": Look("women", WINE, "o"),
    "men": Look("men", TEAL, "s"),
    "black": Look("Black", WINE, "o"),
    "white": Look("white", TEAL, "s"),
}
"""The looks that belong to no paper."""
