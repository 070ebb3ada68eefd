"""FedFV: what conflicts between the clients' updates is taken out before they are averaged (Wang et al., IJCAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require, require_whole


@dataclass(frozen=True)
class FedFV(Method):
    """FedFV: what conflicts between the clients' updates is taken out before they are averaged (Wang et al., IJCAI 2021).

    ``g_k = theta - theta_k`` is what local training takes off. Two updates conflict where ``g_k . g_j < 0``. Each client's
    update goes through those of the others in ascending order of loss, as they were sent, and where it conflicts with one it is
    projected onto the plane across it: ``g_k <- g_k - (g_k . g_j) / |g_j|^2 g_j``. The projected updates are averaged with
    equal weights. Then the average is projected once for each of the last `tau` rounds, the oldest first, across the sum of the
    updates that conflict with it, of clients who were last seen in that round. Last it is given the length of the plain average
    of the updates as they were sent.

    The released code has two readings of the history. Here it is that of its first version: round t looks at the rounds t - tau
    to t - 1. In its later library tau = 1 is the current round alone. Where everything cancels, the direction is undefined, and
    here the model stays where it is. The server must see every update and every loss by itself.

    Parameters
    ----------
    alpha : float
        Which share of the clients, those with the largest losses, keep their updates as they are: ``m - ceil((m - 1) (1 -
        alpha))`` of m clients, and nobody with ``alpha=0``. ``alpha=1`` with ``tau=0`` is the plain mean of the local models.
    tau : int
        How many past rounds are looked at. It matters only where not all clients take part in every round.
    name : str
        The label of its history.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import QFFL, ClientTraining, Federation, FedFV, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> plain, fair = fed.run([QFFL(q=0), FedFV(alpha=1, tau=0)], rounds=3).values()
    >>> bool(np.allclose(plain.state.params, fair.state.params, atol=1e-5))
    True
    """

    must_see = "every client's update and loss"

    alpha: float = 0.1
    tau: int = 1
    name: str = "fedfv"

    def __post_init__(self) -> None:
        require("alpha", self.alpha, 0, 1)
        require_whole("tau", self.tau, 0)

    async def start(self, fed: OneFederation) -> State:
        params = fed.init_params()
        kept = np.zeros((fed.n if self.tau else 0, len(params)), params.dtype)
        return State(params, {"updates": kept, "seen": np.zeros(fed.n, np.int64)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        losses = await fed.losses(state.params, clients)
        g = state.params - (await fed.train(state.params, clients, t)).astype(np.float64)
        mean = g.mean(0)
        step = without_conflicts(g, np.argsort(losses, kind="stable"), kept(len(clients), self.alpha)).mean(0)
        updates, seen = state["updates"].copy(), state["seen"].copy()
        away = np.ones(fed.n, bool)
        away[clients] = False
        for back in range(self.tau, 0, -1):
            step = across(step, updates[away & (seen == t - back) & (seen > 0)].astype(np.float64))
        length = np.sqrt(step @ step)
        if length > 0:
            step = step * np.sqrt(mean @ mean) / length
        seen[clients] = t
        if self.tau:
            updates[clients] = g
        return State((state.params - step).astype(state.params.dtype), {"updates": updates, "seen": seen})


def kept(many: int, alpha: float) -> int:
    """How many of so many clients keep their updates as they are."""
    return many - int(np.ceil((many - 1) * (1 - alpha) - 1e-9)) if alpha > 0 else 0


@njit(cache=True, nogil=True)
def without_conflicts(g: np.ndarray, order: np.ndarray, kept: int) -> np.ndarray:
    """The updates [client, P] after their projections; order : the clients by loss, ascending, of whom the last keep theirs."""
    out, size = g.copy(), (g**2).sum(1)
    for k in order[: len(order) - kept]:
        for j in order:
            dot = (out[k] * g[j]).sum()
            if j != k and dot < 0 and size[j] > 0:
                out[k] -= dot / size[j] * g[j]
    return out


def across(step: np.ndarray, past: np.ndarray) -> np.ndarray:
    """The step without its part along the sum of those past updates [client, P] that conflict with it."""
    against = past[past @ step < 0].sum(0)
    size = against @ against
    return step - (step @ against) / size * against if size > 0 else step
