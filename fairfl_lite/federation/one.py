"""What a method sees: the clients of one federation under one seed, and what may be asked of them.

Every array leads with the clients that were asked, in the order in which they were named. A question is awaited, because the
server waits for its clients: `await fed.losses(params, clients)`. Beside a run there may be many others, of other
seeds, settings and methods; what one of them asks is answered together with what the others ask (see lockstep), and none of
them can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
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
from fairfl_lite.federation.state import Answer, ByGroup, Models

if TYPE_CHECKING:
    from fairfl_lite.clients.debias import TrainingRows
    from fairfl_lite.federation.core import Federation
    from fairfl_lite.models import Model


def require_answer(value: Any) -> None:
    """Refuses a question where its answer should be."""
    if type(value) is CoroutineType:
        value.close()
        raise FairFLError(f"The answer to {value.__name__} was not awaited: write `await` before the question to the clients.")


@dataclass(eq=False, slots=True)
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
    """The clients of one federation under one seed, as a method's server sees them.

    `Federation.run` hands it to a method, and `Federation.one` gives it to you. A question to clients is awaited, as in
    ``await fed.losses(params, clients)``; in a script `Federation.ask` does this. Arrays begin with an axis of the clients
    that were named, in the order in which they were named.

    Attributes
    ----------
    n : int
        How many clients there are; they are numbered from 0.
    seed : int
        The seed of the run.
    model : Model
        The network that is trained.
    local : ClientTraining
        How clients train.
    participants : int
        How many clients take part in a round, 0 for all.
    remembered : dict
        What was worked out for these clients and does not change, see `Debias`.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import ClientTraining, Federation, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(1), local, participants=2)
    >>> one, zeros = fed.one(), np.zeros(4, np.float32)
    >>> one.n, one.seed
    (3, 0)

    The examples of the methods below go on from these lines.
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

    @property
    def federation(self) -> Federation:
        """The federation of all seeds.

        Examples
        --------
        >>> one.federation is fed
        True
        """
        return self._fed

    # --- what the server knows

    @cached_property
    def all_clients(self) -> np.ndarray:
        """The clients that have training rows, in ascending order. Others take no part in anything.

        Examples
        --------
        >>> one.all_clients
        array([0, 1, 2])
        """
        return np.flatnonzero(self._sizes)

    def sample_clients(self, t: int) -> np.ndarray:
        """Who takes part in a round.

        They are drawn without replacement from the clients with training rows, as many as `participants` says. All methods of
        a seed have the same clients in the same round.

        Parameters
        ----------
        t : int
            The number of the round, from 1.

        Returns
        -------
        ndarray of int, shape (n_participants,)
            Numbers of clients, in ascending order.

        Examples
        --------
        >>> one.sample_clients(1).shape
        (2,)
        """
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
        """How many training rows each of these clients has, n_k.

        Parameters
        ----------
        clients : ndarray of int, shape (n_clients,)
            Whom it is about.

        Returns
        -------
        ndarray of int, shape (n_clients,)

        Examples
        --------
        >>> one.sizes(one.all_clients)
        array([1867, 1866, 1867])
        """
        return self._sizes[clients]

    def shares(self, clients: np.ndarray) -> np.ndarray:
        """Which share of the training rows of all that are named each of these clients has, n_k / n.

        Parameters
        ----------
        clients : ndarray of int, shape (n_clients,)
            Whom it is about.

        Returns
        -------
        ndarray of shape (n_clients,)
            They add up to 1.

        Examples
        --------
        >>> one.shares(one.all_clients).round(2)
        array([0.33, 0.33, 0.33])
        """
        return _parts(self._sizes[clients])

    def by_client(self, values: np.ndarray, clients: np.ndarray, others: Any = 0.0) -> np.ndarray:
        """Values of some clients in their places among all clients.

        Parameters
        ----------
        values : ndarray of shape (n_clients, ...)
            One value for each of the clients that are named.
        clients : ndarray of int, shape (n_clients,)
            Whose they are.
        others : scalar
            What the rest get.

        Returns
        -------
        ndarray of shape (n, ...)

        Examples
        --------
        >>> one.by_client(np.array([0.3, 0.7]), np.array([0, 2]))
        array([0.3, 0. , 0.7])
        """
        values = np.asarray(values)
        out = np.empty((self.n, *values.shape[1:]), np.result_type(values, type(others)))
        out.fill(others)
        out[clients] = values
        return out

    def rng(self, purpose: str, t: int = 0) -> np.random.Generator:
        """A stream of random numbers that depends on the seed, a purpose and a round alone.

        Parameters
        ----------
        purpose : str
            What it is for; other words give independent numbers.
        t : int
            The number of the round.

        Returns
        -------
        numpy.random.Generator

        Examples
        --------
        >>> one.rng("coin", 1).random() == one.rng("coin", 1).random()
        True
        """
        return streams.stream(self.seed, purpose, t)

    def init_params(self) -> np.ndarray:
        """The server's first model.

        Returns
        -------
        ndarray of shape (n_params,)

        Examples
        --------
        >>> one.init_params().shape
        (4,)
        """
        first = self._fed.init_params
        if first is None:
            return self.model.init(self.rng("start"))
        return np.array(first, np.float64 if np.asarray(first).dtype == np.float64 else np.float32)

    def holders(self, on: str) -> int:
        """Among how many the rows of a part of the data are dealt.

        Parameters
        ----------
        on : str
            The part.

        Returns
        -------
        int
            0 where there is no such part, and 1 where the server keeps it.

        Examples
        --------
        >>> one.holders("test"), one.holders("elsewhere")
        (3, 0)
        """
        return self._fed.shards[on].clients if on in self._fed.shards else 0

    def rows_of(self, on: str) -> np.ndarray:
        """How many rows of a part of the data each of its holders has.

        Parameters
        ----------
        on : str
            The part.

        Returns
        -------
        ndarray of int, shape (n_holders,)

        Examples
        --------
        >>> one.rows_of("test")
        array([467, 466, 467])
        """
        return self._part(on).sizes[self._run]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the data that rows are dealt to.

        Examples
        --------
        >>> one.parts
        ('train', 'validation', 'test')
        """
        return tuple(self._fed.shards)

    @property
    def secure(self) -> bool:
        """Whether the server learns sums alone.

        Examples
        --------
        >>> one.secure
        False
        """
        return not self._fed.sums_are_plain

    def require_rows(self, on: str) -> None:
        """Refuses a part of the data in which a client that takes part has no rows to be asked about.

        Parameters
        ----------
        on : str
            The part.

        Raises
        ------
        FairFLError
            If a client with training rows has none in this part.

        Examples
        --------
        >>> one.require_rows("test")
        """
        self._fed.require_rows(on)

    # --- what it asks

    async def train(self, params: np.ndarray, clients: np.ndarray, t: int, *, rows: TrainingRows | None = None,
                    local: ClientTraining | None = None, toward: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
        """Local training of some clients.

        Parameters
        ----------
        params : ndarray of shape (n_params,) or (n_clients, n_params)
            Where they start: one model for all, or one for each.
        clients : ndarray of int, shape (n_clients,)
            Who trains.
        t : int
            The number of the round, from 1, on which the learning rate and the order of rows depend.
        rows : TrainingRows, optional
            How clients debias their training rows, see `Debias.training_rows`.
        local : ClientTraining, optional
            Another training than the federation's.
        toward : ndarray of shape (n_params,) or (n_clients, n_params), optional
            The anchor of its proximal term; the model that was given if None.

        Returns
        -------
        ndarray of shape (n_clients, n_params)
            The models after training; of a malicious client what it sends instead, see `Attack`.

        Examples
        --------
        >>> fed.ask(lambda one: one.train(zeros, one.all_clients, 1))[0].shape
        (3, 4)
        """
        given, model = self._models(params, clients)
        local = local or self.local
        anchor = None if toward is None else self._models(toward, clients)
        kind = ("train", local.whatever_rate, t, rows is not None, anchor is not None)
        found = await self._ask(kind, clients, given, model, (local.rate(t), rows, anchor))
        return self._sent(found, given[model], clients, t) if self._attack else found

    async def confusion(self, params: Answer, clients: np.ndarray | None = None, on: str = "train", *, each_model: bool = False
                        ) -> np.ndarray:  # fmt: skip
        """Confusion counts of a model on the clients' rows.

        Parameters
        ----------
        params : ndarray of shape (n_params,) or (n_clients, n_params), or Models, or ByGroup
            One model for all, one for each client, several that clients share, or one for each group of rows.
        clients : ndarray of int, shape (n_clients,), optional
            Who is asked; all holders of the part if None.
        on : str
            The part of the data.
        each_model : bool
            Ask every client about every model of `params`, of shape (n_models, n_params).

        Returns
        -------
        ndarray of int, shape (n_clients, n_groups, n_classes, n_classes)
            Rows by group, label and prediction; with `each_model` an axis of models comes first.

        Examples
        --------
        >>> fed.ask(lambda one: one.confusion(zeros, on="test"))[0].shape
        (3, 2, 2, 2)
        """
        counts, _ = await self._answer(self._scoring(params, clients, on, each_model))
        return counts.reshape(len(params), -1, *counts.shape[1:]) if each_model else counts

    async def losses(self, params: Answer, clients: np.ndarray | None = None, on: str = "train", *, each_model: bool = False
                     ) -> np.ndarray:  # fmt: skip
        """Mean log loss of a model on the rows of each client.

        Parameters
        ----------
        params : ndarray of shape (n_params,) or (n_clients, n_params), or Models
            One model for all, one for each client, or several that clients share.
        clients : ndarray of int, shape (n_clients,), optional
            Who is asked; all holders of the part if None.
        on : str
            The part of the data.
        each_model : bool
            Ask every client about every model of `params`, of shape (n_models, n_params).

        Returns
        -------
        ndarray of shape (n_clients,), or (n_models, n_clients) with `each_model`
            NaN for a client without rows in the part.

        Examples
        --------
        >>> fed.ask(lambda one: one.losses(zeros))[0].round(3)
        array([0.693, 0.693, 0.693])
        """
        counts, losses = await self._answer(self._scoring(params, clients, on, each_model, loss=True))
        with np.errstate(invalid="ignore", divide="ignore"):
            losses = losses / counts.sum(axis=(-3, -2, -1))
        return losses.reshape(len(params), -1) if each_model else losses

    async def metric(self, models: np.ndarray, of: Callable[[np.ndarray], np.ndarray], on: str) -> np.ndarray:
        """A metric of each of several models on all rows of a part, whoever holds them.

        Parameters
        ----------
        models : ndarray of shape (n_models, n_params)
            The models.
        of : callable
            Called with confusion counts of shape (..., n_groups, n_classes, n_classes) of any number of models. Runs that ask
            with an equal one are answered in one call of it.
        on : str
            The part of the data.

        Returns
        -------
        ndarray of shape (n_models,)

        Examples
        --------
        >>> from fairfl_lite import metrics
        >>> fed.ask(lambda one: one.metric(zeros[None], metrics.accuracy, "test"))[0].shape
        (1,)
        """
        request = self._scoring(models, None, on, each_model=True)
        request.kind = ("metric", on, of)
        return await self._answer(request)

    async def best_model(self, models: np.ndarray, clients: np.ndarray, on: str = "train") -> np.ndarray:
        """Which of several models has the lowest mean log loss on the rows of each client.

        Parameters
        ----------
        models : ndarray of shape (n_models, n_params)
            The models.
        clients : ndarray of int, shape (n_clients,)
            Who is asked.
        on : str
            The part of the data.

        Returns
        -------
        ndarray of int, shape (n_clients,)
            Numbers of models; of equals the first.

        Examples
        --------
        >>> models = np.array([zeros, [0, 0, 0, 9]], np.float32)
        >>> fed.ask(lambda one: one.best_model(models, one.all_clients))[0]
        array([0, 0, 0])
        """
        models = self._fed.checked(models, self._length, many=True)
        return await self._ask(("best model", on, len(models)), clients, models, np.zeros(len(clients), np.int64))

    async def logits(self, params: Answer, clients: np.ndarray | None = None, on: str = "train") -> list[np.ndarray]:
        """The logits of the rows of each client, in the order of its rows.

        Parameters
        ----------
        params : ndarray of shape (n_params,) or (n_clients, n_params), or Models
            One model for all, one for each client, or several that clients share.
        clients : ndarray of int, shape (n_clients,), optional
            Who is asked; all holders of the part if None.
        on : str
            The part of the data.

        Returns
        -------
        list of ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            One array for each client.

        Examples
        --------
        >>> [found.shape for found in fed.ask(lambda one: one.logits(zeros, on="test"))[0]]
        [(467,), (466,), (467,)]
        """
        clients = self._holders(clients, on)
        theta, model = self._models(params, clients)
        return await self._ask(("logits", on), clients, theta, model)

    async def summaries(self, params: Answer, clients: np.ndarray, of: Callable[[np.ndarray, np.ndarray, np.ndarray], Any],
                        on: str = "train") -> np.ndarray:  # fmt: skip
        """Whatever each client works out from the logits, labels and groups of its rows.

        Parameters
        ----------
        params : ndarray of shape (n_params,) or (n_clients, n_params), or Models
            One model for all, one for each client, or several that clients share.
        clients : ndarray of int, shape (n_clients,)
            Who is asked.
        of : callable
            Called with logits, labels and groups of a client's rows, as arrays; gives numbers of one shape for every client,
            also for one without rows. Runs that ask with an equal one are answered together.
        on : str
            The part of the data.

        Returns
        -------
        ndarray of shape (n_clients, ...)

        Examples
        --------
        >>> def largest(logits, y, a):
        ...     return logits.max(initial=0)
        >>> fed.ask(lambda one: one.summaries(zeros, one.all_clients, largest))[0]
        array([0., 0., 0.], dtype=float32)
        """
        theta, model = self._models(params, clients)
        return await self._ask(("summary", on, of), clients, theta, model)

    async def value_and_gradient(self, params: Answer, clients: np.ndarray, of: Of = mean_loss, *, on: str = "train", t: int = 0,
                                 batch: int = 0) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Any function of the logits of a client's rows, and its gradient by the parameters.

        Parameters
        ----------
        params : ndarray of shape (n_params,) or (n_clients, n_params), or Models
            One model for all, one for each client, or several that clients share.
        clients : ndarray of int, shape (n_clients,)
            Who is asked.
        of : callable
            Called with logits, labels and groups of a client's rows, as torch tensors; gives one value, or a vector. By
            default the mean log loss.
        on : str
            The part of the data.
        t : int
            The round for which a batch is drawn.
        batch : int
            How many rows of each client are drawn; 0 for all of them.

        Returns
        -------
        values : ndarray of shape (n_clients,), or (n_clients, n_values) for a vector
            NaN for a client without rows.
        gradients : ndarray of shape (n_clients, n_params), or (n_clients, n_values, n_params) for a vector
            0 for a client without rows.

        Examples
        --------
        >>> loss, slope = fed.ask(lambda one: one.value_and_gradient(zeros, one.all_clients))[0]
        >>> loss.round(3), slope.shape
        (array([0.693, 0.693, 0.693]), (3, 4))
        """
        if not isinstance(batch, int | np.integer) or batch < 0:
            raise FairFLError(f"batch must be a whole number of at least 0, not {batch!r}.")
        theta, model = self._models(params, clients)
        values, slopes = await self._ask(("gradient", on, of, t, int(batch)), clients, theta, model)
        slopes = self._attack.sent(self, slopes, clients, t) if self._attack else slopes
        return (values[:, 0], slopes[:, 0]) if values.shape[1] == 1 else (values, slopes)

    async def group_label_counts(self, clients: np.ndarray, on: str = "train") -> np.ndarray:
        """How many rows of each group and label each client has.

        Parameters
        ----------
        clients : ndarray of int, shape (n_clients,)
            Who is asked.
        on : str
            The part of the data.

        Returns
        -------
        ndarray of int, shape (n_clients, n_groups, n_labels)

        Examples
        --------
        >>> fed.ask(lambda one: one.group_label_counts(one.all_clients))[0].shape
        (3, 2, 2)
        """
        self._part(on)
        nothing = np.empty((1, 0), np.float32)
        return await self._ask(("counts", on), clients, nothing, np.zeros(len(clients), np.int64))

    @cached_property
    def honest(self) -> OneFederation:
        """The same clients without an attack, for what they train and keep to themselves.

        Examples
        --------
        >>> one.honest is one
        True
        """
        return OneFederation(self._fed, self._run, together=self._together, honest=True) if self._attack else self

    def with_model(self, model: Model, engine: str | Engine = "fused") -> OneFederation:
        """The same clients with another network, for questions about that.

        Parameters
        ----------
        model : Model
            The network.
        engine : {"fused", "plain"} or Engine
            What computes, see `Federation`.

        Returns
        -------
        OneFederation

        Examples
        --------
        >>> from fairfl_lite import Dense
        >>> one.with_model(Dense(3, hidden=4)).init_params().shape
        (21,)
        """
        fed = replace(self._fed, model=model, engine=engine, init_params=None)
        return OneFederation(fed, self._run, together=self._together, honest=self._attack is None)

    # --- what it learns from their messages

    def sum(self, messages: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """The sum of one message from each client, and all that the server learns of them.

        ``sum_k w_k m_k``, in double precision.

        Parameters
        ----------
        messages : ndarray of shape (n_clients, ...)
            One message from each client.
        weights : ndarray of shape (n_clients,), optional
            What each of them weighs; 1 if None.

        Returns
        -------
        ndarray of shape (...)

        Examples
        --------
        >>> one.sum(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 1.0]))
        array([3.5, 5. ])
        """
        require_answer(messages)
        messages = np.asarray(messages)
        if not self._fed.sums_are_plain:
            self._require_finite(messages, weights)  # by the clients themselves, before it is hidden
        if weights is None:
            total = self._fed.added(messages.astype(np.float64, copy=False))
        elif self._fed.sums_are_plain:
            flat = messages.reshape(len(messages), -1)
            total, finite = _weighted(np.asarray(weights, np.float64), flat)
            total = total.reshape(messages.shape[1:])
            if finite:
                return total
        else:
            total = self._fed.added(np.asarray(weights, np.float64).reshape(-1, *[1] * (messages.ndim - 1)) * messages)
        if not np.isfinite(total).all():
            self._require_finite(messages, weights, total)
        return total

    def average(self, models: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
        """The weighted average of one model from each client, with both sums in one message.

        ``sum_k w_k theta_k / sum_k w_k``.

        Parameters
        ----------
        models : ndarray of shape (n_clients, n_params)
            One model from each client.
        weights : ndarray of shape (n_clients,), or float
            What each of them weighs. One number weighs all alike.

        Returns
        -------
        ndarray of shape (n_params,)

        Examples
        --------
        >>> one.average(np.array([[1.0, 2.0], [3.0, 6.0]]), np.array([3, 1]))
        array([1.5, 3. ])
        """
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

    def _scoring(self, params: Answer, clients: np.ndarray | None, on: str, each_model: bool = False, *, loss: bool = False
                ) -> Request:  # fmt: skip
        """The question for confusion counts, and with `loss` sums of log losses; with `each_model` one model after another."""
        clients = self._holders(clients, on)
        if isinstance(params, ByGroup) and not each_model:
            return self._by_group(params, clients, on, loss)
        if not each_model:
            return self._request(("score", on, loss), clients, *self._models(params, clients))
        theta = self._fed.checked(params, self._length, many=True)
        many, asked = len(theta), len(clients)
        return self._request(("score", on, loss), clients[None].repeat(many, 0).ravel(), theta, np.arange(many).repeat(asked))

    def _by_group(self, params: ByGroup, clients: np.ndarray, on: str, loss: bool) -> Request:
        """The question for confusion counts where the group of a row decides which model it is given."""
        if loss:
            raise FairFLError("A model for each group of rows makes decisions: ask for its confusion counts, not its losses.")
        theta, groups = self._fed.checked(params.models, self._length, many=True), self._part(on).examples.groups
        if len(theta) != groups:
            raise FairFLError(f"ByGroup needs a model for each of {groups} groups, and has {len(theta)}.")
        many = len(clients)
        return self._request(("by group", on), clients[None].repeat(groups, 0).ravel(), theta, np.arange(groups).repeat(many))

    def _request(self, kind: tuple[Any, ...], clients: np.ndarray, theta: np.ndarray, model: np.ndarray,
                 own: tuple[Any, ...] = ()) -> Request:  # fmt: skip
        clients = np.asarray(clients)
        if clients.ndim != 1 or (clients.dtype.kind not in "iu" and clients.size):
            raise FairFLError(f"Name clients by their numbers, as fed.sample_clients(t) does, not by {clients!r}.")
        self._asked = clients
        return Request(self._fed, self._run, kind, clients, theta, model, own)

    async def _ask(self, kind: tuple[Any, ...], clients: np.ndarray, theta: np.ndarray, model: np.ndarray,
                   own: tuple[Any, ...] = ()) -> Any:  # fmt: skip
        return await self._answer(self._request(kind, clients, theta, model, own))

    async def _answer(self, request: Request) -> Any:
        return (await request) if self._together else self._fed.answer([request])[0]

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
        shards = self._fed.shards
        return shards[on if on in shards else choose(on, shards, "part of the data")]

    def _sent(self, found: np.ndarray, given: np.ndarray, clients: np.ndarray, t: int) -> np.ndarray:
        assert self._attack is not None
        return self._attack.sent_model(self, given, found, clients, t)


@njit(cache=True, nogil=True)
def _weighted(weights: np.ndarray, messages: np.ndarray) -> tuple[np.ndarray, bool]:
    """sum_k w_k m_k in double precision, one client after the other, and whether it is finite; messages [client, p]."""
    total, finite = np.empty(messages.shape[1]), True
    for p in range(messages.shape[1]):
        total[p] = weights[0] * messages[0, p]
    for k in range(1, messages.shape[0]):
        for p in range(messages.shape[1]):
            total[p] += weights[k] * messages[k, p]
    for p in range(messages.shape[1]):
        finite &= np.isfinite(total[p])
    return total, finite


@njit(cache=True, nogil=True, error_model="numpy")
def _parts(sizes: np.ndarray) -> np.ndarray:
    """What part of their sum each of whole numbers is."""
    return sizes / sizes.sum()
