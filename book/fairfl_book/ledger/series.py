"""The stored results, and what an entry selects from them: one value for each independent run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book import results
from fairfl_book.cards import Entry, PaperCard
from fairfl_book.cards.lines import meant
from fairfl_book.ledger.numbers import Estimate, estimate, share
from fairfl_lite.errors import FairFLError, nearest


class Missing(Exception):
    """What has not been measured, and the results file that would have it, where it is not the entry's own."""

    def __init__(self, text: str, file: str | None = None) -> None:
        super().__init__(text)
        self.file = file


class Unknown(FairFLError):
    """A selector that names no column of the result it reads: a mistake of the card, and not what is still to be measured."""


class Diverged(Missing):
    """What was measured, and has a number in no run."""


@dataclass
class Results:
    """The results files, each read once per judging, and the parts of them that were asked for, by their selectors."""

    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    parts: dict[tuple[str, ...], pd.DataFrame] = field(default_factory=dict)
    found: dict[tuple[Any, ...], pd.DataFrame] = field(default_factory=dict)

    def frame(self, name: str) -> pd.DataFrame:
        if name not in self.frames:
            if not results.exists(name):
                raise Missing(f"results/{name}.csv is not there", name)
            self.frames[name] = results.load(name)
        return self.frames[name]

    def rows(self, name: str, where: Mapping[str, Any]) -> pd.DataFrame:
        """The rows in which every named column has the given value, numbers compared as numbers."""
        frame = self.frame(name)
        for column in where:
            _column(name, frame, column)
        # Column by column in the file's order: entries share their first selectors, and each part is cut out once.
        key: tuple[str, ...] = (name,)
        for column in (c for c in frame.columns if c in where):
            key = (*key, column, str(where[column]))
            if key not in self.parts:
                self.parts[key] = frame[equal(frame[column], where[column])]
            frame = self.parts[key]
        if frame.empty:
            raise Missing(f"results/{name}.csv has no rows for {words(where)}{_misspelt(self.frame(name), where)}", name)
        return frame

    def values(self, name: str, where: Mapping[str, Any], sense: str, selection: str, over: Sequence[str] = ()) -> pd.DataFrame:
        """One row per run, one column per combination of `over`; runs that lack one are left out.

        In a wide file, one row per run and one column per metric, the metric names the column that is read.
        """
        if "selection" in self.frame(name):
            where = {"selection": selection, **where}
        key = (name, words(where), sense, *over)
        if key not in self.found:
            self.found[key] = self._values(name, where, sense, over)
        return self.found[key]

    def _values(self, name: str, where: Mapping[str, Any], sense: str, over: Sequence[str]) -> pd.DataFrame:
        column, frame = "value", self.frame(name)
        if "metric" not in frame and "value" not in frame:
            where = dict(where)
            column = where.pop("metric")
        for key in (*over, column):
            _column(name, frame, key)
        rows = self.rows(name, where)
        trained = "training" in frame  # then seeds deal test rows to one trained set, and are not runs
        if not over and not trained and rows["seed"].is_unique and rows[column].notna().all():  # the common case, at once
            seeds = pd.Index(rows["seed"], name="seed")
            return pd.DataFrame({"value": score(rows[column], sense).to_numpy()}, index=seeds).sort_index()
        rows = (
            rows[["seed", *(["training"] if trained else []), *over]].assign(value=score(rows[column], sense)).drop_duplicates()
        )
        unique = [*(["training"] if trained else []), "seed", *over]
        if rows.duplicated(unique).any():
            raise FairFLError(f"results/{name}.csv has several values per seed for {words(where)}: the card must select one.")
        if trained:
            rows = rows.groupby(["training", *over], as_index=False)["value"].mean().rename(columns={"training": "seed"})
        wide = rows.pivot(index="seed", columns=list(over), values="value") if over else rows.set_index("seed")[["value"]]
        wide = wide.dropna().sort_index()
        if wide.empty:
            lost = Diverged if rows["value"].isna().all() else Missing
            raise lost(f"results/{name}.csv has no seed with all of {words(where)}", name)
        return wide

    def number(self, name: str, key: str) -> float:
        """A value of a file of names and values."""
        return float(self.rows(name, {"name": key})["value"].iloc[0])


