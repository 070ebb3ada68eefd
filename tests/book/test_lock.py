"""The lock: whole, with hashes, and installed by them: from wheels made here, without any network."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import venv
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from small import ROOT

from fairfl_book.site import lock
from fairfl_book.site.lock import CUDA, DASK, LOCK, Locked
from fairfl_lite.errors import FairFLError

HASHES = tuple(sorted(hashlib.sha256(text).hexdigest() for text in (b"one", b"two", b"three")))
MISMATCH = "DO NOT MATCH THE HASHES"


@pytest.mark.parametrize("name", [LOCK, CUDA, DASK])
def test_every_package_is_there_once_with_the_hashes_of_its_files(name):
    text = (ROOT / name).read_text()
    packages = lock.read(ROOT / name)
    assert [one.name for one in packages] == sorted({one.name for one in packages})
    assert len(packages) == sum(line[0].isalnum() for line in text.splitlines())
    assert sum(len(one.hashes) for one in packages) == text.count("--hash=sha256:")
    assert all(len(set(one.hashes)) == len(one.hashes) >= 1 for one in packages)
    assert lock.written(packages, lock.HEADS[name]) == text, "nothing was changed by hand"


def test_what_installed_packages_ask_for_is_locked():
    """By the metadata of what is installed here: with --no-deps, nothing else would bring it. An ordinary build of torch asks for
    CUDA, which has a lock of its own."""
    locked, cuda = ({one.name: one for one in lock.read(ROOT / name) if not one.marker or Marker(one.marker).evaluate()}
                    for name in (LOCK, CUDA))  # fmt: skip
    if any(canonicalize_name(Requirement(text).name) in cuda for text in metadata.requires("torch") or []):
        locked |= cuda
    for name in locked:
        for requirement in map(Requirement, metadata.requires(name) or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed = canonicalize_name(requirement.name)
                assert needed in locked, f"{name} asks for {needed}"
                assert requirement.specifier.contains(locked[needed].version, prereleases=True), f"{name} asks for {requirement}"


@pytest.mark.parametrize("line", ["six==1.17.0", "six>=1 --hash=sha256:" + HASHES[0], "six==1.17.0 --hash=sha256:12", "-e ."])
def test_a_line_without_an_exact_version_and_hashes_is_refused(tmp_path, line):
    (tmp_path / LOCK).write_text(f"# a lock\n{line}\n")
    with pytest.raises(FairFLError, match="run make lock"):
        lock.read(tmp_path / LOCK)


def test_renewed_locks_keep_the_hashes_of_a_version_and_set_cuda_and_dask_apart(tmp_path, monkeypatch):
    one, two, three = HASHES
    before = [Locked("gone", "1", "", (one,)), Locked("six", "1", "", (one,)), Locked("torch", "2", "", (one,))]
    (tmp_path / LOCK).write_text(lock.written(before, "before"))
    found = [
        Locked("dask", "1", "", (two,)),
        Locked("six", "2", "", (two,)),
        Locked("torch", "2", "", (two,)),
        Locked("triton", "3", "sys_platform == 'linux'", (two,)),
    ]
    monkeypatch.setattr(lock, "_compiled", lambda root, old, *extras: found if "dask" in extras else found[1:])
    monkeypatch.setattr(lock, "_here", lambda requirement: [three])
    assert lock.renew(tmp_path) == [
        "dask: none -> 1 (1 files)",
        "gone: 1 (1 files) -> none",
        "six: 1 (1 files) -> 2 (1 files)",
        "torch: 2 (1 files) -> 2 (3 files)",
        "triton: none -> 3 (1 files)",
    ]
    assert lock.read(tmp_path / LOCK) == [found[1], Locked("torch", "2", "", HASHES)]
    assert lock.read(tmp_path / CUDA) == [found[3]]
    assert lock.read(tmp_path / DASK) == [found[0]]
    assert lock.renew(tmp_path) == []


def wheel(folder: Path, name: str, *requires: str) -> Locked:
    """A wheel of a package with nothing but a name, as it would stand in a lock."""
    path = folder / f"{name}-1-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n" + "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {"METADATA": about, "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(f"{name}-1.dist-info/{file}", text)
        names = "".join(f"{file},,\n" for file in archive.namelist())
        archive.writestr(f"{name}-1.dist-info/RECORD", f"{names}{name}-1.dist-info/RECORD,,\n")
    return Locked(name.replace("_", "-"), "1", "", (hashlib.sha256(path.read_bytes()).hexdigest(),))


BACKEND = """
import shutil
def build_editable(folder, settings=None, metadata=None):
    return shutil.copy("little-1-py3-none-any.whl", folder).rpartition("/")[2]
