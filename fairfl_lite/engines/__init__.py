"""What trains and differentiates: fused kernels for tabular models, plain torch for any model, behind one interface.

base : the interface. fused : numba kernels, with simd, which nothing else may use. plain : torch. order : how rows are shuffled.
"""

from __future__ import annotations

from fairfl_lite.engines.base import Engine, Of, Work
from fairfl_lite.engines.plain import Plain, fit, losses_of, mean_loss, row_losses
from fairfl_lite.errors import choose
from fairfl_lite.models import Dense, Model


def get(name: str | Engine, model: Model) -> Engine:
    """An engine by its name: "fused" where the model allows it, else "plain"."""
    if not isinstance(name, str):
        return name
    if choose(name, ("fused", "plain"), "engine") == "fused" and isinstance(model, Dense) and model.classes == 2:
        from fairfl_lite.engines.fused import Fused

        return Fused(model)
    return Plain(model)


__all__ = ["Engine", "Of", "Plain", "Work", "fit", "get", "losses_of", "mean_loss", "row_losses"]
