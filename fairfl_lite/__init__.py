"""Fair federated learning, method by method: the package behind the book."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Federation": "federation",
    "Local": "clients",
    "Debias": "clients",
    "Attack": "clients",
    "AFL": "methods",
    "CoreFed": "methods",
    "Ditto": "methods",
    "EFFL": "methods",
    "FCFL": "methods",
    "FairBatch": "methods",
    "FairFate": "methods",
    "FairFed": "methods",
    "FairReg": "methods",
    "FedAvg": "methods",
    "FedDemon": "methods",
    "FedMDFG": "methods",
    "FedMGDA": "methods",
    "FedMom": "methods",
    "FedVal": "methods",
    "QFFL": "methods",
    "RankFF": "methods",
    "FRL": "methods",
    "E2FL": "methods",
    "Known": "methods",
    "RankClustering": "methods",
    "LowestLoss": "methods",
    "OneShot": "methods",
    "BinarySearch": "methods",
    "IFCA": "methods",
    "LocalTraining": "methods",
    "Supernet": "supernets",
    "Partition": "data",
    "load": "data",
}
"""The names to start from, and the module each is in; imported when first asked for, since torch takes seconds."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
