"""E2FL: a vote inside each group of clients, then one among the groups (Mozaffari and Houmansadr, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fairfl_lite.errors import choose
from fairfl_lite.federation import Answer, Method, Models, OneFederation, State
from fairfl_lite.methods.frl import supernet
from fairfl_lite.methods.groups import Groups, KnownGroups
from fairfl_lite.methods.vote import reputations, vote


@dataclass(frozen=True)
class E2FL(Method):
    """E2FL: a vote inside each group of clients, then one among the groups (Mozaffari and Houmansadr, Algorithm 1).

    ``R_g,q <- VOTE`` over the rankings of group q, ``R_g <- VOTE`` over the R_g,q: a client has one vote in its group, and a
    group one vote. All clients begin a round from R_g. The model of the federation is a `Supernet`. With one group this is
    FRL.

    Memory has "groups" of shape (n_groups, n_params), signed scores like the model; "seen", whether each group has voted; and
    "of", the group of each client. A known group that was never seen has the global model. The server reads every ranking and
    knows whose group it is of; it asks for no secure sum.

    Parameters
    ----------
    groups : Groups
        Who belongs where: `KnownGroups`, `RankClustering`, `LowestLossInference`, `OneShotInference` or
        `BinarySearchInference`.
    absent : {"keep", "skip"}
        "keep" lets a group of which nobody takes part in a round vote with the ranking it has, "skip" leaves it out; one that
        never took part has no vote.
    deploy : {"group", "global"}
        "group" answers with each client's group model, "global" with R_g, which the paper calls E2FL (GM).
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import E2FL, ClientTraining, Federation, Partition, Perceptron, Supernet, load
    >>> local, model = ClientTraining(lr=0.1), Supernet(Perceptron((3, 16, 2)))
    >>> fed = Federation.of(load("synthetic"), Partition.single_group(clients=(2, 2)), range(1), local, model=model)
    >>> history = fed.run(E2FL(), rounds=2)
    >>> history.state["of"][0]
    array([0, 0, 1, 1])
    """

    must_see = "every client's ranking and group"

    groups: Groups = field(default_factory=KnownGroups)
    absent: Literal["keep", "skip"] = "keep"
    deploy: Literal["group", "global"] = "group"
    name: str = "e2fl"

    def __post_init__(self) -> None:
        choose(self.absent, ("keep", "skip"), "way with absent groups named")
        choose(self.deploy, ("group", "global"), "model to deploy named")

    async def start(self, fed: OneFederation) -> State:
        supernet(fed)
        params = fed.init_params()
        begun = await self.groups.begin(fed, params)
        return State(params, {"groups": begun.models, "seen": np.zeros(len(begun.models), bool), "of": begun.of})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        model = supernet(fed)
        groups, seen, of = (state[name].copy() for name in ("groups", "seen", "of"))
        rankings: list[list[np.ndarray]] = [[] for _ in groups]
        for voters, group, rows in await self.groups.ballots(fed, self._models(state), fed.sample_clients(t), t):
            local = await fed.train(state.params, voters, t, rows=rows)
            for q, ranked in zip(group, reputations(model, local), strict=True):
                rankings[q].append(ranked)
            if rows is None:  # who votes in several groups stays in that of most of its rows
                of[voters] = group
        voted = {q: vote(model, own) for q, own in enumerate(rankings) if own}
        for q, own in voted.items():
            groups[q] = model.scored(own, state.params)
        if self.absent == "keep":
            rest = [int(q) for q in np.flatnonzero(seen) if q not in voted]
            voted |= dict(zip(rest, reputations(model, groups[rest]), strict=True))
        seen[list(voted)] = True
        params = model.scored(vote(model, voted.values()), state.params)
        if self.groups.follow:
            groups[~seen] = params
        return State(params, {"groups": groups, "seen": seen, "of": of})

    def answer(self, state: State) -> Answer:
        return self._models(state) if self.deploy == "group" else state.params

    async def settled(self, fed: OneFederation, state: State) -> State:
        """The state with every client in the group that it would choose now; inference asks only who takes part in a round.

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
        >>> fed.ask(lambda one: E2FL().settled(one, history.of_run(0)))[0]["of"]
        array([0, 0, 1, 1])
        """
        of = state["of"].copy()
        for voters, group, rows in await self.groups.ballots(fed, self._models(state), fed.all_clients, 0):
            if rows is None:
                of[voters] = group
        return replace(state, memory={**state.memory, "of": of})

    def _models(self, state: State) -> Models:
        return Models(state["groups"], state["of"])
