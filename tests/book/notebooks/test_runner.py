"""Runs: keyed by all they depend on, done once, resumable after a kill, never a page when they fail."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient.exceptions import DeadKernelError
from small import code, notebook
from waiting import FOR_EVER, LONG, left, until

from fairfl_book.notebooks import outputs, runner, worker
from fairfl_book.site import book
from fairfl_lite import data
from fairfl_lite.errors import FairFLError

pytestmark = pytest.mark.slow

LOG = "open('../log.txt', 'a').write(name + '\\n');"


def counted(name: str, then: str = ""):
    """A notebook that notes each of its executions, and then does that."""
    return notebook(f"name = {name!r}\n{LOG}", f"{then}\nprint(name, 0.25)")


def executions(project: runner.Project) -> list[str]:
    return (project.root / "log.txt").read_text().split()


def quick(project: runner.Project) -> list[runner.Job]:
    return [runner.job(project, name) for name in project.names()]


def change(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def keyed(make_project, monkeypatch):
    """A project with one notebook that depends on everything, its data on a digest that can be changed."""
    digests = {"adult": "1", "acsincome": "2"}
    there = {"adult": True, "acsincome": False}
    monkeypatch.setattr(data, "digest", digests.__getitem__)
    monkeypatch.setattr(data, "available", there.__getitem__)
    about = {
        "profiles": {"paper": {"seeds": 5}},
        "data": ["adult"],
        "optional_data": ["acsincome"],
        "results": ["fairfed/*"],
    }
    cells = (code("seeds: int = 1  # 1..9: n", "parameters"), "seeds", "from little import metrics")
    project = make_project({"one": notebook(*cells, about=about)})
    table = project.root / "results" / "fairfed" / "table1.csv"
    table.parent.mkdir()
    table.write_text("value\n1\n")
    return project, digests, there


def pretend(job: runner.Job) -> None:
    """Keep a run as finished without running it."""
    runner._keep(job, outputs.clean(outputs.read(job.project.source(job.name))))


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("nothing", []),
        ("source", ["source changed: cells"]),
        ("tag", ["source changed: cells"]),
        ("outputs", []),
        ("package", ["code changed: little.metrics"]),
        ("comment", []),
        ("new module that nothing imports", []),
        ("lock", ["lock changed: requirements.lock"]),
        ("data", ["data changed: adult"]),
        ("optional data", ["data changed: acsincome"]),
        ("results", ["results changed: fairfed/table1.csv"]),
        ("new result", ["results changed: fairfed/table2.csv"]),
        ("profile", ["it was not run before"]),
        ("parameter", ["it was not run before"]),
        ("torn notebook", ["its last run did not finish"]),
        ("torn record", ["it was not run before"]),
    ],
)
def test_a_key_holds_all_a_run_depends_on(keyed, what, reason):
    project, digests, there = keyed
    before = runner.job(project, "one")
    pretend(before)
    assert runner.why(before) == []
    profile, overrides = "quick", {}
    source = project.source("one")
    match what:
        case "source":
            change(source, '"seeds"\n', '"seeds + 0"\n')
        case "tag":
            change(source, '"parameters"', '"parameters",\n     "hide-input"')
        case "outputs":
            change(
                source,
                '"outputs": []',
                '"outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}]',
            )
        case "package":
            change(project.root / "little" / "metrics.py", "2.0", "3.0")
        case "comment":
            change(project.root / "little" / "metrics.py", "2.0", "2.0  # twice")
        case "new module that nothing imports":
            (project.root / "little" / "extra.py").write_text("")
        case "lock":
            change(project.root / "requirements.lock", "1", "2")
        case "data":
            digests["adult"] = "other"
        case "optional data":
            there["acsincome"] = True
        case "results":
            (project.root / "results" / "fairfed" / "table1.csv").write_text("value\n2\n")
        case "new result":
            (project.root / "results" / "fairfed" / "table2.csv").write_text("value\n2\n")
        case "profile":
            profile = "paper"
        case "parameter":
            overrides = {"seeds": "2"}
        case "torn notebook":
            before.executed.write_text(before.executed.read_text()[:-20])
        case "torn record":
            before.record.write_text(before.record.read_text()[:-20])
    now = runner.job(project, "one", profile, overrides)
    assert runner.why(now) == reason
    if reason and not what.startswith("torn"):
        assert now.key != before.key


def test_a_finished_run_is_not_repeated_and_overrides_have_a_run_of_their_own(make_project):
    cell = code("x: float = 0.5  # 0..1: a number", "parameters")
    project = make_project({"one": notebook(cell, f"name = 'one'\n{LOG}", "print(x)")})
    for overrides in ({}, {}, {"x": "0.75"}, {"x": "0.75"}, {}):
        job = runner.job(project, "one", overrides=overrides)
        assert runner.run([job]) == []
    assert executions(project) == ["one", "one"]
    plain, other = (runner.executed(runner.job(project, "one", overrides=o)) for o in ({}, {"x": "0.75"}))
    assert [c.outputs[-1].text for c in (plain.cells[-1], other.cells[-1])] == ["0.5\n", "0.75\n"]
    # The injected cell is shown only when something was changed.
    assert [len(n.cells) for n in (plain, other)] == [3, 4]


RUN = """
import sys
from pathlib import Path
from fairfl_book.notebooks import runner
from fairfl_book.site import book
project = runner.Project(Path(sys.argv[1]))
book.settle(project, jobs := [runner.job(project, n) for n in project.names()], runner.run(jobs))
"""


def pages(project: runner.Project) -> dict[str, bytes]:
    folder = project.root / "executed"
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.ipynb"))}


def test_killed_in_the_middle_the_next_run_goes_on_and_ends_with_the_same_bytes(make_project):
    waits = f"import os\nif not os.path.exists('../go'): {FOR_EVER}"
    project = make_project({"a": counted("a"), "b": counted("b"), "c": counted("c", waits)})
    command = [sys.executable, "-c", RUN, str(project.root)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        until(lambda: list((project.state / "runs").rglob("*.json")), process)
        started = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
    assert not left(started), "a killed build leaves nothing running"
    assert pages(project) == {}
    finished = [job.name for job in quick(project) if not runner.why(job)]
    assert 1 <= len(finished) < 3 and "c" not in finished
    (project.root / "go").touch()

    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    assert all(executions(project).count(name) == 1 for name in finished)
    resumed = pages(project)

    subprocess.run(["rm", "-r", project.state, project.root / "executed"], check=True)
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    assert pages(project) == resumed
    assert len(resumed) == 3


def test_ctrl_c_ends_what_runs_and_begins_nothing_else(make_project):
    project = make_project({name: counted(name, FOR_EVER) for name in "abcd"})
    # A shell that starts the tests in the background lets them ignore Ctrl-C, and what they start.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    run = RUN.replace("runner.run(jobs)", "runner.run(jobs, workers=2)")
    command = [sys.executable, "-c", heard + run, str(project.root)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        log = project.root / "log.txt"
        until(lambda: log.is_file() and len(executions(project)) == 2, process)
        started = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGINT)  # to the command alone: its processes must not be left to themselves
        assert process.wait(timeout=LONG) != 0
    assert not left(started) and len(executions(project)) == 2


@pytest.mark.parametrize(
    ("cell", "says", "where"),
    [
        ("raise ValueError('too bad')", "ValueError: too bad", "In [2]"),
        ("import os; os._exit(1)", "kernel died", "outside its cells"),
        ("raise SystemExit(0)", "ended by itself", "outside its cells"),
    ],
)
def test_a_failure_is_named_and_never_becomes_a_page(make_project, cell, says, where):
    project = make_project({"bad": notebook("x = 1", cell, "print(x)"), "good": counted("good")})
    page, built = (project.root / path for path in ("executed/bad.ipynb", "_build/html/executed/bad.html"))
    for stale in (page, built):
        stale.parent.mkdir(parents=True, exist_ok=True)
        stale.write_text("a page of an earlier run")
    with pytest.raises(book.BuildError) as caught:
        book.build(project)
    message = str(caught.value)
    assert "notebooks/bad.ipynb failed" in message
    assert says in message
    assert where in message
    partial = project.state / "failed" / "bad.ipynb"
    assert str(partial) in message
    assert partial.is_file()
    assert not page.exists()
    assert not built.exists()
    assert (project.root / "executed" / "good.ipynb").is_file(), "the others are finished and kept"
    assert runner.why(runner.job(project, "bad")) == ["it was not run before"]


def test_a_notebook_that_was_mended_leaves_nothing_of_its_failure(make_project):
    project = make_project({"one": notebook("1 / 0")})
    (failure,) = runner.run([runner.job(project, "one")])
    assert failure.partial.is_file()
    nbformat.write(notebook("1 / 1"), project.source("one"))
    assert runner.run([runner.job(project, "one")]) == [] and not failure.partial.exists()


def test_the_longest_goes_first_and_durations_are_remembered(make_project):
    project = make_project({"a": counted("a"), "b": counted("b", "import time; time.sleep(0.6)")})
    source = project.source("b")
    content = nbformat.read(source, as_version=4)
    content.metadata["fairfl"] = {"seconds": 100}
    nbformat.write(content, source)
    report = io.StringIO()
    assert runner.run(quick(project), workers=1, stream=report) == []
    assert executions(project) == ["b", "a"]
    assert "[1/2] b: done" in report.getvalue()
    assert "left" in report.getvalue().splitlines()[0]
    known = json.loads((project.state / "durations.json").read_text())
    assert sum(known["b:quick"]) > 0.6
    assert len(known["a:quick"]) == 2


def test_kernels_are_this_environments_own(make_project, monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    project = make_project({"one": notebook("import sys, os\nprint(sys.prefix, os.environ.get('JUPYTER_PATH'))")})
    assert runner.run([runner.job(project, "one")]) == []
    printed = runner.executed(runner.job(project, "one")).cells[0].outputs[0].text
    assert printed == f"{sys.prefix} None\n"


def test_outputs_that_arrive_after_their_cell_are_kept(make_project):
    """A kernel on a busy machine may send them seconds after it said that the cell is done."""
    late = "import time\nget_ipython().kernel.iopub_thread.schedule(lambda: time.sleep(5))\nprint('late')"
    project = make_project({"one": notebook(late, "print('next')")})
    assert runner.run([runner.job(project, "one")]) == []
    cells = runner.executed(runner.job(project, "one")).cells
    assert [[output.text for output in cell.outputs] for cell in cells] == [["late\n"], ["next\n"]]


def test_data_that_is_missing_is_fetched_first(keyed, monkeypatch):
    project, _, there = keyed
    fetched = []
    monkeypatch.setattr(data, "fetch", fetched.append)
    runner.fetch(["one"], project)
    there["adult"] = False
    runner.fetch(["one"], project)
    assert fetched == ["adult"]


def test_pages_give_figures_their_name_caption_and_alternative_text():
    about = {"fairfl": {"name": "fig-a", "caption": "See this.", "alt": "A line."}}
    picture = nbformat.v4.new_output("display_data", data={"image/png": "", "text/plain": ""}, metadata=about)
    stray = nbformat.v4.new_output("display_data", data={"image/png": ""})
    shown = notebook("show()")
    shown.cells[0].outputs = [picture]
    assert book.page(shown).cells[0].metadata.mystnb == {
        "figure": {"name": "fig-a", "caption": "See this."},
        "image": {"alt": "A line."},
    }
    for others, says in (([stray], "without figures.show"), ([picture, picture], "several figures")):
        shown.cells[0].outputs = others
        with pytest.raises(FairFLError, match=says):
            book.page(shown)


def test_two_figures_of_one_name_are_refused(make_project):
    show = (
        "import matplotlib.pyplot as plt\nfrom fairfl_book import figures\nfig, _ = plt.subplots()\n"
        "figures.show(fig, name='same', caption='c', alt='a')"
    )
    project = make_project({"a": notebook(show), "b": notebook(show)})
    with pytest.raises(FairFLError, match="same is in a and in b"):
        book.build(project)


def test_names(make_project):
    project = make_project({"fairfed/2_tables": counted("x")})
    other = replace(project)
    assert other.name("fairfed/2_tables") == "fairfed/2_tables"
    assert other.name("notebooks/fairfed/2_tables.ipynb") == "fairfed/2_tables"
    assert other.name(str(project.source("fairfed/2_tables"))) == "fairfed/2_tables"
    with pytest.raises(FairFLError, match="did you mean fairfed/2_tables"):
        other.name("fairfed/2_tabels")


def test_a_dead_kernel_is_known_by_what_its_end_caused():
    def raised(error, *after):
        try:
            raise error
        except Exception:
            if not after:
                raise
            raised(*after)

    for chain, dead in [
        ([DeadKernelError("gone")], True),
        ([DeadKernelError("gone"), OSError("the socket is closed")], True),
        ([RuntimeError("Kernel died before replying to kernel_info")], True),
        ([ValueError("too bad"), OSError("the socket is closed")], False),
    ]:
        with pytest.raises(Exception) as caught:
            raised(*chain)
        assert worker._died(caught.value) is dead
