"""Run notebooks: parameters checked first, each run keyed by all it depends on, resumable, in parallel.

A run is kept in .fairfl/runs/<notebook>/<slot>.ipynb with a record <slot>.json beside it. The slot is the
profile and what was overridden; the record holds the key and its parts. The record is written last and names
the bytes of the notebook, so a run counts as finished only when both are whole, wherever it was killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fairfl_book import cards, datacards, settings
from fairfl_book.notebooks import outputs, parameters
from fairfl_book.notebooks.progress import Progress, readable
from fairfl_lite import imports, store
from fairfl_lite.errors import FairFLError, did_you_mean

if TYPE_CHECKING:
    from nbformat import NotebookNode

WORKER = "fairfl_book.notebooks.worker"
GUESS = 5.0
ABSENT = "absent"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Project:
    """The folder with notebooks/, requirements.lock and results/."""

    root: Path

    @staticmethod
    def find() -> Project:
        """The project we are in."""
        return Project(store.root())

    @property
    def state(self) -> Path:
        return self.root / ".fairfl"

    def names(self) -> list[str]:
        """All notebooks, as paths under notebooks/ without the suffix."""
        folder = self.root / "notebooks"
        found = (path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.ipynb"))
        return sorted(name for name in found if ".ipynb_checkpoints" not in name)

    def source(self, name: str) -> Path:
        return self.root / "notebooks" / f"{name}.ipynb"

    def name(self, written: str) -> str:
        """The notebook meant by a path to it or by its short name (fairfed/2_tables)."""
        known = self.names()
        folder = self.root / "notebooks"
        # Unlike its method, this isfile takes any text.
        if os.path.isfile(written) and (path := Path(written).resolve()).is_relative_to(folder):  # noqa: PTH113
            return path.relative_to(folder).with_suffix("").as_posix()
        short = written.removeprefix("notebooks/").removesuffix(".ipynb")
        if short in known:
            return short
        raise FairFLError(f"There is no notebook {written!r}{did_you_mean(short, known)}.")


@dataclass(frozen=True)
class Job:
    """One notebook with its parameters: `values` are all of them, `defaults` its own, `changed` those that differ.

    `overridden` are the values that are not those of the profile: the slot is named by both.
    `cells` counts the code cells, with the one papermill injects when something is changed.
    """

    project: Project
    name: str
    profile: str
    values: Mapping[str, Any]
    defaults: Mapping[str, Any]
    changed: Mapping[str, Any]
    overridden: Mapping[str, Any]
    parts: Mapping[str, Mapping[str, str]]
    cells: int
    seconds: float | None

    @property
    def key(self) -> str:
        return _sha(json.dumps(self.parts, sort_keys=True))

    @property
    def slot(self) -> str:
        if not self.overridden:
            return self.profile
        return f"{self.profile}-{_sha(json.dumps(self.overridden, sort_keys=True))[:12]}"

    @property
    def absent(self) -> list[str]:
        """Data that the notebook would show and that is not on this machine."""
        return [name for name, digest in self.parts["data"].items() if digest == ABSENT]

    @property
    def executed(self) -> Path:
        return self.project.state / "runs" / self.name / f"{self.slot}.ipynb"

    @property
    def record(self) -> Path:
        return self.executed.with_suffix(".json")


@dataclass(frozen=True)
class Failure:
    """A notebook that did not reach its end: where, why, and the file with what it did until then."""

    name: str
    cell: int | None
    traceback: str
    partial: Path

    def __str__(self) -> str:
        where = f"in cell In [{self.cell}]" if self.cell is not None else "outside its cells"
        return (
            f"notebooks/{self.name}.ipynb failed {where}:\n{self.traceback.rstrip()}\n"
            f"What it did until then is in {self.partial}."
        )


def job(project: Project, name: str, profile: str = parameters.QUICK, overrides: Mapping[str, Any] | None = None) -> Job:
    """Check the parameters of a run and gather what its key is made of. Nothing is executed.

    The parameters come first: what they refuse is refused before the package, the data or nbformat is touched.
    """
    notebook = outputs.source(project.source(name))
    try:
        values = parameters.resolve(notebook, profile, overrides)
        usual = parameters.resolve(notebook, profile)
    except FairFLError as error:
        raise FairFLError(f"{name}: {error}") from None
    defaults = {known.name: known.default for known in parameters.declared(notebook).values()}
    changed = {known: value for known, value in values.items() if value != defaults[known]}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    about = notebook["metadata"].get("fairfl", {})
    return Job(
        project=project,
        name=name,
        profile=profile,
        values=values,
        defaults=defaults,
        changed=changed,
        overridden={known: value for known, value in values.items() if value != usual[known]},
        parts={
            "source": {"cells": _sha(json.dumps(_sources(notebook)))},
            "parameters": {known: json.dumps(value) for known, value in values.items()},
            "code": _code(project, code),
            "lock": {"requirements.lock": _file(project.root / "requirements.lock")},
            "data": _data(about),
            "results": _results(project.root / "results", about.get("results", [])),
        },
        cells=len(code) + bool(changed),
        seconds=about.get("seconds"),
    )


def why(job: Job) -> list[str]:
    """Why this run has to be done, one reason per line; empty when it is finished and still holds."""
    record = store.kept(job.record)
    if not record:
        return ["it was not run before"]
    if not job.executed.is_file() or _file(job.executed) != record["notebook"]:
        return ["its last run did not finish"]
    reasons = []
    for part, now in job.parts.items():
        before = record["parts"].get(part, {})
        changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
        if changed:
            reasons.append(f"{part} changed: {', '.join(changed)}")
    return reasons


def run(jobs: Sequence[Job], *, workers: int | None = None, stream: TextIO | None = None) -> list[Failure]:
    """Do the runs that are not finished yet, longest first; returns those that failed.

    One process at a time works on a project: a second one waits, and then finds the work done.
    """
    if not jobs:
        return []
    from filelock import FileLock

    state = jobs[0].project.state
    state.mkdir(exist_ok=True)
    with FileLock(state / "lock"):
        pending = [one for one in jobs if why(one)]
        return _run(pending, workers or os.cpu_count() or 1, stream) if pending else []


def executed(job: Job) -> NotebookNode:
    """The notebook of a finished run."""
    return outputs.read(job.executed)


def fetch(names: Iterable[str], project: Project) -> list[str]:
    """Get the data the notebooks need; what is optional is left as it is. Gives what was not here before."""
    from fairfl_lite import data

    needed: dict[str, None] = {}
    for name in names:
        about = outputs.source(project.source(name))["metadata"].get("fairfl", {})
        needed |= dict.fromkeys(about.get("data", []))
    missing = [name for name in needed if not data.available(name)]
    for name in missing:
        data.fetch(name)
    return missing


def environment(project: Project, parallel: bool) -> dict[str, str]:
    """What a kernel sees: this environment's own python3, and one thread per kernel when several run at once.

    BLAS and OpenMP always get one thread: their sums depend on it, and a run that goes on after a kill, with
    fewer notebooks left to do, must end with the same bytes.
    """
    env = {name: value for name, value in os.environ.items() if name != "JUPYTER_PATH"}
    env |= {"JUPYTER_PREFER_ENV_PATH": "1", "FAIRFL_ROOT": str(project.root)}
    for name in THREADS:
        env.setdefault(name, "1")
    if parallel:
        env.setdefault("NUMBA_NUM_THREADS", "1")
    return env


def _run(pending: list[Job], workers: int, stream: TextIO | None) -> list[Failure]:
    workers = min(workers, len(pending))
    durations = pending[0].project.state / "durations.json"
    known = store.kept(durations)
    expected = {one.name: _expected(one, known) for one in pending}
    pending = sorted(pending, key=lambda one: (-sum(expected[one.name]), one.name))
    env = environment(pending[0].project, parallel=workers > 1)
    events: queue.Queue[tuple[str, str, Any]] = queue.Queue()
    failures: list[Failure] = []
    progress = Progress(expected, workers, stream)
    with ThreadPoolExecutor(workers) as pool, _stopping(pool) as running:
        for one in pending:
            pool.submit(_execute, one, env, events, running)
        left = len(pending)
        while left:
            try:
                kind, name, value = events.get(timeout=1)
            except queue.Empty:
                progress.tick()
                continue
            if kind == "started":
                progress.started(name)
            elif kind == "cell":
                progress.cell(name)
            else:
                left -= 1
                if isinstance(value, BaseException):
                    raise value
                if isinstance(value, Failure):
                    failures.append(value)
                    progress.ended(name, "failed")
                else:
                    known[_duration_name(name, value)] = value["seconds"]
                    store.keep(durations, known)
                    progress.ended(name, f"done in {readable(sum(value['seconds'])).removeprefix('about ')}")
    progress.close()
    return sorted(failures, key=lambda failure: failure.name)


@contextmanager
def _stopping(pool: ThreadPoolExecutor) -> Iterator[set[subprocess.Popen]]:
    """The processes at work; when the run is stopped, by Ctrl-C or by an error, they end and no other begins."""
    running: set[subprocess.Popen] = set()
    try:
        yield running
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.kill()
        raise


def _execute(job: Job, env: Mapping[str, str], events: queue.Queue, running: set[subprocess.Popen]) -> None:
    """Run in a thread: start the worker process, pass on what it reports, keep the result."""
    try:
        events.put(("started", job.name, None))
        events.put(("ended", job.name, _work(job, env, events, running)))
    except BaseException as error:
        events.put(("ended", job.name, error))


def _work(job: Job, env: Mapping[str, str], events: queue.Queue, running: set[subprocess.Popen]) -> Failure | dict[str, Any]:
    state = job.project.state
    prepared, made = (state / "tmp" / job.name / f"{job.slot}.{end}.ipynb" for end in ("in", "out"))
    outputs.write(outputs.without_outputs(outputs.read(job.project.source(job.name))), prepared)
    made.unlink(missing_ok=True)
    order = {
        "input": str(prepared),
        "output": str(made),
        "parameters": dict(job.changed),
        "cwd": str(job.project.source(job.name).parent),
    }
    partial = state / "failed" / f"{job.name}.ipynb"
    seconds: list[float] = []
    error: dict[str, Any] | None = None
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [sys.executable, "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(env),
            text=True,
        ) as process,
    ):
        running.add(process)
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            said = json.loads(line)
            error = said.get("error", error)
            if "seconds" in said and said["code"]:
                seconds.append(said["seconds"])
                events.put(("cell", job.name, None))
        process.stdin.close()
        process.wait()
        running.discard(process)
        log.seek(0)
        trouble = log.read()
    if process.returncode == 0:
        notebook = outputs.clean(outputs.read(made))
        code = (cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip())
        left_out = next((cell for cell in code if cell.execution_count is None), None)
        if left_out is None:
            _keep(job, notebook)
            made.unlink()
            partial.unlink(missing_ok=True)  # of a run that failed, or was stopped, before
            return {"seconds": seconds, "slot": job.slot}
        # Papermill takes exit() for a success.
        error = {"cell": None, "traceback": f"It ended by itself before the cell\n{left_out.source}"}
    from papermill.exceptions import strip_color

    error = error or {"cell": None, "traceback": trouble or "The process that ran it was ended."}
    partial.parent.mkdir(parents=True, exist_ok=True)
    (made if made.is_file() else prepared).replace(partial)
    return Failure(job.name, error["cell"], strip_color(error["traceback"]), partial)


def _keep(job: Job, notebook: NotebookNode) -> None:
    outputs.write(notebook, job.executed)
    store.keep(job.record, {"key": job.key, "parts": job.parts, "notebook": _file(job.executed)})


def _expected(job: Job, known: Mapping[str, list[float]]) -> list[float]:
    before = known.get(_duration_name(job.name, {"slot": job.slot}))
    if before and len(before) == job.cells:
        return before
    return [(job.seconds or GUESS) / max(job.cells, 1)] * job.cells


def _duration_name(name: str, ended: Mapping[str, Any]) -> str:
    return f"{name}:{ended['slot']}"


def _sources(notebook: Mapping[str, Any]) -> list[Any]:
    about = {key: value for key, value in notebook["metadata"].get("fairfl", {}).items() if key != "seconds"}
    cells = [[cell["cell_type"], cell["source"], sorted(cell["metadata"].get("tags", []))] for cell in notebook["cells"]]
    return [about, *cells]


def _data(about: Mapping[str, Any]) -> dict[str, str]:
    from fairfl_lite import data

    needed, optional = about.get("data", []), about.get("optional_data", [])
    return {name: data.digest(name) if data.available(name) else ABSENT for name in (*needed, *optional)}


def _code(project: Project, cells: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Digests of the modules that the cells import, directly or through others, of what runs them, of the cards of papers and
    of datasets if they read any, and of the settings that are printed in those of the papers whose experiments they take."""
    imports.beside(project.root)
    found = imports.modules_of("\n".join("".join(cell["source"]) for cell in cells)) | imports.modules(WORKER)
    read = [
        *(cards.files() if cards.__name__ in found else ()),
        *(datacards.files().values() if datacards.__name__ in found else ()),
    ]
    shown = {f"{card.parent.name}/{card.name}": _file(card) for card in read}
    papers = {name.split(".")[1] for name in found if name.startswith("papers.") and settings.__name__ in found}
    return imports.codes(found) | shown | {f"settings of {paper}": settings.digest(f"papers.{paper}") for paper in sorted(papers)}


def _results(folder: Path, patterns: Iterable[str]) -> dict[str, str]:
    """Digests of the result files a notebook reads; a pattern such as fairfed/* stands for all that match."""
    there = _files(folder, ["*.csv", "*.csv.gz", "*.json"])
    found: dict[str, str] = {}
    for pattern in patterns:
        matching = (name for name in there if fnmatch(re.sub(r"\.(csv|csv\.gz|json)$", "", name), pattern))
        found |= {name: there[name] for name in matching} or {pattern: ABSENT}
    return found


def _files(folder: Path, patterns: Iterable[str]) -> dict[str, str]:
    paths = sorted(path for pattern in patterns for path in folder.rglob(pattern))
    return {path.relative_to(folder).as_posix(): _file(path) for path in paths}


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ABSENT


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
