"""The check of all exercises: an answer is right, wrong or not tried, and whatever it is, nothing is raised.

`...` is an answer that is still open. So is a function that returns it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

RIGHT, WRONG, NOT_TRIED = "right", "wrong", "not tried"
EXACT = 1e-9


class Open(Exception):
    """A function of the reader gave back the dots of its stub."""


def check(what: str, *answers: Any, right: Any, hint: str, within: float = EXACT) -> None:
    """Say of the answers to one question, named by `what` in a few words, whether they are right.

    `right` is what the answer must be, numbers to `within`, or a function of the answers that gives True for right ones.
    """
    says = {RIGHT: f"✓ {what}: right", WRONG: f"✗ {what}: not yet. {hint}", NOT_TRIED: f"○ {what}: not tried"}
    print(says[verdict(*answers, right=right, within=within)])


def verdict(*answers: Any, right: Any, within: float = EXACT) -> str:
    """Whether answers are right, wrong or not tried; see `check`.

    Only True is right: a condition that is an array, a number or nothing has not been met.
    """
    accepts = right if callable(right) else functools.partial(_equal, right=right, within=within)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if any(_is_open(answer) for answer in answers):
                return NOT_TRIED
            found = accepts(*(_guarded(answer) for answer in answers))
            return RIGHT if isinstance(found, (bool, np.bool_)) and found else WRONG
    except Open:
        return NOT_TRIED
    except KeyboardInterrupt:  # how a reader stops a function that does not end
        raise
    except BaseException:  # also what a reader's function raises on purpose, and exit()
        return WRONG


def _is_open(answer: Any) -> bool:
    if isinstance(answer, (list, tuple, set)):
        return any(_is_open(part) for part in answer)
    if isinstance(answer, dict):
        return any(_is_open(part) for part in answer.values())
    return answer is ...


def _guarded(answer: Any) -> Any:
    """The answer; a function of the reader's is one that raises Open where it gives back dots."""
    if not isinstance(answer, FunctionType):
        return answer
    function: Callable[..., Any] = answer

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if _is_open(found):
            raise Open
        return found

    return guarded


def _equal(answer: Any, *, right: Any, within: float) -> bool:
    """The same text, the same truth value, or the same shape of numbers; neither of the first two is a number."""
    if isinstance(right, str):
        return isinstance(answer, str) and str.strip(answer) == right
    if isinstance(right, (bool, np.bool_)):
        return isinstance(answer, (bool, np.bool_)) and bool(answer) == bool(right)
    given, wanted = np.asarray(answer), np.asarray(right, dtype=float)
    if given.dtype.kind not in "iufO" or given.shape != wanted.shape:
        return False
    return bool(np.all(np.abs(given.astype(float) - wanted) <= within))
