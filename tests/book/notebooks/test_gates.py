"""A changed number, a changed figure, a failing notebook, a stale result: each turns a gate red."""

from __future__ import annotations

import base64
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from PIL import Image, ImageDraw
from small import ROOT, code, notebook, small_project

from fairfl_book.notebooks import outputs, runner
from fairfl_book.site import book
from fairfl_lite import data

pytestmark = pytest.mark.slow

CELLS = (
    code("scale: float = 1.0  # 0..9: factor", "parameters"),
    "from little import metrics\nprint(f'eod {0.1234 * scale * metrics.FACTOR:.4f}')",
    "from pathlib import Path\nprint('stored', Path('../results/little/table.csv').read_text().split()[-1])",
    "import matplotlib.pyplot as plt\nfrom fairfl_book import figures\nfig, ax = plt.subplots()\n"
    "ax.plot([0, 1, 2], [0.1, 0.4, 0.2 * metrics.FACTOR], label='fedavg')\nax.legend()\n"
    "figures.show(fig, name='fig-a', caption='A line.', alt='A line that rises.')",
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A project whose references agree with its runs."""
    project = small_project(
        tmp_path_factory.mktemp("green") / "project",
        {"one": notebook(*CELLS, about={"results": ["little/*"]})},
    )
    table = project.root / "results" / "little" / "table.csv"
    table.parent.mkdir()
    table.write_text("value\n0.750\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(project.root))
        book.update(project, book.execute(project, ["one"]))
    return project


@pytest.fixture
def green(template, tmp_path, monkeypatch):
    """A copy of it for one test, with its finished run."""
    project = runner.Project(tmp_path / "project")
    shutil.copytree(template.root, project.root)
    monkeypatch.setenv("PYTHONPATH", str(project.root))
    assert runner.why(runner.job(project, "one")) == []
    assert differences(project) == []
    return project


def test_without_its_data_a_notebook_keeps_its_stored_outputs(make_project, monkeypatch):
    """Data that not everyone has is shown where it is there; a machine without it must not store that it is not."""
    there = {"cifar10": True}
    monkeypatch.setattr(data, "available", there.__getitem__)
    monkeypatch.setattr(data, "digest", lambda name: "1")
    marker = make_project({}).root / "here"
    shown = f"from pathlib import Path\nif Path({str(marker)!r}).exists(): print('a figure')"
    source = notebook(code(shown, "nbval-ignore-output"), about={"optional_data": ["cifar10"]})
    project = runner.Project(marker.parent)
    path = project.source("one")
    path.parent.mkdir(exist_ok=True)
    nbformat.write(source, path)
    marker.touch()
    assert book.update(project, book.execute(project, ["one"])) == ["one"] and "a figure" in path.read_text()
    marker.unlink()
    there["cifar10"] = False
    jobs = book.execute(project, ["one"])
    assert [one.absent for one in jobs] == [["cifar10"]]
    assert book.update(project, jobs) == [] and "a figure" in path.read_text()


def differences(project: runner.Project) -> list[str]:
    return book.differences(project, book.execute(project, project.names()))


def change(path: Path, old: str, new: str) -> None:
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))


def nbval(project: runner.Project, *more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "patient", "--nbval", "--nbval-current-env"]
    command += ["--nbval-sanitize-with", str(ROOT / "tools" / "nbval.cfg"), "--rootdir", str(project.root), *more]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env |= {"FAIRFL_ROOT": str(project.root), "PYTHONPATH": os.pathsep.join((str(ROOT / "tools"), env["PYTHONPATH"]))}
    return subprocess.run([*command, project.root / "notebooks"], capture_output=True, text=True, env=env)


def replay(project: runner.Project, *more: str) -> subprocess.CompletedProcess:
    return nbval(project, "-p", "finished_runs", *more)


@pytest.fixture
def kept(green):
    """Its finished run, which the replay looks for."""
    return runner.job(green, "one")


def red_rectangle(project: runner.Project) -> None:
    """Paint over a part of the stored picture, and leave its data as they are."""
    path = project.source("one")
    stored = outputs.read(path)
    data = stored.cells[-1].outputs[0].data
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
    ImageDraw.Draw(picture).rectangle((100, 100, 160, 160), fill="red")
    buffer = io.BytesIO()
    picture.save(buffer, format="png")
    data["image/png"] = base64.b64encode(buffer.getvalue()).decode()
    nbformat.write(stored, path)


def test_a_changed_number_is_red(green):
    change(green.source("one"), "eod 0.2468", "eod 0.2478")
    assert differences(green) == ["one, code cell 2: number differs: 0.2468 instead of 0.2478"]


def test_a_changed_figure_is_red(green):
    red_rectangle(green)
    (found,) = differences(green)
    assert "code cell 4: the picture differs" in found


def test_changed_data_of_a_figure_are_red(green):
    change(green.source("one"), "0.1000, 0.4000, 0.4000", "0.1000, 0.4100, 0.4000")
    assert any("number differs" in found for found in differences(green))


def test_a_stale_result_is_red(green):
    """Neither the notebook nor its page was touched: what they were made from was."""
    change(green.root / "little" / "metrics.py", "2.0", "2.1")
    assert runner.why(runner.job(green, "one")) == ["code changed: little.metrics"]
    assert any("number differs: 0.2591 instead of 0.2468" in found for found in differences(green))


def test_a_stale_result_file_is_red(green):
    change(green.root / "results" / "little" / "table.csv", "0.750", "0.810")
    assert differences(green) == ["one, code cell 3: number differs: 0.810 instead of 0.750"]


def test_a_failing_notebook_is_red(green):
    nbformat.write(notebook(*CELLS, "1 / 0"), green.source("one"))
    with pytest.raises(book.BuildError, match="In \\[5\\][^$]*ZeroDivisionError"):
        differences(green)
    assert not (green.root / "executed" / "one.ipynb").exists()


def test_nbval_holds_the_text_and_leaves_numbers_to_the_tolerances(green):
    assert nbval(green).returncode == 0
    change(green.source("one"), "eod 0.2468", "eod 0.2467")
    assert nbval(green).returncode == 0
    change(green.source("one"), "eod 0.2467", "spd 0.2468")
    red = nbval(green)
    assert red.returncode == 1
    assert "spd" in red.stdout


def test_nbval_is_red_when_a_notebook_fails(green):
    nbformat.write(notebook(*CELLS, "1 / 0"), green.source("one"))
    red = nbval(green)
    assert red.returncode == 1
    assert "ZeroDivisionError" in red.stdout


def test_the_replay_holds_the_text_as_nbval_does_and_executes_nothing(green, kept):
    before = kept.executed.stat().st_mtime_ns
    passed = replay(green)
    assert passed.returncode == 0, passed.stdout
    assert "4 passed" in passed.stdout
    assert replay(green, "-n", "2", "--dist", "loadfile").returncode == 0
    change(green.source("one"), "eod 0.2468", "eod 0.2467")
    assert replay(green).returncode == 0
    change(green.source("one"), "eod 0.2467", "spd 0.2468")
    red = replay(green)
    assert red.returncode == 1
    assert "1 failed, 3 passed" in red.stdout
    assert "spd" in red.stdout
    assert kept.executed.stat().st_mtime_ns == before


def test_the_replay_tells_a_cell_by_its_number(green, kept):
    change(green.source("one"), "eod 0.2468", "spd 0.2468")
    others = replay(green, "--deselect", "notebooks/one.ipynb::Cell 0", "--deselect", "notebooks/one.ipynb::Cell 1")
    assert others.returncode == 0, others.stdout
    assert "2 passed, 2 deselected" in others.stdout


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no run", "it was not run before"),
        ("torn run", "its last run did not finish"),
        ("stale result", "results changed: little/table.csv"),
        ("stale source", "source changed: cells"),
        ("other cells", "has other code cells than the notebook"),
    ],
)
def test_the_replay_compares_no_run_that_is_missing_stale_or_of_other_cells(green, kept, what, says):
    match what:
        case "no run":
            kept.record.unlink()
        case "torn run":
            kept.executed.write_text(kept.executed.read_text()[:-20])
        case "stale result":
            change(green.root / "results" / "little" / "table.csv", "0.750", "0.751")
        case "stale source":
            change(green.source("one"), "0.1234 * scale", "0.1234 * 1 * scale")
        case "other cells":
            run = runner.executed(kept)
            run.cells[1].source += "  # and more"
            runner._keep(kept, run)
    red = replay(green)
    assert red.returncode == 1
    assert says in red.stdout
    assert "passed" not in red.stdout


def test_the_replay_is_red_when_a_notebook_fails(green, kept):
    nbformat.write(notebook(*CELLS, "1 / 0"), green.source("one"))
    with pytest.raises(book.BuildError, match="ZeroDivisionError"):
        book.execute(green, ["one"])
    red = replay(green)
    assert red.returncode == 1
    assert "has no run to compare with, source changed: cells" in red.stdout
    assert "passed" not in red.stdout


def test_the_replay_is_red_when_a_run_kept_an_error(green, kept):
    run = runner.executed(kept)
    run.cells[1].outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="bad", traceback=["ValueError: bad"])]
    runner._keep(kept, run)
    red = replay(green)
    assert "1 failed, 3 passed" in red.stdout
    assert "ValueError: bad" in red.stdout
