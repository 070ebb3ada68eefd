"""ACSIncome (US census survey of 2018, by state): predict whether income is above 50,000 dollars."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairfl_lite.data.sources import Dataset, File, made
from fairfl_lite.data.table import Encoded, Table, encode
from fairfl_lite.errors import FairFLError, choose

PREPARED = "acsincome_2018_50states.csv.gz"
FEATURES = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP"]
PRIVILEGED = {"race": "RAC1P", "sex": "SEX"}

# Federal numbers of the states, as in the names of the Census Bureau's files.
STATES = {
    "01": "AL", "02": "AK", "04": "AZ", "05": "AR", "06": "CA", "08": "CO", "09": "CT", "10": "DE",
    "12": "FL", "13": "GA", "15": "HI", "16": "ID", "17": "IL", "18": "IN", "19": "IA", "20": "KS",
    "21": "KY", "22": "LA", "23": "ME", "24": "MD", "25": "MA", "26": "MI", "27": "MN", "28": "MS",
    "29": "MO", "30": "MT", "31": "NE", "32": "NV", "33": "NH", "34": "NJ", "35": "NM", "36": "NY",
    "37": "NC", "38": "ND", "39": "OH", "40": "OK", "41": "OR", "42": "PA", "44": "RI", "45": "SC",
    "46": "SD", "47": "TN", "48": "TX", "49": "UT", "50": "VT", "51": "VA", "53": "WA", "54": "WV",
    "55": "WI", "56": "WY", "72": "PR",
}  # fmt: skip

# In the prepared file some positive rows of one group were removed from these states.
ALTERED = frozenset({"AK", "AR", "AZ", "DE", "LA", "MN", "MS", "NE", "OH", "OR", "PR", "WV"})
PREPARED_NOTE = (
    "Prepared file, 38 of 51 states: California is not in it, Florida has about a third of its rows, marital"
    " status is merged to 2 and race to 5 values, and 12 states whose rows its makers altered are left out ("
    + ", ".join(sorted(ALTERED))
    + ")."
)

# First codes of the 25 major occupation groups of the 2018 survey, and of the world regions of birth.
OCCUPATIONS = [10, 500, 800, 1005, 1305, 1600, 2001, 2100, 2205, 2600, 3000, 3601, 3700, 4000, 4200, 4330,
               4700, 5000, 6005, 6200, 6800, 7000, 7700, 9005, 9800]  # fmt: skip
REGIONS = [1, 60, 100, 200, 300, 400, 500]


def build(
    paths: Mapping[str, Path],
    *,
    encoding: str = "codes",
    sensitive: str = "race",
    states: Sequence[str] | None = None,
    keep_sensitive: bool = False,
) -> Table:
    """ACSIncome as a Table. y = 1: income above 50,000 dollars. a = 1: White alone ("race") or male ("sex").

    Read from the files folktables stores (2018/1-Year/psam_pXX.csv under FAIRFL_DATA; its filter is applied:
    AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1), otherwise from a prepared file; see `note` of the Table.
    states : postal codes to use, None for all there are. `columns` has "state", "sex" and "race".
    Features are the 8 that FairFed lists, so neither sex nor race; keep_sensitive=True adds `a`.
    encoding : "codes" takes the survey's own numbers. "onehot" splits class of worker, marital status and
    relationship, and first groups occupation (25 groups) and place of birth (7 regions), which have
    hundreds of values; schooling stays a number, as its codes are ordered.
    """
    choose(sensitive, PRIVILEGED, "sensitive attribute of dataset 'acsincome' named")
    prepared = PREPARED in paths
    frame = _prepared(paths[PREPARED], states) if prepared else by_state(paths, states, _read_survey)
    a = (frame[PRIVILEGED[sensitive]] == 1).to_numpy(np.int8)

    used = frame[FEATURES]
    if encoding == "onehot":
        used = used.assign(OCCP=_group(used["OCCP"], OCCUPATIONS), POBP=_group(used["POBP"], REGIONS))
    if keep_sensitive:
        used = used.assign(**{sensitive: a})
    # The codes are numbers already: only "onehot" treats columns as categories.
    categorical = ["COW", "MAR", "OCCP", "POBP", "RELP"] if encoding == "onehot" else []
    survey = f"The survey's files as folktables stores them, {frame['STATE'].nunique()} of 51 states."
    options = {"encoding": encoding, "sensitive": sensitive, "states": states, "keep_sensitive": keep_sensitive}
    encoded = encode(used, categorical, encoding)
    return of_people(DATASET, frame, encoded, frame["PINCP"], a, options, PREPARED_NOTE if prepared else survey)


def of_people(dataset: Dataset, frame: pd.DataFrame, encoded: Encoded, y: pd.Series, a: NDArray[np.int8],
              options: dict[str, Any], note: str) -> Table:  # fmt: skip
    """The table of a survey, see `sources.made`, with the columns "state", "sex" and "race"."""
    sex = np.where(frame["SEX"] == 1, "Male", "Female")
    columns = {"state": frame["STATE"].to_numpy(str), "sex": sex, "race": frame["RAC1P"].to_numpy(np.int8)}
    states = options["states"]
    return made(dataset, encoded, y, a, columns, options | {"states": states and sorted(set(states))}, note=note)


def _prepared(path: Path, states: Sequence[str] | None) -> pd.DataFrame:
    small = {name: np.int16 for name in (*FEATURES, "SEX", "RAC1P")}
    frame = pd.read_csv(path, dtype={"STATE": "category", "PINCP": np.int8, **small})
    usable = sorted(set(frame["STATE"].cat.categories) - ALTERED)
    return frame[frame["STATE"].isin(_wanted(states, usable))].reset_index(drop=True)


def by_state(paths: Mapping[str, Path], states: Sequence[str] | None, read: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    """The survey's files of these states (None: all there are), each read by `read`, with a column STATE."""
    coded = {re.sub(r"\D", "", name): path for name, path in paths.items()}
    files = {STATES[code]: path for code, path in coded.items() if code in STATES}
    strange = sorted(path.name for code, path in coded.items() if code not in STATES)
    if strange:
        raise FairFLError(f"{strange[0]} bears the number of no state: remove it, or download the survey again.")
    wanted = _wanted(states, sorted(files))
    return pd.concat([read(files[state]).assign(STATE=state) for state in wanted], ignore_index=True)


