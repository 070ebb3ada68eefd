"""RankFF's definitions, theorems, lemmas and examples as checks: how many instances, how many violations, how tight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial
from itertools import permutations, product

import numpy as np
import pandas as pd

from fairfl_book.experiments.base import Experiment
from fairfl_lite import rankings
from fairfl_lite.rankings import Check, continuous, measures, search, statements
from fairfl_lite.rankings.bounds import gather, merge, ratio
from fairfl_lite.rankings.distances import over_agents
from papers.rankff import penalty as rankff_facts

SECTION_4 = {  # statement: distance, kind of heterogeneity, version of the bound
    "theorem-4.1": ("md", "max", "paper"),
    "theorem-4.2": ("fd", "max", "paper"),
    "theorem-4.3": ("ed", "max", "paper"),
    "theorem-4.1-ours": ("md", "radius", "ours"),
    "theorem-4.2-ours": ("fd", "max", "ours"),
    "theorem-4.3-ours": ("ed", "max", "ours"),
    "average-md": ("md", "mean", "ours"),
    "average-fd": ("fd", "mean", "ours"),
    "average-ed": ("ed", "mean", "ours"),
    "nway-fd": ("fd", "nway", "ours"),
    "nway-ed": ("ed", "nway", "ours"),
    "theorem-4.1-sharp": ("md", "max", "sharp"),
    "theorem-4.2-sharp": ("fd", "max", "sharp"),
    "theorem-4.3-sharp": ("ed", "max", "sharp"),
    "nway-fd-sharp": ("fd", "nway", "sharp"),
}
EVERY = [(2, m) for m in range(2, 12)] + [(3, m) for m in range(2, 8)] + [(4, m) for m in range(2, 7)]
EVERY += [(5, m) for m in range(2, 6)] + [(6, m) for m in range(2, 5)]
DRAWN = {(3, 50): 20, (10, 100): 20, (30, 1000): 4, (100, 10_000): 1}  # (n, m): instances of each kind
CLIMBED = {(3, 10): 200_000, (10, 95): 500_000, (30, 301): 1_000_000, (100, 1000): 2_000_000, (100, 10_000): 200_000}
LEVELS = tuple(Fraction(k, 20) for k in range(1, 21))


def counted() -> Iterator[Check]:
    """Theorem 3.1 over all profiles, by counting."""
    for n, m in product(range(2, 13), range(2, 25)):
        yield rankings.check_existence_all("theorem-3.1", n, m, rankings.paper_bound)
        yield rankings.check_existence_all("theorem-3.1-exact", n, m)


def maxima() -> Iterator[Check]:
    """The same with every permutation tried."""
    for n, m in product(range(2, 13), range(2, 9)):
        yield rankings.check_existence_all("theorem-3.1-exact", n, m, engine="maxima")


def example_1() -> Iterator[Check]:
    """Example 1 reaches the worst case for every n and m, and its rank is at least 1 - 1/n where n divides m."""
    for divides in (True, False):
        pairs = [(n, m) for n, m in product(range(2, 41), range(2, 81)) if (m % n == 0) == divides]
        values = [rankings.beta(rankings.ranks_of_orders(rankings.example1(n, m))) for n, m in pairs]
        rows = ((n, m, b != rankings.worst_case(n, m), ratio(b, rankings.worst_case(n, m)))
                for (n, m), b in zip(pairs, values, strict=True))  # fmt: skip
        yield gather("example-1", "n divides m" if divides else "n does not divide m", rows)


def definition_2() -> Iterator[Check]:
    """Rankwise proportional is proportional for u = 1 - rank: with the floor always, with the paper's ceiling not."""
    for how, limit in (("floor", rankings.worst_case), ("ceiling", rankings.paper_bound)):
        cells = [statements.check_definition2(n, m, limit) for n, m in product(range(1, 31), repeat=2)]
        yield replace(merge(cells), how=f"u = 1 - rank, {how}")


def every(n: int, m: int) -> Iterator[Check]:
    """Section 4 and the argmin over all profiles of one (n, m)."""
    for statement, (distance, kind, version) in SECTION_4.items():
        limit = partial(rankings.bound, distance, version=version, how=kind)
        yield rankings.check_all(statement, distance, n, m, limit, kind)
    yield Check("argmin-pareto", n, m, "every profile", rankings.total(n, m), rankings.joint(n, m)[1], 1.0)


