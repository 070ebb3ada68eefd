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
    """What the server carries from round to round: its model, and whatever else its method remembers.

    Memory holds arrays and numbers only, so that a run can be kept and goes on to the same bytes.

    Parameters
    ----------
    params : ndarray of shape (n_params,)
        The server's model.
    memory : mapping of str to ndarray or number
        What the method remembers, by name; ``state[name]`` reads it.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import State
    >>> state = State(np.zeros(4), {"step": 0.5})
    >>> state, state["step"]
    (State(params of shape (4,), memory of step), 0.5)
    """

    params: np.ndarray
    memory: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"State(params of shape {np.shape(self.params)}, memory of {', '.join(self.memory) or 'nothing'})"

    def __getitem__(self, name: str) -> Any:
        if name in self.memory:
            return self.memory[name]
        return self.memory[choose(name, self.memory, "memory of this method named")]


class Models(NamedTuple):
    """Several models, and which of them each client has.

    For groups that share a model: nothing is copied for each client.

    Parameters
    ----------
    models : ndarray of shape (n_models, n_params)
        The models.
    of : ndarray of int, shape (n_clients,)
        The number of each client's model.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import Models
    >>> groups = Models(np.zeros((2, 4)), np.array([0, 0, 1]))
    >>> groups.models[groups.of].shape
    (3, 4)
    """

    models: np.ndarray
    of: np.ndarray


class ByGroup(NamedTuple):
    """A model for each group of rows: a row is decided by the model of its own group.

    Whoever uses it reads the group of a row at prediction time. That is what thresholds by group need, see `GroupThresholds`.

    Parameters
    ----------
    models : ndarray of shape (n_groups, n_params)
        The models, in the order of the groups.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import ByGroup
    >>> ByGroup(np.zeros((2, 4))).models.shape
    (2, 4)
    """

    models: np.ndarray


Answer = np.ndarray | Models | ByGroup
"""One model for all [P], one for each client [client, P], Models, or ByGroup."""


class Method(ABC):
    """What the server of one federation does: it starts, it makes a round of the one before, and it deploys a model.

    Derive a class from it with a `name` and the coroutines `start` and `round`. Where a method asks its clients something it
    awaits the answer. It does not know how many runs go beside its own.

    Attributes
    ----------
    name : str
        The label of the method's history.
    must_see : str
        What of single clients the server has to see, in words that follow "must see"; "" where sums over those who take part
        suffice, and only such a method runs with a secure aggregate. Of such a method the server learns what comes out of
        ``fed.sum`` and ``fed.average``. Who takes part, and with how many rows, is known to all. A client works by itself
        with what it finds on its rows, with what it kept, and with what the server tells everybody. Memory holds all of it,
        for the reader.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, Method, Partition, State, load
    >>> class Average(Method):
    ...     name = "average"
    ...
    ...     async def start(self, fed):
    ...         return State(fed.init_params())
    ...
    ...     async def round(self, fed, state, t):
    ...         clients = fed.sample_clients(t)
    ...         local = await fed.train(state.params, clients, t)
    ...         return State(fed.average(local, fed.sizes(clients)))
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(2), ClientTraining(lr=0.1))
    >>> fed.run(Average(), rounds=3)
    History('average', seeds=0,1, rounds=3, recorded on test)

    The examples of the methods below go on from these lines.
    """

    name: str
    must_see: str = ""

    @abstractmethod
    async def start(self, fed: OneFederation) -> State:
        """Makes the state before the first round.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.

        Returns
        -------
        State

        Examples
        --------
        >>> fed.ask(lambda one: Average().start(one))[0]
        State(params of shape (4,), memory of nothing)
        """
        ...

    @abstractmethod
    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        """Makes the state after round t of the one before it.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.
        state : State
            What `start` or the round before made. It must be left as it is.
        t : int
            The number of the round, from 1.

        Returns
        -------
        State

        Examples
        --------
        >>> async def two_rounds(one):
        ...     method = Average()
        ...     state = await method.start(one)
        ...     for t in (1, 2):
        ...         state = await method.round(one, state, t)
        ...     return state
        >>> fed.ask(two_rounds)[0]
        State(params of shape (4,), memory of nothing)
        """
        ...

    def answer(self, state: State) -> Answer:
        """What a client would use after this round; the server's model, unless a method says otherwise.

        Parameters
        ----------
        state : State
            What a round made.

        Returns
        -------
        ndarray of shape (n_params,) or (n_clients, n_params), or Models, or ByGroup
            One model for all clients, one for each, several that they share, or one for each group of rows.

        Examples
        --------
        >>> import numpy as np
        >>> Average().answer(State(np.zeros(4))).shape
        (4,)
        """
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
