"""E2FL and its baselines in figures; q-FFL is among EFFL's."""

from fairfl_book.looks import BROWN, ORANGE, PURPLE, TEAL, Look

LOOKS = {
    "e2fl": Look("E2FL", ORANGE, "P"),
    "ifca": Look("IFCA", PURPLE, "<"),
    "frl": Look("FRL", TEAL, "p"),
    "local-only": Look("each client alone", BROWN, "*"),
}
