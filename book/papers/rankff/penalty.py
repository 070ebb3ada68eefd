"""What RankFF's penalty method implies beyond its tables: an identity of its gradient, the limit of its penalty, and
federations in which program (2) can be solved exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import optimize
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, OneFederation, State, alone
from fairfl_lite.methods.rankff import RankFF, penalty_weights
from fairfl_lite.models import CNN, Dense, Model
from fairfl_lite.rankings.bounds import Check, gather
from fairfl_lite.streams import stream

Loss = Callable[[torch.Tensor], torch.Tensor]
Vector = Callable[[np.ndarray], np.ndarray]
EXACT = 1e-10  # of the longer gradient, in double precision


def phi(theta: torch.Tensor, losses: Sequence[Loss], alpha: torch.Tensor, sigma: float, M: float = 1.0) -> torch.Tensor:
    """Eq. 4: -sum_i u_i + sigma sum_i max(0, alpha_i - u_i)^2 with u_i = M - loss_i(theta)."""
    u = torch.stack([M - loss(theta) for loss in losses])
    return -u.sum() + sigma * torch.clamp(alpha - u, min=0).square().sum()


def identity_error(theta: torch.Tensor, losses: Sequence[Loss], alpha: torch.Tensor, sigma: float, M: float = 1.0,
                   weigh: Callable[[np.ndarray, np.ndarray, float], np.ndarray] = penalty_weights) -> float:  # fmt: skip
    """|grad Phi - sum_i w_i grad loss_i| / |grad Phi| with w = weigh(u, alpha, sigma); the left by differentiating Phi."""
    theta = theta.detach().requires_grad_()
    (whole,) = torch.autograd.grad(phi(theta, losses, alpha, sigma, M), theta)
    values = [loss(theta) for loss in losses]
    slopes = torch.stack([torch.autograd.grad(value, theta)[0] for value in values])
    u = np.array([M - float(value.detach()) for value in values])
    return float((whole - torch.as_tensor(weigh(u, alpha.numpy(), sigma)) @ slopes).norm() / whole.norm())


def random_agents(model: Model, n: int, rng: np.random.Generator) -> list[Loss]:
    """n agents with 20 random rows or images each: their mean losses as functions of the parameters."""

    def agent() -> Loss:
        if isinstance(model, Dense):
            X, y = torch.as_tensor(rng.normal(size=(20, model.features))), torch.as_tensor(rng.integers(0, 2, 20) * 1.0)
            return lambda theta: binary_cross_entropy_with_logits(model.forward(theta, X), y)
        pictures, labels = torch.as_tensor(rng.random((20, 1, 28, 28))), torch.as_tensor(rng.integers(0, 10, 20))
        return lambda theta: cross_entropy(model.forward(theta, pictures), labels)

    return [agent() for _ in range(n)]


def _identities(model: Model, times: int, rng: np.random.Generator, weigh: Callable[..., np.ndarray],
                ) -> Iterator[tuple[int, int, bool, float]]:  # fmt: skip
    """alpha between one below and one above the utilities, so that some agents are served and some are not."""
    for _ in range(times):
        n = int(rng.integers(2, 11))
        losses, theta = random_agents(model, n, rng), torch.as_tensor(model.init(rng).astype(np.float64))
        u = torch.stack([1 - loss(theta) for loss in losses]).detach()
        alpha = u + torch.as_tensor(rng.uniform(-1, 1, n))
        error = identity_error(theta, losses, alpha, float(10 ** rng.uniform(-1, 3)), weigh=weigh)
        yield n, model.size, error > EXACT, error


def identity_check(weigh: Callable[..., np.ndarray] = penalty_weights, times: int = 200) -> pd.DataFrame:
    """The identity of the weights, for a concave utility and for two that are not, the last a tenth as often; `m` counts
    parameters and `worst` is the largest error."""
    rng = np.random.default_rng(0)
    tried: dict[str, tuple[Model, int]] = {"logistic regression": (Dense(6), times), "one hidden layer": (Dense(6, 8), times),
             "convolutions": (CNN((2, 3), 8), max(1, times // 10))}  # fmt: skip
    found = [gather("identity-weights", how, _identities(model, k, rng, weigh)) for how, (model, k) in tried.items()]
    return _rows(found)


def _rows(found: list[Check]) -> pd.DataFrame:
    return pd.DataFrame([asdict(check) | {"instances": float(check.instances)} for check in found])


@dataclass(frozen=True)
class Quadratics:
    """Agents with u_i(c) = 1 - (c - best_i)' A_i (c - best_i), concave: a federation without data, in closed form.

    A [n, d, d] positive definite, best [n, d]; answers what RankFF and LocalApprox ask of a federation. first : where
    the server begins, [d]. seed : by which LocalApprox draws.
    """

    A: np.ndarray
    best: np.ndarray
    first: np.ndarray
    seed: int = 0
    participants, secure = 0, False  # all of them, in every round

    @classmethod
    def round_ones(cls, best: np.ndarray, first: np.ndarray | None = None, scale: float = 1.0) -> Quadratics:
        """Level sets are balls: u_i = 1 - scale |c - best_i|^2; from `first`, or from the mean of what agents want."""
        best = np.asarray(best, float)
        return cls(np.tile(scale * np.eye(best.shape[1]), (len(best), 1, 1)), best, best.mean(0) if first is None else first)

    @property
    def n(self) -> int:
        return len(self.best)

    @property
    def all_clients(self) -> np.ndarray:
        return np.arange(self.n)

    def sample_clients(self, t: int) -> np.ndarray:
        return self.all_clients

    def by_client(self, values: np.ndarray, clients: np.ndarray, others: float = 0.0) -> np.ndarray:
        return values

    def rng(self, purpose: str, t: int = 0) -> np.random.Generator:
        return stream(self.seed, purpose, t)

    def require_rows(self, on: str) -> None:
        """Utilities are formulas here: there is nothing to lack."""

    @property
    def optimum(self) -> np.ndarray:
        """The model with the largest sum of utilities, [d]."""
        return np.linalg.solve(self.A.sum(0), np.einsum("ijk,ik->j", self.A, self.best))

    def u(self, c: np.ndarray) -> np.ndarray:
        """Utilities of models c [..., d]: [..., n]."""
        away = np.asarray(c, float)[..., None, :] - self.best
        return 1 - np.einsum("...ij,ijk,...ik->...i", away, self.A, away)

    def grad(self, c: np.ndarray) -> np.ndarray:
        """Gradients of the losses at c [d]: [n, d]."""
        return 2 * np.einsum("ijk,ik->ij", self.A, c - self.best)

    def init_params(self) -> np.ndarray:
        return np.asarray(self.first, float)

    async def losses(self, params: np.ndarray, clients: np.ndarray | None = None, on: str = "train") -> np.ndarray:
        away = params - self.best
        return np.einsum("ij,ijk,ik->i", away, self.A, away)

    async def value_and_gradient(self, params: np.ndarray, clients: np.ndarray, **asked: Any) -> tuple[np.ndarray, np.ndarray]:
        return await self.losses(params), self.grad(params.astype(float))

    def sum(self, messages: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        return np.asarray(messages, float).sum(0) if weights is None else (weights[:, None] * messages).sum(0)

    def run(self, method: RankFF, rounds: int) -> State:
        return descend(self, method, rounds)


def descend(fed: OneFederation | Quadratics, method: RankFF, rounds: int, first: np.ndarray | None = None) -> State:
    """Rounds of RankFF from a given model [P], or from the federation's own start."""
    state = alone(method.start(fed))  # type: ignore[arg-type]
    state = state if first is None else State(first, {**state.memory, "best": first})
    for t in range(1, rounds + 1):
        state = alone(method.round(fed, state, t))  # type: ignore[arg-type]
    return state


