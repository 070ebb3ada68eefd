"""RankFF: a model that nobody ranks low (Model-Agnostic and Fair Federated Learning Under Heterogeneous Preferences).

Discrete: the server has m models and the agents' utilities for them. Continuous: the server learns one model, by a search
over ranks r with a penalty for agents whose utility is below alpha_i(r). Utilities are M - loss throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, State
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
    return u


def _common(u: np.ndarray, k: int) -> np.ndarray:
    """Which models are in every agent's C_i = {c : u_i(c) >= the k-th highest utility}, bool [model]."""
    threshold = -np.partition(-u, k - 1, axis=1)[:, k - 1 : k]
    return np.all(u >= threshold, axis=0)


def _largest_sum(u: np.ndarray, among: np.ndarray) -> int:
    return int(np.where(among, u.sum(0), -np.inf).argmax())


def along(fed: Federation, params: np.ndarray, p: float, J: int, *, M: float = 1.0, on: str = "train", key: str = "ray",
          ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The utilities that LocalApprox (Algorithm 2) looks at: u [run, agent, 1 + J] and the steps xi [run, J].

    Entry 0 is the model itself; entry j is theta + xi_j g / |g| with g = grad u_i(theta) and xi_j ~ U(0, p), the same for
    all agents of a run. Where the gradient is zero all entries are equal.
    """
    if not p > 0 or J < 1:
        raise FairFLError(f"LocalApprox needs a step bound p > 0 and at least one sample, not p={p}, J={J}.")
    xi = np.stack([p * stream(seed, f"{key} {J}").random(J) for seed in fed.seeds])
    loss, slope = fed.slopes(params, on=on)  # type: ignore[arg-type]
    size = np.linalg.norm(slope, axis=2, keepdims=True)
    ray = -slope / np.where(size > 0, size, 1.0)
    u = [loss]
    for j in range(J):
        moved = (params[:, None] + xi[:, j, None, None] * ray).astype(params.dtype)
        u.append(fed.losses(moved, on))  # type: ignore[arg-type]
    return M - np.stack(u, 2), xi


def threshold(u: np.ndarray, r: float | np.ndarray) -> np.ndarray:
    """alpha_i(r): the floor(r J')-th highest of an agent's J' utilities u [..., J'], at least the first."""
    count = u.shape[-1]
    k = np.clip(np.floor(np.asarray(r) * count).astype(int), 1, count) - 1
    return np.take_along_axis(-np.sort(-u, axis=-1), np.broadcast_to(k, u.shape[:-1])[..., None], -1)[..., 0]


def place(u: np.ndarray) -> np.ndarray:
    """Position of the model itself among what `along` looked at: #{j : u_j >= u_0}, itself included, [run, agent].

    A model that left the numbers (NaN) is worse than any other: last, where it is the model itself.
    """
    u = np.where(np.isnan(u), -np.inf, u)
    return (u >= u[..., :1]).sum(-1)


@dataclass(frozen=True)
class RankFF:
    """Algorithms 2 and 3: binary search over r; for each r, `steps` gradient steps on
    Phi = sum_i -u_i + sigma sum_i max(0, alpha_i(r) - u_i)^2.

    Its gradient is sum_i (1 + 2 sigma max(0, alpha_i - u_i)) grad loss_i: FedSGD with a weight for each agent. One round is
    one gradient step. sigma starts at sigma0 for every r and grows by `growth` every `every` steps (0: a fifth of them).
    normalise : the weights are divided by their sum, so that a large sigma turns the step and does not lengthen it;
    otherwise by n, as in print. What the method answers is memory "best", the model of the smallest r that was met, and
    memory "beta" is that r (1 where none was); params is the last model, met or not.
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
        if self.steps < 1 or not self.lr > 0 or self.sigma0 < 0 or not self.growth > 0:
            raise FairFLError("RankFF needs steps >= 1, lr > 0, sigma0 >= 0 and growth > 0.")

    def start(self, fed: Federation) -> State:
        runs, params = len(fed.seeds), fed.start()
        return State(params, {"low": np.zeros(runs), "high": np.ones(runs), "r": np.ones(runs), "best": params,
                              "beta": np.ones(runs), "alpha": np.full(fed.sizes.shape, -np.inf),
                              "weights": np.ones(fed.sizes.shape)})  # fmt: skip

    def round(self, fed: Federation, state: State, t: int) -> State:
        step, memory = (t - 1) % self.steps, dict(state.memory)
        if step == 0:
            memory["r"] = (memory["low"] + memory["high"]) / 2
            u, _ = along(fed, state.params, self.p, self.J, M=self.M, on=self.on, key=f"search {t}")
            memory["alpha"] = threshold(u, memory["r"][:, None])
        sigma = self.sigma0 * self.growth ** (step // (self.every or max(1, self.steps // 5)))
        loss, slope = fed.slopes(state.params, t, self.batch)
        memory["weights"] = weights = penalty_weights(self.M - loss, memory["alpha"], sigma)
        whole = weights.sum(1) if self.normalise else np.full(len(weights), float(weights.shape[1]))
        total = fed.sum(weights[..., None] * slope) / whole[:, None]
        params = (state.params - self.lr * total).astype(state.params.dtype)
        if step == self.steps - 1:
            met = (self.M - fed.losses(params, self.on) >= memory["alpha"]).all(1)  # type: ignore[arg-type]
            memory["best"] = np.where(met[:, None], params, memory["best"])
            memory["beta"] = np.where(met, memory["r"], memory["beta"])
            memory["high"] = np.where(met, memory["r"], memory["high"])
            memory["low"] = np.where(met, memory["low"], memory["r"])
        return State(params, memory)


def penalty_weights(u: np.ndarray, alpha: np.ndarray, sigma: float) -> np.ndarray:
    """1 + 2 sigma max(0, alpha_i - u_i), in the shape of u."""
    return 1 + 2 * sigma * np.maximum(0.0, alpha - u)
