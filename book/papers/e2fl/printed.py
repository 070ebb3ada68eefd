"""What E2FL prints, and the sizes of FairMNISTRotate's groups that it leaves open."""

from __future__ import annotations

from fairfl_book import settings

PRINTED = settings.printed("e2fl")
_FIRST, _SIXTH = PRINTED["group_sizes"].values()
COUNTS = (_FIRST, 25, 71, 140, 250, _SIXTH, 147, 70, 24, 8)
"""Clients of each group. The paper prints the first and the sixth; the others are ours, rising to the middle, to 1000 in all."""
