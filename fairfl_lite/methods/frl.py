"""FRL: clients rank the edges of a supernet, and the rankings vote (Mozaffari et al., 2021; E2FL, Algorithm 4)."""

from __future__ import annotations

from dataclasses import dataclass

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.vote import reputations, vote
from fairfl_lite.supernets import Supernet


@dataclass(frozen=True)
class FRL(Method):
    """FRL: clients rank the edges of a supernet, and the rankings vote (Mozaffari et al., 2021; E2FL, Algorithm 4).

    ``R_g <- VOTE`` over the rankings of those who take part: every client has one vote. The model is that of R_g, and that of
    the federation is a `Supernet`. The server reads every ranking. A sum of places would be enough for the vote; this server
    is sent rankings, as the paper's is.

    Parameters
    ----------
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import FRL, ClientTraining, Federation, Partition, Perceptron, Supernet, load
    >>> local, model = ClientTraining(lr=0.1), Supernet(Perceptron((3, 16, 2)))
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(2), local, model=model)
    >>> fed.run(FRL(), rounds=2)
    History('frl', seeds=0,1, rounds=2, recorded on test)
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