def drawn(n: int, m: int) -> Iterator[Check]:
    """Theorem 3.1 and Section 4 on instances of each kind."""
    rng, seen = np.random.default_rng(m), []
    for _ in range(DRAWN[n, m]):
        for how, ranks in search.families(n, m, rng):
            seen += [replace(check, how=how) for check in _one(ranks)]
    for statement, how in dict.fromkeys((c.statement, c.how) for c in seen):
        yield merge(c for c in seen if (c.statement, c.how) == (statement, how))


def _one(ranks: np.ndarray) -> Iterator[Check]:
    """Every statement on one instance; a matrix of distances serves all statements about it."""
    n, m = ranks.shape
    yield rankings.check_existence("theorem-3.1", [ranks], rankings.paper_bound)
    yield rankings.check_existence("theorem-3.1-exact", [ranks])
    front = rankings.pareto(-ranks)[rankings.best(ranks)] if m <= 1000 else _undominated(ranks, rankings.best(ranks))
    yield Check("argmin-pareto", n, m, "", 1, int(not front), 1.0)
    far = {"fd": rankings.footrule(ranks), "md": rankings.maximum_displacement(ranks), "ed": rankings.edit(ranks)}
    b = rankings.beta(ranks)
    for statement, (distance, kind, version) in SECTION_4.items():
        if (distance, kind) == ("ed", "nway") and m > 1000:
            continue  # the longest subsequence common to all takes O(n m^2)
        h = rankings.spread(ranks, distance, kind) if kind == "nway" else over_agents(far[distance], kind)
        allowed = m * rankings.bound(distance, h if distance == "ed" else h / m, n, m, version, kind)
        yield gather(statement, "", [(n, m, b > allowed + 1e-9, ratio(b, allowed))])


def _undominated(ranks: np.ndarray, model: int) -> bool:
    return not (ranks < ranks[:, [model]]).all(axis=0).any()


def climbed() -> Iterator[Check]:
    """Hill climbing towards one place more than the worst case; every profile on the way is an instance."""
    rng = np.random.default_rng(0)
    for (n, m), steps in CLIMBED.items():
        start = search.uniform(n, m, rng) if m < 10_000 else search.cyclic(n, m, n * m, rng)
        ranks, left = search.climb(start, steps, rng)
        worst = ratio(rankings.beta(ranks), rankings.worst_case(n, m))
        yield Check("theorem-3.1-exact", n, m, "hill climbing", steps, int(left == 0), worst)
    for statement, n in product(("theorem-4.2-ours", "theorem-4.3-ours", "average-md", "nway-fd-sharp"), (3, 4, 6)):
        yield _climb_bound(statement, n, 12, 1500, rng)


def _climb_bound(statement: str, n: int, m: int, steps: int, rng: np.random.Generator) -> Check:
    distance, kind, version = SECTION_4[statement]
    values = []

    def score(ranks: np.ndarray) -> float:
        allowed = m * rankings.bound(distance, rankings.heterogeneity(ranks, distance, kind), n, m, version, kind)
        values.append((n, m, rankings.beta(ranks) > allowed + 1e-9, ratio(rankings.beta(ranks), allowed)))
        return values[-1][-1]

    search.climb_score(search.near(n, m, 2.0, rng), score, steps, rng)
    return gather(statement, "hill climbing", values)


def with_ties() -> Iterator[Check]:
    """The argmin and Claim 1 for utilities, without ties and with them."""
    rng = np.random.default_rng(0)
    smooth = [rng.random((int(rng.integers(1, 7)), int(rng.integers(1, 25)))) for _ in range(300)]
    few = [measures.tied(int(rng.integers(1, 5)), int(rng.integers(1, 9)), 3, rng) for _ in range(300)]
    yield statements.check_argmin(smooth, "utilities without ties")
    two = [np.array(bits, dtype=float).reshape(2, 2) for bits in product((0, 1), repeat=4)]
    yield statements.check_argmin(two, "fine print: utilities 0 and 1, ties by index")
    yield statements.check_program(smooth, "kth", "utilities without ties")
    yield statements.check_program(few, "counted", "ties, level reached by at most rm models")
    yield statements.check_program(few, "kth", "fine print: ties, level is the rm-th highest")


