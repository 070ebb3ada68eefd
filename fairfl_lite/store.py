"""Where things are kept, and how they get there: the project's folder, the cache, files that appear whole, digests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fairfl_lite.errors import FairFLError

if TYPE_CHECKING:
    import numpy as np

PACKAGE = Path(__file__).parent


def root() -> Path:
    """The project's folder: FAIRFL_ROOT, or the nearest above here or the package with our pyproject.toml."""
    if "FAIRFL_ROOT" in os.environ:
        named = Path(os.environ["FAIRFL_ROOT"])
        if not named.is_dir():
            raise FairFLError(f"FAIRFL_ROOT names {named}, which is not a folder: correct it or unset it.")
        return named
    here = Path.cwd()
    for folder in (here, *here.parents, *PACKAGE.parents):
        project = folder / "pyproject.toml"
        if project.is_file() and 'name = "fairfl-lite"' in project.read_text(encoding="utf-8"):
            return folder
    raise FairFLError("The project's folder was not found: run inside it, or set FAIRFL_ROOT to it.")


def cache_folder() -> Path:
    """The folder named by FAIRFL_CACHE, otherwise the platform's cache folder for this package."""
    named = os.environ.get("FAIRFL_CACHE")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("fairfl-lite")


@contextlib.contextmanager
def placed(target: Path) -> Iterator[BinaryIO]:
    """A file to write that appears at `target` in one step, so no reader ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write(target: Path, content: bytes | str) -> None:
    """Replace a file in one step."""
    with placed(target) as out:
        out.write(content.encode() if isinstance(content, str) else content)


def renew(target: Path, content: str) -> None:
    """Replace a file unless it holds this already: a builder that goes by times then leaves alone what is made of it."""
    if not target.is_file() or target.read_bytes() != content.encode():
        write(target, content)


def write_json(target: Path, content: Any) -> None:
    """Replace a JSON file in one step: sorted keys, numpy values as plain ones."""
    write(target, json.dumps(content, indent=1, sort_keys=True, default=plain) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or {} when the file is missing, cut off or something else: as if it had never been."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_arrays(target: Path, **arrays: np.ndarray) -> None:
    """Replace a file of named arrays in one step; no pickled objects."""
    import numpy as np

    with placed(target) as out:
        np.savez(out, allow_pickle=False, **arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays kept at `path` by name; none when there is no such file or it is not whole."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile):
        return {}


def sha256(path: Path) -> str:
    """sha256 of a file's bytes as 64 hexadecimal digits."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def fingerprint(*parts: Any) -> str:
    """sha256 of a JSON text of `parts`; equal parts give equal fingerprints on every machine."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """numpy scalars and arrays, tuples and paths as JSON knows them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
