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

from fairfl_lite.press import book, outputs, runner

CELLS = (
    code("scale: float = 1.0  # 0..9: factor", "parameters"),
    "from little import metrics\nprint(f'eod {0.1234 * scale * metrics.FACTOR:.4f}')",
    "from pathlib import Path\nprint('stored', Path('../results/little/table.csv').read_text().split()[-1])",
    "import matplotlib.pyplot as plt\nfrom fairfl_lite.press import figures\nfig, ax = plt.subplots()\n"
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
    project = runner.Project(tmp_path / "project", tmp_path / "project" / "little")
    shutil.copytree(template.root, project.root)
    monkeypatch.setenv("PYTHONPATH", str(project.root))
    assert runner.why(runner.job(project, "one")) == []
    assert differences(project) == []
    return project


def differences(project: runner.Project) -> list[str]:
    return book.differences(project, book.execute(project, project.names()))


def change(path: Path, old: str, new: str) -> None:
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))


def nbval(project: runner.Project) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--nbval",
        "--nbval-current-env",
    ]
    command += ["--nbval-sanitize-with", str(ROOT / "tests" / "nbval.cfg"), "--rootdir", str(project.root)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run([*command, project.root / "notebooks"], capture_output=True, text=True, env=env)


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
    change(green.package / "metrics.py", "2.0", "2.1")
    assert runner.why(runner.job(green, "one")) == ["package changed: metrics.py"]
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
