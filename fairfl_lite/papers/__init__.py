"""The cards: what each paper prints, cell by cell and claim by claim, and the rule it will be judged by.

A card is one YAML file beside this one. Its tables are kept in the paper's own layout, its cells as printed
strings; `load` expands them, and the claims of the prose, to entries with an id each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fairfl_lite.errors import FairFLError

FOLDER = Path(__file__).parent

RULES: dict[str, tuple[str, ...]] = {
    "value": ("value", "improvement", "at most"),
    "ordering": ("ordering", "similar", "no gain"),
    "trend": ("trend",),
    "arithmetic": ("arithmetic",),
    "theorem": ("identity", "exists"),
    "count": ("count",),
    "draw": ("draw",),
}
"""The rules a kind of entry may be judged by; the first is the default."""

_ARITHMETIC = ("sum", "over", "fall", "difference", "differ", "scale", "of")
_COMMON = ("note", "not_testable", "unless_measured", "check")
_SERIES = ("results", "select", "metric", "mean_over")
_FIELDS: dict[str, tuple[str, ...]] = {
    "value": (*_SERIES, "baseline"),
    "improvement": (*_SERIES, "from", "to", "sense"),
    "at most": (*_SERIES, "from", "to"),
    "ordering": (*_SERIES, "better", "worse"),
    "similar": (*_SERIES, "better", "worse"),
    "no gain": (*_SERIES, "better", "worse"),
    "trend": (*_SERIES, "better", "worse", "levels", "toward"),
    "arithmetic": _ARITHMETIC,
    "identity": ("name", "tolerance"),
    "exists": ("name", "tolerance"),
    "count": ("name", "tolerance"),
    "draw": ("results", "select"),
}
_TABLE_FIELDS = {
    "where",
    "title",
    "kind",
    "notebook",
    "results",
    "id",
    "columns",
    "row_keys",
    "rows",
    "fixed",
    "select",
    "ignore",
    "baseline",
    "override",
    "note",
    "not_testable",
}
_CARD_FIELDS = {
    "paper",
    "citation",
    "settings",
    "metrics",
    "labels",
    "printed_seeds",
    "floor",
    "command",
    "notebooks",
    "rules",
    "tables",
    "claims",
}


@dataclass(frozen=True)
class Entry:
    """One printed number or claim: where it stands, what it says, and how it is to be judged.

    `spec` holds what its rule needs (results file, selectors, formula, tolerance); `keys` the coordinates of
    a table cell, e.g. {"dataset": "adult", "alpha": "0.1", "metric": "eod", "method": "fairfed"}.
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
class Card:
    """A paper: citation, settings as printed, tables, and every entry by id."""

    paper: str
    citation: Mapping[str, Any]
    settings: Mapping[str, Any]
    metrics: Mapping[str, str]
    labels: Mapping[str, str]
    printed_seeds: int
    floor: float
    command: str
    rules: Mapping[str, str]
    grids: Mapping[str, Grid]
    entries: Mapping[str, Entry]

    def cells(self, pattern: str) -> list[Entry]:
        """The table cells whose id (without the paper's name) fits a shell pattern, in the card's order."""
        prefix = f"{self.paper}."
        found = [
            e for e in self.entries.values() if e.keys and fnmatchcase(e.id.removeprefix(prefix), pattern)
        ]
        if not found:
            raise FairFLError(
                f"The card {self.paper}.yml has no cell {pattern}: correct the formula that names it."
            )
        return found

    def recompute(self, spec: Mapping[str, Any]) -> Fraction:
        """The value of an arithmetic formula, exactly, from the printed cells.

        sum [/ over]: sums of cells, "=50" being the number 50; fall [from, to]: 1 - |to| / |from|;
        difference {plus, minus}; differ {pattern: pattern}: in how many pairs two cells differ;
        scale, of: their product.
        """
        if "fall" in spec:
            start, end = (self.total([pattern]) for pattern in spec["fall"])
            return 1 - abs(end) / abs(start)
        if "difference" in spec:
            return self.total(spec["difference"]["plus"]) - self.total(spec["difference"]["minus"])
        if "differ" in spec:
            pairs = ((self.cells(a), self.cells(b)) for a, b in spec["differ"].items())
            return Fraction(
                sum(
                    number(x.printed) != number(y.printed)
                    for a, b in pairs
                    for x, y in zip(a, b, strict=True)
                )
            )
        if "scale" in spec:
            return number(str(spec["scale"])) * number(str(spec["of"]))
        return self.total(spec["sum"]) / (self.total(spec["over"]) if "over" in spec else 1)

    def total(self, patterns: Sequence[str]) -> Fraction:
        """Sum of the cells that fit any of the patterns."""
        return sum(
            (
                number(p[1:])
                if p.startswith("=")
                else sum((number(e.printed) for e in self.cells(p)), Fraction(0))
                for p in patterns
            ),
            Fraction(0),
        )