def read_columns(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """The named columns of one file of the survey, as numbers."""
    try:
        return pd.read_csv(path, usecols=list(columns), dtype=np.float32)
    except (ValueError, OSError) as error:
        raise FairFLError(f"{path} is not a file of the survey: download it again or remove it.") from error


def _read_survey(path: Path) -> pd.DataFrame:
    columns = [*FEATURES, "SEX", "RAC1P", "PINCP", "PWGTP"]
    frame = read_columns(path, columns)
    kept = (frame["AGEP"] > 16) & (frame["PINCP"] > 100) & (frame["WKHP"] > 0) & (frame["PWGTP"] >= 1)
    frame = frame.loc[kept, columns[:-1]].fillna(-1)
    _refuse_odd(path, frame)
    frame["PINCP"] = frame["PINCP"] > 50_000
    return frame.astype(np.int16)


def _refuse_odd(path: Path, frame: pd.DataFrame) -> None:
    """What no file of the survey holds: a code that is no small whole number, a sex or race without a code, nobody at all."""
    if frame.empty:
        raise FairFLError(f"{path} has no row that ACSIncome uses: download it again or remove it.")
    limits = {"SEX": (1, 2), "RAC1P": (1, 9), "PINCP": (-1e8, 1e8)}
    for name in frame:
        low, high = limits.get(name, (-1, 9999))
        odd = ~frame[name].between(low, high) | (frame[name] % 1 != 0)
        if odd.any():
            value = frame.loc[odd, name].iloc[0]
            raise FairFLError(f"{path} has {name} = {value:g}, which the survey does not know: download it again or remove it.")


def _wanted(states: Sequence[str] | None, usable: Sequence[str]) -> list[str]:
    if states is None:
        return list(usable)
    if isinstance(states, str) or not states:
        raise FairFLError("states is a list of postal codes, for example states=['NY', 'VT'].")
    lacking = sorted(set(states) - set(usable))
    if lacking:
        raise FairFLError(
            f"State {lacking[0]!r} is not in these files, or not as it was surveyed: choose among"
            f" {' '.join(usable)}, or fetch it with folktables."
        )
    return sorted(set(states))


def _group(codes: pd.Series, firsts: list[int]) -> NDArray[np.int16]:
    """The first code of the group each code lies in, so that the column names stay readable."""
    return np.array([-1, *firsts], dtype=np.int16)[np.searchsorted(firsts, codes, side="right")]


DATASET = Dataset(
    name="acsincome",
    title="ACSIncome (American Community Survey, 2018, by state)",
    licence="public use file of the US Census Bureau; folktables itself is MIT",
    url="https://github.com/socialfoundations/folktables",
    build=build,
    obtain=(
        "install folktables, download with ACSDataSource(survey_year='2018', horizon='1-Year',"
        " survey='person', root_dir=FOLDER).get_data(download=True), and set FAIRFL_DATA to FOLDER"
    ),
    files=(File(PREPARED, "c415fe1d3292f0dd8fb7fb9d71914e1dbb92867eb0737273fd74085a08e54e2b"),),
    origin="folktables",
    patterns=("2018/1-Year/psam_p[0-9][0-9].csv", "acsincome/2018/1-Year/psam_p[0-9][0-9].csv"),
)
