"""Dutch census (2001): predict whether a person works in a high-level occupation."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from fairfl_lite.data.sources import Dataset, File, made
from fairfl_lite.data.table import Table, encode, raw
from fairfl_lite.errors import choose

NAME = "dutch.csv"
URL = "https://github.com/tailequy/fairness_dataset"
FEATURES = [
    "sex", "age", "household_position", "household_size", "prev_residence_place", "citizenship", "country_birth",
    "edu_level", "economic_status", "cur_eco_activity", "marital_status",
]  # fmt: skip
CATEGORICAL = (
    "household_position", "prev_residence_place", "citizenship", "country_birth", "economic_status",
    "cur_eco_activity", "marital_status",
)  # fmt: skip

# Rows of the file by group (0 female, 1 male) and label: what its page shows to readers without the file.
CENSUS = ((20_370, 9_903), (11_287, 18_860))


def build(paths: Mapping[str, Path], *, encoding: str = "codes", sensitive: str = "sex", keep_sensitive: bool = True) -> Table:
    """Dutch census as a Table of 60,420 rows. y = 1: high-level occupation. a = 1: male.

    Features: the 11 columns of the file but the label, in their order, sex as male = 1. FAIR-FATE scales them to
    0..1 (scaling="minmax"). keep_sensitive=False leaves sex out of X.
    encoding : "codes" takes the census' own numbers. "onehot" splits the seven columns whose codes have no order;
    age, household size and schooling stay numbers.
    """
    choose(sensitive, ("sex",), "sensitive attribute of dataset 'dutch' named")
    frame = pd.read_csv(paths[NAME])
    used = frame[FEATURES].assign(sex=frame["sex"] == "male")
    # The codes are numbers already: only "onehot" treats columns as categories.
    categorical = CATEGORICAL if encoding == "onehot" else ()
    encoded = encode(used if keep_sensitive else used.drop(columns="sex"), categorical, encoding)
    options = {"encoding": encoding, "sensitive": sensitive, "keep_sensitive": keep_sensitive}
    return made(DATASET, encoded, frame["occupation"], used["sex"], raw(frame, FEATURES), options)


DATASET = Dataset(
    name="dutch",
    title="Dutch census (2001)",
    licence="none stated by the source of the file; the sample itself is given out by IPUMS on registration",
    url=URL,
    build=build,
    obtain=(
        f"download experiments/data/{NAME} from {URL}, which states no licence, into a folder and set FAIRFL_DATA to that folder"
    ),
    files=(File(NAME, "c0e1df7e2ca07fa84aa99b5565c7b782a381e2fab377648a6d920174d04ce090"),),
    origin="github.com, by hand",
)
