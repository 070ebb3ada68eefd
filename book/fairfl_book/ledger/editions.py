"""Editions of the ledger, and what became of each verdict from one to another.

An edition is a ledger.csv, as every book has one beside it. The first one, judged by rules that noise could pass, is kept here.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from fairfl_book import ledger
from fairfl_lite import store
from fairfl_lite.errors import FairFLError

FOLDER = Path(__file__).parent / "editions"
NOW = "now"
"""The name of the ledger as it is judged at present."""


def names() -> list[str]:
    """The editions kept with the package."""
    return sorted(path.name.removesuffix(".csv.gz") for path in FOLDER.glob("*.csv.gz"))


def read(name: str) -> pd.DataFrame:
    """An edition by its name, "now", or the path of a ledger.csv; one row per claim, by id."""
    if name == NOW:
        frame = ledger.claims()
    else:
        path = FOLDER / f"{name}.csv.gz" if name in names() else Path(name)
        if not os.path.isfile(path):  # noqa: PTH113 - unlike its method it takes any text
            raise FairFLError(f"There is no edition {name!r}: name a ledger.csv, or one of {', '.join([*names(), NOW])}.")
        frame = store.read_csv(path, keep_default_na=False, na_values={"measured": "", "low": "", "high": "", "margin": ""})
    missing = {"id", "rule", "printed", "measured", "low", "high", "seeds", "verdict"} - set(frame)
    if missing:
        raise FairFLError(f"The edition {name} lacks {', '.join(sorted(missing))}: name a ledger.csv of this book.")
    return frame.set_index("id")


def changes(old: str = "first", new: str = NOW) -> pd.DataFrame:
    """The claims of both editions: verdicts, and the cause of a change; entries that only one has are "new" or "gone".

    cause : of a changed verdict, "transcription" (the printed number), "result" (what was measured) and "rule" (rule or
    margin, or else neither of the others), joined where several changed.
    """
    before, after = read(old), read(new)
    both = before.merge(after, left_index=True, right_index=True, how="outer", suffixes=(" before", " after"))
    table = pd.DataFrame({"before": both["verdict before"], "after": both["verdict after"]}, index=both.index)
    here = [id in before.index and id in after.index for id in both.index]
    printed = both["printed before"].astype(str) != both["printed after"].astype(str)
    result = np.any([~_same(both[f"{c} before"], both[f"{c} after"]) for c in ("measured", "low", "high", "seeds")], axis=0)
    margins = _same(both["margin before"], both["margin after"]) if "margin before" in both else np.ones(len(both), dtype=bool)
    rule = (both["rule before"] != both["rule after"]) | ~margins | ~(printed | result)  # at last: nothing else changed
    causes = [
        " and ".join(word for word, is_so in zip(("transcription", "result", "rule"), found, strict=True) if is_so)
        for found in zip(printed, result, rule, strict=True)
    ]
    changed = (table["before"] != table["after"]).to_numpy()
    table["cause"] = [
        ("new" if id not in before.index else "gone") if not known else cause if moved else ""
        for id, known, cause, moved in zip(both.index, here, causes, changed, strict=True)
    ]
    return table.fillna("")


RENAMED = {"reproduced": ("agrees", "confirmed"), "not reproduced": ("differs", "reversed")}
"""The words of the first edition, and those that give the same answer now."""


def crossed(table: pd.DataFrame) -> pd.DataFrame:
    """How many claims went from which verdict to which."""
    known = table[(table["before"] != "") & (table["after"] != "")]
    return known.groupby(["before", "after"]).size().unstack(fill_value=0).rename_axis(columns=None)


def _same(first: pd.Series, second: pd.Series) -> np.ndarray:
    a, b = (pd.to_numeric(column, errors="coerce").to_numpy(float) for column in (first, second))
    return np.isclose(a, b, rtol=2e-5, atol=1e-9, equal_nan=True)
