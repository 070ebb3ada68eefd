"""A run that can stop and go on: what was found so far, in a file of arrays that appears whole."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairfl_lite import imports, store
from fairfl_lite.data.shards import Shards
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation.state import Method, State

if TYPE_CHECKING:
    from fairfl_lite.federation.core import Federation


class Book:
    """Counts and memory of each recorded round, [run, round, ...] in the end, and with a folder the state to go on from.

    The file is named by all that the run depends on: the data, the settings, the method, what is recorded, and the code that
    both are made of. A file that is not whole, or of another run, is as if it were not there.
    """

    _of: tuple[Method, list[Any], Path] | None

    def __init__(self, fed: Federation, method: Method, record: Sequence[str], remember: Sequence[str], folder: Path,
                 eval_every: int = 1) -> None:  # fmt: skip
        self.counts: dict[str, list[np.ndarray]] = {part: [] for part in record}
        self.memory: dict[str, list[np.ndarray]] = {name: [] for name in remember}
        recorded = [*record, "", *remember, *([eval_every] if eval_every > 1 else [])]
        self._of = (method, recorded, folder)
        self.path: Path | None = None
        self.belongs_to(fed)

    def belongs_to(self, fed: Federation) -> None:
        """From now on it is kept as a run of this federation, which may have lost clients."""
        if self._of:
            method, recorded, folder = self._of
            versions = [np.__version__, *map(version, ("numba", "torch"))]
            key = digest(fed.contents, method, recorded, _code(fed, method), versions)
            self.path = folder / f"{method.name}-{key[:24]}.npz"

    @classmethod
    def empty(cls, record: Sequence[str], remember: Sequence[str]) -> Book:
        """One without a folder."""
        book = cls.__new__(cls)
        book.counts, book.memory = {part: [] for part in record}, {name: [] for name in remember}
        book.path, book._of = None, None
        return book

    def open(self, rounds: int) -> tuple[int, State | None]:
        """How many rounds are done, and the state after them; a run that went further than `rounds` is begun anew."""
        kept = store.read_arrays(self.path) if self.path else {}
        done = int(kept.get("rounds", 0))
        if not 0 < done <= rounds or not {"params", *(name for name, _ in self._rows())} <= kept.keys():
            return 0, None
        for name, rows in (*self._rows(),):
            rows += list(np.moveaxis(kept[name], 1, 0))
        memory = {name.removeprefix("state "): value for name, value in kept.items() if name.startswith("state ")}
        return done, State(kept["params"], memory)

    def open_runs(self, rounds: int, runs: int) -> tuple[int, list[State]]:
        """How many rounds are done, and the state of each run after them; none if no round is."""
        done, whole = self.open(rounds)
        if whole is None:
            return 0, []
        memory: list[dict[str, np.ndarray]] = [{} for _ in range(runs)]
        for name, value in whole.memory.items():
            word, _, run = name.rpartition(" of run ")
            for r in [int(run)] if word else range(runs):
                memory[r][word or name] = value if word else value[r]
        return done, [State(params, memory[r]) for r, params in enumerate(whole.params)]

    def save_runs(self, done: int, states: Sequence[State]) -> None:
        """As `save`, for the states of each run; what differs in shape between runs is kept by run."""
        memory: dict[str, np.ndarray] = {}
        for name in states[0].memory:
            values = [np.asarray(state.memory[name]) for state in states]
            alike = len({(value.shape, value.dtype) for value in values}) == 1
            memory |= {name: np.stack(values)} if alike else {f"{name} of run {r}": value for r, value in enumerate(values)}
        self.save(done, State(np.stack([state.params for state in states]), memory))

    def add(self, counts: Mapping[str, np.ndarray], memory: Mapping[str, np.ndarray]) -> None:
        for part, value in counts.items():
            self.counts[part].append(value)
        for name, value in memory.items():
            self.memory[name].append(value)

    def save(self, done: int, state: State) -> None:
        assert self.path is not None
        found = {name: np.stack(rows, 1) for name, rows in self._rows()}
        carried = {f"state {name}": np.asarray(value) for name, value in state.memory.items()}
        store.write_arrays(self.path, rounds=np.array(done), params=state.params, **found, **carried)

    def stacked(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        counts = {part: np.stack(rows, 1) for part, rows in self.counts.items()}
        return counts, {name: np.stack(rows, 1) for name, rows in self.memory.items()}

    def _rows(self) -> Iterator[tuple[str, list[np.ndarray]]]:
        yield from ((f"counts {part}", rows) for part, rows in self.counts.items())
        yield from ((f"memory {name}", rows) for name, rows in self.memory.items())


def _code(fed: Federation, method: Method) -> list[str]:
    """The code that a run is made of: of the package's modules all that they import, of others their own file."""
    parts = (method, fed.model, fed._engine, fed.aggregate)
    modules = {f"{__package__}.core", *(getattr(part, "__module__", type(part).__module__) for part in parts)}
    inside = f"{__package__.partition('.')[0]}."
    return [imports.digest(name) if name.startswith(inside) else _own(name) for name in sorted(modules)]


