"""Metrics that are yes or no in each run: exact intervals of shares, and what they do to verdicts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, multinomial

from fairfl_book import cards, ledger
from fairfl_book.ledger.numbers import Share, estimate, share
from fairfl_book.ledger.rules.level import _share as level_of_a_share
from fairfl_book.ledger.rules.ordering import confirm


@pytest.mark.parametrize("n", [1, 5, 10, 40])
def test_a_share_has_the_interval_of_clopper_and_pearson(n):
    for count in range(n + 1):
        ours, theirs = share([1] * count + [0] * (n - count)), binomtest(count, n).proportion_ci(0.95, "exact")
        assert ours.mean == pytest.approx(count / n)
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_interval_of_a_difference_covers_it_in_at_least_95_percent(n):
    """Exactly: over all outcomes, for many pairs of shares of runs that gain and that lose."""
    counts = [(a, b) for a, b in product(range(n + 1), repeat=2) if a + b <= n]
    ends = {(a, b): Share(0, 0, n, a, b, paired=True).ends() for a, b in counts}
    for gain, loss in [(0, 0), (0.1, 0), (0.3, 0.3), (0.5, 0.05), (0.9, 0.1), (0.02, 0.6)]:
        law = multinomial(n, [gain, loss, max(0.0, 1 - gain - loss)])
        covered = sum(law.pmf([a, b, n - a - b]) for a, b in counts if ends[a, b][0] <= gain - loss <= ends[a, b][1])
        assert covered >= 0.95 - 1e-9


def test_equal_runs_no_longer_show_that_there_is_nothing():
    """0 of 10 against 0 of 10 is no proof that less than one run in ten gains; as numbers they would have no spread."""
    nothing = [0.0] * 10
    assert confirm(estimate(nothing), 0.1).verdict == "no effect"
    found = confirm(share(nothing, paired=True), 0.1)
    assert found.verdict == "cannot tell" and found.high > 0.3 and "runs would decide" in found.detail
    assert confirm(share([1.0] * 10, paired=True), 0.1).verdict == "confirmed"
    assert confirm(share([-1.0] * 10, paired=True), 0.1).verdict == "reversed"
    assert confirm(share([0.0] * 1000, paired=True), 0.1).verdict == "no effect"


def test_a_level_of_a_share():
    assert level_of_a_share(share([0] * 5), "100%", 0.1).verdict == "differs"  # at most 45% at the one-sided 95%
    assert level_of_a_share(share([1] * 5), "100%", 0.1).verdict == "cannot tell"
    assert level_of_a_share(share([1] * 40), "100%", 0.1).verdict == "agrees"


def test_power_is_that_of_the_rule():
    """How often the interval lies above 0 if three runs in ten gain and none loses."""
    asked = share([0.0] * 20, paired=True)
    sure = [k for k in range(21) if Share(0, 0, 20, k, 0, paired=True).low > 0]
    assert asked.power(0.3) == pytest.approx(sum(binom.pmf(k, 20, 0.3) for k in sure))
    assert share([0.0] * 3, paired=True).power(0.1) == 0.0, "three runs cannot confirm anything"


def test_numbers_are_not_taken_for_shares():
    with pytest.raises(ValueError, match="yes and no"):
        share([0.0, 0.5])
    with pytest.raises(ValueError, match="yes and no"):
        share([0.0, -1.0])


def test_no_interval_of_a_share_leaves_what_is_possible_and_none_is_a_point():
    table, card = ledger.claims("effl"), cards.load("effl")
    asked = [id for id, entry in card.entries.items() if (entry.spec.get("metric") or entry.spec.get("select", {}).get("metric"))
             in card.yes_no]  # fmt: skip
    found = table[table.id.isin(asked) & table.measured.notna()]
    assert len(found) > 80
    assert (found.low >= -1).all() and (found.high <= 1).all() and (found.high - found.low > 0.1).all()
    levels = found[found.rule.isin(["level", "at most"])]
    assert (levels.low >= 0).all() and np.isfinite(levels.high).all()
