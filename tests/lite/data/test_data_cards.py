"""Cards as pages show them: every sentence is there, counts are recounted, figures hold the counts they are given."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairfl_book import datacards, results
from fairfl_book.site import datacard
from fairfl_lite import data
from fairfl_lite.data import Table
from fairfl_lite.errors import FairFLError
from papers.fairfed import facts as fairfed_facts


def test_cards_are_complete_and_agree_with_the_data(adult, compas):
    assert set(datacards.files()) == set(data.DATASETS)
    for name, dataset in data.DATASETS.items():
        card = datacards.load(name)
        assert all([dataset.title, dataset.licence, card.provenance, card.measured, card.label, card.sensitive])
        assert dataset.url.startswith("https://") and card.citation and card.published
        assert card.harms and card.limits and card.decisions
    published = datacards.load("adult").published
    assert published["complete rows"] == len(adult)
    assert published["rows"] == published["rows of the training file"] + published["rows of the test file"]
    assert datacards.load("compas").published["rows in FairFed"] == len(compas)


@pytest.mark.parametrize("old, new, hint", [("harms:", "harm:", "'harms'"), ("limits:", "decisions:", "'limits'")])
def test_a_card_with_a_field_too_many_or_too_few_is_refused(old, new, hint, tmp_path, monkeypatch):
    written = (datacards.FOLDER / "dutch.yml").read_text().replace(f"\n{old}", f"\n{new}")
    (tmp_path / "dutch.yml").write_text(written)
    monkeypatch.setattr(datacards, "FOLDER", tmp_path)
    with pytest.raises(FairFLError, match=hint):
        datacards.load("dutch")


@pytest.mark.parametrize("name", data.DATASETS)
def test_every_sentence_of_a_card_is_shown(name):
    shown = repr(datacard.text(name, *datacard.HEADINGS))
    for field in datacard.HEADINGS:
        value = getattr(data.DATASETS[name] if field in ("licence", "url") else datacards.load(name), field)
        for sentence in value if isinstance(value, tuple) else (value,):
            assert sentence[1:] in shown, field
    assert shown == datacard.text(name, *datacard.HEADINGS)._repr_markdown_()
    assert shown.count("**") == 2 * len(datacard.HEADINGS)


def test_misspelt_names_are_told_the_nearest():
    for call in (lambda: datacard.text("adult", "harm"), lambda: datacard.text("adlt"), lambda: datacard.counts("tiles")):
        with pytest.raises(FairFLError, match="'harms'|'adult'|'tiles-stand-in'"):
            call()


@pytest.mark.parametrize("name", data.DATASETS)
def test_files_are_described_alike_on_a_machine_without_them(name, request):
    here = repr(datacard.files(name))
    request.getfixturevalue("bare")
    assert repr(datacard.files(name)) == here
    assert all(file.sha256 in here and file.url in here for file in data.DATASETS[name].files)
    assert str(Path.home()) not in here


@pytest.mark.parametrize("name", ["adult", "compas", "law-school", "dutch", "eicu-stand-in", "tiles-stand-in"])
def test_published_counts_hold(name):
    counted = datacard.counts(name)
    assert list(counted.index) == list(datacards.load(name).published)
    assert (counted["verdict"] == "holds").all()


def test_a_published_count_that_is_not_ours_is_seen(monkeypatch):
    card = datacards.load("adult")
    published = {**card.published, "rows": 48_843, "percent above 50K": 23.94}
    monkeypatch.setattr(datacards, "load", {"adult": replace(card, published=published)}.get)
    verdicts = datacard.counts("adult")["verdict"]
    assert list(verdicts.index[verdicts == "differs"]) == ["rows", "percent above 50K"]


@pytest.fixture
def two_states(tmp_path, monkeypatch):
    """Hawaii: 2 + 1 others, 1 White with y = 0; Vermont and Wyoming: White but for one row. No California."""
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    cells = {"HI": (2, 1, 1, 0), "VT": (1, 0, 11, 12), "WY": (1, 1, 1, 1)}
    rows = [("acsincome", s, k // 2, k % 2, n) for s, counts in cells.items() for k, n in enumerate(counts)]
    frame = pd.DataFrame(rows, columns=["dataset", "state", "a", "y", "value"])
    results.save("fairfed/states", frame, parameters={}, seconds=0, command="none", datasets=())


def test_states_worked_by_hand(two_states):
    have = datacard.states()
    assert have.loc["HI"].tolist() == [4, 1 / 4, 1 / 4, 0, 1 / 3]
    assert have.loc["VT"].tolist() == [24, 23 / 24, 12 / 24, 12 / 23, 0]
    counted = datacard.counts("acsincome")
    assert counted["ours"].tolist() == ["32", "3", "4", "-", "25", "95.83"]
    assert counted["verdict"].tolist() == ["differs", "differs", "differs", "not in our copy", "differs", "holds"]


def test_stored_states_are_those_that_are_used():
    have = datacard.states()
    assert set(have.index) == set(data.acsincome.STATES.values()) - data.acsincome.ALTERED - {"CA"}
    assert have["rows"].sum() == results.load("fairfed/states")["value"].sum()


def test_states_are_counted_by_group_and_label(monkeypatch):
    rng = np.random.default_rng(0)
    y, a = rng.integers(0, 2, (2, 300)).astype(np.int8)
    state = rng.choice(["NY", "VT", "WY"], 300)
    table = Table("small", np.zeros((300, 1), np.float32), y, a, ("x",), "race", {"state": state}, "")
    monkeypatch.setattr(fairfed_facts.data, "load", lambda name: table)
    counted = fairfed_facts.states("small").set_index(["state", "a", "y"])["value"]
    expected = pd.DataFrame({"state": state, "a": a, "y": y}).value_counts().sort_index()
    assert counted.sort_index().to_dict() == expected.to_dict()


def test_dealt_rows_are_the_training_rows(compas):
    held = datacard.dealt(compas, 0.5, 4, seed=1)
    train = compas.split(1)["train"]
    assert held.shape == (4, 4)
    np.testing.assert_array_equal(held.sum().to_numpy(), np.bincount(2 * compas.a[train] + compas.y[train], minlength=4))


def test_figures_hold_the_counts():
    counts = np.array([[30, 10], [20, 60]])
    sizes, rates = datacard.draw_groups(counts, ("women", "men"), "paid").axes
    assert [bar.get_width() for bar in sizes.patches] == [40, 80]
    assert [bar.get_width() for bar in rates.patches] == [25, 75]
    assert [label.get_text() for label in sizes.get_yticklabels()] == ["women", "men"]

    columns = pd.MultiIndex.from_product([(0, 1), (0, 1)], names=["a", "y"])
    held = pd.DataFrame([[1, 2, 3, 4], [5, 6, 7, 8]], index=["north", "south"], columns=columns)
    (axes,) = datacard.draw_clients({"one": held}, ("women", "men"), ("calm", "stressed")).axes
    assert [bar.get_height() for bar in axes.patches] == [1, 5, 2, 6, 3, 7, 4, 8]
    assert [bar.get_y() for bar in axes.patches] == [0, 0, 1, 5, 3, 11, 6, 18]
