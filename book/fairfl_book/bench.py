"""How fast the engine is, measured in one run with the contenders alternated, so that a noisy machine disturbs all alike.

Speeds are ratios against the usual way of writing it: a Python loop over clients with torch's own optimiser on one thread
(engines/plain.py). The floor is the time of nothing but the matrix products that one pass needs, in full batches.
Ranks of orders and distances between them are timed in seconds at n = 100 agents and m = 10,000 models, the parts of a round of
EFFL in milliseconds for 2, 11 and 51 clients, and a run of 2000 rounds in seconds of processor time.
"""

from __future__ import annotations

import itertools
import json as json_format
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairfl_lite import engines, rankings, store
from fairfl_lite.clients import ClientTraining
from fairfl_lite.clients.surrogates import LossAndBias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, OneFederation, Pixels, Shards, Standard, State, alone
from fairfl_lite.federation.lockstep import advance
from fairfl_lite.methods import E2FL, FRL
from fairfl_lite.methods.effl import EFFL, gram_of
from fairfl_lite.methods.vote import reputations, vote
from fairfl_lite.models import CNN, Dense, LeNet, Network, Perceptron
from fairfl_lite.supernets import Supernet
from papers.effl.federations import federation as effl_federation

FAIRFED = {"sizes": (884, 29967, 492, 435, 4399), "features": 12, "hidden": 0, "local": ClientTraining("adam", 0.01, 1e-4, 1, 32)}
FAIR_FATE = {"sizes": (740, 370, 185, 93, 462), "features": 14, "hidden": 10, "local": ClientTraining("sgd", 0.01, 0.0, 10, 10)}
TURN = 0.05  # seconds for which a contender is called at least
PAUSE = 0.3  # threads of the last contender may spin for a while after their work is done
WORKLOADS = {"FairFed (alpha = 0.1 sizes of Table 6)": FAIRFED, "FAIR-FATE (COMPAS sizes)": FAIR_FATE}


def federation(sizes: Sequence[int], features: int, hidden: int, local: ClientTraining, runs: int) -> Federation:
    """Random rows of the given shape; every run deals the same rows anew."""
    rng = np.random.default_rng(0)
    n = sum(sizes)
    X = rng.standard_normal((n, features), np.float32)
    y, a = (X[:, 0] > 0).astype(np.int8), (X[:, 1] > 0).astype(np.int8)
    cuts, rows = np.cumsum(sizes)[:-1], np.arange(n, dtype=np.int32)
    shards = Shards.of(X, y, a, (np.split(rng.permutation(rows), cuts) for _ in range(runs)))
    parts = {"train": shards, "test": shards}
    return Federation(parts, Dense(features, hidden), local, tuple(range(runs)), Standard.of(shards))


def one_run(fed: Federation) -> Federation:
    """The first run alone, by the plain loop."""
    shards = {part: replace(s, start=s.start[:1]) for part, s in fed.shards.items()}
    assert isinstance(fed.inputs, Standard)
    inputs = Standard(fed.inputs.shift[:1], fed.inputs.scale[:1])
    return replace(fed, shards=shards, seeds=fed.seeds[:1], inputs=inputs, engine="plain")


