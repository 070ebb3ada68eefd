# ruff: noqa: E501 - a plant is a line
"""Errors planted one by one in a copy of the project, each with the test that should turn red, or the tolerance that allows it.

A script of its own, which never imports the package: `python tools/chaos/plants.py [NAME|KIND ...]` prints one JSON line for each.
The libraries that take long are loaded once; every test runs in a child process, which imports the copy.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CAUGHT, ALLOWED, MISSED = "caught", "allowed", "missed"
Edit = Callable[[Path], None]


@dataclass(frozen=True)
class Plant:
    """edit : plants it in a folder. test : what should turn red. allowed : the tolerance that lets it pass, in a sentence."""

    kind: str
    name: str
    edit: Edit
    test: str
    allowed: str = ""
    quick: bool = False


def put(file: str, old: str, new: str) -> Edit:
    """Replace a text that is there once."""

    def edit(folder: Path) -> None:
        path = folder / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def swap(file: str, pattern: str, new: str | Callable[[re.Match[str]], str]) -> Edit:
    """Replace the first match of a pattern."""

    def edit(folder: Path) -> None:
        path = folder / file
        text, count = re.subn(pattern, new, path.read_text(encoding="utf-8"), count=1, flags=re.S)
        assert count, f"{file} has no {pattern!r}"
        path.write_text(text, encoding="utf-8")

    return edit


def both(*edits: Edit) -> Edit:
    """An error that needs more than one change."""

    def edit(folder: Path) -> None:
        for one in edits:
            one(folder)

    return edit


def digit(paper: str) -> Edit:
    """The last digit of the first printed number of the first table of a card is one higher."""
    return swap(
        f"book/papers/{paper.replace('-', '_')}/card.yml",
        r"(\n    rows:.*?\n *- \[.*?\d*\.\d*)(\d)(?=[ ±\]%,])",
        lambda found: found[1] + str((int(found[2]) + 1) % 10),
    )


def about(name: str, *place: str, value: Any) -> Edit:
    """Another value in the provenance of a result."""

    def edit(folder: Path) -> None:
        path = folder / "results" / f"{name}.json"
        made = inner = json.loads(path.read_text())
        for step in place[:-1]:
            inner = inner[step]
        assert inner[place[-1]] != value
        inner[place[-1]] = value
        path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")

    return edit


def table(name: str, change: Callable[[list[str]], list[str]], renewed: bool = True) -> Edit:
    """Other lines in a result, and a provenance that says so."""

    def edit(folder: Path) -> None:
        path = next(path for path in (folder / "results").glob(f"{name}.csv*"))
        packed = path.suffix == ".gz"
        lines = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode().splitlines()
        content = ("\n".join(change(lines)) + "\n").encode()
        content = gzip.compress(content, mtime=0) if packed else content
        path.write_bytes(content)
        if renewed:
            beside = folder / "results" / f"{name}.json"
            made = json.loads(beside.read_text())
            made |= {"sha256": hashlib.sha256(content).hexdigest(), "rows": len(change(lines)) - 1}
            beside.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")

    return edit


def shifted(by: float, row: int = 8) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        begin, _, value = lines[row].rpartition(",")
        return [*lines[:row], f"{begin},{float(value) + by:.10g}", *lines[row + 1 :]]

    return change


def cells(name: str, change: Callable[[list[dict[str, Any]]], None]) -> Edit:
    """Other cells in a notebook, written as the project writes them."""

    def edit(folder: Path) -> None:
        import nbformat

        path = folder / "notebooks" / f"{name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        before = nbformat.writes(notebook)
        change(notebook.cells)
        assert nbformat.writes(notebook) != before
        path.write_text(nbformat.writes(notebook, version=4).rstrip("\n") + "\n")

    return edit


def words(name: str, old: str, new: str) -> Edit:
    """Another text in the Markdown of a notebook, where it stands first."""

    def change(found: list[dict[str, Any]]) -> None:
        cell = next(cell for cell in found if cell["cell_type"] == "markdown" and old in cell["source"])
        cell["source"] = cell["source"].replace(old, new, 1)

    return cells(name, change)


def _unfold(found: list[dict[str, Any]]) -> None:
    cell = next(cell for cell in found if "hide-input" in cell["metadata"].get("tags", []))
    del cell["metadata"]["jupyter"]


def _printed(found: list[dict[str, Any]]) -> None:
    """Another decimal in the first output that has one."""
    for cell in found:
        for output in cell.get("outputs", []):
            if re.search(r"\d\.\d{2}", output.get("text", "")):
                output["text"] = re.sub(r"(\d\.)(\d)", lambda m: m[1] + str((int(m[2]) + 1) % 10), output["text"], count=1)
                return


def _error(found: list[dict[str, Any]]) -> None:
    from nbformat.v4 import new_output

    cell = next(cell for cell in found if cell.get("outputs"))
    cell["outputs"][0] = new_output("error", ename="E", evalue="x")


METRICS = "tests/lite/test_metrics.py::test_against_fairlearn_and_scikit_learn"
LEVEL = "tests/book/ledger/test_ledger_level.py::"
CARDS = "tests/book/ledger/test_ledger_cards.py"
SUMS = "tests/papers/{0}/test_ledger_{0}.py::test_printed_cells_have_the_sums_of_a_second_reading"
DOUBT = "tests/book/test_provenance.py::test_nothing_said_of_a_result_is_in_doubt[fairfed/table1]"
SAME = "tests/papers/fairfed/test_fairfed_paper.py::test_what_two_results_measured_is_the_same_in_both"
CONTRACT = "tests/book/notebooks/test_references.py::test_every_notebook_keeps_the_contract"
PROSE = "tests/book/test_prose.py::test_no_more_is_open_than_was"
LAB = "tests/book/notebooks/test_lab.py::test_lab_renders_every_directive_role_and_link"
PROJECT = "tests/test_project.py::"
PRIMER = "primer/federated_averaging"

PLANTS = (
    # Code.
    Plant("code", "EOD has the other sign", put("fairfl_lite/metrics.py", 'binary(counts, "eod"))\n    return rate[..., 0] - rate[..., 1]', 'binary(counts, "eod"))\n    return rate[..., 1] - rate[..., 0]'), METRICS),
    Plant("code", "Matthews' correlation adds", put("fairfl_lite/metrics.py", "tp * tn - fp * fn", "tp * tn + fp * fn"), METRICS),
    Plant("code", "F1 forgets the misses", put("fairfl_lite/metrics.py", "2 * tp + counts[..., 0, 1] + counts[..., 1, 0]", "2 * tp + counts[..., 0, 1]"), METRICS),
    Plant("code", "the zero rule sees one side", put("fairfl_lite/metrics.py", "((chosen == 0) | (left == 0)).any(-1)", "(chosen == 0).any(-1)"), "tests/lite/test_metrics.py::test_the_zero_rule_by_hand", quick=True),
    Plant("code", "an interval of 90%", put("book/fairfl_book/ledger/numbers.py", "def half_width(self, level: float = 0.975)", "def half_width(self, level: float = 0.95)"), LEVEL + "test_an_estimate_of_three_runs_by_hand"),
    Plant("code", "a spread with n instead of n - 1", put("book/fairfl_book/ledger/numbers.py", "float(v.std(ddof=1)) if len(v) > 1", "float(v.std(ddof=0)) if len(v) > 1"), LEVEL + "test_an_estimate_of_three_runs_by_hand"),
    Plant("code", "agreement without the interval", put("book/fairfl_book/ledger/numbers.py", "abs(difference) + half + reach <= margin", "abs(difference) + half <= margin"), LEVEL + "test_two_one_sided_tests_by_scipy"),
    Plant("code", "a line that fails is excused by its construction", put("book/fairfl_book/ledger/judge.py", 'if "by_construction" in spec and found.verdict in GOOD:', 'if "by_construction" in spec:'), "tests/book/ledger/test_ledger_construction.py::test_a_claim_says_that_it_holds_by_construction_and_why"),
    Plant("code", "Welch with one degree more", put("book/fairfl_book/ledger/numbers.py", "b**2 / (self.k - 1) if self.k > 1", "b**2 / self.k if self.k > 1"), LEVEL + "test_welch_s_degrees_of_freedom"),
    Plant("code", "kept files are not checked", put("fairfl_lite/store.py", "isinstance(found, dict) and fingerprint(found) == stated", "isinstance(found, dict)"), "tests/lite/test_store.py::test_a_changed_value_is_as_if_it_had_never_been", quick=True),
    Plant("code", "half a file stays where writing failed", put("fairfl_lite/store.py", "        if temporary:\n            with contextlib", "        if not temporary:\n            with contextlib"), "tests/lite/test_store.py::test_a_full_disk_while_writing"),
    Plant("code", "a changed result is loaded", put("book/fairfl_book/results.py", 'if digest(name) != provenance(name).get("sha256"):', "if not digest(name):"), "tests/book/test_results.py::test_missing_changed_and_unreadable"),
    Plant("code", "printed numbers may differ by a tenth", put("book/fairfl_book/notebooks/outputs.py", "RELATIVE = 1e-4", "RELATIVE = 1e-1"), "tests/book/notebooks/test_outputs.py::test_a_changed_result_always_fails"),
    Plant("code", "pictures may differ", put("book/fairfl_book/notebooks/outputs.py", "PICTURE = 2.0", "PICTURE = 200.0"), "tests/book/notebooks/test_outputs.py::test_pictures"),
    Plant("code", "a run does not depend on the lock", put("book/fairfl_book/notebooks/runner.py", '"lock": {"requirements.lock": _file(project.root / "requirements.lock")}', '"lock": {}'), "tests/book/notebooks/test_runner.py::test_a_key_holds_all_a_run_depends_on"),
    # Cards.
    Plant("card", "a digit of FairFed's Table 1", digit("fairfed"), SUMS.format("fairfed"), quick=True),
    Plant("card", "a sign of FairFed's Table 1", put("book/papers/fairfed/card.yml", "[eod, global,  -0.049", "[eod, global,  0.049"), SUMS.format("fairfed")),
    Plant("card", "a digit of FAIR-FATE", digit("fair-fate"), SUMS.format("fair_fate")),
    Plant("card", "a digit of RankFF", digit("rankff"), SUMS.format("rankff")),
    Plant("card", "a digit of EFFL", digit("effl"), SUMS.format("effl")),
    Plant("card", "a digit of E2FL", digit("e2fl"), SUMS.format("e2fl")),
    Plant("card", "a margin without its reason", put("book/papers/fairfed/card.yml", 'spd: {margin: 0.02, reason: "as for EOD"}', 'spd: {margin: 0.02, reason: ""}'), CARDS),
    Plant("card", "another baseline", swap("book/papers/fairfed/card.yml", r"baseline: \{method: fedavg\}", "baseline: {method: local}"), CARDS),
    # Results.
    Plant("result", "a number changed", table("fairfed/table1", shifted(1e-3), renewed=False), DOUBT),
    Plant("result", "a number changed by a thousandth, its digest renewed", table("fairfed/table1", shifted(1e-3)), SAME + "[table1]"),
    Plant("result", "the same in another table", table("fairfed/table2", shifted(1e-3)), SAME + "[table2]"),
    Plant("result", "a row fewer than the provenance says", about("fairfed/table1", "rows", value=1), DOUBT),
    Plant("result", "a number changed in its tenth digit", table("fairfed/table1", shifted(2e-10)), SAME + "[table1]", allowed="Results are kept to ten digits, and five where there are many: what is beyond them is nothing that was stored."),
    # Provenance.
    Plant("provenance", "an invented commit", about("fairfed/table1", "git", "commit", value="0" * 40), DOUBT),
    Plant("provenance", "uncommitted code", about("fairfed/table1", "git", "dirty", value=True), DOUBT),
    Plant("provenance", "another digest of the data", about("fairfed/table1", "data", "adult", value="0" * 64), DOUBT),
    Plant("provenance", "another version of numpy", about("fairfed/table1", "versions", "numpy", value="1.0.0"), DOUBT),
    Plant("provenance", "more seeds than were run", about("fairfed/table1", "parameters", "seeds", value=999), DOUBT),
    Plant("provenance", "another command", about("fairfed/table1", "command", value="fairfl paper fairfed/table2"), DOUBT),
    Plant("provenance", "another duration", about("fairfed/table1", "seconds", value=1.0), DOUBT, allowed="Seconds are what the machine took that day; nothing can be compared with them."),
    # Notebooks.
    Plant("notebook", "folded in the book and not in Lab", cells(PRIMER, _unfold), CONTRACT),
    Plant("notebook", "an error among the outputs", cells(PRIMER, _error), CONTRACT),
    Plant("notebook", "no takeaway", words(PRIMER, "## What to take away", "## The end"), f"tests/book/notebooks/test_frame.py::test_a_chapter_is_in_the_frame[{PRIMER}]"),
    Plant("notebook", "data that the metadata do not name", swap(f"notebooks/{PRIMER}.ipynb", r'"data": \[\s*"adult"\s*\]', '"data": [\n    "compas"\n   ]'), "tests/book/notebooks/test_references.py::test_what_a_notebook_loads_is_in_its_metadata"),
    # Prose.
    Plant("prose", "a number in a sentence", words(PRIMER, "right on 80.8% of the test rows", "right on 88.8% of the test rows"), f"{PROSE}[{PRIMER}]"),
    Plant("prose", "a number word", words(PRIMER, "in this chapter it has thirteen numbers", "in this chapter it has fourteen numbers"), f"{PROSE}[{PRIMER}]"),
    Plant("prose", "an adjective", words(PRIMER, "together, little is lost", "together, much is lost"), f"{PROSE}[{PRIMER}]", allowed="Numbers in sentences are held, judgements in words are not: a reader has to see that the numbers beside it say otherwise."),
    # Links.
    Plant("link", "to a notebook that is not there", words(PRIMER, "(../data/adult.ipynb)", "(../data/adults.ipynb)"), f"{LAB}[{PRIMER}]"),
    Plant("link", "to a page named in words only", words(PRIMER, "[Adult](../data/adult.ipynb)", "the next notebook"), f"{PROSE}[{PRIMER}]"),
    Plant("link", "a page missing in the contents", swap("_toc.yml", r"      - file: executed/data/compas\n", ""), "tests/book/notebooks/test_references.py::test_the_table_of_contents_names_every_notebook_and_page"),
    Plant("link", "a file named in CONTRIBUTING that is not there", swap("CONTRIBUTING.md", r"tools/finished_runs\.py", "tools/finished_run.py"), PROJECT + "test_paths_that_are_named_exist[CONTRIBUTING.md]"),
    Plant("link", "a dead address elsewhere", swap("README.md", r"https://pre-commit\.com|http://localhost:8000", "http://localhost:8001"), PROJECT + "test_paths_that_are_named_exist[CONTRIBUTING.md]", allowed="Addresses of other sites are not asked: the tests need no network, and a site that is down is not an error here."),
    # What was once found wrong, put back.
    Plant("once found", "a build that was killed is trusted", both(put("book/fairfl_book/site/html.py", "_clear(memory(project), html(project))\n    elif", "pass\n    elif"), swap("book/fairfl_book/site/html.py", r"\n    _forget\([^\n]*", "")), "tests/book/test_site.py::test_a_warning_stops_the_build_after_one_that_was_killed"),
    Plant("once found", "outputs of absent data are stored", put("book/fairfl_book/site/book.py", "[one for one in jobs if not one.absent]", "list(jobs)"), "tests/book/notebooks/test_gates.py::test_without_its_data_a_notebook_keeps_its_stored_outputs"),
    Plant("once found", "a relative root is passed on", put("fairfl_lite/store.py", "return named.resolve()", "return named"), "tests/book/test_cli.py::test_a_root_named_from_here_is_the_same_from_elsewhere"),
    Plant("once found", "a claim of another paper is an empty table", put("book/fairfl_book/cli.py", "if args.paper not in (None, paper):", "if not paper:"), "tests/book/test_cli.py::test_a_request_that_cannot_be_met_is_refused_before_anything_runs"),
    Plant("once found", "features that are not finite are taken", put("fairfl_lite/data/table.py", "if not np.isfinite(column).all()]", "if np.isnan(column).all()]"), "tests/lite/data/test_data_states_and_tiles.py::test_a_tiles_file_in_another_layout_is_refused"),
    Plant("once found", "kept arrays are trusted", put("fairfl_lite/store.py", "return found if str(stated) == _digest(found) else {}", "return found"), "tests/lite/test_store.py::test_changed_arrays_are_as_if_they_had_never_been", quick=True),
    Plant("once found", "half-written files stay", put("fairfl_lite/store.py", "        _sweep(target.parent)\n", ""), "tests/lite/test_store.py::test_what_a_killed_write_left_is_removed_by_the_next"),
    Plant("once found", "others cannot read the cache", put("fairfl_lite/store.py", "0o600 if private else 0o644", "0o600"), "tests/lite/test_store.py::test_others_can_read_what_is_written"),
    Plant("once found", "everybody may write what is run", put("fairfl_lite/store.py", "if _writable_by_all(folder):", "if not folder:"), "tests/lite/test_store.py::test_a_cache_that_everybody_can_write_to_is_refused"),
    Plant("once found", "a full cache is told to go online", put("fairfl_lite/data/sources.py", "        except StorageError:\n            raise\n", ""), "tests/lite/data/test_data_sources.py::test_a_full_cache_is_not_told_to_go_online"),
    Plant("once found", "a locked version without hashes", swap("requirements.lock", r"\nnumpy==([\d.]+)( \\\n    --hash=\S+)+", r"\nnumpy==\1"), "tests/book/test_lock.py::test_every_package_is_there_once_with_the_hashes_of_its_files"),
    Plant("once found", "an action pinned by its tag", swap(".github/workflows/book.yml", r"@[0-9a-f]{40}", "@v4"), PROJECT + "test_actions_are_pinned_by_commit"),
    # The project.
    Plant("project", "a path of one machine", swap("README.md", r"\Z", "See " + "/".join(("", "home", "me", "x")) + ".\n"), PROJECT + "test_nothing_of_one_machine_is_in_the_files"),
    Plant("project", "another version in the lock", swap("requirements.lock", r"\nnumpy==[\d.]+", "\nnumpy==1.0.0"), PROJECT + "test_the_lock_holds_what_the_book_asks_for"),
    Plant("project", "an import against the order", swap("fairfl_lite/streams.py", r"\nfrom fairfl_lite|\nimport ", lambda found: "\nfrom fairfl_lite import data  # noqa" + found[0]), PROJECT + "test_imports_go_one_way"),
)  # fmt: skip


@contextmanager
def copied() -> Iterator[Path]:
    """A clone with its history, whose files are those of this folder."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        place = Path(folder).resolve() / "copy"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(place)], check=True)
        known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, known.split("\0")):
            if (ROOT / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place / name)
        yield place


