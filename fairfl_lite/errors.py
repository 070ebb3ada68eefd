"""One kind of error for everything a user can mend, one for what ran and failed, and the nearest name for a misspelt one."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class FairFLError(ValueError):
    """One clear sentence that says what is wrong and what to do; the command line prints it and exits with 2.

    It is a ValueError, and is raised for everything that a user can mend.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FairFLError
    >>> try:
    ...     ClientTraining("adan")
    ... except FairFLError as error:
    ...     print(error)
    There is no optimizer 'adan': did you mean 'adam'?
    """


class StorageError(FairFLError):
    """What a disk refused: no room, no permission, a folder that went away."""


class LostError(FairFLError):
    """Clients cannot be reached any more.

    clients : their numbers. workers : who had them, see federation.over. what : what happened, without what to do.
    """

    def __init__(self, said: str, clients: Iterable[int], workers: Any, what: str) -> None:
        super().__init__(said)
        self.clients, self.workers, self.what = tuple(clients), workers, what


class BuildError(Exception):
    """The book could not be built: says which notebook failed where, or what the builder complained about."""


def refused(error: OSError, where: Any = None) -> StorageError:
    """What the disk refused, as one sentence. where : the file, for an error that does not name it."""
    file = where or error.filename or "a file"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"The disk is full, and {file} cannot be written: make room and start again; what is finished is kept."
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StorageError(f"{file} cannot be used, {_said(error)}: change its permissions, or work in a folder of your own.")
    return StorageError(f"{file} cannot be used, {_said(error)}: see that it is there and what it should be, and start again.")


def _said(error: OSError) -> str:
    return " ".join((error.strerror or str(error) or type(error).__name__).split()).lower()


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known name most like `name`, or None if none is like it."""
    return next(iter(get_close_matches(str(name), list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean x?)`, or nothing."""
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""


def choose(value: Any, choices: Iterable[str], what: str) -> str:
    """`value` when it is one of `choices`, otherwise an error that names the nearest choice."""
    names = list(choices)
    if value in names:
        return str(value)
    near = nearest(value, names, cutoff=0.4)
    hint = f"did you mean {near!r}?" if near else f"choose one of {', '.join(map(repr, names))}."
    raise FairFLError(f"There is no {what} {value!r}: {hint}")
