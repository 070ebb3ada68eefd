"""What a method is, and what it carries from round to round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairfl_lite.errors import FairFLError, choose

if TYPE_CHECKING:
    from fairfl_lite.federation.one import OneFederation


@dataclass(frozen=True, eq=False)
class State:
    """What the server carries from round to round: its model [P] and whatever else its method remembers.

    Arrays and numbers only, so that a run can be kept and goes on to the same bytes.
    """

    params: np.ndarray
    memory: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"State(params of shape {np.shape(self.params)}, memory of {', '.join(self.memory) or 'nothing'})"

    def __getitem__(self, name: str) -> Any:
        return self.memory[choose(name, self.memory, "memory of this method named")]


class Models(NamedTuple):
    """Several models and whose they are: models [model, P], of [client] the number of each client's model.

    For groups that share one: nothing is copied for each client.
    """

    models: np.ndarray
    of: np.ndarray


Answer = np.ndarray | Models
"""One model for all [P], one for each client [client, P], or Models."""


class Method(ABC):
    """What the server of one federation does: `start` makes the first state, `round` the next one, `answer` is what it deploys.

    Where a method asks its clients something it awaits the answer. It does not know how many runs go beside its own.

    must_see : what of single clients the server has to see, in words that follow "must see"; "" where sums over those who take
    part suffice, and only such a method runs with a secure aggregate. Of such a method the server learns what comes out of
    `fed.sum` and `fed.average`. Who takes part, and with how many rows, is known to all. A client works by itself with what it
    finds on its rows, with what it kept, and with what the server tells everybody. Memory holds all of it, for the reader.
    """

    name: str
    must_see: str = ""

    @abstractmethod
    async def start(self, fed: OneFederation) -> State: ...

    @abstractmethod
    async def round(self, fed: OneFederation, state: State, t: int) -> State: ...

    def answer(self, state: State) -> Answer:
        """What a client would use after this round; the server's model, unless a method says otherwise."""
        return state.params


def require_method(method: Any) -> None:
    """Refuses what is not a method with a name.

    Parameters
    ----------
    method : Any
        What somebody wants to run.

    Raises
    ------
    FairFLError
        If it is a class instead of a method made from it, something else, or a method without a name.
    """
    if isinstance(method, type):
        raise FairFLError(f"Give a method and not its class: write {method.__name__}() with its settings.")
    if not isinstance(method, Method):
        raise FairFLError(f"A federation runs methods, and {method!r} is not a Method: derive its class from Method.")
    if not isinstance(name := getattr(method, "name", None), str) or not name:
        raise FairFLError(f'The method {type(method).__name__} has no name: write `name = "..."` in its class.')