def number(printed: str) -> Fraction:
    """A printed number, exactly: "-0.12", "32,561", "98.9%" (= 0.989)."""
    text = printed.replace(",", "").strip()
    return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)


def unit(printed: str) -> Fraction:
    """One unit of the last printed digit: 0.01 for "-0.12", 1 for "32,561", 0.001 for "98.9%"."""
    text = printed.replace(",", "").strip()
    decimals = len(text.rstrip("%").partition(".")[2])
    return Fraction(1, 10**decimals * (100 if text.endswith("%") else 1))


def names() -> list[str]:
    """The papers that have a card."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


@cache
def load(paper: str) -> Card:
    """The card of a paper, expanded and checked; FairFLError when there is none or it is not well formed."""
    if paper not in names():
        raise FairFLError(f"There is no paper {paper!r}; choose one of: {', '.join(names())}.")
    return parse((FOLDER / f"{paper}.yml").read_text(encoding="utf-8"))


def parse(text: str) -> Card:
    """A card from its YAML text."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FairFLError(f"The card is not YAML: {' '.join(str(error).split())}.") from error
    _known("card", raw, _CARD_FIELDS)
    missing = _CARD_FIELDS - set(raw)
    if missing:
        raise FairFLError(f"The card lacks {', '.join(sorted(missing))}: add them.")
    grids: dict[str, Grid] = {}
    entries: dict[str, Entry] = {}

    def add(entry: Entry) -> None:
        if entry.id in entries:
            raise FairFLError(f"The id {entry.id} is used twice in the card: rename one.")
        entries[entry.id] = entry

    for name, table in raw["tables"].items():
        grid, cells = _expand_table(raw, name, table)
        grids[name] = grid
        for entry in cells:
            add(entry)
    card = Card(
        grids=grids, entries=entries, **{k: raw[k] for k in _CARD_FIELDS - {"tables", "claims", "notebooks"}}
    )
    for claim in raw["claims"]:
        for keys in _product(claim.get("each", {})):
            add(_claim(raw, card, _fill({k: v for k, v in claim.items() if k != "each"}, keys)))
    for entry in entries.values():
        _check(card, entry)
    return card


def _product(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, map(str, values), strict=True))


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
    _known(f"table {name}", table, _TABLE_FIELDS)
    row_keys, columns = tuple(table["row_keys"]), list(_product(table["columns"]))
    rows, ids, entries = [], [], []
    for *row, cells in table["rows"]:
        printed = str(cells).split()
        if len(row) != len(row_keys) or len(printed) != len(columns):
            raise FairFLError(
                f"Row {row} of table {name} needs {len(row_keys)} keys and {len(columns)} cells."
            )
        rows.append(tuple(map(str, row)))
        line = []
        for column, cell in zip(columns, printed, strict=True):
            keys = {**dict(zip(row_keys, rows[-1], strict=True)), **column}
            entries.append(_cell(raw, name, table, keys, cell))
            line.append(entries[-1].id)
        ids.append(tuple(line))
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


