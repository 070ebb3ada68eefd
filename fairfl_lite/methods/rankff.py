"""RankFF: a model that nobody ranks low (Model-Agnostic and Fair Federated Learning Under Heterogeneous Preferences).

Discrete: the server has m models and the agents' utilities for them. Continuous: the server learns one model, by a search
over ranks r with a penalty for agents whose utility is below alpha_i(r). Utilities are M - loss throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, Method, State, gather, plain_sum, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require, require_whole
from fairfl_lite.streams import stream


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


def local_approx(fed: Federation, params: np.ndarray, p: PerRun, J: int, *, M: PerRun = 1.0, on: str = "train",
                 key: str = "ray", who: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Algorithm 2, LocalApprox, up to its last line: the utilities u [run, agent, 1 + J] and the steps xi [run, J].

    Entry 0 is the model itself; entry j is theta + xi_j g / |g| with g = grad u_i(theta) and xi_j ~ U(0, p), the same for
    all agents of a run. Where the gradient is zero all entries are equal. `threshold` takes alpha_i(r) from it.
    """
    require("p", p, 0, above=True)
    require_whole("J", J)
    xi = per_run(fed, "p", p) * np.stack([stream(seed, f"{key} {J}").random(J) for seed in fed.seeds])  # line 6
    loss, slope = fed.gradient(params, on=on, who=who)
    size = np.linalg.norm(slope, axis=2, keepdims=True)
    ray = -slope / np.where(size > 0, size, 1.0)
    u = [loss]
    for j in range(J):
        moved = (params[:, None] + xi[:, j, None, None] * ray).astype(params.dtype)  # line 7
        u.append(fed.losses(moved, on, who=who))  # line 8
    return per_run(fed, "M", M)[..., None] - np.stack(u, 2), xi


def threshold(u: np.ndarray, r: float | np.ndarray) -> np.ndarray:
    """alpha_i(r): the floor(r J')-th highest of an agent's J' utilities u [..., J'], at least the first."""
    count = u.shape[-1]
    k = np.clip(np.floor(np.asarray(r) * count).astype(int), 1, count) - 1
    return np.take_along_axis(-np.sort(-u, axis=-1), np.broadcast_to(k, u.shape[:-1])[..., None], -1)[..., 0]


def place(u: np.ndarray) -> np.ndarray:
    """Position of the model itself among what `local_approx` looked at: #{j : u_j >= u_0}, itself included, [run, agent].

    A model that left the numbers (NaN) is worse than any other: last, where it is the model itself.
    """
    u = np.where(np.isnan(u), -np.inf, u)
    return (u >= u[..., :1]).sum(-1)


@dataclass(frozen=True, eq=False)
class RankFF(Method):
    """Algorithms 2 and 3: binary search over r; for each r, `steps` gradient steps on
    Phi = sum_i -u_i + sigma sum_i max(0, alpha_i(r) - u_i)^2.

    Its gradient is sum_i (1 + 2 sigma max(0, alpha_i - u_i)) grad loss_i: FedSGD with a weight for each agent. One round is
    one gradient step. sigma starts at sigma0 for every r and grows by `growth` every `every` steps (0: a fifth of them).
    normalise : the weights are divided by their sum, so that a large sigma turns the step and does not lengthen it;
    otherwise by n, as in print. sigma0 = 0 is FedSGD. The answer is the model of the smallest r that was met (memory "best"),
    and memory "beta" is that r (1 where none was); params is the last model, met or not.
    lr, sigma0, growth, p and M are numbers, or have one value per run. An agent finds its own alpha_i and weight, so the server
    needs sums alone: of weighted gradients, of weights, and of how many agents are below their alpha_i(r).
    """

    steps: int = 100
    lr: PerRun = 0.1
    batch: int = 0
    sigma0: PerRun = 1.0
    growth: PerRun = 2.0
    every: int = 0
    p: PerRun = 10.0
    J: int = 100
    M: PerRun = 1.0
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

    def start(self, fed: Federation) -> State:
        fed.require_rows(self.on)
        if fed.participants and fed.aggregate is not plain_sum:
            raise FairFLError("RankFF counts among all agents who is below its alpha_i, and the secure sum is over those who "
                              "take part in a round: make the federation with participants=0.")  # fmt: skip
        runs, params = len(fed.seeds), fed.start()
        alpha = np.full((runs, fed.clients), -np.inf)
        weights = scatter(np.ones(fed.everybody().shape), fed.everybody(), fed.clients, 0.0)
        search = {"low": np.zeros(runs), "high": np.ones(runs), "r": np.ones(runs), "beta": np.ones(runs)}
        return State(params, {**search, "best": params, "alpha": alpha, "weights": weights})

    def round(self, fed: Federation, state: State, t: int) -> State:
        step, who = (t - 1) % self.steps, fed.who(t)
        if step == 0:
            state = self.target(fed, state, t)  # lines 5-9
        state = self.descend(fed, state, t, step, who)  # lines 11-17
        return self.search(fed, state) if step == self.steps - 1 else state  # lines 19-27

    def answer(self, state: State) -> np.ndarray:
        return state["best"]

    def target(self, fed: Federation, state: State, t: int) -> State:
        """Halve the interval of r, and ask every agent for its alpha_i(r) by LocalApprox."""
        everybody = fed.everybody()
        r = (state["low"] + state["high"]) / 2
        u, _ = local_approx(fed, state.params, self.p, self.J, M=self.M, on=self.on, key=f"search {t}", who=everybody)
        alpha = scatter(threshold(u, r[:, None]), everybody, fed.clients, -np.inf)
        return State(state.params, {**state.memory, "r": r, "alpha": alpha})

    def descend(self, fed: Federation, state: State, t: int, step: int, who: np.ndarray) -> State:
        """One gradient step on the penalised sum of utilities."""
        sigma = per_run(fed, "sigma0", self.sigma0) * per_run(fed, "growth", self.growth) ** (
            step // (self.every or max(1, self.steps // 5))
        )
        loss, slope = fed.gradient(state.params, t=t, batch=self.batch, who=who)
        alpha = gather(state["alpha"], who)
        weights = np.where(who >= 0, penalty_weights(per_run(fed, "M", self.M) - loss, alpha, sigma), 0.0)  # line 12
        whole = fed.sum(weights) if self.normalise else (who >= 0).sum(1).astype(float)
        total = fed.sum(slope, weights) / whole[:, None]  # line 15
        params = (state.params - per_run(fed, "lr", self.lr) * total).astype(state.params.dtype)  # line 16
        return State(params, {**state.memory, "weights": scatter(weights, who, fed.clients, 0.0)})

    def search(self, fed: Federation, state: State) -> State:
        """Keep the model if every agent has its alpha_i(r), and go to the half of the interval that this leaves."""
        everybody, low, high, r = fed.everybody(), state["low"], state["high"], state["r"]
        u = per_run(fed, "M", self.M) - fed.losses(state.params, self.on, who=everybody)  # line 20
        met = fed.sum(~((u >= gather(state["alpha"], everybody)) | (everybody < 0))) == 0  # line 23
        found = {"best": np.where(met[:, None], state.params, state["best"]), "beta": np.where(met, r, state["beta"]),
                 "high": np.where(met, r, high), "low": np.where(met, low, r)}  # fmt: skip
        return State(state.params, {**state.memory, **found})


def penalty_weights(u: np.ndarray, alpha: np.ndarray, sigma: float | np.ndarray) -> np.ndarray:
    """1 + 2 sigma max(0, alpha_i - u_i), in the shape of u."""
    return 1 + 2 * sigma * np.maximum(0.0, alpha - u)
