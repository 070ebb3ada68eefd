"""FedMGDA+: a step along which no client loses, from normalised updates (Hu et al., 2022); asked for beside EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require
from fairfl_lite.programs import finite_runs, min_norm


@dataclass(frozen=True)
class FedMGDA(Method):
    """FedMGDA+: a step along which no client loses, from normalised updates (Hu et al., 2022).

    It is asked for beside EFFL's baselines. ``theta <- theta - lr d``, ``d = sum_k lambda_k g_k`` the shortest such vector with
    lambda near the data shares. ``g_k = theta - theta_k`` is what local training takes off. lambda is in the simplex and
    ``|lambda_k - n_k / n| <= eps``. The server must see every g_k by itself, because lambda depends on all ``g_j . g_k``.

    Parameters
    ----------
    eps : float
        How far lambda may be from the data shares. ``eps=0`` is lambda_k = n_k / n, and without normalising and with ``lr=1``
        that is FedAvg. ``eps=1`` leaves lambda free, and d is MGDA's: ``d . g_k >= |d|^2`` for every k.
    lr : float
        Length of a step; with `normalise` no step is longer.
    normalise : bool
        Divide every g_k by its length ("+": no client can pull harder by a longer update).
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, FedAvg, FedMGDA, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([FedAvg(), FedMGDA(eps=0, lr=1, normalise=False)], rounds=3)
    >>> bool((abs(runs["fedavg"].state.params - runs["fedmgda+"].state.params) < 1e-5).all())
    True
    """

    must_see = "every client's update"

    eps: float = 0.1
    lr: float = 0.1
    normalise: bool = True
    name: str = "fedmgda+"

    def __post_init__(self) -> None:
        require("eps", self.eps, 0, 1)
        require("lr", self.lr, 0, above=True)

    async def start(self, fed: OneFederation) -> State:
        return State(fed.init_params(), {"weights": fed.by_client(fed.shares(fed.all_clients), fed.all_clients)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients = fed.sample_clients(t)
        g = state.params - (await fed.train(state.params, clients, t)).astype(np.float64)
        if self.normalise:
            size = np.linalg.norm(g, axis=1, keepdims=True)
            g /= np.where(size > 0, size, 1.0)
        shares = fed.shares(clients)
        low, high = np.maximum(shares - self.eps, 0.0), np.minimum(shares + self.eps, 1.0)
        weights = shortest_within(finite_runs(g @ g.T), low, high)
        params = (state.params - self.lr * fed.sum(g, weights)).astype(state.params.dtype)
        return State(params, {"weights": fed.by_client(weights, clients)})


def shortest_within(gram: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The lambda [n] that minimises lambda' gram lambda with sum lambda = 1 and low <= lambda <= high.

    Corners of that set are added one by one, each the one that gains most at the current point; the shortest point of the hull
    of those found so far comes from `min_norm`. It ends where no corner gains, and there are finitely many.
    """
    weights = _corner(np.zeros(len(low)), low, high)
    corners = weights[None]
    for _ in range(20 * len(low)):
        slope = gram @ weights
        new = _corner(slope, low, high)
        if slope @ (weights - new) <= 1e-10 * np.trace(gram):
            break
        corners = np.concatenate([corners, new[None]])
        weights = (min_norm(corners @ gram @ corners.T)[:, None] * corners).sum(0)
    return weights


def _corner(slope: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The lambda of the set with the least slope . lambda: the smallest slopes are filled up first."""
    order = np.argsort(slope, kind="stable")
    room = (high - low)[order]
    before = np.cumsum(room) - room
    out = low.copy()
    out[order] += np.clip(1 - low.sum() - before, 0.0, room)
    return out
