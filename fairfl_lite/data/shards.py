"""Rows as they were dealt: the examples that everybody shares, who holds which of them, and how a model reads them.

What is wrong with data is refused here, at the door: NaN and infinite features, codes outside their range, rows that do not
exist. Behind it every engine may trust what it reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairfl_lite.data.images import PIXELS
from fairfl_lite.errors import FairFLError, choose

FAR, HUGE = 1e4, 1e15
"""How many standard deviations a mean may be from 0, and how large a row may be when it is read, in single precision."""
STRIP = 1 << 16  # rows that are checked at a time, so that a check needs no copy of the data


@dataclass(frozen=True, eq=False)
class Examples:
    """The rows that all clients of all runs share.

    Parameters
    ----------
    X : ndarray of float32, shape (n, d), or of uint8, shape (n, channels, side, side)
        Rows of a table, or images. NaN and infinite values are refused.
    y : ndarray of int, shape (n,)
        Labels from 0.
    a : ndarray of int, shape (n,)
        Groups from 0.
    classes, groups : int
        How many there are; 0 counts them, as the largest code and one, and at least two.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import Examples
    >>> Examples(np.zeros((4, 2)), np.array([0, 1, 2, 0]), np.zeros(4, int))
    Examples(4 rows of 2 features, 3 classes, 2 groups)
    """

    X: np.ndarray
    y: np.ndarray
    a: np.ndarray
    classes: int = 0
    groups: int = 0

    def __post_init__(self) -> None:
        X = np.asarray(self.X)
        if X.ndim < 2 or X.dtype.kind not in "fiub":
            raise FairFLError(f"Examples need numbers [rows, features] or images, not {X.dtype} of shape {X.shape}.")
        if X.dtype != np.uint8 or X.ndim == 2:
            with np.errstate(over="ignore"):  # what single precision cannot hold becomes infinite, and is refused below
                X = np.ascontiguousarray(X, np.float32)
        object.__setattr__(self, "X", X)
        for name, many in (("y", "classes"), ("a", "groups")):
            codes, count = _codes(getattr(self, name), len(X), name, many, getattr(self, many))
            object.__setattr__(self, name, codes)
            object.__setattr__(self, many, count)
        if X.dtype == np.float32:
            _refuse_unless_finite(X)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.X.shape[1:]))
        return f"Examples({len(self):,} rows of {shape} features, {self.classes} classes, {self.groups} groups)"

    @cached_property
    def digest(self) -> str:
        """sha256 of all rows with their labels and groups."""
        return _digest(self.groups, self.X, self.y, self.a)

    @cached_property
    def few_valued(self) -> np.ndarray:
        """Which features of a table have 50 values or fewer, [feature]."""
        return np.array([len(np.unique(column)) <= 50 for column in self.X.T])

    @cached_property
    def first(self) -> np.ndarray:
        """For each row of a table the first one that is equal in features, label and group, [n]."""
        odd = np.random.default_rng(0).integers(1 << 62, size=self.X.shape[1] + 2, dtype=np.uint64) * 2 + 1
        mixed = self.y.astype(np.uint64) * odd[0] + self.a.astype(np.uint64) * odd[1]
        for j, column in enumerate(self.X.T):
            mixed += np.ascontiguousarray(column).view(np.uint32) * odd[j + 2]
        _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
        first = first[which]
        for begin in range(0, len(self), STRIP):  # rows that only their sums have in common stand for themselves
            here, there = slice(begin, begin + STRIP), first[begin : begin + STRIP]
            same = (self.X[here] == self.X[there]).all(1) & (self.y[here] == self.y[there]) & (self.a[here] == self.a[there])
            first[here] = np.where(same, there, np.arange(begin, begin + len(there)))
        return first


def _digest(said: object, *arrays: np.ndarray) -> str:
    whole = hashlib.sha256(str(said).encode())
    for array in arrays:
        whole.update(f"{array.dtype.str}{array.shape}".encode())
        whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()


def _codes(values: Any, rows: int, name: str, many: str, count: int) -> tuple[np.ndarray, int]:
    """Codes as the smallest signed integers that hold them, and how many there may be."""
    codes = np.asarray(values)
    what = "labels y" if name == "y" else "groups a"
    if codes.shape != (rows,) or codes.dtype.kind not in "iubf":
        raise FairFLError(
            f"The {what} must be one whole number for each of {rows} rows, not {codes.dtype} of shape {codes.shape}."
        )
    if not rows:
        return codes.astype(np.int8), max(count, 2)
    if codes.dtype.kind == "f" and not np.isfinite(codes).all():
        codes = np.where(np.isfinite(codes), codes, -1)
    count = count or max(2, int(codes.max()) + 1)
    if codes.min() < 0 or codes.max() >= count or (codes.dtype.kind == "f" and (codes != np.rint(codes)).any()):
        row = int(((codes < 0) | (codes >= count) | (codes != np.rint(codes))).argmax())
        said = np.asarray(values)[row]
        raise FairFLError(f"The {what} must be whole numbers from 0 to {count - 1}, but row {row} has {said}: recode them.")
    if count > 10_000:
        raise FairFLError(f"There are {count} {many}: codes must count from 0 without gaps of thousands, so recode them.")
    return codes.astype(np.int8 if count <= 127 else np.int16, copy=False), count


def _refuse_unless_finite(X: np.ndarray) -> None:
    for first in range(0, len(X), STRIP):
        bad = ~np.isfinite(X[first : first + STRIP])
        if bad.any():
            row, *place = (int(i) for i in np.argwhere(bad)[0])
            value, where = X[(first + row, *place)], ", ".join(map(str, place))
            raise FairFLError(
                f"Feature {where} of row {first + row} is {value}: replace or leave out what is not a finite number."
            )


@dataclass(frozen=True, eq=False)
class Shards:
    """Who holds which of the examples, in every run.

    Client k of run r has the rows ``index[start[r, k] : start[r, k + 1]]``. `Shards.of` makes it from lists of row numbers,
    and `Shards.deal` from examples and such lists.

    Parameters
    ----------
    examples : Examples
        The rows.
    index : ndarray of int, shape (n_places,)
        Numbers of rows, those of one client after those of the other.
    start : ndarray of int, shape (n_runs, n_clients + 1)
        Where each client's rows begin, and where those of the last end.
    weight : ndarray of shape (n_places,)
        What each row weighs in training; empty where all rows weigh alike.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import Shards
    >>> one_run = [np.array([0, 1]), np.array([2, 3, 4])]
    >>> shards = Shards.of(np.zeros((5, 2)), np.array([0, 1, 1, 0, 1]), np.array([0, 0, 1, 1, 1]), [one_run])
    >>> shards.sizes, shards.rows(run=0, client=1)
    (array([[2, 3]]), array([2, 3, 4], dtype=int32))
    """

    examples: Examples
    index: np.ndarray
    start: np.ndarray
    weight: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, a: np.ndarray, rows: Iterable[Sequence[np.ndarray]], *, classes: int = 0,
           groups: int = 0) -> Shards:  # fmt: skip
        """From rows[run][client], arrays of row numbers; taken run by run, so that a generator keeps memory small."""
        return cls.deal(Examples(X, y, a, classes, groups), rows)

    @classmethod
    def deal(cls, examples: Examples, rows: Iterable[Sequence[np.ndarray]]) -> Shards:
        """From rows[run][client], the row numbers of each client, and the examples they are of."""
        sizes: list[list[int]] = []
        pieces = [np.empty(0, np.int32)]
        for run in rows:
            sizes.append([len(client) for client in run])
            if any(np.asarray(client).dtype.kind not in "iu" for client in run if len(client)):
                raise FairFLError("Deal rows by their numbers, whole numbers from 0: np.flatnonzero makes them of a mask.")
            pieces += [np.asarray(client, np.int32) for client in run]
        if len({len(run) for run in sizes}) != 1:
            raise FairFLError(f"Every run needs the same number of clients, not {sorted({len(run) for run in sizes})}.")
        size = np.array(sizes, np.int64).reshape(len(sizes), -1)
        ends = size.cumsum().reshape(size.shape)
        return cls(examples, np.concatenate(pieces), np.concatenate([ends[:, :1] - size[:, :1], ends], axis=1))

    def __post_init__(self) -> None:
        if (
            self.start.ndim != 2
            or (np.diff(self.start, axis=1) < 0).any()
            or not 0 <= self.start.min() <= self.start.max() <= self.index.size
        ):
            raise FairFLError(f"Clients must begin and end within the {self.index.size} places of the index, in order.")
        if self.index.size and not 0 <= self.index.min() <= self.index.max() < len(self.examples):
            raise FairFLError(f"A client holds rows {self.index.min()} to {self.index.max()}: there are {len(self.examples)}.")
        fine = all(np.isfinite(self.weight[first : first + STRIP]).all() for first in range(0, self.weight.size, STRIP))
        if self.weight.size not in (0, self.index.size) or not fine:
            raise FairFLError("Weights of rows must be finite numbers, one for each row that a client holds.")

    def __repr__(self) -> str:
        return f"Shards({len(self.start)} runs, {self.clients} clients, {self.index.size:,} places, {self.examples!r})"

    @property
    def X(self) -> np.ndarray:
        return self.examples.X

    @property
    def y(self) -> np.ndarray:
        return self.examples.y

    @property
    def a(self) -> np.ndarray:
        return self.examples.a

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of each client, [run, client]."""
        return np.diff(self.start, axis=1)

    @property
    def clients(self) -> int:
        return self.start.shape[1] - 1

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.X, self.y, self.a, self.index, self.start, self.weight))

    def rows(self, run: int, client: int) -> np.ndarray:
        return self.index[self.start[run, client] : self.start[run, client + 1]]

    def head(self, most: int) -> Shards:
        """The first `most` rows of each client."""
        kept = [[self.rows(r, k)[:most] for k in range(self.clients)] for r in range(len(self.start))]
        return Shards.deal(self.examples, kept)

    def only(self, clients: np.ndarray) -> Shards:
        """The same clients, of whom these alone have rows."""
        stay, made, places, at = np.isin(np.arange(self.clients), clients), dict[tuple[int, ...], np.ndarray](), [], 0
        for ends in map(tuple, self.start.tolist()):
            if ends not in made:  # runs that share their rows go on sharing them
                size = np.where(stay, np.diff(ends), 0)
                made[ends] = at + np.concatenate([[0], size.cumsum()])
                places += [np.arange(ends[k], ends[k + 1]) for k in np.flatnonzero(size)]
                at += int(size.sum())
        kept = np.concatenate([np.empty(0, np.intp), *places])
        start = np.array([made[ends] for ends in map(tuple, self.start.tolist())], np.int64)
        return replace(self, index=self.index[kept], weight=self.weight[kept] if self.weight.size else self.weight, start=start)

    @cached_property
    def digest(self) -> str:
        """sha256 of who holds which row, and of the rows."""
        return _digest(self.examples.digest, self.index, self.start, self.weight)

    def repeat(self, n: int) -> Shards:
        """The same rows for n times as many runs."""
        return replace(self, start=np.tile(self.start, (n, 1)))

    @cached_property
    def distinct(self) -> Shards:
        """The same clients with equal rows counted once: each weighs how often its client has it, by group and label in order."""
        examples, made = self.examples, dict[tuple[int, ...], list[int]]()
        pieces, counts, at = [np.empty(0, np.int32)], [np.empty(0, np.float32)], 0
        for ends in map(tuple, self.start.tolist()):
            if ends in made:
                continue
            made[ends] = [at]
            for a, b in zip(ends, ends[1:], strict=False):
                rows, count = np.unique(examples.first[self.index[a:b]], return_counts=True)
                order = np.lexsort((rows, examples.y[rows], examples.a[rows]))
                pieces.append(rows[order].astype(np.int32))
                counts.append(count[order].astype(np.float32))
                made[ends].append(at := at + len(rows))
        start = np.array([made[ends] for ends in map(tuple, self.start.tolist())])
        return Shards(examples, np.concatenate(pieces), start, np.concatenate(counts))

    def census(self) -> np.ndarray:
        """Row counts by group and label, [run, client, group, label]."""
        return self._census

    @cached_property
    def _census(self) -> np.ndarray:
        groups, classes = self.examples.groups, self.examples.classes
        out = np.zeros((*self.sizes.shape, groups, classes), np.int64)
        for r, k in np.ndindex(*self.sizes.shape):
            rows = self.rows(r, k)
            codes = self.a[rows].astype(np.intp)
            codes *= classes
            codes += self.y[rows]
            out[r, k] = np.bincount(codes, minlength=groups * classes).reshape(groups, classes)
        out.flags.writeable = False
        return out

    def weighted(self, by: np.ndarray) -> Shards:
        """The same rows, each weighing what its client gives to its (group, label): by [run, client, group, label]."""
        if by.shape != (wanted := (*self.sizes.shape, self.examples.groups, self.examples.classes)):
            raise FairFLError(f"Weights by group and label must be of shape {wanted}, not {by.shape}.")
        weight = np.ones(self.index.size, np.float32)  # also where nobody holds the row
        for r, k in np.ndindex(*self.sizes.shape):
            rows = self.rows(r, k)
            weight[self.start[r, k] : self.start[r, k + 1]] = by[r, k][self.a[rows], self.y[rows]]
        return replace(self, weight=weight)


