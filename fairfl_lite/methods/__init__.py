"""One file per method, named as its paper names it."""

from fairfl_lite.methods.debias import Debias
from fairfl_lite.methods.fairfed import FairFed
from fairfl_lite.methods.fedavg import FedAvg

__all__ = ["Debias", "FairFed", "FedAvg"]
