"""`fairfl new`: what it makes works at once, and a name that cannot be used is refused before anything is written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from small import ROOT

from fairfl_book import cli, looks, new
from fairfl_lite.errors import FairFLError

pytestmark = pytest.mark.slow
Run = Callable[..., str]
LINKED = {"notebooks/primer/federated_averaging.ipynb", "notebooks/ledger/how_it_judges.ipynb"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, without the results that it has, and of its chapters only those that a new one links to."""
    folder = tmp_path_factory.mktemp("new") / "checkout"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (name in LINKED or not name.startswith(("notebooks/", "results/"))) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def run(checkout: Path) -> Run:
    """Runs a module of Python in the copy, by the code of the copy; gives what it prints."""
    path = os.pathsep.join(map(str, (checkout, checkout / "book")))
    env = {**os.environ, "PYTHONPATH": path, "FAIRFL_ROOT": str(checkout)}

    def run(module: str, *arguments: str) -> str:
        command = [sys.executable, "-m", module, *arguments]
        ours, theirs = os.pipe()  # an input that stays open: the builder ends when its input does
        try:
            done = subprocess.run(command, cwd=checkout, env=env, stdin=ours, capture_output=True, text=True)
        finally:
            os.close(ours), os.close(theirs)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    return run


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }


def made(run: Run, kind: str, name: str) -> list[str]:
    """The files of a new thing, which are in good style."""
    said = run("fairfl_book.cli", "new", kind, name)
    listed = [line.strip() for line in said.partition("It works")[0].splitlines() if line.startswith("  ")]
    ours = [path for path in listed if path.endswith((".py", ".pyi"))]
    run("ruff", "check", "--no-cache", *ours)
    run("ruff", "format", "--no-cache", "--check", *ours)
    return listed


def named(checkout: Path, *names: str) -> list[str]:
    """Files of tests, wherever they are."""
    return [str(path) for name in names for path in (checkout / "tests").rglob(name)]


@pytest.fixture(scope="module")
def paper(checkout: Path, run: Run) -> Path:
    before = files(checkout)
    listed = made(run, "paper", "fair-shares")
    assert {path for path in listed if path != "_toc.yml"} == files(checkout) - before
    return checkout


def test_a_new_paper_touches_the_table_of_contents_and_no_other_file(paper: Path) -> None:
    changed = [name for name in files(ROOT) & files(paper) if (ROOT / name).read_bytes() != (paper / name).read_bytes()]
    assert changed == ["_toc.yml"]
    contents = (paper / "_toc.yml").read_text()
    new = "  - caption: FairShares\n    numbered: 1\n    chapters:\n      - file: executed/fair-shares/1_idea\n"
    assert contents.replace(new, "") == (ROOT / "_toc.yml").read_text()
    assert contents.index("executed/e2fl/") < contents.index("executed/fair-shares/") < contents.index("book/ledger")


def test_its_experiment_is_measured_and_its_card_judged(paper: Path, run: Run) -> None:
    run("fairfl_book.cli", "paper", "fair-shares/table1")
    checked = run("fairfl_book.cli", "cards", "check", "--paper", "fair-shares")
    assert "9 entries read results, 0 of them wait for runs, 0 are mistaken" in checked
    found = json.loads(run("fairfl_book.cli", "claims", "--paper", "fair-shares", "--json"))
    verdicts = {claim["id"].removeprefix("fair-shares."): claim["verdict"] for claim in found}
    expected = {"t1.acc.fedavg": "agrees", "t1.acc.fair-shares": "agrees", "t1.std_acc.fedavg": "agrees",
                "t1.std_acc.fair-shares": "differs", "s1.accuracy": "confirmed"}  # fmt: skip
    assert expected.items() <= verdicts.items()


def test_its_tests_pass(paper: Path, run: Run) -> None:
    said = run("pytest", "-q", "--doctest-modules", "book/papers/fair_shares/method.py", "tests/papers/fair_shares")
    assert "7 passed" in said


