"""Fair federated learning, method by method: the package behind the book."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """The names to start from, and the module that each is in, as the stub beside this file lists them."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {alias.name: str(node.module) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}


# A name is imported when somebody first asks for it, since torch takes seconds; the stub tells type checkers what it is.
_HOMES = _homes()
# SecAgg needs the extra "secure", and `from fairfl_lite import *` has to work without it.
__all__ = sorted({*_HOMES} - {"SecAgg"})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    return import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