def lemmas() -> Iterator[Check]:
    """Lemmas 2 and 3 on every pair of orders of up to 7 models, and on random pairs of 200."""
    rng = np.random.default_rng(0)
    far = [(search.near(1, 200, s, rng)[0], search.near(1, 200, s, rng)[0]) for s in (1, 5, 30, 500) for _ in range(5)]
    small = {m: [(np.arange(m), np.array(p)) for p in permutations(range(m))] for m in range(1, 8)}
    for how, groups in (("every pair", small.values()), ("random", [far])):
        for pairs in groups:
            yield statements.check_alignment(pairs, how=how)
            yield statements.check_unmatched(pairs, statements.edit_by_table, how=how)


def exact_measures() -> Iterator[Check]:
    """Theorem 3.2, Lemma 1, Claim 2 and Proposition 1 for piecewise linear utilities, in fractions."""
    rng = np.random.default_rng(0)
    instances = [continuous.drawn(int(rng.integers(1, 5)), rng) for _ in range(200)]
    yield statements.check_continuous(instances, "piecewise linear on unions of intervals, alpha > 1 - 1/n")
    cases = [(u, b) for us in instances for u in us for b in LEVELS]
    achieved, missed = [c for c in cases if c[0].achieves(c[1])], [c for c in cases if not c[0].achieves(c[1])]
    for how, chosen in (("achievable rank", achieved), ("fine print: rank not achievable", missed)):
        yield statements.check_lemma1(chosen, how)
        yield statements.check_claim2(chosen, how)
    yield statements.check_continuous([continuous.EXAMPLE_2], "Example 2, infimum for alpha", always=True)
    yield statements.check_continuous([continuous.PUNCTURED], "fine print: Example 2 without 1/2", always=True)
    top = continuous.OPEN.top()
    yield Check(
        "theorem-3.2", 2, 1, "fine print: u_1 = u_2 = c on (0, 1), no Pareto optimal model", 1, int(not top.attained), 1.0
    )
    yield gather("proposition-1", "level sets of piecewise linear utilities", _level_sets(instances))
    found = continuous.existence(continuous.EXAMPLE_2)
    half = Fraction(1, 2)
    wrong = found.beta != continuous.Infimum(half, True) or any(u.rank(half) != half for u in continuous.EXAMPLE_2)
    yield Check("example-2", 2, 1, "exact", 1, int(wrong), float(found.beta.value / half))


def _level_sets(instances: Iterable[list[continuous.Piecewise]]) -> Iterator[tuple[int, int, bool, float]]:
    """A level set is at most as many intervals as pieces, and middles of 1200 cells a unit measure it within an end each."""
    for u in (u for utilities in instances for u in utilities[:1]):
        values = u.values(np.concatenate([np.arange(float(p.low), float(p.high), 1 / 1200) + 1 / 2400 for p in u.pieces]))
        for level in (v + shift for v in u.levels for shift in (Fraction(0), Fraction(1, 7))):
            error = abs(np.mean(values >= float(level)) - float(u.share(level)))
            allowed = 2 * len(u.pieces) / len(values)
            yield 1, len(u.pieces), len(u.above(level)) > len(u.pieces) or bool(error > allowed), float(error / allowed)


def sampled_measures() -> Iterator[Check]:
    """Theorem 3.2 on grids and with ties; grid and Monte Carlo ranks against closed forms."""
    rng = np.random.default_rng(0)
    for name, instance in rankings.CLOSED.items():
        points, cells = instance.region.sample(100, rng), 400
        grid, size = instance.region.grid(cells), 10_000
        statement = "example-2" if name == "example 2" else "theorem-3.2"
        coarse = instance.table(instance.region.grid(40))
        yield rankings.check_finite("theorem-3.2", [coarse], how=f"grid on {name}")
        yield rankings.check_measure(statement, instance, points, grid, 4 / cells, f"ranks on a grid, {name}")
        sample = instance.region.sample(size, rng)
        yield rankings.check_measure(statement, instance, points, sample, 2.5 / size**0.5, f"ranks by Monte Carlo, {name}")
    tables = (measures.tied(int(rng.integers(1, 7)), int(rng.integers(1, 60)), int(rng.integers(1, 9)), rng) for _ in range(2000))
    yield rankings.check_finite("theorem-3.2", tables, how="utilities with ties, counting measure")


