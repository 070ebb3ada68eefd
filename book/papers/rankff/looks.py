"""RankFF and its baselines in figures."""

from fairfl_book.looks import GREEN, WINE, Look

LOOKS = {
    "rankff": Look("RankFF", GREEN, "D"),
    "corefed": Look("CoreFed", WINE, "p"),
}
