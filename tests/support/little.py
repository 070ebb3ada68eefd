"""A little card and little results, made for one test: what a rule says of numbers that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy import stats

from fairfl_book import cards
from fairfl_book.cards import PaperCard
from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.judge import Judge
from fairfl_book.ledger.rules import check
from fairfl_book.ledger.series import Results

RUNS = "little/runs"
MARGINS = {"up": 0.01, "down": 0.01, "near": 0.02}
"""Of the three metrics of a little card: larger is better, smaller is better, and closer to zero."""
Series = tuple[Mapping[str, Any], Iterable[float]]
Save = Callable[[str, pd.DataFrame], None]
"""Puts a result such as "fairfed/table1" into the project of a test."""


def text(*claims: Mapping[str, Any], tables: Mapping[str, Any] | None = None, **fields: Any) -> str:
    """The YAML of a card of these claims and tables; ten printed runs unless the fields say otherwise."""
    common = {"where": "there", "says": "something", "notebook": "one"}
    raw = {
        "paper": "little", "citation": {}, "settings": {}, "labels": {}, "printed_seeds": 10, "command": "measure {results}",
        "metrics": {"up": "larger", "down": "smaller", "near": "closer"},
        "margins": {name: {"margin": size, "reason": "for a test"} for name, size in MARGINS.items()},
        "notebooks": {"one": "notebooks/little/one.ipynb"}, "tables": dict(tables or {}),
        "claims": [{"id": "it", **common, **claim} for claim in claims], **fields,
    }  # fmt: skip
    return str(yaml.dump(raw, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, allow_unicode=True))


def card(*claims: Mapping[str, Any], tables: Mapping[str, Any] | None = None, **fields: Any) -> PaperCard:
    """The card of that text, checked."""
    made = cards.parse(text(*claims, tables=tables, **fields))
    check(made)
    return made


def table(rows: Mapping[str, str], metric: str = "up", **fields: Any) -> dict[str, Any]:
    """A table of one column, a row for each method; the first is the baseline."""
    return {
        "where": "Table", "title": "little", "kind": "level", "notebook": "one", "results": RUNS, "id": "{method}",
        "columns": {"metric": [metric]}, "row_keys": ["method"], "baseline": {"method": next(iter(rows))},
        "rows": [[method, cell] for method, cell in rows.items()], "marks": {"?": {"not_testable": "not legible"}}, **fields,
    }  # fmt: skip


def runs(*series: Series) -> pd.DataFrame:
    """One row per seed for each (keys, values)."""
    return pd.DataFrame([{**keys, "seed": seed, "value": value} for keys, values in series for seed, value in enumerate(values)])


def exact(mean: float, sd: float, n: int) -> np.ndarray:
    """n values with exactly this mean and sample standard deviation."""
    if n == 1:
        return np.array([mean])
    shape = np.linspace(-1, 1, n)
    return mean + sd * shape / shape.std(ddof=1)


def judge(card: PaperCard, id: str, *series: Series, frames: Mapping[str, pd.DataFrame] | None = None) -> Claim:
    """The entry of a little card, judged by these runs and no other results."""
    files = Results(frames={**({RUNS: runs(*series)} if series else {}), **(frames or {})})
    return Judge(card, files).claim(card.entries[f"little.{id}"])


def judged(claim: Mapping[str, Any], *series: Series, frames: Mapping[str, pd.DataFrame] | None = None, **fields: Any) -> Claim:
    """One claim by these runs; it reads them unless it names other results or says that it needs none."""
    spec = {"results": RUNS, **claim}
    return judge(card({k: v for k, v in spec.items() if v is not None}, **fields), "it", *series, frames=frames)


def cell(printed: str, values: Iterable[float], sd: str | None = None, **fields: Any) -> Claim:
    """A printed number of the metric `up` by one value per run."""
    claim = {"kind": "level", "printed": printed, "metric": "up", **({} if sd is None else {"sd": sd})}
    return judged(claim, ({"metric": "up"}, values), **fields)


def pair(rule: str, gains: Iterable[float], metric: str = "up", kind: str = "ordering", **spec: Any) -> Claim:
    """A comparison of a with b, where a is better by these gains in each run."""
    gains = np.asarray(list(gains), dtype=float)
    base = np.linspace(0.5, 0.6, len(gains))  # of the size of a score, and other in each run
    sign = {"up": 1, "down": -1, "near": -1}[metric]
    claim = {"kind": kind, "rule": rule, "metric": metric, "better": {"method": "a"}, "worse": {"method": "b"}, **spec}
    sides = ({"metric": metric, "method": "a"}, base + sign * gains), ({"metric": metric, "method": "b"}, base)
    return judged(claim, *sides)


def forecast(detail: str) -> int | None:
    """The number of runs that would decide, of a detail that names one."""
    found = re.search(r"(?:^|; )about ([\d,]+) runs would decide$", detail)
    return int(found[1].replace(",", "")) if found else None


def forecasts(said: Callable[..., Claim], cases: Iterable[tuple[Any, ...]], most: int = 5000) -> int:
    """How many of said(runs, ...) name a number of runs that would decide: with so many it does, with fewer it does not."""
    tried = 0
    for have, *about in cases:
        found = said(have, *about)
        wanted = forecast(found.detail)
        if wanted is None or wanted > most:
            continue
        tried += 1
        assert found.verdict == "cannot tell" and wanted > have
        assert said(wanted, *about).verdict not in ("cannot tell", "not yet measured")
        fewer = wanted - 10 ** max(len(str(wanted)) - 2, 0)  # it is rounded upwards to two digits
        assert fewer <= have or said(fewer, *about).verdict == "cannot tell"
    return tried


def by_scipy(
    m: float, s: float, n: int, p: float, q: float | None, k: int, h: float, margin: float, borrowed: bool = False
) -> str:
    """The verdict by one-sided t-tests against the printed number, moved by the margin and half a unit."""

    def chance(mean: float, alternative: str) -> float:
        if q is None or borrowed:  # of our runs, ours where q is not given: n - 1 degrees of freedom
            t = (m - mean) / sqrt(s**2 / n + (s if q is None else q) ** 2 / k)
            return float(stats.t.cdf(t, n - 1) if alternative == "less" else stats.t.sf(t, n - 1))
        return float(stats.ttest_ind_from_stats(m, s, n, mean, q, k, equal_var=False, alternative=alternative).pvalue)

    if max(chance(p + margin - h, "less"), chance(p - margin + h, "greater")) <= 0.05:
        return "agrees"
    if min(chance(p + margin + h, "greater"), chance(p - margin - h, "less")) < 0.05:
        return "differs"
    return "cannot tell"
