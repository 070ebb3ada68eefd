"""Clients that send the server something else than what they found (EFFL, Appendix D.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from fairfl_lite import streams
from fairfl_lite.errors import FairFLError, choose

Lie = Literal["enlarge", "random", "zero"]
Sent = Literal["model", "update"]


class Attacked(Protocol):
    """What an attack asks of a federation."""

    @property
    def seeds(self) -> tuple[int, ...]: ...

    @property
    def clients(self) -> int: ...

    def sizes(self) -> np.ndarray: ...

    def rng(self, purpose: str, t: int = 0) -> list[np.random.Generator]: ...


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

    def malicious(self, fed: Attacked) -> np.ndarray:
        """Who lies, [run, client]."""
        has = fed.sizes() > 0
        if isinstance(self.clients, tuple):
            if max(self.clients, default=0) >= fed.clients:
                raise FairFLError(f"Client {max(self.clients)} cannot be malicious: there are {fed.clients}, counted from 0.")
            return has & np.isin(np.arange(fed.clients), self.clients)
        if self.clients > has.sum(1).min():
            raise FairFLError(f"{self.clients} clients cannot be malicious: {has.sum(1).min()} have training rows.")
        place = np.stack([rng.permutation(fed.clients) for rng in fed.rng("malicious")])
        rank = np.where(has, place, fed.clients).argsort(1, kind="stable").argsort(1, kind="stable")
        return rank < self.clients

    def trained(self, fed: Attacked, given: np.ndarray, theta: np.ndarray, who: np.ndarray, t: int) -> np.ndarray:
        """What reaches the server of models theta [run, participant, P] that were trained from `given`."""
        if self.of == "model":
            return self(fed, theta, who, t)
        liars = (who >= 0) & np.take_along_axis(self.malicious(fed), np.maximum(who, 0), 1)
        return np.where(liars[..., None], given + self(fed, theta - given, who, t), theta)

    def __call__(self, fed: Attacked, messages: np.ndarray, who: np.ndarray, t: int) -> np.ndarray:
        """What reaches the server of messages [run, participant, ..., P] in round t."""
        liars = (who >= 0) & np.take_along_axis(self.malicious(fed), np.maximum(who, 0), 1)
        if self.kind != "random":
            factor = self.factor if self.kind == "enlarge" else 0.0
            by = np.where(liars, factor, 1.0).astype(messages.dtype)
            with np.errstate(over="ignore"):  # a model that is enlarged in every round ends at infinity, and the run says so
                return messages * by.reshape(*by.shape, *[1] * (messages.ndim - 2))
        sent = messages.copy()
        for r, i in np.argwhere(liars):
            noise = streams.stream(fed.seeds[r], "attack", t, int(who[r, i])).standard_normal(sent.shape[2:])
            length = np.linalg.norm(messages[r, i].astype(np.float64), axis=-1, keepdims=True)
            sent[r, i] = noise * length / np.linalg.norm(noise, axis=-1, keepdims=True)
        return sent
