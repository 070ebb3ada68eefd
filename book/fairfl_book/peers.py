"""`fairfl bench --peers`: how fast others are at the same work, each by a script of its own in benchmarks/peers/.

A contender is a small program in the usual way of its library, in a process of its own, with its library in a folder of its own
that comes before what the book has (`make peers`). All of them are given the same rows, the same first model and the same
training, and the models that they end with must have the same loss. They take turns, so that a busy machine disturbs all alike,
and each has the least seconds of its turns: whatever else the machine does can only make one slower.

Seconds are those of a round of all seeds and settings, after a warm-up in which compilers run and processes start: by the clock,
and of processors, of all processes of a contender together. Memory is the peak of all these processes, from their start.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from scipy.special import log_expit

from fairfl_book import bench, results
from fairfl_lite import store
from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import FairFLError
from fairfl_lite.models import Dense

SAME = 0.005
"""How far a contender's loss may be from ours, as a share of ours: orders of rows are drawn by each in its own way."""
PATIENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_agent_register_timeout_ms": "600000"}
"""What Ray is told: to send nothing anywhere, and that a busy machine may take long to start its processes."""
LIMIT = 300.0
"""Seconds after which a contender is ended."""
SEEDS = 20
"""Of a federation of which all seeds are run at once."""
WORKLOADS: dict[str, dict[str, Any]] = {"FairFed": bench.FAIRFED, "FAIR-FATE": bench.FAIR_FATE}


@dataclass(frozen=True)
class Contender:
    """script : in benchmarks/peers/. library : the folder in .venv/peers/ that it needs, if any. many : whether it has several
    seeds and settings at once; others run them one after the other."""

    name: str
    script: str
    library: str = ""
    many: bool = False


OURS = Contender("ours", "ours.py", many=True)
CONTENDERS = (
    OURS,
    Contender("torch loop", "torch_loop.py"),
    Contender("JAX, clients together", "jax_vmap.py", "jax", many=True),
    Contender("JAX, client by client", "jax_clients.py", "jax", many=True),
    Contender("Flower", "flower_simulation.py", "flower"),
    Contender("FedLab", "fedlab_serial.py", "fedlab"),
)


@dataclass(frozen=True)
class Contest:
    """What is run. times : how often the clients of the workload are there; settings : of the momentum at the server."""

    workload: str
    times: int = 1
    seeds: int = 1
    settings: int = 1

    def given(self, rounds: int = 2, repeats: int = 2) -> dict[str, Any]:
        """The fields of the contenders' Workload. Labels are noisy, so that a loss has somewhere to end."""
        work, rng = WORKLOADS[self.workload], np.random.default_rng(0)
        sizes, features, hidden, local = np.tile(work["sizes"], self.times), work["features"], work["hidden"], work["local"]
        assert isinstance(local, ClientTraining)
        X = rng.standard_normal((sizes.sum(), features), np.float32)
        return {
            "X": X,
            "y": (X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(len(X)) > 0).astype(np.int8),
            "group": (X[:, 1] > 0).astype(np.int8),
            "client": rng.permutation(np.repeat(np.arange(len(sizes)), sizes)),
            "start": Dense(features, hidden).init(rng),
            "hidden": hidden,
            "optimizer": local.optimizer,
            "lr": local.lr,
            "weight_decay": local.weight_decay,
            "epochs": local.epochs,
            "batch_size": local.batch_size,
            "seeds": self.seeds,
            "betas": tuple((np.arange(self.settings) / (2 * self.settings)).tolist()),
            "rounds": rounds,
            "repeats": repeats,
        }


MORE = 4
"""So many times the clients, seeds or settings are measured too."""


def contests() -> Iterator[tuple[Contest, tuple[Contender, ...]]]:
    """What is measured, by whom: one run and many seeds of each workload, and MORE clients, seeds and settings."""
    many = tuple(one for one in CONTENDERS if one.many)
    for name in WORKLOADS:
        yield Contest(name), CONTENDERS
        yield Contest(name, seeds=SEEDS), many
    yield Contest("FAIR-FATE", times=MORE), CONTENDERS
    yield Contest("FAIR-FATE", seeds=MORE * SEEDS), many
    yield Contest("FAIR-FATE", seeds=SEEDS, settings=MORE), many