"""


@pytest.fixture(scope="module")
def little(tmp_path_factory) -> Path:
    """A project with our Makefile, two locks, and wheels in which torch asks for a library as its ordinary build does."""
    folder = tmp_path_factory.mktemp("little") / "project"
    venv.create(folder / ".venv", with_pip=True)
    (folder / "wheels").mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "book").mkdir()
    for place, name in ((folder, "little"), (folder / "book", "little_book")):
        wheel(place, name, "torch")
        (place / "backend.py").write_text(BACKEND.replace("little-1", f"{name}-1"))
        (place / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n')
    wheels = folder / "wheels"
    (folder / LOCK).write_text(lock.written([wheel(wheels, "plain"), wheel(wheels, "torch", "nvidia_little")], ""))
    (folder / CUDA).write_text(lock.written([wheel(wheels, "nvidia_little")], ""))
    (folder / DASK).write_text(lock.written([wheel(wheels, "cluster", "plain")], ""))
    return folder


@pytest.fixture
def project(little, tmp_path) -> Path:
    return shutil.copytree(little, tmp_path / "project", symlinks=True)


def install(folder: Path, target: str = "install") -> subprocess.CompletedProcess:
    """`make install`, or another target, from the folder of wheels, in a namespace without network where that is permitted."""
    alone = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode:
        alone = []
    settings = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    settings |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels"), "PIP_CONFIG_FILE": os.devnull}
    command = [*alone, "make", target, "PYTHON=true"]  # the environment is there, and nothing in it
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)


@pytest.mark.slow
def test_the_locks_are_installed_from_a_folder_of_wheels_without_network(project):
    done = install(project)
    assert done.returncode == 0, done.stderr
    assert "libraries of CUDA" in done.stdout
    installed = {path.name.partition("-")[0] for path in (project / ".venv").rglob("*-1.dist-info")}
    assert installed == {"plain", "torch", "nvidia_little", "little", "little_book"}


@pytest.mark.slow
def test_the_extra_is_installed_for_the_tests_beside_the_environment(project):
    assert ".venv/dask/.installed" in (targets := rule(project / "Makefile", "test")), targets
    assert ".venv/dask/.installed" not in rule(project / "Makefile", "book")
    done = install(project, ".venv/dask/.installed")
    assert done.returncode == 0, done.stderr
    (there,) = (project / ".venv").rglob("cluster-1.dist-info")
    assert there.parent == project / ".venv" / "dask"
    assert not [*there.parent.glob("plain*")], "what it asks for is in the environment"


def rule(makefile: Path, target: str) -> str:
    """What a target of the Makefile is made from."""
    said = subprocess.run(
        ["make", "-pnq", "-f", makefile.name, target], cwd=makefile.parent, capture_output=True, text=True
    ).stdout
    return next(line for line in said.splitlines() if line.startswith(f"{target}:"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [(LOCK, "plain"), (LOCK, "torch"), (CUDA, "nvidia-little"), (DASK, "cluster")])
def test_a_changed_hash_is_refused(project, name, package):
    packages = [replace(one, hashes=HASHES[:1]) if one.name == package else one for one in lock.read(project / name)]
    assert packages != lock.read(project / name)
    (project / name).write_text(lock.written(packages, ""))
    stamp = ".venv/dask/.installed" if name == DASK else ".venv/.installed"
    done = install(project, stamp)
    assert done.returncode and MISMATCH in done.stderr, done.stderr
    assert not (project / stamp).exists()


@pytest.mark.slow
def test_a_build_of_torch_that_needs_nothing_more_gets_nothing_more(project):
    (project / LOCK).write_text(lock.written([wheel(project / "wheels", "torch")], ""))
    done = install(project)
    assert done.returncode == 0, done.stderr
    assert "CUDA" not in done.stdout
    assert not list((project / ".venv").rglob("nvidia_little*"))
