"""FEMNIST's two formats, in small files written as their projects write them."""

from __future__ import annotations

import json
import sqlite3
import struct

import numpy as np
import pytest

from fairfl_lite.data import femnist
from fairfl_lite.errors import FairFLError
from papers.e2fl import federations


def written(seed=0):
    """{part: {writer: (pixels [n, 784], labels [n])}}"""
    rng = np.random.default_rng(seed)
    sizes = {"train": {"f0001_41": 3, "f0000_14": 5}, "test": {"f0001_41": 2, "f0000_14": 1}}
    return {part: {name: (rng.integers(0, 256, (n, 784)) / 255, rng.integers(0, 62, n)) for name, n in own.items()}
            for part, own in sizes.items()}  # fmt: skip


def as_leaf(folder, content):
    for part, own in content.items():
        (folder / part).mkdir(parents=True)
        for i, (name, (x, y)) in enumerate(own.items()):  # several files, as LEAF makes them
            data = {"users": [name], "num_samples": [len(y)], "user_data": {name: {"x": x.tolist(), "y": y.tolist()}}}
            (folder / part / f"all_data_{i}_niid_0_keep_0_{part}_9.json").write_text(json.dumps(data))


def number(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(tag, payload):
    return number(tag << 3 | 2) + number(len(payload)) + payload


def example(pixels, label, packed=True):
    values = struct.pack("<784f", *pixels)
    floats = field(1, values) if packed else b"".join(b"\x0d" + values[4 * i : 4 * i + 4] for i in range(784))
    ints = field(1, number(label)) if packed else b"\x08" + number(label)
    features = {"label": field(3, ints), "pixels": field(2, floats)}
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in features.items()))


def as_tff(file, content, packed=True):
    base = sqlite3.connect(file)
    base.execute(
        "CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, serialized_example_proto BLOB NOT NULL)"
    )
    for part, own in content.items():
        for name, (x, y) in own.items():
            for pixels, label in zip(x, y, strict=True):
                base.execute("INSERT INTO examples VALUES (?, ?, ?)", (part, name, example(pixels, int(label), packed)))
    base.commit()
    base.close()


@pytest.mark.parametrize("kind", ["leaf", "tff", "tff, not packed"])
def test_what_was_written_is_read(tmp_path, kind):
    content = written()
    if kind == "leaf":
        as_leaf(tmp_path, content)
        found = femnist.leaf(tmp_path)
    else:
        as_tff(tmp_path / "emnist_all.sqlite", content, "not" not in kind)
        found = femnist.tff(tmp_path / "emnist_all.sqlite")
    assert found.names == ("f0000_14", "f0001_41")
    for part, own in content.items():
        for name, rows in zip(found.names, found.rows(part), strict=True):
            assert (found.x[rows].reshape(-1, 784) == np.rint(255 * own[name][0])).all()
            assert (found.y[rows] == own[name][1]).all()


def test_writers_become_clients(tmp_path):
    as_leaf(tmp_path, written())
    fed = federations.femnist(femnist.leaf(tmp_path), (0, 1), model=None, participants=1)
    assert fed.shards["train"].sizes.tolist() == [[5, 3]] * 2 and fed.shards["test"].sizes.tolist() == [[1, 2]] * 2
    assert fed.model.size == 1_632_288 and fed.model.classes == 62 and fed.local.batch_size == 10


def test_what_is_not_whole_is_said(tmp_path):
    with pytest.raises(FairFLError, match="no files"):
        femnist.leaf(tmp_path)
    with pytest.raises(FairFLError, match="no file"):
        femnist.tff(tmp_path / "none.sqlite")
    (tmp_path / "broken.sqlite").write_bytes(b"not a database, but long enough to be looked at" * 40)
    with pytest.raises(FairFLError, match="not a whole file"):
        femnist.tff(tmp_path / "broken.sqlite")
    content = written()
    as_leaf(tmp_path, content)
    file = sorted((tmp_path / "train").glob("*.json"))[0]
    whole = file.read_text()
    file.write_text(whole[:100])
    with pytest.raises(FairFLError, match="not a whole file"):
        femnist.leaf(tmp_path)
    file.write_text(whole.replace('"y": [', '"y": [77, '))
    with pytest.raises(FairFLError, match="must be"):
        femnist.leaf(tmp_path)
    x, y = content["train"]["f0001_41"]
    bad = json.loads(whole)
    bad["user_data"]["f0001_41"]["y"] = [62] * len(y)
    file.write_text(json.dumps(bad))
    with pytest.raises(FairFLError, match="outside"):
        femnist.leaf(tmp_path)
