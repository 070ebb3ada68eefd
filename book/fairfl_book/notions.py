"""Notions of fairness on federations so small that every rule, and every federation, can be listed.

A *rule* says for each *pattern* of features whether the prediction is 1. It looks at the pattern alone, and never at a person's
group. A federation is a table of counts, [client, group, label, pattern]. `confusions` turns it into the confusion counts of
every rule, which the metrics of the library take. A notion says which rules it accepts; leading axes are federations, so that
many are asked at once. `smallest_conflict` looks through all federations, from the smallest on, for one in which two notions
exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np

from fairfl_lite import metrics, rankings
from fairfl_lite.errors import FairFLError

EXACT = 1e-9
"""Two rates of so few rows are equal if they are nearer than this."""
BLOCK = 20_000
"""Federations that are looked at together."""


def all_rules(patterns: int) -> np.ndarray:
    """Every rule on so many patterns, [rule, pattern]: rule r predicts 1 for pattern p if bit p of r is set."""
    return np.arange(2**patterns)[:, None] >> np.arange(patterns) & 1


def confusions(counts: np.ndarray, rules: np.ndarray | None = None) -> np.ndarray:
    """Confusion counts of rules on a federation: [..., rule, client, group, label, prediction].

    counts : [..., client, group, label, pattern], how many rows there are. rules : [rule, pattern], all of them if None.
    """
    chosen = all_rules(counts.shape[-1]) if rules is None else np.asarray(rules)
    ones = np.einsum("...kayp,rp->...rkay", counts, chosen)
    return np.stack([counts.sum(-1)[..., None, :, :, :] - ones, ones], axis=-1)


@dataclass(frozen=True)
class Notion:
    """Which rules a notion of fairness accepts.

    accepts : called with confusion counts of all rules and the kind of each client; gives [..., rule].
    asks_groups : whether it compares groups of people; asks_kinds : whether it compares kinds of clients.
    method : whose notion it is.
    """

    name: str
    method: str
    accepts: Callable[[np.ndarray, Sequence[int]], np.ndarray]
    asks_groups: bool = False
    asks_kinds: bool = False


def errors(confusion: np.ndarray) -> np.ndarray:
    """The share of wrong predictions of every rule at every client, [..., rule, client]: the loss of a decision."""
    return 1 - metrics.accuracy(confusion)


def fewest(values: np.ndarray) -> np.ndarray:
    """The rules, on the last axis, that have the smallest value."""
    return values <= values.min(-1, keepdims=True) + EXACT


def within_budgets(confusion: np.ndarray, eps_b: float = 0.0, eps_vl: float = 0.0, eps_vb: float | None = None) -> np.ndarray:
    """EFFL's sets H_B and H_E together: biases at most eps_b, errors eps_vl and biases eps_vb from their means over clients.

    The bias of a client is its TPSD, and its loss the share of wrong decisions. Without eps_vb, what eps_b leaves is enough.
    """
    bias, loss = metrics.tpsd(confusion), errors(confusion)
    apart = [np.abs(values - values.mean(-1, keepdims=True)).max(-1) for values in (loss, bias)]
    small = (bias.max(-1) <= eps_b + EXACT) & (apart[0] <= eps_vl + EXACT)
    return small if eps_vb is None else small & (apart[1] <= eps_vb + EXACT)


def ranks(confusion: np.ndarray) -> np.ndarray:
    """How many rules are better for the client, by accuracy: [..., rule, client]. Equal rules share the best rank."""
    accuracy = metrics.accuracy(confusion)
    return (accuracy[..., None, :, :] > accuracy[..., :, None, :] + EXACT).sum(-2)


def _proportional(confusion: np.ndarray, kinds: Sequence[int]) -> np.ndarray:
    many, clients = confusion.shape[-5], confusion.shape[-4]
    return ranks(confusion).max(-1) <= rankings.worst_case(clients, many)


def by_kind(confusion: np.ndarray, kinds: Sequence[int]) -> np.ndarray:
    """The mean accuracy of the clients of each kind, [..., rule, kind]."""
    accuracy = metrics.accuracy(confusion)
    return np.stack([accuracy[..., np.asarray(kinds) == kind].mean(-1) for kind in sorted(set(kinds))], axis=-1)


NOTIONS = {
    notion.name: notion
    for notion in (
        Notion("fewest errors", "FedAvg", lambda c, _: fewest(1 - metrics.accuracy(c.sum(-4)))),
        Notion("equal groups", "FairFed, FAIR-FATE", lambda c, _: np.abs(metrics.eod(c.sum(-4))) <= EXACT, asks_groups=True),
        Notion("within budgets", "EFFL", lambda c, _: within_budgets(c), asks_groups=True),
        Notion("nobody's last choices", "RankFF", _proportional),
        Notion("equality", "E2FL", lambda c, _: metrics.variance(metrics.accuracy(c)) <= EXACT),
        Notion("equity", "E2FL", lambda c, kinds: by_kind(c, kinds).var(-1) <= EXACT, asks_kinds=True),
        Notion("best worst client", "AFL", lambda c, _: fewest(errors(c).max(-1))),
        Notion("small large errors", "q-FFL", lambda c, _: fewest((errors(c) ** 2).sum(-1))),
    )
}
"""FedAvg's goal, the notions of the five papers, and two of client fairness; budgets are 0, and q is 1."""


