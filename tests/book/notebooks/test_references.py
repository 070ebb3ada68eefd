"""The real notebooks: each keeps the contract, and its quick run agrees with the outputs stored in it."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest
import yaml
from small import ROOT

from fairfl_book.notebooks import outputs, parameters, runner
from fairfl_book.site import book

pytestmark = pytest.mark.slow

PROJECT = runner.Project(ROOT)
NAMES = PROJECT.names()
TRAINS = re.compile(r"\b(FedAvg|FairFed|Federation|experiments)\b")


def notebooks():
    return {name: outputs.read(PROJECT.source(name)) for name in NAMES}


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_table_of_contents_names_every_notebook_and_page():
    text = (ROOT / "_toc.yml").read_text()
    toc = yaml.safe_load(text)
    files = [toc["root"], *re.findall(r"file: (\S+)", text)]
    assert len(files) == len(set(files))
    assert sorted(file.removeprefix("executed/") for file in files if file.startswith("executed/")) == NAMES
    prose = {path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "book").rglob("*.md")}
    assert {file for file in files if file.startswith("book/")} == prose


def test_quick_runs_agree_with_the_stored_outputs():
    assert NAMES
    assert book.differences(PROJECT, book.execute(PROJECT, NAMES)) == []


def test_every_notebook_keeps_the_contract():
    for name, notebook in notebooks().items():
        tags = [tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])]
        assert tags.count("parameters") == 1, name
        for profile in ("quick", "paper"):
            parameters.resolve(notebook, profile)
        assert outputs.dumps(outputs.clean(notebook)) == PROJECT.source(name).read_text(), f"{name}: make references"
        assert [c.execution_count for c in code_cells(notebook)] == [*range(1, len(code_cells(notebook)) + 1)], name
        made = [output for cell in code_cells(notebook) for output in cell.outputs]
        assert made, name
        assert not [o for o in made if o.output_type == "error" or o.get("name") == "stderr"], name
        book.page(notebook)


def test_what_a_notebook_loads_is_in_its_metadata():
    """Otherwise its run would not be repeated when that changes."""
    for name, notebook in notebooks().items():
        about = notebook.metadata.get("fairfl", {})
        declared = {
            "data": {*about.get("data", []), *about.get("optional_data", [])},
            "results": set(about.get("results", [])),
        }
        for cell in code_cells(notebook):
            for node in ast.walk(ast.parse(cell.source)):
                if not (isinstance(node, ast.Call) and node.args):
                    continue
                # A name alone is imported from the data room.
                room, _, what = ast.unparse(node.func).rpartition(".")
                patterns, first = declared.get(room or "data"), node.args[0]
                if what in ("load", "images") and patterns is not None and isinstance(first, ast.Constant):
                    assert any(Path(str(first.value)).match(p) for p in patterns), f"{name}: {ast.unparse(node)}"


def cheapest(count: int) -> list[str]:
    """The notebooks that train and take the least time, by what they say themselves."""
    found = notebooks()
    training = [n for n in NAMES if TRAINS.search("\n".join(c.source for c in code_cells(found[n])))]
    return sorted(training, key=lambda n: (found[n].metadata.get("fairfl", {}).get("seconds", 60), n))[:count]


@pytest.mark.parametrize(
    ("switches", "count"),
    [
        ({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "ATEN_CPU_CAPABILITY": "default",
          "OPENBLAS_CORETYPE": "Prescott", "NUMBA_NUM_THREADS": "1"}, 2),
        ({"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}, 2),
    ],
    ids=["narrow vectors, one thread", "two threads"],
)  # fmt: skip
def test_the_references_hold_on_another_machine_and_in_another_order(tmp_path, monkeypatch, switches, count):
    """One notebook at a time, last name first; nothing is taken from earlier runs."""
    for name, value in switches.items():
        monkeypatch.setenv(name, value)
    names = cheapest(count)
    assert names
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for shared in ("results", "requirements.lock"):
        (tmp_path / shared).symlink_to(ROOT / shared)
    project = runner.Project(tmp_path)
    for name in sorted(names, reverse=True):
        assert book.differences(project, book.execute(project, [name])) == []
