"""Ditto: every client has a model of its own, drawn toward the server's (Li et al., ICML 2021); one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method, OneFederation, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class Ditto(Method):
    """Ditto: every client has a model of its own, drawn toward the server's (Li et al., ICML 2021); one of EFFL's baselines.

    Client k keeps v_k, which minimises ``F_k(v) + lam / 2 |v - w|^2``, and trains the server's w beside it on the same
    batches: ``v_k <- v_k - rate (grad F_k(v_k) + lam (v_k - w))``, with the w that the client was given this round, and ``w
    <- w + mean_k (w_k - w)`` over those who take part, who all weigh alike.

    The answer is the personal models, of shape (n_clients, n_params); they never leave their clients, so that no attack
    changes one but by way of w. A client that has not taken part yet has none: it uses the server's, and its v_k starts from
    the first w that it is given. The authors let every v_k start from the first model of all, also that of a client that
    comes late, and score it as that until then; with everybody in every round there is no difference.

    Parameters
    ----------
    lam : float
        How strongly a personal model is drawn toward the server's. ``lam=0`` is local training alone; lam times the rate must
        be below 2, or the pull overshoots.
    name : str
        The label of its history.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Ditto, Federation, LocalOnly, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.by_column("client"), range(2), ClientTraining(lr=0.1))
    >>> runs = fed.run([LocalOnly(), Ditto(lam=0)], rounds=3)
    >>> bool((runs["local-only"].answer == runs["ditto"].answer).all())
    True
    """

    lam: float = 1.0
    name: str = "ditto"

    def __post_init__(self) -> None:
        require("lam", self.lam, 0)

    async def start(self, fed: OneFederation) -> State:
        for part in fed.parts:
            if fed.holders(part) != fed.n:
                raise FairFLError(f"Ditto answers with one model for each of {fed.n} clients, and part {part!r} is dealt to "
                                  f"{fed.holders(part)}: make the federation with central=False.")  # fmt: skip
        w = fed.init_params()
        return State(w, {"own": np.repeat(w[None], fed.n, axis=0), "met": np.zeros(fed.n, bool)})

    async def round(self, fed: OneFederation, state: State, t: int) -> State:
        clients, w, own, met = fed.sample_clients(t), state.params, state["own"].copy(), state["met"].copy()
        w_k = await fed.train(w, clients, t)
        v_k, pulled = self.answer(state)[clients], replace(fed.local, prox=self.lam)
        own[clients], met[clients] = await fed.honest.train(v_k, clients, t, local=pulled, toward=w), True
        return State(fed.average(w_k, 1.0), {"own": own, "met": met})

    def answer(self, state: State) -> np.ndarray:
        return np.where(state["met"][:, None], state["own"], state.params)
