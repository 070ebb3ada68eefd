"""Runs that say yes or no: shares with exact intervals, against scipy and by enumeration."""

from itertools import product
from math import comb, isnan

import numpy as np
import pytest
from scipy import stats

from fairfl_lite import papers
from fairfl_lite.ledger.numbers import Estimate, Share, estimate
from fairfl_lite.ledger.rules.ordering import confirm


@pytest.mark.parametrize("n", [1, 5, 10, 37])
def test_a_share_has_the_exact_interval_of_scipy(n: int) -> None:
    for k in range(n + 1):
        found = estimate([1] * k + [0] * (n - k), yes_or_no=True)
        wanted = stats.binomtest(k, n).proportion_ci(0.95, "exact")
        assert isinstance(found, Share) and found.mean == pytest.approx(k / n)
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-9)
        at_five = stats.binomtest(k, n).proportion_ci(0.90, "exact")
        assert found.bounds(0.95) == pytest.approx((at_five.low, at_five.high), abs=1e-9)


@pytest.mark.parametrize(("gained", "lost"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.3), (0.6, 0.1), (0.05, 0.9)])
def test_a_difference_of_two_shares_is_covered_as_often_as_is_said(gained: float, lost: float) -> None:
    n, covered = 9, 0.0
    for u, d in product(range(n + 1), repeat=2):
        if u + d <= n:
            found = estimate([1] * u + [-1] * d + [0] * (n - u - d), yes_or_no=True, paired=True)
            chance = comb(n, u) * comb(n - u, d) * gained**u * lost**d * (1 - gained - lost) ** (n - u - d)
            covered += chance * (found.low - 1e-12 <= gained - lost <= found.high + 1e-12)
    assert covered >= 0.95


def test_a_few_equal_runs_do_not_show_that_nothing_differs() -> None:
    for n, verdict in ((5, "cannot tell"), (36, "cannot tell"), (42, "no effect")):
        assert confirm(estimate([0] * n, yes_or_no=True, paired=True), 0.1).verdict == verdict
        assert confirm(estimate([0.0] * n), 0.1).verdict == "no effect"  # a number that is equal in every run
    assert confirm(estimate([0] * 5, yes_or_no=True, paired=True), 0.1).detail == "about 42 runs would decide"
    assert confirm(estimate([1] * 9 + [0], yes_or_no=True, paired=True), 0.1).verdict == "confirmed"
    assert isnan(confirm(estimate([0] * 5, yes_or_no=True, paired=True), 0.1).power)


def test_what_is_not_yes_or_no_is_a_number() -> None:
    assert type(estimate([0.0, 1.0, 0.5], yes_or_no=True)) is Estimate
    assert type(estimate([0.0, 1.0])) is Estimate
    assert set(papers.load("effl").yes_or_no) == {m for m in papers.load("effl").metrics if m.startswith("met_")}
    assert np.all([not papers.load(name).yes_or_no for name in papers.names() if name != "effl"])
