"""Every public name says what it takes and gives, shows an example that runs, and is on a page of the reference."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import pytest
from small import ROOT

import fairfl_lite
from fairfl_lite import data, metrics, models, rankings

CLASSES = (
    "Attack", "ClientTraining", "Debias", "Federation", "Histories", "History", "Method", "OneFederation", "Partition", "SecAgg",
    "Table",
)  # fmt: skip
"""Classes whose methods are for the reader; what is said of the others is in the docstring of the class."""
INSIDE = {
    "Federation": {"together", "sums_are_plain", "added", "checked", "answer", "drawn", "contents", "after_losing"},
    "SecAgg": {"require", "ids", "by_client", "keys", "members"},
}
"""Methods that other modules of the library call and no reader does: they have short docstrings and no examples."""
VALUES = {"fairfl_lite.Answer", "fairfl_lite.rankings.CLOSED"}
"""Public names that are no function and no class: a page describes them in its own words."""


def tops() -> dict[str, Any]:
    """The public functions and classes."""
    found = {f"fairfl_lite.{name}": getattr(fairfl_lite, name) for name in fairfl_lite._HOMES}
    found |= {f"fairfl_lite.metrics.{name}": value for name, value in vars(metrics).items()
              if inspect.isfunction(value) and value.__module__ == metrics.__name__ and name[0] != "_"}  # fmt: skip
    found |= {f"fairfl_lite.rankings.{name}": getattr(rankings, name) for name in rankings.__all__}
    found["fairfl_lite.models.Model"] = models.Model
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType) and name not in VALUES}


def members(name: str) -> dict[str, Any]:
    """The public methods and properties that a class has of its own."""
    top = name.rpartition(".")[2]
    if top not in (*CLASSES, "Model"):
        return {}
    kinds = (property, cached_property, classmethod, staticmethod)
    return {f"{name}.{own}": value for own, value in vars(tops()[name]).items()
            if own[0] != "_" and own not in {*INSIDE.get(top, ()), *getattr(tops()[name], "__dataclass_fields__", ())}
            and (inspect.isfunction(value) or isinstance(value, kinds))
            }  # fmt: skip


def everything() -> dict[str, Any]:
    return {name: value for top, own in tops().items() for name, value in ({top: own} | members(top)).items()}


def plain(value: Any) -> Any:
    """The function behind a method."""
    return getattr(value, "__func__", value)


def sections(docstring: str) -> dict[str, str]:
    """The text below each heading of a numpydoc docstring; what comes before the first is under ""."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def described(section: str) -> list[str]:
    """The names that a section describes; "low, high : float" describes two."""
    return [name.strip() for line in re.findall(r"^(\S[^:\n]*)(?: : |$)", section, re.MULTILINE) for name in line.split(",")]


def lacks(value: Any) -> Iterator[str]:
    """What the docstring of a public name has to have and has not."""
    value = plain(value)
    found = sections(value.__doc__ or "")
    summary = found[""].strip().split("\n\n")[0]
    if "\n" in summary or summary[-1:] not in ".?":
        yield "a first paragraph of one line, which ends with a full stop"
    if ">>> " not in found.get("Examples", ""):
        yield "an example"
    if isinstance(value, property | cached_property):
        return
    if inspect.isclass(value) and (issubclass(value, Exception) or value is models.Model):
        return
    arguments = [
        ("*" * ((p.kind == p.VAR_POSITIONAL) + 2 * (p.kind == p.VAR_KEYWORD))) + p.name
        for p in inspect.signature(value).parameters.values()
        if p.name not in ("self", "cls")
    ]
    made = inspect.isclass(value) and "Parameters" not in found and "Attributes" in found  # by the library, for a reader to read
    if arguments and not made and described(found.get("Parameters", "")) != arguments:
        yield f"a section Parameters on {', '.join(arguments)}, in this order"
    if not inspect.isclass(value):
        nothing = str(inspect.signature(value).return_annotation) in ("None", str(inspect.Signature.empty))
        if not nothing and not {"Returns", "Yields"} & found.keys():
            yield "a section Returns"


@pytest.mark.parametrize("name", everything())
def test_every_public_name_says_what_it_takes_and_gives(name):
    assert not (wrong := list(lacks(everything()[name]))), f"The docstring of {name} lacks {'; '.join(wrong)}."


WHOLE = """Adds one.

Parameters
----------
x : int
    A number.

Returns
-------
int

Examples
--------
>>> 1 + 1
2
"""


@pytest.mark.parametrize(("old", "new", "says"), [
    ("x : int", "y : int", "a section Parameters on x"),
    ("Parameters\n----------\n", "", "a section Parameters on x"),
    ("Returns\n-------\nint\n", "", "a section Returns"),
    (">>> 1 + 1\n2", "Add one to one.", "an example"),
    ("Adds one.", "Adds one\nto a number.", "a first paragraph of one line"),
    ("Adds one.", "Adds one", "a first paragraph of one line"),
    (WHOLE, "", "an example"),
])  # fmt: skip
def test_what_a_docstring_lacks_is_found(old, new, says):
    def more(x: int) -> int:
        return x + 1

    more.__doc__ = WHOLE
    assert not list(lacks(more))
    more.__doc__ = WHOLE.replace(old, new)
    assert any(found.startswith(says) for found in lacks(more))


@pytest.mark.parametrize("name", tops())
@pytest.mark.slow
def test_every_example_gives_what_it_shows(name, monkeypatch):
    """Those of a class's methods go on from that of the class."""
    monkeypatch.setattr(data.registry, "DATASETS", registered := dict(data.DATASETS))
    monkeypatch.setattr(data, "DATASETS", registered)
    begun: dict[str, Any] = {"__name__": "__main__"}
    said: list[str] = []
    for place, value in ({name: tops()[name]} | members(name)).items():
        names = dict(begun)
        example = doctest.DocTestParser().get_doctest(plain(value).__doc__ or "", names, place, None, None)
        runner = doctest.DocTestRunner()
        runner.run(example, out=said.append, clear_globs=False)
        assert runner.tries, f"{place} has no example"
        if place == name:
            begun = example.globs
    assert not said, "".join(said)


def on_pages() -> list[str]:
    """The names that the pages of the reference describe."""
    found = []
    for page in sorted((ROOT / "book" / "reference").glob("*.md")):
        module = ""
        for directive, name, options in re.findall(r"^\.\. ([\w:]+):: (\S+)\n((?:   :.*\n)*)", page.read_text(), re.MULTILINE):
            if directive == "currentmodule":
                module = name
            elif directive.startswith(("autoc", "autof", "autoe", "py:data")):
                found.append(whole := f"{module}.{name}")
                if listed := re.search(":members:(.*)", options):
                    own = [one.strip() for one in listed[1].split(",") if one.strip()]
                    found += [f"{whole}.{one}" for one in own] or list(members(whole))
    return found


def test_every_public_name_is_on_one_page_of_the_reference():
    found = on_pages()
    assert len(found) == len(set(found)) > 200
    assert not (absent := sorted({*everything(), *VALUES} - set(found))), f"Add to book/reference: {', '.join(absent)}."