def folder() -> Path:
    """Where the contenders' scripts are."""
    return store.root() / "benchmarks" / "peers"


def installed(library: str) -> Path:
    """The folder of a contender's library; FairFLError when it is not there."""
    place = Path(sys.prefix) / "peers" / library
    if not (place / ".installed").is_file():
        raise FairFLError(
            f"{library} is not installed: make {place.relative_to(Path(sys.prefix).parent)}/.installed installs it."
        )
    return place


def run(contender: Contender, given: Mapping[str, Any]) -> dict[str, Any]:
    """Start a contender's script: seconds of a round, peak memory, loss. FairFLError when it cannot be run here."""
    path = [str(folder() / "images"), str(installed(contender.library))] if contender.library else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "FLWR_TELEMETRY_ENABLED": "0", **PATIENT}
    with tempfile.TemporaryDirectory() as place:
        work, answer = Path(place, "given"), Path(place, "answer.npz")
        store.write(work, _pickled(given))
        command = [sys.executable, str(folder() / contender.script), str(work), str(answer)]
        with Path(place, "said").open("w+") as said:
            process = subprocess.Popen(command, env=env, stdout=said, stderr=said, cwd=place)
            peak = _watched(process)
            said.seek(0)
            lines = said.read().strip().splitlines()
        if process.returncode or not answer.is_file():
            raise FairFLError(f"{contender.name} does not run here: {lines[-1].rstrip('.') if lines else 'it said nothing'}.")
        with np.load(answer) as found:
            seconds, params = found["seconds"].min(0), found["params"]
    losses = [loss(given, theta) for theta in params.reshape(-1, params.shape[-1])]
    return {"seconds": seconds[0], "processor": seconds[1], "peak": peak / 2**20, "loss": float(np.mean(losses))}


def again(contender: Contender, given: Mapping[str, Any], attempts: int = 4) -> dict[str, Any]:
    """`run`, several times if it fails: Ray gives its processes half a minute to start, which is short on a busy machine."""
    for _ in range(attempts - 1):
        try:
            return run(contender, given)
        except FairFLError:
            if contender.library and not (Path(sys.prefix) / "peers" / contender.library / ".installed").is_file():
                break
    return run(contender, given)


def _pickled(given: Mapping[str, Any]) -> bytes:
    """A Workload, as the scripts read it: its class is theirs."""
    sys.path.insert(0, str(folder()))
    try:
        from workload import Workload
    finally:
        sys.path.remove(str(folder()))
    return pickle.dumps(Workload(**given))


def _watched(process: subprocess.Popen) -> int:
    """The most bytes that a process and all that it starts have at once, when it has ended."""
    most, over = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.2):
            most = max(most, _bytes(process.pid))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    family: list[psutil.Process] = []
    try:
        process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        family = psutil.Process(process.pid).children(recursive=True)
    finally:
        over.set()
        watching.join()
        process.kill()
        for one in family:
            with contextlib.suppress(psutil.Error):
                one.kill()
        process.wait()
    return most


def _bytes(pid: int) -> int:
    """What a process and all that it started have in memory; what several of them share counts once."""
    try:
        first = psutil.Process(pid)
        family = [first, *first.children(recursive=True)]
    except psutil.Error:
        return 0
    found = 0
    for one in family:
        try:
            about = one.memory_full_info()
            found += getattr(about, "pss", about.uss)
        except psutil.Error:  # it has ended
            continue
    return found


def loss(given: Mapping[str, Any], params: np.ndarray) -> float:
    """Mean log loss of a model on all rows."""
    X, y, d, h = given["X"], given["y"], given["X"].shape[1], given["hidden"]
    if h:
        X = np.tanh(X @ params[: h * d].reshape(h, d).T + params[h * d : h * (d + 1)])
    logits = X @ params[-X.shape[1] - 1 : -1] + params[-1]
    return float(-np.mean(np.where(y == 1, log_expit(logits), log_expit(-logits))))


