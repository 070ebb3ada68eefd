"""FedMGDA+: a step along which no client loses, from normalised updates (Hu et al., 2022); asked for beside EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.federation import Federation, Method, State, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require
from fairfl_lite.programs import finite_runs, min_norm


@dataclass(frozen=True, eq=False)
class FedMGDA(Method):
    """theta <- theta - lr d, d = sum_k lambda_k g_k the shortest such vector with lambda near the data shares.

    g_k = theta - theta_k is what local training takes off, divided by its length if `normalise` ("+": no client can pull
    harder by a longer update). lambda is in the simplex and |lambda_k - n_k / n| <= eps.

    eps = 0 is lambda_k = n_k / n, and without normalising and with lr = 1 that is FedAvg. eps = 1 leaves lambda free, and d is
    MGDA's: d . g_k >= |d|^2 for every k. With `normalise` the rate is a length: no step is longer than lr.
    lr, eps : numbers, or one per run. The server must see every g_k by itself, because lambda depends on all g_j . g_k.
    """

    must_see = "every client's update"

    eps: PerRun = 0.1
    lr: PerRun = 0.1
    normalise: bool = True
    name: str = "fedmgda+"

    def __post_init__(self) -> None:
        require("eps", self.eps, 0, 1)
        require("lr", self.lr, 0, above=True)

    def start(self, fed: Federation) -> State:
        for name in ("lr", "eps"):
            per_run(fed, name, getattr(self, name))
        return State(fed.start(), {"weights": fed.shares()})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who, lr, eps = fed.who(t), per_run(fed, "lr", self.lr), per_run(fed, "eps", self.eps)
        g = state.params[:, None] - fed.train(state.params, t, who=who).astype(np.float64)
        if self.normalise:
            size = np.linalg.norm(g, axis=2, keepdims=True)
            g /= np.where(size > 0, size, 1.0)
        shares = fed.shares(who)
        low, high = np.maximum(shares - eps, 0.0), np.where(who >= 0, np.minimum(shares + eps, 1.0), 0.0)
        weights = shortest_within(finite_runs(g @ np.swapaxes(g, 1, 2)), low, high)
        params = (state.params - lr * fed.sum(g, weights)).astype(state.params.dtype)
        return State(params, {"weights": scatter(weights, who, fed.clients, 0.0)})


def shortest_within(gram: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The lambda [run, n] that minimises lambda' gram lambda with sum lambda = 1 and low <= lambda <= high.

    Corners of that set are added one by one, each the one that gains most at the current point; the shortest point of the hull
    of those found so far comes from `min_norm`. It ends where no corner gains, and there are finitely many.
    """
    weights = _corner(np.zeros(low.shape), low, high)
    corners = weights[:, None]
    for _ in range(20 * low.shape[1]):
        slope = (gram @ weights[..., None])[..., 0]
        new = _corner(slope, low, high)
        gain = (slope * (weights - new)).sum(1)
        if (gain <= 1e-10 * np.einsum("rkk->r", gram)).all():
            break
        corners = np.concatenate([corners, new[:, None]], axis=1)
        mixed = min_norm(corners @ gram @ np.swapaxes(corners, 1, 2))
        weights = (mixed[..., None] * corners).sum(1)
    return weights


def _corner(slope: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The lambda of the set with the least slope . lambda: the smallest slopes are filled up first."""
    order = np.argsort(slope, axis=1, kind="stable")
    room = np.take_along_axis(high - low, order, 1)
    before = np.cumsum(room, axis=1) - room
    filled = np.clip(1 - low.sum(1, keepdims=True) - before, 0.0, room)
    out = low.copy()
    np.put_along_axis(out, order, np.take_along_axis(low, order, 1) + filled, 1)
    return out
