"""One kind of error for everything a user can mend, and the nearest name for a misspelt one."""

from collections.abc import Iterable
from difflib import get_close_matches


class FairFLError(ValueError):
    """One clear sentence that says what is wrong and what to do; the command line prints it and exits with 2."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known name most like `name`, or None if none is like it."""
    return next(iter(get_close_matches(str(name), list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean x?)`, or nothing."""
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""
