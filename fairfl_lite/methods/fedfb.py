"""FedFB: FairBatch over a whole federation, by weights that the server moves (Zeng, Chen and Lee, 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite.clients.debias import TrainingRows
from fairfl_lite.clients.summaries import LossSums
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class FedFB(Method):
    """FedFB: FairBatch over a whole federation, by weights that the server moves (Zeng, Chen and Lee, 2021).

    It aims at demographic parity. A row of group z and label y weighs r[z, y], where ``r[z, 0] + r[z, 1] = 2`` and both start
    at 1. Client k weighs the sum of the weights of its rows in the average. After each round the server moves the weights by
    how far group z is chosen more often than group 0, with losses in the place of decisions: ``F_z = (L[0, 1] - L[0, 0]) / n_0
    - (L[z, 1] - L[z, 0]) / n_z + m[0, 0] / n_0 - m[z, 0] / n_z``. L is the sum of log losses of the rows of a group and label,
    m their number and n_z that of the group. With wrong decisions in the place of losses F_z is the difference of the selection
    rates of z and 0, exactly. With ``s = alpha / sqrt(t)``: ``r[z, 0] <- r[z, 0] + s (n / n_z) F_z``, ``r[0, 0] <- r[0, 0] - s
    (n / n_0) sum_z F_z``, and every r[z, 0] is kept in [0, 2].

    In the paper's letters r[z, y] is lambda_yz n / n_z. Our r depends on no client that is away, so not all have to take part,
    and all sums are over those who do; the server needs sums alone. The released code differs in four points that look like
    slips: it adds the term of m once for each client, limits every group's lambda by the size of group 0, leaves the first
    client's model unweighted, and weighs the rows of a client twice with SGD, in its loss and in the average. Here the weights
    of a client's rows are divided by their mean before it trains.

    Parameters
    ----------
    alpha : float
        How far the weights move. ``alpha=0`` is FedAvg, bit for bit, and so is the first round.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, FedAvg, Federation, FedFB, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.random(3), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([FedAvg(), FedFB(alpha=0.5)], rounds=10)
    >>> abs(runs.values("spd")[:, :, -1]).round(2)
    array([[0.39, 0.4 ],
           [0.1 , 0.11]])
    """

    alpha: float = 0.3
    name: str = "fedfb"

    def __post_init__(self) -> None:
        require("alpha", self.alpha, 0)

    async def start(self, fed: OneFederation) -> State:
        counts = await fed.group_label_counts(fed.all_clients)
        if counts.shape[2] != 2:
            raise FairFLError(f"FedFB evens out how often groups get the favourable one of two labels, not of {counts.shape[2]}.")
        return State(fed.init_params(), {"rows": np.ones(counts.shape[1:])})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, r = fed.sample_clients(t), state["rows"]
        counts = await fed.group_label_counts(clients)
        whole = (counts * r).sum((1, 2))  # what the rows of each client weigh together
        mean = whole / fed.sizes(clients)
        local = await fed.train(state.params, clients, t, rows=TrainingRows(r / np.where(mean > 0, mean, 1.0)[:, None, None]))
        params = fed.average(local, whole / fed.sizes(clients).sum())
        losses = await fed.summaries(params, clients, LossSums(len(r)))
        L, m = np.moveaxis(fed.sum(np.stack([losses, counts], axis=1)), 0, 0)
        return State(params, {"rows": moved(r, L, m, self.alpha / np.sqrt(t))})


def moved(r: np.ndarray, L: np.ndarray, m: np.ndarray, s: float) -> np.ndarray:
    """The weights of rows after a round, all arrays [group, label]. A group that nobody has stays as it is."""
    n = m.sum(1)
    size = np.where(n > 0, n, 1)
    level = (L[:, 1] - L[:, 0] + m[:, 0]) / size  # 1 - the selection rate, with losses in the place of decisions
    F = np.where((n > 0) & (n[0] > 0), level[0] - level, 0.0)
    step = np.concatenate([[-F[1:].sum()], F[1:]])
    negative = np.clip(r[:, 0] + s * n.sum() / size * step, 0, 2)
    return np.stack([negative, 2 - negative], axis=1)
