"""FAIR-FATE and its baselines in figures."""

from fairfl_book.looks import INDIGO, PURPLE, RED, TEAL, Look

LOOKS = {
    "fair-fate": Look("FAIR-FATE", RED, "^"),
    "fedmom": Look("FedMom", INDIGO, "<"),
    "feddemon": Look("FedDemon", PURPLE, ">"),
    "fedval": Look("FedVal", TEAL, "h"),
}
