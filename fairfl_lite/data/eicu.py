"""eICU (intensive care in US hospitals, 2014-2015): predict whether a patient stays long.

The real records are handed out by PhysioNet to people it has credentialed. The stand-in has made-up patients of 11 hospitals.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairfl_lite.data.sources import Dataset, made
from fairfl_lite.data.table import Table, encode
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.streams import stream

HOSPITALS = 11
MINIMUM = 1_500
"""EFFL, appendix B.1: hospitals with fewer rows are left out, which leaves 11."""

NUMBERS = ["age", "admissionheight", "admissionweight", "acutephysiologyscore", "apachescore"]
CATEGORIES = ["gender", "unittype", "unitadmitsource"]
PATIENT = ["patientunitstayid", "hospitalid", "ethnicity", "unitvisitnumber", "unitdischargeoffset", "hospitaldischargestatus",
           "age", "admissionheight", "admissionweight", *CATEGORIES]  # fmt: skip
RESULT = ["patientunitstayid", "apacheversion", "acutephysiologyscore", "apachescore"]
PRIVILEGED = {"race": ("ethnicity", "Caucasian"), "sex": ("gender", "Male")}
OUTCOMES = ("stay", "mortality")
MINUTES = 24 * 60


def build(
    paths: Mapping[str, Path],
    *,
    encoding: str = "codes",
    sensitive: str = "race",
    outcome: str = "stay",
    days: float | None = None,
    minimum: int = MINIMUM,
) -> Table:
    """The credentialed records as a Table, from eicu/patient.csv.gz and eicu/apachePatientResult.csv.gz under FAIRFL_DATA.

    y = 1: outcome="stay", the stay in intensive care is longer than `days`, or than the median of the rows kept if that is None;
    outcome="mortality", the patient died in hospital. The paper does not name its outcome: an accuracy of 0.65 is that of a
    label that is about as often 0 as 1, and deaths are few. a = 1: Caucasian ("race") or male ("sex").
    Rows: first stay in a unit of each stay in hospital, age 16 or more, an APACHE IVa score, a known outcome and a recorded
    attribute; then the hospitals that have `minimum` of them. An age of "> 89" is 90, and an empty number takes the mean of its
    column. `columns` has "hospital".
    """
    column, value = PRIVILEGED[choose(sensitive, PRIVILEGED, "sensitive attribute of dataset 'eicu' named")]
    choose(outcome, OUTCOMES, "outcome")
    frame = _read(paths, "patient", PATIENT)
    scores = _read(paths, "apachePatientResult", RESULT)
    scores = scores[(scores["apacheversion"] == "IVa") & (scores["apachescore"] >= 0)].drop_duplicates("patientunitstayid")
    frame["age"] = pd.to_numeric(frame["age"].astype(str).replace("> 89", "90"), errors="coerce")
    frame = frame[(frame["unitvisitnumber"] == 1) & (frame["age"] >= 16) & frame[column].notna()]
    frame = frame[frame["unitdischargeoffset" if outcome == "stay" else "hospitaldischargestatus"].notna()]
    frame = frame.merge(scores, on="patientunitstayid")
    frame = frame[frame.groupby("hospitalid")["hospitalid"].transform("size") >= minimum].reset_index(drop=True)
    if frame.empty:
        raise FairFLError(f"No hospital in these files has {minimum} rows: get the whole eICU files, or give a smaller minimum.")

    stay = frame["unitdischargeoffset"] / MINUTES
    long = stay > (stay.median() if days is None else days)
    y = long if outcome == "stay" else frame["hospitaldischargestatus"] == "Expired"
    categories = [name for name in CATEGORIES if name != column]
    numbers = frame[NUMBERS].fillna(frame[NUMBERS].mean())
    encoded = encode(numbers.join(frame[categories].fillna("unknown")), categories, encoding)
    hospital = frame["hospitalid"].astype(int).astype(str).to_numpy(str)
    found = len(np.unique(hospital))
    options = {"encoding": encoding, "sensitive": sensitive, "outcome": outcome, "days": days, "minimum": minimum}
    note = "" if found == HOSPITALS else f"{found} hospitals, where EFFL has {HOSPITALS}: its steps before are not printed."
    return made(DATASET, encoded, y, frame[column] == value, {"hospital": hospital}, options, note=note)


def _read(paths: Mapping[str, Path], name: str, columns: list[str]) -> pd.DataFrame:
    path = paths.get(f"{name}.csv.gz") or paths.get(f"{name}.csv")
    if path is None:
        raise FairFLError(f"Dataset 'eicu' needs {name}.csv.gz beside its other file: copy it from PhysioNet's folder.")
    try:
        return pd.read_csv(path, usecols=columns)
    except (ValueError, OSError) as error:
        raise FairFLError(f"{path} is not the {name} file of eICU: download it again.") from error


# The stand-in: rows of each hospital, its share of Caucasian patients, and how much longer its patients stay whatever their
# condition, in standard deviations of the logarithm.
STAND_IN_HOSPITALS = {
    f"hospital {i + 1:02d}": (
        1_500 + 250 * i,
        round(0.91 - 0.04 * ((4 * i) % HOSPITALS), 2),
        round(0.15 * ((7 * i + 5) % HOSPITALS - 5), 2),
    )
    for i in range(HOSPITALS)
}
STAY = (1.57, 0.82, 2.97)
"""Median and quartiles of days in intensive care (O'Halloran et al. 2020)."""
SIGNAL = 0.65
"""Correlation of a patient's condition with the logarithm of the stay, inside a hospital and a group."""
GAP = 0.4
"""How much worse the condition of patients who are not Caucasian is on average, in standard deviations."""
STAND_IN_FEATURES = 10


def generate(
    paths: Mapping[str, Path], *, encoding: str = "codes", sensitive: str = "race", gap: float = GAP, seed: int = 0
) -> Table:
    """The stand-in: 11 hospitals of 1,500 rows or more. No result on these rows says anything about patients.

    Recipe. Published are the number of hospitals and their least size (EFFL, B.1), and median and quartiles of the days that
    patients stay (STAY). All else is made up. Sizes grow evenly from 1,500 to 4,000. The share of Caucasian patients, a = 1,
    lies between 0.51 and 0.91, in an order that has nothing to do with size. A condition z ~ N(0, 1), worse by `gap` for a = 0,
    is seen through 10 features, each z plus noise of standard deviation 2. The logarithm of the stay is normal around the log of
    the median: SIGNAL z, plus the hospital's own shift, plus noise; its spread is that of the published quartiles.
    y = 1: the stay is longer than the published median. With gap=0 the groups are alike but for chance and for where they are
    treated.
    """
    choose(sensitive, ("race",), "sensitive attribute of dataset 'eicu-stand-in' named")
    rng = stream(seed, "eicu-stand-in")
    sizes, shares, shifts = (np.array(values) for values in zip(*STAND_IN_HOSPITALS.values(), strict=True))
    hospital = np.repeat(np.arange(HOSPITALS), sizes)
    n = len(hospital)
    a = (rng.random(n) < shares[hospital]).astype(np.int8)
    z = rng.standard_normal(n) + gap * (1 - a)
    X = z[:, None] + 2 * rng.standard_normal((n, STAND_IN_FEATURES))
    median, low, high = STAY
    sd = np.log(high / low) / (2 * 0.6744897501960817)  # the quartile of N(0, 1)
    days = median * np.exp(sd * (SIGNAL * z + shifts[hospital] + np.sqrt(1 - SIGNAL**2) * rng.standard_normal(n)))
    options: dict[str, Any] = {"encoding": encoding, "sensitive": sensitive, "gap": gap, "seed": seed}
    encoded = X.astype(np.float32), tuple(f"made up {i:02d}" for i in range(1, STAND_IN_FEATURES + 1))
    columns = {"hospital": np.array(list(STAND_IN_HOSPITALS))[hospital], "days": days}
    return made(STAND_IN, encoded, days > median, a, columns, options, note="Stand-in: 11 made-up hospitals.")


DATASET = Dataset(
    name="eicu",
    title="eICU (intensive care in US hospitals, 2014-2015)",
    licence="PhysioNet credentialed health data licence: training, an agreement, and no passing on",
    url="https://physionet.org/content/eicu-crd",
    build=build,
    obtain=(
        "get access from PhysioNet (https://physionet.org/content/eicu-crd), copy patient.csv.gz and apachePatientResult.csv.gz"
        " to FAIRFL_DATA/eicu, or use 'eicu-stand-in'"
    ),
    patterns=("eicu/*[pP]atient*.csv.gz", "eicu/*[pP]atient*.csv"),
    origin="PhysioNet, after credentialing",
)

STAND_IN = Dataset(
    name="eicu-stand-in",
    title="eICU stand-in (11 made-up hospitals)",
    licence="that of this package",
    url="https://physionet.org/content/eicu-crd",
    build=generate,
    obtain="it is generated",
    origin="generated",
    generated=f"1 {STAND_IN_HOSPITALS} {STAY} {SIGNAL} {GAP} {STAND_IN_FEATURES}",
)
