"""COMPAS (Broward County): predict whether a defendant is not charged again within two years."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from fairfl_lite.data.sources import Dataset, File, made
from fairfl_lite.data.table import Table, encode, raw
from fairfl_lite.errors import choose

NAME = "compas-scores-two-years.csv"
PROPUBLICA = f"https://raw.githubusercontent.com/propublica/compas-analysis/master/{NAME}"
NUMERIC = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
COLUMNS = [
    *NUMERIC, "sex", "race", "age_cat", "c_charge_degree", "c_charge_desc", "decile_score", "score_text",
    "two_year_recid",
]  # fmt: skip
ALL = ["sex", "age", "race", *NUMERIC[1:], "c_charge_degree", "c_charge_desc", "decile_score"]
CATEGORICAL = {"sex", "race", "age_cat", "c_charge_degree", "c_charge_desc"}
PRIVILEGED = {"race": "Caucasian", "sex": "Female"}


def build(
    paths: Mapping[str, Path],
    *,
    encoding: str = "codes",
    sensitive: str = "race",
    features: str = "fairfed",
    keep_sensitive: bool = False,
) -> Table:
    """COMPAS as a Table of 6,167 rows. y = 1: no new charge within two years.

    a = 1: Caucasian against everyone else (sensitive="race"), or Female ("sex").
    Rows: ProPublica's filter (6,172 of 7,214), less 5 without a charge description; FairFed's count.
    features : "fairfed" = age, three juvenile counts, prior counts, charge degree; "onehot" adds the three age
        bands. Race and sex are both left out, whichever is the sensitive one, and so is the COMPAS score, since
        it is itself a prediction of the label. "all" = the 10 that FAIR-FATE uses, in its order: sex, age, race,
        the counts, degree and description of the charge, and the score; the sensitive one is `a`.
    keep_sensitive : adds `a` as the last column, unless features="all" has it.
    """
    choose(sensitive, PRIVILEGED, "sensitive attribute of dataset 'compas' named")
    choose(features, ("fairfed", "all"), "setting of features")
    frame = pd.read_csv(paths[NAME], low_memory=False)
    frame = frame[propublica_filter(frame) & frame["c_charge_desc"].notna()].reset_index(drop=True)
    a = (frame[sensitive] == PRIVILEGED[sensitive]).to_numpy(np.int8)

    fairfed = [*NUMERIC, "c_charge_degree", *(["age_cat"] if encoding == "onehot" else [])]
    used = frame[ALL if features == "all" else fairfed]
    if keep_sensitive or features == "all":
        used = used.assign(**{sensitive: a})
    encoded = encode(used, CATEGORICAL - {sensitive}, encoding)

    options = {"encoding": encoding, "sensitive": sensitive, "keep_sensitive": keep_sensitive}
    # Left out where it is the default, so that the option changes no digest.
    options |= {} if features == "fairfed" else {"features": features}
    return made(DATASET, encoded, frame["two_year_recid"] == 0, a, raw(frame, COLUMNS), options)


def propublica_filter(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Screened within 30 days of arrest, outcome known, charged with felony or misdemeanour, scored."""
    return (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & frame["score_text"].notna()
    )


DATASET = Dataset(
    name="compas",
    title="COMPAS (Broward County, 2013-2014)",
    licence="none stated by the publisher",
    url="https://github.com/propublica/compas-analysis",
    build=build,
    obtain=(
        f"go online and run `fairfl data fetch compas`, or download {PROPUBLICA} into a folder and set FAIRFL_DATA to that folder"
    ),
    files=(
        File(
            name=NAME,
            sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
            package="aif360==0.2.0",
            member=f"aif360/data/raw/compas/{NAME}",
            url=PROPUBLICA,
        ),
    ),
)