LIBRARIES = ("fairlearn.metrics", "hypothesis", "matplotlib.pyplot", "nbformat", "numba", "numpy", "pandas", "PIL.Image", "pytest",
             "scipy.special", "scipy.stats", "sklearn.linear_model", "torch", "yaml")  # fmt: skip


def passes(place: Path, tests: list[str]) -> bool:
    """Whether tests are green in the copy, in a child process that has imported nothing of the project."""
    said = place.parent / "said"
    child = os.fork()
    if child == 0:
        code = 3
        try:
            with said.open("w") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            os.chdir(place)
            os.environ |= {
                "FAIRFL_ROOT": str(place),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": f"{place}:{place / 'book'}:{place / 'tools'}",
            }
            sys.dont_write_bytecode = True
            own = {"", *map(str, (ROOT, ROOT / "book", ROOT / "tools", ROOT / "tools" / "chaos"))}
            sys.path[:] = [str(place), str(place / "book"), str(place / "tools"), *(one for one in sys.path if one not in own)]
            import fairfl_lite

            assert Path(fairfl_lite.__file__).is_relative_to(place), "the package is not that of the copy"
            import pytest
            from hypothesis import HealthCheck, Phase, settings

            # The same examples each time, and none made smaller: that it is red is enough.
            phases, slow = (Phase.explicit, Phase.generate), [HealthCheck.too_slow]
            settings.register_profile("planted", derandomize=True, deadline=None, phases=phases, suppress_health_check=slow)
            quiet = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile", "planted")
            code = int(pytest.main([*quiet, *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended not in (0, 1):
        raise RuntimeError(f"the tests {tests} did not run, pytest ended with {ended}: {said.read_text()[-800:]}")
    return ended == 0


def tried(chosen: list[Plant]) -> Iterator[dict[str, str]]:
    """What became of each plant. Its test is green without it, otherwise red would say nothing."""
    for library in LIBRARIES:  # what takes long to load is there once, for every child
        importlib.import_module(library)
    with copied() as place:
        tests = sorted({plant.test for plant in chosen})
        green = set(tests if passes(place, tests) else [test for test in tests if passes(place, [test])])
        for plant in chosen:
            before = {path: path.read_bytes() for path in files(place)}
            plant.edit(place)
            red = not passes(place, [plant.test])
            for path, content in before.items():
                if path.read_bytes() != content:
                    path.write_bytes(content)
            what = CAUGHT if red and plant.test in green else ALLOWED if plant.allowed and not red else MISSED
            test = plant.test.partition("::")[0]
            yield {"kind": plant.kind, "name": plant.name, "what": what, "test": test, "allowed": plant.allowed}


def files(place: Path) -> list[Path]:
    """What a plant may change: cards, code, results of one paper, notebooks, pages."""
    kept = ("*.md", "*.yml", "*.lock", ".github/workflows/*", "fairfl_lite/**/*.py", "book/**/*.py", "book/papers/*/card.yml", "results/fairfed/*",
            "notebooks/primer/*")  # fmt: skip
    return [path for pattern in kept for path in place.glob(pattern) if path.is_file()]


def main() -> int:
    names = sys.argv[1:]
    chosen = [plant for plant in PLANTS if not names or {plant.name, plant.kind} & {*names}]
    missed = 0
    for found in tried(chosen):
        missed += found["what"] == MISSED
        print(json.dumps(found), flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
