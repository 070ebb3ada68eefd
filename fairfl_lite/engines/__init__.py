"""What trains and differentiates: compiled kernels for tabular models and for RankFF's network, plain torch for any model,
behind one interface.

base : the interface. fused, convolution, edge_popup : numba kernels for tabular models, RankFF's network, and supernets or their
networks, with simd, which nothing else may use, and compiled. plain : torch. order : how rows are shuffled.
"""

from __future__ import annotations

from fairfl_lite.engines.base import Engine, Of, Work
from fairfl_lite.engines.convolution import Convolution, fit, losses_of, serves
from fairfl_lite.engines.order import Shuffle
from fairfl_lite.engines.plain import Plain, mean_loss, row_losses
from fairfl_lite.errors import choose
from fairfl_lite.models import Dense, LeNet, Model, Perceptron
from fairfl_lite.supernets import Supernet


def get(name: str | Engine, model: Model, shuffle: Shuffle = "splitmix") -> Engine:
    """An engine by its name: "fused" where the model and the way of shuffling allow it, else "plain"."""
    if not isinstance(name, str):
        return name
    if choose(name, ("fused", "plain"), "engine") == "fused":
        if serves(model):
            return Convolution(model, shuffle)  # type: ignore[arg-type]
        if isinstance(model, Dense) and model.classes == 2 and shuffle == "splitmix":
            from fairfl_lite.engines.fused import Fused

            return Fused(model)
        if isinstance(model, Supernet | LeNet | Perceptron) and shuffle == "splitmix":
            from fairfl_lite.engines.edge_popup import EdgePopup

            if EdgePopup.serves(model):
                return EdgePopup(model)
    return Plain(model, shuffle)


__all__ = ["Convolution", "Engine", "Of", "Plain", "Shuffle", "Work", "fit", "get", "losses_of", "mean_loss", "row_losses"]
