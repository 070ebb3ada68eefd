"""From an entry of a card and the stored results to a judged claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairfl_lite import experiments, papers, results
from fairfl_lite.errors import FairFLError, nearest
from fairfl_lite.ledger.verdicts import (
    NAN,
    SYMBOLS,
    Estimate,
    arithmetic_verdict,
    at_most_verdict,
    count_verdict,
    draw_verdict,
    estimate,
    exists_verdict,
    identity_verdict,
    improvement,
    improvement_verdict,
    no_gain_verdict,
    ordering_verdict,
    score,
    similar_verdict,
    slopes,
    value_verdict,
)
from fairfl_lite.papers import Card, Entry


@dataclass(frozen=True)
class Claim:
    """One line of the ledger: an entry of a card, what was measured, and the verdict.

    `measured`, `low`, `high` and `seeds` are those of the settings selected as the paper selects them;
    `measured_validation` is the same number when settings are selected on validation data. For orderings and
    trends `measured` is the gain, positive as claimed. Numbers that do not exist are nan, `seeds` then 0.
    """

    id: str
    paper: str
    where: str
    kind: str
    printed: str
    measured: float = NAN
    low: float = NAN
    high: float = NAN
    seeds: int = 0
    verdict: str = "not yet measured"
    notebook: str = ""
    note: str = ""
    measured_validation: float = NAN
    says: str = ""
    rule: str = ""
    source: str = ""

    def __str__(self) -> str:
        numbers = f"printed {self.printed or '-'}, ours {shown(self, self.measured)} {interval(self)}".strip()
        return f"{self.id}: {self.says}; {numbers}: {self.verdict}"


COLUMNS = tuple(Claim.__dataclass_fields__)


class _Missing(Exception):
    """What has not been measured, and the results file that would have it, where it is not the entry's own."""

    def __init__(self, text: str, file: str | None = None) -> None:
        super().__init__(text)
        self.file = file


@dataclass
class Results:
    """The results files, each read once per judging, and which of their rows have which value."""

    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    masks: dict[tuple[str, str, str], np.ndarray] = field(default_factory=dict)
    found: dict[tuple[Any, ...], pd.DataFrame] = field(default_factory=dict)

    def frame(self, name: str) -> pd.DataFrame:
        if name not in self.frames:
            if not results.exists(name):
                raise _Missing(f"results/{name}.csv is not there", name)
            self.frames[name] = results.load(name)
        return self.frames[name]

    def rows(self, name: str, where: Mapping[str, Any]) -> pd.DataFrame:
        """The rows in which every named column has the given value, numbers compared as numbers."""
        frame = self.frame(name)
        keep = np.ones(len(frame), dtype=bool)
        for column, wanted in where.items():
            if column not in frame:
                raise _Missing(f"results/{name}.csv has no column {column}", name)
            key = (name, column, str(wanted))
            if key not in self.masks:
                self.masks[key] = _equal(frame[column], wanted)
            keep &= self.masks[key]
        if not keep.any():
            raise _Missing(f"results/{name}.csv has no rows for {_words(where)}", name)
        return frame[keep]

    def scores(self, name: str, where: Mapping[str, Any], sense: str, selection: str, over: Sequence[str] = ()) -> pd.DataFrame:
        """One row per seed, one column per combination of `over`; seeds that lack one are left out."""
        if "selection" in self.frame(name):
            where = {**where, "selection": selection}
        key = (name, _words(where), sense, *over)
        if key not in self.found:
            self.found[key] = self._scores(name, where, sense, over)
        return self.found[key]

    def _scores(self, name: str, where: Mapping[str, Any], sense: str, over: Sequence[str]) -> pd.DataFrame:
        rows = self.rows(name, where)[["seed", *over, "value"]]
        if not over and rows["seed"].is_unique and rows["value"].notna().all():
            return rows.assign(value=score(rows["value"], sense)).set_index("seed").sort_index()
        rows = rows.assign(value=score(rows["value"], sense)).drop_duplicates()
        if rows.duplicated(["seed", *over]).any():
            raise FairFLError(f"results/{name}.csv has several values per seed for {_words(where)}: the card must select one.")
        wide = rows.pivot(index="seed", columns=list(over), values="value") if over else rows.set_index("seed")[["value"]]
        wide = wide.dropna().sort_index()
        if wide.empty:
            raise _Missing(f"results/{name}.csv has no seed with all of {_words(where)}", name)
        return wide

    def number(self, name: str, key: str) -> float:
        """A value of a file of names and values."""
        return float(self.rows(name, {"name": key})["value"].iloc[0])


