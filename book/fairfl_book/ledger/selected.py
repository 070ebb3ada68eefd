"""Whether what the cards select is there, or will be: each selector against its stored result and the cells of its experiment.

The ledger cannot tell a value that is misspelt from one that is still to be measured, since the cells of the experiments are
known only to what measures them. This check imports the experiments; `fairfl cards check` is its command.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pandas as pd

from fairfl_book import results
from fairfl_book.cards import Entry, PaperCard
from fairfl_book.cards.lines import meant
from fairfl_book.experiments import catalogue
from fairfl_book.experiments.base import Experiment
from fairfl_book.ledger.judge import SIDES, until_measured
from fairfl_book.ledger.judge import card as card_of
from fairfl_book.ledger.rules.facts import file_of
from fairfl_book.ledger.series import Missing, Results, equal, words


@dataclass(frozen=True)
class Read:
    """A result that an entry reads, the values it selects there, and other columns it takes from it.

    aside : only shown beside the entry, which does not wait for it.
    """

    name: str
    where: Mapping[str, Any]
    columns: tuple[str, ...] = ()
    aside: bool = False


@dataclass(frozen=True)
class Checked:
    """What the entries of a card read.

    entries : how many were looked at. pending : the ids of those whose runs are still to be measured. mistakes : what is neither
    stored nor to be measured, a sentence for each, with the line of the card.
    """

    entries: int
    pending: list[str]
    mistakes: list[str]


class Absent(Exception):
    """What no row has and no cell will give."""


@dataclass
class Shelf:
    """The stored results and the experiments that make them, as far as they were asked for."""

    files: Results = field(default_factory=Results)
    values: dict[tuple[str, str], pd.Series] = field(default_factory=dict)
    open: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    def pending(self, read: Read, awaited: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether an unmeasured cell will give what is read; False where it is stored. Absent says what cannot be had."""
        name, where, columns = read.name, dict(read.where), list(read.columns)
        if name not in catalogue.every():
            raise Absent(f"there is no result {name!r}{meant(name, catalogue.names())}.")
        experiment = catalogue.get(name)
        if not results.exists(name):
            return _of_cells(experiment, where)
        frame = self.files.frame(name)
        if "metric" in where and "metric" not in frame and "value" not in frame:  # a wide file, with a column for each metric
            columns.append(where.pop("metric"))
        for column in (*where, *columns):
            if column not in frame:
                raise Absent(f"results/{name}.csv has no column {column!r}{meant(column, list(frame))}.")
        settings = {c: v for c, v in where.items() if any(same(value, v) for value in of_cells(experiment, c))}
        cells = [cell for cell in self._open(experiment, frame) if fits(cell, settings)]  # a cell may give rows of other names
        for column, wanted in where.items():
            known = self._values(name, frame, column)
            if equal(known, wanted).any() or any(same(cell[column], wanted) for cell in cells if column in cell):
                continue
            promised = awaited.get(name, {}).get(column, ())
            if cells and any(same(value, wanted) for value in promised):
                continue
            near = meant(wanted, [*known, *promised, *of_cells(experiment, column)])
            raise Absent(f"no row of results/{name}.csv has the {column} {str(wanted)!r}, and no cell will have it{near}.")
        if self._there(name, where):
            return False
        if cells:
            return True
        raise Absent(f"no row of results/{name}.csv has all of {words(where)}, and no cell will have them.")

    def _there(self, name: str, where: Mapping[str, Any]) -> bool:
        try:
            self.files.rows(name, where)
        except Missing:
            return False
        return True

    def _values(self, name: str, frame: pd.DataFrame, column: str) -> pd.Series:
        if (name, column) not in self.values:
            self.values[name, column] = pd.Series(frame[column].unique())
        return self.values[name, column]

    def _open(self, experiment: Experiment, frame: pd.DataFrame) -> list[Mapping[str, Any]]:
        """The cells of which the stored result has no row, as far as its columns tell."""
        if experiment.name not in self.open:
            columns = [c for c in dict.fromkeys(key for cell in experiment.cells for key in cell) if c in frame]
            stored = frame[columns].drop_duplicates()
            self.open[experiment.name] = [cell for cell in experiment.cells if columns and not _held(stored, cell)]
        return self.open[experiment.name]


