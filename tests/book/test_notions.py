"""The search for federations in which two notions of fairness exclude each other, against plain Python with fractions.

Nothing of `fairfl_book.notions` or of the metrics is used on the other side: rules are sets of patterns, people are in a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from fairfl_book import notions
from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError

RULES = [frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1})]
"""The patterns for which a rule predicts 1, in the order of the module."""
Person = tuple[int, int, int, int]
"""Client, group, label, pattern."""
GROUPED = {"equal groups", "within budgets"}
OF_KINDS = {"equity"}
NEVER = {
    frozenset(pair)
    for pair in (
        ("within budgets", "equality"), ("within budgets", "equity"), ("equality", "equity"),
        ("within budgets", "nobody's last choices"), ("nobody's last choices", "equality"),
    )
}  # fmt: skip
"""Pairs that can always be had together, by the propositions of the chapter."""


def rate(people: list[Person], rule: frozenset[int]) -> Fraction:
    return Fraction(sum(person[3] in rule for person in people), len(people))


def accuracies(people: list[Person], clients: int) -> list[list[Fraction]]:
    """By rule and client."""
    found = []
    for rule in RULES:
        own = [[person for person in people if person[0] == k] for k in range(clients)]
        found.append([Fraction(sum((p[3] in rule) == bool(p[2]) for p in some), len(some)) for some in own])
    return found


def least(values: list[Fraction]) -> set[int]:
    return {rule for rule, value in enumerate(values) if value == min(values)}


def accepted(people: list[Person], clients: int, groups: int) -> dict[str, set[int]]:
    """The rules that every notion accepts."""
    right = accuracies(people, clients)
    found = {
        "fewest errors": least([Fraction(sum((p[3] in rule) != bool(p[2]) for p in people)) for rule in RULES]),
        "nobody's last choices": {
            r for r in range(4) if all(sum(right[s][k] > right[r][k] for s in range(4)) <= 4 * (clients - 1) // clients
                                       for k in range(clients))
        },
        "equality": {r for r in range(4) if len(set(right[r])) == 1},
        "equity": {r for r in range(4) if sum(right[r][:-1]) / (clients - 1) == right[r][-1]},
        "best worst client": least([-min(own) for own in right]),
        "small large errors": least([sum(((1 - one) ** 2 for one in own), Fraction(0)) for own in right]),
    }  # fmt: skip
    if groups == 2:
        ill = [person for person in people if person[2] == 1]
        found["equal groups"] = {
            r for r, rule in enumerate(RULES) if len({rate([p for p in ill if p[1] == a], rule) for a in (0, 1)}) == 1
        }
        found["within budgets"] = {
            r for r, rule in enumerate(RULES) if r in found["equality"]
            and all(len({rate([p for p in ill if p[:2] == (k, a)], rule) for a in (0, 1)}) == 1 for k in range(clients))
        }  # fmt: skip
    return found


def federations(rows: int, clients: int, groups: int) -> Iterator[list[Person]]:
    kinds = list(product(range(clients), range(groups), (0, 1), (0, 1)))
    for people in combinations_with_replacement(kinds, rows):
        if {person[0] for person in people} == set(range(clients)):
            with_label_1 = {person[:2] for person in people if person[2] == 1}
            if groups == 1 or len(with_label_1) == 2 * clients:
                yield list(people)


@cache
def conflicts(rows: int, clients: int, groups: int) -> set[frozenset[str]]:
    """The pairs of notions that exclude each other in some federation of so many rows and clients."""
    found = set()
    for people in federations(rows, clients, groups):
        rules = accepted(people, clients, groups)
        found |= {frozenset(pair) for pair in combinations(rules, 2)
                  if rules[pair[0]] and rules[pair[1]] and not rules[pair[0]] & rules[pair[1]]}  # fmt: skip
    return found


def people_of(counts: np.ndarray) -> list[Person]:
    return [tuple(int(x) for x in cell) for cell, many in np.ndenumerate(counts) for _ in range(many)]


def test_there_are_as_many_federations_as_plain_python_finds():
    for rows, clients, groups in ((2, 2, 1), (5, 2, 1), (4, 3, 1), (4, 2, 2), (6, 2, 2), (6, 3, 2)):
        blocks = np.concatenate(list(notions.federations(rows, clients, groups)) or [np.empty((0, 1))])
        assert len(blocks) == len({block.tobytes() for block in blocks}) == sum(1 for _ in federations(rows, clients, groups))


@pytest.mark.parametrize("pair", list(combinations(notions.NOTIONS, 2)), ids=" and ".join)
def test_a_smallest_conflict_is_one_by_fractions(pair):
    """What is found excludes; the pairs that never do are those with a proof."""
    if frozenset(pair) in NEVER:
        assert notions.smallest_conflict(*pair, 6) is None
        return
    one = notions.smallest_conflict(*pair, 10)
    rules = accepted(people_of(one.counts), len(one.counts), one.counts.shape[1])
    assert {name: set(found.tolist()) for name, found in one.accepted().items()} == {name: rules[name] for name in pair}
    assert all(rules[name] for name in pair) and not rules[pair[0]] & rules[pair[1]]
    assert one.rows == len(people_of(one.counts)) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("rows", range(2, 7))
def test_conflicts_of_every_size_are_those_of_plain_python(rows):
    """Of two and three clients, with and without groups: none is missed, so that none smaller exists."""
    for clients, groups in ((2, 1), (3, 1), (2, 2), (3, 2)):
        asked = [pair for pair in combinations(notions.NOTIONS, 2)
                 if (groups == 2) == bool(GROUPED & set(pair)) and (clients == 3 or not OF_KINDS & set(pair))]  # fmt: skip
        ours = {frozenset(pair) for pair in asked if _exists(*pair, rows, clients)}
        assert ours == {pair for pair in conflicts(rows, clients, groups) if tuple(pair) in {*asked, *(p[::-1] for p in asked)}}
        assert not ours & NEVER


def _exists(first: str, second: str, rows: int, clients: int) -> bool:
    """Whether some federation of exactly so many rows and clients has the conflict."""
    return any((one.any(-1) & other.any(-1) & ~(one & other).any(-1)).any()
               for _, one, other in notions._asked(first, second, rows, clients))  # fmt: skip


def test_implications_are_those_of_the_propositions():
    """And a notion that does not imply another has a federation that shows it."""
    assert notions.implies("within budgets", "equality", 6) and notions.implies("equality", "equity", 6)
    assert notions.implies("best worst client", "nobody's last choices", 9, clients=[2])
    assert not notions.implies("best worst client", "nobody's last choices", 6, clients=[3])
    assert not notions.implies("equity", "equality", 6) and not notions.implies("equality", "within budgets", 6)


def test_the_opposite_of_an_equal_rule_spares_the_last_choices():
    """The proof of the proposition, on random federations of more signs and clients than the search has."""
    rng, seen = np.random.default_rng(0), 0
    for clients, patterns in ((2, 3), (3, 2), (4, 3), (5, 2)):
        for _ in range(300):
            found = notions.confusions(rng.integers(0, 2, (clients, 1, 2, patterns)) + np.eye(2, patterns, dtype=int))
            equal = metrics.variance(metrics.accuracy(found)) < 1e-12
            spared = notions.NOTIONS["nobody's last choices"].accepts(found, notions.kinds(clients))
            seen += equal.any()
            assert not equal.any() or (equal & spared).any()
    assert seen > 50


def test_confusion_counts_are_those_of_one_value_per_row():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, (2, 2, 2, 3)) + 1
    rules = notions.all_rules(3)
    found = notions.confusions(counts)
    people = people_of(counts)
    for r, rule in enumerate(rules):
        for k in range(2):
            own = [person for person in people if person[0] == k]
            _, group, label, sign = zip(*own, strict=True)
            assert (found[r, k] == metrics.counts_of(label, [rule[s] for s in sign], group)).all()
    assert (notions.confusions(counts, rules[[5]])[0] == found[5]).all()


def test_budgets_by_hand():
    """One client is right 3 of 4 times and finds 1/2 and 1 of the groups, the other is right half of the time and finds all."""
    counts = np.array([[[[0, 0], [1, 1]], [[0, 0], [0, 2]]], [[[0, 1], [0, 1]], [[0, 1], [0, 1]]]])
    (found,) = notions.confusions(counts, [[0, 1]])
    assert np.allclose(notions.errors(found), [0.25, 0.5]) and np.allclose(metrics.tpsd(found), [0.25, 0])

    def kept(*budgets):
        return bool(notions.within_budgets(found[None], *budgets)[0])

    assert kept(0.25, 0.125) and kept(0.25, 0.125, 0.125)
    assert not kept(0.24, 0.125) and not kept(0.25, 0.12) and not kept(0.25, 0.125, 0.12)


def test_equal_rules_share_the_best_rank():
    counts = np.array([[[[1, 0], [0, 1]]], [[[1, 0], [1, 0]]]])  # the sign tells client 0 everything, client 1 nothing
    assert notions.ranks(notions.confusions(counts)).T.tolist() == [[1, 3, 0, 1], [0, 0, 0, 0]]


def test_an_unknown_notion_is_named():
    with pytest.raises(FairFLError, match="There is no notion 'justice': choose among fewest errors, equal groups"):
        notions.smallest_conflict("justice", "equality", 4)
