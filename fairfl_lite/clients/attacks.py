"""Clients that send the server something else than what they found (EFFL, Appendix D.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from fairfl_lite import streams
from fairfl_lite.errors import FairFLError, choose

if TYPE_CHECKING:
    from fairfl_lite.federation.one import OneFederation

Lie = Literal["enlarge", "random", "zero"]
Sent = Literal["model", "update"]


@dataclass(frozen=True)
class Attack:
    """Malicious clients: the trained models and the gradients that leave them are not the ones they found.

    Losses and counts that a client reports stay true. A federation is attacked by ``replace(fed, attack=Attack("zero"))``.
    What a client trains for itself and keeps is asked of ``fed.honest``. ``clients=0`` and ``factor=1`` change nothing.

    Parameters
    ----------
    kind : {"enlarge", "random", "zero"}
        What is sent: `factor` times the honest message, a random direction of the honest message's length (on which the paper
        is silent), or nothing but zeros.
    clients : int or tuple of int
        How many of the clients with rows, drawn once for each seed, or which, as their numbers.
    factor : float
        Of kind "enlarge".
    of : {"model", "update"}
        What a client sends of the model that it trained: the model, or what training added to what it was given. Gradients
        are sent as they are.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> from fairfl_lite import Attack, ClientTraining, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.random(4), range(1), ClientTraining(lr=0.1))
    >>> attack = Attack("zero", clients=(1,))
    >>> attacked = replace(fed, attack=attack)
    >>> one, zeros = attacked.one(), np.zeros(4, np.float32)
    >>> sent = attacked.ask(lambda one: one.train(zeros, one.all_clients, 1))[0]
    >>> (sent != 0).any(axis=1)
    array([ True, False,  True,  True])

    The examples of the methods below go on from these lines.
    """

    kind: Lie
    clients: int | tuple[int, ...] = 4
    factor: float = 10.0
    of: Sent = "model"

    def __post_init__(self) -> None:
        choose(self.kind, get_args(Lie), "attack named")
        choose(self.of, get_args(Sent), "message to attack named")
        numbers = np.atleast_1d(np.asarray(self.clients))
        if numbers.dtype.kind not in "iu" and numbers.size or (numbers < 0).any():
            raise FairFLError(f"Name the malicious clients by their numbers, or say how many, not {self.clients!r}.")
        if not np.isfinite(self.factor):
            raise FairFLError(f"The factor of an attack must be a finite number, not {self.factor!r}.")

    def check(self, sizes: np.ndarray) -> None:
        """Refuses an attack by clients that there are not.

        Parameters
        ----------
        sizes : ndarray of int, shape (n_runs, n_clients)
            Training rows of each client.

        Raises
        ------
        FairFLError
            If a client that is named does not exist, or fewer have rows than should be malicious.

        Examples
        --------
        >>> attack.check(fed.sizes())
        """
        has = (sizes > 0).sum(1).min()
        if isinstance(self.clients, tuple):
            if max(self.clients, default=0) >= sizes.shape[1]:
                raise FairFLError(f"Client {max(self.clients)} cannot be malicious: there are {sizes.shape[1]}, counted from 0.")
        elif self.clients > has:
            raise FairFLError(f"{self.clients} clients cannot be malicious: {has} have training rows.")

    def liars(self, fed: OneFederation, clients: np.ndarray) -> np.ndarray:
        """Which of these clients are malicious.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.
        clients : ndarray of int, shape (n_clients,)
            Whom it is about.

        Returns
        -------
        ndarray of bool, shape (n_clients,)

        Examples
        --------
        >>> attack.liars(one, one.all_clients)
        array([False,  True, False, False])
        """
        if isinstance(self.clients, tuple):
            return np.isin(clients, self.clients)
        place, has = fed.rng("malicious").permutation(fed.n), np.isin(np.arange(fed.n), fed.all_clients)
        rank = np.where(has, place, fed.n).argsort(kind="stable").argsort(kind="stable")
        return (rank < self.clients)[clients]

    def sent_model(self, fed: OneFederation, given: np.ndarray, theta: np.ndarray, clients: np.ndarray, t: int) -> np.ndarray:
        """What reaches the server of trained models.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.
        given : ndarray of shape (n_clients, n_params)
            The models from which they were trained.
        theta : ndarray of shape (n_clients, n_params)
            The models that training gave.
        clients : ndarray of int, shape (n_clients,)
            Whose they are.
        t : int
            The number of the round, on which a random message depends.

        Returns
        -------
        ndarray of shape (n_clients, n_params)

        Examples
        --------
        >>> attack.sent_model(one, np.ones((2, 2)), np.full((2, 2), 3.0), np.array([0, 1]), 1)
        array([[3., 3.],
               [0., 0.]])
        """
        if self.of == "model":
            return self.sent(fed, theta, clients, t)
        return np.where(self.liars(fed, clients)[:, None], given + self.sent(fed, theta - given, clients, t), theta)

    def sent(self, fed: OneFederation, messages: np.ndarray, clients: np.ndarray, t: int) -> np.ndarray:
        """What reaches the server of messages of any shape.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.
        messages : ndarray of shape (n_clients, ..., n_params)
            What the clients found.
        clients : ndarray of int, shape (n_clients,)
            Whose they are.
        t : int
            The number of the round, on which a random message depends.

        Returns
        -------
        ndarray of shape (n_clients, ..., n_params)

        Examples
        --------
        >>> attack.sent(one, np.ones((2, 2)), np.array([0, 1]), 1)
        array([[1., 1.],
               [0., 0.]])
        """
        liars = self.liars(fed, clients)
        if self.kind != "random":
            by = np.where(liars, self.factor if self.kind == "enlarge" else 0.0, 1.0).astype(messages.dtype)
            with np.errstate(over="ignore"):  # a model that is enlarged in every round ends at infinity, and the run says so
                return messages * by.reshape(-1, *[1] * (messages.ndim - 1))
        sent = messages.copy()
        for i in np.flatnonzero(liars):
            noise = streams.stream(fed.seed, "attack", t, int(clients[i])).standard_normal(sent.shape[1:])
            length = np.linalg.norm(messages[i].astype(np.float64), axis=-1, keepdims=True)
            sent[i] = noise * length / np.linalg.norm(noise, axis=-1, keepdims=True)
        return sent
