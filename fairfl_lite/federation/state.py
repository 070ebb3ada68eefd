"""What a method is, and what it carries from round to round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairfl_lite.errors import choose

if TYPE_CHECKING:
    from fairfl_lite.federation.core import Federation


@dataclass(frozen=True)
class State:
    """What the server carries from round to round: its model [run, P] and whatever else its method remembers.

    Arrays only, so that a run can be kept and goes on to the same bytes.
    """

    params: np.ndarray
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.memory[choose(name, self.memory, "memory of this method named")]


class Models(NamedTuple):
    """Several models and whose they are: models [run, model, P], of [run, client] the number of each client's model.

    For groups that share one: nothing is copied for each client.
    """

    models: np.ndarray
    of: np.ndarray


Answer = np.ndarray | Models
"""One model for all [run, P], one for each client [run, client, P], or Models."""


class Method(ABC):
    """What the server does: `start` makes the first state, `round` the next one, `answer` is what it deploys.

    must_see : what of single clients the server has to see, in words that follow "must see"; "" where sums over those who take
    part suffice, and only such a method runs with a secure aggregate. Of such a method the server learns what comes out of
    `fed.sum` and `fed.average`. Who takes part, and with how many rows, is known to all. A client works by itself with what it
    finds on its rows, with what it kept, and with what the server tells everybody. Memory holds all of it, for the reader.
    """

    name: str
    must_see: str = ""

    @abstractmethod
    def start(self, fed: Federation) -> State: ...

    @abstractmethod
    def round(self, fed: Federation, state: State, t: int) -> State: ...

    def answer(self, state: State) -> Answer:
        """What a client would use after this round; the server's model, unless a method says otherwise."""
        return state.params