@dataclass(frozen=True, eq=False)
class Standard:
    """How a model reads a row of a table: (x - shift) * scale, with a run's own shift and scale [run, d]."""

    shift: np.ndarray
    scale: np.ndarray

    def __repr__(self) -> str:
        return "Standard({} runs, {} features)".format(*self.shift.shape)

    @classmethod
    def of(cls, shards: Shards) -> Standard:
        """Mean and 1/sd of each run's rows, float32 (scale 1 where a feature is constant)."""
        shift, scale = np.empty((len(shards.start), shards.X.shape[1])), np.ones((len(shards.start), shards.X.shape[1]))
        for r, start in enumerate(shards.start):
            rows = shards.index[start[0] : start[-1]]
            for j, column in enumerate(shards.X.T):  # a column at a time: no copy of the run's rows in double precision
                values = column[rows].astype(np.float64)
                sd = values.std()
                shift[r, j] = values.mean()
                if sd > 1e-6:
                    scale[r, j] = 1 / sd
        return cls(shift.astype(np.float32), scale.astype(np.float32))

    @classmethod
    def plain(cls, runs: int, features: int) -> Standard:
        """Rows as they are."""
        return cls(np.zeros((runs, features), np.float32), np.ones((runs, features), np.float32))

    @cached_property
    def alike(self) -> np.ndarray:
        """For each run the first one that reads rows as it does, [run]."""
        both = np.ascontiguousarray(np.concatenate([self.shift, self.scale], axis=1))
        _, first, which = np.unique(
            both.view(f"V{both.shape[1] * both.itemsize}").ravel(), return_index=True, return_inverse=True
        )
        return first[which]

    def check(self, part: str, X: np.ndarray, runs: int) -> None:
        """Refuses rows that these statistics do not fit, and what single precision could not hold."""
        if self.shift.shape != self.scale.shape or self.shift.shape != (runs, *X.shape[1:]):
            raise FairFLError(f"Part {part!r} has rows of shape {X.shape[1:]}, and shift and scale are {self.shift.shape}: they "
                              f"must be [run, feature] for {runs} runs.")  # fmt: skip
        if not (np.isfinite(self.shift).all() and np.isfinite(self.scale).all()):
            raise FairFLError("Shift and scale must be finite numbers.")
        far = np.abs(self.shift * self.scale).max(0, initial=0)
        large = np.maximum(np.abs(X.max(0, initial=0)), np.abs(X.min(0, initial=0))) * np.abs(self.scale).max(0, initial=0)
        if (far > FAR).any() or (large > HUGE).any():
            j = int(np.argmax(np.maximum(far / FAR, large / HUGE)))
            raise FairFLError(f"Feature {j} of part {part!r} lies so far from 0 for its spread that single precision loses it: "
                              "take its mean off and divide by its standard deviation first.")  # fmt: skip

    def repeat(self, n: int) -> Standard:
        return Standard(np.tile(self.shift, (n, 1)), np.tile(self.scale, (n, 1)))

    def __call__(self, X: Any, run: int) -> Any:
        """Rows of one run, numpy's or torch's."""
        shift, scale = self.shift[run], self.scale[run]
        if not isinstance(X, np.ndarray):
            shift, scale = X.new_tensor(shift), X.new_tensor(scale)
        return (X - shift) * scale


@dataclass(frozen=True)
class Pixels:
    """How a network reads uint8 images: (x / 255 - shift) / scale by channel, alike in every run."""

    shift: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    @classmethod
    def of(cls, name: str) -> Pixels:
        return cls(*PIXELS[choose(name, PIXELS, "dataset of images named")])

    def check(self, part: str, X: np.ndarray, runs: int) -> None:
        """Refuses what are no images of these channels."""
        channels = {len(self.shift), len(self.scale)}
        if X.ndim != 4 or not channels <= {1, X.shape[1]}:
            raise FairFLError(
                f"Part {part!r} has rows of shape {X.shape[1:]}: images have {max(channels)} channels and two sides."
            )
        if not np.isfinite([*self.shift, *self.scale]).all() or 0 in self.scale:
            raise FairFLError("What is taken off pixels, and what they are divided by, must be finite and the latter not 0.")

    def repeat(self, n: int) -> Pixels:
        return self

    def __call__(self, X: Any, run: int = 0) -> Any:
        import torch

        shift, scale = (torch.tensor(v).view(1, -1, 1, 1) for v in (self.shift, self.scale))
        return (torch.as_tensor(X).float() / 255 - shift) / scale
