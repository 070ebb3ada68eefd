"""The cards: what each paper prints, cell by cell and claim by claim, and the rule it will be judged by.

A card is the file card.yml in the folder of its paper. Its tables are kept in the paper's own layout, its cells as printed
strings; `load` expands them, and the claims of the prose, to entries with an id each.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import translate
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fairfl_book.cards import fields, lines
from fairfl_book.cards.lines import Place, standing
from fairfl_book.settings import FOLDER, raw
from fairfl_book.shapes import LARGEST
from fairfl_lite.errors import FairFLError, choose, nearest

NAMELESS = "card.yml"
"""What a card is called that was read from no file."""

RULES = {
    "level": "level",
    "effect": "effect",
    "tie": "tie",
    "spread": "spread",
    "ordering": "ordering",
    "trend": "trend",
    "arithmetic": "arithmetic",
    "mark": "mark",
    "theorem": "identity",
    "count": "count",
    "draw": "draw",
}
"""The kinds of entries, and the rule by which each is judged unless it names another; the rules are in ledger/rules."""
WHOSE = ("paper", "ours")
"""Who claims or asks what an entry says: the paper, or this book."""

_OPTIONAL: dict[str, Any] = {"selection": "paper", "yes_no": (), "awaited": {}}
"""Fields a card may leave out: `selection`, the word by which the results files call the paper's way of selecting, `yes_no`,
the metrics that are 1 or 0 in each run, and `awaited`, of a result the values that runs will have which are still to be measured,
where its experiment does not name them."""


@dataclass(frozen=True)
class Entry:
    """One printed number or claim: where it stands, what it says, and how it is to be judged.

    `spec` holds what its rule needs (results file, selectors, formula, tolerance); `keys` the coordinates of
    a table cell, e.g. {"dataset": "adult", "alpha": "0.1", "metric": "eod", "method": "fairfed"}. A cell such as
    0.60±0.04 is two entries: the value, and with ".sd" behind its id and the rule "spread" the standard deviation.
    A cell less the plain baseline of its column is a third, ".effect"; where the method is the paper's own, the cell
    less the best row of other methods is a fourth, ".contribution". `whose` is who says it: the paper, or this book.
    What our text of the paper does not let us read is printed as "?".
    """

    id: str
    paper: str
    where: str
    kind: str
    rule: str
    printed: str
    says: str
    notebook: str
    spec: Mapping[str, Any]
    keys: Mapping[str, str]
    whose: str = "paper"


@dataclass(frozen=True)
class Grid:
    """A table of the paper in its own layout; `ids[i][j]` is the entry of row i and column j."""

    id: str
    where: str
    title: str
    row_keys: tuple[str, ...]
    column_keys: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, ...], ...]
    ids: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PaperCard:
    """A paper: citation, settings as printed, tables, and every entry by id.

    metrics : what is better of each, larger, smaller or closer (to zero). margins : of each metric, how far apart two
    numbers may be and still be called the same (`margin`) and why (`reason`). printed_seeds : the runs behind a
    printed number. selection : the word by which the results files call the paper's way of selecting settings. yes_no : the
    metrics that are 1 or 0 in each run, whose mean is a share of the runs.
    awaited : of a result, by column, the values that no row has yet and that are no mistakes. places : where in the text of the
    card each entry stands. text, file : that text, and what it is called.
    """

    paper: str
    citation: Mapping[str, Any]
    settings: Mapping[str, Any]
    metrics: Mapping[str, str]
    labels: Mapping[str, str]
    printed_seeds: int
    margins: Mapping[str, Mapping[str, Any]]
    selection: str
    yes_no: Sequence[str]
    awaited: Mapping[str, Mapping[str, Sequence[Any]]]
    command: str
    grids: Mapping[str, Grid]
    entries: Mapping[str, Entry]
    places: Mapping[str, Place] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)
    file: str = NAMELESS

    def at(self, *place: Any) -> str:
        """Where a part of the card is written: `book/papers/fairfed/card.yml, line 57`; an entry's place is in `places`."""
        return f"{self.file}, line {lines.line(self.text, place)}"

    @contextmanager
    def naming(self, *place: Any) -> Iterator[None]:
        """What is refused within is said with the line of this place."""
        try:
            yield
        except FairFLError as error:
            raise FairFLError(f"{self.at(*place)}: {error}") from error

    @cached_property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """Of each legible level of a table, the ids of those in its column, itself among them: the same but for the method."""
        found: dict[Any, list[str]] = {}
        for entry in self.entries.values():
            if entry.keys and entry.kind == "level" and entry.printed != "?":
                table = entry.id.removeprefix(f"{self.paper}.").partition(".")[0]
                same = frozenset((k, v) for k, v in entry.keys.items() if k != "method")
                found.setdefault((table, same), []).append(entry.id)
        return {id: ids for ids in found.values() for id in ids}

    @cached_property
    def _spreads(self) -> Mapping[Any, str]:
        cells = (e for e in self.entries.values() if e.keys and e.kind == "level" and e.spec.get("sd"))
        return {_where(e.spec["select"]): e.spec["sd"] for e in cells if "select" in e.spec}

    def printed_sd(self, select: Mapping[str, Any]) -> str | None:
        """The printed standard deviation of the cell with just these selectors; None where no cell has one."""
        return self._spreads.get(_where(select))

    def printed(self, pattern: str) -> list[Entry]:
        """The table cells, standard deviations and effects aside, whose id (without the paper's name) fits a shell pattern."""
        cells = (e for e in self.entries.values() if e.keys and e.kind not in ("spread", "effect", "tie"))
        return self._fitting(pattern, "cell", cells)

    def matching(self, pattern: str) -> list[Entry]:
        """The entries of any kind whose id (without the paper's name) fits a shell pattern, in the card's order."""
        return self._fitting(pattern, "entry", self.entries.values())

    def _fitting(self, pattern: str, what: str, among: Iterable[Entry]) -> list[Entry]:
        prefix, fits = len(self.paper) + 1, re.compile(translate(pattern)).match
        found = [e for e in among if fits(e.id, prefix)]
        if not found:
            raise FairFLError(f"The card {self.paper}.yml has no {what} {pattern}: correct the formula that names it.")
        return found


