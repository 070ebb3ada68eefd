"""From an entry of a card and the stored results to a judged claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from fairfl_lite import papers, results, store
from fairfl_lite.errors import FairFLError
from fairfl_lite.ledger.verdicts import (
    NAN,
    SYMBOLS,
    Estimate,
    arithmetic_verdict,
    at_most_verdict,
    checked_verdict,
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
    sd_verdict,
    share_verdict,
    similar_verdict,
    slopes,
    value_verdict,
)
from fairfl_lite.papers import Entry, PaperCard


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


MANY = 1e12
"""Counts from here on are shown as powers of ten."""
COLUMNS = tuple(Claim.__dataclass_fields__)


class _Missing(Exception):
    """What has not been measured, and the results file that would have it, where it is not the entry's own."""

    def __init__(self, text: str, file: str | None = None) -> None:
        super().__init__(text)
        self.file = file


@dataclass
class Results:
    """The results files, each read once per judging, and the parts of them that were asked for, by their selectors."""

    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    parts: dict[tuple[str, ...], pd.DataFrame] = field(default_factory=dict)
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
        for column in where:
            if column not in frame:
                raise _Missing(f"results/{name}.csv has no column {column}", name)
        # Column by column in the file's order: entries share their first selectors, and each part is cut out once.
        key: tuple[str, ...] = (name,)
        for column in (c for c in frame.columns if c in where):
            key = (*key, column, str(where[column]))
            if key not in self.parts:
                self.parts[key] = frame[equal(frame[column], where[column])]
            frame = self.parts[key]
        if frame.empty:
            raise _Missing(f"results/{name}.csv has no rows for {_words(where)}", name)
        return frame

    def scores(self, name: str, where: Mapping[str, Any], sense: str, selection: str, over: Sequence[str] = ()) -> pd.DataFrame:
        """One row per seed, one column per combination of `over`; seeds that lack one are left out.

        In a wide file, one row per run and one column per metric, the metric names the column that is read.
        """
        if "selection" in self.frame(name):
            where = {"selection": selection, **where}
        key = (name, _words(where), sense, *over)
        if key not in self.found:
            self.found[key] = self._scores(name, where, sense, over)
        return self.found[key]

    def _scores(self, name: str, where: Mapping[str, Any], sense: str, over: Sequence[str]) -> pd.DataFrame:
        column, frame = "value", self.frame(name)
        if "metric" not in frame and "value" not in frame:
            where = dict(where)
            column = where.pop("metric")
        for key in (*over, column):
            if key not in frame:
                raise _Missing(f"results/{name}.csv has no column {key}", name)
        rows = self.rows(name, where)
        if not over and rows["seed"].is_unique and rows[column].notna().all():
            seeds = pd.Index(rows["seed"], name="seed")
            return pd.DataFrame({"value": score(rows[column], sense).to_numpy()}, index=seeds).sort_index()
        rows = rows[["seed", *over]].assign(value=score(rows[column], sense)).drop_duplicates()
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


def equal(column: pd.Series, wanted: Any) -> np.ndarray:
    """Which rows have the wanted value: numbers compared as numbers, everything else as text."""
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


def _best(found: Sequence[pd.DataFrame], options: Sequence[Any]) -> pd.DataFrame:
    """Column by column the option with the best mean, on the seeds that all options have; `attrs` names the last one."""
    seeds = found[0].index
    for frame in found[1:]:
        seeds = seeds.intersection(frame.index)
    if seeds.empty:
        raise _Missing(f"{', '.join(map(str, options))} have no seed in common")
    means = [frame.loc[seeds].mean() for frame in found]
    chosen = {column: int(np.argmax([m[column] for m in means])) for column in found[0]}
    best = pd.DataFrame({column: found[i].loc[seeds, column] for column, i in chosen.items()})
    best.attrs["option"] = str(options[list(chosen.values())[-1]])
    return best


def _won(gain: Estimate) -> bool:
    return gain.mean > 0


def _sure(gain: Estimate) -> bool:
    return gain.low > 0


def _lost(gain: Estimate) -> bool:
    return gain.high < 0


def _selects(entry: Entry) -> bool:
    """Whether an entry says itself on which data its settings are selected."""
    return any("selection" in entry.spec.get(side, {}) for side in ("select", "better", "worse"))


