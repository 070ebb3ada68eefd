"""What a client sends and receives in a round (E2FL, Tables 1 and 2), in bits; the papers' MB are 2^20 bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fairfl_lite.errors import choose
from fairfl_lite.models import Network

APPROACHES = ("local", "fedavg", "q-ffl", "ifca", "frl", "e2fl", "e2fl, clustered")


class Cost(NamedTuple):
    """Bits up from a client to the server, and down to it, in one round."""

    up: int
    down: int

    @property
    def mb(self) -> tuple[float, float]:
        """Both in units of 2^20 bytes."""
        return self.up / 2**23, self.down / 2**23


def edges(network: Network) -> list[int]:
    """How many edges each layer has."""
    return [math.prod(shape) for shape in network.shapes]


def dense_bits(layers: Sequence[int]) -> int:
    """A weight for each edge, 32 bits."""
    return 32 * sum(layers)


def ranking_bits(layers: Sequence[int]) -> int:
    """An edge id at each place of each layer's ranking, ceil(log2 n) bits for a layer of n edges."""
    return sum(n * (n - 1).bit_length() for n in layers)


def mask_bits(layers: Sequence[int]) -> int:
    """A bit for each edge."""
    return sum(layers)


def ranking_bound(layers: Sequence[int]) -> float:
    """log2 of how many rankings there are, sum of log2(n!): no code for all of them needs fewer bits on average."""
    return sum(math.lgamma(n + 1) for n in layers) / math.log(2)


def cost(approach: str, network: Network, groups: int = 1) -> Cost:
    """One round of a client under an approach.

    "e2fl" sends the global ranking and a mask for each group down, so that a client can tell its group; "e2fl, clustered" the
    ranking alone, since the server knows the groups; "ifca" a model for each group.
    """
    layers = edges(network)
    ranking, dense = ranking_bits(layers), dense_bits(layers)
    return {
        "local": Cost(0, 0),
        "fedavg": Cost(dense, dense),
        "q-ffl": Cost(dense, dense),
        "ifca": Cost(dense, groups * dense),
        "frl": Cost(ranking, ranking),
        "e2fl": Cost(ranking, ranking + groups * mask_bits(layers)),
        "e2fl, clustered": Cost(ranking, ranking),
    }[choose(approach, APPROACHES, "approach")]