@dataclass
class Afresh(Results):
    """The same, measured now and not read: of each experiment the cells that the entry selects, with all seeds."""

    select: Mapping[str, Any] = field(default_factory=dict)

    def frame(self, name: str) -> pd.DataFrame:
        if name not in self.frames:
            experiment = experiments.get(name)
            settings = pd.DataFrame(list(experiment.cells))
            only: dict[str, Any] = {}
            for key, wanted in self.select.items():
                if key in settings and (same := _equal(settings[key], wanted)).any():
                    only[key] = list(settings[key][same].unique())
            self.frames[name] = experiment.frame(**only)
        return self.frames[name]


def _equal(column: pd.Series, wanted: Any) -> np.ndarray:
    if pd.api.types.is_numeric_dtype(column):
        try:
            return np.isclose(column.to_numpy(dtype=float), float(wanted), rtol=1e-9, atol=1e-12)
        except ValueError:
            return np.zeros(len(column), dtype=bool)
    return (column.astype(str) == str(wanted)).to_numpy()


def _words(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in where.items())


def _paired(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    seeds = first.index.intersection(second.index)
    if seeds.empty:
        raise _Missing("the two sides have no seed in common")
    return first.loc[seeds], second.loc[seeds]


@dataclass(frozen=True)
class Judge:
    """Measures one entry of a card; each method returns the fields of the Claim that it knows."""

    card: Card
    files: Results

    def side(self, entry: Entry, side: str | None, sense: str, selection: str, over: Sequence[str] = ()) -> pd.DataFrame:
        spec = entry.spec
        where = dict(spec.get("select", {})) | (dict(spec[side]) if side else {})
        if "metric" in spec:
            where["metric"] = spec["metric"]
        name = where.pop("results", spec["results"])
        if "mean_over" in spec:
            return self.files.scores(name, where, sense, selection, spec["mean_over"]).mean(axis=1).to_frame("value")
        return self.files.scores(name, where, sense, selection, over)

    def sense(self, entry: Entry) -> str:
        return self.card.metrics[entry.spec.get("metric") or entry.spec["select"]["metric"]]

    def value(self, entry: Entry, selection: str) -> dict[str, Any]:
        ours = estimate(self.side(entry, None, "larger", selection)["value"])
        baseline = None
        if entry.spec.get("baseline"):
            reference = self.card.entries[entry.spec["baseline"]]
            baseline = (reference.printed, self.side(reference, None, "larger", selection)["value"].mean())
        sense = self.sense(entry)
        verdict = value_verdict(
            entry.printed,
            ours,
            sense=sense,
            printed_seeds=self.card.printed_seeds,
            floor=self.card.floor,
            baseline=baseline,
        )
        passed = verdict in ("exceeds", "reproduced")
        turned = sense == "closer" and passed and ours.mean * float(papers.number(entry.printed)) < 0
        return _measured(ours) | {"verdict": verdict, "note": "the sign is the opposite" if turned else ""}

    def change(self, entry: Entry, selection: str) -> Estimate:
        start, end = _paired(self.side(entry, "from", "larger", selection), self.side(entry, "to", "larger", selection))
        return improvement(start["value"], end["value"])

    def improvement(self, entry: Entry, selection: str) -> dict[str, Any]:
        ours = self.change(entry, selection)
        verdict = improvement_verdict(
            entry.printed,
            ours,
            sense=entry.spec["sense"],
            printed_seeds=self.card.printed_seeds,
            floor=self.card.floor,
        )
        return _measured(ours) | {"verdict": verdict}

    def at_most(self, entry: Entry, selection: str) -> dict[str, Any]:
        ours = self.change(entry, selection)
        return _measured(ours) | {"verdict": at_most_verdict(entry.printed, ours)}

    def gain(self, entry: Entry, sense: str, selection: str) -> Estimate:
        better, worse = _paired(self.side(entry, "better", sense, selection), self.side(entry, "worse", sense, selection))
        return estimate(better["value"] - worse["value"])

    def slope(self, entry: Entry, sense: str, selection: str) -> Estimate:
        levels = [entry.spec["levels"]]
        if "better" in entry.spec:
            better, worse = _paired(*(self.side(entry, side, sense, selection, levels) for side in ("better", "worse")))
            wide = (better - worse).dropna(axis=1)
        else:
            wide = self.side(entry, None, sense, selection, levels)
        if wide.shape[1] < 2:
            raise _Missing(f"results/{entry.spec['results']}.csv has fewer than two levels of {levels[0]}")
        return estimate(slopes(wide.to_numpy()) * (1 if entry.spec["toward"] == "better" else -1))

    def compare(self, entry: Entry, selection: str) -> dict[str, Any]:
        """Orderings and trends; for signed metrics the note has the other reading, larger is better."""
        rules: dict[str, Callable[[Estimate], str]] = {"similar": similar_verdict, "no gain": no_gain_verdict}
        verdict = rules.get(entry.rule, ordering_verdict)
        measure = self.slope if entry.rule == "trend" else self.gain
        sense = self.sense(entry)
        ours = measure(entry, sense, selection)
        note = ""
        if sense == "closer":
            other = measure(entry, "larger", selection)
            note = f"read as larger is better: {other.mean:.3f}, {verdict(other)}"
        return _measured(ours) | {"verdict": verdict(ours), "note": note}

    def arithmetic(self, entry: Entry, selection: str) -> dict[str, Any]:
        recomputed = self.card.recompute(entry.spec)
        verdict, note = arithmetic_verdict(entry.printed, recomputed)
        if "fall" in entry.spec:
            low, high = self.rounding(entry.spec["fall"])
            points = 100 * float(self.card.total(entry.spec["fall"][:1]) - self.card.total(entry.spec["fall"][1:]))
            note += f"; the rounding of the cells allows {100 * low:.1f}% to {100 * high:.1f}%"
            note += f"; as a difference {abs(points):.1f} points"
        return {"measured": float(recomputed), "verdict": verdict, "note": note}

    def rounding(self, fall: Sequence[str]) -> tuple[float, float]:
        """The smallest and largest fall that cells within half a unit of the printed ones can give."""
        (a,), (b,) = (self.card.cells(pattern) for pattern in fall)
        a0, b0 = abs(papers.number(a.printed)), abs(papers.number(b.printed))
        ha, hb = papers.unit(a.printed) / 2, papers.unit(b.printed) / 2
        return float(1 - (b0 + hb) / (a0 - ha)), float(1 - max(b0 - hb, Fraction(0)) / (a0 + ha))

    def count(self, entry: Entry, selection: str) -> dict[str, Any]:
        measured = self.files.number(_file(entry), entry.spec["name"])
        return {
            "measured": measured,
            "verdict": count_verdict(entry.printed, measured, entry.spec.get("tolerance")),
        }

    def identity(self, entry: Entry, selection: str) -> dict[str, Any]:
        measured = self.files.number(_file(entry), entry.spec["name"])
        rule = exists_verdict if entry.rule == "exists" else identity_verdict
        return {"measured": measured, "verdict": rule(measured, float(entry.spec["tolerance"]))}

    def draw(self, entry: Entry, selection: str) -> dict[str, Any]:
        row = self.files.rows(entry.spec["results"], entry.spec["select"]).iloc[0]
        low, high = float(row["low"]), float(row["high"])
        return {
            "measured": float(row["median"]),
            "low": low,
            "high": high,
            "verdict": draw_verdict(entry.printed, low, high),
        }

    def claim(self, entry: Entry) -> Claim:
        spec = entry.spec
        found: dict[str, Any] = {}
        notes = [spec.get("not_testable", ""), spec.get("note", "")]
        try:
            if any(key in spec for key in ("results", "name")) or entry.rule == "arithmetic":
                found = self.measure(entry, "paper")
                notes.append(found.pop("note", ""))
        except _Missing as missing:
            if "unless_measured" in spec:
                found = {"verdict": "not testable"}
                notes.append(spec["unless_measured"])
            elif "not_testable" not in spec:
                notes.append(f"{missing}: run `{self.card.command.format(results=missing.file or _file(entry))}`")
        if "not_testable" in spec:
            found["verdict"] = "not testable"
        return Claim(
            id=entry.id,
            paper=entry.paper,
            where=entry.where,
            kind=entry.kind,
            printed=entry.printed,
            says=entry.says,
            notebook=entry.notebook,
            rule=entry.rule,
            source=_source(entry),
            note="; ".join(filter(None, notes)),
            measured_validation=self.validation(entry),
            **found,
        )

    def measure(self, entry: Entry, selection: str) -> dict[str, Any]:
        rules: dict[str, Callable[[Entry, str], dict[str, Any]]] = {
            "value": self.value,
            "improvement": self.improvement,
            "at most": self.at_most,
            "arithmetic": self.arithmetic,
            "ordering": self.compare,
            "similar": self.compare,
            "no gain": self.compare,
            "trend": self.compare,
            "count": self.count,
            "draw": self.draw,
            "identity": self.identity,
            "exists": self.identity,
        }
        return rules[entry.rule](entry, selection)

    def validation(self, entry: Entry) -> float:
        if "results" not in entry.spec or entry.rule == "draw":
            return NAN
        try:
            if "selection" not in self.files.frame(entry.spec["results"]):
                return NAN
            return self.measure(entry, "validation")["measured"]
        except _Missing:
            return NAN


def _measured(ours: Estimate) -> dict[str, Any]:
    return {"measured": ours.mean, "low": ours.low, "high": ours.high, "seeds": ours.seeds}


def _file(entry: Entry) -> str:
    """The results file an entry is measured from."""
    names = "counts" if entry.rule == "count" else "identities"
    return entry.spec.get("results", f"{entry.paper}/{names}")


def _source(entry: Entry) -> str:
    """Where the measured number is read: results file and selector, or the formula over printed cells."""
    spec = entry.spec
    if entry.rule == "arithmetic":
        return "printed cells"
    if "name" in spec:
        return f"results/{_file(entry)}.csv: {spec['name']}"
    if "results" not in spec:
        return ""
    sides = [f"{side} {_words(spec[side])}" for side in ("better", "worse", "from", "to") if side in spec]
    parts = [
        _words({**spec.get("select", {}), **({"metric": spec["metric"]} if "metric" in spec else {})}),
        *sides,
    ]
    return f"results/{spec['results']}.csv: {'; '.join(parts)}"


def judged(paper: str | None = None) -> list[Claim]:
    """Every claim of a paper, or of all papers, in the order of the cards."""
    stored = sorted((results.root() / "results").rglob("*.*"))
    return list(_judged(paper, tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in stored)))


