"""q-FFL: clients with a larger loss weigh more, by its q-th power (Li et al., ICLR 2020); one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class QFFL(Method):
    """q-FFL: clients with a larger loss weigh more, by its q-th power (Li et al., ICLR 2020); one of EFFL's baselines.

    q-FedAvg, which minimises ``sum_k F_k^(q + 1) / (q + 1)``, F_k the mean training loss of client k: ``theta <- theta -
    sum_k F_k^q g_k / sum_k h_k``, where ``g_k = L (theta - theta_k)`` stands for the gradient, L = 1 / rate, and ``h_k = q
    F_k^(q - 1) |g_k|^2 + L F_k^q`` bounds the curvature: the larger q, the shorter the step. F_k is that of the model that
    client k was given, and at least 1e-10. Local training by one full batch (``epochs=1, batch_size=0``) makes it q-FedSGD. L
    is that of one plain step: with more of them, or with momentum, theta_k is farther away, ``|g_k|^2`` larger, and the step
    shorter.

    Parameters
    ----------
    q : float
        The power. ``q=0`` is the plain mean of the local models, which is FedAvg where clients hold equally much.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import QFFL, ClientTraining, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> fed.run(QFFL(q=1), rounds=30).values("acc")[:, -1].round(2)
    array([0.73, 0.72])
    """

    q: float = 1.0
    name: str = "q-ffl"

    def __post_init__(self) -> None:
        require("q", self.q, 0)

    async def start(self, fed: OneFederation) -> State:
        if not fed.local.lr:
            raise FairFLError("q-FFL divides by the rate of local training: give ClientTraining an lr above 0.")
        return State(fed.init_params(), {"weights": np.zeros(fed.n)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, q, L = fed.sample_clients(t), self.q, 1 / fed.local.rate(t)
        F = await fed.losses(state.params, clients) + 1e-10
        g = L * (state.params - (await fed.train(state.params, clients, t)).astype(np.float64))
        h = q * F ** (q - 1) * (g**2).sum(1) + L * F**q
        step = fed.sum(g, F**q) / fed.sum(h)
        return State((state.params - step).astype(state.params.dtype), {"weights": fed.by_client(F**q / (F**q).sum(), clients)})
