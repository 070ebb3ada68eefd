"""Images turned about their centre, the same bytes on every machine, and dealt to clients who see them turned."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numba import njit
from torch.nn.functional import affine_grid, grid_sample

from fairfl_lite.data.images import Images
from fairfl_lite.data.shards import Shards
from fairfl_lite.errors import FairFLError
from fairfl_lite.streams import stream


def rotate(x: torch.Tensor, degrees: float | Sequence[float] | torch.Tensor) -> torch.Tensor:
    """Images [k, c, h, h] turned counter-clockwise about their centre by one angle, or one each; bilinear, corners black.

    uint8 images stay uint8; an angle that is a whole number of turns gives the images back as they are.
    """
    angle = torch.as_tensor(degrees, dtype=torch.float64) * (math.pi / 180)
    if not len(x) or bool((angle % (2 * math.pi) == 0).all()):
        return x
    cos, sin = angle.cos().expand(len(x)), angle.sin().expand(len(x))
    if x.dtype == torch.uint8:
        return torch.as_tensor(_turned(x.contiguous().numpy(), cos.contiguous().numpy(), sin.contiguous().numpy()))
    turn = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
    grid = affine_grid(torch.cat([turn, angle.new_zeros(len(x), 2, 1)], 2), list(x.shape), align_corners=False)
    return grid_sample(x.double(), grid, align_corners=False).to(x.dtype)


@njit(cache=True)
def _turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """uint8 images turned, without the large grids that torch's functions need: a pixel goes back to where it was, and takes
    from the four around that place by their nearness. A half goes up, whatever its last digits."""
    k, channels, side, _ = x.shape
    wide, centre, out = side + 3, (side - 1) / 2, np.empty_like(x)
    framed = np.zeros(wide * wide)  # one image in a black frame, which all places outside of it are moved to
    for image in range(k):
        for c in range(channels):
            for i in range(side):
                framed[(i + 1) * wide + 1 : (i + 1) * wide + 1 + side] = x[image, c, i]
            for i in range(side):
                for j in range(side):
                    across = cos[image] * (j - centre) - sin[image] * (i - centre) + centre
                    down = sin[image] * (j - centre) + cos[image] * (i - centre) + centre
                    across, down = min(max(across, -1.0), float(side)) + 1, min(max(down, -1.0), float(side)) + 1
                    left, top = np.uint32(across), np.uint32(down)
                    east, south, at = across - left, down - top, np.uint64(top * wide + left)
                    upper = framed[at] + east * (framed[at + 1] - framed[at])
                    at += np.uint64(wide)
                    lower = framed[at] + east * (framed[at + 1] - framed[at])
                    out[image, c, i, j] = np.uint8(upper + south * (lower - upper) + 0.500001)
    return out


def deal(seed: int, part: str, low: int, high: int, clients: int, each: int) -> list[np.ndarray]:
    """`each` of the rows low..high-1 for each client, none twice."""
    rows = low + stream(seed, f"images {part}").permutation(high - low)[: clients * each]
    return np.split(rows, clients)


def rotated(
    images: Images, rotations: Sequence[float], seeds: Sequence[int], *, train: int, test: int, validation: int = 0, skip: int = 0
) -> dict[str, Shards]:
    """Parts "train", "validation" and "test" for one client per angle, dealt anew for each seed: see `Federation.of_images`."""
    n = len(rotations)
    pools = {"train": (skip, images.train, train + validation), "test": (images.train, len(images), test)}
    for part, (low, high, each) in pools.items():
        if not 0 < each * n <= high - low:
            raise FairFLError(f"{n} clients cannot have {each} {part} images each, there are {high - low} in all.")
    drawn: dict[str, list[list[np.ndarray]]] = {part: [] for part in ("train", "validation", "test")}
    for seed in seeds:
        dealt = {part: deal(seed, part, low, high, n, each) for part, (low, high, each) in pools.items()}
        drawn["train"].append([rows[:train] for rows in dealt["train"]])
        drawn["validation"].append([rows[train:] for rows in dealt["train"]])
        drawn["test"].append(dealt["test"])
    return {part: _shards(images, runs, rotations) for part, runs in drawn.items()}


def _shards(images: Images, runs: Sequence[Sequence[np.ndarray]], rotations: Sequence[float]) -> Shards:
    """Shards over copies of the chosen images, turned by their client's angle."""
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    index: list[list[np.ndarray]] = []
    at = 0
    for run in runs:
        index.append([])
        for rows, angle in zip(run, rotations, strict=True):
            x.append(rotate(torch.as_tensor(images.x[rows]), float(angle)).numpy())
            y.append(images.y[rows])
            index[-1].append(np.arange(at, at + len(rows)))
            at += len(rows)
    labels = np.concatenate(y)
    return Shards.of(np.concatenate(x), labels, np.zeros(len(labels), np.int8), index, classes=images.classes)