@lru_cache(maxsize=4)
def _judged(paper: str | None, stamp: tuple[tuple[str, int, int], ...]) -> tuple[Claim, ...]:
    """Judging takes seconds and a page asks several times: kept for as long as the results files, `stamp`, are the same."""
    files = Results()
    cards = [papers.load(name) for name in (papers.names() if paper is None else [paper])]
    return tuple(Judge(card, files).claim(entry) for card in cards for entry in card.entries.values())


def claims(paper: str | None = None) -> pd.DataFrame:
    """The ledger: one row per claim, the columns those of `Claim`."""
    return pd.DataFrame([asdict(c) for c in judged(paper)], columns=list(COLUMNS))


def claim(id: str) -> Claim:
    """One claim by its id; FairFLError names the nearest id when there is none."""
    known = {entry.id: card for card in map(papers.load, papers.names()) for entry in card.entries.values()}
    if id not in known:
        near = nearest(id, known, cutoff=0)
        raise FairFLError(f"There is no claim {id!r}; the nearest id is {near}.")
    return Judge(known[id], Results()).claim(known[id].entries[id])


def remeasure(id: str) -> Claim:
    """The claim judged by a measurement made now; nothing that is stored changes."""
    stored = claim(id)
    if not stored.source.startswith("results/"):
        raise FairFLError(f"Claim {id} is not judged by a measurement, so there is nothing to run again.")
    card = papers.load(stored.paper)
    return Judge(card, Afresh(select=card.entries[id].spec.get("select", {}))).claim(card.entries[id])


