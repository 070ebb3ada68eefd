"""What a disk, another command or a clock can do: no room, nothing to be written, two at once, times in the future.

A full disk is a small one in memory (tmpfs), which needs the right to mount; without it these trials are left out, and say so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from chaos import kills
from chaos.kills import COMMANDS, Command, Trial, Undisturbed, compared, ended, files, left_processes, make, run, start

NO_MOUNT = "left out: this account may not mount a small disk (tmpfs); run it as root in a container."
SIZE = 4 << 20
ROOM = (0, 8 << 10, 256 << 10)
"""Bytes that are left on the full disk."""
DAY = 86_400
QUICK = ("paper", "data fetch", "lessons", "claims")
EVERY = (*QUICK, "run", "references")


@contextlib.contextmanager
def small_disk() -> Iterator[Path | None]:
    """A home on a disk of its own; None where mounting is not permitted. Logs and scratch are elsewhere, which has room."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        outside, place = Path(folder).resolve(), Path(folder).resolve() / "home"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
        try:
            permitted = subprocess.run(mount, capture_output=True).returncode == 0
        except OSError:
            permitted = False
        if not permitted:
            yield None
            return
        try:
            make(place)
            for name in ("tmp", "jupyter"):
                (outside / name).mkdir()
                (place / name).rmdir()
                (place / name).symlink_to(outside / name)
            yield place
        finally:
            subprocess.run(["umount", "--lazy", str(place)], capture_output=True)


def fill(place: Path, room: int) -> Path:
    """A file that leaves so many bytes of a disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(b"\0" * 4096)
    with filler.open("r+b") as out:
        out.truncate(max(0, filler.stat().st_size - room))
    return filler


def _refused(place: Path, usual: Undisturbed, code: int | None, log: Path, words: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with a command that could not write: it says so in one sentence, and nothing is half of anything."""
    said = log.read_text(errors="replace")
    if "Traceback" in said:
        yield f"traceback: {said[-300:]}"
    if code not in (0, 1, 2):
        yield f"ended with {code}"
    if code == 2 and not any(word in said for word in words):
        yield f"it does not say what is wrong: {said[-200:]}"
    for name, digest in files(place).items():
        if usual.after.get(name) and digest not in (usual.before.get(name), usual.after.get(name)):
            yield f"half: {name}"


def full(command: Command, usual: Undisturbed, room: int) -> Trial:
    with small_disk() as place:
        if place is None:
            return Trial(command.name, "disk full", 0.0, (NO_MOUNT,))
        filler, log = fill(place, room), place.parent / "log"
        problems = [*_refused(place, usual, run(place, command.arguments, log=str(log)), log, ("disk is full", "No space"))]
        filler.unlink()
        return Trial(command.name, "disk full", 1.0, (*problems, *_again(place, command, usual)))


def read_only(command: Command, usual: Undisturbed) -> Trial:
    with small_disk() as place:
        if place is None:
            return Trial(command.name, "read-only", 0.0, (NO_MOUNT,))
        log = place.parent / "log"
        for mode in ("ro", "rw"):
            subprocess.run(["mount", "-o", f"remount,{mode},size={SIZE}", str(place)], check=True, capture_output=True)
            if mode == "ro":
                code = run(place, command.arguments, log=str(log))
                problems = [*_refused(place, usual, code, log, ("read-only", "permission"))]
                problems += [f"{what}, though nothing can be written" for what in compared(files(place), usual.before)]
        return Trial(command.name, "read-only", 1.0, (*problems, *_again(place, command, usual)))


def _again(place: Path, command: Command, usual: Undisturbed) -> Iterator[str]:
    log = place.parent / "again"
    code = run(place, command.arguments, log=str(log))
    if code != 0:
        yield f"the next one ended with {code}: {log.read_text(errors='replace')[-300:]}"
    yield from compared(files(place), usual.after)


def two_at_once(command: Command, usual: Undisturbed) -> Trial:
    with kills.home() as place:
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        both = [start(place, command.arguments, mark, f"log{k}") for k in range(2)]
        problems = [f"ended with {code}" for code in map(ended, both) if code != 0]
        problems += [f"traceback in {k}" for k in range(2) if "Traceback" in (place / f"log{k}").read_text(errors="replace")]
        problems += [*left_processes(mark), *compared(files(place), usual.after)]
        return Trial(command.name, "two at once", 1.0, tuple(problems))


def clock_set_back(command: Command, usual: Undisturbed) -> Trial:
    """Every file is of tomorrow, before the command and again after it; half a file of tomorrow is left there by a kill."""
    with kills.home() as place:
        problems = []
        for turn in ("first", "second"):
            for name in ("cache/raw", "project/results/toy", "project/.fairfl/cells"):
                if turn == "first" and command.name in ("paper", "data fetch"):
                    (place / name).mkdir(parents=True, exist_ok=True)
                    (place / name / ".x.part").write_bytes(b"half")
            for path in (*place.rglob("*"),):
                os.utime(path, (time.time() + DAY,) * 2)
            code = run(place, command.arguments)
            if code != 0:
                problems.append(f"the {turn} ended with {code}: {(place / 'log').read_text(errors='replace')[-300:]}")
        found = {name: digest for name, digest in files(place).items() if not _elsewhere(name, command)}
        return Trial(command.name, "clock set back", 1.0, (*problems, *compared(found, usual.after)))


def _elsewhere(name: str, command: Command) -> bool:
    """Half a file in a folder that this command never writes into is not its to remove."""
    own = {"paper": ("project/results/", "project/.fairfl/"), "data fetch": ("cache/",)}.get(command.name, ())
    return name.endswith("/.x.part") and not name.startswith(own)


def tried(names: tuple[str, ...] = EVERY, rooms: tuple[int, ...] = ROOM) -> Iterator[Trial]:
    """Every trial of these commands; the two that start kernels are tried with one size of room."""
    for name in names:
        command = COMMANDS[name]
        usual = kills.undisturbed(command)
        yield from (full(command, usual, room) for room in (rooms if name in QUICK else rooms[:1]))
        yield read_only(command, usual)
        yield two_at_once(command, usual)
        yield clock_set_back(command, usual)
