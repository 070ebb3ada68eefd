"""One file per method, named as its paper names it."""

from fairfl_lite.methods.corefed import CoreFed
from fairfl_lite.methods.fair_fate import FairFate
from fairfl_lite.methods.fairfed import FairFed
from fairfl_lite.methods.fedavg import FedAvg
from fairfl_lite.methods.fedval import FedVal
from fairfl_lite.methods.momentum import FedDemon, FedMom
from fairfl_lite.methods.rankff import RankFF

__all__ = ["CoreFed", "FairFate", "FairFed", "FedAvg", "FedDemon", "FedMom", "FedVal", "RankFF"]