def summary(paper: str | None = None) -> pd.DataFrame:
    """How many claims have which verdict, by paper, part (a table's name, or text) and kind."""
    frame = claims(paper)
    tables = {
        e: grid.where for name in papers.names() for grid in papers.load(name).grids.values() for line in grid.ids for e in line
    }
    frame["part"] = [tables.get(i, "text") for i in frame["id"]]
    counts = frame.groupby(["paper", "part", "kind", "verdict"]).size().unstack(fill_value=0)
    counts = counts[[v for v in SYMBOLS if v in counts]].rename_axis(columns=None)
    return counts.assign(all=counts.sum(axis=1))


def to_csv(path: str | Path, paper: str | None = None) -> Path:
    """Write the ledger as CSV, numbers to six digits."""
    target = Path(path)
    claims(paper).to_csv(target, index=False, float_format="%.6g", lineterminator="\n")
    return target


def shown(c: Claim, value: float) -> str:
    """A number to three decimals; whole counts without, percentages as the paper prints them."""
    if value != value:
        return "-"
    if c.printed.endswith("%") and c.kind in ("value", "arithmetic", "count"):
        return f"{100 * value:.1f}%"
    if float(value).is_integer() and (abs(value) >= 1 or c.kind in ("arithmetic", "count")):
        return f"{value:,.0f}" if "," in c.printed or abs(value) >= 10_000 else f"{value:.0f}"
    return f"{value:.3f}" if abs(value) >= 0.0005 or value == 0 else f"{value:.1g}"


def interval(c: Claim) -> str:
    return f"[{shown(c, c.low)}, {shown(c, c.high)}]" if c.low == c.low else ""
