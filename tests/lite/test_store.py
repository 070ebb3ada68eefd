"""What is kept is what was put there, or nothing; what a disk refuses is one sentence; nothing is left behind."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairfl_book import cli, ledger
from fairfl_book.experiments.base import Task
from fairfl_lite import store
from fairfl_lite.errors import FairFLError, StorageError, refused


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    content = {"a": np.float64(0.1), "b": [1, None, "é"], "c": {"d": np.arange(2)}}
    store.keep(tmp_path / "kept.json", content)
    assert store.kept(tmp_path / "kept.json") == {"a": 0.1, "b": [1, None, "é"], "c": {"d": [0, 1]}}
    store.keep_text(tmp_path / "kept.csv", "a,b\r\n1,2\n")
    assert store.kept_text(tmp_path / "kept.csv") == "a,b\r\n1,2\n"
    store.write_arrays(tmp_path / "kept.npz", x=np.zeros((0, 2)), y=np.arange(3)[::-1], z=np.array(7))
    found = store.read_arrays(tmp_path / "kept.npz", sealed=True)
    assert {name: array.tolist() for name, array in found.items()} == {"x": [], "y": [2, 1, 0], "z": 7}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", "null", '"x"', "{}", '{"a": 1}', '{"sha256": []}', "[" * 50_000, "9" * 5000]
)
def test_a_kept_file_of_another_shape_is_as_if_it_had_never_been(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kept.json"
    path.write_text(content)
    assert store.kept(path) == {} and store.kept_text(path) == "" and store.read_arrays(path) == {}


def test_a_changed_value_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    store.keep(path, {"verdict": "differs"})
    path.write_text(path.read_text().replace("differs", "agrees"))
    assert store.kept(path) == {}
    store.keep_text(path, "0.51\n")
    path.write_text(path.read_text().replace("0.51", "0.52"))
    assert store.kept_text(path) == ""


def test_changed_arrays_are_as_if_they_had_never_been(tmp_path: Path) -> None:
    """Also when they were written by numpy itself, so that all checksums of the archive are right."""
    path = tmp_path / "model.npz"
    store.write_arrays(path, values=np.arange(5.0))
    with np.load(path) as archive:
        there = dict(archive)
    for change in ({"values": there["values"] + 1e-12}, {"values": there["values"].astype(np.float32)}, {"more": np.zeros(1)}):
        np.savez(path, **{**there, **change})
        assert store.read_arrays(path) == {}
    np.savez(path, values=there["values"])
    assert store.read_arrays(path, sealed=True) == {} and "values" in store.read_arrays(path)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("damage", [
    lambda whole, home: whole[:-30], lambda whole, home: whole[: len(whole) // 2], lambda whole, home: b"",
    lambda whole, home: whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 0xFF]) + whole[len(whole) // 2 + 1 :],
    lambda whole, home: packed(np.save, np.zeros(3)),
    lambda whole, home: packed(np.savez, values=np.array([Trap(home / "sprung")], dtype=object)),
], ids=["end cut", "half", "empty", "a byte", "one array", "a pickle"])  # fmt: skip
def test_damaged_arrays_are_as_if_they_had_never_been(tmp_path: Path, damage: Callable[[bytes, Path], bytes]) -> None:
    path = tmp_path / "model.npz"
    store.write_arrays(path, values=np.arange(500.0))
    path.write_bytes(damage(path.read_bytes(), tmp_path))
    assert store.read_arrays(path) == store.read_arrays(path, sealed=True) == {}
    assert not (tmp_path / "sprung").exists()


def packed(how: Callable[..., None], *given: Any, **named: Any) -> bytes:
    out = io.BytesIO()
    how(out, *given, **named)
    return out.getvalue()


def one_cell(level: float) -> pd.DataFrame:
    MEASURED.append(level)
    return pd.DataFrame({"level": [level], "value": [level / 3]})


MEASURED: list[float] = []


def test_a_changed_cell_is_measured_again(tmp_path: Path) -> None:
    task = Task(one_cell, {"level": 0.5}, 1, (), (), tmp_path)
    MEASURED.clear()
    first = task.frame()
    pd.testing.assert_frame_equal(task.frame(), first)
    assert len(MEASURED) == 1
    (path,) = tmp_path.glob("*.csv")
    for damage in (b"", b"\xff", path.read_bytes()[:-9], path.read_bytes().replace(b"0.5,", b"0.6,")):
        path.write_bytes(damage)
        pd.testing.assert_frame_equal(task.frame(), first)
    assert len(MEASURED) == 5


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "permissions"),
        (errno.EACCES, "permissions"),
        (errno.ELOOP, "see that it is there"),
    ],
)
def test_what_a_disk_refuses_is_one_sentence(code: int, says: str) -> None:
    said = str(refused(OSError(code, os.strerror(code), "some/file")))
    assert "some/file" in said and says in said and "\n" not in said and said.endswith(".")


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    def do(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(name, do)


@pytest.mark.parametrize("where", ["tempfile.mkstemp", "pathlib.Path.mkdir", "pathlib.Path.replace", "os.fdopen"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, code: int
) -> None:
    target = tmp_path / "kept.json"
    store.write(target, "before")
    with monkeypatch.context() as patched:
        refuse(patched, where, code)
        with pytest.raises(StorageError, match="kept.json"):
            store.write(target, "after")
    assert target.read_text() == "before" and [path.name for path in tmp_path.iterdir()] == ["kept.json"]


def test_a_full_disk_while_writing(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match="disk is full"),
        store.placed(tmp_path / "x") as out,
        Path("/dev/full").open("wb") as full,
    ):
        out.write(b"x")
        full.write(b"x" * 100_000)
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_is_read_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    (tmp_path / ".fairfl").write_text("a file in the place of the folder")
    assert ledger.judged("rankff")


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device", "x"), FileNotFoundError(2, "No such file", "y")]
)
def test_the_command_line_says_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, error: OSError
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("fairfl_lite.data.check", fail)
    assert cli.main(["data", "check"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fairfl: ") and said.count("\n") == 1


def test_no_place_for_compiled_code_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("cannot cache function 'f': no locator available for file 'x'")

    monkeypatch.setattr("fairfl_lite.data.check", fail)
    assert cli.main(["data", "check"]) == 2
    assert "set FAIRFL_CACHE to a folder that can be written" in capsys.readouterr().err


HALF = (
    "import os, sys, pathlib; from fairfl_lite import store\n"
    "with store.placed(pathlib.Path(sys.argv[1])) as out: out.write(b'half'); out.flush(); os.kill(os.getpid(), 9)"
)


@pytest.mark.parametrize("hours", [-1, 0, 24])
def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path: Path, hours: float) -> None:
    """At once, and also when the clock was set back since."""
    subprocess.run([sys.executable, "-c", HALF, str(tmp_path / "x")], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".x.")
    os.utime(left, (time.time() + 3600 * hours,) * 2)
    store.write(tmp_path / "y", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["y"]


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    with store.placed(tmp_path / "x") as out:
        store._SWEPT.clear()
        store.write(tmp_path / "y", "1")
        out.write(b"whole")
    assert (tmp_path / "x").read_bytes() == b"whole"


@pytest.mark.parametrize("step", ["os.fdopen", "pathlib.Path.chmod"])
def test_a_sweep_between_any_two_steps_of_a_write_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before the new file has its lock it may be swept, and is made again; from then on it may not."""
    usual, swept = {"os.fdopen": os.fdopen, "pathlib.Path.chmod": Path.chmod}[step], []

    def do(*given: object, **more: object) -> object:
        if not swept:
            swept.append(True)
            store._SWEPT.clear()
            store._sweep(tmp_path)
        return usual(*given, **more)

    monkeypatch.setattr(step, do)
    store.write(tmp_path / "x", "whole")
    assert swept and [path.name for path in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_text() == "whole"


def test_others_can_read_what_is_written(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        store.write(tmp_path / "x", "1")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("mode", "fine"), [(0o755, True), (0o775, True), (0o1777, True), (0o777, False), (0o757, False)])
def test_a_cache_that_everybody_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, fine: bool
) -> None:
    tmp_path.chmod(mode)
    monkeypatch.setenv("FAIRFL_CACHE", str(tmp_path))
    if fine:
        assert store.cache_folder() == tmp_path
    else:
        with pytest.raises(FairFLError, match="Everybody can write"):
            store.cache_folder()


