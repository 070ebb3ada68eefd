"""A set of labelled images in memory, and the copy of its arrays that makes the next load fast."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairfl_lite.data.sources import Dataset, raw_digest
from fairfl_lite.errors import FairFLError, StorageError
from fairfl_lite.store import BROKEN, cache_folder, fingerprint, read_arrays, write_arrays

LAYOUT = 2
"""To be raised when a loader gives other arrays from the same files: the copies made before are then left alone."""
PIXELS = {"mnist": ((0.0,), (1.0,)), "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))}
"""What is taken off each channel, and what it is divided by, after pixels were brought to 0..1; by dataset."""


@dataclass(frozen=True, eq=False)
class Images:
    """The images of one dataset, upright, training images first.

    Parameters
    ----------
    name : str
        What messages call the dataset.
    x : ndarray of uint8, shape (n, channels, side, side)
        Pixels from 0, black, to 255; the channels are red, green and blue, or there is one.
    y : ndarray of int64, shape (n,)
        Classes from 0.
    train : int
        How many rows, from the first on, are for training; the rest are for testing.
    digest : str
        sha256 over the sha256s of the raw files.

    Attributes
    ----------
    classes : int
        How many classes there are.
    shape : tuple of int
        Channels, side and side of one image.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import Images
    >>> Images("squares", np.zeros((10, 1, 8, 8), np.uint8), np.arange(10) % 2, train=8, digest="")
    Images('squares', 8 training and 2 test images, 1x8x8)
    """

    name: str
    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    train: int
    digest: str

    def __post_init__(self) -> None:
        square = self.x.ndim == 4 and self.x.shape[2] == self.x.shape[3]
        if not square or self.x.dtype != np.uint8 or self.y.dtype != np.int64 or self.y.shape != (len(self.x),):
            raise FairFLError(f"Dataset {self.name!r}: x is not uint8 [rows, channels, side, side] with y int64 [rows].")
        if not 0 < self.train <= len(self.x) or self.y.min() < 0:
            raise FairFLError(f"Dataset {self.name!r}: there are no {self.train} training rows, or a label is negative.")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        test = len(self) - self.train
        return f"Images({self.name!r}, {self.train:,} training and {test:,} test images, {'x'.join(map(str, self.shape))})"

    @property
    def classes(self) -> int:
        """How many classes there are; labels are 0..classes-1."""
        return int(self.y.max()) + 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, side, side) of one image."""
        channels, height, width = self.x.shape[1:]
        return channels, height, width


def parsed(dataset: Dataset, paths: Mapping[str, Path]) -> Images:
    """The images of the raw files at `paths`, from the copy in the cache folder when there is a sound one.

    The copy is keyed on the sha256s of the raw files and holds no pickled objects. One that cannot be read is
    replaced; where none can be written, it is done without.
    """
    digest = raw_digest(dataset)
    copy = cache_folder() / dataset.name / f"{fingerprint(digest, LAYOUT)[:16]}.npz"
    found = _kept(dataset, digest, copy)
    if found is not None:
        return found
    assert dataset.pixels is not None  # the registry has asked
    x, y, train = dataset.pixels(paths)
    made = Images(dataset.name, x, y, train, digest)
    with contextlib.suppress(StorageError):
        write_arrays(copy, x=x, y=y, train=np.array(train))
    return made


def _kept(dataset: Dataset, digest: str, copy: Path) -> Images | None:
    """The images of a copy, or None when it is not there, not whole, or not what was put into it."""
    kept = read_arrays(copy, sealed=True)
    try:
        return Images(dataset.name, kept["x"], kept["y"], int(kept["train"]), digest)
    except BROKEN:
        return None
