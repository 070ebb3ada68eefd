"""A federation whose clients are somewhere else: the same questions, answered by workers that keep the rows of their clients.

The methods and the driver are those of any federation. Requests of one kind are divided by who holds the clients, each worker
answers its part in one call of its own engine, and the parts are put back into their places. What a client computes depends on
its seed, its number and its round alone, so the bits are those of one process. A worker is a federation in which other clients
have no rows.

A worker is asked for nothing before it has shown that its code, its libraries, its processor and the rows that it keeps are those
of this process. What comes back is arrays without pickles, checked before anything is made of them. Schedulers and workers of
Dask run what they are sent: see `require_protected`.
"""

from __future__ import annotations

import io
import logging
import pickle
import platform
import socket
import sys
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from ipaddress import ip_address
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from fairfl_lite import imports
from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.data.shards import Examples, Pixels, Shards, Standard
from fairfl_lite.engines import Of
from fairfl_lite.errors import FairFLError, LostError, choose
from fairfl_lite.federation.core import Federation, _alike, _places, _require_numbers
from fairfl_lite.federation.one import Request

if TYPE_CHECKING:
    import pandas as pd

TICK = 0.5
"""Seconds after which it is looked whether a worker that has not answered is still there."""
REACH = 20.0
"""Seconds for a scheduler to take a connection, after which it counts as gone."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "torch")
Messages = Mapping[str, bytes]
Lost = Mapping[str, str]
"""Workers that cannot be reached any more, each with a few words on what happened to it."""


class Workers(Protocol):
    """Who answers. names : the workers, in order."""

    names: tuple[str, ...]

    def ask(self, messages: Messages, first: bool = False) -> tuple[Messages, Lost]:
        """Send each of some workers a message, and wait until it has answered or is lost; the `first` brings its rows."""
        ...

    def close(self) -> None:
        """Have them forget the rows."""
        ...


# --- what a federation knows of rows that are elsewhere


@dataclass(frozen=True, eq=False, repr=False)
class Elsewhere(Shards):
    """How many rows each client has, without the rows. told : the digest that they have. away : clients that take no part."""

    told: str = ""
    away: tuple[int, ...] = ()

    @classmethod
    def instead_of(cls, shards: Shards) -> Elsewhere:
        blank = replace(shards.examples, X=shards.X[:0], y=shards.y[:0], a=shards.a[:0])
        return cls(blank, shards.index[:0], shards.start, told=shards.digest)

    def __post_init__(self) -> None:
        """Nothing is here that could be wrong."""

    def __repr__(self) -> str:
        return f"Elsewhere({len(self.start)} runs, {self.clients} clients, {self.sizes.sum():,} places)"

    @property
    def digest(self) -> str:
        return self.told

    def only(self, clients: np.ndarray) -> Shards:
        stay = np.isin(np.arange(self.clients), clients)
        ends = np.where(stay, self.sizes, 0).cumsum(1)
        start = np.concatenate([np.zeros((len(ends), 1), np.int64), ends], axis=1)
        return replace(self, start=start, away=tuple(np.flatnonzero(~stay).tolist()))

    def rows(self, run: int, client: int) -> np.ndarray:
        raise FairFLError("The rows of this federation are with its workers: ask its clients, as a method does.")

    def head(self, most: int) -> Shards:
        raise FairFLError("The rows of this federation are with its workers: take the first of them before it is spread.")

    def weighted(self, by: np.ndarray) -> Shards:
        raise FairFLError("The rows of this federation are with its workers: weigh them before it is spread.")

    def census(self) -> np.ndarray:
        raise FairFLError("The rows of this federation are with its workers: ask for group_label_counts, as a method does.")


@dataclass(frozen=True, eq=False, repr=False)
class SpreadFederation(Federation):
    """A federation whose clients are with workers, made by `Federation.over`.

    It runs methods and answers questions as any federation does. Parts of the data that the server keeps stay in this process.

    Attributes
    ----------
    workers : Workers
        Who answers.
    holder : ndarray of int, shape (n_clients,)
        With which of ``workers.names`` each client is.
    lost : {"stop", "leave out"}
        What happens when a worker is lost, see `Federation.over`.
    traffic : Traffic
        What was sent so far.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FedAvg, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(2), ClientTraining(lr=0.1))
    >>> spread = fed.over(2)
    >>> spread
    SpreadFederation(seeds=0,1, clients=3 with 2 workers, model=Dense(features=3, hidden=0, start='uniform', classes=2))

    The examples of the methods below go on from these lines.
    """

    workers: Any = field(default=None, compare=False)
    holder: Any = field(default=None, compare=False)
    lost: Literal["stop", "leave out"] = field(default="stop", compare=False)
    traffic: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        gone = f", gone={dict(self.gone)}" if self.gone else ""
        return (f"SpreadFederation(seeds={_some(self.seeds)}, clients={self.clients} with {len(self.workers.names)} workers, "
                f"model={self.model!r}{gone})")  # fmt: skip

    def __enter__(self) -> SpreadFederation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Have the workers forget the rows.

        Examples
        --------
        >>> spread.close()
        """
        self.workers.close()

    @cached_property
    def together(self) -> tuple[Any, ...]:
        return (*super().together, id(self.workers))

    def clients_of(self, workers: Iterable[str]) -> list[int]:
        """The numbers of the clients that are with these workers.

        Examples
        --------
        >>> spread.clients_of(["worker 0"])
        [0]
        """
        places = [self.workers.names.index(name) for name in workers]
        return [int(k) for k in np.flatnonzero(np.isin(self.holder, places))]

    def after_losing(self, lost: LostError, t: int) -> Federation:
        if lost.workers is not self.workers:
            return self
        news = {k: t for k in lost.clients if self.gone.get(k, t + 1) > t}
        if self.lost == "stop" or not news or len({**self.gone, **news}) == self.clients:
            raise LostError(f"{lost.what} in round {t}{ADVICE}", lost.clients, lost.workers, lost.what) from lost
        warnings.warn(f"{lost.what} in round {t}: from this round on they take no part.", stacklevel=2)
        return replace(self, gone=dict(sorted({**self.gone, **news}.items())))

    # --- questions

    def _is_here(self, on: str) -> bool:
        return not isinstance(self._part(on), Elsewhere)

    def _trained(
        self, requests: Sequence[Request], local: ClientTraining, t: int, prepared: bool, anchored: bool
    ) -> list[np.ndarray]:
        (theta,) = self._elsewhere(("train", local, t, prepared, anchored), "train", requests)
        self._refuse_diverged(requests, theta, t)
        return [theta[place] for place in _places(requests)]

    def _scored(self, requests: Sequence[Request], on: str, loss: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        if self._is_here(on):
            return super()._scored(requests, on, loss)
        counts, losses = self._elsewhere(("score", on, loss), on, requests)
        return [(counts[place], losses[place] if loss else losses) for place in _places(requests)]

    def _logits(self, requests: Sequence[Request], on: str) -> list[list[np.ndarray]]:
        if self._is_here(on):
            return super()._logits(requests, on)
        (found,) = self._elsewhere(("logits", on), on, requests)
        return [found[place] for place in _places(requests)]

    def _summarised(self, requests: Sequence[Request], on: str, of: Callable[..., np.ndarray]) -> list[np.ndarray]:
        if self._is_here(on):
            return super()._summarised(requests, on, of)
        (found,) = self._elsewhere(("summary", on, of), on, requests)
        return [found[place] for place in _places(requests)]

    def _pulled(self, requests: Sequence[Request], on: str, of: Of, t: int, batch: int) -> list[tuple[np.ndarray, np.ndarray]]:
        if self._is_here(on):
            return super()._pulled(requests, on, of, t, batch)
        values, slopes = self._elsewhere(("gradient", on, of, t, batch), on, requests)
        return [(values[place], slopes[place]) for place in _places(requests)]

    def _counted(self, requests: Sequence[Request], on: str) -> list[np.ndarray]:
        if self._is_here(on):
            return super()._counted(requests, on)
        (found,) = self._elsewhere(("counts", on), on, requests)
        return [found[place] for place in _places(requests)]

    def _best(self, requests: Sequence[Request], on: str, count: int) -> list[np.ndarray]:
        if self._is_here(on):
            return super()._best(requests, on, count)
        (found,) = self._elsewhere(("best model", on, count), on, requests)
        return [found[place] for place in _places(requests)]

    def _elsewhere(self, kind: tuple[Any, ...], on: str, requests: Sequence[Request]) -> list[Any]:
        """The answers of all clients that are asked, side by side, from the workers that hold them."""
        part = self._part(on)
        clients = np.concatenate([request.clients for request in requests])
        _require_numbers(clients, part)
        run = np.repeat([request.run for request in requests], [len(request.clients) for request in requests])
        rows = part.sizes[run, clients]
        at = self.holder[clients]
        asked = np.unique(at[rows > 0])
        at = np.where(rows > 0, at, asked[0] if asked.size else 0)  # anybody can answer for a client without rows
        places = {self.workers.names[w]: np.flatnonzero(at == w) for w in (asked if asked.size else [0])}
        first = np.cumsum([0, *(len(request.clients) for request in requests)])
        settings = (self.model, self.engine, self.shards["train"].away)  # type: ignore[attr-defined]
        messages = {}
        for name, its in places.items():
            cut = np.split(its, np.searchsorted(its, first[1:-1]))
            some = [_for_some(request, own - begin) for request, own, begin in zip(requests, cut, first[:-1], strict=True)]
            messages[name] = dumps((kind, settings, [one for one in some if len(one[1])]))
        replies, lost = self.workers.ask(messages)
        self.traffic.add(kind[0], messages, replies, len(clients))
        expected = _Expected(self, kind, requests[0].theta.dtype, part)
        found: dict[str, list[np.ndarray]] = {}
        for name, reply in replies.items():
            try:
                found[name] = expected.checked(unpacked(reply), run[places[name]], rows[places[name]])
            except _Malformed as wrong:
                lost = {**lost, name: f"sent {wrong}"}
        if lost:
            raise self.lost_error(lost)
        return _joined(kind[0], [(places[name], found[name]) for name in places], len(clients), rows)

    def lost_error(self, lost: Lost) -> LostError:
        """The sentence about workers that were lost, with their clients."""
        each = (f"the worker {name}, which has {_named(self.clients_of([name]))}, {why}" for name, why in lost.items())
        said = ", and ".join(each)
        said = said[0].upper() + said[1:]
        return LostError(f"{said}{ADVICE}", self.clients_of(lost), self.workers, said)


ADVICE = (": start workers anew and call fed.over again, and a run with checkpoint_dir goes on from what it kept; or give "
          "lost='leave out' to go on without these clients.")  # fmt: skip


def _named(clients: Sequence[int]) -> str:
    if len(clients) == 1:
        return f"client {clients[0]}"
    shown = [*map(str, clients)] if len(clients) < 10 else [*map(str, clients[:8]), f"{len(clients) - 8} others"]
    return f"clients {', '.join(shown[:-1])} and {shown[-1]}"


def _some(seeds: Sequence[int]) -> str:
    from fairfl_lite.federation.history import listed

    return listed(seeds)


def _for_some(request: Request, some: np.ndarray) -> tuple[Any, ...]:
    """A request to some of its clients, with no other models than theirs: run, clients, models, who has which, options."""
    own = request.own
    if own:  # of training: rate, rows, anchor
        rate, rows, anchor = own
        if rows is not None:
            rows = replace(rows, weights=None if rows.weights is None else rows.weights[some],
                           balanced=None if rows.balanced is None else rows.balanced[some])  # fmt: skip
        own = (rate, rows, None if anchor is None else _used(anchor[0], anchor[1][some]))
    several = request.kind[0] == "best model"  # all of them for each client
    theta, model = (request.theta, request.model[some]) if several else _used(request.theta, request.model[some])
    return request.run, request.clients[some], theta, model, own


def _used(theta: np.ndarray, model: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The models that somebody takes, and who takes which of these."""
    if len(theta) == 1 or not len(model):
        return theta, model
    kept, which = np.unique(model, return_inverse=True)
    return (theta, model) if len(kept) == len(theta) else (theta[kept], which)


class _Malformed(Exception):
    """What a worker sent is not what was asked for."""


@dataclass(frozen=True)
class _Expected:
    """What the answers to a request must look like."""

    fed: SpreadFederation
    kind: tuple[Any, ...]
    dtype: Any
    part: Shards

    def checked(self, arrays: list[np.ndarray], run: np.ndarray, rows: np.ndarray) -> list[Any]:
        """The arrays of a worker for clients of these runs that have so many rows.

        FairFLError in the words of the worker when it refused to answer.
        """
        name, n = self.kind[0], len(rows)
        classes, groups, size = self.fed.model.classes, self.part.examples.groups, self.fed.model.size
        keeps = self.fed.diverged == "keep"
        if name == "train":
            self._require(arrays, ((n, size), self.dtype))
        elif name == "score":
            loss = self.kind[2]
            self._require(arrays, ((n, groups, classes, classes), np.int64), ((n if loss else 0,), np.float64))
            seen = arrays[0].sum((1, 2, 3))
            if (arrays[0] < 0).any() or not ((seen == rows) | ((seen == 0) & keeps)).all():
                raise _Malformed("counts of rows that a client does not have")
            self._require_finite(arrays[1])
        elif name == "logits":
            some = (int(rows.sum()),) if classes == 2 else (int(rows.sum()), classes)
            self._require(arrays, (some if rows.sum() else arrays[0].shape, self.dtype))
            self._require_finite(arrays[0])
            return [np.split(arrays[0], rows.cumsum()[:-1])]
        elif name == "gradient":
            many = arrays[0].shape[1] if arrays and arrays[0].ndim == 2 else 1
            exact = len(arrays) == 2 and arrays[1].dtype == np.float64  # as engines answer that add up in double precision
            self._require(arrays, ((n, many), np.float64), ((n, many, size), np.float64 if exact else self.dtype))
            for array in arrays:
                self._require_finite(array[rows > 0])
        elif name == "summary":
            if len(arrays) != 1 or not arrays[0].ndim or len(arrays[0]) != n or arrays[0].dtype.kind not in "biuf":
                raise _Malformed("no summary of numbers for each client")
            self._require_finite(arrays[0][rows > 0])
        elif name == "counts":
            self._require(arrays, ((n, groups, classes), np.int64))
            if (arrays[0] < 0).any() or (arrays[0].sum((1, 2)) != rows).any():
                raise _Malformed("counts of rows that a client does not have")
        else:
            self._require(arrays, ((n,), np.int64))
            if ((arrays[0] < 0) | (arrays[0] >= self.kind[2])).any():
                raise _Malformed("the number of a model that there is not")
        return arrays

    def _require(self, arrays: Sequence[np.ndarray], *wanted: tuple[tuple[int, ...], Any]) -> None:
        found = [(array.shape, array.dtype) for array in arrays]
        if found != [(shape, np.dtype(dtype)) for shape, dtype in wanted]:
            said = " and ".join(f"{dtype} of shape {shape}" for shape, dtype in found) or "nothing"
            need = " and ".join(f"{np.dtype(dtype)} of shape {shape}" for shape, dtype in wanted)
            raise _Malformed(f"{said} where {need} was asked for")

    def _require_finite(self, array: np.ndarray) -> None:
        if self.fed.diverged == "refuse" and not np.isfinite(array).all():
            raise FairFLError(f"The answers of clients to {self.kind[0]!r} are not all finite: lower the learning rate, or set "
                              "diverged='keep'.")  # fmt: skip


def _joined(kind: str, found: Sequence[tuple[np.ndarray, list[Any]]], n: int, rows: np.ndarray) -> list[Any]:
    """The answers of workers in the places of their clients, [n, ...]."""
    joined: list[Any] = []
    for parts in zip(*(arrays for _, arrays in found), strict=True):
        if kind == "logits":
            whole: Any = [None] * n
            for (places, _), part in zip(found, parts, strict=True):
                for place, logits in zip(places, part, strict=True):
                    whole[place] = logits
        elif kind == "score" and not sum(len(part) for part in parts):  # losses that nobody asked for
            whole = parts[0]
        else:
            if len({part.shape[1:] for part in parts}) > 1:
                raise FairFLError("A function of logits must give equally many values for every client.")
            whole = np.empty((n, *parts[0].shape[1:]), parts[0].dtype)
            for (places, _), part in zip(found, parts, strict=True):
                whole[places] = part
        joined.append(whole)
    return joined


@dataclass
class Traffic:
    """What was sent so far, by what was asked: how often, of how many clients, bytes to workers and bytes back.

    They are the bytes of the messages themselves, without what Dask, TLS and the network add.
    """

    by_question: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, question: str, out: Messages, back: Messages, clients: int) -> None:
        now = np.array(
            [1, clients, sum(map(len, out.values())), sum(len(reply) for reply in back.values() if isinstance(reply, bytes))]
        )
        self.by_question[question] = self.by_question.get(question, 0) + now

    def frame(self) -> pd.DataFrame:
        import pandas as pd

        names = ["times", "clients", "bytes out", "bytes back"]
        return pd.DataFrame.from_dict(self.by_question, orient="index", columns=names).rename_axis("question")


# --- what travels


def dumps(message: Any) -> bytes:
    """A message to a worker. Functions that are in no module go as their code where cloudpickle is there, as with Dask."""
    try:
        from cloudpickle import dumps as dump
    except ImportError:
        from pickle import dumps as dump
    try:
        return bytes(dump(message, pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        raise FairFLError(f"This cannot be sent to a worker ({error}): ask with functions and settings of a module.") from error


def packed(arrays: Sequence[np.ndarray]) -> bytes:
    """Arrays as bytes, without a pickle."""
    out = io.BytesIO(b"a")
    out.seek(1)
    for array in arrays:
        np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()


def unpacked(reply: Any) -> list[np.ndarray]:
    """The arrays of an answer; _Malformed for what is none, FairFLError for a refusal in a worker's words."""
    if not isinstance(reply, bytes) or not reply:
        raise _Malformed(f"a {type(reply).__name__} where bytes were asked for")
    if reply[:1] in (b"r", b"l", b"b"):
        text = reply[1:].decode(errors="replace")
        if reply[:1] == b"l":
            raise _Malformed(text)
        raise FairFLError(text) if reply[:1] == b"r" else RuntimeError(f"A worker failed.\n{text}")
    stream, arrays = io.BytesIO(reply), list[np.ndarray]()
    stream.seek(1)
    try:
        while stream.tell() < len(reply):
            arrays.append(np.lib.format.read_array(stream, allow_pickle=False))
    except Exception as error:
        raise _Malformed("what is no array") from error
    return arrays


# --- at a worker


class _Held(Federation):
    """The federation as a worker has it: clients of others have no rows, and perhaps nobody has any in some run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shards", _alike(self.shards, self.model.classes))


@dataclass(frozen=True, eq=False)
class HeldRows:
    """The rows of some clients: all parts of the data that they have, and how a model reads a row.

    few_valued : of each feature of a table whether it has few values, see `Examples`; a matter of all rows.
    """

    shards: Mapping[str, Shards]
    seeds: tuple[int, ...]
    inputs: Standard | Pixels
    few_valued: Sequence[np.ndarray | None]

    @classmethod
    def of(cls, fed: Federation, clients: np.ndarray, parts: Iterable[str]) -> HeldRows:
        """The rows of these clients and of nobody else."""
        held = {name: fed.shards[name].only(clients) for name in parts}
        made: dict[int, tuple[Examples, np.ndarray]] = {}
        few: list[np.ndarray | None] = []
        for part in held.values():
            whole = part.examples
            if id(whole) in made:
                continue
            used = np.unique(np.concatenate([each.index for each in held.values() if each.examples is whole]))
            table = whole.X.ndim == 2
            if table:  # equal rows go by the first of them: they must keep that order, whoever has the first
                used = used[np.lexsort((used, whole.first[used]))]
            place = np.zeros(len(whole), np.int32)
            place[used] = np.arange(len(used))
            own = Examples(whole.X[used], whole.y[used], whole.a[used], whole.classes, whole.groups)
            made[id(whole)] = own, place
            few.append(whole.few_valued if table else None)
        shards = {name: replace(each, examples=made[id(each.examples)][0], index=made[id(each.examples)][1][each.index])
                  for name, each in held.items()}  # fmt: skip
        return cls(shards, fed.seeds, fed.inputs, few)

    @property
    def digest(self) -> str:
        """sha256 of all that it holds."""
        from fairfl_lite.federation.kept import digest

        few = [np.empty(0, bool) if one is None else one for one in self.few_valued]
        return digest({part: shards.digest for part, shards in self.shards.items()}, self.seeds, self.inputs, few)

    def again(self) -> HeldRows:
        """The same with digests that are worked out anew from the rows as they are now."""
        made: dict[int, Examples] = {}
        for each in self.shards.values():
            made.setdefault(id(each.examples), replace(each.examples))
        shards = {name: replace(each, examples=made[id(each.examples)]) for name, each in self.shards.items()}
        return replace(self, shards=shards)


class Holder:
    """What a worker keeps."""

    def __init__(self, held: HeldRows) -> None:
        self.held = held
        seen: dict[int, Examples] = {}
        for shards in held.shards.values():
            seen.setdefault(id(shards.examples), shards.examples)
        for examples, few in zip(seen.values(), held.few_valued, strict=True):
            if few is not None:
                vars(examples)["few_valued"] = few
        self._made: dict[bytes, _Held] = {}

    def answer(self, message: bytes) -> bytes:
        """The arrays that are asked for, as bytes."""
        kind, settings, asked = pickle.loads(message)
        fed = self._federation(settings)
        requests = [Request(fed, run, kind, clients, _own(theta), model, own) for run, clients, theta, model, own in asked]
        return packed(_flat(kind[0], fed.answer(requests)))

    def _federation(self, settings: tuple[Any, ...]) -> _Held:
        key = pickle.dumps(settings)
        if key not in self._made:
            model, engine, away = settings
            while len(self._made) > 7:
                self._made.pop(next(iter(self._made)))
            shards = self.held.shards
            if away:
                stay = np.setdiff1d(np.arange(next(iter(shards.values())).clients), away)
                shards = {part: held.only(stay) for part, held in shards.items()}
            fed = _Held(shards, model, ClientTraining(), self.held.seeds, self.held.inputs, engine=engine, diverged="keep")
            for part, held in fed.shards.items():  # what is told of the features, also where classes differ
                if held.examples is not shards[part].examples and "few_valued" in vars(shards[part].examples):
                    vars(held.examples)["few_valued"] = shards[part].examples.few_valued
            self._made[key] = fed
        return self._made[key]


def _own(array: np.ndarray) -> np.ndarray:
    """An array that may be written to, as everywhere else: kernels are compiled for these."""
    return array if array.flags.writeable else array.copy()


def _flat(kind: str, answers: Sequence[Any]) -> list[np.ndarray]:
    """The answers to several requests as arrays, those of all clients side by side."""
    if kind == "logits":
        pieces = [logits for answer in answers for logits in answer]
        there = [logits for logits in pieces if len(logits)] or pieces[:1]
        return [np.concatenate(there)]
    if kind == "gradient":
        return [np.concatenate(parts) for parts in zip(*answers, strict=True)]
    if kind == "score":
        counts, losses = zip(*answers, strict=True)
        return [np.concatenate(counts), np.concatenate(losses) if len(losses[0]) else losses[0]]
    return [np.concatenate(answers)]


HELD: dict[str, Holder] = {}
"""What this process keeps as a worker, by the token of a federation."""


def fingerprints() -> dict[str, str]:
    """All that answers depend on beside rows and questions, by name; digests have 64 digits."""
    from llvmlite.binding import get_host_cpu_name

    found = {name: version(name) for name in LIBRARIES}
    found["python"] = platform.python_version()
    found["processor"] = f"{platform.machine()} {get_host_cpu_name()}"  # other kinds round otherwise
    return found | {"code of fairfl_lite": imports.whole("fairfl_lite")}


def take(token: str, first: bytes) -> bytes:
    """A worker is given its rows, unless something of it differs from where they come from."""
    try:
        held, digest, ours = pickle.loads(first)
        theirs = fingerprints()
        other = []
        for name in (name for name, value in ours.items() if theirs.get(name) != value):
            long = len(ours[name]) == 64
            other.append(f"other {name}" if long else f"{name} {theirs.get(name, 'missing')} instead of {ours[name]}")
        if other:
            return f"lhas {', '.join(other)}".encode()
        if held.again().digest != digest:
            return b"lhas other rows than it was sent"
        HELD[token] = Holder(held)
        return packed([])
    except Exception:
        return b"b" + traceback.format_exc().encode()


def answer(token: str, message: bytes) -> bytes:
    """What a worker says to a message: arrays; or why not."""
    if token not in HELD:
        return b"lhas been started anew and has no rows any more"
    try:
        return HELD[token].answer(message)
    except FairFLError as error:
        return b"r" + str(error).encode()
    except Exception:
        return b"b" + traceback.format_exc().encode()


def forget(token: str) -> None:
    HELD.pop(token, None)


# --- ways to workers


class Played:
    """Workers that are played in this process; messages are bytes as they would travel."""

    def __init__(self, count: int) -> None:
        self.token = uuid.uuid4().hex
        self.names = tuple(f"worker {w}" for w in range(count))
        self.ended: dict[str, str] = {}

    def ask(self, messages: Messages, first: bool = False) -> tuple[Messages, Lost]:
        lost = {name: self.ended[name] for name in messages if name in self.ended}
        do = take if first else answer
        return {name: do(f"{self.token} {name}", sent) for name, sent in messages.items() if name not in lost}, lost

    def close(self) -> None:
        for name in self.names:
            forget(f"{self.token} {name}")


class OnDask:
    """The workers of a Dask cluster, as they are now. Each has one message at a time."""

    def __init__(self, client: Any, names: Sequence[str], patience: float, owned: bool) -> None:
        self.client, self.names, self.patience, self.owned = client, tuple(names), patience, owned
        self.token, self.away = uuid.uuid4().hex, False
        self.where = client.scheduler.address if client.scheduler else "?"
        self.ended: dict[str, str] = {}

    def ask(self, messages: Messages, first: bool = False) -> tuple[Messages, Lost]:
        from distributed import CancelledError
        from distributed.client import ClosedClientError

        waiting: dict[str, Any] = {}
        replies: dict[str, bytes] = {}
        try:
            for name, message in messages.items():
                if name not in self.ended:
                    waiting[name] = self._sent(name, message, first)
            self._answered(waiting, replies)
        except (OSError, CancelledError, ClosedClientError):
            self.away = True
            for name in messages:
                if name not in replies and name not in self.ended:
                    self.ended[name] = f"cannot be reached, since the scheduler of {self.where} went away"
        return replies, {name: self.ended[name] for name in messages if name in self.ended}

    def _sent(self, name: str, message: bytes, first: bool) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on large messages: they are as large as models are
            return self.client.submit(
                take if first else answer, self.token, message, workers=[name], pure=False, allow_other_workers=False
            )

    def _answered(self, waiting: dict[str, Any], replies: dict[str, bytes]) -> None:
        """Wait until every one has answered or is lost."""
        from distributed import wait

        began = monotonic()
        waiting = dict(waiting)
        while waiting:
            try:
                wait([*waiting.values()], timeout=TICK, return_when="FIRST_COMPLETED")
            except TimeoutError:
                here = self.client.nthreads()
                late = monotonic() - began > self.patience
                for name in [*waiting]:
                    if waiting[name].done():
                        continue
                    if name not in here:
                        self._lose(name, "ended", waiting)
                    elif late:
                        self._lose(name, f"has not answered for {self.patience:g} seconds", waiting)
            for name in [name for name, future in waiting.items() if future.done()]:
                future = waiting[name]
                if future.status == "finished":
                    try:
                        replies[name] = future.result(timeout=TICK)
                    except TimeoutError:  # it has answered, and does not hand the answer out
                        if name not in self.client.nthreads():
                            self._lose(name, "ended", waiting)
                        elif monotonic() - began > self.patience:
                            self._lose(name, f"has not answered for {self.patience:g} seconds", waiting)
                        continue
                    del waiting[name]
                elif future.status == "error":  # before anything of ours began: the package is missing there, or is another
                    said = str(future.exception()).partition("\n")[0]
                    self._lose(name, f"cannot take what it is sent ({said})", waiting)
                else:
                    raise OSError("the scheduler took the question back")

    def _lose(self, name: str, why: str, waiting: dict[str, Any]) -> None:
        self.ended[name] = why
        waiting.pop(name).release()

    def close(self) -> None:
        try:
            here = {} if self.away else self.client.nthreads()
            names = [name for name in self.names if name in here and name not in self.ended]
            if names:
                self.client.run(forget, self.token, workers=names, on_error="ignore")
        except Exception as error:  # a cluster that is gone has forgotten them too
            logging.getLogger(__name__).debug("could not have rows forgotten: %s", error)
        if self.owned:
            self.client.close()


# --- who may be reached


def require_protected(addresses: Iterable[str], unprotected: bool) -> None:
    """Refuses plain addresses that others than this machine can reach, unless they are wanted."""
    for address in addresses:
        scheme, _, rest = address.rpartition("://")
        if scheme in ("tls", "wss", "inproc") or unprotected or _loopback(rest):
            continue
        raise FairFLError(
            f"Whoever reaches {address} can run code on all machines of that cluster and read what travels, since Dask takes "
            "pickles from anybody: use tls:// with the certificates that `fairfl certificates` makes, or give unprotected=True "
            "if nobody else can reach that network."
        )


def _loopback(rest: str) -> bool:
    """Whether HOST:PORT is on this machine alone."""
    host = rest.rpartition(":")[0].strip("[]") or rest
    try:
        return ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ip_address(one.partition("%")[0]).is_loopback for one in found)


# --- making it


def spread(fed: Federation, cluster: Any, *, lost: str, patience: float, security: Any, unprotected: bool) -> SpreadFederation:
    """See Federation.over."""
    choose(lost, ("stop", "leave out"), "way with lost workers named")
    if isinstance(fed, SpreadFederation):
        raise FairFLError("This federation is spread already: call over on the one that it was made of.")
    if not isinstance(patience, int | float) or not patience > 0:
        raise FairFLError(f"patience is a number of seconds above 0, not {patience!r}.")
    if isinstance(cluster, int) and not isinstance(cluster, bool):
        if cluster < 1:
            raise FairFLError(f"A federation needs at least one worker, not {cluster}.")
        workers: Workers = Played(min(cluster, fed.clients))
    else:
        workers = _on_dask(cluster, fed.clients, patience, security, unprotected)
    return dealt(fed, workers, lost)


def dealt(fed: Federation, workers: Workers, lost: str) -> SpreadFederation:
    """Give each worker the rows of its clients."""
    parts = [part for part, shards in fed.shards.items() if shards.clients == fed.clients]
    holder = _holders(sum(fed.shards[part].sizes for part in parts).max(0), len(workers.names))  # type: ignore[union-attr]
    kept = {part: Elsewhere.instead_of(shards) if part in parts else shards for part, shards in fed.shards.items()}
    given = fed.contents | {"shards": kept}
    made = SpreadFederation(**given, workers=workers, holder=holder, lost=lost, traffic=Traffic())  # type: ignore[arg-type]
    ours, firsts = fingerprints(), {}
    for w, name in enumerate(workers.names):
        held = HeldRows.of(fed, np.flatnonzero(holder == w), parts)
        firsts[name] = dumps((held, held.digest, ours))
    replies, gone = workers.ask(firsts, first=True)
    for name, reply in replies.items():
        try:
            unpacked(reply)
        except _Malformed as wrong:
            gone = {**gone, name: str(wrong)}
    made.traffic.add("rows", firsts, replies, fed.clients)
    try:
        return made.after_losing(made.lost_error(gone), 0) if gone else made  # type: ignore[return-value]
    except LostError:
        workers.close()
        raise


def _holders(rows: np.ndarray, workers: int) -> np.ndarray:
    """With whom each client is, [client]: one after the other, the largest first, goes to who has the fewest rows by then."""
    load, holder = np.zeros((workers, 2), np.int64), np.zeros(len(rows), np.int64)
    for k in np.argsort(-rows, kind="stable"):
        holder[k] = w = int(np.lexsort((load[:, 1], load[:, 0]))[0])
        load[w] += rows[k], 1
    return holder


def _on_dask(cluster: Any, most: int, patience: float, security: Any, unprotected: bool) -> OnDask:
    """The workers of a cluster, no more than there are clients."""
    if isinstance(cluster, str):
        require_protected([cluster], unprotected)
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise FairFLError(f"Dask is not installed: {sys.executable} -m pip install 'fairfl-lite[dask]'.") from None
    client, owned = cluster, isinstance(cluster, str)
    if owned:
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": REACH}), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # on versions: each worker compares those that count
                client = Client(cluster, timeout=REACH, security=security)
        except (OSError, ValueError, TypeError) as error:
            why = str(error).partition("\n")[0]
            raise FairFLError(f"No Dask scheduler answers at {cluster!r} ({why}): start one by `dask scheduler`, and give its "
                              "address, and security= if it has certificates.") from error  # fmt: skip
    if not isinstance(client, Client):
        raise FairFLError(
            f"A federation is spread over a Dask client, the address of its scheduler, or a number, not {cluster!r}."
        )
    try:
        about = client.scheduler_info(n_workers=-1)
        require_protected([client.scheduler.address, about["address"], *about["workers"]], unprotected)
        names = sorted(client.nthreads())[:most]
        if not names:
            raise FairFLError(f"The cluster of {client.scheduler.address} has no worker: start some by `dask worker ADDRESS`.")
    except BaseException:
        if owned:
            client.close()
        raise
    return OnDask(client, names, patience, owned)
