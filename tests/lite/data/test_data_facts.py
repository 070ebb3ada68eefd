"""Adult and COMPAS against their published counts, and the encodings against scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from fairfl_lite import data
from fairfl_lite.data.table import scale
from fairfl_lite.errors import FairFLError


def test_adult_counts_of_its_makers():
    every = data.load("adult", rows="all")
    files = every.columns["file"]
    assert len(every) == 48_842
    assert [int((files == name).sum()) for name in ("train", "test")] == [32_561, 16_281]
    assert len(data.load("adult", rows="train")) == 32_561
    assert round(100 * every.y.mean(), 2) == 23.93
    assert round(100 * every.y[every.a == 1].mean(), 2) == 30.38
    assert round(100 * every.y[every.a == 0].mean(), 2) == 10.93
    doctorate = every.columns["education"] == "Doctorate"
    assert [int((doctorate & (files == name)).sum()) for name in ("train", "test")] == [413, 181]


def test_adult_complete_rows(adult):
    files = adult.columns["file"]
    assert len(adult) == 45_222
    assert [int((files == name).sum()) for name in ("train", "test")] == [30_162, 15_060]
    assert round(100 * adult.y.mean(), 2) == 24.78
    assert round(adult.a.mean(), 4) == 0.6750
    assert not any((column == "?").any() for column in adult.columns.values() if column.dtype.kind == "U")


def test_compas_counts_of_propublica(compas):
    path = data.fetch("compas")["compas-scores-two-years.csv"]
    frame = pd.read_csv(path, keep_default_na=False)
    days = pd.to_numeric(frame["days_b_screening_arrest"], errors="coerce").abs()
    filtered = frame.query("is_recid != -1 and c_charge_degree != 'O' and score_text != 'N/A'")[days <= 30]
    assert len(frame) == 7_214
    assert len(filtered) == 6_172
    assert (filtered["race"] == "Caucasian").sum() == 2_103
    assert (filtered["race"] == "African-American").sum() == 3_175
    assert round((filtered["sex"] == "Female").mean(), 4) == 0.1904

    described = filtered[filtered["c_charge_desc"] != ""]
    assert len(described) == len(compas) == 6_167
    np.testing.assert_array_equal(compas.y, 1 - described["two_year_recid"])
    np.testing.assert_array_equal(compas.a, described["race"] == "Caucasian")
    np.testing.assert_array_equal(data.load("compas", sensitive="sex").a, described["sex"] == "Female")


@pytest.mark.parametrize(
    ("name", "sensitive", "rows", "ones"), [("adult", "race", 36_177, 31_123), ("compas", "sex", 4_933, 939)]
)
def test_table_6_is_by_race_for_adult_and_by_sex_for_compas(name, sensitive, rows, ones):
    """FairFed's Table 6 calls its A sex, but its counts fit race for Adult; the text has race for COMPAS."""
    table = data.load(name, sensitive=sensitive)
    other = data.load(name, sensitive="race" if sensitive == "sex" else "sex")
    train = table.split(0)["train"]
    assert len(train) == rows
    spread = np.sqrt(table.a.mean() * (1 - table.a.mean()) * rows * 0.2)
    assert abs(table.a.mean() * rows - ones) < 2 * spread
    assert abs(other.a.mean() * rows - ones) > 20 * spread
    assert round(ones / rows, 4) == {"adult": 0.8603, "compas": 0.1904}[name]


def test_share_of_whites_in_adult():
    assert round(data.load("adult", sensitive="race").a.mean(), 4) == 0.8603


def test_adult_codes_are_sorted_categories_standardised(adult):
    assert len(adult.features) == 12
    assert not {"sex", "fnlwgt", "income"} & set(adult.features)
    raw = pd.DataFrame({name: adult.columns[name] for name in adult.features})
    raw["race"] = raw["race"] == "White"
    text = [name for name in raw if raw[name].dtype.kind not in "iub"]
    assert len(text) == 6
    raw[text] = OrdinalEncoder().fit_transform(raw[text])
    np.testing.assert_allclose(adult.X, StandardScaler().fit_transform(raw), atol=2e-5)