def test_its_chapter_runs_and_becomes_a_page(paper: Path, run: Run) -> None:
    assert "fair-shares/1_idea: outputs kept" in run("fairfl_book.cli", "references", "--update", "fair-shares/1_idea")
    for name in ("primer/federated_averaging", "ledger/how_it_judges"):  # the pages that it links to
        cells = [nbformat.v4.new_markdown_cell("# A page\n\nOf the book.")]
        (paper / "executed" / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), paper / "executed" / f"{name}.ipynb")
    chapters = "".join(f"  - file: executed/{name}\n" for name in ("ledger/how_it_judges", "fair-shares/1_idea"))
    contents = (paper / "_toc.yml").read_text()
    try:
        (paper / "_toc.yml").write_text(f"format: jb-book\nroot: executed/primer/federated_averaging\nchapters:\n{chapters}")
        run("fairfl_book.site.builder", "build", str(paper), "-W", "-n", "--keep-going")
    finally:
        (paper / "_toc.yml").write_text(contents)
    page = (paper / "_build" / "html" / "executed" / "fair-shares" / "1_idea.html").read_text()
    assert 'id="your-name' not in page and "The rule" in page and 'id="fair-shares-clients"' in page


def test_its_chapter_is_held_to_what_every_chapter_is_held_to(paper: Path, run: Run) -> None:
    held = named(paper, "test_frame.py", "test_lab.py", "test_lessons.py", "test_prose.py", "test_figures.py")
    assert len(held) == 5
    said = run("pytest", "-q", "-k", "fair-shares", *held)
    assert "passed" in said and "failed" not in said


def test_a_new_method_is_exported_and_held_to_what_every_method_is_held_to(checkout: Path, run: Run) -> None:
    before = files(checkout)
    listed = made(run, "method", "many-votes")
    assert {"fairfl_lite/methods/many_votes.py", "tests/lite/test_many_votes.py"} <= files(checkout) - before
    assert set(listed) & before == {"fairfl_lite/methods/__init__.py", "fairfl_lite/__init__.pyi", "book/fairfl_book/looks.py"}
    assert "4 passed" in run(
        "pytest", "-q", "--doctest-modules", "fairfl_lite/methods/many_votes.py", "tests/lite/test_many_votes.py"
    )
    assert "passed" in run("pytest", "-q", "-k", "many-votes", *named(checkout, "test_methods.py"))
    kept = [f"{path}::{name}" for path, name in zip(
        named(checkout, "test_methods.py", "test_figures.py", "test_startup.py"),
        ("test_the_list_is_of_all_methods", "test_every_method_has_one_look_and_shares_it_with_no_other",
         "test_the_names_to_start_from_are_those_of_their_modules"), strict=True)]  # fmt: skip
    assert "3 passed" in run("pytest", "-q", *kept)


def test_a_new_dataset_is_found_and_loads(checkout: Path, run: Run) -> None:
    listed = made(run, "dataset", "small-loans")
    card = "book/fairfl_book/datacards/small-loans.yml"
    assert listed == ["fairfl_lite/data/small_loans.py", card, "tests/lite/test_small_loans_data.py"]
    assert "3 passed" in run("pytest", "-q", "tests/lite/test_small_loans_data.py")
    assert "Small-loans (invented loans)" in run("fairfl_book.cli", "data", "list", "small-loans")


WRONG = ("", "Fair", "fair_shares", "1st", "fair--shares", "-fair", "fair shares", "lambda", "x" * 41, "ä", "../x")
TAKEN = {
    "paper": ("fairfed", "fair-fate", "fedavg", "fair-fed", "local"),
    "method": ("q-ffl", "vote", "settings", "table"),
    "dataset": ("adult", "law-school", "registry"),
}


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_name_is_refused_in_one_sentence(checkout, monkeypatch, capsys, kind, name) -> None:
    refused(checkout, monkeypatch, capsys, [kind, "--", name], "cannot be a name")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in TAKEN.items() for name in names])
def test_a_name_that_is_taken_is_refused_in_one_sentence(checkout, monkeypatch, capsys, kind, name) -> None:
    refused(checkout, monkeypatch, capsys, [kind, name], f"The name {name!r} is taken already")


def test_outside_a_checkout_it_is_refused_in_one_sentence(tmp_path, monkeypatch, capsys) -> None:
    refused(tmp_path, monkeypatch, capsys, ["paper", "fair-shares"], "is no checkout of the book")


def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys, arguments: list[str], says: str) -> None:
    monkeypatch.setenv("FAIRFL_ROOT", str(folder))
    before = files(folder)
    assert cli.main(["new", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and says in said.err
    assert files(folder) == before


def test_a_paper_has_a_colour_of_its_own_as_long_as_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert new._look_of_a_paper()[0] == looks.SPARE_COLOURS[0]
    monkeypatch.setattr(looks, "SPARE_COLOURS", ())
    with pytest.raises(FairFLError, match="add one to SPARE_COLOURS"):
        new._look_of_a_paper()