def _where(select: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((k, str(v)) for k, v in select.items() if k != "selection")


def number(printed: str) -> Fraction:
    """A printed number, exactly: "-0.12", "32,561", "98.9%" (= 0.989)."""
    text = printed.replace(",", "").strip()
    try:
        value = Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
        if abs(value) < LARGEST:
            return value
    except (ValueError, ZeroDivisionError):
        pass
    raise FairFLError(f"{printed[:40]!r} is not a printed number: correct the card.")


def unit(printed: str) -> Fraction:
    """One unit of the last printed digit: 0.01 for "-0.12", 1 for "32,561", 0.001 for "98.9%"."""
    text = printed.replace(",", "").strip()
    decimals = len(text.rstrip("%").partition(".")[2])
    return Fraction(1, 10**decimals * (100 if text.endswith("%") else 1))


def names() -> list[str]:
    """The papers that have a card."""
    return sorted(path.parent.name.replace("_", "-") for path in FOLDER.glob("*/card.yml"))


def files() -> list[Path]:
    """The cards of all papers."""
    return [file(paper) for paper in names()]


def file(paper: str) -> Path:
    """Where the card of a paper is; in the name of a folder a hyphen is an underscore, since it is a package of Python."""
    return FOLDER / paper.replace("-", "_") / "card.yml"


@cache
def text(paper: str) -> str:
    """The card of a paper as written; FairFLError when there is none."""
    if paper not in names():
        raise FairFLError(f"There is no paper {paper!r}; choose one of: {', '.join(names())}.")
    try:
        return file(paper).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FairFLError(f"{_shown(paper)} is not readable text ({error}): restore it from git.") from error


@cache
def load(paper: str) -> PaperCard:
    """The card of a paper, expanded; FairFLError when there is none or it is not well formed."""
    return parse(text(paper), _shown(paper))


def _shown(paper: str) -> str:
    return file(paper).relative_to(FOLDER.parents[1]).as_posix()


def of(id: str) -> PaperCard:
    """The card that has the claim `id`, by the paper its id begins with; FairFLError names the nearest id when none has."""
    paper = id.partition(".")[0]
    if paper in names() and id in load(paper).entries:
        return load(paper)
    near = nearest(id, (entry for name in names() for entry in load(name).entries), cutoff=0)
    raise FairFLError(f"There is no claim {id!r}; the nearest id is {near}.")


def parse(text: str, file: str = NAMELESS) -> PaperCard:
    """A card from its YAML text; FairFLError names the file, the line and what is wrong there."""
    given = raw(text, file)
    try:
        return _card(given, text, file)
    except lines.Misread as error:
        raise FairFLError(f"{file}, line {lines.line(text, error.place)}: {error}") from error


def _card(raw: Any, text: str, file: str) -> PaperCard:
    if isinstance(raw, Mapping) and raw.get("claims", ()) is None:
        raw = {**raw, "claims": []}
    fields.check(raw)
    grids: dict[str, Grid] = {}
    entries: dict[str, Entry] = {}
    places: dict[str, Place] = {}

    def add(entry: Entry, place: Place) -> None:
        if entry.id in entries:
            raise FairFLError(f"The id {entry.id} is used twice in the card: rename one.")
        entries[entry.id], places[entry.id] = entry, place

    for name, table in raw["tables"].items():
        with standing("tables", name), well_formed(f"table {name}"):
            grid, cells = _expand_table(raw, name, table)
            rows = {id: row for row, line in enumerate(grid.ids) for id in line}
            for entry in cells:
                row = next(rows[id] for id in (entry.id, entry.id.rpartition(".")[0]) if id in rows)
                add(entry, ("tables", name, "rows", row))
        grids[name] = grid
    given = {k: raw.get(k, _OPTIONAL.get(k)) for k in fields.CARD if k not in ("tables", "claims", "notebooks")}
    card = PaperCard(grids=grids, entries=entries, **given, places=places, text=text, file=file)
    for position, claim in enumerate(raw["claims"]):
        with standing("claims", position), well_formed(f"claim {claim.get('id')}"):
            made = [_claim(raw, card, _filled(claim, keys, raw["labels"])) for keys in _product(claim.get("each", {}))]
            for entry in made:
                add(entry, ("claims", position))
    return card


@contextmanager
def well_formed(what: str) -> Iterator[None]:
    """What cannot be read is refused by the name of the part it stands in."""
    try:
        yield
    except FairFLError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise FairFLError(f"The {what} of the card is not well formed, see {error}: correct it.") from error


def _product(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, str]]:
    """Every combination of the axes' values; a value that is itself a mapping stands for several keys at once."""
    for values in itertools.product(*axes.values()):
        keys: dict[str, Any] = {}
        for name, value in zip(axes, values, strict=True):
            keys |= value if isinstance(value, Mapping) else {name: value}
        yield {key: str(value) for key, value in keys.items()}


