"""FedMDFG: a direction that lowers every client's loss and turns the losses toward equal ones (Pan et al., AAAI 2023); one of
EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairfl_lite.errors import choose
from fairfl_lite.federation import Federation, Method, State, gather, scatter
from fairfl_lite.methods.settings import PerRun, per_run, require, require_whole
from fairfl_lite.programs import finite_runs, min_norm

STILL = 1e-6
"""A gradient this short is of a client that has arrived: it takes no part in the direction."""
ARMIJO = 1e-4
"""The share of the drop that its gradient promises which each client's loss must make."""
ABREAST = 4
"""Steps that the line search tries at once: on Adult four cost less than two of them alone."""


@dataclass(frozen=True, eq=False)
class FedMDFG(Method):
    """theta <- theta - step d, d the min-norm point of the clients' gradients, all brought to their mean length, and of a row
    of fairness where losses are unequal.

    Unequal: the angle between the losses l and (1, .., 1) is above `angle`, or the losses of some clients, not of all, rose. The
    row of fairness is h G, h the unit vector along cos l / |l| - (1, .., 1) / sqrt(n), which lowers the angle. A client that took
    part in the round before and does not now is not forgotten: its old row stays for this round. d is brought to the length of
    the mean gradient. The step is the first of lr 2^s, lr 2^(s-1), .., lr 2^-s (from lr on where clients have gone) for which
    every loss falls by at least 1e-4 step d . g_k, and the angle too where the row is there; failing that, the first that lowers
    the sum of losses; failing that, the one with the smallest sum.

    rose : when a loss counts as risen. "mean" is the authors' code: when it is above a mean of the client's losses so far that
    only moves down; a loss above it is not taken in, and counts as one of them. "last" is ours: when it is above that of the last
    time that the client took part. The line search is ours too: in the authors' code a sign lets each loss rise by 1e-4 step
    d . g_k instead, the g_k there are those brought to one length, and all losses pass its test that the angle falls.

    lr, angle (in radians) : numbers, or one per run. With one client, whose losses are always equal, it is gradient descent with
    this line search; angle = pi / 2 has the row only where some losses rose, and is MGDA otherwise. The server must see every
    loss and gradient by itself, because d descends along each.
    """

    must_see = "every client's loss and gradient"

    lr: PerRun = 0.1
    angle: PerRun = np.pi / 16
    s: int = 5
    rose: Literal["mean", "last"] = "mean"
    name: str = "fedmdfg"

    def __post_init__(self) -> None:
        require("lr", self.lr, 0, above=True)
        require("angle", self.angle, 0, np.pi / 2)
        require_whole("s", self.s, 0)
        choose(self.rose, ("mean", "last"), "way to tell that a loss rose named")

    def start(self, fed: Federation) -> State:
        for name in ("lr", "angle"):
            per_run(fed, name, getattr(self, name))
        runs, params = len(fed.seeds), fed.start()
        nobody = {"who": np.zeros((runs, 0), np.int64), "rows": np.zeros((runs, 0, fed.model.size), params.dtype)}
        none = np.full((runs, fed.clients), np.inf)
        return State(params, {**nobody, "losses": none, "mean": none, "times": 0 * fed.sizes(), "step": np.zeros(runs)})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        loss, slope = fed.gradient(state.params, who=who, t=t)
        size = np.linalg.norm(slope, axis=2)
        live = (who >= 0) & (size > STILL)
        many = np.maximum(live.sum(1, keepdims=True), 1)
        length = np.where(live, size, 0.0).sum(1, keepdims=True) / many
        G = np.where(live, length / np.where(live, size, 1.0), 0.0)[..., None] * slope
        mean = np.linalg.norm(G.sum(1) / many, axis=1)

        rose = live & (loss > gather(state["losses" if self.rose == "last" else "mean"], who, np.inf))
        cosine, turn = fairness(loss, live)
        unequal = np.arccos(np.minimum(cosine, 1.0)) > per_run(fed, "angle", self.angle)[:, 0]
        unequal |= rose.any(1) & (rose.sum(1) < live.sum(1))
        unequal &= (turn != 0).any(1)  # equal losses have nowhere to turn
        gone = (state["who"] >= 0) & ~(state["who"][:, :, None] == who[:, None]).any(2)
        rows = np.concatenate([G, turn[:, None] @ G, state["rows"]], axis=1).astype(np.float64)
        d = common(rows, np.concatenate([live, unequal[:, None], gone], axis=1), mean)

        step = self.search(fed, state.params, d, who, live, loss, slope, unequal, gone.any(1))
        params = (state.params - step[:, None] * d).astype(state.params.dtype)
        there, now = scatter(who >= 0, who, fed.clients, False), scatter(loss, who, fed.clients, np.inf)
        seen = {"losses": np.where(there, now, state["losses"]), **lowered(state["mean"], state["times"], now, there)}
        kept = (np.where(live, who, -1), G) if fed.participants else (state["who"], state["rows"])
        return State(params, {"who": kept[0], "rows": kept[1].astype(slope.dtype), **seen, "step": step})

    def search(self, fed: Federation, params: np.ndarray, d: np.ndarray, who: np.ndarray, live: np.ndarray, loss: np.ndarray,
               slope: np.ndarray, unequal: np.ndarray, changed: np.ndarray) -> np.ndarray:  # fmt: skip
        """The length of the step, [run]. ABREAST steps are tried at once, which reads the rows once for all of them; a run that
        has found its own is not asked again."""
        lr, promise, runs = per_run(fed, "lr", self.lr)[:, 0], (slope @ d[..., None])[..., 0], len(params)
        before, cosine = np.where(live, loss, 0.0).sum(1), fairness(loss, live)[0]
        found, lower, best = np.full(runs, np.nan), np.full(runs, np.nan), np.full(runs, np.nan)
        least = np.full(runs, np.inf)
        powers = range(self.s, -self.s - 1, -1)
        for first in range(0, len(powers), ABREAST):
            some = powers[first : first + ABREAST]
            asked = np.isnan(found) & live.any(1) & ((some[-1] <= 0) | ~changed)
            if not asked.any():
                continue
            steps = np.where(asked, lr, 0.0)[:, None] * 2.0 ** np.array(some)
            moved = (params[:, None] - steps[..., None] * d[:, None]).astype(params.dtype)
            each = fed.losses(moved, who=np.where(asked[:, None], who, -1), cross=True)
            for i, power in enumerate(some):
                step, now = steps[:, i], each[:, i]
                tried = np.isnan(found) & asked & ((power <= 0) | ~changed)
                total = np.where(live, now, 0.0).sum(1)
                fell = (~live | (loss - now >= ARMIJO * step[:, None] * promise)).all(1)
                found = np.where(tried & fell & (~unequal | (fairness(now, live)[0] > cosine)), step, found)
                lower = np.where(tried & np.isnan(lower) & (total < before), step, lower)
                best, least = np.where(tried & (total < least), step, best), np.where(tried, np.fmin(total, least), least)
        return np.nan_to_num(np.where(np.isnan(found), np.where(np.isnan(lower), best, lower), found))


