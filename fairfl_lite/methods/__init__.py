"""One file per method, named as its paper names it."""

from fairfl_lite.methods.afl import AFL
from fairfl_lite.methods.corefed import CoreFed
from fairfl_lite.methods.ditto import Ditto
from fairfl_lite.methods.e2fl import E2FL
from fairfl_lite.methods.effl import EFFL
from fairfl_lite.methods.fair_fate import FairFate
from fairfl_lite.methods.fairbatch import FairBatch
from fairfl_lite.methods.fairfed import FairFed
from fairfl_lite.methods.fairreg import FairReg
from fairfl_lite.methods.fcfl import FCFL
from fairfl_lite.methods.fedavg import FedAvg
from fairfl_lite.methods.fedfb import FedFB
from fairfl_lite.methods.fedfv import FedFV
from fairfl_lite.methods.fedgft import FedGFT
from fairfl_lite.methods.fedmdfg import FedMDFG
from fairfl_lite.methods.fedmgda import FedMGDA
from fairfl_lite.methods.fedminmax import FedMinMax
from fairfl_lite.methods.fedval import FedVal
from fairfl_lite.methods.frl import FRL
from fairfl_lite.methods.group_thresholds import GroupThresholds
from fairfl_lite.methods.groups import BinarySearchInference, KnownGroups, LowestLossInference, OneShotInference, RankClustering
from fairfl_lite.methods.ifca import IFCA
from fairfl_lite.methods.local_only import LocalOnly
from fairfl_lite.methods.momentum import FedDemon, FedMom
from fairfl_lite.methods.propfair import PropFair
from fairfl_lite.methods.qffl import QFFL
from fairfl_lite.methods.rankff import RankFF
from fairfl_lite.methods.term import TERM

__all__ = [
    "AFL",
    "BinarySearchInference",
    "CoreFed",
    "Ditto",
    "E2FL",
    "EFFL",
    "FCFL",
    "FRL",
    "FairBatch",
    "FairFate",
    "FairFed",
    "FairReg",
    "FedAvg",
    "FedDemon",
    "FedFB",
    "FedFV",
    "FedGFT",
    "FedMDFG",
    "FedMGDA",
    "FedMinMax",
    "FedMom",
    "FedVal",
    "GroupThresholds",
    "IFCA",
    "KnownGroups",
    "LocalOnly",
    "LowestLossInference",
    "OneShotInference",
    "PropFair",
    "QFFL",
    "RankClustering",
    "RankFF",
    "TERM",
]
