"""The parameters cell: what is read from it, and what is refused before anything runs."""

from __future__ import annotations

import math

import pytest
from small import code, notebook

from fairfl_book.notebooks import parameters
from fairfl_lite.errors import FairFLError

CELL = """\
seeds: int = 3  # 1..20: how many seeds
alpha: float = 0.5  # 0.01..5000: concentration
dataset: str = "adult"  # one of adult|compas: which table
rounds: int | None = None  # 1..: None means the paper's own number
betas: list[float] = [
    0.5,
    1.0,
]  # 0..10: limits of every element
verbose: bool = False  # whether to say more
"""
READ = "print(seeds, alpha, dataset, rounds, betas, verbose)"
PAPER = {"profiles": {"paper": {"seeds": 20, "alpha": 1}}}


def make(cell: str = CELL, about: dict | None = None, read: str = READ):
    return notebook(code(cell, "parameters"), read, about=PAPER if about is None else about)


def test_limits_are_read_without_executing():
    known = parameters.declared(make())
    assert [(p.annotation, p.low, p.high, p.choices) for p in known.values()] == [
        ("int", 1, 20, ()),
        ("float", 0.01, 5000, ()),
        ("str", None, None, ("adult", "compas")),
        ("int | None", 1, None, ()),
        ("list[float]", 0, 10, ()),
        ("bool", None, None, ()),
    ]
    with pytest.raises(FairFLError, match="plain value"):
        parameters.declared(make("seeds: int = print('executed')", read="seeds"))


def test_defaults_then_profile_then_overrides():
    quick = parameters.resolve(make())
    assert quick == {
        "seeds": 3,
        "alpha": 0.5,
        "dataset": "adult",
        "rounds": None,
        "betas": [0.5, 1.0],
        "verbose": False,
    }
    paper = parameters.resolve(make(), "paper", {"alpha": "10", "verbose": "true", "betas": "1,2", "rounds": "7"})
    assert paper == {**quick, "seeds": 20, "alpha": 10.0, "verbose": True, "betas": [1.0, 2.0], "rounds": 7}
    assert type(paper["alpha"]) is float
    assert parameters.resolve(make(), "paper", {"rounds": "none"})["rounds"] is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("sedes", "3", "did you mean seeds"),
        ("seeds", "3.5", "must be int"),
        ("seeds", "many", "must be int"),
        ("seeds", "0", "within 1..20"),
        ("seeds", "21", "within 1..20"),
        ("seeds", True, "must be int"),
        ("seeds", None, "must be int"),
        ("alpha", "nan", "within 0.01..5000"),
        ("alpha", "inf", "within 0.01..5000"),
        ("alpha", math.nan, "within 0.01..5000"),
        ("dataset", "adlut", "did you mean adult"),
        ("rounds", "0", "within 1..inf"),
        ("betas", "1,11", "within 0..10"),
        ("betas", "1,x", "must be list"),
        ("betas", 1.0, "must be list"),
        ("verbose", "1", "true or false"),
    ],
)
def test_refused(name, value, says):
    with pytest.raises(FairFLError, match=says):
        parameters.resolve(make(), overrides={name: value})


@pytest.mark.parametrize(
    ("about", "profile", "says"),
    [
        ({"profiles": {"paper": {"sedes": 3}}}, "paper", "did you mean seeds"),
        ({"profiles": {"paper": {"seeds": 99}}}, "paper", "within 1..20"),
        ({"profiles": {"paper": {"seeds": "9"}}}, "paper", "must be int"),
        ({"profiles": {"quick": {"seeds": 1}}}, "quick", "parameters cell itself"),
        ({"profiles": {"paper": {}}}, "papre", "did you mean paper"),
    ],
)
def test_profiles_are_held_to_the_same_limits(about, profile, says):
    with pytest.raises(FairFLError, match=says):
        parameters.resolve(make(about=about), profile)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("seeds = 3", "name: type = value"),
        ("import os", "name: type = value"),
        ("seeds: int", "no default"),
        ("seeds: complex = 3", "A parameter is int"),
        ("seeds: int = 30  # 1..20: out of its own range", "within 1..20"),
        ("seeds: int = 'three'", "must be int"),
        ("seeds: str = 'a'  # 1..3: no number", "only numbers"),
        ("seeds: int = ", "not Python"),
        ("seeds: int = (", "not Python"),
        ("%matplotlib inline", "not Python"),
        ("seeds: int = " + "9" * 5000, "not Python"),
        ("seeds: int = " + "-" * 5000 + "1", "not Python|plain value"),
        ("seeds: int = {[]: 1}", "plain value"),
    ],
)
def test_ill_written_cells(cell, says):
    with pytest.raises(FairFLError, match=says):
        parameters.declared(make(cell, read="seeds"))


def test_a_parameter_nobody_reads_is_refused():
    with pytest.raises(FairFLError, match="No cell reads the parameter seeds"):
        parameters.declared(make("seeds: int = 3", read="print(1)"))


def test_two_parameters_cells_are_refused():
    two = notebook(code("a: int = 1", "parameters"), code("b: int = 1", "parameters"), "a, b")
    with pytest.raises(FairFLError, match="only one"):
        parameters.declared(two)


def test_a_notebook_without_parameters_has_none():
    assert parameters.resolve(notebook("1 + 1")) == {}


def test_an_empty_list_is_refused():
    cell = code("levels: list[float] = [0.5]  # 0..1: levels", "parameters")
    with pytest.raises(FairFLError, match="empty list"):
        parameters.resolve(notebook(cell, "print(levels)"), "quick", {"levels": ""})