@dataclass(frozen=True)
class Judge:
    """Measures one entry of a card; each method returns the fields of the Claim that it knows."""

    card: PaperCard
    files: Results

    def side(self, entry: Entry, side: str | None, sense: str, selection: str, over: Sequence[str] = ()) -> pd.DataFrame:
        spec = entry.spec
        if "relative" in spec:
            return self.ratio(entry, side, sense, selection, over)
        where = dict(spec.get("select", {})) | (dict(spec[side]) if side else {})
        if "metric" in spec:
            where.setdefault("metric", spec["metric"])
        name = where.pop("results", spec["results"])
        options = next((key for key, value in where.items() if isinstance(value, list)), None)
        if options is None:
            return self.series(entry, name, where, sense, selection, over)
        found = [self.series(entry, name, {**where, options: value}, sense, selection, over) for value in where[options]]
        return _best(found, where[options])

    def ratio(self, entry: Entry, side: str | None, sense: str, selection: str, over: Sequence[str]) -> pd.DataFrame:
        """Each seed's score as a share of what the selectors of `relative` give for the same side."""
        spec = {k: v for k, v in entry.spec.items() if k != "relative"}
        whole = {**spec, "select": {**spec.get("select", {}), **entry.spec["relative"]}}
        part, all_of_it = _paired(
            self.side(replace(entry, spec=spec), side, sense, selection, over),
            self.side(replace(entry, spec=whole), side, "larger", selection, over),
        )
        return part / all_of_it

    def series(
        self, entry: Entry, name: str, where: Mapping[str, Any], sense: str, selection: str, over: Sequence[str]
    ) -> pd.DataFrame:
        """One row per seed, one column per level of `over`, each the mean over the entry's `mean_over`."""
        means = entry.spec.get("mean_over", ())
        wide = self.files.scores(name, where, sense, selection, [*over, *means])
        if not means:
            return wide
        if not over:
            return wide.mean(axis=1).to_frame("value")
        return wide.T.groupby(level=list(over)).mean().T

    def sense(self, entry: Entry) -> str:
        if "sense" in entry.spec:
            return entry.spec["sense"]
        return self.card.metrics[entry.spec.get("metric") or entry.spec["select"]["metric"]]

    def value(self, entry: Entry, selection: str) -> dict[str, Any]:
        ours = estimate(self.side(entry, None, "larger", selection)["value"])
        baseline = None
        if entry.spec.get("baseline"):
            other = self.card.entries[entry.spec["baseline"]]
            baseline = (other.printed, self.side(other, None, "larger", selection)["value"].mean())
        sense = self.sense(entry)
        notes = [self.beside(entry, lambda other: self.side(other, None, "larger", selection)["value"].mean())]
        if entry.printed == "?":
            return _measured(ours) | {"note": notes[0]}
        verdict = value_verdict(
            entry.printed,
            ours,
            sense=sense,
            printed_seeds=self.card.printed_seeds,
            floor=float(entry.spec.get("floor", self.card.floor)),
            baseline=baseline,
            printed_sd=entry.spec.get("sd"),
        )
        passed = verdict in ("exceeds", "reproduced")
        turned = sense == "closer" and passed and ours.mean * float(papers.number(entry.printed)) < 0
        notes.append("the sign is the opposite" if turned else "")
        return _measured(ours) | {"verdict": verdict, "note": "; ".join(filter(None, notes))}

    def beside(self, entry: Entry, measure: Callable[[Entry], float]) -> str:
        """The same number under other selectors, in the words of the entry; what was not measured is left out."""
        notes = []
        for words, change in entry.spec.get("beside", {}).items():
            other = replace(entry, spec={**entry.spec, "select": {**entry.spec.get("select", {}), **change}})
            try:
                notes.append(f"{words} {measure(other):.3f}")
            except _Missing:
                continue
        return "; ".join(notes)

    def sd(self, entry: Entry, selection: str) -> dict[str, Any]:
        ours = estimate(self.side(entry, None, "larger", selection)["value"])
        found = {"measured": ours.sd, "low": ours.sd_low, "high": ours.sd_high, "seeds": ours.seeds}
        if entry.printed == "?":
            return found
        return found | {"verdict": sd_verdict(entry.printed, ours, printed_seeds=self.card.printed_seeds)}

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
        """The rule `at most`: of a fall where the entry has `from` and `to`, else of the value itself."""
        plain = "from" not in entry.spec
        ours = estimate(self.side(entry, None, "larger", selection)["value"]) if plain else self.change(entry, selection)
        return _measured(ours) | {"verdict": at_most_verdict(entry.printed, ours)}

    def gains(self, entry: Entry, sense: str, selection: str) -> pd.Series:
        """The gain of each seed that both sides have."""
        better, worse = _paired(self.side(entry, "better", sense, selection), self.side(entry, "worse", sense, selection))
        return better["value"] - worse["value"]

    def gain(self, entry: Entry, sense: str, selection: str) -> Estimate:
        return estimate(self.gains(entry, sense, selection))

    def named(self, entry: Entry) -> list[Entry]:
        """The entries that a gain or a share is taken over."""
        return [e for pattern in entry.spec["entries"] for e in self.card.matching(pattern)]

    def advantage(self, entry: Entry, selection: str) -> dict[str, Any]:
        """The rule `gain`: a printed gain, or with `entries` the mean of their gains on the seeds that all have."""
        if "entries" in entry.spec:
            parts = [self.gains(e, self.sense(e), selection) for e in self.named(entry)]
            ours = estimate(pd.concat(parts, axis=1, join="inner").mean(axis=1))
        else:
            ours = self.gain(entry, self.sense(entry), selection)
        verdict = improvement_verdict(
            entry.printed, ours, sense="larger", printed_seeds=self.card.printed_seeds, floor=self.card.floor
        )
        return _measured(ours) | {"verdict": verdict}

    def share(self, entry: Entry, selection: str) -> dict[str, Any]:
        """The rule `share`: of the named orderings, those with a gain above 0; the interval counts the sure ones."""
        ours = [self.gain(e, self.sense(e), selection) for e in self.named(entry)]
        won, sure, lost = (sum(map(test, ours)) for test in (_won, _sure, _lost))
        return {
            "measured": won / len(ours),
            "low": sure / len(ours),
            "high": 1 - lost / len(ours),
            "seeds": min(e.seeds for e in ours),
            "verdict": share_verdict(entry.printed, Fraction(won, len(ours))),
            "note": f"{won} of {len(ours)}, {sure} with the whole interval above 0, {lost} with the whole below",
        }

    def slope(self, entry: Entry, sense: str, selection: str) -> Estimate:
        levels = [entry.spec["levels"]]
        if "better" in entry.spec:
            better, worse = _paired(*(self.side(entry, side, sense, selection, levels) for side in ("better", "worse")))
            wide = (better - worse).dropna(axis=1)
        else:
            wide = self.side(entry, None, sense, selection, levels)
        if "order" in entry.spec:  # of levels that are words
            absent = [level for level in entry.spec["order"] if level not in wide]
            if absent:
                raise _Missing(f"results/{entry.spec['results']}.csv has no {levels[0]} {', '.join(absent)}")
            wide = wide[entry.spec["order"]]
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
        if entry.rule != "trend":
            worse = self.side(entry, "worse", sense, selection).attrs.get("option", "")
            best = f"the best of the others is {self.card.labels.get(worse, worse)}" if worse else ""
            beside = self.beside(entry, lambda other: measure(other, sense, selection).mean)
            note = "; ".join(filter(None, (note, best, beside)))
        return _measured(ours) | {"verdict": verdict(ours), "note": note}

    def arithmetic(self, entry: Entry, selection: str) -> dict[str, Any]:
        recomputed = self.card.recompute(entry.spec)
        verdict, note = arithmetic_verdict(entry.printed, recomputed)
        if "fall" in entry.spec:
            low, high = self.rounding(entry.spec["fall"])
            points = 100 * float(self.card.total(entry.spec["fall"][:1]) - self.card.total(entry.spec["fall"][1:]))
            note += f"; the rounding of the cells allows {100 * low:.1f}% to {100 * high:.1f}%"
            note += f"; as a difference {abs(points):.1f} points"
        if "lead" in entry.spec and verdict != "holds":
            allowed = float(papers.unit(entry.printed))  # half a unit of either cell, which have its last digit
            low, high = 100 * (float(recomputed) - allowed), 100 * (float(recomputed) + allowed)
            note += f"; the rounding of the cells allows {low:+.0f}% to {high:+.0f}%"
        return {"measured": float(recomputed), "verdict": verdict, "note": note}

    def rounding(self, fall: Sequence[str]) -> tuple[float, float]:
        """The smallest and largest fall that cells within half a unit of the printed ones can give."""
        (a,), (b,) = (self.card.printed(pattern) for pattern in fall)
        a0, b0 = abs(papers.number(a.printed)), abs(papers.number(b.printed))
        ha, hb = papers.unit(a.printed) / 2, papers.unit(b.printed) / 2
        return float(1 - (b0 + hb) / (a0 - ha)), float(1 - max(b0 - hb, Fraction(0)) / (a0 + ha))

    def count(self, entry: Entry, selection: str) -> dict[str, Any]:
        measured = self.files.number(_file(entry), entry.spec["name"])
        allowed = entry.spec.get("tolerance")
        return {
            "measured": measured,
            "verdict": count_verdict(entry.printed, measured, float(allowed) if allowed is not None else None),
        }

    def identity(self, entry: Entry, selection: str) -> dict[str, Any]:
        measured = self.files.number(_file(entry), entry.spec["name"])
        rule = exists_verdict if entry.rule == "exists" else identity_verdict
        return {"measured": measured, "verdict": rule(measured, float(entry.spec["tolerance"]))}

    def checked(self, entry: Entry, selection: str) -> dict[str, Any]:
        """The rule `checked`, over the rows whose column `how` fits the entry's shell pattern, or does not after a "!"."""
        rows = self.files.rows(_file(entry), entry.spec["select"])
        if "how" in entry.spec:
            pattern = entry.spec["how"]
            fits = [fnmatchcase(str(how), pattern.removeprefix("!")) for how in rows["how"]]
            rows = rows[np.array(fits) != pattern.startswith("!")]
        instances, violations, worst = rows["instances"].sum(), rows["violations"].sum(), rows["worst"].max()
        if not instances:
            raise _Missing(f"results/{_file(entry)}.csv has no instance of {_words(_selectors(entry.spec))}")
        note = f"{_many(instances)} instances, {_many(violations)} against it"
        note += f", worst {worst:.4g}" if worst == worst else ""
        return {"measured": float(instances), "verdict": checked_verdict(violations), "note": note}

    def draw(self, entry: Entry, selection: str) -> dict[str, Any]:
        if "beta" in entry.spec:
            law = stats.beta(*entry.spec["beta"])
            low, high = map(float, law.interval(0.99))
            return {"measured": float(law.median()), "low": low, "high": high, "verdict": draw_verdict(entry.printed, low, high)}
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
            if any(key in spec for key in ("results", "name", "entries", "beta")) or entry.rule == "arithmetic":
                found = self.measure(entry, self.card.selection)
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
            "gain": self.advantage,
            "share": self.share,
            "sd": self.sd,
            "arithmetic": self.arithmetic,
            "ordering": self.compare,
            "similar": self.compare,
            "no gain": self.compare,
            "trend": self.compare,
            "count": self.count,
            "draw": self.draw,
            "identity": self.identity,
            "exists": self.identity,
            "checked": self.checked,
        }
        return rules[entry.rule](entry, selection)

    def validation(self, entry: Entry) -> float:
        sources = self.named(entry) if "entries" in entry.spec else [entry]
        if entry.rule == "draw" or not all("results" in e.spec for e in sources) or any(map(_selects, sources)):
            return NAN
        try:
            if any("selection" not in self.files.frame(e.spec["results"]) for e in sources):
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