def appendix_a() -> Iterator[Check]:
    """Where no share of the maximum can be promised, where no model is proportional, and how smooth the utilities are."""
    Ls = [*np.geomspace(0.05, 400, 200), 4.0]
    yield statements.check_appendix(Ls)
    yield statements.check_appendix(Ls, 0.5, statements.no_proportional)
    yield statements.check_smooth(Ls)


def adapted() -> Iterator[Check]:
    """Example 1 for the continuous case: flat blocks for every n and m, falling ones where n divides m."""
    pairs = [(n, m) for n, m in product(range(2, 9), range(2, 13)) if m >= n]
    yield statements.check_adapted(pairs, "flat blocks")
    yield statements.check_adapted([(n, m) for n, m in pairs if m % n == 0], "falling blocks, n divides m", falling=True)


def binary_search() -> Iterator[Check]:
    """Rounds of section 5.2's search for alpha_i(r): for random concave utilities, for flat tops, and for steep ones."""
    rng = np.random.default_rng(0)
    shares, eps = [Fraction(k, 10) for k in range(1, 10)], (1, 2, 5, 10, 20)
    drawn = [continuous.concave(rng, int(rng.integers(1, 6))) for _ in range(60)]
    yield statements.check_rounds(product(drawn, shares, eps), "nowhere flat")
    flat = [continuous.concave(rng, int(rng.integers(2, 6)), flat=True) for _ in range(10)]
    tops = ((u, u.share(u.levels[-1]) / 3, k) for u, k in product(flat, eps))
    yield statements.check_rounds(tops, "fine print: flat top larger than r", lambda u, r: continuous.NEVER - 100)
    steep = ((continuous.steep(k), Fraction(1, 2), 5) for k in range(0, 101, 10))
    yield statements.check_rounds(steep, "fine print: any utility", lambda u, r: 4)


def volumes() -> Iterator[Check]:
    """Footnote 6's volumes, by hit-and-run."""
    for d, eps in ((2, 0.5), (2, 0.25), (4, 0.5), (4, 0.25), (8, 0.5)):
        yield rankings.volume.check_volume(d, eps)


PARTS: dict[str, Callable[[], Iterable[Check]]] = {
    "definition-2": definition_2,
    "counted": counted,
    "maxima": maxima,
    "example-1": example_1,
    **{f"every {n} {m}": partial(every, n, m) for n, m in EVERY},
    **{f"drawn {n} {m}": partial(drawn, n, m) for n, m in DRAWN},
    "climbed": climbed,
    "ties": with_ties,
    "lemmas": lemmas,
    "exact measures": exact_measures,
    "sampled measures": sampled_measures,
    "appendix-a": appendix_a,
    "adapted": adapted,
    "binary search": binary_search,
    "volumes": volumes,
}


METHOD: dict[str, Callable[[], pd.DataFrame]] = {
    "identity-weights": rankff_facts.identity_check,
    "penalty-convergence": rankff_facts.penalty_check,
    "penalty-steps": rankff_facts.step_check,
}
"""What is checked of the algorithm rather than of orders and measures."""


def checks(part: str) -> pd.DataFrame:
    """One row for each check of a part; `instances` becomes a float, exact up to 2^53."""
    if part in METHOD:
        return METHOD[part]()
    return pd.DataFrame([asdict(check) | {"instances": float(check.instances)} for check in PARTS[part]()])


def worst(n: int, m: int) -> pd.DataFrame:
    """The exact worst beta at each heterogeneity that occurs, beside the bounds."""
    rows = []
    for distance in rankings.distances.DISTANCES:
        for h, b in rankings.worst(distance, n, m).items():
            bounds = {f"bound_{v}": rankings.bound(distance, h, n, m, v) for v in ("paper", "ours", "sharp")}
            rows.append({"distance": distance, "n": n, "m": m, "h": h, "beta": b / m, **bounds, "how": "every profile"})
    return pd.DataFrame(rows)


EXPERIMENTS = (
    Experiment("rankff/theory", checks, [{"part": part} for part in (*PARTS, *METHOD)]),
    Experiment("rankff/worst", worst, [{"n": n, "m": m} for n, m in EVERY]),
)