def _own(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    return store.sha256(Path(file)) if file else module


def digest(*parts: Any) -> str:
    """sha256 of settings and arrays, through dataclasses, functions, mappings, sequences and objects with attributes.

    FairFLError for what has no such content: a run that it decides could be taken for another.
    """
    whole = hashlib.sha256()
    for part in parts:
        _take(whole, part)
    return whole.hexdigest()


def _take(whole: Any, part: Any) -> None:
    content = _content(part)
    if isinstance(content, bytes):
        name = "Shards" if isinstance(part, Shards) else type(part).__name__  # wherever the rows are
        whole.update(f"{name} {len(content)} ".encode() + content)
        return
    whole.update(f"{type(part).__module__}.{type(part).__qualname__} {len(content)} ".encode())
    for one in content:
        _take(whole, one)


def _content(part: Any) -> bytes | Sequence[Any]:
    """What a setting is made of: its bytes, or its parts."""
    if part is None or part is ... or isinstance(part, bool | int | float | complex | str | bytes | Path | np.generic | type):
        return repr(part).encode()
    if isinstance(part, Shards):
        return part.digest.encode()
    if hasattr(part, "detach"):
        part = part.detach().numpy()
    if isinstance(part, np.ndarray) and part.dtype != object:
        return f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
    if isinstance(part, Mapping):
        return sorted(part.items(), key=lambda pair: repr(pair[0]))
    if isinstance(part, list | tuple | range):
        return list(part)
    if isinstance(part, set | frozenset):
        return sorted(part, key=repr)
    if isinstance(part, functools.partial):
        return [part.func, list(part.args), dict(part.keywords)]
    if inspect.ismethod(part):
        return [part.__func__, part.__self__]
    if inspect.isfunction(part):
        closed = [cell.cell_contents for cell in part.__closure__ or ()]
        return [part.__module__, part.__qualname__, part.__code__, part.__defaults__, part.__kwdefaults__, closed]
    if inspect.iscode(part):
        return [part.co_code, part.co_names, part.co_consts]
    if is_dataclass(part):
        unseen = {field.name for field in fields(part) if not field.compare}
        return [{name: value for name, value in _attributes(part).items() if name not in unseen}]
    if hasattr(part, "__dict__"):
        return [_attributes(part)]
    raise FairFLError(f"A run that depends on a {type(part).__name__} cannot be kept: give numbers, words or arrays as settings.")


def _attributes(part: Any) -> dict[str, Any]:
    """What an object was given; not what it worked out from that and keeps."""
    worked_out = {name for kind in type(part).__mro__ for name, made in vars(kind).items() if isinstance(made, cached_property)}
    return {name: value for name, value in vars(part).items() if name not in worked_out}
