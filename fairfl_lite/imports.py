"""What a module is made of: its own code and that of every module of the package that it imports, as one digest."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path

from fairfl_lite import store
from fairfl_lite.errors import FairFLError

_TOP = __name__.partition(".")[0]
# What runs is what was loaded, so a file that is edited while a long run goes on counts as it was when the run began.
_LOADED = {file: file.read_bytes() for file in store.PACKAGE.rglob("*.py")}


def digest(module: str) -> str:
    """sha256 over the code of a module and of all of the package that it imports, directly or through others.

    Comments, layout and docstrings do not count. Imports are read from the source, also inside functions; one that is
    made from a text at run time is not seen.
    """
    whole = hashlib.sha256()
    for name, file in sorted(modules(module).items()):
        whole.update(f"{name} {_read(file)[0]}\n".encode())
    return whole.hexdigest()


def modules(module: str) -> dict[str, Path]:
    """A module and the modules of the package that it imports, directly or through others, with their files.

    The __init__.py of a package counts when something outside imports the package or anything in it. For a module inside,
    it is only the list of its neighbours, and counts when it is named itself; that of the whole package never does.
    """
    found = {module: _file(module) or _outside(module)}
    waiting = [module]
    while waiting:
        importer = waiting.pop()
        for name in _needed(importer, found[importer]):
            file = _file(name)
            if file is not None and name not in found:
                found[name] = file
                waiting.append(name)
    return found


def _needed(importer: str, file: Path) -> Iterator[str]:
    """The modules that one imports itself, and their packages that it is not in."""
    package = importer if file.name == "__init__.py" else importer.rpartition(".")[0]
    for base, name in _read(file)[1]:
        base = resolve_name(base, package)
        target = f"{base}.{name}" if name and _file(f"{base}.{name}") else base
        yield target
        while target := target.rpartition(".")[0]:
            if not f"{importer}.".startswith(f"{target}."):
                yield target


def _file(module: str) -> Path | None:
    """Where a module of the package is; None for the package itself and for what is no module of it."""
    top, *parts = module.split(".")
    if top != _TOP or not parts:
        return None
    place = store.PACKAGE.joinpath(*parts)
    return next((file for file in (place.with_name(f"{place.name}.py"), place / "__init__.py") if file.is_file()), None)


def _outside(module: str) -> Path:
    """The file of a module that is not of the package, e.g. of a test."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise FairFLError(f"What {module} measures cannot be kept, since it is no file: write it into a module.")
    return Path(file)


def _read(file: Path) -> tuple[str, tuple[tuple[str, str], ...]]:
    return _understood(_LOADED[file] if file in _LOADED else file.read_bytes())


@lru_cache(maxsize=1024)
def _understood(source: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
    """sha256 of the code in a file, and its imports as (module, name) with "" for a whole module."""
    tree = ast.parse(source)
    imports: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(imports)


def _is_text(line: ast.stmt) -> bool:
    """A docstring, of a function or below a constant: a text that stands alone and does nothing."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