def test_adult_one_hot_columns():
    """7 categoricals with 96 values and 5 numbers: the 101 inputs that E2FL's Table 7 implies."""
    table = data.load("adult", encoding="onehot")
    assert len(table.features) == 101
    race = OneHotEncoder(sparse_output=False).fit_transform(table.columns["race"][:, None])
    ours = [i for i, name in enumerate(table.features) if name.startswith("race=")]
    np.testing.assert_array_equal(table.X[:, ours] > 0, race > 0)
    assert len(data.load("adult", encoding="onehot", sensitive="race").features) == 97


@pytest.mark.parametrize("name", ["adult", "compas"])
@pytest.mark.parametrize("encoding", ["codes", "onehot"])
def test_keep_sensitive_adds_a_as_the_last_column(name, encoding):
    without, with_it = (data.load(name, encoding=encoding, keep_sensitive=keep) for keep in (False, True))
    assert with_it.features == (*without.features, without.sensitive)
    np.testing.assert_array_equal(with_it.X[:, :-1], without.X)
    np.testing.assert_array_equal(with_it.X[:, -1] > 0, with_it.a == 1)


def test_compas_features_leave_out_race_sex_and_score(compas):
    assert compas.features == (
        "age",
        "juv_fel_count",
        "juv_misd_count",
        "juv_other_count",
        "priors_count",
        "c_charge_degree",
    )
    assert len(data.load("compas", encoding="onehot").features) == 10


@pytest.mark.parametrize(("name", "printed"), [("adult", 0.829), ("compas", 0.672)])
def test_a_central_logistic_model_is_in_the_papers_regime(name, printed, request):
    """FedAvg with nearly equal clients (FairFed, Table 1, alpha=5000) is close to central training."""
    table = request.getfixturevalue(name)
    accuracy, gap = [], []
    for seed in range(3):
        rows = table.split(seed)
        model = LogisticRegression().fit(table.X[rows["train"]], table.y[rows["train"]])
        test, guess = rows["test"], model.predict(table.X[rows["test"]])
        accuracy.append((guess == table.y[test]).mean())
        rate = [guess[(table.y[test] == 1) & (table.a[test] == a)].mean() for a in (0, 1)]
        gap.append(rate[0] - rate[1])
    assert abs(np.mean(accuracy) - printed) < 0.025
    assert -0.3 < np.mean(gap) < -0.05


@pytest.mark.parametrize("name", ["adult", "compas"])
def test_table_is_ready_for_training(name, request):
    table = request.getfixturevalue(name)
    assert table.X.dtype == np.float32 and table.X.flags.c_contiguous
    assert table.y.dtype == table.a.dtype == np.int8
    assert set(np.unique(table.y)) == set(np.unique(table.a)) == {0, 1}
    np.testing.assert_allclose(table.X.mean(axis=0, dtype=float), 0, atol=1e-5)
    np.testing.assert_allclose(table.X.std(axis=0, dtype=float), 1, atol=1e-5)
    assert not table.stand_in and table.note == ""


def test_all_features_of_adult_are_the_columns_of_its_files():
    """FAIR-FATE's recipe: 48,842 rows, 14 columns in their order, "?" a category, everything within 0..1."""
    table = data.load("adult", rows="all", features="all", scaling="minmax")
    columns = list(table.columns)[:-1]
    assert table.X.shape == (48_842, 14) and list(table.features) == columns and table.scaling == "minmax"
    assert (table.columns["workclass"] == "?").sum() > 0
    raw = pd.DataFrame({name: table.columns[name] for name in columns})
    text = [name for name in raw if raw[name].dtype.kind not in "iub"]
    assert len(text) == 8
    raw[text] = OrdinalEncoder().fit_transform(raw[text])
    np.testing.assert_allclose(table.X, MinMaxScaler().fit_transform(raw), atol=1e-6)
    # "Male" is the second of its two values, so its code is the privileged group.
    np.testing.assert_array_equal(table.X[:, columns.index("sex")], table.a)


def test_all_features_of_compas_are_those_of_fair_fate():
    table = data.load("compas", features="all", scaling="minmax")
    assert table.X.shape == (6_167, 10)
    assert table.features == (
        "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree",
        "c_charge_desc", "decile_score",
    )  # fmt: skip
    raw = pd.DataFrame({name: table.columns[name] for name in table.features})
    raw["race"] = raw["race"] == "Caucasian"
    text = ["sex", "c_charge_degree", "c_charge_desc"]
    raw[text] = OrdinalEncoder().fit_transform(raw[text])
    np.testing.assert_allclose(table.X, MinMaxScaler().fit_transform(raw), atol=1e-6)
    np.testing.assert_array_equal(table.y, 1 - table.columns["two_year_recid"])