def _of_cells(experiment: Experiment, where: Mapping[str, Any]) -> bool:
    """Of a result that is not stored, the values of its cells can be known, and nothing else."""
    for column, wanted in where.items():
        known = of_cells(experiment, column)
        if known and not any(same(value, wanted) for value in known):
            raise Absent(f"no cell of {experiment.name} has the {column} {str(wanted)!r}{meant(wanted, known)}.")
    return True


def _held(stored: pd.DataFrame, cell: Mapping[str, Any]) -> bool:
    for column in stored.columns.intersection(list(cell)):
        stored = stored[equal(stored[column], cell[column])]
    return not stored.empty


def of_cells(experiment: Experiment, column: str) -> list[Any]:
    """The values of a setting in the cells of an experiment, each once."""
    return list(_settings(experiment.name).get(column, {}))


@cache
def _settings(name: str) -> dict[str, dict[Any, None]]:
    found: dict[str, dict[Any, None]] = {}
    for cell in catalogue.get(name).cells:
        for column, value in cell.items():
            found.setdefault(column, {})[value] = None
    return found


def same(value: Any, wanted: Any) -> bool:
    """Whether a setting of a cell is the wanted value: numbers as numbers, everything else as text."""
    if isinstance(value, int | float):
        try:
            return math.isclose(value, float(wanted), rel_tol=1e-9, abs_tol=1e-12)
        except (TypeError, ValueError):
            return False
    return str(value) == str(wanted)


def fits(cell: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a cell gives rows with these values, as far as its settings tell."""
    return all(same(cell[column], wanted) for column, wanted in where.items() if column in cell)


def reads(entry: Entry) -> Iterator[Read]:
    """All that an entry is judged by: itself or its two sides, what these are a share of, and what is shown beside."""
    spec = entry.spec
    if "name" in spec:
        yield Read(file_of(entry), {"name": spec["name"]})
        return
    if "results" not in spec:
        return
    columns = (*spec.get("mean_over", ()), *([spec["levels"]] if "levels" in spec else []))
    base = {**spec.get("select", {}), **({"metric": spec["metric"]} if "metric" in spec else {})}
    sides = [base | spec[side] for side in SIDES if side in spec] or [base]
    sides += [one | spec["relative"] for one in sides if "relative" in spec]
    asides = [one | change for one in sides for change in spec.get("beside", {}).values()]
    for position, one in enumerate([*sides, *asides]):
        where = dict(one)
        name = str(where.pop("results", spec["results"]))
        for level in spec.get("order", [None]):
            more = {} if level is None else {spec["levels"]: level}
            for chosen in _each(where | more):
                yield Read(name, chosen, columns, position >= len(sides))


def _each(where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The selectors with each option of a list."""
    options = next((column for column, value in where.items() if isinstance(value, list)), None)
    for value in where[options] if options else [None]:
        yield {**where, **({options: value} if options else {})}


def check(paper: str, card: PaperCard | None = None, shelf: Shelf | None = None) -> Checked:
    """Every entry of a card against what is stored and what will be measured."""
    card, shelf = card or card_of(paper), shelf or Shelf()
    looked, pending, mistakes = 0, [], []
    for id, entry in card.entries.items():
        ways = [entry, *([until_measured(entry)] if entry.spec.get("until_measured") else [])]
        found = [(way, read) for way in ways for read in reads(way)]
        looked += bool(found)
        try:
            if any([_pending(shelf, card, way, read) and not read.aside for way, read in found]):
                pending.append(id)
        except Absent as absent:
            if "unless_measured" not in entry.spec:  # it says itself what becomes of it
                mistakes.append(f"{card.at(*card.places.get(id, ()))}: {id}: {absent}")
    return Checked(looked, pending, mistakes)


def _pending(shelf: Shelf, card: PaperCard, entry: Entry, read: Read) -> bool:
    if shelf.pending(read, card.awaited):
        return True
    if not results.exists(read.name):
        return False
    frame = shelf.files.frame(read.name)
    if "how" in entry.spec and "how" in frame:
        pattern, ways = entry.spec["how"].removeprefix("!"), list(frame["how"].astype(str).unique())
        if not any(fnmatchcase(way, pattern) for way in ways):
            raise Absent(f"no row of results/{read.name}.csv has a how like {pattern!r}{meant(pattern, ways)}.")
    chosen = replace(read, where={"selection": card.selection, **read.where})
    return "selection" in frame and shelf.pending(chosen, card.awaited)
