"""EFFL's problem with two parameters, so that all of it can be drawn: models w (x1 + x2) + v A on the synthetic data of
B.1. Nothing in results/ comes from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from fairfl_lite.clients import ClientTraining
from fairfl_lite.clients.surrogates import SoftBias
from fairfl_lite.data.shards import Shards, Standard
from fairfl_lite.data.synthetic import BORDER
from fairfl_lite.federation import Federation, State, alone
from fairfl_lite.methods import EFFL
from papers.effl import federations

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class TwoWeights:
    """Logistic regression without an intercept: logit = w (x1 + x2) + v A, parameters [w, v]."""

    size: int = 2
    classes: int = 2

    def init(self, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=2)

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        return X.to(params.dtype) @ params


def federation(start: Sequence[float] = (0.0, 0.0), *, borders: Sequence[float] = (BORDER,), rows: int = 2000,
               seed: int = 0) -> Federation:  # fmt: skip
    """Clients of one draw, `rows` each for training and test, in double precision. Client k holds the rows with x1 between
    borders k - 1 and k (the upper one is inside), so the paper's one border makes its two clients."""
    table = federations.table("synthetic", seed=seed, train=rows, test=rows)
    client = np.searchsorted(borders, table.X[:, 0])
    X = np.stack([table.X[:, 0] + table.X[:, 1], table.X[:, 2]], axis=1)
    shards = {
        part: Shards.of(X, table.y, table.a,
                        [[np.flatnonzero((client == k) & (table.columns["part"] == part)) for k in range(len(borders) + 1)]])
        for part in ("train", "test")
    }  # fmt: skip
    first = np.asarray(start, np.float64)
    return Federation(shards, TwoWeights(), ClientTraining(), (seed,), Standard.plain(1, 2), engine="plain", init_params=first)


def surface(fed: Federation, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean log losses l_k and soft TPSDs f_k of models theta [..., 2] on the training rows, both [..., client]."""
    shards, bias = fed.shards["train"], SoftBias()
    losses, biases = [], []
    for k in range(shards.clients):
        rows = shards.rows(0, k)
        X, y, a = shards.X[rows].astype(np.float64), shards.y[rows], shards.a[rows]
        cell = np.eye(4)[2 * a + y]  # of each row, [row, group and label]
        logit = np.asarray(theta, np.float64) @ X.T
        losses.append((np.logaddexp(0, logit) - y * logit).mean(-1))
        soft = 1 / (1 + np.exp(-np.clip(bias.sharpness * logit, -500, 500)))
        count = np.broadcast_to(cell.sum(0), (*logit.shape[:-1], 4))
        biases.append(bias.by_sums(*(sums.reshape(*sums.shape[:-1], 2, 2) for sums in (count, soft @ cell)))[0])
    return np.stack(losses, -1), np.stack(biases, -1)


def gaps(values: np.ndarray) -> np.ndarray:
    """|v_k - mean of v| [..., client]."""
    return np.abs(values - values.mean(-1, keepdims=True))


def path(fed: Federation, method: EFFL, rounds: int) -> tuple[np.ndarray, list[State]]:
    """Where the run of the first seed is before its first round and after each, [rounds + 1, 2], and its state after each."""
    one = fed.one()
    states = [alone(method.start(one))]
    for t in range(1, rounds + 1):
        states.append(alone(method.round(one, states[-1], t)))
    return np.stack([state.params for state in states]), states[1:]


class Survey(NamedTuple):
    """Models on a grid, and what each of them does on the training rows."""

    w: np.ndarray
    v: np.ndarray
    models: np.ndarray
    """[v, w, 2]: the models."""
    losses: np.ndarray
    """[v, w, client]: mean log losses."""
    bounded: np.ndarray
    """[v, w, 3]: the largest bias, the largest gap of losses, the largest gap of biases. The three budgets bound these."""

    @property
    def mean_loss(self) -> np.ndarray:
        """[v, w]: the mean over clients."""
        return self.losses.mean(-1)

    def within(self, budgets: Sequence[float]) -> np.ndarray:
        """[v, w]: whether a model keeps all three budgets."""
        return np.all(self.bounded <= np.asarray(budgets), axis=-1)


def survey(fed: Federation, points: int = 121) -> Survey:
    """The models with w from -0.1 to 1.4 and v from -1.15 to 1.1."""
    w, v = np.linspace(-0.1, 1.4, points), np.linspace(-1.15, 1.1, points)
    models = np.stack(np.meshgrid(w, v), axis=-1)
    losses, biases = surface(fed, models)
    bounded = np.stack([biases.max(-1), gaps(losses).max(-1), gaps(biases).max(-1)], axis=-1)
    return Survey(w, v, models, losses, bounded)


SHADES = {"every bias within its budget": "#0072B2", "equal losses": "#E69F00", "equal biases": "#009E73"}
"""The colours of the regions in which the three budgets are met."""


def draw_map(axes: Axes, seen: Survey, budgets: Sequence[float], which: Sequence[int] = (0, 1, 2)) -> None:
    """Level lines of the mean loss, and the regions in which the budgets of `which` are met."""
    for place in which:
        colour = list(SHADES.values())[place]
        axes.contourf(seen.w, seen.v, seen.bounded[..., place], levels=[-1, budgets[place]], colors=[colour], alpha=0.3)
        axes.contour(seen.w, seen.v, seen.bounded[..., place], levels=[budgets[place]], colors=[colour], linewidths=1.5)
    levels = seen.mean_loss.min() + np.array([0.002, 0.01, 0.03, 0.06, 0.1])
    axes.contour(seen.w, seen.v, seen.mean_loss, levels=levels, colors="#888888", linewidths=0.8)
    axes.set(xlim=(seen.w[0], seen.w[-1]), ylim=(seen.v[0], seen.v[-1]), xlabel="w, weight of the score")
    axes.grid(False)
