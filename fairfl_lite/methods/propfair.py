"""PropFair: the product of what clients gain over a baseline is maximised (Zhang et al., TMLR 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.debias import TrainingRows
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class PropFair(Method):
    """PropFair: the product of what clients gain over a baseline is maximised (Zhang et al., TMLR 2023).

    It maximises ``prod_k (M - F_k)^(n_k / n)``, in which M is the baseline and F_k the mean training loss of client k. So
    client k minimises ``-log(1 - F_k / M)``, whose gradient is that of F_k divided by ``M - F_k``: a client with a large loss
    takes longer steps. The server averages as FedAvg does, and needs sums alone.

    Here the steps of client k are multiplied by ``M / (M - F_k)``, so that a learning rate means what it means in FedAvg,
    whatever M is. F_k is the loss of the model that the client was given, for all its steps in a round. The released code
    divides by M - F of each minibatch instead, and has no factor M. One step on the full batch is the same in both, at 1 / M
    times the rate. Where ``M - F_k`` is below epsilon, epsilon stands in its place, so the factor does not jump. In the
    released code it falls from 1 / epsilon to 1 / M there, unless its Huber flag is set.

    Parameters
    ----------
    M : float
        The baseline. ``M=inf`` is FedAvg, bit for bit; the nearer M is to the losses, the more a client with a large loss
        counts.
    epsilon : float
        The least that a client may be below the baseline.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FedAvg, Federation, Partition, PropFair, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([FedAvg(), PropFair(M=float("inf"))], rounds=3)
    >>> bool((runs["fedavg"].state.params == runs["propfair"].state.params).all())
    True
    """

    M: float = 2.0
    epsilon: float = 0.2
    name: str = "propfair"

    def __post_init__(self) -> None:
        require("M", 1.0 if np.inf == self.M else self.M, 0, above=True)
        require("epsilon", self.epsilon, 0, above=True)

    async def start(self, fed: OneFederation) -> State:
        if fed.local.optimizer != "sgd":
            raise FairFLError("PropFair makes the gradients of some clients longer, and Adam takes no notice: train by SGD.")
        return State(fed.init_params(), {"factor": np.ones(fed.n)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        losses, rows = await fed.losses(state.params, clients), await fed.group_label_counts(clients)
        factor = 1 / np.maximum(1 - losses / self.M, self.epsilon / self.M)  # M / (M - F_k)
        longer = TrainingRows(np.broadcast_to(factor[:, None, None], rows.shape).copy())
        local = await fed.train(state.params, clients, t, rows=longer)
        return State(fed.average(local, fed.shares(clients)), {"factor": fed.by_client(factor, clients, 1.0)})