def _column(name: str, frame: pd.DataFrame, column: str) -> None:
    if column not in frame:
        raise Unknown(f"results/{name}.csv has no column {column!r}{meant(column, list(frame))}.")


def _misspelt(frame: pd.DataFrame, where: Mapping[str, Any]) -> str:
    """The nearest words to those that no row has: they may be mistakes, or what is still to be measured."""
    found = []
    for column, wanted in where.items():
        if not pd.api.types.is_numeric_dtype(frame[column]) and not equal(frame[column], wanted).any():
            near = nearest(str(wanted), frame[column].astype(str).unique())
            found += [f"; did you mean {column} {near}?"] if near else []
    return "".join(found)


def score(values: pd.Series, sense: str) -> pd.Series:
    """Larger is better: v for "larger", -v for "smaller", -|v| for "closer" (to zero)."""
    return {"larger": values, "smaller": -values, "closer": -values.abs()}[sense]


def equal(column: pd.Series, wanted: Any) -> np.ndarray:
    """Which rows have the wanted value: numbers compared as numbers, everything else as text."""
    if pd.api.types.is_numeric_dtype(column):
        try:
            return np.isclose(column.to_numpy(dtype=float), float(wanted), rtol=1e-9, atol=1e-12)
        except ValueError:
            return np.zeros(len(column), dtype=bool)
    return (column.astype(str) == str(wanted)).to_numpy()


def words(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in where.items())


