"""Law School and the Dutch census: loaders on small files made in their format, and the facts of the real files."""

import gzip
import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairfl_book import datacards
from fairfl_book.site import datacard
from fairfl_lite import data
from fairfl_lite.data import Partition, dutch, law_school
from fairfl_lite.errors import FairFLError

LAW = """decile1b,decile3,lsat,ugpa,zfygpa,zgpa,fulltime,fam_inc,male,tier,race,pass_bar
10.0,10.0,44.0,3.5,1.33,1.88,1.0,5.0,0.0,4.0,White,1.0
5.0,4.0,29.0,3.1,-0.11,-0.57,1.0,4.0,1.0,2.0,Non-White,0.0
8.0,7.0,37.5,3.4,0.63,0.37,2.0,3.0,1.0,6.0,Non-White,1.0
"""
DUTCH = """sex,age,household_position,household_size,prev_residence_place,citizenship,country_birth,edu_level,\
economic_status,cur_eco_activity,marital_status,occupation
male,6,1131,112,1,1,1,5,111,135,1,1
female,10,1122,113,1,1,1,2,111,122,2,0
female,8,1122,126,2,3,3,0,120,135,4,1
"""
SMALL = {"law-school": (law_school, LAW), "dutch": (dutch, DUTCH)}


@pytest.fixture
def small(folder, monkeypatch):
    """`small(name)` puts a small file of the format into the local folder and registers its sha256 instead."""

    def put(name):
        module, text = SMALL[name]
        (folder / module.NAME).write_text(text)
        file = replace(module.DATASET.files[0], sha256=hashlib.sha256(text.encode()).hexdigest())
        changed = replace(module.DATASET, files=(file,))
        monkeypatch.setattr(module, "DATASET", changed)
        monkeypatch.setitem(data.DATASETS, name, changed)
        return folder / module.NAME

    return put


def test_law_school_takes_the_columns_as_they_are(small):
    small("law-school")
    table = data.load("law-school", scaling="none")
    assert table.features == tuple(LAW.splitlines()[0].split(","))[:-1]
    expected = [[10, 10, 44, 3.5, 1.33, 1.88, 1, 5, 0, 4, 1],
                [5, 4, 29, 3.1, -0.11, -0.57, 1, 4, 1, 2, 0],
                [8, 7, 37.5, 3.4, 0.63, 0.37, 2, 3, 1, 6, 0]]  # fmt: skip
    np.testing.assert_array_equal(table.X, np.array(expected, np.float32))
    np.testing.assert_array_equal(table.y, [1, 0, 1])
    np.testing.assert_array_equal(table.a, [1, 0, 0])
    assert list(table.columns["race"]) == ["White", "Non-White", "Non-White"]
    np.testing.assert_array_equal(data.load("law-school", encoding="onehot", scaling="none").X, table.X)


def test_law_school_by_sex_and_without_the_sensitive_column(small):
    small("law-school")
    by_sex = data.load("law-school", sensitive="sex", keep_sensitive=False)
    np.testing.assert_array_equal(by_sex.a, [0, 1, 1])
    assert "male" not in by_sex.features and "race" in by_sex.features
    assert "race" not in data.load("law-school", keep_sensitive=False).features
    with pytest.raises(FairFLError, match="'race', 'sex'"):
        data.load("law-school", sensitive="gender")


def test_dutch_takes_codes_as_numbers_and_splits_those_without_an_order(small):
    small("dutch")
    codes = data.load("dutch", scaling="none")
    assert codes.features == tuple(DUTCH.splitlines()[0].split(","))[:-1]
    np.testing.assert_array_equal(codes.X[0], [1, 6, 1131, 112, 1, 1, 1, 5, 111, 135, 1])
    np.testing.assert_array_equal(codes.X[:, 0], codes.a)
    np.testing.assert_array_equal(codes.a, [1, 0, 0])
    np.testing.assert_array_equal(codes.y, [1, 0, 1])
    assert "sex" not in data.load("dutch", keep_sensitive=False).features

    split = data.load("dutch", encoding="onehot", scaling="none")
    numbers = ("sex", "age", "household_size", "edu_level")
    assert [name for name in split.features if "=" not in name] == list(numbers)
    values = pd.DataFrame(codes.X, columns=codes.features).drop(columns=list(numbers)).nunique()
    assert len(split.features) == 4 + values.sum()
    assert split.X[:, split.features.index("cur_eco_activity=135")].tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", SMALL)
