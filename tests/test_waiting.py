"""No test depends on the speed of the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings
from small import ROOT
from waiting import FOR_EVER, left, until

OF_TIME = re.compile(r"timeout=\d|\bwait\(\d|perf_counter\(|monotonic\(\)|process_time\(|\.sleep\(")
ALLOWED = {
    "tools/waiting.py": "it waits for the others",
    "tools/chaos/__main__.py": "it reports how long its parts took",
    "tools/chaos/kills.py": "it kills at random moments, and makes commands slow enough for that",
    "tools/chaos/workers.py": "it kills at random moments of a run, whose length it measures first",
    "tests/book/notebooks/test_runner.py": "a notebook that sleeps takes at least so long, and one sends its outputs late",
    "tests/book/test_replay.py": "a cell that takes a day",
}


def test_tests_wait_for_states_and_not_for_seconds():
    files = [path for room in ("tests", "tools") for path in (ROOT / room).rglob("*.py") if path != Path(__file__)]
    assert {path.relative_to(ROOT).as_posix() for path in files if OF_TIME.search(path.read_text())} == set(ALLOWED)


def test_an_example_may_take_as_long_as_it_takes():
    assert settings.default.deadline is None and HealthCheck.too_slow in settings.default.suppress_health_check


def test_a_state_that_cannot_come_any_more_is_not_waited_for():
    with (
        subprocess.Popen([sys.executable, "-c", "exit(3)"]) as process,
        pytest.raises(AssertionError, match="with 3"),
    ):
        until(lambda: False, process)
    with subprocess.Popen([sys.executable, "-c", FOR_EVER]) as process:
        started = psutil.Process(process.pid)
        assert until(lambda: started.is_running() and "it is there", process) == "it is there"
        process.kill()
        assert left([started]) == []
