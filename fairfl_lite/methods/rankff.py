"""RankFF: a model that nobody ranks low (Model-Agnostic and Fair Federated Learning Under Heterogeneous Preferences).

Discrete: the server has m models and the agents' utilities for them. Continuous: the server learns one model, by a search
over ranks r with a penalty for agents whose utility is below alpha_i(r). Utilities are M - loss throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require, require_whole


class Chosen(NamedTuple):
    """model : the index chosen; k : the smallest k for which the agents' k best models have one in common;
    tried : the values of k that were asked of the agents, in order."""

    model: int
    k: int
    tried: tuple[int, ...]


def discrete(utilities: np.ndarray) -> Chosen:
    """The model with the largest sum of utilities among those that every agent has in its k best, k as small as can be.

    utilities [agent, model]. Integer binary search over k in 1..m: the sets grow with k, and k = m is feasible. An agent's
    k best are all models at least as good as its k-th best, so ties enlarge them.
    """
    u = _utilities(utilities)
    low, high, tried = 0, u.shape[1], []
    while high - low > 1:
        k = (low + high) // 2
        tried.append(k)
        low, high = (low, k) if _common(u, k).any() else (k, high)
    return Chosen(_largest_sum(u, _common(u, high)), high, tuple(tried))


def literal(utilities: np.ndarray) -> Chosen:
    """Algorithm 1 line by line, with `k` = floor(beta m) and `tried` the values floor(r m).

    Its first step takes r from 1 to 0, where no utility is the 0-th highest: we count that as infeasible. It stops on a grid
    of 2 to 4 places, so beta may be too large; and line 18 reads C at the last r, which was never tested: then there is no
    model, and we return -1.
    """
    u = _utilities(utilities)
    m = u.shape[1]
    beta, r, tried = 1.0, 1.0, []
    found: dict[float, np.ndarray] = {}
    for h in range(int(np.log2(m)) + 1):
        k = int(np.floor(r * m))
        tried.append(k)
        common = _common(u, k) if k >= 1 else np.zeros(m, bool)
        if common.any():
            beta, found[r], r = r, common, r - 0.5**h
        else:
            r = min(1.0, r + 0.5**h)
    model = _largest_sum(u, found[r]) if r in found else -1
    return Chosen(model, int(np.floor(beta * m)), tuple(tried))


def nearest(utilities: np.ndarray, models: np.ndarray, method: Literal["fedavg", "corefed"], floor: float = 0.05) -> int:
    """The discrete baselines: each agent names its best model, the server averages their parameters and takes the member
    of the set that is nearest to the average.

    models [m, P]. FedAvg weighs agents alike (they hold equally much); CoreFed by 1 / u_i of what each named, u_i >= floor.
    """
    choose(method, ("fedavg", "corefed"), "discrete baseline named")
    u = _utilities(utilities)
    best = u.argmax(1)
    weights = np.ones(len(u)) if method == "fedavg" else 1 / np.maximum(u.max(1), floor)
    average = weights @ models[best].astype(np.float64) / weights.sum()
    return int(((models - average) ** 2).sum(1).argmin())


def _utilities(utilities: np.ndarray) -> np.ndarray:
    u = np.asarray(utilities, float)
    if u.ndim != 2 or not u.size or np.isnan(u).any():
        raise FairFLError("RankFF needs the utility of every model for every agent, an array [agent, model] without gaps.")
    if np.isposinf(u).any():
        raise FairFLError("RankFF compares sums of utilities, so none may be infinite: a loss of minus infinity is a mistake.")
    return u


def _common(u: np.ndarray, k: int) -> np.ndarray:
    """Which models are in every agent's C_i = {c : u_i(c) >= the k-th highest utility}, bool [model]."""
    threshold = -np.partition(-u, k - 1, axis=1)[:, k - 1 : k]
    return np.all(u >= threshold, axis=0)


def _largest_sum(u: np.ndarray, among: np.ndarray) -> int:
    """The model with the largest sum among those marked, also where all their sums are minus infinity."""
    candidates = np.flatnonzero(among)
    return int(candidates[u[:, candidates].sum(0).argmax()])


