"""ACSPublicCoverage (US census survey of 2022, by state): predict whether a person has public health insurance."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fairfl_lite.data.acsincome import by_state, of_people, read_columns
from fairfl_lite.data.sources import Dataset
from fairfl_lite.data.table import Table, encode
from fairfl_lite.errors import choose

YEAR = 2022
FEATURES = ["AGEP", "SCHL", "MAR", "SEX", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR", "DEYE", "DREM", "PINCP",
            "ESR", "FER", "RAC1P"]  # fmt: skip
"""The 19 of folktables' task without ST, the state, which is the client here."""
NUMBERS = {"AGEP", "SCHL", "PINCP"}
PRIVILEGED = {"race": "RAC1P", "sex": "SEX"}


def build(
    paths: Mapping[str, Path],
    *,
    encoding: str = "codes",
    sensitive: str = "race",
    states: Sequence[str] | None = None,
    keep_sensitive: bool = False,
) -> Table:
    """ACSPublicCoverage as a Table. y = 1: covered by public health insurance. a = 1: White alone ("race") or male ("sex").

    Read from the files folktables stores (2022/1-Year/psam_pXX.csv under FAIRFL_DATA), with its filter: AGEP < 65 and
    PINCP <= 30,000, so that a person without a recorded income is left out. An empty cell is 0, as there.
    states : postal codes to use, None for all there are. `columns` has "state", "sex" and "race".
    Features are those of folktables' task, without the state and without the sensitive attribute; keep_sensitive=True adds `a`.
    encoding : "codes" takes the survey's own numbers. "onehot" splits all but age, schooling and income.
    """
    column = PRIVILEGED[choose(sensitive, PRIVILEGED, "sensitive attribute of dataset 'acspubliccoverage' named")]
    frame = by_state(paths, states, _read)
    a = (frame[column] == 1).to_numpy(np.int8)
    used = frame[[name for name in FEATURES if name != column]]
    if keep_sensitive:
        used = used.assign(**{sensitive: a})
    encoded = encode(used, set(FEATURES) - NUMBERS if encoding == "onehot" else (), encoding)
    note = f"The survey's files of {YEAR} as folktables stores them, {frame['STATE'].nunique()} of 51 states."
    options = {"encoding": encoding, "sensitive": sensitive, "states": states, "keep_sensitive": keep_sensitive}
    return of_people(DATASET, frame, encoded, frame["PUBCOV"], a, options, note)


def _read(path: Path) -> pd.DataFrame:
    frame = read_columns(path, [*FEATURES, "PUBCOV"])
    kept = (frame["AGEP"] < 65) & (frame["PINCP"] <= 30_000)
    frame = frame[kept].fillna(0)
    frame["PUBCOV"] = frame["PUBCOV"] == 1
    return frame.astype(np.int32)


DATASET = Dataset(
    name="acspubliccoverage",
    title="ACSPublicCoverage (US survey of 2022, by state)",
    licence="public use file of the US Census Bureau; folktables itself is MIT",
    url="https://github.com/socialfoundations/folktables",
    build=build,
    obtain=(
        f"install folktables, download with ACSDataSource(survey_year='{YEAR}', horizon='1-Year',"
        " survey='person', root_dir=FOLDER).get_data(download=True), and set FAIRFL_DATA to FOLDER"
    ),
    patterns=(f"{YEAR}/1-Year/psam_p[0-9][0-9].csv", f"acspubliccoverage/{YEAR}/1-Year/psam_p[0-9][0-9].csv"),
    origin="folktables",
)
