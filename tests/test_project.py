"""The project as a whole: import order, one list of versions, nothing of any one machine in the files."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from small import ROOT, sources

import fairfl_book
import fairfl_lite
from fairfl_book.site.lock import DASK, LOCK, oldest, read

LIBRARY = (
    "errors", "streams", "store", "imports", "data", "models", "supernets", "metrics", "programs", "clients", "engines",
    "federation", "methods", "rankings", "scores",
)  # fmt: skip
PAPERS = tuple(sorted(path.parent.name for path in (ROOT / "book" / "papers").glob("*/__init__.py")))
BEFORE, AFTER = (
    (
        "processes",
        "shapes",
        "markup",
        "looks",
        "results",
        "settings",
        "cards",
        "datacards",
        "methodcards",
        "experiments",
        "notions",
    ),
    ("ledger", "figures", "notebooks", "site", "bench", "traffic", "peers", "spread", "new", "cli"),
)
ORDER = [
    *(f"fairfl_lite.{room}" for room in LIBRARY),
    *(f"fairfl_book.{room}" for room in BEFORE),
    *(f"papers.{room}" for room in PAPERS),
    *(f"fairfl_book.{room}" for room in AFTER),
]


def room(path: Path) -> str:
    """The package of a file and the room in it, fairfl_lite.data; the package alone for its __init__.py."""
    parts = path.relative_to(ROOT).parts
    package, inside, *_ = [*(parts[1:] if parts[0] == "book" else parts), ""]
    return package if inside == "__init__.py" else f"{package}.{inside.removesuffix('.py')}"


def imported_modules(node: ast.AST) -> list[str]:
    """The modules, or what is in them, that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports, anywhere in it; what it names as a type alone, it does not import."""
    found = set()
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")]
    for node in ast.walk(tree):
        assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"{path}: imports are absolute"
        found |= {".".join(module.split(".")[:2]) for module in imported_modules(node)}
    return found


def test_imports_go_one_way():
    """The library imports nothing of the book, and no paper imports another."""
    files = [path for path in sources() if room(path) not in ("fairfl_lite", "fairfl_book", "papers")]
    assert {room(path) for path in files} == set(ORDER), "give a new room its place in ORDER"
    for path in files:
        here = ORDER.index(room(path))
        later = [name for name in imported_rooms(path) & set(ORDER) if ORDER.index(name) > here]
        assert not later, f"{path.relative_to(ROOT)} imports {later}, which come later"
        others = {name for name in imported_rooms(path) if name.startswith("papers.")} - {room(path)}
        assert not others or not room(path).startswith("papers."), f"{path.relative_to(ROOT)} imports {others}"


def test_no_two_classes_of_the_packages_share_a_name():
    found = [node.name for path in sources() for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    assert sorted(name for name in set(found) if found.count(name) > 1) == []


def test_a_paper_is_spelt_one_way_outside_python():
    assert [path for folder in (ROOT / "notebooks", ROOT / "results") for path in folder.rglob("*fair_fate*")] == []
    for page in (ROOT / "_toc.yml", *(ROOT / "book").glob("*.md"), *(ROOT / "book" / "papers").glob("*/card.yml")):
        assert "fair_fate" not in page.read_text(), page


def lock() -> dict[str, str]:
    """The versions that are installed here."""
    return {one.name: one.version for one in read(ROOT / LOCK) if not one.marker or Marker(one.marker).evaluate()}


def project(folder: Path = ROOT) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def test_the_lock_holds_what_the_book_asks_for():
    own, *wanted = [*project(ROOT / "book")["dependencies"], *project(ROOT / "book")["optional-dependencies"]["test"]]
    for requirement in map(Requirement, wanted):
        assert str(requirement.specifier) == f"=={lock()[canonicalize_name(requirement.name)]}"
    assert Requirement(own).name == "fairfl-lite"
    assert lock()["setuptools"], "needed to install without build isolation"


def test_the_library_asks_for_ranges_in_which_the_lock_is():
    wanted = [*project()["dependencies"], *(one for extra in project()["optional-dependencies"].values() for one in extra)]
    versions = lock() | {one.name: one.version for one in read(ROOT / DASK)}
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement
        assert not any(one.operator == "==" for one in requirement.specifier), f"{requirement} is for others to install beside"
    assert set(Requirement(project(ROOT / "book")["dependencies"][0]).extras) == set(project()["optional-dependencies"]) - {
        "dask"
    }


def test_the_library_asks_for_what_it_imports():
    modules = {node.module.partition(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.partition(".")[0]
               for path in (ROOT / "fairfl_lite").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
               if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    wanted = [*project()["dependencies"], *(one for extra in project()["optional-dependencies"].values() for one in extra)]
    names = {"scikit-learn": "sklearn", "pillow": "PIL"}
    asked = {names.get(requirement.name, requirement.name) for requirement in map(Requirement, wanted)}
    assert modules - sys.stdlib_module_names - {"fairfl_lite", "llvmlite"} == asked  # llvmlite is numba's


def test_what_is_installed_is_what_is_locked():
    for name, version in lock().items():
        assert metadata.version(name).split("+")[0] == version, name


def test_the_conda_environment_agrees_with_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert f"pytorch={lock()['torch']}=cpu*" in conda
    known = ("numpy", "pandas", "matplotlib", "seaborn", "jupyter-book", "jupyterlab", "papermill", "nbval")
    assert {f"{name}={lock()[name]}" for name in known} <= set(conda)
    assert pip == ["-r requirements.lock"], "a package that is installed from a folder has no hash"
    (python,) = [entry.split("=")[1] for entry in conda if entry.startswith("python=")]
    asked = Requirement(f"python{project()['requires-python']}").specifier
    assert asked.contains(f"{python}.99"), "conda takes the last of these"


def test_versions_of_package_and_citation_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == fairfl_lite.__version__ == metadata.version("fairfl-lite")
    assert fairfl_lite.__version__ == fairfl_book.__version__ == metadata.version("fairfl-book")
    assert citation["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


def files(root: Path = ROOT) -> list[Path]:
    """Every file that git knows. Others, such as a log that somebody writes here, are nobody's business."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def test_a_log_in_the_projects_folder_is_left_alone(tmp_path):
    for command in (["init", "--quiet"], ["add", "known.txt"]):
        (tmp_path / "known.txt").write_text("known")
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "test.log").write_text("collected in some folder of one machine")
    assert files(tmp_path) == [tmp_path / "known.txt"]


