"""IFCA: one model for each group, and every client trains the one that suits it best (Ghosh et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairfl_lite import streams
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Answer, Federation, Method, Models, State, gather, scatter
from fairfl_lite.methods.settings import require_whole


@dataclass(frozen=True)
class IFCA(Method):
    """Each of those who take part trains argmin_q of the loss on its training rows, and theta_q <- the mean of the models that
    were trained from theta_q; a model that nobody chose stays.

    count : how many models. known : clients take the model of the group of their rows (of most of them) instead, and all models
    begin alike; otherwise each begins at random by itself. count = 1 is FedAvg of clients that weigh alike.
    Memory: "models" [run, group, P], "of" [run, client], the model that each client last chose. params is the mean of models.
    The server must see which model each client trained, because it averages within the groups that these choices make.
    """

    must_see = "which model each client trained, to average within groups"

    count: int
    known: bool = False
    name: str = "ifca"

    def __post_init__(self) -> None:
        require_whole("IFCA.count", self.count)

    def start(self, fed: Federation) -> State:
        if self.known:
            models = np.repeat(fed.start()[:, None], self.count, axis=1)
            of = fed.shards["train"].census().sum(3).argmax(2)
            if of.max() >= self.count:
                raise FairFLError(f"IFCA has {self.count} models, and clients belong to {of.max() + 1} groups: give count="
                                  f"{of.max() + 1}.")  # fmt: skip
        else:
            models = np.stack([[self._start(fed, seed, q) for q in range(self.count)] for seed in fed.seeds])
            of = np.zeros((len(fed.seeds), fed.clients), np.int64)
        return State(models.mean(1), {"models": models, "of": of})

    def round(self, fed: Federation, state: State, t: int) -> State:
        who, models = fed.who(t), state["models"].copy()
        chosen = self._chosen(fed, state, who)
        local = fed.train(np.take_along_axis(models, np.maximum(chosen, 0)[..., None], 1), t, who=who)
        for r, q in np.argwhere((chosen[:, :, None] == np.arange(self.count)).any(1)):
            models[r, q] = local[r, chosen[r] == q].mean(0, dtype=np.float64)
        of = np.where((kept := scatter(chosen, who, fed.clients, -1)) >= 0, kept, state["of"])
        return State(models.mean(1), {"models": models, "of": of})

    def settled(self, fed: Federation, state: State) -> State:
        """The state with every client at the model that it would choose now."""
        everybody = fed.everybody()
        kept = scatter(self._chosen(fed, state, everybody), everybody, fed.clients, -1)
        return State(state.params, {**state.memory, "of": np.where(kept >= 0, kept, state["of"])})

    def answer(self, state: State) -> Answer:
        return Models(state["models"], state["of"])

    def _start(self, fed: Federation, seed: int, q: int) -> np.ndarray:
        return fed.model.init(streams.stream(seed, "start", q))

    def _chosen(self, fed: Federation, state: State, who: np.ndarray) -> np.ndarray:
        """The model that each of `who` takes, [run, participant]; -1 where there is nobody."""
        if self.known:
            return np.where(who >= 0, gather(state["of"], who), -1)
        return np.where(who >= 0, fed.lowest(state["models"], who=who), -1)
