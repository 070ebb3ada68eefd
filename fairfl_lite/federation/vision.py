"""A federation of agents who hold images: the same calls as `Federation`, for networks of convolutions in plain torch.

Convolutions are fastest with one thread per process and channels last in memory, a network at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from fairfl_lite.clients import Local
from fairfl_lite.data.images import Images
from fairfl_lite.data.rotation import rotate
from fairfl_lite.data.shards import Shards
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation
from fairfl_lite.models import Model
from fairfl_lite.streams import stream

ROWS = 100
"""Images that go through a network together when nothing is learnt."""

PIXELS = {"mnist": ((0.0,), (1.0,)), "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))}
"""What is taken off each channel, and what it is divided by, after pixels were brought to 0..1."""


@dataclass(frozen=True)
class Pixels:
    """From uint8 images to what a network reads: (x / 255 - shift) / scale by channel."""

    shift: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    @classmethod
    def of(cls, name: str) -> Pixels:
        return cls(*PIXELS[choose(name, PIXELS, "dataset of images named")])

    def __call__(self, x: np.ndarray | torch.Tensor) -> torch.Tensor:
        shift, scale = (torch.tensor(v).view(1, -1, 1, 1) for v in (self.shift, self.scale))
        return (torch.as_tensor(x).float() / 255 - shift) / scale


def fit(model: Model, x: torch.Tensor, y: torch.Tensor, theta: np.ndarray, pixels: Pixels, rng: np.random.Generator, *,
        lr: float, epochs: int = 1, batch: int = 32, momentum: float = 0.0, decay: float = 0.0, cosine: bool = False,
        within: float = 0.0) -> np.ndarray:  # fmt: skip
    """SGD on uint8 images x: `epochs` passes in random order, minibatches of `batch` (0: all), cross-entropy.

    cosine : the rate falls to 0 as half a cosine. within : each image is turned anew in each pass, by an angle uniform
    in +-within degrees.
    """
    params = torch.tensor(theta, requires_grad=True)
    speed = torch.zeros_like(params)
    size = batch or max(len(x), 1)
    steps, step = max(1, epochs * math.ceil(len(x) / size)), 0
    for _ in range(epochs):
        seen = rotate(x, torch.as_tensor(rng.uniform(-within, within, len(x)))) if within else x
        for rows in torch.as_tensor(rng.permutation(len(x))).split(size):
            loss = cross_entropy(model.forward(params, pixels(seen[rows])), y[rows])
            (slope,) = torch.autograd.grad(loss, params)
            rate = lr * (0.5 * (1 + math.cos(math.pi * step / steps)) if cosine else 1.0)
            with torch.no_grad():
                speed.mul_(momentum).add_(slope)
                params.sub_(speed, alpha=rate).mul_(1 - rate * decay)
            step += 1
    return params.detach().numpy()


@torch.no_grad()
def image_losses(model: Model, theta: np.ndarray, x: torch.Tensor, y: torch.Tensor, pixels: Pixels) -> np.ndarray:
    """Cross-entropy of each image, [rows]."""
    params = torch.as_tensor(theta)
    parts = [
        cross_entropy(model.forward(params, pixels(part)), labels, reduction="none")
        for part, labels in _pairs(x, y)
    ]
    return torch.cat(parts).numpy() if parts else np.empty(0, theta.dtype)


@dataclass(frozen=True)
class Pictures(Federation):
    """Agents with rotated images. Rows of `shards` are images, uint8 [c, h, h], already turned as their agent sees them.

    Part "probe" is the first rows of "train", part "look" of "test": for questions that are asked a hundred times over.
    """

    pixels: Pixels = Pixels()
    first: np.ndarray | None = None

    @classmethod
    def agents(cls, images: Images, rotations: Sequence[float], seeds: Sequence[int], local: Local, model: Model, *,
               train: int, test: int, validation: int = 0, probe: int = 0, look: int = 0, skip: int = 0,
               first: np.ndarray | None = None) -> Pictures:  # fmt: skip
        """One agent for each angle, in degrees: `train` and `validation` images of the training images after the first
        `skip`, and `test` of the test images; no image with two agents, drawn anew for each seed. first : where all start."""
        n, seeds = len(rotations), tuple(seeds)
        pools = {"train": (skip, images.train, train + validation), "test": (images.train, len(images), test)}
        for part, (low, high, each) in pools.items():
            if not 0 < each * n <= high - low:
                raise FairFLError(f"{n} agents cannot have {each} {part} images each, there are {high - low} in all.")
        drawn: dict[str, list[list[np.ndarray]]] = {part: [] for part in ("train", "validation", "test")}
        for seed in seeds:
            dealt = {p: deal(seed, p, low, high, n, each) for p, (low, high, each) in pools.items()}
            drawn["train"].append([rows[:train] for rows in dealt["train"]])
            drawn["validation"].append([rows[train:] for rows in dealt["train"]])
            drawn["test"].append(dealt["test"])
        shards = {part: _turned(images, runs, rotations) for part, runs in drawn.items()}
        shards |= {"probe": shards["train"].head(probe or train), "look": shards["test"].head(look or test)}
        empty = np.zeros((len(seeds), 1))
        return cls(shards, model, local, seeds, empty, empty + 1, pixels=Pixels.of(images.name), first=first)

    def start(self) -> np.ndarray:
        """The server's first model, [run, P]: the one given, or the network's own start."""
        return super().start() if self.first is None else np.tile(self.first, (len(self.seeds), 1))

    def train(self, params: np.ndarray, t: int, *, who: np.ndarray | None = None, on: Shards | None = None) -> np.ndarray:
        """As Federation.train, by SGD; weights of rows are not used."""
        if self.local.optimizer != "sgd":
            raise FairFLError("Agents with images train by SGD: set Local(optimizer='sgd').")
        shards, keys = on or self.shards["train"], self._keys("train", t)
        theta = np.empty((*self.sizes.shape, self.model.size), params.dtype)
        theta[:] = params[:, None] if params.ndim == 2 else params
        rates = np.broadcast_to(np.asarray(self.local.lr, float), len(self.seeds))
        for r, k in zip(*np.nonzero(np.ones(self.sizes.shape, bool) if who is None else who), strict=True):
            x, y = self._images(shards, r, k)
            theta[r, k] = fit(self.model, x, y, theta[r, k], self.pixels, np.random.default_rng(keys[r, k]), lr=float(rates[r]),
                              epochs=self.local.epochs, batch=self.local.batch, decay=self.local.decay)  # fmt: skip
        return theta

    def losses(self, params: np.ndarray, on: Any = "train", *, cross: bool = False) -> np.ndarray:
        """Mean cross-entropy in the shapes of Federation.report; `on` may also be Shards."""
        shards = on if isinstance(on, Shards) else self.shards[choose(on, self.shards, "part of the data")]
        models = params.shape[1] if cross else 1
        out = np.empty((len(self.seeds), models, self.clients))
        for r, m, k in np.ndindex(*out.shape):
            theta = params[r] if params.ndim == 2 else params[r, m if cross else k]
            out[r, m, k] = image_losses(self.model, theta, *self._images(shards, r, k), self.pixels).mean(dtype=np.float64)
        return out if cross else out[:, 0]

    def slopes(self, params: np.ndarray, t: int = 0, batch: int = 0, on: str = "train") -> tuple[np.ndarray, np.ndarray]:
        """As Federation.slopes, on `batch` images of each agent drawn for round t (0: all of its images in part `on`)."""
        shards = self.shards[choose(on, self.shards, "part of the data")]
        loss, slope = np.zeros(self.sizes.shape), np.zeros((*self.sizes.shape, self.model.size), params.dtype)
        keys = self._keys("slopes", t)
        for r, k in np.ndindex(*self.sizes.shape):
            x, y = self._images(shards, r, k)
            if batch:
                rows = torch.as_tensor(np.random.default_rng(keys[r, k]).permutation(len(x))[:batch])
                x, y = x[rows], y[rows]
            theta = torch.tensor(params[r] if params.ndim == 2 else params[r, k], requires_grad=True)
            for part, labels in _pairs(x, y):
                share = cross_entropy(self.model.forward(theta, self.pixels(part)), labels, reduction="sum") / len(x)
                slope[r, k] += torch.autograd.grad(share, theta)[0].numpy()
                loss[r, k] += float(share.detach())
        return loss, slope

    def accuracy(self, params: np.ndarray, on: str = "test") -> np.ndarray:
        """Share of right answers of the server's model, [run, client]."""
        shards, out = self.shards[choose(on, self.shards, "part of the data")], np.empty(self.sizes.shape)
        for r, k in np.ndindex(*out.shape):
            x, y = self._images(shards, r, k)
            with torch.no_grad():
                theta = torch.as_tensor(params[r])
                right = [(self.model.forward(theta, self.pixels(p)).argmax(1) == q) for p, q in _pairs(x, y)]
            out[r, k] = torch.cat(right).double().mean()
        return out

    def _images(self, shards: Shards, run: int, client: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = shards.rows(run, client)
        return torch.as_tensor(shards.X[rows]), torch.as_tensor(shards.y[rows])


def deal(seed: int, part: str, low: int, high: int, agents: int, each: int) -> list[np.ndarray]:
    """`each` of the rows low..high-1 for each agent, none twice."""
    rows = low + stream(seed, f"images {part}").permutation(high - low)[: agents * each]
    return np.split(rows, agents)


def _pairs(x: torch.Tensor, y: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return zip(x.split(ROWS), y.split(ROWS), strict=True)


def _turned(images: Images, runs: Sequence[Sequence[np.ndarray]], rotations: Sequence[float]) -> Shards:
    """Shards over copies of the chosen images, turned by their agent's angle."""
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
    return Shards.of(np.concatenate(x), labels, np.zeros(len(labels), np.int8), index)