def _selectors(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec.get("select", {}), **{key: spec[key] for key in ("metric", "how") if key in spec}}


def _source(entry: Entry) -> str:
    """Where the measured number is read: results file and selector, or the formula over printed cells."""
    spec = entry.spec
    if entry.rule == "arithmetic":
        return "printed cells"
    if "name" in spec:
        return f"results/{_file(entry)}.csv: {spec['name']}"
    if "entries" in spec:
        return f"entries {', '.join(spec['entries'])}"
    if "beta" in spec:
        return f"Beta({', '.join(map(str, spec['beta']))})"
    if "results" not in spec:
        return ""
    sides = [f"{side} {_words(spec[side])}" for side in ("better", "worse", "from", "to") if side in spec]
    parts = [
        _words(_selectors(spec)),
        *sides,
    ]
    return f"results/{spec['results']}.csv: {'; '.join(parts)}"


def judged(paper: str | None = None) -> list[Claim]:
    """Every claim of a paper, or of all papers, in the order of the cards."""
    stored = sorted((store.root() / "results").rglob("*.*"))
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
    card = papers.of(id)
    return Judge(card, Results()).claim(card.entries[id])


def summary(paper: str | None = None) -> pd.DataFrame:
    """How many claims have which verdict, by paper, part (a table's name, or text) and kind."""
    frame = claims(paper)
    tables = {e.id: e.where for name in papers.names() for e in papers.load(name).entries.values() if e.keys}
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
    if c.printed.endswith("%") and c.kind in ("value", "arithmetic", "count", "draw"):
        return f"{100 * value:.1f}%"
    if abs(value) >= MANY:
        return _many(value)
    if float(value).is_integer() and (abs(value) >= 1 or c.kind in ("arithmetic", "count")):
        return f"{value:,.0f}" if "," in c.printed or abs(value) >= 10_000 else f"{value:.0f}"
    return f"{value:.3f}" if abs(value) >= 0.0005 or value == 0 else f"{value:.1g}"


def _many(count: float) -> str:
    return f"{count:,.0f}" if count < MANY else f"{count:.2e}"


def interval(c: Claim) -> str:
    return f"[{shown(c, c.low)}, {shown(c, c.high)}]" if c.low == c.low else ""
