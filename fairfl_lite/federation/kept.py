"""A run that can stop and go on: what was found so far, in a file of arrays that appears whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairfl_lite import imports, store
from fairfl_lite.federation.state import Method, State

if TYPE_CHECKING:
    from fairfl_lite.federation.core import Federation


class Book:
    """Counts and memory of each round, [run, round, ...] in the end, and with a folder the state to go on from.

    The file is named by all that the run depends on: the data, the settings, the method, what is recorded, and the code that
    both are made of. A file that is not whole, or of another run, is as if it were not there.
    """

    def __init__(self, fed: Federation, method: Method, record: Sequence[str], remember: Sequence[str], folder: Path) -> None:
        self.counts: dict[str, list[np.ndarray]] = {part: [] for part in record}
        self.memory: dict[str, list[np.ndarray]] = {name: [] for name in remember}
        key = digest(fed, method, [*record, "", *remember], _code(fed, method))
        self.path: Path | None = folder / f"{method.name}-{key[:24]}.npz"

    @classmethod
    def empty(cls, record: Sequence[str], remember: Sequence[str]) -> Book:
        """One without a folder."""
        book = cls.__new__(cls)
        book.counts, book.memory, book.path = {part: [] for part in record}, {name: [] for name in remember}, None
        return book

    def open(self, rounds: int) -> tuple[int, State | None]:
        """How many rounds are done, and the state after them; a run that went further than `rounds` is begun anew."""
        kept = store.read_arrays(self.path) if self.path else {}
        done = int(kept.get("rounds", 0))
        if not 0 < done <= rounds:
            return 0, None
        for name, rows in (*self._rows(),):
            rows += list(np.moveaxis(kept[name], 1, 0))
        memory = {name.removeprefix("state "): value for name, value in kept.items() if name.startswith("state ")}
        return done, State(kept["params"], memory)

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
    """The code that a run is made of; of a method or model outside the package only its settings count."""
    inside = {type(part).__module__ for part in (fed, method, fed.model, fed._engine)}
    return [imports.digest(name) for name in sorted(inside) if name.startswith(f"{__package__.partition('.')[0]}.")]


def digest(*parts: Any) -> str:
    """sha256 of settings and arrays, through dataclasses, mappings and sequences."""
    whole = hashlib.sha256()
    for part in parts:
        _take(whole, part)
    return whole.hexdigest()


def _take(whole: Any, part: Any) -> None:
    if isinstance(part, np.ndarray):
        whole.update(f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
    elif is_dataclass(part) and not isinstance(part, type):
        whole.update(type(part).__qualname__.encode())
        _take(whole, {field.name: getattr(part, field.name) for field in fields(part)})
    elif isinstance(part, Mapping):
        for name in sorted(part):
            whole.update(f"\0{name}\0".encode())
            _take(whole, part[name])
    elif isinstance(part, list | tuple):
        whole.update(f"[{len(part)}]".encode())
        for one in part:
            _take(whole, one)
    elif callable(part):
        whole.update(f"{part.__module__}.{getattr(part, '__qualname__', type(part).__qualname__)}".encode())
    else:
        whole.update(f"{type(part).__name__} {part!r}\0".encode())
