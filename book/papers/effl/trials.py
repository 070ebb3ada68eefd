"""What FedAvg gives on the synthetic data under the settings that EFFL does not print, beside the six numbers that it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from fairfl_lite import metrics
from fairfl_lite.data import synthetic
from fairfl_lite.methods import FedAvg
from papers.effl.federations import LOCAL, federation

PRINTED = {"acc": 0.7735, "std acc": 0.0283, "TPSD": 0.2480, "std TPSD": 0.0819, "APSD": 0.1663, "std APSD": 0.0791}
"""FedAvg on the synthetic data, EFFL's Tables 1 and 2: mean and spread over the two clients."""

EICU_TPSD = 0.0371
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


def bayes(ddof: int = 1) -> pd.DataFrame:
    """The six numbers of the best classifier, exactly, under either spread of x2."""
    rows = {spread: six(synthetic.confusion(spread=spread), ddof) for spread in SPREADS}
    return pd.DataFrame(rows).T.rename_axis("spread").astype(float)


def trials(seeds: Sequence[int] = range(20), rounds: int = 300, *, rate: float = 0.5, train: int = 5_000,
           test: int = 2_000) -> pd.DataFrame:  # fmt: skip
    """The mean over seeds of the six numbers on test rows after FedAvg, beside the printed ones, in the last row: for both
    readings of N(., 2), with A as an input and without, and for either divisor of the spread over the two clients.

    misses : how many of the six are farther from print than two standard deviations over seeds.
    """
    rows: list[Mapping[str, Any]] = []
    for spread, with_a in product(SPREADS, INPUTS):
        local = replace(LOCAL, lr=rate)
        fed = federation("synthetic", seeds, local=local, spread=spread, keep_sensitive=with_a, train=train, test=test)
        counts = fed.run(FedAvg(), rounds).counts["test"][:, -1]
        for ddof in (0, 1):
            found = six(counts, ddof)
            far = [abs(value.mean() - PRINTED[name]) > 2 * value.std(ddof=1) for name, value in found.items()]
            means = {name: value.mean() for name, value in found.items()}
            said = {"N(., 2)": spread, "A is an input": "yes" if with_a else "no", "ddof": str(ddof)}
            rows.append({**said, **means, "misses": str(sum(far))})
    rows.append({"N(., 2)": "printed", "A is an input": "", "ddof": "", **PRINTED, "misses": ""})
    return pd.DataFrame(rows)
