"""The ledger: every printed number and claim beside what was measured, judged by rules fixed in the cards.

`claims()` is the whole ledger as a table, `claim(id)` one line of it, `table("fairfed.t1")` a table in the
paper's own layout with ours beside. The rules are in `verdicts`.
"""

from fairfl_lite.ledger.judge import Claim, claim, claims, judged, summary, to_csv
from fairfl_lite.ledger.verdicts import SYMBOLS, count_verdict
from fairfl_lite.ledger.views import View, listing, only, prose, table

__all__ = [
    "SYMBOLS", "Claim", "View", "claim", "claims", "count_verdict", "judged", "listing", "only", "prose",
    "remeasure", "summary", "table", "to_csv",
]  # fmt: skip


def remeasure(id: str) -> Claim:
    """The claim judged by a measurement made now; nothing that is stored changes."""
    from fairfl_lite.ledger import afresh  # here, because experiments import torch and numba, and reading needs neither

    return afresh.remeasure(id)
