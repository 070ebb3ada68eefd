"""What FedAvg gives on the synthetic data under the settings that EFFL does not print, beside the six numbers that it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from fairfl_lite import metrics
from fairfl_lite.methods import FedAvg
from papers.effl.facts import rows
from papers.effl.federations import federation

_ROWS = rows("t1", "t2")
PRINTED = dict(
    zip(
        ("acc", "std acc", "TPSD", "std TPSD", "APSD", "std APSD"),
        (*_ROWS["t1.synthetic.fedavg"], *_ROWS["t2.synthetic.fedavg"][2:]),
        strict=True,
    )
)
"""FedAvg on the synthetic data, EFFL's Tables 1 and 2: mean and spread over the two clients."""

EICU_TPSD = _ROWS["t1.eicu.fedavg"][2]
"""FedAvg's mean TPSD over the hospitals of eICU, Table 1."""

SPREADS, INPUTS = ("variance", "sd"), (True, False)


def six(counts: np.ndarray, ddof: int = 1) -> dict[str, np.ndarray]:
    """The six numbers of confusion counts [..., client, a, y, yhat]: mean and standard deviation over the clients of accuracy, of
    TPSD (the population standard deviation of the groups' true positive rates) and of APSD as printed (that of their selection
    rates). ddof : of the spread over clients."""
    values = {
        "acc": metrics.accuracy(counts),
        "TPSD": metrics.true_positive_rate(counts).std(-1),
        "APSD": metrics.selection_rate(counts).std(-1),
    }
    found: dict[str, np.ndarray] = {}
    for name, value in values.items():
        found |= {name: value.mean(-1), f"std {name}": value.std(-1, ddof=ddof)}
    return found


def trials(seeds: Sequence[int] = range(20), rounds: int = 300) -> pd.DataFrame:
    """The mean over seeds of the six numbers on test rows after FedAvg, beside the printed ones, in the last row: for both
    readings of N(., 2), with A as an input and without, and for either divisor of the spread over the two clients.

    misses : how many of the six are farther from print than two standard deviations over seeds.
    """
    made: list[Mapping[str, Any]] = []
    for spread, with_a in product(SPREADS, INPUTS):
        fed = federation("synthetic", seeds, spread=spread, keep_sensitive=with_a)
        counts = fed.run(FedAvg(), rounds).counts["test"][:, -1]
        for ddof in (0, 1):
            found = six(counts, ddof)
            far = [abs(value.mean() - PRINTED[name]) > 2 * value.std(ddof=1) for name, value in found.items()]
            means = {name: value.mean() for name, value in found.items()}
            said = {"N(., 2)": spread, "A is an input": "yes" if with_a else "no", "ddof": str(ddof)}
            made.append({**said, **means, "misses": str(sum(far))})
    made.append({"N(., 2)": "printed", "A is an input": "", "ddof": "", **PRINTED, "misses": ""})
    return pd.DataFrame(made)
