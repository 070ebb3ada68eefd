"""FairFed and its baselines in figures."""

from fairfl_book.looks import BLUE, OLIVE, SKY, Look

LOOKS = {
    "fairfed": Look("FairFed", BLUE, "s"),
    "local": Look("local reweighing", SKY, "X"),
    "global": Look("global reweighing", OLIVE, "*"),
}
