"""The full replay: what is stored is measured again, and a difference, a long cell and a stop half-way are each noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from awaited import AWAITED
from waiting import LONG, left, until

from fairfl_book import results
from fairfl_book.experiments import catalogue
from fairfl_book.experiments.base import Experiment, Task, grid
from fairfl_book.experiments.replays import Replay, Report, compare, written
from fairfl_lite import data, store
from fairfl_lite.errors import FairFLError

pytestmark = pytest.mark.slow

DAY = 86_400.0


def levels(level: int, pause: float, seeds) -> pd.DataFrame:
    """A cell that notes each call in the project's folder; level 9 fails, and a pause of a DAY never ends in a test."""
    with (store.root() / "calls").open("a") as calls:
        calls.write(f"{level}\n")
    if pause:
        (store.root() / "pauses").touch()
    time.sleep(pause)
    if level == 9:
        raise ValueError("nine is too much")
    value = [level / 3 + seed / 7 for seed in seeds]
    return pd.DataFrame({"level": level, "pause": pause, "seed": list(seeds), "metric": "acc", "value": value})


def averages(frame: pd.DataFrame) -> pd.DataFrame:
    if not (frame.level == 0).any():
        raise FairFLError("Averages need level 0.")
    return frame.groupby("level")["value"].mean().reset_index()


def experiment(name: str = "toy/levels", levels_of=(0, 1), pause: float = 0.0, **more) -> Experiment:
    return Experiment(name, levels, grid(level=levels_of, pause=(pause,)), seeds=3, **more)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # another process imports this module by the name that it has here
    return tmp_path


def keep(made: Experiment, change=lambda frame: frame) -> None:
    """Store what the experiment gives, changed."""
    parts = [pd.DataFrame({**cell, "seed": range(3), "metric": "acc", "value": [cell["level"] / 3 + s / 7 for s in range(3)]})
             for cell in made.cells]  # fmt: skip
    frame = change(made.finish(pd.concat(parts, ignore_index=True)))
    results.save(made.name, frame, parameters={}, seconds=1, command="test", datasets=())


def replay(*chosen: Experiment, limit: float = LONG) -> tuple[Report, str]:
    said: list[str] = []
    report = Replay(limit, said.append).run(chosen)
    return report, "\n".join([*said, str(report)])


def calls(root: Path) -> list[str]:
    return (root / "calls").read_text().split() if (root / "calls").exists() else []