def _filled(claim: Mapping[str, Any], keys: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """A claim with its keys in place of their names; what it says has their labels, without the number of a row."""
    named = {key: re.sub(r"^\(\d+\) ", "", labels.get(value, value)) for key, value in keys.items()}
    return {k: _fill(v, named if k == "says" else keys) for k, v in claim.items() if k != "each"}


def _fill(value: Any, keys: Mapping[str, str]) -> Any:
    """Replace {key} in every string, also inside lists and mappings."""
    if isinstance(value, str):
        return value.format_map(keys)
    if isinstance(value, Mapping):
        return {_fill(k, keys): _fill(v, keys) for k, v in value.items()}
    if isinstance(value, list):
        return [_fill(v, keys) for v in value]
    return value


def _expand_table(raw: Mapping[str, Any], name: str, table: Mapping[str, Any]) -> tuple[Grid, list[Entry]]:
    choose(table.get("whose", WHOSE[0]), WHOSE, f"whose of the table {name}")
    row_keys, columns = tuple(table["row_keys"]), list(_product(table["columns"]))
    rows, ids, entries = [], [], []
    for position, (*row, cells) in enumerate(table["rows"]):
        printed = str(cells).split()
        if len(row) != len(row_keys) or len(printed) != len(columns):
            needed = f"Row {row} of table {name} needs {len(row_keys)} keys and {len(columns)} cells."
            raise lines.Misread(needed, ("tables", name, "rows", position))
        rows.append(tuple(map(str, row)))
        line = []
        for column, cell in zip(columns, printed, strict=True):
            keys = {**dict(zip(row_keys, rows[-1], strict=True)), **column}
            made = _cells(raw, name, table, keys, cell)
            entries += made
            line.append(made[0].id)
        ids.append(tuple(line))
    entries += _effects(raw, table, entries)
    grid = Grid(
        name,
        table["where"],
        table["title"],
        row_keys,
        tuple(table["columns"]),
        tuple(rows),
        tuple(tuple(c.values()) for c in columns),
        tuple(ids),
    )
    return grid, entries


def _cells(raw: Mapping[str, Any], name: str, table: Mapping[str, Any], keys: dict[str, str], cell: str) -> list[Entry]:
    """The entry of a printed cell, and that of its standard deviation where it has one.

    A cell may begin with one of the table's marks, which adds a note or the reason why it cannot be tested; the
    mark "?" is that of a number which is printed but not legible to us, and stands in its place.
    """
    marks = table.get("marks", {})
    mark = next((m for m in marks if m != "?" and cell.startswith(m)), "")
    printed, _, sd = cell.removeprefix(mark).partition("±")
    entry = _cell(raw, name, table, keys, printed)
    spec = {**entry.spec, **_fill(marks.get(mark, {}), keys), **(marks["?"] if printed == "?" else {})}
    if not sd:
        return [replace(entry, spec=spec)]
    spread = {k: entry.spec[k] for k in ("results", "select", "by_construction") if k in entry.spec}
    spread |= marks["?"] if sd == "?" else {}
    return [
        replace(entry, spec=spec if sd == "?" else {**spec, "sd": sd}),
        replace(entry, id=f"{entry.id}.sd", kind="spread", rule="spread", printed=sd, spec=spread, says=f"{entry.says}, ±"),
    ]


def _cell(raw: Mapping[str, Any], name: str, table: Mapping[str, Any], keys: dict[str, str], printed: str) -> Entry:
    def cell_id(k: Mapping[str, str]) -> str:
        return f"{raw['paper']}.{name}.{table['id'].format_map(k)}"

    select = dict(table.get("fixed", {}))
    for key, value in keys.items():
        if key in table.get("select", {}) and value in table["select"][key]:
            select |= table["select"][key][value]
        elif key not in table.get("ignore", ()):
            select[key] = value
    override: dict[str, Any] = {}
    for key, choices in table.get("override", {}).items():
        override |= choices.get(".".join(keys[k] for k in key.split(".")), {})
    kind = override.pop("kind", table["kind"])
    given = ("by_construction", *(() if kind == "arithmetic" else ("results", "note", "not_testable", "until_measured")))
    spec: dict[str, Any] = {k: table[k] for k in given if k in table}
    if kind != "arithmetic":
        if "results" in table:
            spec["select"] = select
        for key, choices in table.get("beside", {}).items():
            spec["beside"] = spec.get("beside", {}) | choices.get(keys[key], {})
        if "baseline" in table:
            reference = keys | table["baseline"]
            spec["baseline"] = None if reference == keys else cell_id(reference)
    spec |= override
    words = (raw["labels"].get(v, f"{k} = {v}" if v.replace(".", "").isdigit() else v) for k, v in keys.items())
    return Entry(
        cell_id(keys),
        raw["paper"],
        table["where"],
        kind,
        RULES[kind],
        printed,
        ", ".join(words),
        _notebook(raw, table),
        _fill(spec, keys),
        keys,
        table.get("whose", "paper"),
    )


def _effects(raw: Mapping[str, Any], table: Mapping[str, Any], cells: Sequence[Entry]) -> list[Entry]:
    """What a table claims by its differences: of each cell from the baseline of its column and, for the paper's own methods,
    from the best row of the others. Cells that are not legible or not testable have none."""
    if "baseline" not in table:
        return []
    ((key, plain),) = table["baseline"].items()
    own, made = table.get("own", ()), []
    excluded = {*own, *table.get("not_best", ())}
    values = {entry.keys.get(key) for entry in cells}
    for name in (plain, *excluded):
        if name not in values:
            raise FairFLError(
                f"The table {cells[0].where} has no {key} {name}, which its baseline, own or not_best names: correct the card."
            )
    judged = {e.id: e for e in cells if e.kind == "level" and e.printed != "?" and "not_testable" not in e.spec}

    def column(entry: Entry) -> dict[str, str]:
        return {k: v for k, v in entry.keys.items() if k != key}

    for entry in judged.values():
        baseline = judged.get(entry.spec.get("baseline") or "")
        if baseline:
            made.append(_effect(raw, entry, baseline, key, "effect"))
        if entry.keys[key] in own:
            sense = raw["metrics"][entry.keys["metric"]]
            others = [e for e in judged.values() if column(e) == column(entry) and e.keys[key] not in excluded]
            best = max(others, key=lambda e: _goodness(e.printed, sense))
            if best != baseline:
                made.append(_effect(raw, entry, best, key, "contribution"))
    return made


def _goodness(printed: str, sense: str) -> Fraction:
    value = number(printed)
    return {"larger": value, "smaller": -value, "closer": -abs(value)}[sense]


def _effect(raw: Mapping[str, Any], entry: Entry, other: Entry, key: str, what: str) -> Entry:
    decimals = max(len(e.printed.partition(".")[2]) for e in (entry, other))
    label = raw["labels"].get(other.keys[key], other.keys[key])
    carried = {k: entry.spec[k] for k in ("note", "would_decide", "until_measured") if k in entry.spec}
    carried |= {k: entry.spec[k] for k in ("by_construction",) if k in entry.spec and k in other.spec}
    spec: dict[str, Any] = {"cells": [entry.id, other.id], **carried}
    a, b = number(entry.printed), number(other.printed)
    less = f"less {label}"
    if what == "contribution" and raw["metrics"][entry.keys["metric"]] == "closer":
        spec["absolute"], a, b = True, abs(a), abs(b)
        less = f"absolute values, less that of {label}"
    kind = "effect" if a != b else "tie"
    return replace(
        entry,
        id=f"{entry.id}.{what}",
        kind=kind,
        rule=kind,
        printed=f"{float(a - b):+.{decimals}f}",
        says=f"{entry.says}, {less}",
        spec=spec,
    )


def _claim(raw: Mapping[str, Any], card: PaperCard, claim: dict[str, Any]) -> Entry:
    missing = set(fields.HEAD) - set(claim)
    if missing or claim["kind"] not in RULES:
        raise FairFLError(f"The claim {claim.get('id')} of the card needs {', '.join(sorted(missing)) or 'a known kind'}.")
    rule = claim.pop("rule", RULES[claim["kind"]])
    head = {k: claim.pop(k) for k in ("id", "where", "kind", "says")}
    notebook, printed, cells = _notebook(raw, claim), claim.pop("printed", ""), claim.pop("cells", None)
    claim.pop("notebook")
    whose = claim.pop("whose", WHOSE[0])
    if whose not in WHOSE:
        raise FairFLError(f"The claim {head['id']} says whose: {whose}; choose one of {', '.join(WHOSE)}.")
    if "printed_of" in claim:
        (source,) = card.matching(claim.pop("printed_of"))
        printed = source.printed
    if cells and not printed:
        printed = " vs ".join(_printed_cell(card, cells, claim, side) for side in ("better", "worse"))
    return Entry(
        f"{raw['paper']}.{head['id']}",
        raw["paper"],
        head["where"],
        head["kind"],
        rule,
        printed,
        head["says"],
        notebook,
        claim,
        {},
        whose,
    )


def _printed_cell(card: PaperCard, grid: str, claim: Mapping[str, Any], side: str) -> str:
    """The printed cell that one side of an ordering speaks of."""
    wanted = {k: str(v) for k, v in (claim["select"] | claim[side] | {"metric": claim["metric"]}).items()}
    found = [
        e.printed
        for line in card.grids[grid].ids
        for e in (card.entries[i] for i in line)
        if all(str(e.spec.get("select", {}).get(k)) == v for k, v in wanted.items())
    ]
    if len(found) != 1:
        raise FairFLError(f"{len(found)} cells of {grid} fit {wanted}, one is needed: correct the card.")
    return found[0]


def _notebook(raw: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    try:
        return raw["notebooks"][item["notebook"]]
    except KeyError:
        raise FairFLError(f"{item.get('id')} names no notebook of the card: choose one of {list(raw['notebooks'])}.") from None
