"""FedAvg with FairReg: gradient descent on losses plus a penalty on every client's bias, FCFL's and EFFL's simplest baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.surrogates import Kind, LossAndBias, SoftBias
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class FairReg(Method):
    """FedAvg with FairReg: gradient descent on losses plus a penalty on every client's bias.

    It is the simplest baseline of FCFL and EFFL. ``theta <- theta - lr mean_k grad (l_k + mu f_k)`` over those who take part,
    who all weigh alike. l_k is the mean loss of client k and f_k its soft bias, so one round is one full-batch step on the
    linear scalarised objective. FCFL's code has sums in place of means, and for f_k the gap ``|r_0 - r_1|`` of the two groups'
    rates, which is twice ours: its weight of 1 is mu = 2 here, with lr times the number of clients. It also decays the weights
    by 1e-4, as FCFL does.

    Parameters
    ----------
    mu : float
        Weight of the bias. ``mu=0`` is gradient descent on the plain mean of the clients' losses.
    lr : float
        Length of a step.
    bias : {"tpsd", "apsd", "apsd_acc"}
        The metric, see `fairfl_lite.metrics`. A client with fewer than two groups has f_k = 0.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FairReg, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining())
    >>> runs = fed.run([FairReg(mu=0, lr=0.5), FairReg(mu=2, lr=0.5)], rounds=20)
    >>> runs.values("tpsd")[:, 0, -1].round(2)
    array([0.24, 0.01])
    """

    mu: float = 1.0
    lr: float = 0.1
    bias: Kind = "tpsd"
    name: str = "fairreg"

    def __post_init__(self) -> None:
        SoftBias(self.bias)
        require("mu", self.mu, 0)
        require("lr", self.lr, 0, above=True)

    async def start(self, fed: OneFederation) -> State:
        return State(fed.init_params(), {"bias": np.full(fed.n, np.nan)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        values, slopes = await fed.value_and_gradient(state.params, clients, LossAndBias(SoftBias(self.bias)), t=t)
        by_loss, by_bias = slopes[:, 0], slopes[:, 1].astype(np.float64)
        step = fed.sum(by_loss + self.mu * by_bias, np.full(len(clients), 1 / len(clients)))
        params = (state.params - self.lr * step).astype(state.params.dtype)
        return State(params, {"bias": fed.by_client(values[:, 1], clients, np.nan)})