def paired(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    if first.index.equals(second.index):
        return first, second
    seeds = first.index.intersection(second.index)
    if seeds.empty:
        raise Missing("the two sides have no run in common")
    return first.loc[seeds], second.loc[seeds]


def _common(found: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """The same frames on the runs that all of them have."""
    seeds = found[0].index
    for frame in found[1:]:
        seeds = seeds.intersection(frame.index)
    if seeds.empty:
        raise Missing("the options have no run in common")
    return [frame.loc[seeds] for frame in found]


def _best(found: Sequence[pd.DataFrame], options: Sequence[Any]) -> pd.DataFrame:
    """Column by column the option with the best mean, on the runs that all options have; `attrs` names the last one."""
    found = _common(found)
    means = [frame.mean() for frame in found]
    chosen = {column: int(np.argmax([m[column] for m in means])) for column in found[0]}
    best = pd.DataFrame({column: found[i][column] for column, i in chosen.items()})
    best.attrs["option"] = str(options[list(chosen.values())[-1]])
    return best


@dataclass(frozen=True)
class Case:
    """An entry of a card, the results it is judged by, and the way its settings were selected."""

    card: PaperCard
    entry: Entry
    files: Results
    selection: str

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.entry.spec

    def about(self, entry: Entry) -> Case:
        """The same question of another entry."""
        return replace(self, entry=entry)

    def changed(self, **select: Any) -> Case:
        """The same entry under other selectors."""
        return self.about(replace(self.entry, spec={**self.spec, "select": {**self.spec.get("select", {}), **select}}))

    @property
    def metric(self) -> str | None:
        return self.spec.get("metric") or self.spec.get("select", {}).get("metric")

    @property
    def yes_no(self) -> bool:
        """Whether a run has nothing but a yes or a no."""
        return self.metric in self.card.yes_no and not self.spec.get("mean_over") and "relative" not in self.spec

    def level(self) -> Estimate:
        """The mean over runs of what the entry selects."""
        values = self.side()["value"]
        return share(values) if self.yes_no else estimate(values)

    def gain(self, sense: str | None = None) -> Estimate:
        """The mean gain of `better` over `worse` on the same runs."""
        gains = self.gains(sense)
        return share(gains, paired=True) if self.yes_no else estimate(gains)

    @property
    def sense(self) -> str:
        if "sense" not in self.spec and not self.metric:
            raise FairFLError(f"{self.entry.id} names neither a metric nor what is better: add metric or sense to it.")
        return self.spec["sense"] if "sense" in self.spec else self.card.metrics[self.metric or ""]

    @property
    def margin(self) -> float:
        """The entry's own, else that of its metric."""
        given = self.spec.get("margin", self.card.margins.get(self.metric or "", {}).get("margin"))
        if given is None:
            raise FairFLError(
                f"{self.entry.id} is judged by a margin, and the card has none for {self.metric}: add it to margins."
            )
        return float(given)

    def named(self) -> list[Entry]:
        """The entries that a gain or a share is taken over."""
        return [e for pattern in self.spec["entries"] for e in self.card.matching(pattern)]

    def side(self, side: str | None = None, sense: str = "larger", over: Sequence[str] = ()) -> pd.DataFrame:
        """One row per run of what the entry, or one side of it, selects; of a list of options the best."""
        if "relative" in self.spec:
            return self._share(side, sense, over)
        name, where, options = self._asked(side)
        if options is None:
            return self._series(name, where, sense, over)
        found = self._options(side, sense, over)
        best = _best(list(found.values()), list(found))
        best.attrs["lost"] = [str(value) for value in where[options] if value not in found]
        return best

    def _asked(self, side: str | None) -> tuple[str, dict[str, Any], str | None]:
        """The results file, the selectors of a side, and which of them is a list of options."""
        where = dict(self.spec.get("select", {})) | (dict(self.spec[side]) if side else {})
        if "metric" in self.spec:
            where.setdefault("metric", self.spec["metric"])
        name = where.pop("results", self.spec["results"])
        return name, where, next((key for key, value in where.items() if isinstance(value, list)), None)

    def _options(self, side: str | None, sense: str, over: Sequence[str] = ()) -> dict[Any, pd.DataFrame]:
        """What each option of a side gives; those that diverge in every run are left out."""
        name, where, options = self._asked(side)
        if options is None or not where[options]:
            raise FairFLError(f"{self.entry.id} asks for the best of no {options or 'options'}: name at least one.")
        found: dict[Any, pd.DataFrame] = {}
        for value in where[options]:
            try:
                found[value] = self._series(name, {**where, options: value}, sense, over)
            except Diverged:  # no rival; one that was not measured is not passed over
                continue
        if not found:
            raise Diverged(f"results/{name}.csv has no {options} with a number", name)
        return found

    def luck(self, side: str, sense: str, tried: int = 1_000) -> float:
        """By how much the best of a side's options looks better than it is, because it was chosen in the runs that measure it.

        The bootstrap's estimate: in resamples of the runs, the mean of the option that is best there, less that option's mean
        in our runs; less the same of the option that is best in our runs, which has no luck on average.
        """
        frames = list(self._options(side, sense).values())
        values = np.stack([frame["value"] for frame in _common(frames)])  # [option, run]
        drawn = values[:, np.random.default_rng(0).integers(0, values.shape[1], (tried, values.shape[1]))].mean(2)
        mean, best = values.mean(1), drawn.argmax(0)
        top = mean.argmax()
        return float((drawn.max(0) - drawn[top] + mean[top] - mean[best]).mean())

    def _share(self, side: str | None, sense: str, over: Sequence[str]) -> pd.DataFrame:
        """Each run's score as a share of what the selectors of `relative` give for the same side."""
        plain = self.about(replace(self.entry, spec={k: v for k, v in self.spec.items() if k != "relative"}))
        part, whole = paired(plain.side(side, sense, over), plain.changed(**self.spec["relative"]).side(side, "larger", over))
        return part / whole

    def _series(self, name: str, where: Mapping[str, Any], sense: str, over: Sequence[str]) -> pd.DataFrame:
        """One row per run, one column per level of `over`, each the mean over the entry's `mean_over`."""
        means = self.spec.get("mean_over", ())
        wide = self.files.values(name, where, sense, self.selection, [*over, *means])
        if not means:
            return wide
        if not over:
            return wide.mean(axis=1).to_frame("value")
        return wide.T.groupby(level=list(over)).mean().T

    def gains(self, sense: str | None = None) -> pd.Series:
        """The gain of `better` over `worse` in each run that both have."""
        sense = sense or self.sense
        better, worse = paired(self.side("better", sense), self.side("worse", sense))
        return better["value"] - worse["value"]
