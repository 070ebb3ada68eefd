"""EFFL's synthetic data (appendix B.1): two attributes, a protected one, two clients, and what can be known exactly about them.

A ~ Ber(0.5), X1 ~ N(0, 1), X2 ~ N(A, 2), Y ~ Ber(low) where X1 + X2 <= 0 and Ber(high) elsewhere, with (low, high) = (0.3, 0.6)
for A = 0 and (0.1, 0.9) for A = 1. The first client holds the rows with X1 <= -0.5, the second all others.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fairfl_lite.data.sources import Dataset, made
from fairfl_lite.data.table import Table
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.streams import stream

CHANCES = ((0.3, 0.6), (0.1, 0.9))
"""P(Y = 1 | A) where X1 + X2 <= 0, and where it is above."""
BORDER = -0.5
CLIENTS = (f"x1 <= {BORDER}", f"x1 > {BORDER}")
SPREADS = {"variance": 2**0.5, "sd": 2.0}
"""What the 2 of N(., 2) may be, and the standard deviation of X2 that it makes."""
BAYES = (1.0, 1.0, 0.0, 0.0)
"""The classifier that is best for both groups at both clients: 1[x1 + x2 > 0]."""


def build(
    paths: Mapping[str, Path],
    *,
    encoding: str = "codes",
    sensitive: str = "A",
    train: int = 5_000,
    test: int = 2_000,
    spread: str = "variance",
    keep_sensitive: bool = True,
    seed: int = 0,
) -> Table:
    """One draw as a Table. y = 1: the label 1. a = 1: the group A = 1, whose labels are less noisy. The paper leaves open:

    train, test : how many rows are drawn.
    spread : whether the 2 of N(., 2) is the "variance" of X2 or its standard deviation, "sd".
    keep_sensitive : whether A is an input, the last one. The paper writes h(X, A), so it is by default.
    `columns` has "client" and "part" ("train" or "test"). Training and test rows come from streams of their own. Both encodings
    are the same here, since every feature is a number.
    """
    choose(sensitive, ("A",), "sensitive attribute of dataset 'synthetic' named")
    sd = SPREADS[choose(spread, SPREADS, "spread")]
    if train < 1 or test < 1:
        raise FairFLError(f"train={train} and test={test} must be at least 1 row each.")
    parts = {"train": train, "test": test}
    X, y = (np.concatenate(both) for both in zip(*(_draw(seed, part, n, sd) for part, n in parts.items()), strict=True))
    options: dict[str, Any] = {"train": train, "test": test, "spread": spread, "keep_sensitive": keep_sensitive, "seed": seed}
    encoded = np.ascontiguousarray(X[:, : 2 + keep_sensitive], np.float32), ("x1", "x2", "A")[: 2 + keep_sensitive]
    columns = {"client": np.where(X[:, 0] <= BORDER, *CLIENTS), "part": np.repeat(list(parts), list(parts.values()))}
    return made(DATASET, encoded, y, X[:, 2], columns, options, sensitive)


def _draw(seed: int, part: str, n: int, sd: float) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """(x1, x2, A) [n, 3] and y [n]."""
    rng = stream(seed, f"synthetic {part}")
    a = rng.integers(0, 2, n)
    x1, x2 = rng.standard_normal(n), a + sd * rng.standard_normal(n)
    chance = np.array(CHANCES)[a, (x1 + x2 > 0).astype(int)]
    return np.stack([x1, x2, a], axis=1), (rng.random(n) < chance).astype(np.int8)


def confusion(weights: tuple[float, float, float, float] = BAYES, *, spread: str = "variance") -> NDArray[np.float64]:
    """P(client, A = a, Y = y, prediction) of the classifier 1[w1 x1 + w2 x2 + wa A + b > 0], exact but for the quadrature:
    [client, group, label, prediction], adding up to 1. Every metric of confusion counts may be asked of it.

    weights : (w1, w2, wa, b) with w2 > 0, which is every model that has learnt anything. At given x1 and A both x1 + x2 > 0 and
    the prediction 1 say that x2 is above a number, so their chances are values of the normal distribution; over x1 they are
    integrated by Gauss and Legendre's rule on each client's side of the border.
    """
    w1, w2, wa, b = weights
    if not w2 > 0:
        raise FairFLError(f"The weight of x2 must be positive, not {w2}.")
    sd = SPREADS[choose(spread, SPREADS, "spread")]
    node, share = np.polynomial.legendre.leggauss(400)
    found = np.zeros((2, 2, 2, 2))
    for client, (low, high) in enumerate([(-10.0, BORDER), (BORDER, 10.0)]):
        x1 = low + (high - low) * (node + 1) / 2
        density = (high - low) / 2 * share * np.exp(-(x1**2) / 2) / np.sqrt(2 * np.pi)
        for a, chances in enumerate(CHANCES):
            side, cut = -x1, -(w1 * x1 + wa * a + b) / w2
            both = ndtr((a - np.maximum(side, cut)) / sd)
            neither = ndtr((np.minimum(side, cut) - a) / sd)
            # [side of the line x1 + x2 = 0, prediction]
            joint = np.array([[neither, ndtr((side - a) / sd) - neither], [ndtr((a - side) / sd) - both, both]]) @ density
            for y in (0, 1):
                chance = np.array(chances) if y else 1 - np.array(chances)
                found[client, a, y] = chance @ joint / 2
    return found


DATASET = Dataset(
    name="synthetic",
    title="Synthetic data of EFFL (two attributes, two clients)",
    licence="that of this package",
    url="https://arxiv.org/abs/2309.16338",
    build=build,
    obtain="it is generated",
    origin="generated",
    generated=f"1 {CHANCES} {BORDER}",
)
