"""A federation: the clients of every run, and what a method may ask of them.

A run is one seed, or one seed under one setting of the local training. A method asks those who take part, `who`, and arrays
lead with [run, participant, ...]; parameters are flat, [run, P] for the server's model and [run, participant, P] for the
participants'. One call serves every participant of every run at once, and memory follows those who are asked. Randomness comes
from named streams (seed, purpose, round, client), so results depend neither on the order of calls nor on the number of
threads, and methods compared on one seed share everything but themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from fairfl_lite import engines, streams
from fairfl_lite.clients.attacks import Attack
from fairfl_lite.clients.local import Local
from fairfl_lite.data.rotation import rotate
from fairfl_lite.data.shards import Examples, Pixels, Shards, Standard
from fairfl_lite.engines import Engine, Of, Work, mean_loss
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import kept
from fairfl_lite.federation.history import History
from fairfl_lite.federation.state import Answer, Method, Models, State
from fairfl_lite.models import Dense, Model

if TYPE_CHECKING:
    from fairfl_lite.data import Images, Partition, Table

Aggregate = Callable[[np.ndarray], np.ndarray]
FIRST = 8  # rows of a client by which models are compared first, see Federation.lowest


def plain_sum(messages: np.ndarray) -> np.ndarray:
    """Sum over participants in float64, [run, participant, ...] -> [run, ...]; the insecure aggregator."""
    return np.asarray(messages, np.float64).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Federation:
    """The clients of every run.

    shards : their rows by part ("train", "test", ...). inputs : how a model reads a row. participants : how many clients take
    part in a round, 0 for all. engine : "fused", which serves tabular models and RankFF's network and leaves others to "plain",
    "plain", or an Engine. first : where all runs start, [P], instead of at random. diverged : what happens to a model that is
    not finite; "refuse" stops with a sentence, "keep" goes on, and it has no prediction, no loss and so no metric. attack : what
    malicious clients make of the models and gradients they send; None is a federation of honest ones. aggregate : how messages of
    those who take part are added up; `SecAgg` hides them from the server, and as many as it is made for take part in every run.
    A client without training rows takes no part in any round and weighs nothing.
    """

    shards: Mapping[str, Shards]
    model: Model
    local: Local
    seeds: tuple[int, ...]
    inputs: Standard | Pixels
    aggregate: Aggregate = plain_sum
    engine: str | Engine = "fused"
    participants: int = 0
    first: np.ndarray | None = None
    diverged: Literal["refuse", "keep"] = "refuse"
    attack: Attack | None = None

    @classmethod
    def of(cls, table: Table, partition: Partition, seeds: Sequence[int], local: Local, *, hidden: int = 0,
           model: Model | None = None, test: float = 0.2, validation: float = 0.0, minimum: int = 10,
           central: bool = False, **options: Any) -> Federation:  # fmt: skip
        """Split and partition `table` once per seed; `minimum` as in Partition.clients.

        Test and validation rows go to clients in the training proportions; with `central` they stay whole at the server,
        as parts of one client. A table in another scaling than "standard" is used as it is.
        """
        seeds = _seeds(seeds)
        runs = []
        for seed in seeds:
            split = table.split(seed, test=test, validation=validation)
            held = {part: split.pop(part) for part in ("validation", "test") if central}
            dealt = partition.clients(table, split, seed, minimum) | {part: [rows] for part, rows in held.items()}
            runs.append({part: [rows.astype(np.int32) for rows in clients] for part, clients in dealt.items()})
        examples = Examples(table.X, table.y, table.a)
        shards = {part: Shards.deal(examples, [run[part] for run in runs]) for part in runs[0]}
        scaled = table.scaling == "standard"
        inputs = Standard.of(shards["train"]) if scaled else Standard.plain(len(seeds), table.X.shape[1])
        model = model or Dense(table.X.shape[1], hidden, classes=examples.classes)
        return cls(shards, model, local, seeds, inputs, **options)

    @classmethod
    def of_images(cls, images: Images, rotations: Sequence[float], seeds: Sequence[int], local: Local, model: Model, *,
                  train: int, test: int, validation: int = 0, probe: int = 0, look: int = 0, skip: int = 0,
                  **options: Any) -> Federation:  # fmt: skip
        """One client for each angle, in degrees, with images turned by it: `train` and `validation` of the training images after
        the first `skip`, and `test` of the test images; no image with two clients, drawn anew for each seed.

        Part "probe" is the first rows of "train", part "look" of "test": for questions that are asked a hundred times over.
        """
        n, seeds = len(rotations), _seeds(seeds)
        pools = {"train": (skip, images.train, train + validation), "test": (images.train, len(images), test)}
        for part, (low, high, each) in pools.items():
            if not 0 < each * n <= high - low:
                raise FairFLError(f"{n} clients cannot have {each} {part} images each, there are {high - low} in all.")
        drawn: dict[str, list[list[np.ndarray]]] = {part: [] for part in ("train", "validation", "test")}
        for seed in seeds:
            dealt = {p: deal(seed, p, low, high, n, each) for p, (low, high, each) in pools.items()}
            drawn["train"].append([rows[:train] for rows in dealt["train"]])
            drawn["validation"].append([rows[train:] for rows in dealt["train"]])
            drawn["test"].append(dealt["test"])
        shards = {part: turned(images, runs, rotations) for part, runs in drawn.items()}
        shards |= {"probe": shards["train"].head(probe or train), "look": shards["test"].head(look or test)}
        return cls(shards, model, local, seeds, Pixels.of(images.name), **options)

    def __post_init__(self) -> None:
        runs = len(self.seeds)
        _seeds(self.seeds)
        self.local.rates(runs, 1)
        if "train" not in self.shards:
            raise FairFLError('A federation needs a part "train" in its shards.')
        if getattr(self._engine, "model", self.model) != self.model:
            raise FairFLError("The engine was made for another model: give engine=Plain(model), or its name.")
        choose(self.diverged, ("refuse", "keep"), "way with diverged runs named")
        for part, shards in self.shards.items():
            if len(shards.start) != runs:
                raise FairFLError(f"Part {part!r} has rows for {len(shards.start)} runs, and there are {runs} seeds.")
            self.inputs.check(part, shards.X, runs)
            if shards.examples.classes > self.model.classes:
                raise FairFLError(f"Labels of part {part!r} go up to {shards.examples.classes - 1}, but the model tells "
                                  f"{self.model.classes} classes apart: give it classes={shards.examples.classes}.")  # fmt: skip
        object.__setattr__(self, "shards", _alike(self.shards, self.model.classes))
        if getattr(self.model, "features", columns := self.shards["train"].X.shape[1]) != columns:
            raise FairFLError(f"The model reads rows of {self.model.features} features and there are {columns}.")  # type: ignore[attr-defined]
        if self.first is not None and (np.shape(self.first) != (self.model.size,) or not np.isfinite(self.first).all()):
            other = np.shape(self.first) != (self.model.size,)
            found = f"of shape {np.shape(self.first)}" if other else "with NaN or infinite ones"
            raise FairFLError(f"The first model must be {self.model.size} finite numbers, not {found}.")
        if not isinstance(self.participants, int | np.integer):
            raise FairFLError(f"participants must be a whole number, not {self.participants!r}.")
        if not 0 <= self.participants <= self.clients:
            raise FairFLError(f"Of {self.clients} clients, {self.participants} cannot take part: 0 stands for all of them.")
        if not self.sizes().sum(1).all():
            raise FairFLError(f"Nobody has training rows in the run of seed {self.seeds[int(self.sizes().sum(1).argmin())]}.")
        if self.attack is not None:
            self.attack.malicious(self)
        wanted = getattr(self.aggregate, "clients", 0)
        there = (self.who(1) >= 0).sum(1) if wanted else np.zeros(runs, int)  # as in every other round
        for r in np.flatnonzero(there != wanted):
            raise FairFLError(f"In the run of seed {self.seeds[r]} {there[r]} clients take part, and the secure sum is over "
                              f"{wanted}: make SecAgg for as many, and a federation of their own for others.")  # fmt: skip

    def repeat(self, n: int) -> Federation:
        """Every seed n times over, as more runs over the same rows: run = setting * seeds + seed."""
        lr = self.local.lr if np.size(self.local.lr) == 1 else tuple(np.tile(self.local.lr, n))
        shards = {part: s.repeat(n) for part, s in self.shards.items()}
        return replace(self, shards=shards, local=replace(self.local, lr=lr), seeds=self.seeds * n, inputs=self.inputs.repeat(n))

    def across(self, lr: Sequence[float]) -> Federation:
        """Every seed under every learning rate: run = setting * seeds + seed."""
        rates = tuple(np.repeat(np.asarray(lr, float), len(self.seeds)))
        return replace(repeated := self.repeat(len(lr)), local=replace(repeated.local, lr=rates))

    @cached_property
    def _engine(self) -> Engine:
        return engines.get(self.engine, self.model)

    @cached_property
    def honest(self) -> Federation:
        """The same clients without the attack: for what they train and keep to themselves."""
        return replace(self, attack=None) if self.attack else self

    @property
    def clients(self) -> int:
        return self.shards["train"].clients

    def sizes(self, who: np.ndarray | None = None) -> np.ndarray:
        """Training rows of each client [run, client], or of those in `who` [run, participant]."""
        sizes = self.shards["train"].sizes
        return sizes if who is None else gather(sizes, who)

    def shares(self, who: np.ndarray | None = None) -> np.ndarray:
        """n_k / n in the shape of `sizes`, n the rows of all that are asked about."""
        sizes = self.sizes(who)
        return sizes / sizes.sum(axis=1, keepdims=True)

    def who(self, t: int) -> np.ndarray:
        """Who takes part in round t, [run, participant], ascending: `participants` of the clients with rows, drawn without
        replacement, or all of them. -1 fills up a run that has fewer."""
        if not self.participants:
            return self.everybody()
        drawn = self._by_seed(lambda seed: streams.stream(seed, f"participants {t}").permutation(self.clients))
        return self._first(drawn, self.participants)

    def everybody(self) -> np.ndarray:
        """All clients with training rows, [run, participant], ascending; -1 fills up a run that has fewer."""
        return self._first(np.broadcast_to(np.arange(self.clients), self.sizes().shape), self.clients)

    def _first(self, place: np.ndarray, most: int) -> np.ndarray:
        """The clients with rows that have the first places, place [run, client]."""
        has = self.sizes() > 0
        order = np.argsort(np.where(has, place, self.clients), axis=1, kind="stable")
        chosen = np.where(np.take_along_axis(has, order, 1), order, self.clients)[:, : min(most, int(has.sum(1).max()))]
        chosen = np.sort(chosen, axis=1)
        return np.where(chosen < self.clients, chosen, -1)

    def require_rows(self, on: str) -> None:
        """Refuses a part of the data in which a client that takes part has no rows to be asked about."""
        shards = self._part(on)
        if shards.clients != self.clients or ((shards.sizes == 0) & (self.sizes() > 0)).any():
            raise FairFLError(f"Every client that trains needs rows in part {on!r}: deal it some, or ask about another part.")

    def rng(self, purpose: str, t: int = 0) -> list[np.random.Generator]:
        """One generator per run from the stream (seed, purpose, t)."""
        return [streams.stream(seed, purpose, t) for seed in self.seeds]

    def start(self) -> np.ndarray:
        """The server's first model, [run, P]."""
        if self.first is not None:
            kind = np.float64 if np.asarray(self.first).dtype == np.float64 else np.float32
            return np.tile(np.asarray(self.first, kind), (len(self.seeds), 1))
        return np.stack([self.model.init(rng) for rng in self.rng("start")])

    def train(self, params: np.ndarray, t: int, *, who: np.ndarray | None = None, on: Shards | None = None,
              local: Local | None = None, toward: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
        """Local training from `params` ([run, P], or [run, participant, P] for personal models): [run, participant, P].

        who : who trains, all clients if None; one without rows returns what it was given. on : other rows than the training
        part's. local : another training than the federation's. toward : the anchor of its proximal term, in a shape of params.
        """
        local = local or self.local
        work, who = self._work(on or self.shards["train"], who)
        theta = self._each(self._finite(params), who)
        anchor = None if toward is None else self._each(toward, who).reshape(-1, self.model.size)
        key = gather(self._keys("train", t), who).ravel()
        lr = np.repeat(local.rates(len(self.seeds), t), who.shape[1])
        self._engine.train(work, theta.reshape(-1, self.model.size), local, lr, key, anchor)
        if self.diverged == "refuse" and not (fine := np.isfinite(theta).all(2)).all():
            r, i = np.argwhere(~fine)[0]
            raise FairFLError(f"Client {who[r, i]} of seed {self.seeds[r]} diverged in round {t}: its model is not finite, "
                              f"so lower its learning rate ({lr[r * who.shape[1] + i]:g}).")  # fmt: skip
        return self.attack.trained(self, self._each(params, who), theta, who, t) if self.attack else theta

    def report(self, params: Answer, on: str = "train", *, who: np.ndarray | None = None, cross: bool = False) -> np.ndarray:
        """Confusion counts [run, participant, group, label, prediction], of all clients of the part if `who` is None.

        params [run, P]: the server's model on everybody's rows. [run, participant, P]: each model on its own client's rows;
        with `cross`, params [run, model, P]: every model on every client's rows, [run, model, participant, ...].
        """
        return self._score(params, on, who, cross, loss=False)[0]

    def losses(self, params: Answer, on: str = "train", *, who: np.ndarray | None = None, cross: bool = False) -> np.ndarray:
        """Mean log loss in the shapes of `report`, [run, participant] (NaN for a client without rows)."""
        counts, losses = self._score(params, on, who, cross, loss=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return losses / counts.sum(axis=(-3, -2, -1))

    def lowest(self, models: np.ndarray, on: str = "train", *, who: np.ndarray | None = None) -> np.ndarray:
        """Which of models [run, model, P] has the lowest mean log loss on the rows of each participant, [run, participant]: the
        first of equals, 0 for a client without rows.

        The answer is that of `losses`, with most rows unread: no loss is negative, so a model is given up when its sum over a
        client's first rows is above that of another one over all.
        """
        work, who = self._work(self._part(on), who)
        count, rows = self._shaped(models, 0).shape[1], work.rows
        theta = self._finite(models.reshape(-1, self.model.size))
        sums, whole = np.zeros((len(rows), count)), np.full((len(rows), count), np.inf)
        open_ = np.isfinite(theta).all(1).reshape(len(who), count)[work.run]
        steps = [0, *(FIRST << k for k in range(64) if FIRST << k < rows.max(initial=0)), int(rows.max(initial=0))]

        def read(pairs: np.ndarray, low: int, high: int) -> None:
            i, q = np.nonzero(pairs & (rows > low)[:, None])
            start = work.start[i] + low
            part = replace(work, run=work.run[i], start=start, stop=np.minimum(start + high - low, work.stop[i]))
            found = self._engine.score(part, theta, work.run[i] * count + q, loss=True)[1]
            sums[i, q] += np.nan_to_num(found, nan=np.inf)

        for k, (low, high) in enumerate(pairwise(steps)):
            read(open_, low, high)
            if not k:  # the one that is ahead is read to the end
                ahead = open_ & (np.arange(count) == np.where(open_, sums, np.inf).argmin(1)[:, None])
                for rest in pairwise(steps[1:]):
                    read(ahead, *rest)
                whole[ahead], open_ = sums[ahead], open_ & ~ahead
            open_ &= sums <= whole.min(1)[:, None]
        whole[open_] = sums[open_]
        return whole.argmin(1).reshape(who.shape)

    def logits(self, params: Answer, on: str = "train", *, who: np.ndarray | None = None) -> list[list[np.ndarray]]:
        """The logits of the rows of each client, [run][participant] of [rows] or [rows, classes], in the order of its rows."""
        work, who = self._work(self._part(on), who)
        theta, model = self._models(params, who, on)
        pieces = np.split(self._engine.logits(work, theta, model), work.ends[:-1])
        return [pieces[r * who.shape[1] : (r + 1) * who.shape[1]] for r in range(len(who))]

    def gradient(self, params: Answer, of: Of = mean_loss, *, on: str = "train", who: np.ndarray | None = None, t: int = 0,
                 batch: int = 0) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Any function of the logits of a client's rows, and its gradient by the parameters.

        of : called with logits, labels and groups of a client's rows, as torch tensors; gives one value, and the answer is
        ([run, participant], [run, participant, P]), or a vector, ([run, participant, value], [run, participant, value, P]).
        By default the mean log loss. batch : how many rows of each client, drawn for round t; 0 for all of them. The round also
        draws what a malicious client sends at random.
        A client without rows has the value NaN and the gradient 0.
        """
        if not isinstance(batch, int | np.integer) or batch < 0:
            raise FairFLError(f"batch must be a whole number of at least 0, not {batch!r}.")
        part = self._part(on)
        once = not batch and not part.weight.size and self._engine.counts(of)
        work, who = self._work(part.distinct if once else replace(part, weight=part.weight[:0]), who)
        if batch:
            work = self._drawn(work, gather(self._keys("slopes", t), who).ravel(), batch)
        theta, model = self._models(params, who, on)
        values, slopes = self._engine.pull(work, theta, model, of)
        values, slopes = values.reshape(*who.shape, -1), slopes.reshape(*who.shape, -1, self.model.size)
        slopes = self.attack(self, slopes, who, t) if self.attack else slopes
        return (values[..., 0], slopes[..., 0, :]) if values.shape[-1] == 1 else (values, slopes)

    def sum(self, messages: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """What the server learns from one message per participant: sum_k w_k m_k, [run, participant, ...] -> [run, ...].

        With the plain sum one participant is added after the other, so that no second copy of all messages is made. A run that
        diverged and is kept cannot be summed securely, and gets NaN.
        """
        if weights is None:
            return self._added(np.asarray(messages, np.float64))
        weights = np.asarray(weights, np.float64).reshape(*np.shape(weights), *[1] * (np.ndim(messages) - 2))
        if self.aggregate is not plain_sum:
            return self._added(weights * messages)
        total = weights[:, 0] * messages[:, 0]
        for k in range(1, messages.shape[1]):
            total += weights[:, k] * messages[:, k]
        return total

    def _added(self, messages: np.ndarray) -> np.ndarray:
        if self.aggregate is plain_sum or self.diverged == "refuse":
            return self.aggregate(messages)
        fine = (np.abs(messages) < getattr(self.aggregate, "limit", np.inf)).reshape(len(messages), -1).all(1)
        found = np.full((len(messages), *messages.shape[2:]), np.nan)
        if fine.any():
            found[fine] = self.aggregate(messages[fine])
        return found

    def average(self, stacked: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """sum_k w_k theta_k / sum_k w_k, both sums through the aggregator in one message: [run, participant, P] -> [run, P]."""
        weights = np.broadcast_to(np.asarray(weights, np.float64), stacked.shape[:2])
        if self.aggregate is plain_sum:
            total, whole = self.sum(stacked, weights), self.sum(np.ones((*weights.shape, 1)), weights)
        else:
            both = self.sum(np.concatenate([weights[..., None] * stacked, weights[..., None]], axis=2))
            total, whole = both[:, :-1], both[:, -1:]
        return (total / whole).astype(stacked.dtype)

    def run(self, method: Method, rounds: int, *, record: Sequence[str] = ("test",), remember: Sequence[str] = (),
            look: int = 1, keep: Path | str | None = None, every: int = 1) -> History:  # fmt: skip
        """`rounds` rounds of `method`; records confusion counts of its answer on each part after every round, and the named
        entries of its memory; with `look` only after every so many rounds, of which `rounds` is a multiple.

        keep : a folder. After every `every` rounds all that was found is kept there, and a run of the same method on the same
        federation goes on from it, to the same bytes as one that was never stopped.
        """
        if rounds < 1 or every < 1:
            raise FairFLError(f"A run needs at least one round, and so does what is kept; not {rounds} and {every}.")
        if look < 1 or rounds % look:
            raise FairFLError(f"The last of {rounds} rounds must be recorded: record every so many that divide them, not {look}.")
        for part in record:
            choose(part, self.shards, "part of the data")
        if method.must_see and self.aggregate is not plain_sum:
            raise FairFLError(f"{method.name} must see {method.must_see}, and the aggregate of this federation shows the server "
                              "sums alone: leave out `aggregate`, or take a method for which they suffice.")  # fmt: skip
        book = kept.Book(self, method, record, remember, Path(keep), look) if keep else kept.Book.empty(record, remember)
        done, state = book.open(rounds)
        state = state or method.start(self)
        for t in range(done + 1, rounds + 1):
            before, state = state, method.round(self, state, t)
            if self.diverged == "refuse" and not (fine := np.isfinite(state.params).all(1)).all():
                run = int(fine.argmin())
                raise FairFLError(
                    f"After round {t} the model of {method.name} is not finite for seed {self.seeds[run]}: "
                    + (self._nobody(before, state, t, run) or "lower the learning rate, or the setting of the method that makes "
                       "its steps long.")
                )  # fmt: skip
            if t % look:
                continue
            answer = method.answer(state)
            book.add({part: self.report(answer, part) for part in record}, {name: state[name] for name in remember})
            if keep and (t % every == 0 or t == rounds):
                book.save(t, state)
        counts, memory = book.stacked()
        return History(method.name, self.seeds, counts, state, method.answer(state), memory, look)

    def _nobody(self, before: State, after: State, t: int, run: int) -> str:
        """Where the model of a run is not a number although nobody's loss was large: which place has no loss."""
        who = self.who(t)
        empty, without = np.flatnonzero(who[run] < 0), np.flatnonzero(self.sizes()[run] == 0)
        large = not np.isfinite(self.losses(before.params, who=who)[run, who[run] >= 0]).all()
        if large or not without.size or not np.isnan(after.params[run]).any():
            return ""
        place = f", and nobody fills place {empty[0]} of fed.who({t})" if empty.size else ""
        return (f"client {without[0]} has no training rows{place}. Its losses are NaN: leave them out of the step, "
                "for example by np.where(who >= 0, losses, 0).")  # fmt: skip

    def _part(self, on: str) -> Shards:
        return self.shards[choose(on, self.shards, "part of the data")]

    def _keys(self, purpose: str, t: int) -> np.ndarray:
        """64-bit keys of the streams (seed, purpose, t, client), [run, client]."""
        return self._by_seed(lambda seed: streams.keys(seed, purpose, t, self.clients))

    def _by_seed(self, draw: Callable[[int], np.ndarray]) -> np.ndarray:
        """draw(seed) for every run, each seed drawn once: [run, ...]."""
        seeds, run = np.unique(self.seeds, return_inverse=True)
        return np.stack([draw(int(seed)) for seed in seeds])[run]

    def _each(self, params: np.ndarray, who: np.ndarray) -> np.ndarray:
        """A copy of the model of each participant, [run, participant, P]."""
        self._shaped(params, who.shape[1])
        theta = np.empty((*who.shape, self.model.size), params.dtype)
        theta[:] = params[:, None] if params.ndim == 2 else params
        return theta

    def _work(self, shards: Shards, who: np.ndarray | None) -> tuple[Work, np.ndarray]:
        """The replicas of those in `who`, all clients of these shards if None; a participant -1 has no rows."""
        if who is None:
            who = np.broadcast_to(np.arange(shards.clients), shards.sizes.shape)
        elif (np.ndim(who) != 2 or len(who) != len(self.seeds) or np.asarray(who).dtype.kind not in "iu"
              or np.max(who, initial=-1) >= shards.clients or np.min(who, initial=0) < -1):  # fmt: skip
            raise FairFLError(f"who must be numbers of clients [run, participant] from 0 to {shards.clients - 1}, as fed.who(t) "
                              f"gives for {len(self.seeds)} runs, not of shape {np.shape(who)}.")  # fmt: skip
        who = np.asarray(who)
        start, stop = (gather(ends, who).ravel() for ends in (shards.start[:, :-1], shards.start[:, 1:]))
        run = np.repeat(np.arange(len(who)), who.shape[1])
        return Work(shards.examples, self.inputs, shards.index, shards.weight, run, start, stop), who

    def _drawn(self, work: Work, key: np.ndarray, batch: int) -> Work:
        """The same replicas on `batch` of their rows."""
        rows = [work.index[a:b][np.random.default_rng(k).permutation(b - a)[:batch]]
                for a, b, k in zip(work.start, work.stop, key, strict=True)]  # fmt: skip
        stop = np.cumsum([len(each) for each in rows])
        start = stop - [len(each) for each in rows]
        return replace(work, index=np.concatenate(rows), weight=work.weight[:0], start=start, stop=stop)

    def _models(self, params: Answer, who: np.ndarray, on: str) -> tuple[np.ndarray, np.ndarray]:
        """All models [model, P], and which of them each replica takes."""
        runs, many = who.shape
        if isinstance(params, Models):
            models, of = self._shaped(params.models, 0), np.asarray(params.of)
            clients = self._part(on).clients
            if of.shape != (runs, clients) or of.dtype.kind not in "iu" or not 0 <= of.min() <= of.max() < models.shape[1]:
                raise FairFLError(
                    f"Models.of must name one of {models.shape[1]} models for all {clients} clients of part {on!r}."
                )
            which = np.arange(runs)[:, None] * models.shape[1] + gather(of, who)
            return self._finite(models.reshape(-1, self.model.size)), which.ravel()
        theta = self._shaped(params, many).reshape(-1, self.model.size)
        return self._finite(theta), np.repeat(np.arange(runs), many) if params.ndim == 2 else np.arange(runs * many)

    def _shaped(self, params: np.ndarray, many: int) -> np.ndarray:
        """Models [run, P] or [run, model, P], as many as there are clients (any number if 0)."""
        runs, size = len(self.seeds), self.model.size
        good = isinstance(params, np.ndarray) and params.dtype.kind == "f" and params.ndim in ((2, 3) if many else (3,))
        if not good or len(params) != runs or params.shape[-1] != size or (many and params.ndim == 3 and params.shape[1] != many):
            wanted = f"[{runs}, {size}] or [{runs}, {many}, {size}]" if many else f"[{runs}, model, {size}]"
            raise FairFLError(
                f"Models must be numbers of shape {wanted}, [run, (who is asked,) parameter], not {np.shape(params)}."
            )
        return params

    def _finite(self, theta: np.ndarray) -> np.ndarray:
        if self.diverged == "refuse" and not np.isfinite(theta).all():
            raise FairFLError("A model that is not finite cannot be asked or trained: lower the learning rate, leave out losses "
                              "of clients without rows (who is -1), which are NaN, or set diverged='keep'.")  # fmt: skip
        return theta

    def _score(self, params: Answer, on: str, who: np.ndarray | None, cross: bool, loss: bool) -> tuple[np.ndarray, np.ndarray]:
        shards = self._part(on)
        work, who = self._work(shards, who)
        shape: tuple[int, ...] = who.shape
        if cross:
            params = self._shaped(params, 0)  # type: ignore[arg-type]
            runs, models, many = len(who), params.shape[1], who.shape[1]
            shape = (runs, models, many)
            place = (np.arange(runs)[:, None, None] * many + np.zeros((1, models, 1), int) + np.arange(many)).ravel()
            work = replace(work, run=work.run[place], start=work.start[place], stop=work.stop[place])
            theta, model = self._finite(params.reshape(-1, self.model.size)), np.repeat(np.arange(runs * models), many)
        else:
            theta, model = self._models(params, who, on)
        fine = np.isfinite(theta).all(1) if self.diverged == "keep" else np.ones(len(theta), bool)
        if not fine.all():
            theta = np.where(fine[:, None], theta, 0)
        counts, losses = self._engine.score(work, theta, model, loss)
        counts[~fine[model]] = 0
        if loss:
            losses[~fine[model]] = np.nan
        return counts.reshape(*shape, *counts.shape[1:]), losses.reshape(shape) if loss else losses


def gather(values: np.ndarray, who: np.ndarray, absent: float = 0) -> np.ndarray:
    """values [run, client] of those in `who`, [run, participant]; `absent` where there is nobody (-1)."""
    return np.where(who >= 0, np.take_along_axis(np.asarray(values), np.maximum(who, 0), 1), np.asarray(absent, values.dtype))


def scatter(values: np.ndarray, who: np.ndarray, clients: int, absent: float) -> np.ndarray:
    """values [run, participant] in their clients' places, [run, client]; `absent` for the others."""
    out = np.full((len(who), clients + 1), absent, np.result_type(values, type(absent)))
    np.put_along_axis(out, who, values, 1)  # -1 is the place behind the last client
    return out[:, :-1]


def deal(seed: int, part: str, low: int, high: int, clients: int, each: int) -> list[np.ndarray]:
    """`each` of the rows low..high-1 for each client, none twice."""
    rows = low + streams.stream(seed, f"images {part}").permutation(high - low)[: clients * each]
    return np.split(rows, clients)


def turned(images: Images, runs: Sequence[Sequence[np.ndarray]], rotations: Sequence[float]) -> Shards:
    """Shards over copies of the chosen images, turned by their client's angle."""
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    index: list[list[np.ndarray]] = []
    at = 0
    for run in runs:
        index.append([])
        for rows, angle in zip(run, rotations, strict=True):
            x.append(rotate(torch.as_tensor(images.x[rows]), float(angle)).numpy())
            y.append(images.y[rows])
            index[-1].append(np.arange(at, at + len(rows)))
            at += len(rows)
    labels = np.concatenate(y)
    return Shards.of(np.concatenate(x), labels, np.zeros(len(labels), np.int8), index, classes=images.classes)


def _alike(parts: Mapping[str, Shards], classes: int) -> Mapping[str, Shards]:
    """The parts with as many classes as the model tells apart, so that all counts have one shape; examples stay shared."""
    made: dict[int, Examples] = {}
    found = {}
    for name, part in parts.items():
        examples = part.examples
        if examples.classes != classes:
            examples = made.setdefault(id(examples), replace(examples, classes=classes))
        found[name] = part if examples is part.examples else replace(part, examples=examples)
    return found


def _seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    seeds = tuple(seeds)
    if not seeds or not all(isinstance(seed, int | np.integer) and seed >= 0 for seed in seeds):
        raise FairFLError(f"A federation needs seeds, whole numbers of at least 0, not {seeds}.")
    return seeds