@pytest.mark.parametrize("name", ["adult", "compas"])
@pytest.mark.parametrize("sensitive", ["sex", "race"])
def test_all_features_hold_the_sensitive_attribute_once(name, sensitive):
    for keep in (False, True):
        table = data.load(name, features="all", sensitive=sensitive, keep_sensitive=keep, scaling="none")
        assert len(set(table.features)) == len(table.features) and {"sex", "race"} <= set(table.features)
        np.testing.assert_array_equal(table.X[:, table.features.index(sensitive)], table.a)
    values = sum(len(set(column)) for column in (table.columns["sex"], table.columns["race"]))
    onehot = data.load(name, features="all", sensitive=sensitive, encoding="onehot").features
    expected = values + 1 - len(set(table.columns[sensitive]))
    assert sum(feature.startswith(("sex", "race")) for feature in onehot) == expected


@pytest.mark.parametrize("name", ["adult", "compas", "tiles-stand-in"])
def test_scalings_are_those_of_sklearn(name):
    plain, standard, minmax = (data.load(name, scaling=scaling) for scaling in ("none", "standard", "minmax"))
    assert [table.scaling for table in (plain, standard, minmax)] == ["none", "standard", "minmax"]
    assert all(table.X.dtype == np.float32 and table.X.flags.c_contiguous for table in (plain, standard, minmax))
    exact = plain.X.astype(float)
    np.testing.assert_allclose(standard.X, StandardScaler().fit_transform(exact), atol=2e-5)
    np.testing.assert_allclose(minmax.X, MinMaxScaler().fit_transform(exact), atol=1e-6)
    assert len({plain.digest, standard.digest, minmax.digest}) == 3
    default = data.load(name)
    assert default.digest == standard.digest and default.scaling == "standard"
    np.testing.assert_array_equal(default.X, standard.X)


def test_a_constant_column_is_zero_after_scaling():
    by_hand = {"standard": [[-1, 0], [1, 0]], "minmax": [[0, 0], [1, 0]], "none": [[3, 7], [5, 7]]}
    for scaling, expected in by_hand.items():
        np.testing.assert_array_equal(scale(np.array([[3, 7], [5, 7]], np.float32), scaling), expected)


def test_digests_of_default_tables_are_pinned(adult, compas):
    """Options that were added later must not change what earlier results were made from."""
    assert adult.digest.startswith("53d95078a34f") and compas.digest.startswith("4b83d0ab0e7f")


def test_digest_tells_options_apart_and_needs_no_files(bare, adult):
    assert data.digest("adult") != data.digest("compas")
    assert len(data.digest("acsincome")) == 64
    assert not bare.exists()
    assert adult.digest != data.digest("adult")


def test_digest_of_a_table_changes_with_every_option(adult):
    again = data.load("adult")
    others = [
        data.load("adult", **option)
        for option in (
            {"encoding": "onehot"},
            {"sensitive": "race"},
            {"rows": "train"},
            {"keep_sensitive": True},
            {"features": "all"},
            {"scaling": "minmax"},
            {"scaling": "none"},
        )
    ]
    assert again.digest == adult.digest
    assert len({adult.digest, *(other.digest for other in others)}) == 8


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: data.load("adlt"), "'adult'"),
        (lambda: data.fetch("compass"), "'compas'"),
        (lambda: data.load("adult", encoding="one-hot"), "'onehot'"),
        (lambda: data.load("adult", row="all"), "'rows'"),
        (lambda: data.load("adult", sensitve="sex"), "'sensitive'"),
        (lambda: data.load("adult", scalling="none"), "'scaling'"),
        (lambda: data.load("adult", scaling="min-max"), "'minmax'"),
        (lambda: data.load("adult", features="al"), "'all'"),
        (lambda: data.load("compas", features="fairfate"), "'fairfed'"),
        (lambda: data.load("law_school"), "'law-school'"),
        (lambda: data.load("adult", rows="trian"), "'train'"),
        (lambda: data.load("compas", sensitive="gender"), "'race', 'sex'"),
        (lambda: data.load("tiles-standin"), "'tiles-stand-in'"),
    ],
)
def test_misspelt_names_are_told_the_nearest(call, hint):
    with pytest.raises(FairFLError, match=hint):
        call()
