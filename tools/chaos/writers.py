"""Every writer of the package is killed between its steps: what is there then is what was, or what was to be.

A step is a line of the package's writers, or one half of what is handed to a file. The child counts its steps and sends SIGKILL
to itself at the chosen one; nothing of the package knows of it. Then the folder is read as the package reads it, the writer runs
again, and its files are compared with those of a writer that nobody disturbed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import signal
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from chaos import hostile
from nbformat import from_dict
from nbformat.v4 import new_output
from small import ROOT, code, notebook, small_project

from fairfl_book import ledger, results
from fairfl_book.experiments.base import Experiment
from fairfl_book.ledger.claims import Claim, keep, kept, key
from fairfl_book.notebooks import lessons, outputs, runner
from fairfl_book.site import book
from fairfl_lite import imports, store
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation.kept import Book
from fairfl_lite.federation.state import State

STEPS = {
    str(ROOT / name)
    for name in (
        *(f"fairfl_lite/{one}.py" for one in ("store", "federation/kept", "data/sources")),
        *(f"book/fairfl_book/{one}.py" for one in ("results", "experiments/base", "ledger/__init__", "ledger/claims", "site/book",
                                                   "notebooks/runner", "notebooks/lessons")),
    )
}  # fmt: skip
"""Where a line is a step: what writes, and what decides that something is written."""
UNREAD = "not readable, and said so"


@dataclass(frozen=True)
class Writer:
    """before : makes what is there. write : the writer. seen : what the package reads there, something that can be compared."""

    name: str
    before: Callable[[Path], Any]
    write: Callable[[Path], Any]
    seen: Callable[[Path], Any]


@dataclass(frozen=True)
class Trial:
    writer: str
    step: int
    steps: int
    problems: tuple[str, ...]


def tried(writer: Writer, most: int) -> list[Trial]:
    """The writer killed at up to `most` of its steps, spread evenly, the first and the last among them."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve() / "x"  # one name for all of them: a file may hold its own path
        old, new = _undisturbed(writer, home, write=False), _undisturbed(writer, home)
        steps = _steps(writer, home)
        chosen = sorted({round(at) for at in np.linspace(1, steps, min(most, steps))})
        return [Trial(writer.name, at, steps, tuple(_problems(writer, home, at, old, new))) for at in chosen]


def _problems(writer: Writer, home: Path, at: int, old: tuple[Any, Any], new: tuple[Any, Any]) -> Iterator[str]:
    with _fresh(home):
        _ended(lambda: writer.before(home))
        if _ended(lambda: _traced(lambda: writer.write(home), at)) != -signal.SIGKILL:
            yield "it was not killed"
        seen = _seen(writer, home)
        if seen not in (old[1], new[1], UNREAD):
            yield f"changed: a reader sees neither what was nor what was to be: {seen}"
        if _ended(lambda: writer.write(home)) != 0:
            yield "the next one failed"
        found = _files(home)
        yield from (f"left: {name}" for name in sorted(found.keys() - new[0].keys()))
        yield from (f"lost: {name}" for name in sorted(new[0].keys() - found.keys()))
        yield from (f"changed: {name}" for name in sorted(found.keys() & new[0].keys()) if found[name] != new[0][name])
        if _seen(writer, home) != new[1]:
            yield "changed: a reader sees something else in the end"


@contextlib.contextmanager
def _fresh(home: Path) -> Iterator[None]:
    home.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(home)


def _undisturbed(writer: Writer, home: Path, write: bool = True) -> tuple[dict[str, str], Any]:
    with _fresh(home):
        for do in (writer.before, writer.write) if write else (writer.before,):
            ended = _ended(lambda do=do: do(home))
            assert ended == 0, f"{writer.name} ended with {ended}"
        return _files(home), _seen(writer, home)


def _steps(writer: Writer, home: Path) -> int:
    with _fresh(home):
        _ended(lambda: writer.before(home))
        reader, out = os.pipe()
        ended = _ended(lambda: os.write(out, str(_traced(lambda: writer.write(home))).encode()))
        os.close(out)
        with os.fdopen(reader) as said:
            steps = said.read()
        assert ended == 0 and steps, f"{writer.name} ended with {ended}"
        return int(steps)


def _seen(writer: Writer, home: Path) -> Any:
    """What the package reads, in this process: it reads only."""
    with _at(home):
        try:
            return writer.seen(home)
        except FairFLError:
            return UNREAD


