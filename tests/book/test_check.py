"""The check of the exercises: right, wrong or not tried, and never an exception."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairfl_book.notebooks.exercises import NOT_TRIED, RIGHT, WRONG, check, verdict


class Awkward:
    """Whatever is asked of it, it raises, but for its name, which a failing test has to print."""

    def _refuse(self, *_, **__):
        raise RuntimeError("ask somebody else")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = __iter__ = __getitem__ = _refuse
    __float__ = __int__ = __array__ = __sub__ = __rsub__ = __call__ = __str__ = _refuse  # type: ignore
    __hash__ = None  # type: ignore


class AwkwardText(str):
    def strip(self, *_):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None  # type: ignore


def raises(*_, **__):
    raise SystemExit(3)


def endless(*args):
    return endless(*args)


loop: list = []
loop.append(loop)
ODD = [None, float("nan"), [], [1, "a"], "text", b"", {}, {"a": ...}, {1, 2}, object(), Awkward(), Awkward, AwkwardText("local"),
       raises, endless, loop, np.zeros((0, 3)), np.array([[1, 2]]), np.array(["a"]), pd.DataFrame({"a": [1]}), 1j, True, ...,
       [[...]], lambda: ..., 10**400, pd.NaT, np.ma.masked, SimpleNamespace(), range(3), iter([]), Exception(), type]  # fmt: skip

anything = st.recursive(
    st.integers(0, len(ODD) - 1).map(ODD.__getitem__)
    | st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers() | st.fractions()
    | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)  # fmt: skip


def asks_much(answer):
    """A careless condition: it uses the answer in every way."""
    return answer(1)[0] + len(answer) == np.asarray(answer).sum() and answer.alpha > 2


EXPECTED = [
    0.5,
    3,
    [1, 2, 3],
    np.eye(2),
    "local",
    True,
    Fraction(1, 3),
    asks_much,
    lambda answer: answer == 1,
    lambda answer: answer,
    7.0,
]


@given(answer=anything, right=st.integers(0, len(EXPECTED) - 1).map(lambda n: EXPECTED[n]))
def test_whatever_the_answer_is_nothing_is_raised(answer, right):
    assert verdict(answer, right=right) in (RIGHT, WRONG, NOT_TRIED)
    assert verdict(answer, answer, right=right) in (WRONG, NOT_TRIED, RIGHT)


@pytest.mark.parametrize("right", EXPECTED)
@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
def test_odd_answers_print_one_line(capsys, answer, right):
    check("number", answer, right=right, hint="Count again.")
    said = capsys.readouterr()
    assert said.out.count("\n") == 1 and said.out[0] in "✓✗○" and said.err == ""


def test_dots_anywhere_are_an_answer_not_tried():
    for answer in (..., [1, ...], (1, [2, ...]), {"a": [...]}, {...}):
        assert verdict(answer, right=lambda a: True) == NOT_TRIED
    assert verdict(1, ..., right=lambda a, b: True) == NOT_TRIED
    assert verdict(lambda n: ..., right=lambda f: f(3) == 3) == NOT_TRIED
    assert verdict(lambda n: [n, ...], right=lambda f: f(3) == 3) == NOT_TRIED


def test_only_true_is_right():
    for condition in (1, 1.0, float("nan"), "yes", [True], np.array([True, True]), object(), None, 0, np.array([])):
        assert verdict(2, right=lambda a, condition=condition: condition) == WRONG
    assert verdict(2, right=lambda a: np.bool_(True)) == verdict(2, right=lambda a: True) == RIGHT


@pytest.mark.parametrize(
    ("right", "good", "bad"),
    [
        (
            3,
            [3, 3.0, np.int64(3), Fraction(3), np.array(3)],
            [4, "3", True, [3], [3, 3], None, float("nan"), 3j, 3.001, lambda: 3],
        ),
        ([1, 2], [[1, 2], (1, 2), np.array([1.0, 2.0]), pd.Series([1, 2])], [[2, 1], 1, [1], [[1, 2]], [1, 2, 2], "12", {1: 2}]),
        (1, [1], [True, np.True_, "1"]),
        (True, [True, np.True_], [1, 1.0, "True", False, [True]]),
        (False, [False], [0, None, "", True]),
        ("local", ["local", " local "], ["Local", "loc", ["local"], b"local", None, 1]),
        (Fraction(2, 3), [Fraction(2, 3), 2 / 3], [0.6667, Fraction(1, 3)]),
    ],
)
def test_a_value_is_compared_with_its_kind_and_shape(right, good, bad):
    assert [verdict(answer, right=right) for answer in good] == [RIGHT] * len(good)
    assert [verdict(answer, right=right) for answer in bad] == [WRONG] * len(bad)


def test_numbers_may_be_rounded_as_far_as_the_exercise_says():
    assert verdict(0.818, right=9 / 11, within=5e-4) == RIGHT
    assert verdict(0.82, right=9 / 11, within=5e-4) == WRONG
    assert verdict(0.818, right=9 / 11) == WRONG


def test_what_is_said(capsys):
    check("global EOD", ..., right=0.5, hint="Add the components.")
    check("global EOD", 0.4, right=0.5, hint="Add the components.")
    check("global EOD", 0.5, right=0.5, hint="Add the components.")
    assert capsys.readouterr().out.splitlines() == [
        "○ global EOD: not tried",
        "✗ global EOD: not yet. Add the components.",
        "✓ global EOD: right",
    ]


def test_a_reader_can_stop_an_answer_that_does_not_end():
    def stopped():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verdict(stopped, right=lambda f: f() == 1)
