"""The key of a kept cell: what the measuring module imports counts, and nothing else of the package."""

from __future__ import annotations

import types
from pathlib import Path

import pandas as pd
import pytest

from fairfl_book import results
from fairfl_book.experiments.base import Task
from fairfl_lite import imports
from fairfl_lite.errors import FairFLError

FILES = {
    "__init__.py": "VERSION = 1\n",
    "cli.py": '"""The command line."""\nfrom fairfl_lite.work import tables\n',
    "data/__init__.py": "FOLDER = 1\n",
    "data/adult.py": "ROWS = 1\n",
    "data/compas.py": "ROWS = 1\n",
    "errors.py": "class Wrong(Exception):\n    pass\n",
    "engine.py": '"""Fast."""\nimport math\n\nSTEP = 1  # a step\n"""How far."""\n\n\n'
    'def go(x):\n    """Go."""\n    return x + STEP\n',
    "late.py": "from . import errors\nLATE = 1\n",
    "methods/__init__.py": "from fairfl_lite.methods.plain import Plain\n",
    "methods/plain.py": "Plain = 1\n",
    "methods/other.py": "Other = 1\n",
    "work/__init__.py": "from fairfl_lite.work import other, tables\n",
    "work/base.py": "from fairfl_lite.data.adult import ROWS\nfrom fairfl_lite.methods import Plain\n",
    "work/tables.py": "import fairfl_lite.engine\nfrom fairfl_lite.work import base\n\n\n"
    "def measure(x):\n    from fairfl_lite.late import LATE\n    return x + LATE\n",
    "work/other.py": "def measure(x):\n    return x\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "fairfl_lite"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setitem(imports._FOLDERS, "fairfl_lite", folder)
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    return folder


def measure_of(module: str):
    """A function `measure` that says it is of that module."""

    def measure(x: int) -> pd.DataFrame:
        return pd.DataFrame({"x": [x], "value": [0.5]})

    return types.FunctionType(measure.__code__, {"__name__": module}, "measure")


def key(module: str = "work.tables", x: int = 1, seeds: int = 5, data: tuple[str, ...] = (), reads: tuple[str, ...] = ()) -> str:
    return Task(measure_of(f"fairfl_lite.{module}"), {"x": x}, seeds, data, reads, None).key()


def change(package: Path, name: str, old: str, new: str) -> None:
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))


def test_the_modules_that_a_module_is_made_of(package: Path) -> None:
    inside = {"work.tables", "work.base", "engine", "late", "errors", "methods", "methods.plain", "data", "data.adult"}
    assert set(imports.modules("fairfl_lite.work.tables")) == {f"fairfl_lite.{name}" for name in inside}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("engine.py", '"""Fast."""', '"""Very fast."""'),
        ("engine.py", "# a step", "# one step"),
        ("engine.py", '"""How far."""', ""),
        ("engine.py", '    """Go."""\n', ""),
        ("engine.py", "x + STEP", "(x  +  STEP)"),
        ("cli.py", "import tables", "import tables, other"),
        ("__init__.py", "VERSION = 1", "VERSION = 2"),
        ("work/__init__.py", "other, tables", "tables"),
        ("work/other.py", "return x", "return 2 * x"),
        ("methods/other.py", "Other = 1", "Other = 2"),
        ("data/compas.py", "ROWS = 1", "ROWS = 2"),
    ],
)
def test_what_changes_no_number_keeps_the_key(package: Path, name: str, old: str, new: str) -> None:
    before = key()
    change(package, name, old, new)
    assert key() == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("work/tables.py", "x + LATE", "x - LATE"),
        ("engine.py", "STEP = 1", "STEP = 2"),
        ("late.py", "LATE = 1", "LATE = 2"),
        ("errors.py", "pass", "x = 1"),
        ("methods/__init__.py", "Plain\n", "Plain\nPlain = 2\n"),
        ("methods/plain.py", "Plain = 1", "Plain = 2"),
        ("data/__init__.py", "FOLDER = 1", "FOLDER = 2"),
    ],
)
def test_what_may_change_a_number_changes_the_key(package: Path, name: str, old: str, new: str) -> None:
    before = key()
    change(package, name, old, new)
    assert key() != before


def test_a_function_of_the_same_name_in_another_module_has_another_key(package: Path) -> None:
    (package / "work" / "twin.py").write_text(FILES["work/tables.py"])
    assert key("work.tables") != key("work.twin")


def test_cell_and_data_and_libraries_are_in_the_key_and_seeds_only_where_they_are_used(package, monkeypatch) -> None:
    assert len({key(), key(x=2), key(data=("adult",)), key(data=("compas",))}) == 4
    assert key(seeds=5) == key(seeds=6)
    before = key()
    monkeypatch.setattr(results, "versions", lambda: {"numpy": "another", "fairfl_lite": "0.1.0"})
    assert key() != before


def test_a_result_that_is_read_is_in_the_key(package: Path) -> None:
    def stored(value: float) -> str:
        frame = pd.DataFrame({"name": ["a"], "value": [value]})
        results.save("paper/chosen", frame, parameters={}, seconds=1, command="test", datasets=())
        return key(reads=("paper/chosen",))

    with pytest.raises(FairFLError, match="no result paper/chosen"):
        key(reads=("paper/chosen",))
    first = stored(1.0)
    assert key() != first == stored(1.0) != stored(2.0)


def test_code_counts_as_it_was_loaded(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setattr(imports, "_LOADED", {file: file.read_bytes() for file in package.rglob("*.py")})
    change(package, "engine.py", "STEP = 1", "STEP = 2")
    assert key() == before, "what runs is still the old code"


def test_what_is_no_file_is_refused() -> None:
    with pytest.raises(FairFLError, match="write it into a module"):
        imports.digest("no_such_module")


def test_modules_that_nothing_is_measured_with_do_not_count() -> None:
    used = set(imports.modules("papers.fairfed.tables"))
    assert {"fairfl_lite.methods.fairfed", "fairfl_lite.engines.fused", "fairfl_lite.data.adult"} <= used
    book = {name for name in used if not name.startswith("fairfl_lite.")}
    ours = ("experiments", "experiments.base", "processes", "results", "settings")
    assert book == {f"fairfl_book.{name}" for name in ours} | {"papers.fairfed.tables"}


def test_of_every_paper_figures_need_the_looks_and_no_more() -> None:
    used = {name for name in imports.modules("fairfl_book.figures") if name.startswith("papers.")}
    assert used == {f"papers.{paper}.looks" for paper in ("e2fl", "effl", "fair_fate", "fairfed", "rankff")}


def test_a_name_at_the_top_of_the_library_counts_as_the_module_it_is_in() -> None:
    used = imports.modules_of("from fairfl_lite import FedAvg\n\nstate = await FedAvg().start(None)\n")
    assert {"fairfl_lite.methods", "fairfl_lite.methods.fedavg", "fairfl_lite.clients.debias"} <= set(used)
    assert "fairfl_lite.methods.fedavg" not in imports.modules_of("import fairfl_lite\n")
