"""Datasets and partitions: from a name to rows, and from rows to clients."""

from fairfl_lite.data.images import Images
from fairfl_lite.data.partition import Draw, Partition, histogram
from fairfl_lite.data.registry import DATASETS, available, check, digest, fetch, images, listing, load, register
from fairfl_lite.data.sources import Dataset, File
from fairfl_lite.data.table import Table

__all__ = [
    "DATASETS",
    "Dataset",
    "Draw",
    "File",
    "Images",
    "Partition",
    "Table",
    "available",
    "check",
    "digest",
    "fetch",
    "histogram",
    "images",
    "listing",
    "load",
    "register",
]