def test_nothing_of_one_machine_is_in_the_files():
    paths = "|".join(("work", "tmp", "root", "home", "farm", "Users"))
    options = "|".join(("index-url", "find-links", "trusted-host"))
    bad = re.compile(rf"(?:^|[^A-Za-z0-9_.:/])/(?:{paths})/|--(?:extra-)?(?:{options})", re.M)
    found = []
    for path in files():
        try:
            match = bad.search(path.read_text())
        except UnicodeDecodeError:
            continue
        if match:
            found.append(f"{path.relative_to(ROOT)}: {match.group()!r}")
    assert found == []


def test_no_file_is_large():
    assert [path.name for path in files() if path.stat().st_size > 2_000_000] == []


def test_derived_files_are_not_in_git():
    names = {path.relative_to(ROOT).parts[0] for path in files()}
    assert names.isdisjoint({"_build", "executed", ".fairfl", ".venv"})


def make(*arguments: str) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, env=env)


def test_make_help_lists_the_commands():
    listed = re.findall(r"^ +make (\S+) +\S", make("help").stdout, re.M)
    assert {"book", "test", "check", "coverage", "nbval", "paper", "lab", "bench", "serve", "clean"} <= set(listed)
    assert make().stdout == make("help").stdout


def commands(target: str) -> list[str]:
    """What a target would run of this environment, installing apart."""
    lines = make("--dry-run", target).stdout.replace("\\\n", " ").splitlines()
    ours = (line for line in lines if ".venv/bin/" in line and "python -m" not in line)
    return [" ".join(line.replace(".venv/bin/", "").split()) for line in ours]


def test_make_test_checks_everything_and_make_check_what_is_quick():
    lint = ["ruff check", "ruff format --check", "mypy fairfl_lite book/fairfl_book book/papers"]
    nbval = "--nbval-sanitize-with tools/nbval.cfg notebooks"
    replay = f"PYTHONPATH=tools pytest -q -p finished_runs --nbval {nbval}"
    assert commands("check") == [*lint, 'pytest -n 2 --dist loadfile -m "not slow"']
    assert commands("test") == [*lint, "pytest -n 2 --dist loadfile", replay]
    itself = f"pytest -n 2 --dist loadfile -p patient --nbval --nbval-current-env {nbval}"
    assert commands("nbval") == [f"PYTHONPATH=tools NUMBA_NUM_THREADS=1 {itself}"]


def test_tests_import_no_other_tests():
    """What several of them need is a fixture in a conftest.py, or stands in tests/support/ or tools/."""
    for path in (ROOT / "tests").rglob("*.py"):
        imported = {name for node in ast.walk(ast.parse(path.read_text())) for name in imported_modules(node)}
        assert not [name for name in imported if re.match(r"test_|(tests|conftest)\b", name)], path


def test_hooks_before_a_commit_are_local_and_check_style():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert entries == [f".venv/bin/ruff {do} --force-exclude" for do in ("check", "format")]


def test_an_old_python_is_refused_in_one_sentence(tmp_path):
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = make("install", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
    assert refused.returncode != 0
    assert f"older than Python {oldest(ROOT)}:" in refused.stdout
    assert not (tmp_path / "venv").exists()


def test_continuous_integration_runs_what_a_contributor_runs():
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert run.read_text().splitlines()[-1] == "make test"
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
    steps = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in steps
    assert "make book" in steps
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.13"]


def test_actions_are_pinned_by_commit():
    """A tag can be moved to other code. The version stands behind it for people."""
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: *(.*)", path.read_text())
        assert used
        for one in used:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


def test_a_cold_rebuild_is_made_every_week():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
    (weekly,) = workflow[True]["schedule"]  # the key is the word on, which YAML takes for a yes
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", weekly["cron"])
    caches = [
        step["with"]["cache"] for job in workflow["jobs"].values() for step in job["steps"] if "cache" in step.get("with", {})
    ]
    assert caches and set(caches) == {"${{ github.event_name != 'schedule' && 'pip' || '' }}"}


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "Makefile"])
def test_paths_that_are_named_exist(name):
    text = (ROOT / name).read_text()
    for path in re.findall(r"\b(?:tests|tools|fairfl_lite|book/\w+)/[\w/]+\.(?:py|cfg)\b", text):
        assert (ROOT / path).is_file(), path
