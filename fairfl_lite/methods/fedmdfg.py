"""FedMDFG: a direction that lowers every client's loss and turns the losses toward equal ones (Pan et al., AAAI 2023); one of
EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.errors import choose
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require, require_whole
from fairfl_lite.programs import finite_runs, min_norm

STILL = 1e-6
"""A gradient this short is of a client that has arrived: it takes no part in the direction."""
ARMIJO = 1e-4
"""The share of the drop that its gradient promises which each client's loss must make."""
ABREAST = 4
"""Steps that the line search tries at once: on Adult four cost less than two of them alone."""


@dataclass(frozen=True)
class FedMDFG(Method):
    """FedMDFG: a direction that lowers every client's loss and turns the losses toward equal ones (Pan et al., AAAI 2023).

    ``theta <- theta - step d``, where d is the min-norm point of the clients' gradients, all brought to their mean length,
    and of a row of fairness where losses are unequal. It is one of EFFL's baselines.

    Losses are unequal where the angle between the losses l and (1, .., 1) is above `angle`, or where those of some clients,
    not of all, rose. The row of fairness is h G, h the unit vector along ``cos l / |l| - (1, .., 1) / sqrt(n)``, which lowers
    the angle. A client that took part in the round before and does not now is not forgotten: its old row stays for this
    round. d is brought to the length of the mean gradient. The step is the first of lr 2^s, lr 2^(s-1), .., lr 2^-s (from lr
    on where clients have gone) for which every loss falls by at least 1e-4 step d . g_k, and the angle too where the row is
    there; failing that, the first that lowers the sum of losses; failing that, the one with the smallest sum.

    The line search is ours: in the authors' code a sign lets each loss rise by 1e-4 step d . g_k instead, the g_k there are
    those brought to one length, and all losses pass its test that the angle falls. The server must see every loss and
    gradient by itself, because d descends along each. With one client, whose losses are always equal, it is gradient descent
    with this line search.

    Parameters
    ----------
    lr : float
        The middle of the steps that are tried.
    angle : float
        In radians. ``angle=pi/2`` has the row of fairness only where some losses rose, and is MGDA otherwise.
    s : int
        How many times the step may be doubled, and halved.
    rose : {"mean", "last"}
        When a loss counts as risen. "mean" is the authors' code: when it is above a mean of the client's losses so far that
        only moves down; a loss above it is not taken in, and counts as one of them. "last" is ours: when it is above that of
        the last time that the client took part.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Federation, FedMDFG, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining())
    >>> fed.run(FedMDFG(), rounds=5).values("acc")[:, -1].round(2)
    array([0.74, 0.73])
    """

    must_see = "every client's loss and gradient"

    lr: float = 0.1
    angle: float = np.pi / 16
    s: int = 5
    rose: Literal["mean", "last"] = "mean"
    name: str = "fedmdfg"

    def __post_init__(self) -> None:
        require("lr", self.lr, 0, above=True)
        require("angle", self.angle, 0, np.pi / 2)
        require_whole("s", self.s, 0)
        choose(self.rose, ("mean", "last"), "way to tell that a loss rose named")

    async def start(self, fed: OneFederation) -> State:
        params, none = fed.init_params(), np.full(fed.n, np.inf)
        nobody = {"clients": np.zeros(0, np.int64), "rows": np.zeros((0, fed.model.size), params.dtype)}
        return State(params, {**nobody, "losses": none, "mean": none, "times": np.zeros(fed.n, np.int64), "step": np.float64(0)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        there = fed.sample_clients(t)
        loss, slope = await fed.value_and_gradient(state.params, there, t=t)
        seen = remembered(state, there, loss)
        live = np.linalg.norm(slope, axis=1) > STILL
        clients, loss, slope = there[live], loss[live], slope[live]
        if not live.any():
            return State(state.params, {**seen, "clients": clients, "rows": slope, "step": np.float64(0)})

        size = np.linalg.norm(slope, axis=1)
        G = (np.float64(size.sum()) / len(size) / size)[:, None] * slope
        cosine, turn = fairness(loss)
        rose = int((loss > state["losses" if self.rose == "last" else "mean"][clients]).sum())
        unequal = bool(np.arccos(np.minimum(cosine, 1.0)) > self.angle) or 0 < rose < len(clients)
        unequal = unequal and bool(turn.any())  # equal losses have nowhere to turn
        gone = ~np.isin(state["clients"], there)
        rows = np.concatenate([G, *([turn[None] @ G] if unequal else []), state["rows"][gone]])
        d = common(rows, np.linalg.norm(G.sum(0) / len(G), axis=-1))

        step = await self.search(fed, state.params, d, clients, loss, slope @ d, unequal, bool(gone.any()))
        params = (state.params - step * d).astype(state.params.dtype)
        kept = {"clients": clients, "rows": G.astype(slope.dtype)} if fed.participants else {}
        return State(params, {**state.memory, **seen, **kept, "step": step})

    async def search(self, fed: OneFederation, params: np.ndarray, d: np.ndarray, clients: np.ndarray, loss: np.ndarray,
                     promise: np.ndarray, unequal: bool, changed: bool) -> np.float64:  # fmt: skip
        """The length of the step. ABREAST steps are tried at once, which reads the rows once for all of them."""
        steps = self.lr * 2.0 ** np.arange(0 if changed else self.s, -self.s - 1, -1)
        sums = np.empty(0)
        for some in np.split(steps, range(ABREAST, len(steps), ABREAST)):
            moved = (params - some[:, None] * d).astype(params.dtype)
            now = await fed.losses(moved, clients, each_model=True)
            good = (loss - now >= ARMIJO * some[:, None] * promise).all(1)
            if unequal:
                good &= fairness(now)[0] > fairness(loss)[0]
            if good.any():
                return some[good.argmax()]
            sums = np.append(sums, now.sum(1))
        lower = sums < loss.sum()
        if lower.any():
            return steps[lower.argmax()]
        return steps[np.nanargmin(sums)] if (sums < np.inf).any() else np.float64(0)


def fairness(loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cosine of the angle between losses [..., client] and (1, .., 1), [...], and the unit vector h [..., client] along its
    negative gradient by the losses; h = 0 where they are equal."""
    unit = loss / np.maximum(np.linalg.norm(loss, axis=-1, keepdims=True), 1e-300)
    ones = 1 / np.sqrt(loss.shape[-1])
    cosine = (unit * ones).sum(-1)
    turn = cosine[..., None] * unit - ones
    size = np.linalg.norm(turn, axis=-1, keepdims=True)
    return cosine, np.where(size > 1e-7, turn / np.maximum(size, 1e-300), 0.0)


def remembered(state: State, clients: np.ndarray, loss: np.ndarray) -> dict[str, np.ndarray]:
    """The last loss of every client, the mean that only moves down, and how often it took part, all [client of all]."""
    losses, mean, times = (state[name].copy() for name in ("losses", "mean", "times"))
    losses[clients], mean[clients] = loss, lowered(mean[clients], times[clients], loss)
    times[clients] += 1
    return {"losses": losses, "mean": mean, "times": times}


def lowered(mean: np.ndarray, times: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """The mean that only moves down, after one more loss: one that is not above it is taken in, with the weight of one time
    among all."""
    old = np.where(times > 0, mean, 0.0) * times
    return np.where(loss <= mean, (old + loss) / (times + 1), mean)


def common(rows: np.ndarray, length: float) -> np.ndarray:
    """d [P]: the min-norm point of rows [row, P], brought to `length`.

    A min-norm point of 0 cannot be brought to a length: where doing so would lose descent to rounding it stays as it is.
    """
    d = (min_norm(finite_runs(rows @ rows.T))[:, None] * rows).sum(0)
    longer = d * (length / np.maximum(np.linalg.norm(d, axis=-1), 1e-300))
    return longer if (rows @ longer >= -1e-6).all() else d