def shifted(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(value=frame["value"] + np.where(frame.index == 1, 0.05, 0))


def test_what_was_stored_agrees_and_a_value_that_is_off_by_a_twentieth_does_not(root):
    raw, mean = experiment(), experiment("toy/averages", finish=averages)
    keep(raw)
    keep(mean)
    report, said = replay(raw, mean)
    assert report.agrees and report.cells == 2 and calls(root) == ["0", "1"], "the experiments share their cells"
    assert "toy/levels level=1 pause=0.0: agrees, 3 values" in said and "toy/averages from 2 of 2 cells: agrees" in said
    assert "Cells replayed: 2.\nCells skipped: 0.\nValues compared: 8, largest difference 0" in said

    keep(raw, shifted)
    report, said = replay(raw, mean)
    assert not report.agrees and len(report.disagree) == 1 and len(calls(root)) == 2
    assert "toy/levels level=0 pause=0.0: DISAGREES, 3 values, largest difference 0.05 at level=0 pause=0 seed=1" in said
    assert "2 of them in an earlier replay" in said

    keep(mean, shifted)
    report, said = replay(mean)
    assert not report.agrees and "toy/averages from 2 of 2 cells: DISAGREES" in said
    report, said = replay(experiment("toy/averages", finish=lambda frame: frame["nothing"]))
    assert not report.agrees and "toy/averages from 2 of 2 cells: FAILED, KeyError: 'nothing'" in said


def answers(method: str) -> pd.DataFrame:
    """A cell that gives rows of another name too."""
    return pd.DataFrame({"method": [method, f"{method}-last"], "metric": "acc", "value": [0.5, 0.4]})


def test_rows_of_other_names_than_the_cells_are_compared_with_what_is_stored_under_them(root):
    made = Experiment("toy/answers", answers, grid(method=("own", "other")))
    stored = pd.concat([answers("own"), answers("other")])
    results.save(made.name, stored, parameters={}, seconds=1, command="test")
    report, said = replay(made)
    assert report.agrees and said.count("agrees, 2 values, largest difference 0") == 2

    wrong = stored.assign(value=stored["value"].where(stored["method"] != "own-last", 0.9))
    results.save(made.name, wrong, parameters={}, seconds=1, command="test")
    report, said = replay(made)
    assert len(report.disagree) == 1 and "DISAGREES, 2 values, largest difference 0.5 at method=own-last" in said

    results.save(made.name, pd.concat([stored, answers("gone")]), parameters={}, seconds=1, command="test")
    report, said = replay(made)
    assert report.disagree == ["toy/answers besides its cells: DISAGREES, 0 values, 2 stored rows are not made any more"]


@pytest.fixture
def no_hurry(root, monkeypatch):
    """The time of a cell is up when it has begun to pause, and at no other moment, however slow the machine is."""
    usual, pauses = Connection.poll, root / "pauses"

    def poll(line, limit):
        until(lambda: usual(line) or pauses.exists())
        if pauses.exists():
            pauses.unlink()
            return False
        return True

    monkeypatch.setattr(Connection, "poll", poll)


def test_a_cell_over_the_limit_and_one_that_fails_leave_the_others_alone(root, no_hurry):
    slow = Experiment("toy/slow", levels, [{"level": 0, "pause": DAY}, *grid(level=(1, 9), pause=(0.0,))], seeds=3)
    mean = Experiment("toy/averages", levels, slow.cells[:2], finish=averages, seeds=3)
    keep(slow)
    keep(mean)
    report, said = replay(slow, mean, limit=2)
    assert "toy/slow level=0 pause=86400.0: skipped, over 2 s" in said and report.skipped == {"over 2 s": 1}
    assert "toy/slow level=1 pause=0.0: agrees" in said
    assert "toy/slow level=9 pause=0.0: FAILED, ValueError: nine is too much" in said
    assert len(report.disagree) == 1 and report.cells == 1
    assert "toy/averages from 1 of 2 cells: not compared, which are too few: Averages need level 0." in said
    assert "over 1 s" in replay(mean, limit=1)[1] and calls(root) == ["0", "1", "9"], "it is known to be over"


def test_a_replay_that_was_killed_goes_on(root):
    """Killed without warning, in the second cell; its other process ends too."""
    program = f"import {__name__} as t, functools; t.Replay(t.LONG, functools.partial(print, flush=True)).run([t.ENDLESS])"
    keep(ENDLESS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and "level=0 pause=0.0: agrees" in run.stdout.readline()
        until(lambda: len(calls(root)) == 2, run)
        others = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.SIGKILL)
    assert others and not left(others)
    report, said = replay(ENDLESS, limit=0.2)
    assert calls(root) in (["0", "1"], ["0", "1", "1"]) and report.cells == 1 and report.kept == 1
    assert "level=1 pause=86400.0: skipped, over 0.2 s" in said
    assert "level=0 pause=0.0: agrees, 3 values, largest difference 0, measured in an earlier replay" in said


ENDLESS = Experiment("toy/long", levels, [{"level": 0, "pause": 0.0}, {"level": 1, "pause": DAY}], seeds=3)


def test_what_is_not_here_is_skipped_and_said(root, monkeypatch):
    monkeypatch.setattr(data, "available", lambda name: name != "adult")
    made, unstored = experiment(data=("adult", "compas")), experiment("toy/none")
    keep(made)
    report, said = replay(made, unstored, experiment("toy/levels", reads=("toy/none",)))
    assert report.skipped == {"adult not on this machine": 2, f"There is no result toy/none: {results.path('toy/none')} and its"
                              " .json are needed; measure them first.": 2}  # fmt: skip
    assert "toy/none: skipped, it is not stored" in said and "Nothing was compared." in said
    with pytest.raises(FairFLError, match="larger limit"):
        Replay(0, print)


def test_a_damaged_result_disagrees(root):
    keep(experiment())
    results.path("toy/levels").write_text("level\n")
    report, said = replay(experiment())
    assert not report.agrees and "was changed after it was measured" in said and not calls(root)


def test_rows_that_are_new_or_lost_disagree():
    stored = pd.DataFrame({"method": ["a", "b"], "seed": [0, 0], "value": [0.1, 0.2]})
    assert compare(stored, stored.iloc[::-1]).agrees
    assert compare(stored, stored[:1]).lost == 1 and not compare(stored, stored[:1]).agrees
    assert compare(stored[:1], stored).new == 1 and not compare(stored[:1], stored).agrees
    renamed = compare(stored, stored.replace("b", "c"))
    assert (renamed.new, renamed.lost) == (1, 1) and "1 rows are not stored" in str(renamed)
    assert not compare(stored, stored.assign(more=1)).agrees


def test_settings_and_choices_of_wide_results():
    """Settings without which rows are not unique are keys, choices beside unique keys are values, none equals none."""
    runs = pd.DataFrame({"dataset": "x", "level": ["0.5", "1.0", "rnd"], "rho": [0.1, np.nan, 0.1], "seed": 0, "acc": 0.25})
    found = compare(runs, runs[:2], ["level"])
    assert found.apart.size == 2 * 3 and found.lost == 1 and found.apart.max() == 0, "a level 1.0 is text beside a level rnd"
    doubled = pd.concat([runs, runs.assign(rho=0.2)])
    assert compare(doubled, doubled.assign(rho=doubled.rho + 0.001), ["level"]).new == 5, "five have a rho"
    assert compare(runs, runs.assign(rho=[0.5, np.nan, 0.1]), ["level"]).apart.max() == pytest.approx(0.4)
    assert compare(runs, runs.assign(rho=0.1), ["level"]).apart.max() == np.inf


def test_counts_are_compared_as_shares_and_large_numbers_by_ratio():
    counts = pd.DataFrame({"round": [1, 2], "tp": [3, 4], "fn": [997, 996]})
    flipped = compare(counts, counts.assign(tp=[4, 4], fn=[996, 996]), ["round"])
    assert flipped.apart.max() == pytest.approx(0.001) and flipped.where == "round=1 column=tp"
    checks = pd.DataFrame({"statement": ["t"], "instances": [10**6], "violations": [0], "worst": [0.5]})
    assert not compare(checks, checks.assign(violations=1)).agrees, "a violation is no rounding"
    large = pd.DataFrame({"name": ["rows"], "value": [45222.0]})
    assert compare(large, large + pd.DataFrame({"name": [""], "value": [1.0]})).agrees


def test_stored_digits_are_no_difference():
    fresh = pd.DataFrame({"lr": [1 / 3], "seed": [0], "value": [2 / 3]})
    stored = pd.DataFrame({"lr": [0.33333], "seed": [0], "value": [0.66667]})
    assert compare(stored, fresh, digits=written(stored)).apart.tolist() == [0.0]
    assert not compare(stored, fresh).agrees and written(fresh.round(6)) == "%.10g"


@pytest.mark.parametrize("name", sorted({*catalogue.names()} - AWAITED))
def test_every_stored_result_can_be_compared_with_itself(name, monkeypatch):
    """Keys are found that make its rows unique, and what was read is what would be written again."""
    monkeypatch.delenv("FAIRFL_ROOT")
    stored = results.load(name)
    same = compare(stored, stored.sample(frac=1, random_state=0), list(catalogue.get(name).cells[0]), written(stored))
    assert same.agrees and same.apart.max() == 0 and same.apart.size >= len(stored)


def test_a_cell_loads_only_results_that_its_experiment_declares(root):
    def reading(level: int) -> pd.DataFrame:
        return results.load("toy/levels").assign(level=level)

    keep(experiment())
    assert len(Task(reading, {"level": 0}, 1, (), ("toy/levels",), None).frame()) == 6
    with pytest.raises(FairFLError, match=r"reads the result toy/levels.*add reads=\('toy/levels',\) to it"):
        Task(reading, {"level": 0}, 1, (), (), None).frame()
    assert len(results.load("toy/levels")) == 6, "outside of a cell it is free"
