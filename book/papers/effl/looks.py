"""EFFL and its baselines in figures."""

from fairfl_book.looks import BROWN, FOREST, INDIGO, OLIVE, PINK, PURPLE, SKY, TEAL, WINE, Look

LOOKS = {
    "effl": Look("EFFL", PINK, "v"),
    "q-ffl": Look("q-FFL", INDIGO, "d"),
    "afl": Look("AFL", TEAL, "H"),
    "ditto": Look("Ditto", SKY, "8"),
    "fcfl": Look("FCFL", OLIVE, "X"),
    "fedmgda+": Look("FedMGDA+", WINE, "*"),
    "fedmdfg": Look("FedMDFG", PURPLE, "p"),
    "fairbatch": Look("FedAvg+FairBatch", BROWN, "<"),
    "fairreg": Look("FedAvg+FairReg", FOREST, ">"),
}