def _ended(do: Callable[[], Any]) -> int:
    """How a child process ends that does this; minus the signal when it was killed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with open(os.devnull, "w") as null:  # noqa: PTH123
                os.dup2(null.fileno(), 1)
                if "FAIRFL_CHAOS_SHOWS" not in os.environ:
                    os.dup2(null.fileno(), 2)
            do()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _traced(do: Callable[[], Any], at: int | None = None) -> int:
    """Do it, counting the steps; killed at one of them. In a child process only: what it changes stays changed."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def follow(frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in STEPS:
            return None
        if event == "line":
            step()
        return follow

    class Halved(io.BufferedWriter):
        def write(self, data: Any, /) -> int:
            data = memoryview(data).cast("B")
            super().write(data[: len(data) // 2])
            self.flush()
            step()
            super().write(data[len(data) // 2 :])
            return len(data)

    os.fdopen = lambda handle, mode: Halved(io.FileIO(handle, mode))  # type: ignore[assignment,arg-type]
    sys.settrace(follow)
    do()
    sys.settrace(None)
    return count


def _files(home: Path) -> dict[str, str]:
    """Every file with a digest of what must be the same; of a provenance that is all but the seconds it took."""
    found = {}
    for path in sorted(home.rglob("*")):
        if path.is_file():
            lines = path.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if not line.startswith(b' "seconds"')] if path.suffix == ".json" else lines
            found[path.relative_to(home).as_posix()] = hashlib.sha256(b"".join(kept)).hexdigest()
    return found


@contextlib.contextmanager
def _at(home: Path) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ("FAIRFL_ROOT", "FAIRFL_CACHE", "FAIRFL_DATA")}
    os.environ |= {"FAIRFL_ROOT": str(home), "FAIRFL_CACHE": str(home / "cache")}
    os.environ.pop("FAIRFL_DATA", None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _there(do: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """The same with the project and the cache in the folder of the trial."""

    def inside(home: Path) -> Any:
        with _at(home):
            return do(home)

    return inside


def _frame(rows: int, shift: float = 0.0) -> pd.DataFrame:
    return pd.DataFrame({"seed": range(rows), "metric": "acc", "value": [k / 7 + shift for k in range(rows)]})


def _save(rows: int, shift: float = 0.0) -> Callable[[Path], Any]:
    return lambda _: results.save("toy/levels", _frame(rows, shift), parameters={"seeds": rows}, seconds=1, command="x")


def _measure(level: int, seeds: Any) -> pd.DataFrame:
    return _frame(len(seeds), level).assign(level=level)


TOY = Experiment("toy/levels", _measure, [{"level": k} for k in range(3)], seeds=3)
EXERCISE = (
    "```{exercise}\n:label: ex-one\nHow many?\n```", "```{solution} ex-one\n:class: dropdown\n```python\nn = 2\n```\n```",
)  # fmt: skip


def _project(home: Path) -> runner.Project:
    text = {"cell_type": "markdown", "metadata": {}}
    question, answer = ({**text, "source": source} for source in EXERCISE)
    answer["metadata"] = {"tags": ["solution"]}
    cells = [from_dict(question), code("n = ...", "answer"), code("print(n)", "check"), from_dict(answer)]
    return small_project(home / "project", {"one": notebook(*cells), "two": notebook("print(1)", "print(2)")})


def _found(home: Path) -> runner.Project:
    return runner.Project(home / "project")


def _run(home: Path, says: str) -> None:
    """Keep a run of the second notebook, as if it had printed this, and its page."""
    job = runner.job(_found(home), "two")
    ran = outputs.read(job.project.source("two"))
    for count, cell in enumerate(ran.cells, start=1):
        cell.execution_count = count
        cell.outputs = [new_output("stream", text=says)]
    runner._keep(job, outputs.clean(ran))


def _why(home: Path) -> Any:
    job = runner.job(_found(home), "two")
    return outputs.dumps(runner.executed(job)) if not runner.why(job) else UNREAD


def _update(home: Path) -> None:
    job = runner.job(_found(home), "two")
    book.publish(job)
    book.update(job.project, [job])


def _rounds(home: Path, done: int) -> None:
    """A run of so many rounds that keeps each of them."""
    book = Book.empty(("test",), ("weights",))
    book.path = home / "kept" / "fedavg.npz"
    begun, _ = book.open(done)
    for t in range(begun, done):
        book.add({"test": np.full((2, 3), t)}, {"weights": np.full((2, 3), t / 7)})
        book.save(t + 1, State(np.full((2, 40), t / 3), {"own": np.full((2, 5), t / 9)}))


def _kept_arrays(home: Path) -> Any:
    paths = list((home / "kept").glob("*.npz"))
    return [{name: array.tolist() for name, array in store.read_arrays(path).items()} for path in paths]


CONTENT = b"a,b\n" + b"1,2\n" * 400_000
WHEEL = hostile._wheel({"x/raw.csv": CONTENT})
VERDICTS = {"little.a": Claim("little.a", "little", "Table 1", "level", "paper", "it is", "0.5")}


def _writers() -> list[Writer]:
    a, b = {"a": 1, "list": [1.5] * 50}, {"a": 2, "list": [2.5] * 90}
    nothing = _there(lambda home: None)

    def text(path: Path) -> str:
        return path.read_text() if path.is_file() else ""

    return [
        Writer("store.write", lambda h: store.write(h / "x", "old" * 99), lambda h: store.write(h / "x", "new" * 999),
               lambda h: text(h / "x")),
        Writer("store.write, a new file", nothing, lambda h: store.write(h / "y" / "x", "new" * 999),
               lambda h: text(h / "y" / "x")),
        Writer("store.renew", lambda h: store.renew(h / "x", "old"), lambda h: store.renew(h / "x", "new"),
               lambda h: text(h / "x")),
        Writer("store.write_json", lambda h: store.write_json(h / "x", a), lambda h: store.write_json(h / "x", b),
               lambda h: text(h / "x")),
        Writer("store.keep", lambda h: store.keep(h / "x", a), lambda h: store.keep(h / "x", b), lambda h: store.kept(h / "x")),
        Writer("store.keep_text", lambda h: store.keep_text(h / "x", "old\n"), lambda h: store.keep_text(h / "x", "new\n"),
               lambda h: store.kept_text(h / "x")),
        Writer("store.write_arrays", lambda h: store.write_arrays(h / "kept" / "x.npz", a=np.arange(5.0)),
               lambda h: store.write_arrays(h / "kept" / "x.npz", a=np.arange(9.0), b=np.eye(30)), _kept_arrays),
        Writer("results.save", _there(_save(5)), _there(_save(9, 0.5)), lambda h: results.load("toy/levels").to_csv()),
        Writer("results.save, a large one", _there(_save(5)), _there(_save(30_000, 0.5)),
               lambda h: results.load("toy/levels").to_csv()),
        Writer("results.save, a small one after it", _there(_save(30_000)), _there(_save(9, 0.5)),
               lambda h: results.load("toy/levels").to_csv()),
        Writer("Experiment.store", nothing, _there(lambda h: TOY.store()), lambda h: results.load("toy/levels").to_csv()),
        Writer("kept.Book, each round", lambda h: _rounds(h, 1), lambda h: _rounds(h, 3),
               lambda h: [one["counts test"][0][-1][0] + 1 == one["rounds"] for one in _kept_arrays(h)]),
        Writer("data.fetch", nothing, _there(lambda h: hostile.fetch_wheel(h, WHEEL, CONTENT)),
               lambda h: text(h / "cache" / "raw" / "raw.csv") in ("", CONTENT.decode())),
        Writer("ledger, verdicts kept", nothing, _there(lambda h: keep("fairfed", VERDICTS, key("fairfed"))),
               lambda h: kept("fairfed")),
        Writer("ledger.to_csv", _there(lambda h: store.write(h / "ledger.csv", "old")),
               _ledger, lambda h: text(h / "ledger.csv")),
        Writer("a finished run", lambda h: (_project(h), _run(h, "old\n")), lambda h: _run(h, "new\n" * 500), _why),
        Writer("a page and stored outputs", lambda h: (_project(h), _run(h, "new\n")), _update,
               lambda h: (text(h / "project/executed/two.ipynb"), text(h / "project/notebooks/two.ipynb"))[1]),
        Writer("lessons.make", _project, lambda h: lessons.make(_found(h), h / "lessons"),
               lambda h: {text(path) for path in sorted((h / "lessons").rglob("*.ipynb"))} <= _lessons(h)),
    ]  # fmt: skip


def _ledger(home: Path) -> None:
    ledger.claims = lambda paper: _frame(300)  # type: ignore[assignment,misc] # in a child: judging is no part of writing
    ledger.to_csv(home / "ledger.csv")


def _lessons(home: Path) -> set[str]:
    source = outputs.read(_found(home).source("one"))
    return {outputs.dumps(make(source)) for make in (lessons.student, lessons.instructor)}


imports.digest(__name__)  # remembered, and so not worked out again in every child
WRITERS = {writer.name: writer for writer in _writers()}
