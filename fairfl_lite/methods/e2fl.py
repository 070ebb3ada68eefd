"""E2FL: a vote inside each group of clients, then one among the groups (Mozaffari and Houmansadr, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fairfl_lite.errors import choose
from fairfl_lite.federation import Answer, Federation, Method, Models, State, scatter
from fairfl_lite.methods.frl import supernet
from fairfl_lite.methods.groups import Groups, Known
from fairfl_lite.methods.vote import reputations, vote


@dataclass(frozen=True, eq=False)
class E2FL(Method):
    """R_g,q <- VOTE over the rankings of group q, R_g <- VOTE over the R_g,q: a client has one vote in its group, and a group
    one vote. All clients begin a round from R_g.

    groups : who belongs where, known or inferred (see groups). absent : "keep" lets a group of which nobody takes part in a
        round vote with the ranking it has, "skip" leaves it out; one that never took part has no vote.
    deploy : "group" answers with each client's group model, "global" with R_g, which the paper calls E2FL (GM).

    Memory: "groups" [run, group, P], signed scores like the model; "seen" [run, group], who has voted; "of" [run, client].
    A known group that was never seen has the global model. With one group this is FRL. The server reads every ranking and knows
    whose group it is of; it asks for no secure sum.
    """

    must_see = "every client's ranking and group"

    groups: Groups = field(default_factory=Known)
    absent: Literal["keep", "skip"] = "keep"
    deploy: Literal["group", "global"] = "group"
    name: str = "e2fl"

    def __post_init__(self) -> None:
        choose(self.absent, ("keep", "skip"), "way with absent groups named")
        choose(self.deploy, ("group", "global"), "model to deploy named")

    def start(self, fed: Federation) -> State:
        supernet(fed)
        params = fed.start()
        begun = self.groups.begin(fed, params)
        seen = np.zeros(begun.models.shape[:2], bool)
        return State(params, {"groups": begun.models, "seen": seen, "of": begun.of})

    def round(self, fed: Federation, state: State, t: int) -> State:
        model, who = supernet(fed), fed.who(t)
        groups, seen, of = (state[name].copy() for name in ("groups", "seen", "of"))
        ballots: list[list[list[np.ndarray]]] = [[[] for _ in run] for run in groups]
        for members, rows in self.groups.ballots(fed, self._models(state), who, t):
            local = fed.train(state.params, t, who=np.where(members >= 0, who, -1), on=rows)
            for r, own in enumerate(members):
                voters = np.flatnonzero(own >= 0)
                for i, ranked in zip(voters, reputations(model, local[r, voters]), strict=True):
                    ballots[r][own[i]].append(ranked)
            if rows is None:  # who votes in several groups stays in that of most of its rows
                of = np.where((kept := scatter(members, who, fed.clients, -1)) >= 0, kept, of)
        params = np.empty_like(state.params)
        for r, signs in enumerate(state.params):
            voted = {q: vote(model, own) for q, own in enumerate(ballots[r]) if own}
            for q, own in voted.items():
                groups[r, q] = model.scored(own, signs)
            if self.absent == "keep":
                rest = [int(q) for q in np.flatnonzero(seen[r]) if q not in voted]
                voted |= dict(zip(rest, reputations(model, groups[r, rest]), strict=True))
            seen[r, list(voted)] = True
            params[r] = model.scored(vote(model, [voted[q] for q in sorted(voted)]), signs)
            if self.groups.follow:
                groups[r, ~seen[r]] = params[r]
        return State(params, {"groups": groups, "seen": seen, "of": of})

    def answer(self, state: State) -> Answer:
        return self._models(state) if self.deploy == "group" else state.params

    def settled(self, fed: Federation, state: State) -> State:
        """The state with every client in the group that it would choose now; inference asks only who takes part in a round."""
        of, everybody = state["of"].copy(), fed.everybody()
        for members, rows in self.groups.ballots(fed, self._models(state), everybody, 0):
            if rows is None:
                of = np.where((kept := scatter(members, everybody, fed.clients, -1)) >= 0, kept, of)
        return replace(state, memory={**state.memory, "of": of})

    def _models(self, state: State) -> Models:
        return Models(state["groups"], state["of"])
