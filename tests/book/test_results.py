"""Results files: the same numbers give the same bytes, provenance is whole, and damage is noticed."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairfl_lite
from fairfl_book import results
from fairfl_lite import data, imports, store
from fairfl_lite.errors import FairFLError


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    return tmp_path


def frame() -> pd.DataFrame:
    rows = [
        {"selection": "paper", "dataset": "adult", "alpha": a, "method": m, "eta": eta, "seed": s, "metric": "acc"}
        for a in (0.1, 5000)
        for m, eta in (("fedavg", None), ("fairfed", 1.0))
        for s in (10, 9)
    ]
    return pd.DataFrame(rows).assign(value=np.random.default_rng(0).random(len(rows)) / 3)


def save(rows: pd.DataFrame, name: str = "fairfed/table1") -> Path:
    return results.save(name, rows, parameters={"seeds": np.arange(3), "lr": 0.01}, seconds=1.26, command="fairfl x")


def test_what_is_saved_is_loaded(root: Path) -> None:
    target = save(frame())
    assert target == root / "results" / "fairfed" / "table1.csv"
    loaded = results.load("fairfed/table1")
    keys = ["alpha", "method", "seed"]
    expected = frame().sort_values(keys).reset_index(drop=True)
    pd.testing.assert_frame_equal(loaded.sort_values(keys).reset_index(drop=True), expected, check_dtype=False, rtol=1e-9)
    assert [p.name for p in sorted(target.parent.iterdir())] == ["table1.csv", "table1.json"]


def test_the_order_of_rows_does_not_matter() -> None:
    first = save(frame()).read_bytes()
    assert save(frame().sample(frac=1, random_state=1)).read_bytes() == first
    lines = first.decode().splitlines()
    assert lines[0] == "selection,dataset,alpha,method,eta,seed,metric,value"
    assert lines[1].startswith("paper,adult,0.1,fairfed,1,9,acc,")
    assert all(len(line.rpartition(",")[2].lstrip("0.").replace(".", "")) <= 10 for line in lines[1:])


def test_a_large_result_is_gzipped_and_a_small_one_is_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = save(frame())
    monkeypatch.setattr(results, "LARGE", 10)
    packed = save(frame())
    assert packed.name == "table1.csv.gz" and not plain.exists() and save(frame()).read_bytes() == packed.read_bytes()
    stored = results.load("fairfed/table1").sort_values(["alpha", "method", "seed"])["value"]
    expected = frame().sort_values(["alpha", "method", "seed"])["value"]
    np.testing.assert_allclose(stored, expected, rtol=1e-4)
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(FairFLError, match="was changed after it was measured"):
        results.load("fairfed/table1")
    monkeypatch.setattr(results, "LARGE", 10**6)
    assert save(frame()).name == "table1.csv" and not packed.exists() and len(results.load("fairfed/table1")) == len(frame())


def test_provenance() -> None:
    content = save(frame()).read_bytes()
    made = results.provenance("fairfed/table1")
    assert made["sha256"] == hashlib.sha256(content).hexdigest()
    assert made["parameters"] == {"seeds": [0, 1, 2], "lr": 0.01}
    assert (made["seconds"], made["command"], made["rows"]) == (1.3, "fairfl x", 8)
    assert made["data"] == {"adult": data.digest("adult")}
    libraries = {"numpy", "numba", "torch", "scipy", "pandas", "scikit-learn", "llvmlite"}
    assert set(made["versions"]) == {"python", "fairfl_lite", *libraries}
    assert made["cpu"]
    assert made["versions"]["numpy"] == np.__version__
    assert made["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(made["git"]) == {"commit", "dirty"}
    assert (made["source"], made["reads"]) == (None, {})


def test_provenance_names_the_code_and_the_results_it_was_made_from() -> None:
    first = save(frame())
    module = "papers.fairfed.tables"
    results.save("fairfed/second", frame(), parameters={}, seconds=1, command="x", module=module, reads=("fairfed/table1",))
    made = results.provenance("fairfed/second")
    assert made["source"] == {"module": module, "sha256": imports.digest(module)}
    assert made["reads"] == {"fairfed/table1": hashlib.sha256(first.read_bytes()).hexdigest()}


def test_commit_is_that_of_the_repository() -> None:
    save(frame())
    folder = Path(fairfl_lite.__file__).parent
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True)
    expected = head.stdout.strip() if head.returncode == 0 else None
    assert results.provenance("fairfed/table1")["git"]["commit"] == expected


def test_the_commit_is_found_by_a_git_that_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = subprocess.run

    def slow(*given: Any, timeout: float | None = None, **named: Any) -> Any:
        if timeout is not None:
            raise subprocess.TimeoutExpired("git", timeout)
        return usual(*given, **named)

    before = results._git()
    monkeypatch.setattr(subprocess, "run", slow)
    assert results._git() == before


def test_data_without_a_digest_does_not_lose_the_result() -> None:
    save(frame().assign(dataset="no-such-data"))
    assert results.provenance("fairfed/table1")["data"]["no-such-data"].startswith("unknown: ")


def test_missing_changed_and_unreadable(root: Path) -> None:
    assert not results.exists("fairfed/table1")
    with pytest.raises(FairFLError, match="There is no result fairfed/table1"):
        results.load("fairfed/table1")
    target = save(frame())
    assert results.exists("fairfed/table1")
    target.write_text(target.read_text().replace("fedavg", "local"))
    with pytest.raises(FairFLError, match="was changed after it was measured"):
        results.load("fairfed/table1")
    for damage, message in (("{", "not readable"), ("[]", "not a provenance"), ("[" * 100_000, "not readable")):
        target.with_suffix(".json").write_text(damage)
        with pytest.raises(FairFLError, match=message):
            results.provenance("fairfed/table1")
    target.with_suffix(".json").unlink()
    assert not results.exists("fairfed/table1")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a table that can be read"),
        (b"\xff\xfe", "not a table that can be read"),
        (b"a,b\n1,2,3\n4,5,6,7\n", "not a table that can be read"),
        (b"a,value\n1,2\n", "has 1 rows, and its provenance says another number"),
    ],
)
def test_a_table_that_is_none_is_refused_even_with_its_sha256_renewed(content: bytes, says: str) -> None:
    target = save(frame())
    target.write_bytes(content)
    made = json.loads(target.with_suffix(".json").read_text())
    store.write_json(target.with_suffix(".json"), made | {"sha256": hashlib.sha256(content).hexdigest()})
    with pytest.raises(FairFLError, match=says):
        results.load("fairfed/table1")


def test_a_failed_save_leaves_the_old_result(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = save(frame())
    before = target.read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FairFLError, match="no space left"):
        save(frame().assign(value=0.0))
    assert [path.name for path in sorted(target.parent.iterdir())] == ["table1.csv", "table1.json"]
    monkeypatch.undo()
    monkeypatch.setenv("FAIRFL_ROOT", str(root))
    assert target.read_bytes() == before
    assert len(results.load("fairfed/table1")) == 8


def test_what_is_refused() -> None:
    with pytest.raises(FairFLError, match="no rows"):
        save(frame().iloc[:0])
    with pytest.raises(FairFLError, match="several values for the same"):
        save(pd.concat([frame(), frame().assign(value=1.0)]))
    for name in ("../outside", "/etc/passwd", "fairfed/", "Fair Fed/x", ""):
        with pytest.raises(FairFLError, match="not the name of a result"):
            results.exists(name)


def test_root_is_found_from_inside_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRFL_ROOT")
    project = tmp_path / "copy"
    (project / "notebooks" / "fairfed").mkdir(parents=True)
    (project / "pyproject.toml").write_text('[project]\nname = "fairfl-lite"\n')
    monkeypatch.chdir(project / "notebooks" / "fairfed")
    assert store.root() == project
    (project / "pyproject.toml").write_text('[project]\nname = "something-else"\n')
    assert store.root() == Path(fairfl_lite.__file__).parents[1]


def test_a_wrong_root_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path / "nowhere"))
    with pytest.raises(FairFLError, match="FAIRFL_ROOT"):
        store.root()
