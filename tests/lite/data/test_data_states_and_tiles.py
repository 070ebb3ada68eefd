"""ACSIncome and TILES: loaders on small files made in the owners' formats, and the stand-in."""

import hashlib
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fairfl_lite import data
from fairfl_lite.data import Partition, acsincome
from fairfl_lite.errors import FairFLError

SURVEY = {
    "RT": "P", "SERIALNO": "2018GQ1", "AGEP": 40, "COW": 1, "SCHL": 21, "MAR": 1, "OCCP": 440, "POBP": 56,
    "RELP": 0, "WKHP": 40, "SEX": 1, "RAC1P": 1, "PINCP": 60_000, "PWGTP": 20,
}  # fmt: skip


@pytest.fixture
def survey(folder):
    """Two states as folktables stores them; half of Wyoming's rows fail one condition of the filter each."""
    kept = [{}, {"AGEP": 17}, {"PINCP": 101}, {"WKHP": 1}, {"PWGTP": 1}, {"PINCP": 50_000}, {"PINCP": 50_001}]
    dropped = [{"AGEP": 16}, {"PINCP": 100}, {"PINCP": None}, {"WKHP": 0}, {"WKHP": None}, {"PWGTP": 0}]
    abroad = SURVEY | {"OCCP": 9830, "POBP": 303}
    files = {
        "56": [SURVEY | change for change in (*kept, *dropped)],
        "50": [abroad | {"RAC1P": race, "SEX": sex} for race in (1, 2, 9) for sex in (1, 2)],
    }
    stored = folder / "2018" / "1-Year"
    stored.mkdir(parents=True)
    for code, rows in files.items():
        pd.DataFrame(rows).to_csv(stored / f"psam_p{code}.csv", index=False)
    return stored


def test_folktables_files_with_the_acsincome_filter(survey):
    table = data.load("acsincome")
    wyoming = table.columns["state"] == "WY"
    assert set(table.columns["state"]) == {"WY", "VT"} and wyoming.sum() == 7
    np.testing.assert_array_equal(table.y[wyoming], [1, 1, 0, 1, 1, 0, 1])
    np.testing.assert_array_equal(table.a[~wyoming], [1, 1, 0, 0, 0, 0])
    assert table.features == ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP")
    assert "2 of 51" in table.note and table.X.dtype == np.float32
    assert Partition.by_column("state").names(table) == ["VT", "WY"]


def test_states_and_sensitive_attribute_are_options(survey):
    vermont = data.load("acsincome", states=["VT"], sensitive="sex")
    assert set(vermont.columns["state"]) == {"VT"}
    np.testing.assert_array_equal(vermont.a, [1, 0, 1, 0, 1, 0])
    assert vermont.digest != data.load("acsincome", sensitive="sex").digest
    for wrong in (["NY"], "VT", []):
        with pytest.raises(FairFLError):
            data.load("acsincome", states=wrong)


def test_one_hot_groups_occupations_and_birth_places(survey):
    table = data.load("acsincome", encoding="onehot")
    assert {"OCCP=10", "OCCP=9800", "POBP=1", "POBP=300", "SCHL"} <= set(table.features)
    military = table.X[:, table.features.index("OCCP=9800")] > 0
    np.testing.assert_array_equal(military, table.columns["state"] == "VT")


def test_digest_follows_the_survey_files(survey):
    before = data.digest("acsincome")
    pd.DataFrame([SURVEY]).to_csv(survey / "psam_p15.csv", index=False)
    assert data.digest("acsincome") != before


