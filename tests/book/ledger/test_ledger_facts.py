"""The rules `count`, `identity`, `exists` and `checked` on facts made by hand."""

from typing import Any

import pandas as pd
import pytest
from little import judged

from fairfl_book.ledger.claims import Claim

NAMED = {"count": "little/counts", "identity": "little/identities", "exists": "little/identities"}


def fact(rule: str, value: float, printed: str = "", **spec: Any) -> Claim:
    frame = pd.DataFrame({"name": ["other", "it"], "value": [7.0, value]})
    kind = "count" if rule == "count" else "theorem"
    claim = {"kind": kind, "rule": rule, "printed": printed, "name": "it", "results": None, **spec}
    return judged(claim, frames={NAMED[rule]: frame})


@pytest.mark.parametrize(
    ("printed", "measured", "tolerance", "verdict"),
    [
        ("32,561", 32561, None, "holds"),
        ("32,561", 32562, None, "does not hold"),
        ("26%", 0.2644, None, "holds"),
        ("26%", 0.2656, None, "holds"),  # truncated
        ("26%", 0.2700, None, "does not hold"),
        ("26%", 0.2549, None, "does not hold"),
        ("26%", 0.2550, None, "holds"),
        ("96%", 0.95, None, "does not hold"),
        ("0", 0, None, "holds"),
        ("0", 1, None, "does not hold"),
        ("0.8603", 0.8551, 0.01, "holds"),
        ("0.8603", 0.8503, 0.01, "holds"),  # the tolerance itself
        ("0.8603", 0.6750, 0.01, "does not hold"),
        ("100", 100.4, 0.3, "does not hold"),  # a tolerance takes the place of rounding
    ],
)
def test_a_count(printed: str, measured: float, tolerance: float | None, verdict: str) -> None:
    found = fact("count", measured, printed, **({} if tolerance is None else {"tolerance": tolerance}))
    assert (found.verdict, found.measured, found.source) == (verdict, measured, "results/little/counts.csv: it")


@pytest.mark.parametrize(
    ("error", "identity", "exists"),
    [(0.0, "holds", "does not hold"), (-1e-9, "holds", "does not hold"), (1e-9, "holds", "does not hold"),
     (1.1e-9, "does not hold", "holds"), (-0.5, "does not hold", "holds"), (float("nan"), "does not hold", "does not hold")],
)  # fmt: skip
def test_an_identity_and_an_example(error: float, identity: str, exists: str) -> None:
    assert fact("identity", error, tolerance=1e-9).verdict == identity
    assert fact("exists", error, tolerance=1e-9).verdict == exists


def test_a_fact_that_is_not_there() -> None:
    absent = fact("count", 1, "1", name="else")
    assert absent.verdict == "not yet measured"
    assert absent.note == "results/little/counts.csv has no rows for name else: run `measure little/counts`"
    excused = fact("count", 1, "1", name="else", unless_measured="our copy lacks it")
    assert (excused.verdict, excused.note) == ("not testable", "our copy lacks it")


def checked(how: str | None, *rows: tuple[str, float, float, float]) -> Claim:
    frame = pd.DataFrame([{"statement": "s", "how": h, "instances": i, "violations": v, "worst": w} for h, i, v, w in rows])
    frame = pd.concat([frame, frame.assign(statement="other", violations=9)])
    claim = {"kind": "theorem", "rule": "checked", "results": "little/theory", "select": {"statement": "s"}}
    return judged({**claim, **({} if how is None else {"how": how})}, frames={"little/theory": frame})


def test_a_statement_holds_when_no_instance_goes_against_it() -> None:
    rows = ("all", 24, 0, 0.5), ("random", 1_000, 0, 1.0), ("fine print: ties", 5, 1, 2.0)
    found = checked("!fine*", *rows)
    assert (found.verdict, found.measured, found.note) == ("holds", 1024, "1,024 instances, 0 against it, worst 1")
    assert checked("fine*", *rows).note == "5 instances, 1 against it, worst 2"
    assert checked(None, *rows).verdict == checked("fine*", *rows).verdict == "does not hold"  # one is enough
    assert checked(None, ("all", 1e30, 0, float("nan"))).note == "1.00e+30 instances, 0 against it"


def test_no_instance_is_no_check() -> None:
    for found in (checked("none of them", ("all", 24, 0, 0.5)), checked(None, ("all", 0, 0, 0.0))):
        assert found.verdict == "not yet measured" and "has no instance of statement s" in found.note