def alternate(contenders: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each contender over its turns, all called in turn, after one unmeasured turn each."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, call in contenders.items():
            time.sleep(PAUSE)
            taken = fastest(call)
            if turn:
                seconds[name].append(taken)
    return {name: statistics.median(values) for name, values in seconds.items()}


def fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of as many calls as fit in TURN, at least one: threads that slept take milliseconds to wake up, and
    a call of microseconds would be charged for that."""
    least, until = np.inf, time.perf_counter() + TURN
    while True:
        began = time.perf_counter()
        call()
        ended = time.perf_counter()
        least = min(least, ended - began)
        if ended >= until:
            return least


def trained(fed: Federation, params: np.ndarray) -> list[np.ndarray]:
    """What every client of every run makes of models [..., run, P], all at once."""
    clients, ones = np.arange(fed.clients), [OneFederation(fed, run, together=True) for run in range(len(fed.seeds))]
    each = params.reshape(-1, len(ones), fed.model.size)
    return advance([one.train(model, clients, 1) for models in each for one, model in zip(ones, models, strict=True)])


def first_models(fed: Federation) -> np.ndarray:
    """Where every run begins, [run, P]."""
    return np.stack([fed.one(seed).init_params() for seed in fed.seeds])


def floor(fed: Federation) -> Callable[[], None]:
    """The matrix products of one epoch of every replica of one run, in full batches: forward, and backward to the weights."""
    d, units = fed.model.features, max(fed.model.hidden, 1)  # type: ignore[attr-defined]
    blocks = [torch.randn(n, d) for n in fed.sizes()[0]]
    W = torch.randn(d, units)

    def call() -> None:
        for _ in range(fed.local.epochs):
            for X in blocks:
                (X @ W).T @ X

    return call


def speed(workload: dict[str, Any], repeats: int = 5) -> dict[str, float]:
    """Ratios for one workload, per run of the federation; and for a grid, every run under `settings` different models."""
    runs, settings = 20, 36
    fed = federation(**workload, runs=runs)
    single = replace(one_run(fed), engine="fused")
    loop, start = one_run(fed), first_models(fed)
    tried = (start + np.random.default_rng(0).normal(0, 0.01, (settings, 1, fed.model.size))).astype(np.float32)
    times = alternate(
        {
            "loop": lambda: trained(loop, start[:1]),
            "kernel": lambda: trained(fed, start),
            "grid": lambda: trained(fed, tried),
            "alone": lambda: trained(single, start[:1]),
            "floor": floor(fed),
            "report": lambda: fed.ask(lambda one: one.confusion(start[one.seed])),
        },
        repeats,
    )
    rows = runs * int(fed.sizes()[0].sum()) * fed.local.epochs
    return {
        "kernel over clients x seeds, against the loop": runs * times["loop"] / times["kernel"],
        f"kernel over {settings} settings of those, against the loop": settings * runs * times["loop"] / times["grid"],
        "kernel on one run, against the loop": times["loop"] / times["alone"],
        "share of the full-batch floor": runs * times["floor"] / times["kernel"],
        "one evaluation, as a share of one round of training": times["report"] / times["kernel"],
        "million training rows a second": rows / times["kernel"] / 1e6,
        f"million training rows a second, {settings} settings": settings * rows / times["grid"] / 1e6,
    }


def network(rows: int = 512, batch: int = 64, repeats: int = 5) -> dict[str, float]:
    """RankFF's network on random images, one thread: milliseconds for a step of SGD and for scoring as many images, by torch
    and by the kernels."""
    rng, model, read = np.random.default_rng(0), CNN(), Pixels()
    x, y = torch.as_tensor(rng.integers(0, 256, (rows, 1, 28, 28), np.uint8)), torch.as_tensor(rng.integers(0, 10, rows))
    theta, local, order = model.init(rng), ClientTraining("sgd", 0.05, 0.0, 1, batch, momentum=0.9), rng.permutation(rows)
    by = {"torch": engines.plain, "kernel": engines.convolution}
    times = alternate(
        {f"step, {name}": partial(one.fit, model, theta, [(x, order)], y, read, local, lr=0.05) for name, one in by.items()}
        | {f"scoring, {name}": partial(one.losses_of, model, theta, x, y, read) for name, one in by.items()},
        repeats,
    )
    return {what: 1000 * seconds * batch / rows for what, seconds in times.items()}


def growth(repeats: int = 5) -> dict[str, dict[str, float]]:
    """Time of one round as clients, rows and seeds double twice, against the smallest: 1, 2, 4 is linear."""
    base = {"features": 12, "hidden": 0, "local": ClientTraining("adam", 0.01, 1e-4, 1, 32)}
    axes = {
        "clients (rows a client fixed)": [federation((10_000,) * k, runs=8, **base) for k in (5, 10, 20)],  # type: ignore[arg-type]
        "rows": [federation((n,) * 5, runs=8, **base) for n in (10_000, 20_000, 40_000)],  # type: ignore[arg-type]
        "seeds": [federation((10_000,) * 5, runs=r, **base) for r in (8, 16, 32)],  # type: ignore[arg-type]
    }
    out = {}
    for axis, feds in axes.items():
        times = alternate({f"x{2**i}": partial(trained, fed, first_models(fed)) for i, fed in enumerate(feds)}, repeats)
        out[axis] = {name: seconds / times["x1"] for name, seconds in times.items()}
    return out


def orders(n: int = 100, m: int = 10_000, repeats: int = 3) -> dict[str, Any]:
    """Seconds for ranks and all pairwise distances of n random orders of m models, and how they grow: the time at n over
    that at n/2 (2 is linear, 4 is every pair), and at m over that at m/2."""
    rng = np.random.default_rng(0)

    def tasks(n: int, m: int) -> dict[str, Callable[[], Any]]:
        utilities = rng.random((n, m))
        ranks = rankings.ranks_of(utilities)
        return {
            "ranks": partial(rankings.ranks_of, utilities),
            "md and fd": partial(rankings.footrule, ranks),  # one pass gives both
            "ed": partial(rankings.edit, ranks),
        }

    sizes = {"": (n, m), "n": (n // 2, m), "m": (n, m // 2)}
    times = {axis: alternate(tasks(*size), repeats) for axis, size in sizes.items()}
    growth = {what: {axis: times[""][what] / times[axis][what] for axis in ("n", "m")} for what in times[""]}
    return {"seconds": times[""], "growth": growth}


CLIENTS = (2, 11, 51)
"""As many as EFFL's datasets have."""


def unequal(clients: int, rows: int = 1000, features: int = 97) -> Federation:
    """Clients with `rows` one-hot rows each, of which a third are distinct, as in Adult."""
    rng = np.random.default_rng(0)
    kinds = (rng.random((clients * rows // 3, features)) < 0.08).astype(np.float32)
    which = rng.integers(len(kinds), size=clients * rows)
    y, a = (kinds[which, 0] > 0).astype(np.int8), (kinds[which, 1] > 0).astype(np.int8)
    shards = Shards.of(kinds[which], y, a, [np.split(np.arange(clients * rows), clients)])
    return Federation({"train": shards}, Dense(features), ClientTraining(), (0,), Standard.plain(1, features))


def both(one: OneFederation, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses and biases of all clients, and their gradients."""
    return alone(one.value_and_gradient(theta, one.all_clients, LossAndBias()))


def constrained(repeats: int = 5) -> dict[str, dict[str, float]]:
    """EFFL's round by the number of clients: milliseconds of the gradients of losses and biases, of the same by the autograd
    loop, of the program of the last stage, and of the same by HiGHS."""
    out = {}
    for n in CLIENTS:
        fed = unequal(n)
        one, loop = fed.one(), replace(fed, engine="plain").one()
        theta, method = one.init_params(), EFFL(0.01, 0.01, 0.01, violators="every")
        values, slopes = both(one, theta)
        stage, gram = method.rows(values[:, 0], values[:, 1], 3), gram_of(np.concatenate([slopes[:, 0], slopes[:, 1]]))
        times = alternate(
            {
                "gradients": partial(both, one, theta),
                "gradients, autograd loop": partial(both, loop, theta),
                "program": partial(method.direction, gram, stage),
                "program, HiGHS": partial(replace(method, solver="highs").direction, gram, stage),
            },
            repeats,
        )
        out[f"{n} clients"] = {name: 1000 * seconds for name, seconds in times.items()}
    return out


def powers(times: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """How each part grows from one line of `constrained` to the next: the power of the number of clients, 1 for in proportion."""
    many = {line: int(line.split()[0]) for line in times}
    return {
        f"{few} to {more}": {
            what: float(np.log(times[more][what] / times[few][what]) / np.log(many[more] / many[few])) for what in times[few]
        }
        for few, more in itertools.pairwise(times)
    }


def whole(rounds: int = 2000, clients: int = CLIENTS[-1]) -> dict[str, float]:
    """Seconds of processor time of one run of EFFL: on Adult, and on many clients."""
    feds = {"Adult": effl_federation("adult", [0]), f"{clients} clients": unequal(clients)}
    out = {}
    for name, fed in feds.items():
        method = EFFL(0.01, 0.03, 0.005)
        fed.run(method, 2, record=())  # compiles
        began = time.process_time()
        fed.run(method, rounds, record=())
        out[name] = time.process_time() - began
    return out


MEMORY = """
import resource, psutil
from fairfl_book import bench
from fairfl_lite.methods import FairFed
sizes, features, local = bench.FAIRFED["sizes"], bench.FAIRFED["features"], bench.FAIRFED["local"]
small = bench.federation(tuple(s // 40 for s in sizes), features, 0, local, runs=2)
small.run(FairFed(), 1)
before = psutil.Process().memory_info().rss
fed = bench.federation(tuple(40 * s for s in sizes), features, 0, local, runs=20)
fed.run(FairFed(), 2)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / fed.shards["train"].nbytes)
"""


def memory() -> float:
    """Peak memory of FairFed on 20 seeds over the size of its data (rows and who holds them), in a process of its own,
    beyond what a tiny one has in use; everything counts: making the data, the weights of rows, training, evaluation."""
    for _ in range(2):  # compiling takes more memory than running: the first process leaves the compiled code behind
        done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    return float(done.stdout)


PEAK = """
import resource, psutil
import numpy as np
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Images
from fairfl_lite.federation import Federation
from fairfl_lite.methods import {method}
from fairfl_lite.models import LeNet
from fairfl_lite.supernets import Supernet
rng = np.random.default_rng(0)
x = rng.integers(0, 256, (70_000, 1, 28, 28), np.uint8)
images = Images("mnist", x, rng.integers(0, 10, 70_000), 60_000, "random")
training = ClientTraining("sgd", 0.01, 1e-4, 1, 8, momentum=0.9)
fed = Federation.of_images(images, [0.0] * 1000, [0], training, {model}, train=24, test=1, participants=25)
before = psutil.Process().memory_info().rss
fed.run({method}(), 1)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 1e9)
"""


def peak(method: str, model: str) -> float:
    """Peak GB above what is in use before, of a round of a method with 25 of 1000 clients and its evaluation: memory follows
    those who take part. E2FL's network has 1,625,632 parameters, or edges."""
    code = PEAK.format(method=method, model=model)
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def ranked(network: Network, clients: int = 1, groups: int = 1) -> Federation:
    """Random images for clients that rank edges, `groups` of them in turn, trained as on FairMNISTRotate."""
    rng = np.random.default_rng(0)
    each = 60
    n = clients * each
    x = np.where(rng.random((n, 1, 28, 28)) < 0.25, rng.integers(0, 256, (n, 1, 28, 28)), 0).astype(
        np.uint8
    )  # as much ink as MNIST
    rows = list(np.arange(n).reshape(clients, each))
    train = Shards.of(x, rng.integers(0, 10, n), np.repeat(np.arange(clients) % groups, each), [rows], classes=10, groups=groups)
    local = ClientTraining("sgd", 0.1, 1e-4, 2, 8, momentum=0.9)
    return Federation({"train": train}, Supernet(network), local, (0,), Pixels())


def products(network: Network, rows: int) -> float:
    """Multiplications and additions of a step: each layer forward, and backward to weights and, but for the first, inputs."""
    places = {4: 28 * 28, 2: 1}
    flops = [2.0 * rows * places[len(shape)] * np.prod(shape) for shape in network.shapes]
    return 3 * sum(flops) - flops[0]


def supermasks(repeats: int = 5) -> dict[str, Any]:
    """Edge-popup and the vote: one client's training with E2FL's LeNet by the kernel and by the usual code, autograd with a sort
    of every layer in each step; what the matrix products alone would take at the speed of a large one; growth."""
    fed, large = ranked(LeNet()), torch.randn(1024, 1024)
    usual, start, steps = replace(fed, engine="plain"), first_models(fed), 16
    times = alternate({
        "usual": lambda: trained(usual, start),
        "kernel": lambda: trained(fed, start),
        "product": lambda: large @ large,
    }, max(1, repeats // 2))  # fmt: skip
    alone = fed.local.epochs * products(LeNet(), 60) * times["product"] / (2 * 1024**3)
    ballots = [fed.model.init(np.random.default_rng(i)) for i in range(25)]
    model = fed.model
    assert isinstance(model, Supernet)
    counted = alternate({"vote": lambda: vote(model, reputations(model, ballots))}, max(1, repeats // 2))
    axes: dict[str, list[tuple[Method, Federation]]] = {
        "edges": [(FRL(), ranked(Perceptron((784, width, 10)), 4)) for width in (256, 512, 1024)],
        "clients": [(FRL(), ranked(Perceptron((784, 256, 10)), n)) for n in (4, 8, 16)],
        "groups": [(E2FL(), ranked(Perceptron((784, 256, 10)), 16, n)) for n in (2, 4, 8)],
    }
    growth = {}
    for axis, cases in axes.items():
        calls: dict[str, Callable[[], Any]] = {
            f"x{2**i}": partial(one_round, method, fed.one()) for i, (method, fed) in enumerate(cases)
        }
        found = alternate(calls, repeats)
        growth[axis] = {name: seconds / found["x1"] for name, seconds in found.items()}
    return {
        "ms a step of 8 images, LeNet, one client": 1e3 * times["kernel"] / steps,
        "the usual code, times the kernel": times["usual"] / times["kernel"],
        "products alone at the speed of a large one, as a share of the kernel": alone / times["kernel"],
        "seconds for a vote of 25 rankings of 1,625,632 edges": counted["vote"],
        "growth": growth,
    }


def one_round(method: Method, one: OneFederation) -> State:
    """The state after a method's first round on one federation."""
    return alone(method.round(one, alone(method.start(one)), 1))


_RATES = """
import importlib, json, sys, time
import numpy as np
bench = importlib.import_module(sys.argv[2])

def fastest(call, times):
    seconds = []
    for _ in range(times + 1):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])

work = getattr(bench, sys.argv[1])
fed = bench.federation(**work, runs=20)
rows = 20 * sum(work["sizes"]) * work["local"].epochs / 1e6
if hasattr(bench, "trained"):
    start = bench.first_models(fed)
else:  # a revision in which methods had an axis of runs
    start, grid = fed.start(), fed.repeat(36)
noise = np.random.default_rng(0).normal(0, 0.01, (36, 1, fed.model.size))
tried = (start + noise).astype(np.float32)
if hasattr(bench, "trained"):
    one, many = lambda: bench.trained(fed, start), lambda: bench.trained(fed, tried)
else:
    one, many = lambda: fed.train(start, 1), lambda: grid.train(tried.reshape(-1, fed.model.size), 1)
print(json.dumps({"million training rows a second": rows / fastest(one, 60),
                  "million training rows a second, 36 settings": 36 * rows / fastest(many, 6)}))
"""


def against(revision: str, repeats: int = 7) -> dict[str, dict[str, float]]:
    """Speed of this code over that of another revision of the project, alternated, each time in a process of its own.

    Each has the fastest of its calls: whatever else the machine does can only make one slower.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", revision, "fairfl_lite", "book"], cwd=store.root(), capture_output=True)
        if archive.returncode:
            raise FairFLError(f"There is no revision {revision!r} of this project: name a commit that git log shows.")
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        found: dict[str, dict[str, float]] = {}
        for name in ("FAIRFED", "FAIR_FATE"):
            measured: dict[str, list[dict[str, float]]] = {folder: [], str(store.PACKAGE.parent): []}
            for place in [*measured] * repeats:
                own = "fairfl_book.bench" if Path(place, "book", "fairfl_book").is_dir() else "fairfl_lite.bench"
                env = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{place}/book"}
                done = subprocess.run([sys.executable, "-c", _RATES, name, own], env=env, cwd=folder, capture_output=True,
                                      text=True, check=True)  # fmt: skip
                measured[place].append(json_format.loads(done.stdout))
            old, new = ({what: max(rates[what] for rates in every) for what in every[0]} for every in measured.values())
            found[name] = {what: new[what] / old[what] for what in new}
    return found


def measure(repeats: int = 5) -> dict[str, Any]:
    torch.set_num_threads(1)
    effl = constrained()
    return {
        "workloads": {name: speed(workload, repeats=repeats) for name, workload in WORKLOADS.items()},
        "milliseconds for 64 images, RankFF's network": network(repeats=repeats),
        "growth of time": growth(repeats),
        "peak memory over the size of the data": memory(),
        "GB above base, E2FL's LeNet, 25 of 1000 clients": peak("FedAvg", "LeNet()"),
        "supermasks": supermasks(repeats),
        "GB above base, E2FL on the LeNet supernet, 25 of 1000 clients": peak("E2FL", "Supernet(LeNet())"),
        "orders of 10,000 models by 100 agents": orders(),
        "milliseconds of a round of EFFL": effl,
        "growth of a round of EFFL, as a power of the clients": powers(effl),
        "seconds of processor time, 2000 rounds of EFFL": whole(),
    }


def main(json: bool = False, revision: str | None = None) -> None:
    """Print the measurements, as text or as JSON; with a revision, speeds over its speeds."""
    if revision:
        for name, ratios in against(revision).items():
            for what, ratio in ratios.items():
                print(f"{name}, {what}: {ratio:.3f} of {revision}")
        return
    found = measure()
    if json:
        print(json_format.dumps(found, indent=1))
        return
    print("\n".join(lines(found)))


def lines(found: dict[str, Any], indent: str = "") -> Iterator[str]:
    """What was measured, a line for each number below the words that it stands under."""
    for what, value in found.items():
        yield f"{indent}{what}" if isinstance(value, dict) else f"{indent}{what:<{80 - len(indent)}}{value:10.3f}"
        if isinstance(value, dict):
            yield from lines(value, indent + "  ")
