"""E2FL's votes checked on every profile of a size; what its rankings cost; bounds on the printed variances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import product
from math import comb, lgamma, log, prod

import numpy as np
import pandas as pd

from fairfl_book.experiments.base import Experiment, named
from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings import Check, votes
from fairfl_lite.rankings.ranks import Ints
from fairfl_lite.rankings.vote_statements import (
    EVERY,
    SIZES,
    all_apart,
    borda,
    coding,
    dictating,
    equal_groups,
    leaving,
    majority,
    mean_place,
    members,
    moved,
    neutrality,
    norms,
    orders,
    profiles,
    reaches,
    reversal,
    same_impact,
    trivial_groups,
    unanimous_groups,
)
from papers.e2fl.printed import COUNTS, PRINTED

ALL, DRAWN = sum(COUNTS), PRINTED["drawn"]["fairmnistrotate"]
"""Clients of FairMNISTRotate, and how many are drawn in a round."""
LENET = {"mnist": (288, 18_432, 1_605_632, 1_280), "femnist": (288, 18_432, 1_605_632, 7_936)}
"""Table 7: edges of each layer."""
MIB = 8 * 2**20
"""Bits of the paper's MB."""
WAYS: dict[str, dict[str, tuple[str, int]]] = {
    "mnist": {"local": ("", 0), "fedavg": ("weights", 1), "ifca": ("weights", len(COUNTS)), "q-ffl": ("weights", 1),
              "e2fl": ("ranking", len(COUNTS))},
    "femnist": {"local": ("", 0), "fedavg": ("weights", 1), "q-ffl": ("weights", 1), "e2fl-oneshot": ("ranking", 2),
                "e2fl-clusters": ("ranking", 0), "e2fl-loss": ("ranking", 2)},
}  # fmt: skip
"""What a client of each method sends up, and how many models or masks come down; the groups of FEMNIST are those of the text."""
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "mnist": {"conv1": (1, 32, 3, 3), "conv2": (32, 64, 3, 3), "fc1": (64, 14, 14, 128), "fc2": (128, 10)},
    "femnist": {"conv1": (1, 32, 3, 3), "conv2": (32, 64, 3, 3), "fc1": (64, 14, 14, 128), "fc2": (128, 62)},
    "adult": {"fc1": (101, 1024), "fc2": (1024, 1024), "fc3": (1024, 2)},
}
"""Networks without biases that have Table 7's numbers: 3 x 3 convolutions with a margin of one on 28 x 28 pixels, pooled once;
Adult with 101 inputs."""


def _each(part: Callable[[int, int], Iterable[Check]], sizes: Sequence[tuple[int, int]]) -> Callable[[], Iterator[Check]]:
    return lambda: (found for n, d in sizes for found in part(n, d))


SMALL = [(n, d) for n, d in EVERY if n > 1 and d < 5]
PARTS: dict[str, Callable[[], Iterable[Check]]] = {
    "borda": _each(borda, EVERY),
    "neutrality": _each(neutrality, SMALL),
    "majority": _each(majority, SMALL),
    "mean place": _each(mean_place, EVERY),
    "trivial groups": _each(trivial_groups, SMALL),
    "unanimous groups": _each(unanimous_groups, [(Q, d) for Q in (2, 3) for d in (2, 3, 4)]),
    "equal groups": equal_groups,
    "apart": all_apart,
    "opposite": reversal,
    "reach": reaches,
    "leaving": leaving,
    "dictators": dictating,
    "bits": lambda: coding([*range(1, 4097), *LENET["mnist"], *LENET["femnist"]]),
    "norms": norms,
    "impact": same_impact,
}


def checks(part: str) -> pd.DataFrame:
    """One row for each check of a part."""
    return pd.DataFrame([asdict(found) | {"instances": float(found.instances)} for found in PARTS[part]()])


