"""FEMNIST: handwritten digits and letters by writer, read from the files that LEAF's script or TensorFlow Federated make.

The data are not on any package index, so they are not among the datasets that can be fetched: make the files as their
projects say, and name them. Pixels are as published, from 0 to 1 with a bright ground, and kept in 256 steps. Labels are 0 to
9, A to Z from 10 on, a to z from 36 on.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairfl_lite.errors import FairFLError

SIDE, CLASSES = 28, 62
PARTS = ("train", "test")


@dataclass(frozen=True, eq=False)
class Writers:
    """Images by writer. x : uint8 [n, 1, 28, 28]. y : int64 [n]. writer : int64 [n], places in `names`. test : bool [n]."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    writer: NDArray[np.int64]
    test: NDArray[np.bool_]
    names: tuple[str, ...]

    def rows(self, part: str) -> list[NDArray[np.int64]]:
        """The rows of each writer in "train" or "test"."""
        inside = np.flatnonzero(self.test == (part == "test"))
        order = inside[np.argsort(self.writer[inside], kind="stable")]
        return np.split(order, np.cumsum(np.bincount(self.writer[inside], minlength=len(self.names)))[:-1])


def leaf(folder: Path | str) -> Writers:
    """From LEAF's folder `data`, after `preprocess.sh -s niid --sf 1.0 -k 0 -t sample`: train/*.json and test/*.json."""
    found = []
    for part in PARTS:
        files = sorted((Path(folder) / part).glob("*.json"))
        if not files:
            raise FairFLError(f"There are no files {Path(folder) / part}/*.json: give the folder `data` of LEAF's preprocess.sh.")
        for file in files:
            try:
                content = json.loads(file.read_text())
                for name in content["users"]:
                    own = content["user_data"][name]
                    found.append((part, str(name), np.asarray(own["x"], np.float64), np.asarray(own["y"])))
            except (ValueError, KeyError, TypeError) as error:
                raise FairFLError(f"{file} is not a whole file of LEAF's FEMNIST ({error}): make it again.") from error
    return _gathered(found, str(folder))


def tff(file: Path | str) -> Writers:
    """From TensorFlow Federated's emnist_all.sqlite, unpacked from its .lzma."""
    if not Path(file).is_file():
        raise FairFLError(f"There is no file {file}: unpack emnist_all.sqlite.lzma, and name what comes out.")
    found = []
    try:
        with closing(sqlite3.connect(f"file:{Path(file).resolve()}?mode=ro", uri=True)) as base:
            asked = "SELECT split_name, client_id, serialized_example_proto FROM examples ORDER BY client_id, split_name, rowid"
            for part, name, packed in base.execute(asked):
                values = dict(_features(packed))
                found.append((part, str(name), np.asarray(values["pixels"])[None], np.asarray(values["label"])))
    except (sqlite3.Error, KeyError, IndexError, struct.error) as error:
        raise FairFLError(f"{file} is not a whole file of TensorFlow Federated's EMNIST ({error}): get it again.") from error
    return _gathered(found, str(file))


def _gathered(found: list[tuple[str, str, np.ndarray, np.ndarray]], where: str) -> Writers:
    names = tuple(sorted({name for _, name, _, _ in found}))
    place = {name: i for i, name in enumerate(names)}
    x, y, writer, test = [], [], [], []
    for part, name, pixels, labels in found:
        if part not in PARTS or labels.ndim != 1 or pixels.shape != (len(labels), SIDE * SIDE):
            raise FairFLError(f"In {where}, {part} of writer {name} has pixels {pixels.shape} for labels {labels.shape}: they "
                              f"must be [images, {SIDE * SIDE}] and [images], of train or test.")  # fmt: skip
        if len(labels) and not (0 <= pixels.min() <= pixels.max() <= 1 and 0 <= labels.min() <= labels.max() < CLASSES):
            raise FairFLError(f"In {where}, writer {name} has pixels outside 0 to 1 or labels outside 0 to {CLASSES - 1}.")
        x.append(np.rint(255 * pixels).astype(np.uint8).reshape(-1, 1, SIDE, SIDE))
        y.append(labels.astype(np.int64))
        writer.append(np.full(len(labels), place[name]))
        test.append(np.full(len(labels), part == "test"))
    if not names:
        raise FairFLError(f"There are no writers in {where}.")
    return Writers(np.concatenate(x), np.concatenate(y), np.concatenate(writer), np.concatenate(test), names)


def _fields(packed: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a protocol buffer: numbers, and whole numbers or what is packed inside."""
    at = 0
    while at < len(packed):
        key, at = _number(packed, at)
        if key & 7 == 2:
            size, at = _number(packed, at)
            yield key >> 3, packed[at : at + size]
            at += size
        elif key & 7 == 0:
            value, at = _number(packed, at)
            yield key >> 3, value
        else:  # 5, a float of its own
            yield key >> 3, packed[at : at + 4]
            at += 4


def _number(packed: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = packed[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _features(packed: bytes) -> Iterator[tuple[str, list[float] | list[int]]]:
    """Names and values of a serialized tf.train.Example: Example.features (1), a map (1) from names (1) to features (2), each a
    list of floats (2) or whole numbers (3), packed or one by one (1)."""
    for _, features in _fields(packed):
        for _, entry in _fields(_bytes(features)):
            pair = dict(_fields(_bytes(entry)))
            for kind, values in _fields(_bytes(pair[2])):
                found: list[float] = []
                for _, part in _fields(_bytes(values)):
                    if kind == 2:
                        found += struct.unpack(f"<{len(_bytes(part)) // 4}f", _bytes(part))
                    elif isinstance(part, int):
                        found.append(part)
                    else:
                        at = 0
                        while at < len(part):
                            value, at = _number(part, at)
                            found.append(value)
                yield _bytes(pair[1]).decode(), found


def _bytes(part: bytes | int) -> bytes:
    if isinstance(part, int):
        raise KeyError("a number where a message was due")
    return part
