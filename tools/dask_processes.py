"""A Dask scheduler and its workers, each a process of its own, as somebody would start them by hand."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from small import ROOT
from waiting import until

EXTRA = ROOT / ".venv" / "dask"
LOCAL = "127.0.0.1"


@contextmanager
def installed() -> Iterator[None]:
    """Dask is beside the environment, and behind it on the path."""
    assert EXTRA.is_dir(), "make test installs Dask there: run make .venv/dask/.installed"
    before = [*sys.path]
    sys.path.append(str(EXTRA))
    try:
        yield
    finally:
        sys.path[:] = before


class Processes:
    """extra : what all of them are started with besides."""

    def __init__(self, folder: Path, *extra: str) -> None:
        self.folder, self.extra = folder, extra
        self.started: dict[str, subprocess.Popen] = {}
        self.address = ""

    def start(self, name: str, *arguments: str, before: tuple[Path, ...] = (), **variables: str) -> None:
        path = os.pathsep.join(map(str, (*before, self.folder / "code", ROOT, EXTRA)))
        env = {**os.environ, "PYTHONPATH": path, **variables}
        log = (self.folder / f"{name}.log").open("w")
        command = [sys.executable, "-m", "distributed.cli." + arguments[0], "--host", LOCAL, "--no-dashboard", *arguments[1:]]
        self.started[name] = subprocess.Popen([*command, *self.extra], env=env, stdout=log, stderr=log, cwd=self.folder)

    def scheduler(self, *arguments: str) -> str:
        self.start("scheduler", "dask_scheduler", "--port", "0", *arguments)
        log = self.folder / "scheduler.log"
        (self.address,) = until(lambda: re.findall(r"Scheduler at: +(t\w+://\S+)", log.read_text()), self.started["scheduler"])
        return self.address

    def worker(self, name: str, **options: Any) -> None:
        memory = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--local-directory", str(self.folder / name))
        self.start(name, "dask_worker", self.address, "--name", name, *memory, **options)

    def kill(self, name: str) -> None:
        self.started[name].send_signal(signal.SIGKILL)
        self.started[name].wait()

    def stop(self) -> None:
        for process in self.started.values():
            process.kill()
            process.wait()
