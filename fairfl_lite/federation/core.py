"""A federation: the clients of every run, and what a method may ask of them.

A run is one seed, or one seed under one setting of the local training. Arrays lead with [run, client, ...]; parameters
are flat, [run, P] for the server's model and [run, client, P] for the clients'. One call trains every client of every
run at once. Randomness comes from named streams (seed, purpose, round, client), so results depend neither on the
order of calls nor on the number of threads, and methods compared on one seed share everything but themselves.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pandas as pd

from fairfl_lite import metrics
from fairfl_lite.clients import Local
from fairfl_lite.data.shards import Shards, standardisation
from fairfl_lite.engines import fused as kernels
from fairfl_lite.engines import plain as reference
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.models import Dense, Model
from fairfl_lite.streams import stream

if TYPE_CHECKING:
    from fairfl_lite.data import Partition, Table

Part = Literal["train", "validation", "test"]
Aggregate = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class State:
    """What the server carries from round to round: its model [run, P] and whatever else its method remembers."""

    params: np.ndarray
    memory: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.memory[choose(name, self.memory, "memory of this method named")]


class Method(Protocol):
    """What the server does: `start` makes the first state, `round` the next one."""

    @property
    def name(self) -> str: ...

    def start(self, fed: Federation) -> State: ...

    def round(self, fed: Federation, state: State, t: int) -> State: ...


def plain_sum(messages: np.ndarray) -> np.ndarray:
    """Sum over clients in float64, [run, client, ...] -> [run, ...]; the insecure aggregator."""
    return np.asarray(messages, np.float64).sum(axis=1)


@dataclass(frozen=True)
class Federation:
    """The clients of every run. `shards` holds their rows of each part; `shift` and `scale` [run, d] standardise rows
    with the statistics of that run's own training rows, without a copy of the data for each run."""

    shards: Mapping[str, Shards]
    model: Model
    local: Local
    seeds: tuple[int, ...]
    shift: np.ndarray
    scale: np.ndarray
    aggregate: Aggregate = plain_sum
    engine: Literal["kernel", "reference"] = "kernel"
    participants: int = 0

    @classmethod
    def of(cls, table: Table, partition: Partition, seeds: Sequence[int], local: Local, *, hidden: int = 0,
           model: Model | None = None, test: float = 0.2, validation: float = 0.0, minimum: int = 10,
           central: bool = False, **options: Any) -> Federation:  # fmt: skip
        """Split and partition `table` once per seed; `minimum` as in Partition.clients.

        Test and validation rows go to clients in the training proportions; with `central` they stay whole at the server,
        as parts of one client. A table in another scaling than "standard" is used as it is.
        """
        seeds = tuple(seeds)
        if not seeds or min(seeds) < 0:
            raise FairFLError(f"A federation needs seeds, whole numbers of at least 0, not {seeds}.")
        runs = []
        for seed in seeds:
            split = table.split(seed, test=test, validation=validation)
            kept = {part: split.pop(part) for part in ("validation", "test") if central}
            dealt = partition.clients(table, split, seed, minimum) | {part: [rows] for part, rows in kept.items()}
            runs.append({part: [rows.astype(np.int32) for rows in clients] for part, clients in dealt.items()})
        shards = {part: Shards.of(table.X, table.y, table.a, [run[part] for run in runs]) for part in runs[0]}
        shift, scale = standardisation(shards["train"])
        if table.scaling != "standard":
            shift, scale = np.zeros_like(shift), np.ones_like(scale)
        model = model or Dense(table.X.shape[1], hidden)
        return cls(shards, model, local, tuple(seeds), shift, scale, **options)

    def __post_init__(self) -> None:
        runs = len(self.seeds)
        if self.engine == "kernel" and not isinstance(self.model, Dense):
            object.__setattr__(self, "engine", "reference")
        if np.size(self.local.lr) not in (1, runs):
            raise FairFLError(
                f"Local.lr has {np.size(self.local.lr)} values for {runs} runs: give one, or one per run."
            )
        choose(self.engine, ("kernel", "reference"), "engine")
        if not 0 <= self.participants <= self.clients:
            raise FairFLError(f"Of {self.clients} clients, {self.participants} cannot take part: 0 stands for all of them.")

    def repeat(self, n: int) -> Federation:
        """Every seed n times over, as more runs over the same rows: run = setting * seeds + seed."""
        lr = self.local.lr if np.size(self.local.lr) == 1 else tuple(np.tile(self.local.lr, n))
        shards = {part: replace(s, start=np.tile(s.start, (n, 1))) for part, s in self.shards.items()}
        shift, scale = np.tile(self.shift, (n, 1)), np.tile(self.scale, (n, 1))
        return replace(self, shards=shards, local=replace(self.local, lr=lr), seeds=self.seeds * n, shift=shift, scale=scale)

    def across(self, lr: Sequence[float]) -> Federation:
        """Every seed under every learning rate: run = setting * seeds + seed."""
        rates = tuple(np.repeat(np.asarray(lr, float), len(self.seeds)))
        return replace(repeated := self.repeat(len(lr)), local=replace(repeated.local, lr=rates))

    @property
    def clients(self) -> int:
        return self.sizes.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """Training rows of each client, [run, client]."""
        return self.shards["train"].sizes

    @property
    def shares(self) -> np.ndarray:
        """n_k / sum n, [run, client]."""
        return self.sizes / self.sizes.sum(axis=1, keepdims=True)

    def rng(self, purpose: str, t: int = 0) -> list[np.random.Generator]:
        """One generator per run from the stream (seed, purpose, t)."""
        return [np.random.default_rng([seed, zlib.crc32(purpose.encode()), t]) for seed in self.seeds]

    def who(self, t: int) -> np.ndarray:
        """Who takes part in round t, bool [run, client]: `participants` of them drawn without replacement, or all."""
        if not self.participants:
            return np.ones(self.sizes.shape, bool)
        drawn = self._by_seed(lambda seed: stream(seed, f"participants {t}").permutation(self.clients))
        return drawn < self.participants

    def start(self) -> np.ndarray:
        """The server's first model, [run, P]."""
        return np.stack([self.model.init(rng) for rng in self.rng("start")])

    def train(
        self, params: np.ndarray, t: int, *, who: np.ndarray | None = None, on: Shards | None = None
    ) -> np.ndarray:
        """Local training from `params` ([run, P], or [run, client, P] for personal models): [run, client, P].

        `who` [run, client] says who trains (others return what they were given); `on` replaces the training rows.
        """
        shards = on or self.shards["train"]
        runs, clients = self.sizes.shape
        theta = np.empty((runs, clients, self.model.size), np.float32)
        theta[:] = params[:, None] if params.ndim == 2 else params
        chosen = np.flatnonzero(np.ones(runs * clients, bool) if who is None else np.asarray(who, bool).ravel())
        run = chosen // clients
        start, stop = shards.start[:, :-1].ravel()[chosen], shards.start[:, 1:].ravel()[chosen]
        key = self._keys("train", t)[run, chosen % clients]
        how = dict(
            adam=self.local.optimizer == "adam",
            decay=self.local.decay,
            epochs=self.local.epochs,
            batch=self.local.batch,
        )
        lr = np.broadcast_to(np.asarray(self.local.lr, np.float32), runs)
        flat = theta.reshape(runs * clients, -1)
        if self.engine == "kernel":
            part = flat if who is None else flat[chosen]
            kernels.train(shards.X, shards.y, shards.weight, shards.index, start, stop, part, run, self.shift, self.scale,
                          hidden=self.model.hidden, lr=lr, key=key, **how)  # type: ignore[attr-defined]  # fmt: skip
            flat[chosen] = part
        else:
            for i, r in enumerate(run):
                X, y, _, weight = self._rows(shards, r, start[i], stop[i])
                flat[chosen[i]] = reference.train(
                    self.model, X, y, weight, flat[chosen[i]], lr=lr[r], key=key[i], **how
                )
        return theta

    def report(self, params: np.ndarray, on: Part = "train", *, cross: bool = False) -> np.ndarray:
        """Confusion counts by group, [run, client, a, y, yhat].

        params [run, P]: the server's model on every client's rows. [run, client, P]: each client's model on its own rows;
        with `cross`, params [run, model, P]: every model on every client's rows, [run, model, client, a, y, yhat].
        """
        return self._score(params, on, cross, loss=False)[0]

    def losses(self, params: np.ndarray, on: Part = "train", *, cross: bool = False) -> np.ndarray:
        """Mean log loss in the shapes of `report`, [run, client] (NaN for a client without rows)."""
        counts, losses = self._score(params, on, cross, loss=True)
        with np.errstate(invalid="ignore"):
            return losses / counts.sum(axis=(-3, -2, -1))

    def gradients(self, params: np.ndarray, *, on: Shards | None = None) -> np.ndarray:
        """Per-client gradient of the weighted sum of log losses over its rows, [run, client, P].

        Weights may be signed, so one call serves a loss (weights 1/n) and a gap between groups (+1/n_0, -1/n_1).
        """
        shards = on or self.shards["train"]
        runs, clients = self.sizes.shape
        start, stop = shards.start[:, :-1].ravel(), shards.start[:, 1:].ravel()
        run = np.repeat(np.arange(runs), clients)
        theta = params.reshape(-1, self.model.size)
        model = run if params.ndim == 2 else np.arange(runs * clients)
        if self.engine == "kernel":
            out = kernels.gradients(shards.X, shards.y, shards.weight, shards.index, start, stop, theta, model, run,
                                    self.shift, self.scale, hidden=self.model.hidden)  # type: ignore[attr-defined]  # fmt: skip
        else:
            out = np.zeros((runs * clients, self.model.size), np.float32)
            for i, r in enumerate(run):
                X, y, _, weight = self._rows(shards, r, start[i], stop[i])
                out[i] = reference.gradient(self.model, X, y, weight, theta[model[i]])
        return out.reshape(runs, clients, -1)

    def slopes(self, params: np.ndarray, t: int = 0, batch: int = 0, on: Part = "train") -> tuple[np.ndarray, np.ndarray]:
        """Each client's mean log loss [run, client] and its gradient [run, client, P], over all of its rows.

        t and batch are for federations that can draw `batch` rows for round t; here batch is 0.
        """
        if batch:
            raise FairFLError(f"A federation over a table takes slopes over all rows: set batch=0, not {batch}.")
        shards = self.shards[on]
        return self.losses(params, on), self.gradients(params, on=shards) / shards.sizes[..., None]

    def sum(self, messages: np.ndarray) -> np.ndarray:
        """What the server learns from one message per client: their sum, [run, client, ...] -> [run, ...]."""
        return self.aggregate(np.asarray(messages, np.float64))

    def average(self, stacked: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """sum_k w_k theta_k / sum_k w_k, both sums through the aggregator: [run, client, P] -> [run, P]."""
        weights = np.asarray(weights, np.float64)[..., None]
        total = self.sum(np.concatenate([weights * stacked, weights], axis=2))
        return (total[:, :-1] / total[:, -1:]).astype(stacked.dtype)

    def run(
        self, method: Method, rounds: int, *, record: Sequence[Part] = ("test",), remember: Sequence[str] = ()
    ) -> History:
        """`rounds` rounds of `method`; records confusion counts of the server's model on each part after every round,
        and the named entries of the method's memory."""
        if rounds < 1:
            raise FairFLError(f"A run needs at least one round, not {rounds}.")
        for part in record:
            choose(part, self.shards, "part of the data")
        state = method.start(self)
        counts: dict[str, list[np.ndarray]] = {part: [] for part in record}
        memory: dict[str, list[np.ndarray]] = {name: [] for name in remember}
        for t in range(1, rounds + 1):
            state = method.round(self, state, t)
            for part in record:
                counts[part].append(self.report(state.params, part))
            for name in remember:
                memory[name].append(state[name])
        return History(method.name, self.seeds, {part: np.stack(c, 1) for part, c in counts.items()}, state,
                       {name: np.stack(m, 1) for name, m in memory.items()})  # fmt: skip

    def _keys(self, purpose: str, t: int) -> np.ndarray:
        """64-bit keys of the streams (seed, purpose, t, client), [run, client]."""
        name = zlib.crc32(purpose.encode())
        return self._by_seed(lambda seed: np.random.SeedSequence([seed, name, t]).generate_state(self.clients, np.uint64))

    def _by_seed(self, draw: Callable[[int], np.ndarray]) -> np.ndarray:
        """draw(seed) for every run, each seed drawn once: [run, ...]."""
        seeds, run = np.unique(self.seeds, return_inverse=True)
        return np.stack([draw(int(seed)) for seed in seeds])[run]

    def _rows(self, shards: Shards, run: Any, start: Any, stop: Any) -> tuple[np.ndarray, ...]:
        rows = shards.index[start:stop]
        weight = shards.weight[start:stop] if shards.weight.size else np.ones(len(rows), np.float32)
        return (shards.X[rows] - self.shift[run]) * self.scale[run], shards.y[rows], shards.a[rows], weight

    def _score(self, params: np.ndarray, on: Part, cross: bool, loss: bool) -> tuple[np.ndarray, np.ndarray]:
        shards = self.shards[on]
        runs, clients = shards.sizes.shape
        models = params.shape[1] if cross else 1
        shape = (runs, models, clients) if cross else (runs, clients)
        run = np.repeat(np.arange(runs), models * clients)
        replica = np.arange(runs * models * clients)
        client = run * clients + replica % clients
        model = run if params.ndim == 2 else (run * models + replica // clients % models if cross else client)
        theta = params.reshape(-1, self.model.size)
        start, stop = shards.start[:, :-1].ravel()[client], shards.start[:, 1:].ravel()[client]
        if self.engine == "kernel":
            counts, losses = kernels.score(shards.X, shards.y, shards.a, shards.index, start, stop, theta, model, run,
                                           self.shift, self.scale, hidden=self.model.hidden, loss=loss)  # type: ignore[attr-defined]  # fmt: skip
        else:
            counts, losses = np.zeros((run.size, 2, 2, 2), np.int64), np.zeros(run.size)
            for i, r in enumerate(run):
                X, y, a, _ = self._rows(shards, r, start[i], stop[i])
                counts[i], losses[i] = reference.score(self.model, X, y, a, theta[model[i]])
        return counts.reshape(*shape, 2, 2, 2), losses.reshape(shape) if loss else losses


@dataclass(frozen=True)
class History:
    """What happened: counts[part] [run, round, client, a, y, yhat], the last state, and remembered memory [run, round, ...]."""

    method: str
    seeds: tuple[int, ...]
    counts: Mapping[str, np.ndarray]
    state: State
    memory: Mapping[str, np.ndarray]

    def values(self, metric: str, on: Part = "test") -> np.ndarray:
        """One metric of the server's model after each round, [run, round]."""
        return metrics.of_federation(metric, self.counts[choose(on, self.counts, "recorded part of the data")])

    def frame(self, on: Part = "test", which: Sequence[str] = metrics.FEDERATION) -> pd.DataFrame:
        """Tidy: method, seed, round, metric, value; `client` is -1 for the federation, else the client's own metric."""
        parts = []
        for metric in which:
            whole = self.values(metric, on)
            each = metrics.of_clients(metric, self.counts[on])
            stacked = np.concatenate([whole[..., None], *([each] if each is not None else [])], axis=2)
            run, t, client = (axis.ravel() for axis in np.indices(stacked.shape))
            parts.append(pd.DataFrame({"method": self.method, "seed": np.asarray(self.seeds)[run], "round": t + 1,
                                       "client": client - 1, "metric": metric, "value": stacked.ravel()}))  # fmt: skip
        return pd.concat(parts, ignore_index=True)