def _cell(
    raw: Mapping[str, Any], name: str, table: Mapping[str, Any], keys: dict[str, str], printed: str
) -> Entry:
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
        override |= choices.get(keys[key], {})
    kind = override.pop("kind", table["kind"])
    if kind == "arithmetic":
        spec: dict[str, Any] = override
    else:
        spec = {k: table[k] for k in ("results", "note", "not_testable") if k in table}
        if "results" in table:
            spec["select"] = select
        if "baseline" in table:
            reference = keys | table["baseline"]
            spec["baseline"] = None if reference == keys else cell_id(reference)
    words = (
        raw["labels"].get(v, f"{k} = {v}" if v.replace(".", "").isdigit() else v) for k, v in keys.items()
    )
    return Entry(
        cell_id(keys),
        raw["paper"],
        table["where"],
        kind,
        RULES[kind][0],
        printed,
        ", ".join(words),
        _notebook(raw, table),
        _fill(spec, keys),
        keys,
    )


def _claim(raw: Mapping[str, Any], card: Card, claim: dict[str, Any]) -> Entry:
    missing = {"id", "where", "kind", "says", "notebook"} - set(claim)
    if missing or claim["kind"] not in RULES:
        raise FairFLError(
            f"The claim {claim.get('id')} of the card needs {', '.join(sorted(missing)) or 'a known kind'}."
        )
    rule = claim.pop("rule", RULES[claim["kind"]][0])
    head = {k: claim.pop(k) for k in ("id", "where", "kind", "says")}
    notebook, printed, cells = _notebook(raw, claim), claim.pop("printed", ""), claim.pop("cells", None)
    claim.pop("notebook")
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
    )


def _printed_cell(card: Card, grid: str, claim: Mapping[str, Any], side: str) -> str:
    """The printed cell that one side of an ordering speaks of."""
    wanted = {k: str(v) for k, v in (claim["select"] | claim[side] | {"metric": claim["metric"]}).items()}
    found = [
        e.printed
        for line in card.grids[grid].ids
        for e in (card.entries[i] for i in line)
        if all(str(e.spec["select"].get(k)) == v for k, v in wanted.items())
    ]
    if len(found) != 1:
        raise FairFLError(f"{len(found)} cells of {grid} fit {wanted}, one is needed: correct the card.")
    return found[0]


def _notebook(raw: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    try:
        return raw["notebooks"][item["notebook"]]
    except KeyError:
        raise FairFLError(
            f"{item.get('id')} names no notebook of the card: choose one of {list(raw['notebooks'])}."
        ) from None


def _known(what: str, given: Mapping[str, Any], allowed: Sequence[str] | set[str]) -> None:
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise FairFLError(f"The {what} has unknown fields {', '.join(unknown)}: remove them.")


def _check(card: Card, entry: Entry) -> None:
    if entry.rule not in RULES[entry.kind] or entry.rule not in card.rules:
        raise FairFLError(
            f"{entry.id}: a {entry.kind} cannot be judged by the rule {entry.rule!r}; correct the card."
        )
    _known(entry.id, entry.spec, (*_FIELDS[entry.rule], *_COMMON))
    metric = entry.spec.get("metric", entry.spec.get("select", {}).get("metric"))
    if metric is not None and metric not in card.metrics:
        raise FairFLError(
            f"{entry.id} is about the metric {metric!r}, which the card does not list: add it to metrics."
        )
    if entry.rule == "arithmetic":
        card.recompute(entry.spec)
    if (
        "check" in entry.spec
        and abs(card.recompute(entry.spec["check"]) - number(entry.printed)) > unit(entry.printed) / 2
    ):
        raise FairFLError(
            f"{entry.id} is said to come from printed cells, but they give "
            f"{float(card.recompute(entry.spec['check'])):g}: correct the card."
        )