def test_a_compressed_copy_is_the_same_file(name, small):
    plain = small(name)
    before, digest = data.load(name), data.digest(name)
    packed = plain.with_name(plain.name + ".gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    after = data.load(name)
    assert data.available(name) and data.check(name)["status"].tolist() == ["ok"]
    assert after.digest == before.digest and data.digest(name) == digest
    np.testing.assert_array_equal(after.X, before.X)


@pytest.mark.parametrize(
    "broken", [lambda packed: packed[:-9], lambda packed: b"no gzip", lambda packed: gzip.compress(b"other")]
)
@pytest.mark.parametrize("name", SMALL)
def test_a_compressed_copy_with_other_bytes_is_refused(name, broken, small):
    plain = small(name)
    packed = plain.with_name(plain.name + ".gz")
    packed.write_bytes(broken(gzip.compress(plain.read_bytes())))
    plain.unlink()
    assert data.check(name)["status"].tolist() == ["corrupt"]
    with pytest.raises(FairFLError, match="sha256"):
        data.load(name)


@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_downloaded_and_the_reader_is_told_where_to_look(name, bare):
    assert not any(file.package or file.url for file in data.DATASETS[name].files)
    with pytest.raises(FairFLError) as raised:
        data.load(name)
    said = str(raised.value)
    assert "\n" not in said and all(part in said for part in ("experiments/data/", "licence", "FAIRFL_DATA"))
    assert not bare.exists()


def rates(cells):
    """Percent of label 1 in both groups."""
    return [round(100 * one / (zero + one), 2) for zero, one in cells]


def test_stored_counts_are_the_known_ones():
    """Law School: 20,798 rows, 88.97 percent pass, 17,491 White. Dutch: 60,420 rows, 28,763 of label 1."""
    law, census = np.array(law_school.CENSUS), np.array(dutch.CENSUS)
    assert law.sum() == datacards.load("law-school").published["rows"] == 20_798
    assert round(100 * law[:, 1].sum() / law.sum(), 2) == 88.97 and law[1].sum() == 17_491
    assert census.sum() == datacards.load("dutch").published["rows"] == 60_420
    assert census[:, 1].sum() == 28_763 and rates(census) == [32.71, 62.56]


@pytest.mark.parametrize(("name", "module"), [(name, module) for name, (module, _) in SMALL.items()])
def test_stored_counts_are_those_of_the_file(name, module):
    """On a machine with the file its rows are counted, on any other the Table of the stored counts."""
    table = data.load(name, scaling="none") if data.available(name) else datacard.counted(name)
    np.testing.assert_array_equal(datacard.census(table), module.CENSUS)
    np.testing.assert_array_equal(datacard.census(datacard.counted(name)), module.CENSUS)
    if table.features:
        assert table.features == tuple(module.FEATURES) and np.isfinite(table.X).all()
        np.testing.assert_array_equal(table.X[:, table.features.index(table.sensitive)], table.a)
        assert len(data.fetch(name)) == 1


def test_what_the_dutch_card_says_of_repeated_rows():
    """18,438 different rows; the best guess for each set of features is right in 88.2 percent of the rows."""
    limits = " ".join(datacards.load("dutch").limits)
    said = ["18,438 of the 60,420", "88.2 percent"]
    if data.available("dutch"):
        frame = pd.read_csv(data.fetch("dutch")[dutch.NAME])
        ones = frame.groupby(dutch.FEATURES)["occupation"].agg(["sum", "size"])
        best = np.maximum(ones["sum"], ones["size"] - ones["sum"]).sum() / len(frame)
        said = [f"{len(frame.drop_duplicates()):,} of the {len(frame):,}", f"{100 * best:.1f} percent"]
    assert all(part in limits for part in said)


def test_levels_of_a_page_hold_the_training_rows():
    table = datacard.counted("law-school")
    held = datacard.levels(table, [0.5, 1.0], 12, seed=3)
    assert list(held) == ["σ = 0.5", "σ = 1", "RND"]
    train = table.split(3, validation=0.25)["train"]
    for count in held.values():
        assert count.shape == (12, 4)
        np.testing.assert_array_equal(count.sum(), np.bincount(2 * table.a[train] + table.y[train], minlength=4))
    sizes = held["RND"].sum(axis=1)
    assert sizes.max() - sizes.min() <= 1
    partition = Partition.dirichlet(0.5, 12, over="sensitive+label")
    drawn = partition.clients(table, table.split(3, validation=0.25), 3, minimum=0)
    assert held["σ = 0.5"].sum(axis=1).tolist() == [len(rows) for rows in drawn["train"]]
    with pytest.raises(FairFLError, match="'dutch'"):
        datacard.counted("dutsch")
