"""What our speed is compared with: the same work, one sentence for whoever is missing, and locks that leave nothing open."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from small import ROOT

from fairfl_book import bench, cli, peers
from fairfl_book.peers import CONTENDERS, OURS, Contest
from fairfl_book.site import lock
from fairfl_lite.errors import FairFLError
from fairfl_lite.models import Dense

BY_NAME = {one.name: one for one in CONTENDERS}


def whole(contest: Contest, **other: Any) -> dict[str, Any]:
    """The work of a contest on its first rows, in batches of all that a client has: the same whatever the order of rows."""
    given = contest.given(rounds=5, repeats=1)
    rows = {name: given[name][:1500] for name in ("X", "y", "group", "client")}
    return given | rows | {"batch_size": 1500, "epochs": 3, "lr": 0.3} | other


@pytest.mark.slow
@pytest.mark.parametrize("workload", peers.WORKLOADS)
def test_the_torch_loop_ends_where_we_do(workload: str) -> None:
    given = whole(Contest(workload, seeds=2), betas=(0.0, 0.5))
    ours, loop = (peers.run(BY_NAME[name], given) for name in ("ours", "torch loop"))
    assert loop["loss"] == pytest.approx(ours["loss"], rel=1e-5)
    assert ours["loss"] < peers.loss(given, given["start"]) - 0.01, "nothing was learnt"
    assert ours["peak"] > 50 and ours["processor"] > 0 and ours["seconds"] > 0
    other = peers.run(BY_NAME["torch loop"], given | {"betas": (0.0, 0.9)})
    assert abs(other["loss"] - ours["loss"]) > 1e-4, "the settings change nothing"


@pytest.mark.parametrize("hidden", [0, 3])
def test_a_loss_is_that_of_the_models_own_forward_pass(hidden: int) -> None:
    rng = np.random.default_rng(1)
    model, X, y = Dense(4, hidden), rng.normal(size=(9, 4)).astype(np.float32), rng.integers(0, 2, 9)
    theta = rng.normal(size=model.size).astype(np.float32)
    logits = model.forward(torch.tensor(theta), torch.tensor(X))
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor(y, dtype=torch.float32))
    assert peers.loss({"X": X, "y": y, "hidden": hidden}, theta) == pytest.approx(float(wanted), rel=1e-5)


def test_every_contender_is_given_the_workload_of_the_bench() -> None:
    for name, work in peers.WORKLOADS.items():
        given = Contest(name, times=2, settings=3).given()
        assert np.bincount(given["client"]).tolist() == [*work["sizes"], *work["sizes"]]
        assert given["X"].shape[1] == work["features"] and given["betas"] == pytest.approx((0, 1 / 6, 1 / 3))
        local = work["local"]
        assert [given[field] for field in ("optimizer", "lr", "weight_decay", "epochs", "batch_size")] == [
            local.optimizer, local.lr, local.weight_decay, local.epochs, local.batch_size,
        ]  # fmt: skip
    assert peers.WORKLOADS == {"FairFed": bench.FAIRFED, "FAIR-FATE": bench.FAIR_FATE}


def test_who_is_missing_is_one_sentence_and_the_others_are_measured(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    jax = BY_NAME["JAX, client by client"]
    with pytest.raises(FairFLError, match=r"^jax is not installed: make \.venv/peers/jax/\.installed installs it\.$"):
        peers.run(jax, {})

    def tried(contender: peers.Contender, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"seconds": 2.0, "processor": 1.0, "peak": 3.0, "loss": 0.5} if contender == OURS else usual(contender, given)

    usual = peers.run
    monkeypatch.setattr(peers, "run", tried)
    first, second = peers.measure(2, [(Contest("FAIR-FATE"), (OURS, jax))])
    assert first["missing"] == {jax.name: "jax is not installed: make .venv/peers/jax/.installed installs it."}
    assert [row["contender"] for row in second["rows"]] == ["ours"] and second["turns"] == 2
    assert first["missing"][jax.name] in [*peers.table(second)]


def test_a_script_that_fails_is_one_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('no such processor')")
    given = Contest("FAIR-FATE").given()
    pickled = peers._pickled(given)
    monkeypatch.setattr(peers, "folder", lambda: tmp_path)
    monkeypatch.setattr(peers, "_pickled", lambda given: pickled)
    with pytest.raises(FairFLError, match=r"^ours does not run here: ValueError: no such processor\.$"):
        peers.run(replace(OURS, script="broken.py"), given)


def test_the_least_of_all_turns_counts_and_another_loss_is_told(monkeypatch: Any) -> None:
    loop, seconds = BY_NAME["torch loop"], iter([3.0, 8.0, 2.0, 9.0])

    def found(contender: peers.Contender, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"seconds": next(seconds), "processor": 1.0, "peak": 3.0, "loss": 0.5 if contender == OURS else 0.6}

    monkeypatch.setattr(peers, "run", found)
    *_, last = peers.measure(2, [(Contest("FAIR-FATE"), (OURS, loop))])
    assert [row["seconds"] for row in last["rows"]] == [2, 8]
    assert [row["loss apart"] for row in last["rows"]] == [0, 0.2]
    assert any("20.0% from ours: it is not the same work" in line for line in peers.table(last))


def test_lines_of_code_are_counted_without_words(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "small.py").write_text('"""Words\nof two lines."""\n\n# more\nx = [\n    1,\n]  # one\n\ny = """a\nb"""\n')
    monkeypatch.setattr(peers, "folder", lambda: tmp_path)
    assert peers.lines("small.py") == 5


@pytest.mark.parametrize("name", lock.PEERS)
def test_a_lock_pins_everything_that_a_contender_needs(name: str) -> None:
    packages, text = lock.read(lock.peer(ROOT, name)), lock.peer(ROOT, name).read_text()
    assert len(packages) == sum(line[0].isalnum() for line in text.splitlines())
    assert all(one.hashes for one in packages)
    wanted = [Requirement(one) for one in lock.PEERS[name]]
    for one in wanted:
        assert any(one.name == package.name and one.specifier.contains(package.version) for package in packages), one
    ours = {(one.name, one.version) for one in lock.read(ROOT / lock.LOCK)}
    assert not ours & {(one.name, one.version) for one in packages}, "the book has it"
    assert {one.library for one in CONTENDERS if one.library} == set(lock.PEERS)


@pytest.mark.parametrize("name", lock.PEERS)
def test_make_installs_a_contender_by_its_lock_into_a_folder_of_its_own(name: str) -> None:
    target = f".venv/peers/{name}/.installed"
    said = subprocess.run(["make", "-nB", "-o", ".venv/.installed", target], cwd=ROOT, capture_output=True, text=True).stdout
    (command,) = [line for line in said.splitlines() if f"benchmarks/peers/{name}.lock" in line]
    assert "--require-hashes --no-deps" in command and f"--target .venv/peers/{name} " in command


def test_the_stored_comparison_is_of_these_scripts(monkeypatch: Any) -> None:
    import json

    kept = json.loads((ROOT / "results" / "peers.json").read_text())
    assert kept["lines"] == {one.name: peers.lines(one.script) for one in CONTENDERS}, "measure again: fairfl bench --peers"
    assert {row["contender"] for row in kept["rows"]} | set(kept["missing"]) == set(BY_NAME)
    assert all(row["loss apart"] <= kept["same"] == peers.SAME for row in kept["rows"])
    for library in lock.PEERS:
        for one in lock.read(lock.peer(ROOT, library)):
            if one.name in kept["versions"] and not one.marker:
                assert kept["versions"][one.name] == one.version


def test_the_command_measures_and_keeps(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    found = {"rows": [{"workload": "FAIR-FATE", "clients": 5, "seeds": 1, "settings": 1, "contender": "ours", "seconds": 1.0,
                       "processor": 1.0, "peak": 1.0, "loss": 0.5, "loss apart": 0.1}], "missing": {}, "lines": {"ours": 3},
             "same": 0.005}  # fmt: skip
    monkeypatch.setattr(peers, "measure", lambda: iter([found]))
    monkeypatch.setattr(peers.store, "root", lambda: tmp_path)
    assert cli.main(["bench", "--peers"]) == 1, "another loss is not the same work"
    assert re.search(r"ours +1\.0000", capsys.readouterr().out)
    assert (tmp_path / "results" / "peers.json").is_file()