def solve(u: Vector, grad: Vector, alpha: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Program (2) by sequential quadratic programming, in double precision: the largest sum of u(c) [n] with u(c) >= alpha.

    grad : gradients of the losses, [n, d]. FairFLError where nothing reaches alpha."""
    served = {"type": "ineq", "fun": lambda c: u(c) - alpha, "jac": lambda c: -grad(c)}
    found = optimize.minimize(lambda c: -u(c).sum(), first, jac=lambda c: grad(c).sum(0), constraints=[served],
                              method="SLSQP", options={"ftol": 1e-14, "maxiter": 500})  # fmt: skip
    if (u(found.x) < alpha - 1e-6).any():
        raise FairFLError("No model was found that gives every agent its alpha: take a larger r.")
    return found.x


def logistic(fed: Federation) -> tuple[Vector, Vector]:
    """Utilities, with M = 1, and gradients of the losses of a federation's logistic regression, in double precision on all rows
    of its first run."""
    shards = fed.shards["train"]
    held = [shards.rows(0, int(k)) for k in np.flatnonzero(fed.sizes()[0])]
    X = [np.c_[fed.inputs(shards.X[i].astype(float), 0), np.ones(len(i))] for i in held]
    y = [shards.y[i].astype(float) for i in held]

    def u(c: np.ndarray) -> np.ndarray:
        return np.array([1 - np.mean(np.logaddexp(0, x @ c) - z * (x @ c)) for x, z in zip(X, y, strict=True)])

    def grad(c: np.ndarray) -> np.ndarray:
        return np.stack([x.T @ (1 / (1 + np.exp(-x @ c)) - z) / len(z) for x, z in zip(X, y, strict=True)])

    return u, grad


def contested(n: int, d: int, rng: np.random.Generator) -> tuple[Quadratics, np.ndarray]:
    """Random quadratics and levels alpha that some model reaches with room to spare, while the optimum of the sum misses one."""
    roots = rng.normal(size=(n, d, d))
    fed = Quadratics(roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(d), rng.normal(size=(n, d)), np.zeros(d))
    at = fed.u(fed.optimum)
    worst = int(at.argmin())
    moved = fed.u(0.7 * fed.optimum + 0.3 * fed.best[worst])
    alpha = np.minimum(moved, at) - 0.02 * np.abs(1 - at).mean()
    alpha[worst] = 0.5 * (at[worst] + moved[worst])
    return fed, alpha


def penalty_path(fed: Quadratics, alpha: np.ndarray, sigmas: Sequence[float]) -> np.ndarray:
    """The minimisers of Phi for each sigma, [sigma, d], by Newton's method, each from the one before."""

    def value(c: np.ndarray, sigma: float) -> float:
        u = fed.u(c)
        return float(-u.sum() + sigma * (np.maximum(0, alpha - u) ** 2).sum())

    def slope(c: np.ndarray, sigma: float) -> np.ndarray:
        return penalty_weights(fed.u(c), alpha, sigma) @ fed.grad(c)

    def curve(c: np.ndarray, sigma: float) -> np.ndarray:
        u, grad = fed.u(c), fed.grad(c)
        missed = grad[u < alpha]
        return np.einsum("i,ijk->jk", penalty_weights(u, alpha, sigma), 2 * fed.A) + 2 * sigma * missed.T @ missed

    c, path = fed.optimum, []
    for sigma in sigmas:
        c = optimize.minimize(value, c, (sigma,), "trust-exact", slope, curve, options={"gtol": 1e-9}).x
        path.append(c)
    return np.array(path)


def penalty_check(times: int = 100) -> pd.DataFrame:
    """Section 5.2's limit: with sigma = 10^6 the minimiser of (3) is at most 1/1000 as far from the solution of (2) as with
    sigma = 0. For concave quadratics; `m` is the dimension, `worst` the largest share that was left."""
    rng = np.random.default_rng(0)
    how = "concave quadratics in {} dimensions".format
    return _rows([gather("penalty-convergence", how(d), _limits(d, times, rng)) for d in (2, 5)])


def _limits(d: int, times: int, rng: np.random.Generator) -> Iterator[tuple[int, int, bool, float]]:
    for _ in range(times):
        n = int(rng.integers(2, 6))
        fed, alpha = contested(n, d, rng)
        exact = solve(fed.u, fed.grad, alpha, fed.optimum)
        away = np.linalg.norm(penalty_path(fed, alpha, [0.0, *(10.0**k for k in range(1, 7))]) - exact, axis=1)
        yield n, d, bool(away[-1] > away[0] / 1000), float(away[-1] / away[0])


def steps(fed: Quadratics, alpha: np.ndarray, short: bool) -> np.ndarray:
    """Where 2,000 steps of Algorithm 3, lines 10 to 18, end from 0, with sigma = 1 at first and doubled every 200; or
    where they pass 10^12.

    short : steps are half of one over the curvature where they are taken, in place of line 16's whole gradient."""
    c, sigma = np.zeros(fed.best.shape[1]), 1.0
    for t in range(1, 2001):
        u, grad = fed.u(c), fed.grad(c)
        weights, missed = penalty_weights(u, alpha, sigma), grad[u < alpha]
        curve = np.einsum("i,ijk->jk", weights, 2 * fed.A) + 2 * sigma * missed.T @ missed
        c = c - weights @ grad * (0.5 / np.linalg.norm(curve, 2) if short else 1.0)
        if np.abs(c).max() > 1e12:
            break
        sigma *= 2.0 if t % 200 == 0 else 1.0
    return c


def step_check(times: int = 30, short: bool = False) -> pd.DataFrame:
    """Whether Algorithm 3's steps end at most half as far from the solution of program (2) as they began, for concave
    quadratics; `m` is the dimension, `worst` the largest part of the way that was left."""

    def ends(d: int) -> Iterator[tuple[int, int, bool, float]]:
        rng = np.random.default_rng(d)
        for _ in range(times):
            n = int(rng.integers(2, 6))
            fed, alpha = contested(n, d, rng)
            exact = solve(fed.u, fed.grad, alpha, fed.optimum)
            left = np.linalg.norm(steps(fed, alpha, short) - exact) / np.linalg.norm(exact)
            yield n, d, bool(left > 1 / 2), float(left)

    how = "steps below one over the curvature" if short else "fine print: whole gradients, as printed"
    return _rows([gather("penalty-steps", how, ends(d)) for d in (2, 5)])
