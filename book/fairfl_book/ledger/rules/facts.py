"""The rules `count`, `identity`, `exists` and `checked`: what is counted or computed, and has no spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

import numpy as np

from fairfl_book import cards
from fairfl_book.ledger.rules.arithmetic import printed_so
from fairfl_book.ledger.rules.base import Finding, Rule
from fairfl_book.ledger.series import Case, Missing, words

COUNT = """
A fact of the dataset, counted from the data. *holds*: rounded or truncated to the printed number's last digit it is that
number, or it is within the tolerance given in the entry. *does not hold*: else.
"""
IDENTITY = """
The largest error found when both sides are computed. *holds*: at most the tolerance given in the entry. *does not hold*:
else.
"""
EXISTS = """
A claim that something can happen. *holds*: our example shows it by more than the tolerance given in the entry. *does not
hold*: else.
"""
CHECKED = """
A mathematical statement, tried on instances: all there are up to a size, random ones, and ones built to break it. The number
shown is that of the instances. *holds*: none of them goes against it. *does not hold*: one does, which is enough. That none
was found proves nothing; the proofs are in the chapters. `worst` is the largest share of a bound that an instance used,
or the largest error of an identity.
"""
MANY = 1e12
"""Counts from here on are shown as powers of ten."""


def file_of(entry: cards.Entry) -> str:
    """The results file in which a fact is found by its name."""
    return str(entry.spec.get("results", f"{entry.paper}/{'counts' if entry.rule == 'count' else 'identities'}"))


def many(count: float) -> str:
    return f"{count:,.0f}" if count < MANY else f"{count:.2e}"


def holds(true: bool) -> str:
    return "holds" if true else "does not hold"


def counted(printed: str, measured: float, tolerance: float | None = None) -> bool:
    """Whether a count is the printed one: rounded, truncated, or within a tolerance."""
    if tolerance is not None:
        return abs(measured - float(cards.number(printed))) <= tolerance * (1 + 1e-9)
    return printed_so(printed, Fraction(measured).limit_denominator(10**9))


def judge_count(case: Case) -> Finding:
    measured, allowed = case.files.number(file_of(case.entry), case.spec["name"]), case.spec.get("tolerance")
    true = counted(case.entry.printed, measured, None if allowed is None else float(allowed))
    return Finding(measured, verdict=holds(true))


def judge_identity(case: Case) -> Finding:
    measured, tolerance = case.files.number(file_of(case.entry), case.spec["name"]), float(case.spec["tolerance"])
    return Finding(measured, verdict=holds(abs(measured) <= tolerance))


def judge_exists(case: Case) -> Finding:
    found = judge_identity(case)
    return replace(found, verdict=holds(abs(found.measured) > float(case.spec["tolerance"])))


def selectors(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec.get("select", {}), **{key: spec[key] for key in ("metric", "how") if key in spec}}


def judge_checked(case: Case) -> Finding:
    """Over the rows whose column `how` fits the entry's shell pattern, or does not after a "!"."""
    name = file_of(case.entry)
    rows = case.files.rows(name, case.spec["select"])
    if "how" in case.spec:
        pattern = case.spec["how"]
        fits = [fnmatchcase(str(how), pattern.removeprefix("!")) for how in rows["how"]]
        rows = rows[np.array(fits) != pattern.startswith("!")]
    instances, violations, worst = rows["instances"].sum(), rows["violations"].sum(), rows["worst"].max()
    if not instances:
        raise Missing(f"results/{name}.csv has no instance of {words(selectors(case.spec))}")
    note = f"{many(instances)} instances, {many(violations)} against it" + (f", worst {worst:.4g}" if worst == worst else "")
    return Finding(float(instances), verdict=holds(violations == 0), note=note)


NAMED = ("results", "name", "tolerance")
COUNTS = Rule("count", "count", COUNT, NAMED, judge_count, (("name",),))
IDENTITIES = Rule("identity", "theorem", IDENTITY, NAMED, judge_identity, (("name", "tolerance"),))
EXISTING = Rule("exists", "theorem", EXISTS, NAMED, judge_exists, (("name", "tolerance"),))
CHECKS = Rule("checked", "theorem", CHECKED, ("results", "select", "how"), judge_checked, (("results", "select"),))
