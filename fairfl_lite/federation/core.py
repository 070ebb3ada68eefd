"""A federation: the clients of every seed, their rows, and how they train.

What a method's server may ask of the clients of one seed is in one.OneFederation. Here is what all seeds share, and the answers:
requests of one kind, whoever they come from, become one list of replicas (one client of one run each) for one call of the engine,
and memory follows those who are asked. Randomness comes from named streams (seed, purpose, round, client), so results depend
neither on the order of calls nor on the number of threads, and methods compared on one seed share everything but themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from fairfl_lite import engines, streams
from fairfl_lite.clients import debias
from fairfl_lite.clients.attacks import Attack
from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.data.rotation import rotated
from fairfl_lite.data.shards import Examples, Pixels, Shards, Standard
from fairfl_lite.data.table import Table
from fairfl_lite.engines import Engine, Of, Work
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation.history import Histories, History, labels, listed
from fairfl_lite.federation.lockstep import Result, advance, run_together
from fairfl_lite.federation.one import OneFederation, Request, require_answer
from fairfl_lite.federation.state import ByGroup, Method, Models, require_method
from fairfl_lite.models import Dense, Model

if TYPE_CHECKING:
    from fairfl_lite.data import Images, Partition
    from fairfl_lite.errors import LostError
    from fairfl_lite.federation.over import SpreadFederation

Aggregate = Callable[[np.ndarray], np.ndarray]
FIRST = 8  # rows of a client by which models are compared first, see OneFederation.best_model


def plain_sum(messages: np.ndarray) -> np.ndarray:
    """Sum over clients in float64, [client, ...] -> [...]; the insecure aggregator."""
    return np.asarray(messages, np.float64).sum(axis=0)


@dataclass(frozen=True, eq=False)
class Federation:
    """The clients of every run, their rows, and how they train. A run is one seed.

    Usually made by `Federation.of` or `Federation.of_images`. A client without training rows takes no part in any round and
    weighs nothing.

    Parameters
    ----------
    shards : mapping of str to Shards
        The rows of the clients by part of the data: "train", "test" and what else there is.
    model : Model
        The network that is trained, see `fairfl_lite.models`.
    local : ClientTraining
        How a client trains.
    seeds : tuple of int
        One run for each.
    inputs : Standard or Pixels
        How a model reads a row.
    aggregate : callable
        How messages of those who take part are added up. `SecAgg` hides them from the server, and as many clients as it is
        made for take part in every run.
    engine : {"fused", "plain"} or Engine
        "fused" serves tabular models, RankFF's network and supernets by compiled code, and leaves other models to "plain",
        which is torch.
    participants : int
        How many clients take part in a round; 0 for all.
    init_params : ndarray of shape (n_params,), optional
        Where all runs start; at random if None.
    diverged : {"refuse", "keep"}
        What happens to a model that is not finite. "refuse" stops with a sentence. "keep" goes on, and the model has no
        prediction, no loss and so no metric.
    attack : Attack, optional
        What malicious clients make of the models and gradients that they send; all are honest if None.
    gone : mapping of int to int
        Clients that take no part any more, and from which round on: with ``{2: 5}`` client 2 takes part in rounds 1 to 4, and
        is as a client without rows from round 5 on.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FairFed, FedAvg, Federation, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), seeds=range(2), local=local)
    >>> fed.clients, fed.sizes().tolist()
    (3, [[1867, 1866, 1867], [1867, 1866, 1867]])

    The examples of the methods below go on from these lines.
    """

    shards: Mapping[str, Shards]
    model: Model
    local: ClientTraining
    seeds: tuple[int, ...]
    inputs: Standard | Pixels
    aggregate: Aggregate = plain_sum
    engine: str | Engine = "fused"
    participants: int = 0
    init_params: np.ndarray | None = None
    diverged: Literal["refuse", "keep"] = "refuse"
    attack: Attack | None = None
    gone: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: Table,
        partition: Partition,
        seeds: Sequence[int],
        local: ClientTraining,
        *,
        hidden: int = 0,
        model: Model | None = None,
        test: float = 0.2,
        validation: float = 0.0,
        minimum: int = 10,
        central: bool = False,
        **options: Any,
    ) -> Federation:
        """A federation of a table, which is split and dealt to clients once for each seed.

        Parameters
        ----------
        table : Table
            The rows. A table in another scaling than "standard" is used as it is.
        partition : Partition
            Who holds which row.
        seeds : sequence of int
            One run for each.
        local : ClientTraining
            How a client trains.
        hidden : int
            Units of the hidden layer of the model; 0 is logistic regression.
        model : Model, optional
            Another network than ``Dense(features, hidden)``.
        test, validation : float
            Which share of all rows is for testing, and which share of the others for validation. They go to clients in the
            training proportions.
        minimum : int
            How many training rows a client has at least, see `Partition.clients`.
        central : bool
            Keep test and validation rows whole at the server, as parts of one client.
        **options
            The further arguments of `Federation`: engine, participants, attack, aggregate, init_params, diverged.

        Returns
        -------
        Federation

        Examples
        --------
        >>> Federation.of(load("synthetic"), Partition.random(4), range(2), local, participants=2).one().sample_clients(1).size
        2
        """
        if not isinstance(table, Table):
            raise FairFLError(f"Federation.of takes a Table, not a {type(table).__name__}: make one of a DataFrame by "
                              "Table.from_frame(frame, label=..., sensitive=...).")  # fmt: skip
        seeds = _seeds(seeds)
        runs = []
        for seed in seeds:
            split = table.split(seed, test=test, validation=validation)
            held = {part: split.pop(part) for part in ("validation", "test") if central}
            dealt = partition.clients(table, split, seed, minimum) | {part: [rows] for part, rows in held.items()}
            runs.append({part: [rows.astype(np.int32) for rows in clients] for part, clients in dealt.items()})
        examples = Examples(table.X, table.y, table.a)
        shards = {part: Shards.deal(examples, [run[part] for run in runs]) for part in runs[0]}
        scaled = table.scaling == "standard"
        inputs = Standard.of(shards["train"]) if scaled else Standard.plain(len(seeds), table.X.shape[1])
        model = model or Dense(table.X.shape[1], hidden, classes=examples.classes)
        return cls(shards, model, local, seeds, inputs, **options)

    @classmethod
    def of_images(cls, images: Images, rotations: Sequence[float], seeds: Sequence[int], local: ClientTraining, model: Model, *,
                  train: int, test: int, validation: int = 0, probe: int = 0, look: int = 0, skip: int = 0,
                  **options: Any) -> Federation:  # fmt: skip
        """A federation with one client for each angle, whose images are turned by it.

        A client has `train` and `validation` of the training images and `test` of the test images. No image is with two
        clients, and they are drawn anew for each seed. Part "probe" is the first rows of "train" and part "look" the first of
        "test", for questions that are asked a hundred times over.

        Parameters
        ----------
        images : Images
            The images.
        rotations : sequence of float
            The angle of each client, in degrees.
        seeds : sequence of int
            One run for each.
        local : ClientTraining
            How a client trains.
        model : Model
            The network that is trained.
        train, test, validation : int
            How many images of each part a client has.
        probe, look : int
            How many rows of a client these parts have; all if 0.
        skip : int
            How many training images are left alone, from the first on.
        **options
            The further arguments of `Federation`.

        Returns
        -------
        Federation

        Examples
        --------
        >>> import numpy as np
        >>> from fairfl_lite import CNN, Images
        >>> pixels = np.zeros((60, 1, 28, 28), np.uint8)
        >>> images = Images("mnist", pixels, np.arange(60) % 10, train=40, digest="")
        >>> turned = Federation.of_images(images, [0, 90], range(1), local, CNN(), train=20, test=10)
        >>> turned.clients, turned.sizes().tolist()
        (2, [[20, 20]])
        """
        seeds = _seeds(seeds)
        shards = rotated(images, rotations, seeds, train=train, test=test, validation=validation, skip=skip)
        shards |= {"probe": shards["train"].head(probe or train), "look": shards["test"].head(look or test)}
        return cls(shards, model, local, seeds, Pixels.of(images.name), **options)

    def __post_init__(self) -> None:
        runs = len(self.seeds)
        _seeds(self.seeds)
        if "train" not in self.shards:
            raise FairFLError('A federation needs a part "train" in its shards.')
        if getattr(self._engine, "model", self.model) != self.model:
            raise FairFLError("The engine was made for another model: give engine=Plain(model), or its name.")
        choose(self.diverged, ("refuse", "keep"), "way with diverged runs named")
        for part, shards in self.shards.items():
            if len(shards.start) != runs:
                raise FairFLError(f"Part {part!r} has rows for {len(shards.start)} runs, and there are {runs} seeds.")
            self.inputs.check(part, shards.X, runs)
            if shards.examples.classes > self.model.classes:
                raise FairFLError(f"Labels of part {part!r} go up to {shards.examples.classes - 1}, but the model tells "
                                  f"{self.model.classes} classes apart: give it classes={shards.examples.classes}.")  # fmt: skip
        object.__setattr__(self, "shards", _alike(self.shards, self.model.classes))
        if getattr(self.model, "features", columns := self.shards["train"].X.shape[1]) != columns:
            raise FairFLError(f"The model reads rows of {self.model.features} features and there are {columns}.")  # type: ignore[attr-defined]
        if self.init_params is not None and (
            np.shape(self.init_params) != (self.model.size,) or not np.isfinite(self.init_params).all()
        ):
            other = np.shape(self.init_params) != (self.model.size,)
            found = f"of shape {np.shape(self.init_params)}" if other else "with NaN or infinite ones"
            raise FairFLError(f"The first model must be {self.model.size} finite numbers, not {found}.")
        if not isinstance(self.participants, int | np.integer):
            raise FairFLError(f"participants must be a whole number, not {self.participants!r}.")
        if not 0 <= self.participants <= self.clients:
            raise FairFLError(f"Of {self.clients} clients, {self.participants} cannot take part: 0 stands for all of them.")
        if not self.sizes().sum(1).all():
            raise FairFLError(f"Nobody has training rows in the run of seed {self.seeds[int(self.sizes().sum(1).argmin())]}.")
        if self.attack is not None:
            self.attack.check(self.sizes())
        for k, first in self.gone.items():
            if not all(isinstance(one, int | np.integer) for one in (k, first)) or not 0 <= k < self.clients or first < 0:
                raise FairFLError(f"gone tells of clients from 0 to {self.clients - 1} from which round on they take no part, as "
                                  f"in {{2: 5}}, and not {{{k!r}: {first!r}}}.")  # fmt: skip
        wanted = getattr(self.aggregate, "clients", 0)
        has = (self.sizes() > 0).sum(1)
        there = np.minimum(has, self.participants or has) if wanted else np.zeros(runs, int)
        for r in np.flatnonzero(there != wanted):
            raise FairFLError(f"In the run of seed {self.seeds[r]} {there[r]} clients take part, and the secure sum is over "
                              f"{wanted}: make SecAgg for as many, and a federation of their own for others.")  # fmt: skip

    def __repr__(self) -> str:
        train = self.shards["train"]
        own = {"participants": self.participants, "attack": self.attack, "engine": "" if self.engine == "fused" else self.engine,
               "aggregate": None if self.sums_are_plain else self.aggregate, "gone": dict(self.gone)}  # fmt: skip
        said = "".join(f", {name}={value!r}" for name, value in own.items() if value)
        return (f"Federation(seeds={listed(self.seeds)}, clients={self.clients}, rows={len(train.examples):,}, "
                f"model={self.model!r}, local={self.local!r}{said})")  # fmt: skip

    @cached_property
    def _engine(self) -> Engine:
        return engines.get(self.engine, self.model)

    @property
    def clients(self) -> int:
        """How many clients there are, those without training rows among them.

        Examples
        --------
        >>> fed.clients
        3
        """
        return self.shards["train"].clients

    def sizes(self) -> np.ndarray:
        """How many training rows each client has.

        Returns
        -------
        ndarray of int, shape (n_runs, n_clients)

        Examples
        --------
        >>> fed.sizes().sum(axis=1)
        array([5600, 5600])
        """
        return self.shards["train"].sizes

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
        >>> fed.require_rows("test")
        """
        shards = self._part(on)
        if shards.clients != self.clients or ((shards.sizes == 0) & (self.sizes() > 0)).any():
            raise FairFLError(f"Every client that trains needs rows in part {on!r}: deal it some, or ask about another part.")

    @overload
    def run(
        self,
        methods: Method,
        rounds: int,
        *,
        record: Sequence[str] = ...,
        remember: Sequence[str] = ...,
        eval_every: int = ...,
        checkpoint_dir: Path | str | None = ...,
        checkpoint_every: int = ...,
        progress: bool = ...,
    ) -> History: ...

    @overload
    def run(
        self,
        methods: Sequence[Method],
        rounds: int,
        *,
        record: Sequence[str] = ...,
        remember: Sequence[str] = ...,
        eval_every: int = ...,
        checkpoint_dir: Path | str | None = ...,
        checkpoint_every: int = ...,
        progress: bool = ...,
    ) -> Histories: ...

    def run(self, methods: Method | Sequence[Method], rounds: int, *, record: Sequence[str] = ("test",),
            remember: Sequence[str] = (), eval_every: int = 1, checkpoint_dir: Path | str | None = None,
            checkpoint_every: int = 1, progress: bool = False) -> History | Histories:  # fmt: skip
        """Rounds of a method on every seed, or of several methods on every seed at once.

        Parameters
        ----------
        methods : Method or sequence of Method
            What runs. Several methods advance together, and their answers do not depend on the company.
        rounds : int
            How many rounds.
        record : sequence of str
            Parts of the data on which what each method deploys is evaluated, as confusion counts.
        remember : sequence of str
            Entries of the methods' memory that are recorded too.
        eval_every : int
            Record only after every so many rounds, of which `rounds` is a multiple.
        checkpoint_dir : path, optional
            A folder. A run of the same method on the same federation goes on from what is kept there, to the same bytes as
            one that was never stopped.
        checkpoint_every : int
            Keep what was found after every so many rounds.
        progress : bool
            Show a bar.

        Returns
        -------
        History, or Histories by label for a sequence of methods

        Examples
        --------
        >>> fed.run(FedAvg(), rounds=2)
        History('fedavg', seeds=0,1, rounds=2, recorded on test)
        >>> runs = fed.run([FedAvg(), FairFed(beta=1)], rounds=3)
        >>> runs.values("acc").shape
        (2, 2, 3)
        """
        if isinstance(methods, type) or not isinstance(methods, Iterable):
            require_method(methods)
        several = [methods] if isinstance(methods, Method) else list(methods)
        named = labels(several)
        found = run_together(
            [(self, method) for method in several],
            rounds,
            record=record,
            remember=remember,
            eval_every=eval_every,
            checkpoint_dir=checkpoint_dir,
            checkpoint_every=checkpoint_every,
            progress=progress,
        )
        return found[0] if isinstance(methods, Method) else Histories(dict(zip(named, found, strict=True)))

    def over(self, cluster: Any, *, lost: Literal["stop", "leave out"] = "stop", patience: float = 600.0, security: Any = None,
             unprotected: bool = False) -> SpreadFederation:  # fmt: skip
        """The same federation, whose clients are with the workers of a Dask cluster.

        Each worker is given the rows of its clients, of nobody else, and keeps them. What a method asks travels as models; what
        comes back are models, counts, losses and gradients. Every run gives the same bits as here. Needs the extra "dask",
        unless `cluster` is a number.

        Parameters
        ----------
        cluster : str, distributed.Client or int
            The address of a Dask scheduler, or a client of it. A number is for trying things out: so many workers that are
            played in this process, with messages as they would travel.
        lost : {"stop", "leave out"}
            What happens when a worker ends, hangs, or differs from this process. "stop" ends the run with a sentence that names
            its clients. "leave out" goes on without them from that round on, which `History.gone` tells.
        patience : float
            Seconds after which a worker that does not answer counts as lost.
        security : distributed.Security, optional
            The certificates for an address that begins with ``tls://``, see `fairfl_lite.federation.certificates`.
        unprotected : bool
            Whether an address that others can reach may be plain. Whoever reaches a Dask scheduler can run code on all of its
            machines, so this is for a network where nobody else is.

        Returns
        -------
        SpreadFederation
            A federation. It is closed by its method ``close``, or at the end of a ``with`` block.

        Examples
        --------
        >>> import numpy as np
        >>> with fed.over(2) as spread:
        ...     found = spread.run(FedAvg(), rounds=3)
        >>> np.array_equal(found.answer, fed.run(FedAvg(), rounds=3).answer)
        True
        """
        from fairfl_lite.federation.over import spread

        return spread(self, cluster, lost=lost, patience=patience, security=security, unprotected=unprotected)

    def at(self, t: int) -> Federation:
        """The federation of a round: those who are gone by then have no rows.

        Parameters
        ----------
        t : int
            The number of the round; 0 is the start of a method.

        Returns
        -------
        Federation

        Examples
        --------
        >>> from dataclasses import replace
        >>> leaving = replace(fed, gone={2: 5})
        >>> leaving.at(4).sizes()[0].tolist(), leaving.at(5).sizes()[0].tolist()
        ([1867, 1866, 1867], [1867, 1866, 0])
        """
        away = tuple(sorted(int(k) for k, first in self.gone.items() if first <= t))
        if not away:
            return self
        if away not in self._without:
            stay = np.setdiff1d(np.arange(self.clients), away)
            shards = {part: held.only(stay) if held.clients == self.clients else held for part, held in self.shards.items()}
            self._without[away] = replace(self, shards=shards, gone={})
        return self._without[away]

    def after_losing(self, lost: LostError, t: int) -> Federation:
        """This federation when clients were lost in round t; here nobody can be."""
        return self

    @property
    def contents(self) -> dict[str, Any]:
        """All that a run depends on, by name; the same wherever the clients are."""
        return {one.name: getattr(self, one.name) for one in fields(Federation)}

    # --- what runs ask one at a time or together, see one.OneFederation and lockstep

    def one(self, seed: int | None = None) -> OneFederation:
        """The federation of one seed as a method sees it, for asking clients by hand, in a notebook.

        Parameters
        ----------
        seed : int, optional
            Which one; the first if None.

        Returns
        -------
        OneFederation
            What it is asked is awaited in a notebook or a method. In a script, `ask` does this for all seeds.

        Examples
        --------
        >>> fed.one(seed=1)
        OneFederation(n=3, seed=1, model=Dense(features=3, hidden=0, start='uniform', classes=2))
        """
        if seed is not None and seed not in self.seeds:
            raise FairFLError(f"There is no run of seed {seed}: the federation has {', '.join(map(str, self.seeds))}.")
        return OneFederation(self, 0 if seed is None else self.seeds.index(seed))

    def ask(self, question: Callable[..., Coroutine[Any, Any, Result]], *by_run: Any) -> list[Result]:
        """What a question gives for each seed, all of them asked at once.

        Parameters
        ----------
        question : callable
            Called with the `OneFederation` of each seed; gives a coroutine, as all questions to clients do.
        *by_run
            What goes with each run, such as the answers of a `History`; the callable takes one entry of each as a further
            argument.

        Returns
        -------
        list
            One answer for each seed.

        Examples
        --------
        >>> history = fed.run(FedAvg(), rounds=1)
        >>> losses = fed.ask(lambda one, model: one.losses(model), history.answer)
        >>> len(losses), losses[0].shape
        (2, (3,))
        """
        ones = [OneFederation(self, run, together=True) for run in range(len(self.seeds))]
        return advance([question(one, *(_of_run(value, run) for value in by_run)) for run, one in enumerate(ones)])

    @cached_property
    def together(self) -> tuple[Any, ...]:
        """What federations share whose requests can be answered in one call: rows, engine, and how models are read."""
        return (
            *((part, id(shards)) for part, shards in self.shards.items()),
            id(self.inputs),
            self.seeds,
            self._engine,
            self.diverged,
        )

    @property
    def sums_are_plain(self) -> bool:
        """Whether messages are added up in the open, without `SecAgg`."""
        return self.aggregate is plain_sum

    def added(self, messages: np.ndarray) -> np.ndarray:
        """The sum of messages over clients, by the aggregate.

        Parameters
        ----------
        messages : ndarray of shape (n_clients, ...)
            One message from each client.

        Returns
        -------
        ndarray of shape (...)
            NaN where the messages hold what diverged and is kept.
        """
        limit = np.inf if self.sums_are_plain else getattr(self.aggregate, "limit", np.inf)
        if self.diverged == "keep" and not (np.abs(messages) < limit).all():
            return np.full(messages.shape[1:], np.nan)
        return self.aggregate(messages)

    def checked(self, params: Any, size: int, *, many: bool = False) -> np.ndarray:
        """Models that can be asked or trained; others are refused.

        Parameters
        ----------
        params : ndarray of shape (n_params,) or (n_models, n_params)
            What a method sends.
        size : int
            How many parameters a model has.
        many : bool
            Only several models are taken, and not one.

        Returns
        -------
        ndarray
            ``params``, as they are.
        """
        require_answer(params)
        good = isinstance(params, np.ndarray) and params.dtype.kind == "f" and params.ndim in ((2,) if many else (1, 2))
        if not good or params.shape[-1] != size:
            wanted = f"[model, {size}]" if many else f"[{size}], or [client, {size}] for one of each client,"
            raise FairFLError(f"Models must be numbers of shape {wanted} and not of {np.shape(params)}.")
        return params

    def answer(self, requests: Sequence[Request]) -> list[Any]:
        """The answers to requests of one kind, in one call of the engine."""
        sent = requests[0].theta if len(requests) == 1 else np.concatenate([request.theta for request in requests])
        if self.diverged == "refuse" and not np.isfinite(sent).all():
            raise FairFLError(
                "A model that is not finite cannot be asked or trained: lower the learning rate, or set diverged='keep'."
            )
        kind, *options = requests[0].kind
        answers: dict[str, Callable[..., list[Any]]] = {
            "train": self._trained, "score": self._scored, "metric": self._measured, "best model": self._best,
            "logits": self._logits, "gradient": self._pulled, "counts": self._counted, "by group": self._by_group,
            "summary": self._summarised,
        }  # fmt: skip
        return answers[kind](requests, *options)

    def _trained(
        self, requests: Sequence[Request], local: ClientTraining, t: int, prepared: bool, anchored: bool
    ) -> list[np.ndarray]:
        work = self._prepared(requests) if prepared else self._asked(self.shards["train"], requests)
        given, model = _sent(requests)
        theta, places = given[model], _places(requests)
        lr = np.repeat([request.own[0] for request in requests], [len(request.clients) for request in requests])
        anchor = np.concatenate([request.own[2][0][request.own[2][1]] for request in requests]) if anchored else None
        keys = {run: streams.keys(self.seeds[run], "train", t, self.clients) for run in {request.run for request in requests}}
        key = np.concatenate([keys[request.run][request.clients] for request in requests])
        self._engine.train(work, theta, local, lr, key, anchor)
        self._refuse_diverged(requests, theta, t)
        return [theta[place] for place in places]

    def _refuse_diverged(self, requests: Sequence[Request], theta: np.ndarray, t: int) -> None:
        """Says whose model is not finite after training, unless that is kept."""
        if self.diverged == "refuse" and not (fine := np.isfinite(theta).all(1)).all():
            wrong = int(fine.argmin())
            whose = next(i for i, place in enumerate(_places(requests)) if wrong < place.stop)
            client = np.concatenate([request.clients for request in requests])[wrong]
            seed, lr = self.seeds[requests[whose].run], requests[whose].own[0]
            raise FairFLError(f"Client {client} of seed {seed} diverged in round {t}: its model is not finite, so lower its "
                              f"learning rate ({lr:g}).")  # fmt: skip

    def _scored(self, requests: Sequence[Request], on: str, loss: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        work, theta, model = self._asked(self._part(on), requests), *_sent(requests)
        fine = np.isfinite(theta).all(1) if self.diverged == "keep" else np.ones(len(theta), bool)
        if not fine.all():
            theta = np.where(fine[:, None], theta, 0)
        counts, losses = self._engine.score(work, theta, model, loss)
        if not fine.all():
            counts[~fine[model]] = 0
            if loss:
                losses[~fine[model]] = np.nan
        return [(counts[place], losses[place] if loss else losses) for place in _places(requests)]

    def _by_group(self, requests: Sequence[Request], on: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Every model was asked about all rows of every client; of each its own group is kept."""
        found = []
        for request, (counts, losses) in zip(requests, self._scored(requests, on, False), strict=True):
            groups = len(request.theta)
            found.append((np.einsum("akaij->kaij", counts.reshape(groups, -1, *counts.shape[1:])), losses))
        return found

    def _measured(self, requests: Sequence[Request], on: str, of: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        counts = np.concatenate([counts for counts, _ in self._scored(requests, on, False)])
        values = of(counts.reshape(-1, self._part(on).clients, *counts.shape[1:]).sum(1))
        return np.split(values, np.cumsum([len(request.theta) for request in requests])[:-1])

    def _logits(self, requests: Sequence[Request], on: str) -> list[list[np.ndarray]]:
        work = self._asked(self._part(on), requests)
        pieces = np.split(self._engine.logits(work, *_sent(requests)), work.ends[:-1])
        return [pieces[place] for place in _places(requests)]

    def _summarised(self, requests: Sequence[Request], on: str, of: Callable[..., np.ndarray]) -> list[np.ndarray]:
        work = self._asked(self._part(on), requests)
        logits, found = np.split(self._engine.logits(work, *_sent(requests)), work.ends[:-1]), []
        for z, start, stop in zip(logits, work.start, work.stop, strict=True):
            rows = work.index[start:stop]
            found.append(np.asarray(of(z, work.examples.y[rows], work.examples.a[rows])))
        return [np.stack(found[place]) for place in _places(requests)]

    def _pulled(self, requests: Sequence[Request], on: str, of: Of, t: int, batch: int) -> list[tuple[np.ndarray, np.ndarray]]:
        part = self._part(on)
        once = not batch and not part.weight.size and self._engine.counts(of)
        work = self._asked(
            part.distinct if once else replace(part, weight=part.weight[:0]) if part.weight.size else part, requests
        )
        if batch:
            keys = [streams.keys(self.seeds[r.run], "slopes", t, self.clients)[r.clients] for r in requests]
            work = self._drawn(work, np.concatenate(keys), batch)
        values, slopes = self._engine.pull(work, *_sent(requests), of)
        return [(values[place], slopes[place]) for place in _places(requests)]

    def _counted(self, requests: Sequence[Request], on: str) -> list[np.ndarray]:
        census = self._part(on).census()
        return [census[request.run, request.clients] for request in requests]

    def _best(self, requests: Sequence[Request], on: str, count: int) -> list[np.ndarray]:
        """As `losses` would have it, with most rows unread: no loss is negative, so a model is given up when its sum over the
        first rows of a client is above that of another one over all."""
        work, (theta, first) = self._asked(self._part(on), requests), _sent(requests)
        rows = work.rows
        sums, whole = np.zeros((len(rows), count)), np.full((len(rows), count), np.inf)
        racing = np.isfinite(theta).all(1)[first[:, None] + np.arange(count)]
        steps = [0, *(FIRST << k for k in range(64) if FIRST << k < rows.max(initial=0)), int(rows.max(initial=0))]

        def read(pairs: np.ndarray, low: int, high: int) -> None:
            i, q = np.nonzero(pairs & (rows > low)[:, None])
            start = work.start[i] + low
            part = replace(work, run=work.run[i], start=start, stop=np.minimum(start + high - low, work.stop[i]))
            found = self._engine.score(part, theta, first[i] + q, loss=True)[1]
            sums[i, q] += np.nan_to_num(found, nan=np.inf)

        for k, (low, high) in enumerate(pairwise(steps)):
            read(racing, low, high)
            if not k:  # the one that is ahead is read to the end
                ahead = racing & (np.arange(count) == np.where(racing, sums, np.inf).argmin(1)[:, None])
                for rest in pairwise(steps[1:]):
                    read(ahead, *rest)
                whole[ahead], racing = sums[ahead], racing & ~ahead
            racing &= sums <= whole.min(1)[:, None]
        whole[racing] = sums[racing]
        found = whole.argmin(1)
        return [found[place] for place in _places(requests)]

    def _asked(self, shards: Shards, requests: Sequence[Request]) -> Work:
        """The replicas of those who are asked, one after the other."""
        run = np.repeat([request.run for request in requests], [len(request.clients) for request in requests])
        clients = np.concatenate([request.clients for request in requests])
        _require_numbers(clients, shards)
        return Work(shards.examples, self.inputs, shards.index, shards.weight, run, shards.start[run, clients],
                    shards.start[run, clients + 1])  # fmt: skip

    def _prepared(self, requests: Sequence[Request]) -> Work:
        """The same on rows that clients debias before they train: what was made for the last requests is made once."""
        key = tuple((request.run, request.clients.tobytes(), request.own[1].key) for request in requests)
        made = self._made
        if key not in made:
            while len(made) > 2:
                made.pop(next(iter(made)))
            made[key] = debias.prepared(self._asked(self.shards["train"], requests), requests, self._balanced)
        return made[key]

    @cached_property
    def drawn(self) -> dict[tuple[int, int], np.ndarray]:
        """Who takes part, by run and round, as far as it was asked lately."""
        return {}

    @cached_property
    def _without(self) -> dict[tuple[int, ...], Federation]:
        return {}

    @cached_property
    def _made(self) -> dict[Any, Work]:
        return {}

    @cached_property
    def _balanced(self) -> debias.Balanced:
        return {}

    def _part(self, on: str) -> Shards:
        return self.shards[choose(on, self.shards, "part of the data")]

    def _drawn(self, work: Work, key: np.ndarray, batch: int) -> Work:
        """The same replicas on `batch` of their rows."""
        rows = [work.index[a:b][np.random.default_rng(k).permutation(b - a)[:batch]]
                for a, b, k in zip(work.start, work.stop, key, strict=True)]  # fmt: skip
        stop = np.cumsum([len(each) for each in rows])
        start = stop - [len(each) for each in rows]
        return replace(work, index=np.concatenate(rows), weight=work.weight[:0], start=start, stop=stop)


def _require_numbers(clients: np.ndarray, shards: Shards) -> None:
    if clients.size and not 0 <= clients.min() <= clients.max() < shards.clients:
        wrong = clients[(clients < 0) | (clients >= shards.clients)][0]
        raise FairFLError(f"Clients are numbered from 0 to {shards.clients - 1}, and client {wrong} is asked.")


def _of_run(value: Any, run: int) -> Any:
    return type(value)(*(part[run] for part in value)) if isinstance(value, Models | ByGroup) else value[run]


def _places(requests: Sequence[Request]) -> list[slice]:
    """Where the clients of each request stand when those of all are laid side by side."""
    ends = np.cumsum([len(request.clients) for request in requests]).tolist()
    return [slice(end - len(request.clients), end) for end, request in zip(ends, requests, strict=True)]


def _sent(requests: Sequence[Request]) -> tuple[np.ndarray, np.ndarray]:
    """All models that are sent [model, P], and which of them each client takes."""
    if len(requests) == 1:
        return requests[0].theta, requests[0].model
    first = np.cumsum([0, *(len(request.theta) for request in requests[:-1])])
    model = np.concatenate([request.model for request in requests])
    return np.concatenate([request.theta for request in requests]), model + first.repeat([len(r.model) for r in requests])


def _alike(parts: Mapping[str, Shards], classes: int) -> Mapping[str, Shards]:
    """The parts with as many classes as the model tells apart, so that all counts have one shape; examples stay shared."""
    made: dict[int, Examples] = {}
    found = {}
    for name, part in parts.items():
        examples = part.examples
        if examples.classes != classes:
            examples = made.setdefault(id(examples), replace(examples, classes=classes))
        found[name] = part if examples is part.examples else replace(part, examples=examples)
    return found


def _seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    seeds = tuple(seeds)
    if not seeds or not all(isinstance(seed, int | np.integer) and seed >= 0 for seed in seeds):
        raise FairFLError(f"A federation needs seeds, whole numbers of at least 0, not {seeds}.")
    return seeds
