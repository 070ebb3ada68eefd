"""The command line: one sentence and exit 2 for a request that cannot be met, 1 for what ran and failed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small import code, notebook

import fairfl_lite
from fairfl_book import cli, ledger, results
from fairfl_book.experiments import catalogue
from fairfl_book.experiments.base import Experiment
from fairfl_book.notebooks import runner
from fairfl_lite import store
from fairfl_lite.errors import FairFLError
from papers.rankff.model_sets import ModelSet


@pytest.fixture
def project(make_project, monkeypatch):
    cell = code("x: float = 0.5  # 0..1: a number", "parameters")
    made = make_project({"a/one": notebook(cell, "print('x is', x)"), "bad": notebook("1 / 0")})
    monkeypatch.setenv("FAIRFL_ROOT", str(made.root))
    return made


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "a/noe"], "did you mean a/one"),
        (["run", "a/one", "-p", "y=1"], "did you mean x|there are x"),
        (["run", "a/one", "-p", "x=2"], "within 0..1"),
        (["run", "a/one", "-p", "x=many"], "must be float"),
        (["run", "a/one", "-p", "x"], "-p name=value"),
        (["run"], "Name a notebook"),
        (["run", "a/noe", "--list"], "did you mean a/one"),
        (["run", "a/one", "--profile", "papre"], "did you mean paper"),
        (["data", "fetch", "adlut"], "did you mean adult"),
        (["paper", "fairfed/tabel1"], "did you mean fairfed/table"),
        (["models", "mnist-fixed", "mnist-radnom"], "mnist-random"),
        (["claims", "fairfed.nothing"], "There is no claim"),
        (["claims", "fairfed.t1.adult.eod.alpha0.1.fairfed", "--paper", "rankff"], "leave --paper rankff out"),
        (["claims", "--paper", "fairfde"], "choose one of"),
        (["claims", "--rerun"], "Name the claim"),
        (["claims", ""], "There is no claim"),
        (["claims", "--paper", ""], "choose one of"),
        (["claims", "--changes", "a\0b"], "There is no edition"),
        (["run", "a\0b"], "There is no notebook"),
        (["run", "\ud800"], "There is no notebook"),
        (["run", "x" * 5000], "There is no notebook"),
        (["run", ""], "There is no notebook"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_anything_runs(project, capsys, arguments, says):
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("fairfl: ")
    assert said.err.count("\n") == 1
    assert any(part in said.err for part in says.split("|"))
    assert not (project.state / "runs").exists()


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"cells": [{}], "metadata": {}}', b"\xff"])
def test_a_corrupt_notebook_gets_one_sentence(project, capsys, content):
    project.source("a/one").write_bytes(content.encode() if isinstance(content, str) else content)
    assert cli.main(["run", "a/one", "-p", "x=0.75"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "is not a readable notebook" in said and said.endswith(": restore it from git.\n")


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("cells",), None, "cells is None, and must be a list"),
        (("cells", 0), 7, "cells.0 is 7, and must be a mapping"),
        (("cells", 0, "metadata", "tags"), None, "cells.0.metadata.tags is None, and must be a list"),
        (("cells", 0, "metadata"), [], "cells.0.metadata is [], and must be a mapping"),
        (("cells", 0, "cell_type"), "cod", "did you mean 'code'"),
        (("metadata", "fairfl"), [], "metadata.fairfl is [], and must be a mapping"),
        (("metadata", "fairfl"), {"seconds": "x"}, "metadata.fairfl.seconds is 'x', and must be a number from 0"),
        (("metadata", "fairfl"), {"data": "adult"}, "metadata.fairfl.data is 'adult', and must be a list"),
        (("metadata", "fairfl"), {"profiles": {"paper": 3}}, "metadata.fairfl.profiles.paper is 3, and must be a mapping"),
    ],
)
def test_a_notebook_of_another_shape_is_refused_by_the_place(project, capsys, place, value, says):
    path = project.source("a/one")
    whole = inner = json.loads(path.read_text())
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    path.write_text(json.dumps(whole))
    assert cli.main(["run", "a/one", "--why"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says in said


@pytest.mark.parametrize("how", ["loop", "folder", "nowhere", "brackets"])
def test_a_notebook_that_cannot_be_opened_gets_one_sentence(project, capsys, how):
    path = project.source("a/one")
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "brackets":
        path.write_text("[" * 100_000)
    else:
        path.symlink_to(path.name if how == "loop" else "nowhere.ipynb")
    assert cli.main(["run", "a/one", "--why"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "is not a readable notebook" in said


def test_notebooks_are_listed_with_their_parameters(project, capsys):
    assert cli.main(["run", "--list"]) == 0
    assert capsys.readouterr().out == "a/one\n    x: float, 0..1, default 0.5 (a number)\nbad\n"
    assert cli.main(["run", "bad", "--list"]) == 0
    assert capsys.readouterr().out == "bad\n"


def test_help_explains_what_may_be_changed(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "-p seeds=5" in said and "--list" in said and "at the paper's own scale" in said


@pytest.mark.parametrize(("written", "meant"), [("bild", "build"), ("claim", "claims"), ("refrences", "references")])
def test_a_misspelt_command_gets_the_nearest(capsys, written, meant):
    with pytest.raises(SystemExit) as stopped:
        cli.main([written])
    assert stopped.value.code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("written", ["a'b", "'", '"', "a (choose from b", "", "\x1b[31m"])
def test_a_command_with_quotes_is_repeated_as_it_was_written(capsys, written):
    with pytest.raises(SystemExit):
        cli.main([written])
    said = capsys.readouterr().err
    assert said.startswith(f"fairfl: There is no command {written!r}") and said.count("\n") == 1


def test_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"fairfl-lite {fairfl_lite.__version__}\n"


@pytest.mark.slow
def test_run_why_and_run_again(project, capsys):
    assert cli.main(["run", "a/one", "--why"]) == 0
    assert "it was not run before" in capsys.readouterr().out
    assert not (project.state / "runs").exists()
    assert cli.main(["run", "a/one", "-p", "x=0.75"]) == 0
    (page,) = (project.root / "_build" / "trials" / "a").glob("one-quick-*.html")
    assert capsys.readouterr().out.endswith(f"open {page}\n")
    assert "x is 0.75" in page.read_text()
    assert not (project.root / "executed").exists()
    assert cli.main(["run", "a/one", "-p", "x=0.75"]) == 0
    assert "was up to date" in capsys.readouterr().out
    assert cli.main(["run", "a/one", "-p", "x=0.75", "--why"]) == 0
    assert capsys.readouterr().out == "a/one: up to date\n"


@pytest.mark.slow
def test_a_failure_ends_with_1_and_a_traceback(project, capsys):
    assert cli.main(["run", "bad"]) == 1
    said = capsys.readouterr().err
    assert "notebooks/bad.ipynb failed in cell In [1]" in said
    assert "ZeroDivisionError" in said
    assert not (project.root / "executed" / "bad.ipynb").exists()


@pytest.mark.slow
def test_references_are_kept_and_then_compared(project, capsys):
    project.source("bad").unlink()
    assert cli.main(["references"]) == 1
    assert cli.main(["references", "--update"]) == 0
    assert "x is 0.5" in project.source("a/one").read_text()
    assert cli.main(["references"]) == 0
    assert cli.main(["references", "--update"]) == 0
    assert "kept already" in capsys.readouterr().out


def test_references_of_one_notebook(project, capsys):
    # The other notebook fails, and is not run.
    assert cli.main(["references", "a/one"]) == 1
    assert cli.main(["references", "a/one", "--update"]) == 0
    assert "x is 0.5" in project.source("a/one").read_text()
    assert cli.main(["references", "a/noe"]) == 2
    assert "did you mean a/one" in capsys.readouterr().err


def test_claims_are_printed_from_the_ledger(capsys):
    first = ledger.claims("fairfed").iloc[0]
    assert cli.main(["claims", first["id"], "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["printed"], row["verdict"]) == (first["id"], first["printed"], first["verdict"])
    assert cli.main(["claims", "--paper", first["paper"]]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(ledger.claims(first["paper"]))


def test_rerun_measures_what_the_claim_is_judged_by(monkeypatch, capsys):
    ran = []

    def frame(self, **only):
        ran.append((self.name, only))
        stored = results.load(self.name)
        return stored.assign(value=stored["value"] + 0.5)

    monkeypatch.setattr(Experiment, "frame", frame)
    claims = ledger.claims("fairfed")
    assert cli.main(["claims", "fairfed.t1.compas.acc.alpha0.2.local", "--rerun", "--json"]) == 0
    assert ran == [("fairfed/table1", {"dataset": ["compas"], "alpha": [0.2]})]
    stored, again = json.loads(capsys.readouterr().out)
    assert (stored["made"], again["made"]) == ("stored", "just now")
    assert again["measured"] == pytest.approx(stored["measured"] + 0.5)
    printed = claims[claims["source"] == "printed cells"]["id"].iloc[0]
    assert cli.main(["claims", printed, "--rerun"]) == 2


def test_paper_runs_the_named_experiments_or_all(monkeypatch):
    ran = []
    monkeypatch.setattr(catalogue, "run", lambda name, only, cluster: ran.append(name))
    assert cli.main(["paper", "fairfed/table1"]) == 0
    assert cli.main(["paper"]) == 0
    assert ran == ["fairfed/table1", *catalogue.names()]


def test_models_trains_the_named_sets_or_those_of_mnist(monkeypatch, capsys):
    trained = []
    monkeypatch.setattr(ModelSet, "train", lambda self: trained.append(self.folder.name) or np.zeros((self.count, 3)))
    assert cli.main(["models"]) == 0
    assert cli.main(["models", "cifar10-fixed"]) == 0
    wanted = ["mnist-fixed"] * 5 + ["mnist-random"] * 5 + ["cifar10-fixed"]
    assert [name.rpartition("-")[0] for name in trained] == wanted and len(set(trained)) == 11
    assert "cifar10-fixed: 100 models of 3 parameters" in capsys.readouterr().out


def test_errors_are_one_sentence(monkeypatch, capsys):
    def refuse(*_):
        raise FairFLError("Do this instead.")

    monkeypatch.setattr(runner.Project, "find", refuse)
    assert cli.main(["build", "--why"]) == 2
    assert capsys.readouterr().err == "fairfl: Do this instead.\n"


def test_a_root_named_from_here_is_the_same_from_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRFL_ROOT", ".")
    monkeypatch.chdir(tmp_path)
    found = store.root()
    assert found.is_absolute() and found == tmp_path.resolve()
