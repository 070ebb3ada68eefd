"""What a method sees: the clients of one federation under one seed, and what may be asked of them.

Every array leads with the clients that were asked, in the order in which they were named. A question is awaited, because the
server waits for its clients: `await fed.losses(params, clients)`. Beside a run there may be many others, of other
seeds, settings and methods; what one of them asks is answered together with what the others ask (see lockstep), and none of
them can tell.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from fairfl_lite import streams
from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.engines import Engine, Of, mean_loss
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation.state import Answer, Models

if TYPE_CHECKING:
    from fairfl_lite.clients.debias import TrainingRows
    from fairfl_lite.federation.core import Federation
    from fairfl_lite.models import Model


def require_answer(value: Any) -> None:
    """Refuses a question where its answer should be."""
    if type(value) is CoroutineType:
        value.close()
        raise FairFLError(f"The answer to {value.__name__} was not awaited: write `await` before the question to the clients.")


@dataclass(frozen=True, eq=False)
class Request:
    """One question of one run to some of its clients.

    fed, run : whose clients. kind : what is asked, with all options that requests answered together must share. clients : who
    is asked. theta [model, P] : the models that are sent. model [client] : which of them each client takes. own : options that
    may differ between requests of a kind.
    """

    fed: Federation
    run: int
    kind: tuple[Any, ...]
    clients: np.ndarray
    theta: np.ndarray
    model: np.ndarray
    own: tuple[Any, ...] = ()

    def __await__(self) -> Generator[Request, Any, Any]:
        return (yield self)


class OneFederation:
    """The clients of one federation under one seed, whom a method's server asks.

    n : how many there are; they are numbered from 0. seed, model, local : the run's seed, its model, and how clients train.
    participants : how many take part in a round, 0 for all. parts : the names of the parts that their rows are dealt to.
    remembered : what was worked out for these clients and does not change, see Debias.
    """

    def __init__(self, fed: Federation, run: int, *, together: bool = False, honest: bool = False) -> None:
        self._fed, self._run, self._together = fed, run, together
        self._attack = None if honest else fed.attack
        self.seed: int = fed.seeds[run]
        self.n = fed.clients
        self.model: Model = fed.model
        self.local: ClientTraining = fed.local
        self.participants = fed.participants
        self._sizes, self._length = fed.sizes()[run], fed.model.size
        self._asked = np.empty(0, np.int64)
        self.remembered: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"OneFederation(n={self.n}, seed={self.seed}, model={self.model!r})"

    # --- what the server knows

    @cached_property
    def all_clients(self) -> np.ndarray:
        """The clients that have training rows, ascending. Others take no part in anything."""
        return np.flatnonzero(self._sizes)

    def sample_clients(self, t: int) -> np.ndarray:
        """Who takes part in round t, ascending: `participants` of the clients with training rows, drawn without replacement."""
        if not self.participants:
            return self.all_clients
        drawn = self._fed.drawn  # shared by all methods of a seed
        if (self._run, t) not in drawn:
            if len(drawn) > 1000:
                drawn.clear()
            place = streams.stream(self.seed, f"participants {t}").permutation(self.n)
            order = np.argsort(np.where(self._sizes > 0, place, self.n), kind="stable")
            drawn[self._run, t] = np.sort(order[: min(self.participants, len(self.all_clients))])
        return drawn[self._run, t].copy()

    def sizes(self, clients: np.ndarray) -> np.ndarray:
        """n_k, how many training rows each of them has, [client]."""
        return self._sizes[clients]

    def shares(self, clients: np.ndarray) -> np.ndarray:
        """n_k / n, [client], n the training rows of all that are named."""
        sizes = self._sizes[clients]
        return sizes / sizes.sum()

    def by_client(self, values: np.ndarray, clients: np.ndarray, others: Any = 0.0) -> np.ndarray:
        """values [client, ...] of those named in their places among all n clients, [n, ...]; the rest get `others`."""
        values = np.asarray(values)
        out = np.full((self.n, *values.shape[1:]), others, np.result_type(values, type(others)))
        out[clients] = values
        return out

    def rng(self, purpose: str, t: int = 0) -> np.random.Generator:
        """The random stream (seed, purpose, t)."""
        return streams.stream(self.seed, purpose, t)

    def init_params(self) -> np.ndarray:
        """The server's first model, [P]."""
        first = self._fed.init_params
        if first is None:
            return self.model.init(self.rng("start"))
        return np.array(first, np.float64 if np.asarray(first).dtype == np.float64 else np.float32)

    def holders(self, on: str) -> int:
        """Among how many the rows of a part are dealt; 0 where there is no such part. One is the server, where it keeps it."""
        return self._fed.shards[on].clients if on in self._fed.shards else 0

    def rows_of(self, on: str) -> np.ndarray:
        """How many rows of a part each of its holders has."""
        return self._part(on).sizes[self._run]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self._fed.shards)

    @property
    def secure(self) -> bool:
        """Whether the server learns sums alone."""
        return not self._fed.sums_are_plain

    def require_rows(self, on: str) -> None:
        """Refuses a part of the data in which a client that takes part has no rows to be asked about."""
        self._fed.require_rows(on)

    # --- what it asks

    async def train(self, params: np.ndarray, clients: np.ndarray, t: int, *, rows: TrainingRows | None = None,
                    local: ClientTraining | None = None, toward: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
        """Local training from params [P], or [client, P] for models of their own: [client, P].

        rows : how clients debias their training rows, see Debias. local : another training than the federation's. toward : the
        anchor of its proximal term, in a shape of params.
        """
        given, model = self._models(params, clients)
        local = local or self.local
        anchor = None if toward is None else self._models(toward, clients)
        kind = ("train", local.whatever_rate, t, rows is not None, anchor is not None)
        found = await self._ask(kind, clients, given, model, (local.rate(t), rows, anchor))
        return self._sent(found, given[model], clients, t) if self._attack else found

    async def confusion(self, params: Answer, clients: np.ndarray | None = None, on: str = "train", *, each_model: bool = False
                        ) -> np.ndarray:  # fmt: skip
        """Confusion counts of a model on the clients' rows, [client, group, label, prediction].

        params : one model for all [P], one for each [client, P], or Models. clients : all holders of the part if None.
        each_model : every model of params [model, P] on every client's rows, [model, client, group, label, prediction].
        """
        return (await self._score(params, clients, on, each_model, False))[0]

    async def losses(self, params: Answer, clients: np.ndarray | None = None, on: str = "train", *, each_model: bool = False
                     ) -> np.ndarray:  # fmt: skip
        """Mean log loss, [client], or [model, client] with `each_model`; as `confusion`. NaN for one without rows in the part."""
        counts, losses = await self._score(params, clients, on, each_model, True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return losses / counts.sum(axis=(-3, -2, -1))

    async def best_model(self, models: np.ndarray, clients: np.ndarray, on: str = "train") -> np.ndarray:
        """Which of models [model, P] has the lowest mean log loss on the rows of each client, [client]; the first of equals."""
        models = self._fed.checked(models, self._length, many=True)
        return await self._ask(("best model", on, len(models)), clients, models, np.zeros(len(clients), np.int64))

    async def logits(self, params: Answer, clients: np.ndarray | None = None, on: str = "train") -> list[np.ndarray]:
        """The logits of the rows of each client, [rows] or [rows, classes], in the order of its rows."""
        clients = self._holders(clients, on)
        theta, model = self._models(params, clients)
        return await self._ask(("logits", on), clients, theta, model)

    async def value_and_gradient(self, params: Answer, clients: np.ndarray, of: Of = mean_loss, *, on: str = "train", t: int = 0,
                                 batch: int = 0) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Any function of the logits of a client's rows, and its gradient by the parameters: ([client], [client, P]).

        of : called with logits, labels and groups of a client's rows, as torch tensors; gives one value, or a vector, and then
        the answer is ([client, value], [client, value, P]). By default the mean log loss. batch : how many rows of each client,
        drawn for round t; 0 for all of them. A client without rows has the value NaN and the gradient 0.
        """
        if not isinstance(batch, int | np.integer) or batch < 0:
            raise FairFLError(f"batch must be a whole number of at least 0, not {batch!r}.")
        theta, model = self._models(params, clients)
        values, slopes = await self._ask(("gradient", on, of, t, int(batch)), clients, theta, model)
        slopes = self._attack.sent(self, slopes, clients, t) if self._attack else slopes
        return (values[:, 0], slopes[:, 0]) if values.shape[1] == 1 else (values, slopes)

    async def group_label_counts(self, clients: np.ndarray, on: str = "train") -> np.ndarray:
        """How many rows of each group and label each of them has, [client, group, label]."""
        return self._part(on).census()[self._run, clients]

    @cached_property
    def honest(self) -> OneFederation:
        """The same clients without an attack: for what they train and keep to themselves."""
        return OneFederation(self._fed, self._run, together=self._together, honest=True) if self._attack else self

    def with_model(self, model: Model, engine: str | Engine = "fused") -> OneFederation:
        """The same clients with another network, for questions about that."""
        fed = replace(self._fed, model=model, engine=engine, init_params=None)
        return OneFederation(fed, self._run, together=self._together, honest=self._attack is None)

    # --- what it learns from their messages

    def sum(self, messages: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """sum_k w_k m_k of one message from each client, [client, ...] -> [...]; all that the server learns of them."""
        require_answer(messages)
        messages = np.asarray(messages)
        if not self._fed.sums_are_plain:
            self._require_finite(messages, weights)  # by the clients themselves, before it is hidden
        if weights is None:
            total = self._fed.added(messages.astype(np.float64, copy=False))
        elif self._fed.sums_are_plain:
            flat = messages.reshape(len(messages), -1)
            total = _weighted(np.asarray(weights, np.float64), flat).reshape(messages.shape[1:])
        else:
            total = self._fed.added(np.asarray(weights, np.float64).reshape(-1, *[1] * (messages.ndim - 1)) * messages)
        if not np.isfinite(total).all():
            self._require_finite(messages, weights, total)
        return total

    def average(self, models: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        """sum_k w_k theta_k / sum_k w_k, both sums in one message: [client, P] -> [P]. One number weighs all alike."""
        require_answer(models)
        weights = np.asarray(weights, np.float64)
        if not weights.ndim:
            weights = np.full(len(models), weights)
        if self._fed.sums_are_plain:
            total, whole = self.sum(models, weights), weights.cumsum()[-1]
        else:
            self._require_finite(models, weights)
            both = self.sum(np.concatenate([weights[:, None] * models, weights[:, None]], axis=1))
            total, whole = both[:-1], both[-1:]
        return (total / whole).astype(models.dtype)

    # --- below

    def _require_finite(self, messages: np.ndarray, weights: np.ndarray | None, total: Any = None) -> None:
        """Says whose weight or message is not a finite number, or, with their total, that this is none."""
        if self._fed.diverged == "keep":
            return
        for what, values in (("weight", weights), ("message", messages)):
            wrong = ~np.isfinite(np.asarray([0.0] if values is None else values, np.float64))
            if wrong.any():
                place = int(wrong.reshape(len(wrong), -1).any(1).argmax())
                whose = f"client {self._asked[place]}" if len(self._asked) == len(wrong) else f"place {place}"
                said = f"The {what} of {whose} (seed {self.seed}) is not a finite number, so nothing can be summed: mend what "
                raise FairFLError(f"{said}the method makes of this client, or lower the learning rate if its loss grew.")
        if total is not None:
            raise FairFLError("A sum over clients is too large for a number: lower the weights, or the learning rate.")

    async def _score(self, params: Answer, clients: np.ndarray | None, on: str, each_model: bool, loss: bool
                     ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        clients = self._holders(clients, on)
        if not each_model:
            theta, model = self._models(params, clients)
            return await self._ask(("score", on, loss), clients, theta, model)
        theta = self._fed.checked(params, self._length, many=True)
        many, asked = len(theta), len(clients)
        counts, losses = await self._ask(
            ("score", on, loss), clients[None].repeat(many, 0).ravel(), theta, np.arange(many).repeat(asked)
        )
        return counts.reshape(many, asked, *counts.shape[1:]), losses.reshape(many, asked) if loss else losses

    async def _ask(self, kind: tuple[Any, ...], clients: np.ndarray, theta: np.ndarray, model: np.ndarray,
                   own: tuple[Any, ...] = ()) -> Any:  # fmt: skip
        clients = np.asarray(clients)
        if clients.ndim != 1 or (clients.dtype.kind not in "iu" and clients.size):
            raise FairFLError(f"Name clients by their numbers, as fed.sample_clients(t) does, not by {clients!r}.")
        self._asked = clients
        request = Request(self._fed, self._run, kind, clients, theta, model, own)
        if self._together:
            return await request
        return self._fed.answer([request])[0]

    def _models(self, params: Answer, clients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The models that are sent [model, P], and which of them each client takes, [client]."""
        if isinstance(params, Models):
            models, of = self._fed.checked(params.models, self._length, many=True), np.asarray(params.of)
            if of.dtype.kind not in "iu" or of.ndim != 1 or not 0 <= of.min(initial=0) <= of.max(initial=0) < len(models):
                raise FairFLError(f"Models.of must name one of {len(models)} models for each client.")
            if clients.size and clients.max() >= len(of):
                raise FairFLError(f"Models.of names models of {len(of)} clients, and client {clients.max()} is asked.")
            return models, of[clients]
        theta = self._fed.checked(params, self._length)
        if theta.ndim == 1:
            return theta[None], np.zeros(len(clients), np.int64)
        if len(theta) != len(clients):
            raise FairFLError(f"{len(clients)} clients are asked, and models were given for {len(theta)}: give one for all, or "
                              "one for each of them.")  # fmt: skip
        return theta, np.arange(len(clients))

    def _holders(self, clients: np.ndarray | None, on: str) -> np.ndarray:
        return np.arange(self._part(on).clients) if clients is None else clients

    def _part(self, on: str) -> Any:
        return self._fed.shards[choose(on, self._fed.shards, "part of the data")]

    def _sent(self, found: np.ndarray, given: np.ndarray, clients: np.ndarray, t: int) -> np.ndarray:
        assert self._attack is not None
        return self._attack.sent_model(self, given, found, clients, t)


@njit(cache=True, nogil=True)
def _added_up(weights: np.ndarray, messages: np.ndarray, total: np.ndarray) -> None:
    for p in range(messages.shape[1]):
        total[p] = weights[0] * messages[0, p]
    for k in range(1, messages.shape[0]):
        for p in range(messages.shape[1]):
            total[p] += weights[k] * messages[k, p]


def _weighted(weights: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """sum_k w_k m_k in double precision, one client after the other; messages [client, p]."""
    total = np.empty(messages.shape[1])
    _added_up(weights, messages, total)
    return total
