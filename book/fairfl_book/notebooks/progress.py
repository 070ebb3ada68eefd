"""How far a set of notebooks is, and how long it will still take."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from tqdm import tqdm


class Progress:
    """A bar over the cells of all notebooks on a terminal, plain lines elsewhere.

    `expected` gives the seconds each cell of each notebook took the last time (or a guess). What is left of
    a notebook is the sum over its cells not yet done; what is left of all is that work shared by the
    workers, but never less than the longest notebook.
    """

    def __init__(self, expected: Mapping[str, Sequence[float]], workers: int, stream: TextIO | None = None) -> None:
        self.expected, self.workers = expected, workers
        self.done = dict.fromkeys(expected, 0)
        self.since: dict[str, float] = {}
        self.finished = 0
        self.stream = stream or sys.stderr
        cells = sum(len(seconds) for seconds in expected.values())
        shape = "{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} cells, {elapsed} gone{postfix}"
        self.bar = tqdm(total=cells, file=self.stream, bar_format=shape, dynamic_ncols=True) if self.stream.isatty() else None

    def left(self) -> float:
        """Seconds left of everything, as estimated now."""
        rest = [self._rest(name) for name in self.expected]
        return max(max(rest, default=0.0), sum(rest) / self.workers)

    def started(self, name: str) -> None:
        self.since[name] = time.monotonic()

    def cell(self, name: str) -> None:
        if self.done[name] < len(self.expected[name]):
            self.done[name] += 1
        self.since[name] = time.monotonic()
        self.tick()

    def ended(self, name: str, note: str) -> None:
        self.done[name] = len(self.expected[name])
        self.since.pop(name, None)
        self.finished += 1
        line = f"{name}: {note}"
        if self.bar is not None:
            self.bar.write(line, file=self.stream)
            self.tick()
        else:
            left = f", {readable(self.left())} left" if self.finished < len(self.expected) else ""
            print(f"[{self.finished}/{len(self.expected)}] {line}{left}", file=self.stream, flush=True)

    def tick(self) -> None:
        if self.bar is not None:
            self.bar.n = sum(self.done.values())
            self.bar.set_postfix_str(f"{readable(self.left())} left")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()

    def _rest(self, name: str) -> float:
        cells = self.expected[name][self.done[name] :]
        if not cells or name not in self.since:
            return sum(cells)
        return max(cells[0] - (time.monotonic() - self.since[name]), 0.0) + sum(cells[1:])


def readable(seconds: float) -> str:
    """about 40 s, about 3 min, about 2.5 h."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
