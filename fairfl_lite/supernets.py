"""Supernets: a random network whose weights stay, and whose edges are chosen (Ramanujan et al., 2020; E2FL, Section 2).

A weight is a constant with a random sign, sqrt(2 / fan in) in size, and an edge has a score of at least 0. So one number says
both: the parameter of an edge is its score with the sign of its weight, -0.0 and 0.0 told apart. A layer of n edges keeps those
behind the first int((1 - k) n) of its ranking, its edges from the least to the most important one; of equal scores the lower
edge id comes first. The reputation of an edge is its place in the ranking, from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from fairfl_lite.errors import FairFLError
from fairfl_lite.models import Network


class _Kept(torch.autograd.Function):
    """1 for the scores that are kept, else 0; its gradient is taken to be 1 (straight through)."""

    @staticmethod
    def forward(ctx: object, scores: torch.Tensor, keep: int) -> torch.Tensor:
        kept = torch.zeros_like(scores)
        kept[scores.argsort(stable=True)[len(scores) - keep :]] = 1
        return kept

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


@dataclass(frozen=True)
class Supernet:
    """A random network whose weights stay and whose edges are chosen: its parameters are signed scores, one for each edge.

    The scores of a layer with n edges begin as ``(j + 1/2) / n / sqrt(fan in)``, j = 0..n-1, in random order: the uniform
    start of the public code without its ties. They only ever come back in another order, so rankings are all that has to
    travel. ``k=1`` keeps every edge, and the network is the random one.

    Parameters
    ----------
    network : Network
        A network without biases, such as `LeNet` or `Perceptron`.
    k : float
        The share of edges that a layer keeps, above 0 and at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import Perceptron, Supernet
    >>> model = Supernet(Perceptron((6, 4, 2)), k=0.5)
    >>> params = model.init(np.random.default_rng(0))
    >>> model.size, int(model.mask(params).sum())
    (32, 16)
    """

    network: Network
    k: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.k, int | float) or not 0 < self.k <= 1:
            raise FairFLError(f"k must be a share of the edges, above 0 and at most 1, not {self.k!r}.")
        if any(len(shape) < 2 for shape in self.network.shapes):
            raise FairFLError(f"{type(self.network).__name__} has biases, and an edge-popup network has none: take LeNet().")

    @property
    def size(self) -> int:
        return self.network.size

    @property
    def classes(self) -> int:
        return self.network.classes

    @cached_property
    def layers(self) -> list[slice]:
        """Where each layer's edges are among the parameters."""
        ends = np.cumsum([0, *(math.prod(shape) for shape in self.network.shapes)]).tolist()
        return [slice(first, last) for first, last in zip(ends, ends[1:], strict=False)]

    @property
    def constants(self) -> list[float]:
        """The size of a weight in each layer, sqrt(2 / fan in)."""
        return [math.sqrt(2 / math.prod(shape[1:])) for shape in self.network.shapes]

    def keep(self, n: int) -> int:
        """How many of a layer's n edges are kept."""
        return n - int((1 - self.k) * n)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        orders = [rng.permutation(layer.stop - layer.start) for layer in self.layers]
        signs = rng.integers(0, 2, self.size) * 2.0 - 1
        return self.scored(np.concatenate(orders), signs)

    def scored(self, reputations: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Parameters [..., P] from reputations [..., P] and anything with the signs of the weights: the initial scores in the
        ranking's order (Algorithm 1, line 9)."""
        scores = np.empty(reputations.shape, np.float64 if self.network.double else np.float32)
        for layer, shape in zip(self.layers, self.network.shapes, strict=True):
            bound = 1 / math.sqrt(math.prod(shape[1:])) / (layer.stop - layer.start)
            np.multiply(reputations[..., layer] + 0.5, bound, out=scores[..., layer], casting="unsafe")
        return np.copysign(scores, signs, out=scores)

    def mask(self, params: np.ndarray) -> np.ndarray:
        """The edges that are kept, bool [..., P]."""
        kept = np.empty(params.shape, bool)
        for layer in self.layers:
            scores = np.abs(params[..., layer])
            for row in np.ndindex(params.shape[:-1]):
                kept[(*row, layer)] = top(scores[row], self.keep(scores.shape[-1]))
        return kept

    def weights(self, params: np.ndarray) -> np.ndarray:
        """The weights of all edges [..., P], kept or not."""
        sizes = np.repeat(self.constants, [layer.stop - layer.start for layer in self.layers])
        return np.copysign(sizes.astype(params.dtype), params)

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        return self.chosen(params.abs(), params, X)

    def chosen(self, scores: torch.Tensor, signs: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """Logits of the network of the edges that scores of at least 0 choose."""
        weights = []
        for layer, constant in zip(self.layers, self.constants, strict=True):
            sign = torch.where(torch.signbit(signs[layer].detach()), -constant, constant).to(scores.dtype)
            weights.append(sign * _Kept.apply(scores[layer], self.keep(len(sign))))
        return self.network.forward(torch.cat(weights), X)

    def free(self, params: np.ndarray) -> Free:
        """The same supernet with scores that may pass 0."""
        return Free(self, torch.tensor(params))


@dataclass(frozen=True)
class Free:
    """A supernet in training: its parameters are scores of either sign, of which the size counts, as in the public code. The
    weights keep the signs they have."""

    supernet: Supernet
    signs: torch.Tensor

    @property
    def size(self) -> int:
        return self.supernet.size

    @property
    def classes(self) -> int:
        return self.supernet.classes

    def init(self, rng: np.random.Generator) -> np.ndarray:
        return np.abs(self.supernet.init(rng))

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        scores = torch.where(torch.signbit(params.detach()), -params, params)  # |s|, with a slope at 0 too
        return self.supernet.chosen(scores, self.signs, X)


def top(scores: np.ndarray, keep: int) -> np.ndarray:
    """The `keep` highest of scores [n] as bool [n], of equal ones those with the higher index; no sort."""
    left = len(scores) - keep
    if not left:
        return np.ones(len(scores), bool)
    tau = np.partition(scores, left - 1)[left - 1]
    kept = scores > tau
    tied = np.flatnonzero(scores == tau)
    kept[tied[len(tied) - (keep - int(kept.sum())) :]] = True
    return kept
