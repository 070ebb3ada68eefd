"""A part of `make chaos`: some hostile inputs of each kind, some kills, some writers, a full disk, some plants."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from chaos import disk, hostile, kills, plants, writers
from chaos.__main__ import COLUMNS, KEPT, PARTS, joined
from small import ROOT, sources

from fairfl_lite import store

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_hostile_inputs_are_refused_in_one_sentence(kind):
    cases = hostile.some(hostile.KINDS[kind](20), 30, 7)
    outcomes = [hostile.tried(case) for case in cases]
    assert [f"{one.case.name}: {one.what} {one.said}" for one in outcomes if one.bad] == []


def test_the_sound_inputs_they_are_made_from_are_accepted(tmp_path):
    hostile.read_card(yaml.safe_dump(hostile.CARD))
    hostile.read_notebook(tmp_path, json.loads(json.dumps(hostile.NOTEBOOK)))


def test_a_traceback_and_a_wrong_input_that_is_taken_are_bad():
    def fails(_):
        raise KeyError("x")

    assert hostile.tried(hostile.Case("x", "fails", fails)).bad
    assert hostile.tried(hostile.Case("x", "is taken", lambda _: None, must=True)).bad
    assert not hostile.tried(hostile.Case("x", "is taken", lambda _: None)).bad


@pytest.mark.parametrize("name", ["lessons", "data fetch", "paper"])
def test_a_killed_command_goes_on_to_the_same_bytes(name):
    trials = kills.tried(kills.COMMANDS[name], 2)
    assert len(trials) == 2 and [f"{one.how} after {one.after:.2f} s: {one.problems}" for one in trials if one.problems] == []


def test_what_stays_is_lost_or_differs_is_seen():
    """The harness itself; only the builder's memory may come and go."""
    found = {"project/a": "1", "project/b": "2", "project/c": "3", "project/_build/book.json": ""}
    wanted = {"project/b": "3", "project/c": "3", "project/d": "4", "project/.fairfl/tmp/x": ""}
    assert [*kills.compared(found, wanted)] == ["left: project/a", "lost: project/d", "changed: project/b"]


@pytest.mark.parametrize("name", ["store.write", "store.write_arrays", "results.save", "kept.Book, each round", "ledger.to_csv"])
def test_a_writer_killed_between_its_steps_leaves_what_was_or_what_was_to_be(name):
    trials = writers.tried(writers.WRITERS[name], 5)
    assert len(trials) == 5 and [one for one in trials if one.problems] == []


def test_a_writer_that_writes_in_place_is_found_out():
    """The harness itself: half a file, and a file that stays, are seen."""
    in_place = writers.Writer("in place", lambda h: (h / "x").write_text("old"), _in_place, lambda h: (h / "x").read_text())
    found = {problem for one in writers.tried(in_place, 99) for problem in one.problems}
    assert any("neither what was nor what was to be" in problem for problem in found)
    assert any(problem.startswith("left: ") for problem in found)


def _in_place(home: Path) -> None:
    (home / f"scratch{os.getpid()}").write_text("")
    with os.fdopen(os.open(home / "x", os.O_WRONLY | os.O_TRUNC), "wb") as out:
        out.write(b"whole")
    store.write(home / "y", "more")
    for left in home.glob(f"scratch{os.getpid()}"):
        left.unlink()


def test_no_room_nothing_to_be_written_two_at_once_and_times_in_the_future():
    trials = list(disk.tried(("lessons",), disk.ROOM[:2]))
    if any(disk.NO_MOUNT in one.problems for one in trials):
        trials = [one for one in trials if disk.NO_MOUNT not in one.problems]
    assert len(trials) >= 2 and [one for one in trials if one.problems] == []


def test_plants_that_quick_tests_should_find_are_found():
    quick = [plant.name for plant in plants.PLANTS if plant.quick]
    done = subprocess.run([sys.executable, plants.__file__, *quick], capture_output=True, text=True)
    assert [json.loads(line)["what"] for line in done.stdout.splitlines()] == [plants.CAUGHT] * len(quick), done.stderr


def test_plants_name_tests_that_are_there():
    assert len(plants.PLANTS) >= 40 and len({plant.name for plant in plants.PLANTS}) == len(plants.PLANTS)
    for plant in plants.PLANTS:
        file, _, name = plant.test.partition("::")
        assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


def test_plants_can_be_planted(tmp_path):
    """Each changes a file of the project as it is today, and one that is put back."""
    for path in plants.files(ROOT):
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    before = {path: path.read_bytes() for path in plants.files(tmp_path)}
    for plant in plants.PLANTS:
        plant.edit(tmp_path)
        changed = {path: content for path, content in before.items() if path.read_bytes() != content}
        assert changed, plant.name
        for path, content in changed.items():
            path.write_bytes(content)


def test_whatever_writes_goes_through_the_writers_that_are_killed():
    """A file is written by store alone; the lock's tool writes one into a temporary folder."""
    writes = re.compile(
        r"\.write_(text|bytes)\(|\bopen\((?!os\.devnull).*[\"'][wax]b?[\"']|(?<!ledger)\.to_csv\((?!index)|\bsavez"
    )
    found = {path.name for path in sources() if writes.search(path.read_text())}
    assert found == {"store.py", "lock.py"}


def test_a_row_joins_the_others_of_its_commit_and_replaces_itself():
    def row(name, commit, **became):
        return {"counts": {name: became}, "seconds": 1, "git": commit} | ({"bad": [f"{name}: x"]} if became.get("bad") else {})

    both = joined(row("run", "a", same=1, bad=1), row("build", "a", same=2, bad=0))
    assert both["counts"] == {"run": {"same": 1, "bad": 1}, "build": {"same": 2, "bad": 0}} and both["bad"] == ["run: x"]
    mended = joined(both, row("run", "a", same=2, bad=0))
    assert mended["counts"]["run"] == {"same": 2, "bad": 0} and "build" in mended["counts"] and "bad" not in mended
    assert joined(both, row("run", "b", same=2)) == row("run", "b", same=2) == joined({}, row("run", "b", same=2))


def test_what_the_book_shows_is_what_is_tried_now():
    """The kept counts are of these parts, and reach what was promised: none is bad."""
    kept = json.loads(KEPT.read_text())
    assert set(kept) == set(PARTS)
    total = {part: sum(sum(row.values()) for row in kept[part]["counts"].values()) for part in kept}
    assert total["kills"] >= 100 and total["inputs"] >= 500 and total["plants"] == len(plants.PLANTS)
    assert set(kept["writers"]["counts"]) == set(writers.WRITERS) and set(kept["kills"]["counts"]) == set(kills.COMMANDS)
    assert all(set(row) == set(COLUMNS[part]) for part in kept for row in kept[part]["counts"].values())
    assert not [part for part in kept if "bad" in kept[part] or "missed" in kept[part]]