def tables(rows: int, groups: int, patterns: int = 2) -> np.ndarray:
    """Every client of so many rows, [client, group, label, pattern].

    If there are groups, each has a row with label 1, so that whatever compares them is defined.
    """
    cells = groups * 2 * patterns
    bars = np.array(list(combinations(range(rows + cells - 1), cells - 1))).reshape(-1, cells - 1)
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, rows + cells - 1)))
    found = (np.diff(ends, axis=1) - 1).reshape(-1, groups, 2, patterns)
    return found if groups == 1 else found[(found[..., 1, :].sum(-1) > 0).all(-1)]


def federations(rows: int, clients: int, groups: int, patterns: int = 2) -> Iterator[np.ndarray]:
    """Every federation of so many rows, in blocks [federation, client, group, label, pattern]; every client has a row."""
    for sizes in product(range(1, rows), repeat=clients):
        if sum(sizes) == rows:
            own = [tables(size, groups, patterns) for size in sizes]
            picks = product(*(range(len(one)) for one in own))
            while len(block := np.array(list(islice(picks, BLOCK)), int)):
                yield np.stack([one[pick] for one, pick in zip(own, block.T, strict=True)], axis=1)


@dataclass(frozen=True)
class Conflict:
    """A smallest federation in which two notions exclude each other: each accepts some rule, and no rule is accepted by both."""

    first: str
    second: str
    counts: np.ndarray

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def accepted(self) -> dict[str, np.ndarray]:
        """The rules that each of the two accepts."""
        found = confusions(self.counts)
        return {name: np.flatnonzero(NOTIONS[name].accepts(found, kinds(len(self.counts)))) for name in (self.first, self.second)}


def _asked(first: str, second: str, rows: int, clients: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Blocks of federations of so many rows and clients, and the rules that each of two notions accepts, [federation, rule]."""
    pair = [_named(first), _named(second)]
    groups = 2 if any(notion.asks_groups for notion in pair) else 1
    for counts in federations(rows, clients, groups):
        found = confusions(counts)
        one, other = (notion.accepts(found, kinds(clients)) for notion in pair)
        yield counts, one, other


def kinds(clients: int) -> tuple[int, ...]:
    """The kinds of clients in the search: the last one is of a kind of its own."""
    return (*[0] * (clients - 1), 1)


def enough(*names: str, most: int = 3) -> range:
    """The numbers of clients that are searched: from two, or from three where kinds of clients are compared."""
    return range(3 if any(_named(name).asks_kinds for name in names) else 2, most + 1)


def smallest_conflict(first: str, second: str, most: int, clients: Sequence[int] | None = None) -> Conflict | None:
    """The first of the smallest federations in which two notions exclude each other, or None if none has at most `most` rows.

    clients : how many there may be; two or three if None.
    """
    for rows in range(2, most + 1):
        for many in clients or enough(first, second):
            for counts, one, other in _asked(first, second, rows, many):
                apart = one.any(-1) & other.any(-1) & ~(one & other).any(-1)
                if apart.any():
                    return Conflict(first, second, counts[apart.argmax()])
    return None


def implies(first: str, second: str, most: int, clients: Sequence[int] | None = None) -> bool:
    """Whether the second notion accepts every rule that the first does, in all federations of at most `most` rows."""
    return not any(
        (one & ~other).any()
        for rows in range(2, most + 1)
        for many in clients or enough(first, second)
        for _, one, other in _asked(first, second, rows, many)
    )


def _named(name: str) -> Notion:
    if name not in NOTIONS:
        raise FairFLError(f"There is no notion {name!r}: choose among {', '.join(NOTIONS)}.")
    return NOTIONS[name]