def lines(script: str) -> int:
    """Lines of a script that have code: no comments, no docstring, no empty ones."""
    text = (folder() / script).read_text(encoding="utf-8")
    idle = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    first = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in idle:
            continue
        if not (first and token.type == tokenize.STRING):
            found |= set(range(token.start[0], token.end[0] + 1))
        first = False
    return len(found)


def versions() -> dict[str, str]:
    """Of the libraries that are compared, where they are installed."""
    found = {name: version for name, version in results.versions().items() if name in ("python", "numpy", "torch", "numba")}
    for library, names in {"jax": ("jax", "jaxlib", "optax"), "flower": ("flwr", "ray"), "fedlab": ("fedlab",)}.items():
        place = Path(sys.prefix) / "peers" / library
        there = {one.name: one.version for one in importlib.metadata.distributions(path=[str(place)])}
        found |= {name: there[name] for name in names if name in there}
    return found


def measure(turns: int = 2, chosen: Sequence[tuple[Contest, tuple[Contender, ...]]] | None = None) -> Iterator[dict[str, Any]]:
    """Measure everybody in turns; what is known after each turn. Who cannot be run has a sentence instead."""
    missing: dict[str, str] = {}
    best: dict[tuple[Contest, str], dict[str, Any]] = {}
    for turn in range(1, turns + 1):
        for contest, contenders in chosen or tuple(contests()):
            given = contest.given()
            for one in contenders:
                try:
                    found = again(one, given)
                except FairFLError as error:
                    missing[one.name] = str(error)
                    print(error, file=sys.stderr, flush=True)
                    continue
                before = best.setdefault((contest, one.name), found)
                best[contest, one.name] = found | {what: min(before[what], found[what]) for what in ("seconds", "processor")}
                print(f"turn {turn}, {contest}, {one.name}: {found}", file=sys.stderr, flush=True)
        rows = [row(contest, name, found, best[contest, OURS.name]["loss"]) for (contest, name), found in best.items()]
        yield {
            "command": "fairfl bench --peers", "turns": turn, "rows": rows,
            "missing": {name: why for name, why in missing.items() if name not in {row["contender"] for row in rows}},
            "lines": {one.name: lines(one.script) for one in CONTENDERS},
            "same": SAME, "git": results._git(), "versions": versions(), "cpu": results._cpu(), "cores": os.cpu_count(),
        }  # fmt: skip


def row(contest: Contest, name: str, found: Mapping[str, Any], ours: float) -> dict[str, Any]:
    """What is kept of a contender in a contest, to four digits. ours : our loss."""
    clients = contest.times * len(WORKLOADS[contest.workload]["sizes"])
    numbers = {what: float(f"{value:.4g}") for what, value in found.items()}
    return {"workload": contest.workload, "clients": clients, "seeds": contest.seeds, "settings": contest.settings,
            "contender": name, **numbers, "loss apart": float(f"{abs(found['loss'] / ours - 1):.2g}")}  # fmt: skip


def main() -> int:
    """Measure, keep it in results/peers.json, and print a table. 1 where a loss is another than ours."""
    for found in measure():
        store.write_json(store.root() / "results" / "peers.json", found)
    print("\n".join(table(found)))
    return int(any(row["loss apart"] > SAME for row in found["rows"]))


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """Lines for people."""
    yield f"{'workload':10}{'clients':>8}{'seeds':>6}{'settings':>9}  {'contender':22}{'s a round':>10}{'processor':>10}{'MB':>7}"
    for row in found["rows"]:
        yield (f"{row['workload']:10}{row['clients']:8}{row['seeds']:6}{row['settings']:9}  {row['contender']:22}"
               f"{row['seconds']:10.4f}{row['processor']:10.4f}{row['peak']:7.0f}")  # fmt: skip
        if row["loss apart"] > found["same"]:
            yield f"  its loss is {row['loss apart']:.1%} from ours: it is not the same work"
    yield from found["missing"].values()
    yield "lines of code: " + ", ".join(f"{name} {count}" for name, count in found["lines"].items())
