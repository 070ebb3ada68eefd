"""Orders of models by agents, and of edges by clients: RankFF's ranks, distances and proportionality, E2FL's votes; exact checks.

ranks : orders, ranks, positions, rankwise proportionality, Pareto optimality. distances, bounds : Section 4.
exhaustive : every profile. search : random and adversarial ones. continuous, measures : Theorem 3.2 and Appendix A.
statements : checks of the lemmas and claims. volume : hit-and-run. votes : E2FL's votes on rankings of edges, and what they
promise: vote_statements.
"""

from fairfl_lite.rankings import bounds, continuous, distances, exhaustive, measures, ranks, search, statements, volume, votes
from fairfl_lite.rankings.bounds import Check, bound, check_existence, check_heterogeneity, need
from fairfl_lite.rankings.continuous import Piece, Piecewise, existence
from fairfl_lite.rankings.distances import aligned, common, edit, footrule, heterogeneity, maximum_displacement, spread
from fairfl_lite.rankings.exhaustive import (
    check_all,
    check_existence_all,
    counts,
    counts_by_maxima,
    joint,
    profiles,
    total,
    worst,
)
from fairfl_lite.rankings.measures import CLOSED, AppendixA, Region, check_finite, check_measure
from fairfl_lite.rankings.ranks import (
    best,
    beta,
    example1,
    orders_of,
    paper_bound,
    pareto,
    positions,
    proportional,
    ranks_of,
    ranks_of_orders,
    worst_case,
)
from fairfl_lite.rankings.statements import levels, program
from fairfl_lite.rankings.volume import Ball, Box, level_of_rank, volume_share
from fairfl_lite.rankings.votes import mask, reputations, two_level, vote

__all__ = [
    "CLOSED", "AppendixA", "Ball", "Box", "Check", "Piece", "Piecewise", "Region", "aligned", "best", "beta", "bound",
    "bounds", "check_all", "check_existence", "check_existence_all", "check_finite", "check_heterogeneity",
    "check_measure", "common", "continuous", "counts", "counts_by_maxima", "distances", "edit", "example1",
    "exhaustive", "existence", "footrule", "heterogeneity", "joint", "level_of_rank", "levels",
    "mask", "maximum_displacement", "measures", "need", "orders_of", "paper_bound", "pareto", "positions", "profiles",
    "program", "proportional", "ranks", "ranks_of", "ranks_of_orders", "reputations", "search", "spread", "statements",
    "total", "two_level", "volume", "volume_share", "vote", "votes", "worst", "worst_case",
]  # fmt: skip
