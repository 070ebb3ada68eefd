"""FRL: clients rank the edges of a supernet, and the rankings vote (Mozaffari et al., 2021; E2FL, Algorithm 4)."""

from __future__ import annotations

from dataclasses import dataclass

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.vote import reputations, vote
from fairfl_lite.supernets import Supernet


@dataclass(frozen=True)
class FRL(Method):
    """R_g <- VOTE over the rankings of those who take part: every client has one vote. The model is that of R_g.

    The server reads every ranking. A sum of places would be enough for the vote; this server is sent rankings, as the paper's is.
    """

    must_see = "every client's ranking"

    name: str = "frl"

    async def start(self, fed: OneFederation) -> State:
        supernet(fed)
        return State(fed.init_params())

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        model = supernet(fed)
        local = await fed.train(state.params, fed.sample_clients(t), t)
        return State(model.scored(vote(model, reputations(model, local)), state.params))


def supernet(fed: OneFederation) -> Supernet:
    """The model of a federation whose clients rank edges."""
    if not isinstance(fed.model, Supernet):
        raise FairFLError(f"Rankings are of a supernet's edges, and the model is a {type(fed.model).__name__}: give "
                          "model=Supernet(LeNet()).")  # fmt: skip
    return fed.model