def fairness(loss: np.ndarray, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cosine of the angle between the losses of those alive and (1, .., 1), [run], and the unit vector h [run, participant]
    along its negative gradient by the losses; h = 0 where they are equal."""
    unit = np.where(live, loss, 0.0)
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-300)
    ones = live / np.sqrt(np.maximum(live.sum(1, keepdims=True), 1))
    cosine = (unit * ones).sum(1)
    turn = cosine[:, None] * unit - ones
    size = np.linalg.norm(turn, axis=1, keepdims=True)
    return cosine, np.where(size > 1e-7, turn / np.maximum(size, 1e-300), 0.0)


def lowered(mean: np.ndarray, times: np.ndarray, loss: np.ndarray, there: np.ndarray) -> dict[str, np.ndarray]:
    """The mean that only moves down, and how often a client took part, after a round, all [run, client]. A loss that is not above
    the mean is taken in, with the weight of one time among all."""
    old = np.where(times > 0, mean, 0.0) * times
    return {"mean": np.where(there & (loss <= mean), (old + loss) / (times + 1), mean), "times": times + there}


def common(rows: np.ndarray, there: np.ndarray, length: np.ndarray) -> np.ndarray:
    """d [run, P]: the min-norm point of the rows that are there, brought to `length` [run]; 0 where there are none.

    A min-norm point of 0 cannot be brought to a length: where doing so would lose descent to rounding it stays as it is.
    """
    none = ~there.any(1, keepdims=True)
    rows = np.where(there[..., None], rows, 0.0)
    there = there | none
    weights = min_norm(finite_runs(rows @ np.swapaxes(rows, 1, 2)), there)
    d = (weights[..., None] * rows).sum(1)
    longer = d * (length / np.maximum(np.linalg.norm(d, axis=1), 1e-300))[:, None]
    descends = (~there | ((rows @ longer[..., None])[..., 0] >= -1e-6)).all(1)
    return np.where(descends[:, None], longer, d)
