"""Law School (bar passage study of the class of 1991): predict whether a student passes the bar exam."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from fairfl_lite.data.sources import Dataset, File, made
from fairfl_lite.data.table import Table, encode, raw
from fairfl_lite.errors import choose

NAME = "law_school_clean.csv"
URL = "https://github.com/tailequy/fairness_dataset"
FEATURES = [
    "decile1b", "decile3", "lsat", "ugpa", "zfygpa", "zgpa", "fulltime", "fam_inc", "male", "tier", "race",
]  # fmt: skip
COLUMN = {"race": "race", "sex": "male"}

# Rows of the file by group (0 Non-White, 1 White) and label: what its page shows to readers without the file.
CENSUS = ((916, 2_391), (1_377, 16_114))


def build(paths: Mapping[str, Path], *, encoding: str = "codes", sensitive: str = "race", keep_sensitive: bool = True) -> Table:
    """Law School as a Table of 20,798 rows. y = 1: passed the bar exam.

    a = 1: White against everyone else (sensitive="race"), or male ("sex").
    Features: the 11 columns of the file but the label, in their order, race as White = 1. FAIR-FATE uses them
    unscaled (scaling="none"). keep_sensitive=False leaves the sensitive column out of X.
    Both encodings are the same here: every column is a number, and the two codes, tier and income, are ordered.
    """
    choose(sensitive, COLUMN, "sensitive attribute of dataset 'law-school' named")
    frame = pd.read_csv(paths[NAME])
    used = frame[FEATURES].assign(race=frame["race"] == "White")
    encoded = encode(used if keep_sensitive else used.drop(columns=COLUMN[sensitive]), (), encoding)
    options = {"encoding": encoding, "sensitive": sensitive, "keep_sensitive": keep_sensitive}
    return made(DATASET, encoded, frame["pass_bar"], used[COLUMN[sensitive]], raw(frame, FEATURES), options)


DATASET = Dataset(
    name="law-school",
    title="Law School (bar passage study, 1991-1996)",
    licence="none stated by the source of the file",
    url=URL,
    build=build,
    obtain=(
        f"download experiments/data/{NAME} from {URL}, which states no licence, into a folder and set FAIRFL_DATA to that folder"
    ),
    files=(File(NAME, "23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452"),),
    origin="github.com, by hand",
)