@pytest.mark.skipif(os.name != "posix", reason="rights of files are others elsewhere")
@pytest.mark.parametrize(("mode", "fine"), [(0o700, True), (0o755, True), (0o775, False), (0o757, False), (0o1777, False)])
def test_compiled_code_is_kept_where_nobody_else_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, fine: bool
) -> None:
    from fairfl_lite.engines import compiled

    monkeypatch.setenv("FAIRFL_CACHE", str(tmp_path))
    before = os.umask(0)
    try:
        folder = compiled.code_folder()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700, "whatever is usual for this user"
    folder.chmod(mode)
    if fine:
        assert compiled.code_folder() == folder
    else:
        with pytest.raises(FairFLError, match="Somebody else can write to .*remove that folder"):
            compiled.code_folder()


@pytest.mark.skipif(os.name != "posix", reason="rights of files are others elsewhere")
def test_compiled_code_of_another_user_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shared cache everybody has a folder of their own. One that somebody made in another's name is refused."""
    from fairfl_lite.engines import compiled

    monkeypatch.setenv("FAIRFL_CACHE", str(tmp_path))
    ours, me = compiled.code_folder(), os.getuid()
    monkeypatch.setattr(compiled.os, "getuid", lambda: me + 1)
    with pytest.raises(FairFLError, match="Somebody else"):  # made by us, so not theirs
        compiled.code_folder()
    assert [path.name for path in sorted(tmp_path.iterdir())] == sorted([ours.name, f"numba-{me + 1}"])
