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

    kind : "enlarge", `factor` times the honest message; "random", a random direction of the honest message's length, on which
    the paper is silent; "zero", nothing but zeros. clients : how many of the clients with rows, drawn once for each seed, or
    which, as their numbers. of : what a client sends of the model that it trained, the "model" or its "update", what training
    added to what it was given; gradients are sent as they are. Losses and counts that a client reports stay true. clients = 0
    and factor = 1 change nothing.

    A federation is attacked by `replace(fed, attack=Attack("zero"))`. What a client trains for itself and keeps is asked of
    `fed.honest`.
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
        """Refuses clients that there are not, for training rows [run, client]."""
        has = (sizes > 0).sum(1).min()
        if isinstance(self.clients, tuple):
            if max(self.clients, default=0) >= sizes.shape[1]:
                raise FairFLError(f"Client {max(self.clients)} cannot be malicious: there are {sizes.shape[1]}, counted from 0.")
        elif self.clients > has:
            raise FairFLError(f"{self.clients} clients cannot be malicious: {has} have training rows.")

    def liars(self, fed: OneFederation, clients: np.ndarray) -> np.ndarray:
        """Which of these clients of one federation lie, [client]."""
        if isinstance(self.clients, tuple):
            return np.isin(clients, self.clients)
        place, has = fed.rng("malicious").permutation(fed.n), np.isin(np.arange(fed.n), fed.all_clients)
        rank = np.where(has, place, fed.n).argsort(kind="stable").argsort(kind="stable")
        return (rank < self.clients)[clients]

    def sent_model(self, fed: OneFederation, given: np.ndarray, theta: np.ndarray, clients: np.ndarray, t: int) -> np.ndarray:
        """What reaches the server of models theta [client, P] that were trained from `given`."""
        if self.of == "model":
            return self.sent(fed, theta, clients, t)
        return np.where(self.liars(fed, clients)[:, None], given + self.sent(fed, theta - given, clients, t), theta)

    def sent(self, fed: OneFederation, messages: np.ndarray, clients: np.ndarray, t: int) -> np.ndarray:
        """What reaches the server of messages [client, ..., P] in round t."""
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