def test_prepared_file_leaves_out_altered_states(folder, monkeypatch):
    states = ["AL", "AK", "PR", "VT"]
    frame = pd.DataFrame([{"STATE": s} | SURVEY | {"PINCP": i % 2} for i, s in enumerate(states * 3)])
    path = folder / acsincome.PREPARED
    frame.drop(columns=["RT", "SERIALNO", "PWGTP"]).to_csv(path, index=False)
    with pytest.raises(FairFLError, match="sha256"):
        data.load("acsincome")

    file = replace(acsincome.DATASET.files[0], sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    changed = replace(acsincome.DATASET, files=(file,))
    monkeypatch.setattr(acsincome, "DATASET", changed)
    monkeypatch.setitem(data.DATASETS, "acsincome", changed)
    table = data.load("acsincome")
    assert sorted(table.columns["state"]) == ["AL"] * 3 + ["VT"] * 3
    assert "California" in table.note
    with pytest.raises(FairFLError, match="AK"):
        data.load("acsincome", states=["AK", "VT"])


def test_states_are_the_fifty_and_puerto_rico():
    assert len(acsincome.STATES) == len(set(acsincome.STATES.values())) == 51
    assert [acsincome.STATES[code] for code in ("01", "06", "15", "50", "56", "72")] == [
        "AL",
        "CA",
        "HI",
        "VT",
        "WY",
        "PR",
    ]
    assert len(set(acsincome.STATES.values()) - acsincome.ALTERED - {"CA"}) == 38


# FairFed, Table 8: size, female, male, y=0, y=1.
PRINTED = {"CNA": (244, 149, 95, 158, 86), "RN-day shift": (707, 580, 127, 320, 387),
           "RN-night shift": (609, 471, 138, 347, 262)}  # fmt: skip


def test_stand_in_has_the_printed_counts_and_says_what_it_is():
    table = data.load("tiles-stand-in")
    assert table.stand_in and table.name == "tiles-stand-in" and "Stand-in" in table.note
    assert table.X.shape == (1_560, 43)
    partition = Partition.by_column("occupation")
    clients = [np.flatnonzero(table.columns["occupation"] == name) for name in partition.names(table)]
    for name, counts in data.histogram(table, clients, partition.names(table)).iterrows():
        size, female, male, calm, stressed = PRINTED[name]
        assert counts.sum() == size
        assert (counts[0].sum(), counts[1].sum()) == (female, male)
        assert (counts[:, 0].sum(), counts[:, 1].sum()) == (calm, stressed)
        assert abs(counts[0, 1] - female * stressed / size) <= 0.5


def test_stand_in_features_know_the_label_a_little_and_gender_not_at_all():
    """Two normal classes at distance d: the best accuracy is Phi(d / 2), here Phi(0.25), about 0.60."""
    table = data.load("tiles-stand-in")
    projected = table.X.sum(axis=1)
    cut = (projected[table.y == 0].mean() + projected[table.y == 1].mean()) / 2
    assert np.mean((projected > cut) == table.y) == pytest.approx(NormalDist().cdf(0.25), abs=0.035)
    train = table.split(0)["train"]
    test = table.split(0)["test"]
    by_gender = LinearDiscriminantAnalysis().fit(table.X[train], table.a[train])
    score = by_gender.decision_function(table.X[test])
    pairs = score[table.a[test] == 1][:, None] > score[table.a[test] == 0]
    assert abs(pairs.mean() - 0.5) < 0.12


def test_stand_in_rows_depend_on_their_seed_alone():
    first, again, other = (data.load("tiles-stand-in", seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    assert first.digest == again.digest != other.digest
    assert not np.array_equal(first.X, other.X)


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((12, 43)), columns=[f"signal_{i}" for i in range(43)])
    frame.loc[3, "signal_7"] = None
    frame["occupation"] = ["RN-day shift", "RN-night shift", "CNA"] * 4
    frame["gender"] = ["Female", "Male"] * 6
    return frame.assign(stress=[0, 0, 1, 1] * 3)


def test_owners_tiles_file(folder, records):
    (folder / "tiles").mkdir()
    records.to_csv(folder / "tiles" / "tiles.csv", index=False)
    table = data.load("tiles")
    assert not table.stand_in and table.X.shape == (12, 43) and table.name == "tiles"
    np.testing.assert_array_equal(table.a, [0, 1] * 6)
    np.testing.assert_array_equal(table.y, [0, 0, 1, 1] * 3)
    assert table.X[3, 7] == pytest.approx(0, abs=1e-6)
    assert data.check("tiles")["status"].tolist() == ["present, no registered sha256"]


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda frame: frame.drop(columns="gender"), "'gender'"),
        (lambda frame: frame.replace({"gender": {"Male": "M"}}), "'gender'"),
        (lambda frame: frame.assign(stress=2), "'stress'"),
        (lambda frame: frame.drop(columns="signal_0"), "43 numeric"),
        (lambda frame: frame.assign(signal_0="x"), "43 numeric"),
        (lambda frame: frame.assign(signal_0=[np.inf] + [1.0] * 11), "'signal_0' holds what is no number"),
        (lambda frame: frame.assign(signal_0=[1e300] + [1.0] * 11), "'signal_0' holds what is no number, or too large a one"),
        (lambda frame: frame.assign(signal_0=np.nan), "'signal_0' holds what is no number"),
        (lambda frame: frame.iloc[:0], "no rows|numeric"),
    ],
)
def test_a_tiles_file_in_another_layout_is_refused(folder, records, change, hint):
    (folder / "tiles").mkdir()
    change(records).to_csv(folder / "tiles" / "tiles.csv", index=False)
    with pytest.raises(FairFLError, match=hint):
        data.load("tiles")


@pytest.mark.parametrize("damage", ["utf-16", "empty", "binary", "ragged", "folder"])
def test_a_tiles_file_that_is_no_table_is_refused(folder, records, damage):
    path = folder / "tiles" / "tiles.csv"
    path.parent.mkdir()
    text = records.to_csv(index=False)
    if damage == "folder":
        path.mkdir()
    else:
        content = {
            "utf-16": text.encode("utf-16"),
            "empty": b"",
            "binary": bytes(range(256)),
            "ragged": f"{text}1{',1' * 60}\n".encode(),
        }
        path.write_bytes(content[damage])
    with pytest.raises(FairFLError, match="is not a table that can be read") as caught:
        data.load("tiles")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"OCCP": 1e9}, "OCCP = 1e\\+09"),
        ({"AGEP": np.inf}, "AGEP = inf"),
        ({"COW": 0.5}, "COW = 0.5"),
        ({"SEX": 3}, "SEX = 3"),
        ({"RAC1P": None}, "RAC1P = -1"),
        ({"PINCP": np.inf}, "PINCP = inf"),
        ({"AGEP": 3}, "no row that ACSIncome uses"),
    ],
)
def test_a_survey_file_with_what_the_survey_does_not_know_is_refused(folder, change, hint):
    stored = folder / "2018" / "1-Year"
    stored.mkdir(parents=True)
    pd.DataFrame([SURVEY | change]).to_csv(stored / "psam_p56.csv", index=False)
    with pytest.raises(FairFLError, match=hint):
        data.load("acsincome")


def test_a_survey_file_of_no_state_is_refused(survey):
    pd.DataFrame([SURVEY]).to_csv(survey / "psam_p99.csv", index=False)
    with pytest.raises(FairFLError, match="psam_p99.csv bears the number of no state"):
        data.load("acsincome")
