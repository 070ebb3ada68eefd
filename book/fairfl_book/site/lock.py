"""The lock: exact versions of all that the book runs on, each with the sha256 of every file it may be installed from.

requirements.lock is what everybody installs. requirements-cuda.lock is what the ordinary build of torch for Linux asks
for besides; the CPU build of the same version does not. requirements-dask.lock is what sweeps on a Dask cluster need besides.
benchmarks/peers/ has a lock for each library that `fairfl bench --peers` compares with ours.
`make lock` writes all of them, by uv (https://docs.astral.sh/uv), which asks the index for the files of all platforms. No version
changes unless book/pyproject.toml, or PEERS, asks for it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from fairfl_lite import store
from fairfl_lite.errors import BuildError, FairFLError

LOCK, CUDA, DASK = "requirements.lock", "requirements-cuda.lock", "requirements-dask.lock"
HEADS = {
    LOCK: "Exact versions of everything the book runs on, and the sha256 of every file they may be installed from.",
    CUDA: "What the ordinary build of torch for Linux needs besides requirements.lock; its CPU build does not.",
    DASK: "What `fairfl paper --on dask` needs besides requirements.lock.",
}
PEERS = {"jax": ("jax[cpu]", "optax"), "flower": ("flwr==1.41.0", "ray==2.55.1"), "fedlab": ("fedlab==1.3.0",)}
"""What each library of `fairfl bench --peers` is asked for as."""
_ENTRY = re.compile(r"([a-z0-9-]+)==([^\s;]+)(?: ; (.+?))?((?: --hash=sha256:[0-9a-f]{64})+)")


@dataclass(frozen=True)
class Locked:
    """A package of the lock. marker : where it is installed, everywhere if empty. hashes : sha256 of its files, sorted."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def read(path: Path) -> list[Locked]:
    """The packages of a lock; FairFLError for a line that is anything but a name, an exact version and hashes."""
    text = re.sub(r"\s*\\\n\s*", " ", path.read_text(encoding="utf-8"))
    found = []
    for line in (line.strip() for line in text.splitlines()):
        if line and not line.startswith("#"):
            entry = _ENTRY.fullmatch(line)
            if entry is None:
                raise FairFLError(f"{path.name} has a line that is not name==version with hashes: {line[:60]!r}; run make lock.")
            name, version, marker, hashes = entry.groups()
            found.append(Locked(name, version, marker or "", tuple(sorted(re.findall(r"[0-9a-f]{64}", hashes)))))
    return found


def written(packages: Iterable[Locked], head: str) -> str:
    """The text of a lock."""
    lines = [f"# {head}", "# Made by make lock from pyproject.toml; see CONTRIBUTING.md."]
    for one in packages:
        marker = f" ; {one.marker}" if one.marker else ""
        lines.append(" \\\n    ".join([f"{one.name}=={one.version}{marker}", *(f"--hash=sha256:{hash}" for hash in one.hashes)]))
    return "\n".join(lines) + "\n"


def renew(root: Path) -> list[str]:
    """Write all locks anew for book/pyproject.toml; what changed, a line for each package.

    Hashes of a version that was locked before stay, and those of the files that pip here takes are added: it may have been set up
    to take the CPU build of torch, which the index does not have.
    """
    old = {one.name: one for name in HEADS if (root / name).is_file() for one in read(root / name)}
    new = []
    whole = _compiled(root, old.values(), "test", "dask")  # together, so that the extra asks for no other version of anything
    default = {one.name for one in _compiled(root, whole, "test")}
    for one in whole:
        before = old.get(one.name)
        kept = before.hashes if before and before.version == one.version else ()
        here = _here(f"torch=={one.version}") if one.name == "torch" else ()
        new.append(replace(one, hashes=tuple(sorted({*one.hashes, *kept, *here}))))
    for name, head in HEADS.items():
        store.renew(root / name, written([one for one in new if _home(one, default) == name], head))
    now = {one.name: one for one in new}
    changed = sorted(name for name in old.keys() | now.keys() if old.get(name) != now.get(name))
    return [f"{name}: {_said(old.get(name))} -> {_said(now.get(name))}" for name in changed]


def _home(one: Locked, default: set[str]) -> str:
    """The lock that a package stands in. default : the names of those that are installed without any extra but the tests'."""
    if one.name not in default:
        return DASK
    return CUDA if "sys_platform == 'linux'" in one.marker else LOCK


def _said(one: Locked | None) -> str:
    return f"{one.version} ({len(one.hashes)} files)" if one else "none"


def peer(root: Path, name: str) -> Path:
    """The lock of a library that ours is compared with."""
    return root / "benchmarks" / "peers" / f"{name}.lock"


def renew_peers(root: Path) -> list[str]:
    """Write the locks of PEERS anew; which of them changed. They have what the book does not, or has in another version."""
    ours = [one for name in (LOCK, CUDA) for one in read(root / name)]
    installed, changed = {(one.name, one.version) for one in ours}, []
    for name, wanted in PEERS.items():
        path = peer(root, name)
        before = read(path) if path.is_file() else []
        preferred = {one.name: one for one in (*ours, *before)}.values()
        found = _resolved(root, ["-"], preferred, "\n".join(wanted))
        own = [one for one in found if (one.name, one.version) not in installed]
        if own != before:
            store.write(path, written(own, f"What the contender {name} of `fairfl bench --peers` needs besides {LOCK}.").encode())
            changed.append(f"{path.name}: {len(own)} packages")
    return changed


def _compiled(root: Path, old: Iterable[Locked], *extras: str) -> list[Locked]:
    """What book/pyproject.toml comes to with these extras on every platform, nearest to the versions locked before."""
    return _resolved(root, ["book/pyproject.toml", *(f"--extra={extra}" for extra in extras)], old)


def _resolved(root: Path, source: list[str], old: Iterable[Locked], text: str | None = None) -> list[Locked]:
    """What uv makes of requirements on every platform. text : of its standard input, which `source` calls "-"."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise FairFLError("make lock needs uv, which is not in the lock: pipx install uv.")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / LOCK
        # Versions only: hashes that stand here already would be taken over, and not asked for.
        out.write_text("".join(f"{one.name}=={one.version}\n" for one in old), encoding="utf-8")
        command = [uv, "pip", "compile", *source, "--universal", "--python-version", oldest(root)]
        command += [
            "--generate-hashes",
            "--no-annotate",
            "--no-header",
            "--no-emit-package=fairfl-lite",
            "--quiet",
            "--output-file",
            str(out),
        ]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, input=text)
        if done.returncode:
            raise BuildError(f"The lock was not made:\n{done.stderr.strip()}")
        return read(out)


def oldest(root: Path) -> str:
    """The oldest Python that the project takes."""
    import tomllib

    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"].removeprefix(">=")


def _here(requirement: str) -> list[str]:
    """sha256 of the file that pip would install here."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet"]
    done = subprocess.run([*command, "--report=-", requirement], capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"pip would not install {requirement}:\n{done.stderr.strip()}")
    return [one["download_info"]["archive_info"]["hashes"]["sha256"] for one in json.loads(done.stdout)["install"]]


if __name__ == "__main__":
    print("\n".join(renew(store.root()) + renew_peers(store.root())) or "The locks are as they were.")