def costs() -> dict[str, float]:
    """What travels in a round, in MiB: weights of four bytes, rankings as the paper counts them, masks of one bit an edge."""
    out: dict[str, float] = {}
    for name, layers in LENET.items():
        edges, up = sum(layers), votes.bits(layers)
        out |= {f"{name}.edges": edges, f"{name}.weights": 32 * edges / MIB, f"{name}.ranking.bits": up,
                f"{name}.ranking": up / MIB, f"{name}.ranking.least": votes.least_bits(layers) / MIB, f"{name}.mask": edges / MIB,
                f"{name}.mask.least": sum(_choices(n) for n in layers) / MIB}  # fmt: skip
        out |= {f"{name}.weights.{Q}": 32 * Q * edges / MIB for Q in (2, 10)}
        out |= {f"{name}.down.{Q}": (up + Q * edges) / MIB for Q in (1, 2, 5, 10)}
        out[f"{name}.smaller.10"] = 32 * 10 * edges / (10 * edges)
        ways = WAYS[name]
        out |= {
            f"cost.{name}.{method}.up": {"weights": 32 * edges, "ranking": up}.get(kind, 0) / MIB
            for method, (kind, _) in ways.items()
        }
        out |= {f"cost.{name}.{method}.down": {"weights": 32 * max(Q, 1) * edges, "ranking": up + Q * edges}.get(kind, 0) / MIB
                for method, (kind, Q) in ways.items()}  # fmt: skip
        out[f"{name}.smaller.down.10"] = 32 * 10 * edges / (up + 10 * edges)
    return out


def _choices(n: int) -> float:
    """log2 of the number of masks that keep half of n edges."""
    k = votes.kept(n)
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def edges() -> dict[str, float]:
    """Edges of each layer of Table 7, from the shapes of its networks, and of the whole LeNet."""
    found = {f"edges.{name}.{layer}": float(prod(shape)) for name, layers in SHAPES.items() for layer, shape in layers.items()}
    return found | {"edges.mnist.all": float(sum(LENET["mnist"]))}


def differences() -> dict[str, float]:
    """How often, and how far at worst, flat and two-level votes differ over every profile; `.strict` where no sums are equal."""
    out: dict[str, float] = {}
    for sizes, d in product(SIZES, (2, 3, 4)):
        if sum(sizes) > 4 and d == 4:
            continue
        R, groups = profiles(sum(sizes), d), members(sizes)
        flat, two, sure = votes.vote(R), votes.two_level(R, groups), _no_ties(R, groups)
        name = f"apart.{d}.{'-'.join(map(str, sizes))}"
        differ, far = (flat != two).any(axis=-1), votes.footrule(flat, two)
        out |= {f"{name}.share": differ.mean(), f"{name}.share.strict": differ[sure].mean(),
                f"{name}.footrule": far.max(), f"{name}.footrule.strict": far[sure].max(),
                f"{name}.kendall": votes.kendall(flat, two).max(), f"{name}.mask": votes.swapped(flat, two).max(),
                f"{name}.mask.share": (votes.swapped(flat, two) > 0).mean()}  # fmt: skip
    return out


def _no_ties(R: Ints, groups: Ints) -> np.ndarray:
    """Whether in the flat vote, in every group and among the groups all sums differ, [...]."""
    profile = [R, *(R[..., groups == q, :] for q in np.unique(groups)), votes.group_votes(R, groups)]
    sums = [np.sort(votes.reputations(x).sum(axis=-2), axis=-1) for x in profile]
    return np.all([(np.diff(x, axis=-1) > 0).all(axis=-1) for x in sums], axis=0)


