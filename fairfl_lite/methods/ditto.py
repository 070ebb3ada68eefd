"""Ditto: every client has a model of its own, drawn toward the server's (Li et al., ICML 2021); one of EFFL's baselines."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State
from fairfl_lite.methods.settings import require


@dataclass(frozen=True)
class Ditto(Method):
    """Client k keeps v_k, which minimises F_k(v) + lam / 2 |v - w|^2, and trains the server's w beside it on the same batches.

    v_k <- v_k - rate (grad F_k(v_k) + lam (v_k - w)), with the w that the client was given this round;
    w <- w + mean_k (w_k - w) over those who take part, who all weigh alike.
    The answer is the personal models, [run, client, P]; they never leave their clients, so that no attack changes one but by way
    of w. A client that has not taken part yet has none: it uses the server's, and its v_k starts from the first w that it is
    given. The authors let every v_k start from the first model of all, also that of a client that comes late, and score it as
    that until then; with everybody in every round there is no difference. lam = 0 is local training alone; lam times the rate
    must be below 2, or the pull overshoots.
    """

    lam: float = 1.0
    name: str = "ditto"

    def __post_init__(self) -> None:
        require("lam", self.lam, 0)
        if np.ndim(self.lam):
            raise FairFLError("Ditto's lam is one number for all runs, because it is a setting of their local training.")

    def start(self, fed: Federation) -> State:
        for part, shards in fed.shards.items():
            if shards.clients != fed.clients:
                raise FairFLError(
                    f"Ditto answers with one model for each of {fed.clients} clients, and part {part!r} is dealt to "
                    f"{shards.clients}: make the federation with central=False."
                )
        w = fed.start()
        there = np.zeros((len(fed.seeds), fed.clients), bool)
        return State(w, {"own": np.repeat(w[:, None], fed.clients, axis=1), "met": there})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who = fed.who(t)
        run, place = np.nonzero(who >= 0)
        client = who[run, place]
        w_k = fed.train(state.params, t, who=who)
        v_k = np.repeat(state.params[:, None], who.shape[1], axis=1)
        v_k[run, place] = self.answer(state)[run, client]
        v_k = fed.honest.train(v_k, t, who=who, local=replace(fed.local, prox=self.lam), toward=state.params)
        own, met = state["own"].copy(), state["met"].copy()
        own[run, client], met[run, client] = v_k[run, place], True
        return State(fed.average(w_k, who >= 0), {"own": own, "met": met})

    def answer(self, state: State) -> np.ndarray:
        return np.where(state["met"][..., None], state["own"], state.params[:, None])
