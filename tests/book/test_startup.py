"""What is imported for which request: help, refusals and reading the ledger must not wait for what they do not use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from small import ROOT

import fairfl_lite

TRAINING = {"torch", "numba", "sklearn"}
HEAVY = TRAINING | {"pandas", "scipy", "matplotlib", "nbformat", "jsonschema", "papermill"}
CLAIM = "fairfed.t1.adult.eod.alpha0.1.fairfed"


def imported(code: str, *arguments: str) -> set[str]:
    """The top-level packages in a new Python after `code`."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def imported_by(*command: str) -> set[str]:
    """The same after a command line, whatever it says and however it ends."""
    return imported("from fairfl_book import cli\ntry: cli.main(sys.argv[1:])\nexcept SystemExit: pass", *command)


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "run --help",
        "--version",
        "bild",
        "run fairfed/2_tabels",
        "run fairfed/2_tables -p seedz=5",
        "run fairfed/2_tables -p seeds=many",
        "run fairfed/2_tables -p seeds=99",
        "run fairfed/2_tables -p seeds",
        "run fairfed/2_tables --profile papre",
        "claims fairfed.nothing",
        "claims --paper fairfde",
        f"claims {CLAIM} --paper rankff",
        "claims --rerun",
    ],
)
def test_help_and_refusals_import_nothing_heavy(command):
    assert not imported_by(*command.split()) & HEAVY


@pytest.mark.parametrize("command", [f"claims {CLAIM}", "claims --paper fairfed", "run fairfed/2_tables --why", "data list"])
def test_what_only_reads_imports_nothing_that_trains(command):
    assert not imported_by(*command.split()) & TRAINING


def test_the_ledger_is_read_without_what_measures_it():
    assert not imported("from fairfl_book import ledger\nassert len(ledger.claims('rankff')) > 100") & TRAINING


def test_the_package_itself_imports_only_the_standard_library():
    assert imported("import fairfl_lite") - imported("") - sys.stdlib_module_names == {"fairfl_lite"}


def test_the_names_to_start_from_are_those_of_their_modules():
    from fairfl_lite import Debias, FairFed, Federation, Partition, clients, data, federation, load, methods

    assert (Federation, Partition, load) == (federation.Federation, data.Partition, data.load)
    assert (Debias, FairFed) == (clients.Debias, methods.FairFed)
    for name in fairfl_lite._HOMES:
        assert name in dir(fairfl_lite)
        assert getattr(getattr(fairfl_lite, name), "__name__", "Answer").removeprefix("fairfl_lite.") == name
    assert {*fairfl_lite.__all__, "SecAgg"} == {*fairfl_lite._HOMES}
    assert set(methods.__all__) <= set(fairfl_lite.__all__) <= set(dir(fairfl_lite))
    with pytest.raises(AttributeError, match="module 'fairfl_lite' has no attribute 'FedAvgg'"):
        _ = fairfl_lite.FedAvgg
    with pytest.raises(ImportError, match="cannot import name 'Federatoin'"):
        from fairfl_lite import Federatoin  # noqa: F401
