"""What a module is made of: its own code and that of every module of ours that it imports, as one digest."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from fairfl_lite import store
from fairfl_lite.errors import FairFLError

# What runs is what was loaded, so a file that is edited while a long run goes on counts as it was when the run began.
_FOLDERS: dict[str, Path] = {}
_LOADED: dict[Path, bytes] = {}
FINDS = "DISCOVERS"
"""The constant by which a module names a package of ours whose modules it imports as it finds them."""


def also(package: str, folder: Path) -> None:
    """Have the modules of a package, which are in this folder, count as ours."""
    _FOLDERS[package] = folder
    _LOADED.update({file: file.read_bytes() for file in folder.rglob("*.py")})


also(__name__.partition(".")[0], store.PACKAGE)


def beside(folder: Path) -> None:
    """Have the packages in a folder count too, as they are on the disk whenever they are asked about: a project's own."""
    loaded = {file.parent for file in _LOADED}
    for init in folder.glob("*/__init__.py"):
        if _FOLDERS.get(init.parent.name) not in loaded:
            _FOLDERS[init.parent.name] = init.parent


def ours(module: str) -> bool:
    """Whether a module is of one of the packages that count."""
    return module.partition(".")[0] in _FOLDERS


def digest(module: str) -> str:
    """sha256 over the code of a module and of all of ours that it imports, directly or through others.

    Comments, layout and docstrings do not count. Imports are read from the source, also inside functions; one that is
    made from a text at run time is not seen.
    """
    whole = hashlib.sha256()
    for name, code in sorted(codes(modules(module)).items()):
        whole.update(f"{name} {code}\n".encode())
    return whole.hexdigest()


def codes(found: Mapping[str, Path]) -> dict[str, str]:
    """sha256 of the code of each of these modules, by name."""
    return {name: _read(file)[0] for name, file in found.items()}


def whole(package: str) -> str:
    """sha256 over the code of all modules of one of our packages; comments, layout and docstrings do not count."""
    found = {file.relative_to(_FOLDERS[package]).as_posix(): _read(file)[0] for file in sorted(_FOLDERS[package].rglob("*.py"))}
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


def modules(module: str) -> dict[str, Path]:
    """A module and the modules of ours that it imports, directly or through others, with their files.

    The __init__.py of a package counts when something outside imports the package or anything in it. For a module inside,
    it is only the list of its neighbours, and counts when it is named itself; that of a whole package never does.
    """
    file = _file(module) or _outside(module)
    return {module: file} | _reached(_needed(module, file))


def modules_of(source: str) -> dict[str, Path]:
    """The modules of ours that a text of Python imports, such as the code of a notebook, directly or through others."""
    return _reached(_targets("", "", _understood(source.encode())[1]))


def _reached(names: Iterable[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        file = _file(name)
        if file is not None and name not in found:
            found[name] = file
            waiting += _needed(name, file)
    return found


def _needed(importer: str, file: Path) -> Iterator[str]:
    """The modules that one imports itself, and their packages that it is not in."""
    package = importer if file.name == "__init__.py" else importer.rpartition(".")[0]
    return _targets(importer, package, _read(file)[1])


def _targets(importer: str, package: str, imports: Iterable[tuple[str, str]]) -> Iterator[str]:
    for base, name in imports:
        if base == FINDS:
            yield from _within(name)
            continue
        base = resolve_name(base, package) if package else base
        target = f"{base}.{name}"
        if not name or not _file(target):
            target = _named_at_the_top(base).get(name, base)
        yield target
        while target := target.rpartition(".")[0]:
            if not f"{importer}.".startswith(f"{target}."):
                yield target


def _within(package: str) -> Iterator[str]:
    """All modules of one of our packages, or of a package inside one; of papers.*.looks, the module looks of every paper."""
    top, *parts = package.split(".")
    inside = f"{'/'.join(parts)}.py" if "*" in parts else "/".join((*(parts or "*"), "**/*.py"))
    for file in sorted(_FOLDERS[top].glob(inside)):
        yield ".".join((top, *file.relative_to(_FOLDERS[top]).with_suffix("").parts)).removesuffix(".__init__")


def _named_at_the_top(package: str) -> dict[str, str]:
    """The names that a package imports when they are asked for, and the modules they are in, by its __init__.pyi."""
    stub = _FOLDERS[package] / "__init__.pyi" if package in _FOLDERS else None
    if stub is None or not stub.is_file():
        return {}
    return {name: base for base, name in _understood(stub.read_bytes())[1]}


def _file(module: str) -> Path | None:
    """Where a module of ours is; None for a whole package and for what is no module of ours."""
    top, *parts = module.split(".")
    if top not in _FOLDERS or not parts:
        return None
    place = _FOLDERS[top].joinpath(*parts)
    return next((file for file in (place.with_name(f"{place.name}.py"), place / "__init__.py") if file.is_file()), None)


def _outside(module: str) -> Path:
    """The file of a module that is not ours, e.g. of a test."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise FairFLError(f"What {module} measures cannot be kept, since it is no file: write it into a module.")
    return Path(file)


def _read(file: Path) -> tuple[str, tuple[tuple[str, str], ...]]:
    return _understood(_LOADED[file] if file in _LOADED else file.read_bytes())


@lru_cache(maxsize=1024)
def _understood(source: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
    """sha256 of the code in a file, and its imports as (module, name) with "" for a whole module; a package whose modules it
    finds as (FINDS, package)."""
    tree: Any = compile(source, "", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    imports: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == FINDS:
            imports.append((FINDS, ast.literal_eval(node.value)))
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(imports)


def _is_text(line: ast.stmt) -> bool:
    """A docstring, of a function or below a constant: a text that stands alone and does nothing."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
