"""The finite sets of models that RankFF's agents choose from: one network, trained once for each angle.

A set takes minutes to hours, so every model is kept in the cache folder as soon as it is trained (plain arrays, no code in
them). A run that was stopped goes on with the angles that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from fairfl_book.experiments.base import each
from fairfl_book.settings import printed
from fairfl_lite import data
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data.rotation import rotate
from fairfl_lite.engines import fit, losses_of
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Pixels
from fairfl_lite.models import CNN, VGG11, Network
from fairfl_lite.store import cache_folder, fingerprint, read_arrays, write_arrays
from fairfl_lite.streams import stream

RECIPE = 2
"""To be raised when the same settings would give other models: those trained before are then left alone."""


@lru_cache(maxsize=1)
def _loaded(load: Callable[[str], data.Images], dataset: str, folder: Path) -> data.Images:
    """Images that were read and checked once for all models that a process trains."""
    return load(dataset)


@dataclass(frozen=True)
class ModelSet:
    """m models of one network, all from the same start and the same images, model i for the angle i * step.

    reading : "fixed" trains on images turned by exactly that angle; "random" turns each image anew in each epoch by an angle
    uniform within +- it. images : the first so many training images. count : how many angles, from 0.
    Under "fixed" two angles a whole turn apart are the same model, and it is trained once.
    """

    dataset: str
    reading: str
    count: int
    step: float
    network: Network
    images: int
    epochs: int
    batch: int
    lr: float
    momentum: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        choose(self.reading, ("fixed", "random"), "reading of the model set")
        if self.count < 1 or self.images < 1 or self.epochs < 1:
            raise FairFLError("A model set needs at least one model, one image and one epoch.")

    @property
    def angles(self) -> list[float]:
        """The angle of each model, in degrees; under "fixed" taken within one turn."""
        written = [i * self.step for i in range(self.count)]
        return [a % 360 for a in written] if self.reading == "fixed" else written

    @property
    def first(self) -> np.ndarray:
        """For each model the index of the first one that is the same, [m]."""
        return np.array([self.angles.index(a) for a in self.angles])

    @property
    def folder(self) -> Path:
        """Where the models are kept, a file for each angle; the name holds every other setting."""
        settings = asdict(replace(self, count=1, step=0)) | {"network": repr(self.network), "recipe": RECIPE}
        key = fingerprint(data.digest(self.dataset), sorted((k, str(v)) for k, v in settings.items()))[:16]
        return cache_folder() / "models" / f"{self.dataset}-{self.reading}-{key}"

    def train(self, workers: int = 2, quiet: bool = False) -> np.ndarray:
        """The parameters of all models, [m, P]: those in the cache, and the others trained now."""
        distinct = list(dict.fromkeys(self.angles))
        missing = [a for a in distinct if "values" not in read_arrays(self._model(a))]
        if missing:
            data.images(self.dataset)  # fetched and unpacked once, before several processes ask for it
        with each(self._train_one, missing, workers) as trained:
            bar = {"desc": self.folder.name, "unit": "model", "disable": quiet or not missing}
            list(tqdm(trained, total=len(distinct), initial=len(distinct) - len(missing), **bar))
        kept = {a: self._kept(a) for a in distinct}
        return np.stack([kept[a] for a in self.angles])

    def losses(self, angle: float, rows: slice, workers: int = 2, quiet: bool = False) -> np.ndarray:
        """Cross-entropy of every model on each test image in `rows`, turned by `angle`: [m, images]; kept likewise."""
        distinct = list(dict.fromkeys(self.angles))
        path = self.folder / f"losses-{angle:g}-{rows.start}-{rows.stop}-{fingerprint(distinct)[:8]}.npz"
        found = read_arrays(path)
        if "values" not in found:
            self.train(workers, quiet)
            parts = np.array_split(np.array(distinct), max(1, min(workers, len(distinct))))
            tasks = [(list(map(float, part)), float(angle), rows.start, rows.stop) for part in parts]
            with each(self._losses_of, tasks, workers) as done:
                found = {"values": np.concatenate(list(done))}
            write_arrays(path, **found)
        return found["values"][[distinct.index(a) for a in self.angles]]

    def _model(self, angle: float) -> Path:
        return self.folder / f"{angle:g}.npz"

    def _train_one(self, angle: float) -> None:
        images = _loaded(data.images, self.dataset, cache_folder())
        x, y = torch.as_tensor(images.x[: self.images]), torch.as_tensor(images.y[: self.images])
        if self.reading == "fixed":
            x = rotate(x, angle)
        rng = stream(self.seed, "model set order")
        local = ClientTraining(
            "sgd", self.lr, epochs=self.epochs, batch_size=self.batch, momentum=self.momentum, schedule="cosine"
        )
        theta = fit(self.network, self.network.init(stream(self.seed, "model set")), self._seen(x, angle, rng), y,
                    Pixels.of(self.dataset), local, lr=self.lr)  # fmt: skip
        write_arrays(self._model(angle), values=theta)

    def _seen(self, x: torch.Tensor, angle: float, rng: np.random.Generator) -> Iterator[tuple[torch.Tensor, np.ndarray]]:
        """The images of each epoch, turned anew under "random", and their order."""
        for _ in range(self.epochs):
            turned = rotate(x, torch.as_tensor(rng.uniform(-angle, angle, len(x)))) if self.reading == "random" and angle else x
            yield turned, rng.permutation(len(x))

    def _kept(self, angle: float) -> np.ndarray:
        return read_arrays(self._model(angle))["values"]

    def _losses_of(self, task: tuple[list[float], float, int, int]) -> np.ndarray:
        angles, turn, low, high = task
        images = _loaded(data.images, self.dataset, cache_folder())
        rows = slice(images.train + low, images.train + high)
        x, y = rotate(torch.as_tensor(images.x[rows]), turn), torch.as_tensor(images.y[rows])
        return np.stack([losses_of(self.network, self._kept(a), x, y, Pixels.of(self.dataset)) for a in angles])


_PRINTED = printed("rankff")
_MNIST = _PRINTED["models"]["mnist"], _PRINTED["degrees_apart"]["mnist"]
PAPER = {
    "mnist-fixed": ModelSet("mnist", "fixed", *_MNIST, CNN(), images=20_000, epochs=4, batch=64, lr=0.05),
    "mnist-random": ModelSet("mnist", "random", *_MNIST, CNN(), images=20_000, epochs=4, batch=64, lr=0.05),
    "cifar10-fixed": ModelSet("cifar10", "fixed", 100, 4, VGG11(1 / 8), images=6_000, epochs=3, batch=32, lr=0.02),
}
"""The sets behind the stored results. MNIST's are at the paper's scale. CIFAR-10's are not: the network is an eighth as wide as
VGG11, there are 100 of them, 4 degrees apart, and not 200, 2 degrees apart, and each sees 6,000 images three times."""

TRAININGS = {"mnist-fixed": 5, "mnist-random": 5, "cifar10-fixed": 1}
"""How often each set is trained from the beginning: the runs behind an interval."""

QUICK = replace(PAPER["mnist-fixed"], count=30, step=12, network=CNN((4, 8), 24, double=True), images=2_000, epochs=2, batch=32)
"""For a page that trains while you wait: fewer, smaller models, 12 degrees apart."""


def get(name: str, training: int = 0) -> ModelSet:
    """A set by name; another `training` starts from other weights and sees the images in another order."""
    return replace(PAPER[choose(name, PAPER, "model set named")], seed=training)


def trainings(name: str) -> list[ModelSet]:
    """A set as often as it is trained."""
    return [get(name, training) for training in range(TRAININGS[choose(name, TRAININGS, "model set named")])]
