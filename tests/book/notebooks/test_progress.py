"""The estimate of the time left, and what is shown on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest

from fairfl_book.notebooks import progress
from fairfl_book.notebooks.progress import Progress, readable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_estimate_shares_the_work_but_waits_for_the_longest(clock):
    bar = Progress({"long": [30.0, 30.0], "a": [10.0], "b": [4.0]}, workers=2, stream=io.StringIO())
    assert bar.left() == 60  # 74 s shared by two would be 37, but "long" alone takes 60
    for name in ("long", "a"):
        bar.started(name)
    clock[0] = 10.0
    bar.cell("a")
    bar.ended("a", "done")
    assert bar.left() == 50
    clock[0] = 40.0  # ten seconds over its estimate: the cell counts as nearly done, never as negative
    assert bar.left() == 30
    bar.cell("long")
    bar.ended("long", "done")
    assert bar.left() == 4


def test_plain_lines_when_nobody_watches(clock):
    stream = io.StringIO()
    bar = Progress({"a": [10.0], "b": [200.0]}, workers=1, stream=stream)
    bar.ended("a", "done in 9 s")
    bar.ended("b", "failed")
    bar.close()
    assert stream.getvalue() == "[1/2] a: done in 9 s, about 3 min left\n[2/2] b: failed\n"


def test_a_bar_over_cells_on_a_terminal():
    stream = Terminal()
    bar = Progress({"a": [10.0, 10.0], "b": [20.0]}, workers=2, stream=stream)
    bar.started("a")
    bar.cell("a")
    bar.tick()
    bar.ended("a", "done")
    bar.ended("b", "done")
    bar.close()
    shown = stream.getvalue()
    assert "1/3 cells" in shown
    assert "3/3 cells" in shown
    assert "about 20 s left" in shown


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (89, "89 s"), (120, "2 min"), (9000, "2.5 h")])
def test_readable(seconds, words):
    assert readable(seconds) == f"about {words}"
