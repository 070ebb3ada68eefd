"""IFCA: one model for each group, and every client trains the one that suits it best (Ghosh et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Answer, Method, Models, OneFederation, State
from fairfl_lite.methods.settings import require_whole


@dataclass(frozen=True)
class IFCA(Method):
    """IFCA: one model for each group, and every client trains the one that suits it best (Ghosh et al., 2020).

    Each of those who take part trains ``argmin_q`` of the loss on its training rows, and theta_q <- the mean of the models
    that were trained from theta_q; a model that nobody chose stays. Memory has "models" of shape (n_groups, n_params) and
    "of", the model that each client last chose; params is the mean of the models. The server must see which model each client
    trained, because it averages within the groups that these choices make.

    Parameters
    ----------
    count : int
        How many models there are. ``count=1`` is FedAvg of clients that weigh alike.
    known : bool
        Clients take the model of the group of their rows (of most of them) instead, and all models begin alike; otherwise
        each begins at random by itself.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import IFCA, ClientTraining, Federation, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.single_group(clients=(2, 2)), range(1), local)
    >>> history = fed.run(IFCA(2, known=True), rounds=2)
    >>> history.state["of"][0]
    array([0, 0, 1, 1])
    """

    must_see = "which model each client trained, to average within groups"

    count: int
    known: bool = False
    name: str = "ifca"

    def __post_init__(self) -> None:
        require_whole("IFCA.count", self.count)

    async def start(self, fed: OneFederation) -> State:
        if not self.known:
            models = np.stack([fed.model.init(fed.rng("start", q)) for q in range(self.count)])
            return self._state(models, np.zeros(fed.n, np.int64))
        of = (await fed.group_label_counts(np.arange(fed.n))).sum(2).argmax(1)
        if of.max() >= self.count:
            raise FairFLError(
                f"IFCA has {self.count} models, and clients belong to {of.max() + 1} groups: give count={of.max() + 1}."
            )
        return self._state(np.repeat(fed.init_params()[None], self.count, axis=0), of)

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, models, of = fed.sample_clients(t), state["models"].copy(), state["of"].copy()
        of[clients] = chosen = await self._chosen(fed, state, clients)
        local = await fed.train(models[chosen], clients, t)
        for q in np.unique(chosen):
            models[q] = local[chosen == q].mean(0, dtype=np.float64)
        return self._state(models, of)

    async def settled(self, fed: OneFederation, state: State) -> State:
        """The state with every client at the model that it would choose now.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.
        state : State
            What a round made.

        Returns
        -------
        State

        Examples
        --------
        >>> fed.ask(lambda one: IFCA(2, known=True).settled(one, history.of_run(0)))[0]["of"]
        array([0, 0, 1, 1])
        """
        of = state["of"].copy()
        of[fed.all_clients] = await self._chosen(fed, state, fed.all_clients)
        return self._state(state["models"], of)

    def answer(self, state: State) -> Answer:
        return Models(state["models"], state["of"])

    async def _chosen(self, fed: OneFederation, state: State, clients: np.ndarray) -> np.ndarray:
        """The model that each of them takes, [client]."""
        return state["of"][clients] if self.known else await fed.best_model(state["models"], clients)

    def _state(self, models: np.ndarray, of: np.ndarray) -> State:
        return State(models.mean(0), {"models": models, "of": of})
