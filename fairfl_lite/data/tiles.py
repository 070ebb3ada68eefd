"""TILES (wearable sensors on nurses): predict a day of stress above the person's own average.

The real records are handed out by their owners. The stand-in has the published counts and random features.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairfl_lite import store
from fairfl_lite.data.sources import Dataset, made
from fairfl_lite.data.table import Table
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.streams import stream

FEATURES = 43

# FairFed, Table 8: client -> (female, male, stress y=0, stress y=1).
TABLE_8 = {
    "RN-day shift": (580, 127, 320, 387),
    "RN-night shift": (471, 138, 347, 262),
    "CNA": (149, 95, 158, 86),
}

VALUES = {"occupation": tuple(TABLE_8), "gender": ("Female", "Male"), "stress": (0, 1)}

# Distance between the class means in units of the features' standard deviation: the best possible
# accuracy for equal classes is Phi(SIGNAL / 2), about 0.60.
SIGNAL = 0.5


def build(paths: Mapping[str, Path], *, encoding: str = "codes", sensitive: str = "gender") -> Table:
    """The owners' records as a Table, from FAIRFL_DATA/tiles/tiles.csv. y = 1: stress above own average.

    Layout: one row per record; columns `occupation` ("RN-day shift", "RN-night shift" or "CNA"), `gender`
    ("Female" or "Male"), `stress` (0 or 1), and 43 numeric columns of any name. An empty cell takes its
    column's mean. a = 1: Male, as for Adult; the paper does not say which gender it calls privileged.
    Both encodings are the same here, since every feature is a number.
    """
    path = paths["tiles.csv"]
    frame = store.read_csv(path)
    for name, allowed in VALUES.items():
        if name not in frame or not frame[name].isin(allowed).all():
            raise FairFLError(f"The file {path} needs a column {name!r} with the values {allowed} only.")
    features = frame.drop(columns=list(VALUES))
    if features.shape[1] != FEATURES or not all(map(pd.api.types.is_numeric_dtype, features.dtypes)):
        raise FairFLError(f"The file {path} must have {FEATURES} numeric columns besides {list(VALUES)}.")
    options = {"encoding": encoding, "sensitive": sensitive}
    with np.errstate(over="ignore"):  # too large a number is refused by the table
        return _table(DATASET, frame, features.fillna(features.mean()), options)


def generate(paths: Mapping[str, Path], *, encoding: str = "codes", sensitive: str = "gender", seed: int = 0) -> Table:
    """The stand-in: clients, genders and stress counts of FairFed's Table 8, features made up.

    The table prints margins only. Inside each client gender and stress are made independent: the number of
    stressed women is female * stressed / size, rounded, and the other three cells follow from the margins.
    The 43 features are independent standard normal draws whose mean is higher for y = 1 by the same amount in
    every column, SIGNAL / sqrt(43). They carry nothing about gender or client. No result on these rows says
    anything about nurses.
    """
    parts = []
    for client, (female, male, calm, stressed) in TABLE_8.items():
        both = round(female * stressed / (female + male))
        counts = [female - both, both, calm - (female - both), stressed - both]
        cells = pd.DataFrame({"gender": ["Female", "Female", "Male", "Male"], "stress": [0, 1, 0, 1]})
        parts.append(cells.loc[cells.index.repeat(counts)].assign(occupation=client))
    frame = pd.concat(parts, ignore_index=True)
    X = stream(seed, "tiles-stand-in").standard_normal((len(frame), FEATURES))
    X += SIGNAL / FEATURES**0.5 * frame["stress"].to_numpy()[:, None]
    features = pd.DataFrame(X, columns=[f"random {i:02d}" for i in range(1, FEATURES + 1)])
    return _table(STAND_IN, frame, features, {"encoding": encoding, "sensitive": sensitive, "seed": seed})


def _table(dataset: Dataset, frame: pd.DataFrame, features: pd.DataFrame, options: Mapping[str, Any]) -> Table:
    choose(options["sensitive"], ("gender",), f"sensitive attribute of dataset {dataset.name!r} named")
    encoded = features.to_numpy(np.float32, copy=True), tuple(features.columns)
    columns = {name: frame[name].to_numpy(str) for name in ("occupation", "gender")}
    note = "Stand-in: published counts, made-up features." if dataset.stand_in else ""
    return made(dataset, encoded, frame["stress"], frame["gender"] == "Male", columns, options, note=note)


DATASET = Dataset(
    name="tiles",
    title="TILES-2018 (wearable sensors on hospital workers)",
    licence="data use agreement with the owners",
    url="https://tiles-data.isi.edu",
    build=build,
    obtain=(
        "request the records from their owners (https://tiles-data.isi.edu), write them to"
        " FAIRFL_DATA/tiles/tiles.csv in the layout of its data card, or use 'tiles-stand-in'"
    ),
    patterns=("tiles/tiles.csv",),
    origin="its owners, on request",
)

STAND_IN = Dataset(
    name="tiles-stand-in",
    title="TILES stand-in (published counts, made-up features)",
    licence="that of this package",
    url="https://tiles-data.isi.edu",
    build=generate,
    obtain="it is generated",
    origin="generated",
    generated=f"1 {TABLE_8} {SIGNAL}",
)