def movers() -> dict[str, float]:
    """How far one client moves an edge when all others agree, alone in its group and among others; and who can move what."""
    out: dict[str, float] = {}
    for sizes in ((5,), (1, 4), (1, 1, 3), (1, 2, 2), (1, 1, 1, 2), (6,), (2, 2, 2), (3, 3)):
        for d in (4, 5):
            name, groups = f"moved.{d}.{'-'.join(map(str, sizes))}", members(sizes)
            same = [np.repeat(R[None], len(groups), axis=0) for R in orders(d)]
            out[f"{name}.first"] = max(moved(rest, groups, 0, rest[0]) for rest in same)
            out[f"{name}.last"] = max(moved(rest, groups, len(groups) - 1, rest[0]) for rest in same)
    d = LENET["mnist"][2]
    out |= {f"reach.{n}": votes.reach(n, d) / d for n in (len(COUNTS), DRAWN)}
    places = d - votes.kept(d)
    out["fewest.flat"] = votes.fewest(ALL, d, places, ties=False)
    taken = votes.fewest(len(COUNTS), d, places, ties=False)
    out |= {"fewest.groups": taken, "fewest.two": sum(n // 2 + 1 for n in sorted(COUNTS)[:taken])}
    out |= {"dictators.flat": votes.dictators((ALL,)), "dictators.two": votes.dictators(COUNTS)}
    out |= {f"alone.{n}": _alone(n) for n in (COUNTS[0], max(COUNTS))}
    out |= {f"absent.{n}": comb(ALL - n, DRAWN) / comb(ALL, DRAWN) for n in (COUNTS[0], max(COUNTS))}
    return out


def _alone(size: int) -> float:
    """How likely a client of a group of this size that was drawn is the only one of its group in the round."""
    return comb(ALL - size, DRAWN - 1) / comb(ALL - 1, DRAWN - 1)


def swings() -> dict[str, float]:
    """Over every profile: the share in which some one client can change the mask, flat and in two levels."""
    out: dict[str, float] = {}
    for sizes, d in (((2, 1), 4), ((3, 1, 1), 3), ((2, 2), 3)):
        n, groups = sum(sizes), members(sizes)
        R = profiles(n, d)
        name = f"swing.{d}.{'-'.join(map(str, sizes))}"
        for how, vote in (("flat", votes.vote), ("two", lambda x, g=groups: votes.two_level(x, g))):
            masks = votes.mask(vote(R))
            can = np.zeros((n, len(R)), bool)
            for voter, other in product(range(n), orders(d)):
                tried = R.copy()
                tried[:, voter] = other
                can[voter] |= (votes.mask(vote(tried)) != masks).any(axis=-1)
            out |= {
                f"{name}.{how}": can.any(axis=0).mean(),
                f"{name}.{how}.first": can[0].mean(),
                f"{name}.{how}.last": can[-1].mean(),
            }
    return out


def least_variance(average: str, worst: str, best: str, of: int = 10, tail: int = 1) -> Fraction:
    """The smallest variance (ddof 0) of `of` numbers with this mean, whose `tail` lowest average `worst` and highest `best`.

    Both tails constant, all between them equal. The bound is convex, so a mean over runs of variances is no smaller than the
    bound of the runs' means. Undefined where the tails are more than there are, or leave nothing and another mean.
    """
    mean, low, high = (Fraction(x) for x in (average, worst, best))
    middle = of - 2 * tail
    if middle < 0 or (middle == 0 and abs(2 * mean - low - high) > Fraction(1, 50)):
        raise FairFLError(f"{of} numbers have no two tails of {tail} with these means.")
    rest = (of * mean - tail * (low + high)) / middle if middle else mean
    return (tail * ((low - mean) ** 2 + (high - mean) ** 2) + middle * (rest - mean) ** 2) / of


def figure_2() -> dict[str, float]:
    """Of Figure 2's text: pairs of rankings that vote for its ranking of group B, and results that group C leaves possible."""
    B, A = np.array([0, 2, 3, 1, 4, 5]), np.array([0, 2, 4, 5, 3, 1])
    P = votes.reputations(orders(6)).astype(np.int16)
    strict, pairs = 0, 0
    for i, own in enumerate(P):
        sums = own + P[i:]
        ordered = sums[:, B]
        rises = np.diff(ordered, axis=1)
        by_id = ((rises > 0) | ((rises == 0) & (np.diff(B) > 0))).all(axis=1)
        pairs += int(by_id.sum())
        strict += int((rises > 0).all(axis=1).sum() * 2 - (rises[0] > 0).all())
    results = {tuple(votes.vote(np.stack([A, B, C]))) for C in orders(6)}
    mine, start = np.array([4, 0, 2, 3, 5, 1]), np.array([2, 3, 0, 5, 1, 4])
    group = votes.vote(np.array([mine, [0, 1, 2, 3, 4, 5], [5, 0, 2, 4, 3, 1]]))
    said = [set(np.flatnonzero(votes.mask(mine))) == {1, 3, 5}, mine[0] == 4, mine[-1] == 1, start[-1] == 4, start[0] == 2,
            A[-1] == 1, B[-1] == 5, group.tolist() == A.tolist()]  # fmt: skip
    return {
        "figure2.pairs": pairs,
        "figure2.pairs.strict": strict,
        "figure2.results": len(results),
        "figure2.wrong": said.count(False),
    }


FACTS: dict[str, Callable[[], dict[str, float]]] = {
    "costs": costs, "edges": edges, "differences": differences, "movers": movers, "swings": swings, "figure 2": figure_2,
}  # fmt: skip


def facts(part: str) -> pd.DataFrame:
    """Names and values of a part."""
    return named(FACTS[part]())


EXPERIMENTS = (
    Experiment("e2fl/theory", checks, [{"part": part} for part in PARTS]),
    Experiment("e2fl/facts", facts, [{"part": part} for part in FACTS]),
)