async def local_approx(fed: OneFederation, params: np.ndarray, clients: np.ndarray, p: float, J: int, *, M: float = 1.0,
                       on: str = "train", key: str = "ray") -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Algorithm 2, LocalApprox, up to its last line: the utilities u [agent, 1 + J] and the steps xi [J].

    Entry 0 is the model itself; entry j is theta + xi_j g / |g| with g = grad u_i(theta) and xi_j ~ U(0, p), the same for
    all agents. Where the gradient is zero all entries are equal. `threshold` takes alpha_i(r) from it.
    """
    require("p", p, 0, above=True)
    require_whole("J", J)
    xi = p * fed.rng(f"{key} {J}").random(J)  # line 6
    loss, slope = await fed.value_and_gradient(params, clients, on=on)
    size = np.linalg.norm(slope, axis=1, keepdims=True)
    ray = -slope / np.where(size > 0, size, 1.0)
    u = [M - loss]
    for step in xi:
        moved = (params + step * ray).astype(params.dtype)  # line 7
        u.append(M - await fed.losses(moved, clients, on))  # line 8
    return np.stack(u, 1), xi


def threshold(u: np.ndarray, r: float | np.ndarray) -> np.ndarray:
    """alpha_i(r): the floor(r J')-th highest of an agent's J' utilities u [..., J'], at least the first."""
    count = u.shape[-1]
    k = np.clip(np.floor(np.asarray(r) * count).astype(int), 1, count) - 1
    return np.take_along_axis(-np.sort(-u, axis=-1), np.broadcast_to(k, u.shape[:-1])[..., None], -1)[..., 0]


def place(u: np.ndarray) -> np.ndarray:
    """Position of the model itself among what `local_approx` looked at: #{j : u_j >= u_0}, itself included, [agent].

    A model that left the numbers (NaN) is worse than any other: last, where it is the model itself.
    """
    u = np.where(np.isnan(u), -np.inf, u)
    return (u >= u[..., :1]).sum(-1)


@dataclass(frozen=True)
class RankFF(Method):
    """RankFF for a model that is learnt: a search over ranks, with a penalty for agents whose utility is below their threshold.

    Algorithms 2 and 3: binary search over r; for each r, `steps` gradient steps on ``Phi = sum_i -u_i + sigma sum_i max(0,
    alpha_i(r) - u_i)^2``, with utilities ``u_i = M - loss_i``. Its gradient is ``sum_i (1 + 2 sigma max(0, alpha_i - u_i))
    grad loss_i``, which is FedSGD with a weight for each agent. One round is one gradient step.

    The answer is the model of the smallest r that was met (memory "best"), and memory "beta" is that r (1 where none was);
    params is the last model, met or not. ``sigma0=0`` is FedSGD. An agent finds its own alpha_i and weight, so the server
    needs sums alone: of weighted gradients, of weights, and of how many agents are below their alpha_i(r).

    Parameters
    ----------
    steps : int
        Gradient steps for each r.
    lr : float
        Length of a step.
    batch : int
        Rows of each agent in a step; 0 for all.
    sigma0 : float
        The penalty at which every r starts.
    growth : float
        By what it is multiplied every `every` steps.
    every : int
        See growth; 0 is a fifth of the steps.
    p, J : float, int
        LocalApprox tries J steps along its gradient, of lengths drawn from U(0, p).
    M : float
        Utilities are M - loss.
    normalise : bool
        Divide the weights by their sum, so that a large sigma turns the step and does not lengthen it; otherwise by n, as in
        print.
    on : str
        The part of the data on which utilities are measured.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, Partition, RankFF, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining())
    >>> fed.run(RankFF(steps=5, J=10), rounds=10).state["beta"].shape
    (2,)
    """

    steps: int = 100
    lr: float = 0.1
    batch: int = 0
    sigma0: float = 1.0
    growth: float = 2.0
    every: int = 0
    p: float = 10.0
    J: int = 100
    M: float = 1.0
    normalise: bool = True
    on: str = "train"
    name: str = "rankff"

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("J", 1), ("batch", 0), ("every", 0)):
            require_whole(name, getattr(self, name), least)
        for name in ("lr", "growth", "p"):
            require(name, getattr(self, name), 0, above=True)
        require("sigma0", self.sigma0, 0)
        require("M", self.M, -np.inf)

    async def start(self, fed: OneFederation) -> State:
        fed.require_rows(self.on)
        if fed.participants and fed.secure:
            raise FairFLError("RankFF counts among all agents who is below its alpha_i, and the secure sum is over those who "
                              "take part in a round: make the federation with participants=0.")  # fmt: skip
        params, weights = fed.init_params(), fed.by_client(np.ones(len(fed.all_clients)), fed.all_clients)
        search = {name: np.float64(value) for name, value in (("low", 0), ("high", 1), ("r", 1), ("beta", 1))}
        return State(params, {**search, "best": params, "alpha": np.full(fed.n, -np.inf), "weights": weights})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        step = (t - 1) % self.steps
        if step == 0:
            state = await self.target(fed, state, t)  # lines 5-9
        state = await self.descend(fed, state, t, step)  # lines 11-17
        return await self.search(fed, state) if step == self.steps - 1 else state  # lines 19-27

    def answer(self, state: State) -> np.ndarray:
        return state["best"]

    async def target(self, fed: OneFederation, state: State, t: int) -> State:
        """Halve the interval of r, and ask every agent for its alpha_i(r) by LocalApprox."""
        everybody = fed.all_clients
        r = (state["low"] + state["high"]) / 2
        u, _ = await local_approx(fed, state.params, everybody, self.p, self.J, M=self.M, on=self.on, key=f"search {t}")
        return State(state.params, {**state.memory, "r": r, "alpha": fed.by_client(threshold(u, r), everybody, -np.inf)})

    async def descend(self, fed: OneFederation, state: State, t: int, step: int) -> State:
        """One gradient step on the penalised sum of utilities."""
        clients = fed.sample_clients(t)
        sigma = self.sigma0 * self.growth ** (step // (self.every or max(1, self.steps // 5)))
        loss, slope = await fed.value_and_gradient(state.params, clients, t=t, batch=self.batch)
        weights = penalty_weights(self.M - loss, state["alpha"][clients], sigma)  # line 12
        whole = fed.sum(weights) if self.normalise else len(clients)
        total = fed.sum(slope, weights) / whole  # line 15
        params = (state.params - self.lr * total).astype(state.params.dtype)  # line 16
        return State(params, {**state.memory, "weights": fed.by_client(weights, clients)})

    async def search(self, fed: OneFederation, state: State) -> State:
        """Keep the model if every agent has its alpha_i(r), and go to the half of the interval that this leaves."""
        r, alpha = state["r"], state["alpha"][fed.all_clients]
        u = self.M - await fed.losses(state.params, fed.all_clients, self.on)  # line 20
        met = fed.sum(~(u >= alpha)) == 0  # line 23
        found = {"best": state.params, "beta": r, "high": r} if met else {"low": r}
        return State(state.params, {**state.memory, **found})


def penalty_weights(u: np.ndarray, alpha: np.ndarray, sigma: float | np.ndarray) -> np.ndarray:
    """1 + 2 sigma max(0, alpha_i - u_i), in the shape of u."""
    return 1 + 2 * sigma * np.maximum(0.0, alpha - u)
