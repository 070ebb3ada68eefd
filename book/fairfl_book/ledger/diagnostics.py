"""Whether the ledger could have said no: what becomes of its verdicts when printed numbers stand in the wrong rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from fairfl_book import cards
from fairfl_book.cards import Entry, Grid, PaperCard
from fairfl_book.ledger.judge import card as card_of
from fairfl_book.ledger.numbers import Spread, estimate
from fairfl_book.ledger.rules import effect
from fairfl_book.ledger.rules.base import same
from fairfl_book.ledger.rules.level import printed_spread
from fairfl_book.ledger.series import Case, Missing, Results
from fairfl_lite import streams

ASIDE = {"not_testable", "would_decide", "by_construction"}
"""Fields of cells that get no verdict by their numbers."""
FAR = 2.0
"""Printed values that are further apart than so many margins must not pass for each other."""


def tables(paper: str) -> pd.DataFrame:
    """Of each table, how often *agrees* is said of its cells as printed, with rows permuted, and with the baseline's numbers.

    One row per table. cells : levels that can be judged. agree : of them, as printed. pairs, permuted : a cell judged by
    the printed number of another row of its column; how many pairs there are, and how many agree. far, far_agree : the same
    of pairs printed more than twice the margin apart. stand_in : of the cells that agree, those for which the baseline's
    printed number would have done as well. distance, usual, chance : see `whole`. Columns that begin with "first" are the
    same under the rule of the first edition, see `once_reproduced`.
    """
    card, files = card_of(paper), Results()
    rows = []
    for grid in card.grids.values():
        judged = list(swaps(card, grid, files))
        if not judged:
            continue
        frame = pd.DataFrame(judged, columns=["cell", "other", "apart", "agrees", "baseline", "once"])
        own, pairs = frame[frame["cell"] == frame["other"]], frame[frame["cell"] != frame["other"]]
        far, agreeing = pairs[pairs["apart"] > FAR], set(own[own["agrees"]]["cell"])
        instead = pairs[pairs["baseline"] & pairs["agrees"] & pairs["cell"].isin(agreeing)]
        rows.append({
            "table": grid.where, "cells": len(own), "agree": int(own["agrees"].sum()), "pairs": len(pairs),
            "permuted": int(pairs["agrees"].sum()), "far": len(far), "far_agree": int(far["agrees"].sum()),
            "stand_in": len(instead), "first_agree": int(own["once"].sum()), "first_permuted": int(pairs["once"].sum()),
            "first_far_agree": int(far["once"].sum()), **whole(card, grid, files),
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("table") if rows else pd.DataFrame()


def effects(paper: str, files: Results | None = None) -> pd.DataFrame:
    """Of each table, how often *agrees* is said of its effects as printed, and by the printed effects of other rows.

    One row per table. effects : those that can be judged; what a method adds to the best other row is left out, and so are cells
    that are printed equal. agree : of them, as printed. pairs, permuted : an effect judged by that of another row of its
    column; how many pairs there are, and how many agree. stand_in : of the effects that agree, those for which that of some
    other row would have done as well.
    """
    card, files = card_of(paper), files or Results()
    rows = []
    for grid in card.grids.values():
        own, pairs, stand_in = [], [], []
        for line in grid.ids:
            for entry in (card.entries[f"{id}.effect"] for id in line if f"{id}.effect" in card.entries):
                if entry.rule != "effect":
                    continue
                case = Case(card, entry, files, card.selection)
                one, other = (case.about(card.entries[id]) for id in entry.spec["cells"])
                try:
                    ours = effect.measured(one, other)
                except Missing:
                    continue
                said = [effect.printed(one.entry, other.entry), *(said for _, said in effect.instead(case))]
                found = [effect.found(*ours, s, card.printed_seeds, one.margin).verdict == "agrees" for s in said]
                own.append(found[0])
                pairs += found[1:]
                stand_in.append(found[0] and any(found[1:]))
        if own:
            rows.append({"table": grid.where, "effects": len(own), "agree": sum(own), "pairs": len(pairs),
                         "permuted": sum(pairs), "stand_in": sum(stand_in)})  # fmt: skip
    return pd.DataFrame(rows).set_index("table") if rows else pd.DataFrame()


def cells(card: PaperCard, grid: Grid) -> list[Entry]:
    """The levels of a table that can be judged."""
    entries = (card.entries[id] for line in grid.ids for id in line)
    return [e for e in entries if e.kind == "level" and e.printed != "?" and not ASIDE & set(e.spec)]


def once_reproduced(difference: float, half: float, spread: Spread) -> bool:
    """The rule of the first edition: a difference smaller than our noise, or than 0.01. The noisier, the easier to pass."""
    return bool(abs(difference) <= np.nanmax([0.01, spread.reach(0.975)]) + half)


def swaps(card: PaperCard, grid: Grid, files: Results) -> Iterator[tuple[str, str, float, bool, bool, bool]]:
    """Every cell judged by every printed number of its column, its own among them.

    (cell, the other cell, how many margins the two are printed apart, whether it agrees, whether the other is the baseline,
    whether the first edition would have called it reproduced)
    """
    among = cells(card, grid)
    for entry in among:
        case = Case(card, entry, files, card.selection)
        try:
            ours = estimate(case.side()["value"])
        except Missing:
            continue
        for other in among:
            if all(other.keys[k] == v for k, v in entry.keys.items() if k != "method"):
                here = case.about(replace(entry, spec={**entry.spec, "sd": other.spec.get("sd")}))
                spread = printed_spread(here, ours.sd, ours.seeds)
                apart = abs(float(cards.number(entry.printed) - cards.number(other.printed))) / case.margin
                half = float(cards.unit(other.printed)) / 2
                difference = ours.mean - float(cards.number(other.printed))
                agrees = same(difference, half, case.margin, spread.reach()) == "agrees"
                once = once_reproduced(difference, half, spread)
                yield entry.id, other.id, apart, agrees, other.id == entry.spec.get("baseline"), once


def whole(card: PaperCard, grid: Grid, files: Results, draws: int = 2000) -> dict[str, float]:
    """The table as a whole, calibrated by resampling our runs.

    distance : the mean over cells of ((printed - m) / s)^2, m and s of our runs. usual : the median of the same when both
    sides are drawn from our runs with replacement, as many as the paper had for the "printed" table, rounded alike, and as
    many as we have for ours. chance : how often such a table is at least as far away; a small one says that the paper's
    runs were not like ours.
    """
    columns, printed, units = {}, [], []
    for entry in cells(card, grid):
        try:
            columns[entry.id] = Case(card, entry, files, card.selection).side()["value"]
        except Missing:
            continue
        printed.append(float(cards.number(entry.printed)))
        units.append(float(cards.unit(entry.printed)))
    runs = pd.DataFrame(columns).dropna().to_numpy() if columns else np.empty((0, 0))
    if len(runs) < 5:
        return {"distance": np.nan, "usual": np.nan, "chance": np.nan}
    m, s, unit = runs.mean(0), runs.std(0, ddof=1), np.array(units)
    s = np.where(s > 0, s, unit)
    rng = streams.stream(0, "whole table")
    usual = np.empty(draws)
    for i in range(draws):
        theirs, ours = (runs[rng.integers(0, len(runs), size)] for size in (card.printed_seeds, len(runs)))
        spread = ours.std(0, ddof=1)
        gap = np.round(theirs.mean(0) / unit) * unit - ours.mean(0)
        usual[i] = ((gap / np.where(spread > 0, spread, unit)) ** 2).mean()
    distance = float((((np.array(printed) - m) / s) ** 2).mean())
    return {
        "distance": distance,
        "usual": float(np.median(usual)),
        "chance": float((1 + (usual >= distance).sum()) / (1 + draws)),
    }
