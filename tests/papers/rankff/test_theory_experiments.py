"""The stored checks: every statement appears, holds where it should and fails where the fine print says so."""

from __future__ import annotations

import pytest

from fairfl_lite import rankings
from papers.rankff import statements as experiments

pytestmark = pytest.mark.slow

QUICK = ("definition-2", "every 2 5", "every 3 4", "ties", "appendix-a", "binary search")
COLUMNS = ["statement", "n", "m", "how", "instances", "violations", "worst"]


@pytest.mark.parametrize("part", QUICK)
def test_a_part_gives_checks_that_fail_only_in_the_fine_print(part):
    frame = experiments.EXPERIMENTS[0].frame(part=[part])
    assert list(frame) == COLUMNS
    assert (frame.instances > 0).all()
    fine = frame.how.str.contains("fine print|ceiling")
    assert (frame[~fine].violations == 0).all()
    assert (frame[fine].violations > 0).all()


def test_worst_cases_lie_below_every_bound():
    frame = experiments.EXPERIMENTS[1].frame(n=[3], m=[5])
    assert list(frame) == ["distance", "n", "m", "h", "beta", "bound_paper", "bound_ours", "bound_sharp", "how"]
    for version in ("paper", "ours", "sharp"):
        assert (frame.beta <= frame[f"bound_{version}"] + 1e-9).all()
    assert frame.groupby("distance").beta.max().tolist() == [rankings.worst_case(3, 5) / 5] * 3


def test_a_drawn_instance_is_checked_for_every_statement():
    ranks = rankings.ranks_of_orders(rankings.example1(4, 12))
    found = {check.statement for check in experiments._one(ranks)}
    assert found >= {*experiments.SECTION_4, "theorem-3.1", "theorem-3.1-exact", "argmin-pareto"}
    assert all(check.holds for check in experiments._one(ranks))
