"""Where things are kept, and how they get there: the project's folder, the cache, files that appear whole, digests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fairfl_lite.errors import FairFLError, refused

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

PACKAGE = Path(__file__).parent
PART = ".part"
"""How the name of a file ends that is being written; it begins with a dot."""
DIGEST = "sha256"
BROKEN = (
    OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, MemoryError, RuntimeError, SyntaxError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy raises on a file that is missing, cut short, changed, pickled, encrypted, or no archive at all."""


def root() -> Path:
    """The project's folder: FAIRFL_ROOT, or the nearest above here or the package with our pyproject.toml."""
    if "FAIRFL_ROOT" in os.environ:
        named = Path(os.environ["FAIRFL_ROOT"])
        if not named.is_dir():
            raise FairFLError(f"FAIRFL_ROOT names {named}, which is not a folder: correct it or unset it.")
        return named.resolve()
    here = Path.cwd()
    for folder in (here, *here.parents, *PACKAGE.parents):
        project = folder / "pyproject.toml"
        if project.is_file() and 'name = "fairfl-lite"' in project.read_text(encoding="utf-8"):
            return folder
    raise FairFLError("The project's folder was not found: run inside it, or set FAIRFL_ROOT to it.")


def cache_folder() -> Path:
    """The folder named by FAIRFL_CACHE, otherwise the platform's cache folder for this package.

    One that everybody can write to is refused; one that some can is theirs to share, as all that is read from it is held to
    digests. Compiled code, which is run, has a folder of its own (engines/compiled.py).
    """
    named = os.environ.get("FAIRFL_CACHE", "").strip()
    if named:
        try:
            folder = Path(named).expanduser()
        except RuntimeError as error:
            raise FairFLError(f"FAIRFL_CACHE names {named}, where ~ is nobody's: correct it or unset it.") from error
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("fairfl-lite")
    if _writable_by_all(folder):
        raise FairFLError(
            f"Everybody can write to {folder}, and compiled code in it is run: take that right away (chmod o-w), or name"
            " another folder by FAIRFL_CACHE."
        )
    return folder


def _writable_by_all(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    # In a folder with the sticky bit, as that for temporary files, nobody can replace what is somebody else's.
    return os.name == "posix" and bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


@contextlib.contextmanager
def placed(target: Path, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write that appears at `target` in one step, so no reader ever sees half of it; readable by all unless private.

    StorageError when the disk is full or refuses. The first write into a folder removes what a killed process left there.
    """
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        out = None
        while out is None:
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=PART)
            out = _ours(os.fdopen(handle, "wb"))
        with out:
            yield out
            out.flush()
            Path(temporary).chmod(0o600 if private else 0o644)
            if os.name == "nt":  # where an open file cannot be moved, and nothing is swept
                out.close()
            Path(temporary).replace(target)
    except BaseException as error:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise refused(error, target) from error
        raise


_SWEPT: set[Path] = set()


def _sweep(folder: Path) -> None:
    """Remove the files that killed processes were writing into a folder, once in the life of this one.

    Whoever writes holds a lock until the file has its name, or its process ends. No clock is asked.
    """
    if folder in _SWEPT:
        return
    _SWEPT.add(folder)
    for left in folder.glob(f".*{PART}"):
        with contextlib.suppress(OSError), left.open("rb") as there:
            _lock(there)
            left.unlink()


def _ours(out: BinaryIO) -> BinaryIO | None:
    """A new file, locked; None when another process swept it away before it had its lock."""
    try:
        _lock(out)
        there = os.fstat(out.fileno()).st_nlink > 0
    except BlockingIOError:
        there = False
    except OSError:  # no locks here, so nobody sweeps
        there = True
    if not there:
        out.close()
    return out if there else None


def _lock(file: BinaryIO) -> None:
    """Lock a file for as long as it is open; OSError when another process has it. Where there are no locks, nothing is swept."""
    try:
        import fcntl
    except ImportError:
        raise OSError("no locks") from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write(target: Path, content: bytes | str, private: bool = False) -> None:
    """Replace a file in one step; only its owner can read a private one."""
    with placed(target, private) as out:
        out.write(content.encode() if isinstance(content, str) else content)


def renew(target: Path, content: str) -> None:
    """Replace a file unless it holds this already: a builder that goes by times then leaves alone what is made of it."""
    if not target.is_file() or target.read_bytes() != content.encode():
        write(target, content)


def write_json(target: Path, content: Any) -> None:
    """Replace a JSON file in one step: sorted keys, numpy values as plain ones."""
    write(target, json.dumps(content, indent=1, sort_keys=True, default=plain) + "\n")


def keep(target: Path, content: Mapping[str, Any]) -> None:
    """Keep a JSON object for `kept`, with a digest of what it holds."""
    known = json.loads(json.dumps(content, default=plain))
    write_json(target, {**known, DIGEST: fingerprint(known)})


def kept(path: Path) -> dict[str, Any]:
    """The JSON object that `keep` left; {} when the file is missing, cut off, changed or another: as if it had never been."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        stated = found.pop(DIGEST)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return found if isinstance(found, dict) and fingerprint(found) == stated else {}


def keep_text(target: Path, text: str) -> None:
    """Keep a text for `kept_text`; its last line is a digest of the others."""
    write(target, f"{text}{DIGEST} {hashlib.sha256(text.encode()).hexdigest()}\n")


def kept_text(path: Path) -> str:
    """The text that `keep_text` left, or "" when the file is missing, cut off or changed."""
    try:
        text, _, stated = path.read_bytes().decode().rpartition(f"{DIGEST} ")
    except (OSError, UnicodeDecodeError):
        return ""
    return text if stated == f"{hashlib.sha256(text.encode()).hexdigest()}\n" else ""


def write_arrays(target: Path, **arrays: np.ndarray) -> None:
    """Replace a file of named arrays in one step, with a digest of what it holds; no pickled objects."""
    import numpy as np

    with placed(target) as out:
        np.savez(out, allow_pickle=False, **arrays, **{DIGEST: np.array(_digest(arrays))})


def read_arrays(path: Path, sealed: bool = False) -> dict[str, np.ndarray]:
    """The arrays kept at `path` by name; none when there is no such file, it is not whole, or it holds others than were kept.

    sealed : whether a file without a digest is refused too. Models that took hours, before there were digests, are taken.
    """
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
        stated = found.pop(DIGEST, None)
        if stated is None:
            return {} if sealed else found
        return found if str(stated) == _digest(found) else {}
    except BROKEN:
        return {}


def read_csv(path: Path, **options: Any) -> pd.DataFrame:
    """The table in a file, by pandas; FairFLError when there is none in it."""
    import pandas as pd

    try:
        return pd.read_csv(path, **options)
    except (ValueError, OSError, EOFError, zlib.error) as error:  # ill-formed, empty or not text, among the first
        said = " ".join(str(error).split())[:120]
        raise FairFLError(f"The file {path} is not a table that can be read ({said}): replace it.") from error


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """sha256 over the names, kinds, shapes and bytes of arrays."""
    import numpy as np

    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        whole.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        whole.update(np.ascontiguousarray(array).data if array.size else b"")
    return whole.hexdigest()


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
