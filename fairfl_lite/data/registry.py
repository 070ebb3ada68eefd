"""The datasets by name, and what can be asked of one. A new dataset is one module and one entry here."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fairfl_lite.data import (
    acsincome,
    acspubliccoverage,
    adult,
    cifar10,
    compas,
    dutch,
    eicu,
    law_school,
    mnist,
    sources,
    synthetic,
    tiles,
)
from fairfl_lite.data.images import Images, parsed
from fairfl_lite.data.sources import Dataset
from fairfl_lite.data.table import SCALINGS, Table, scale
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.store import fingerprint

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        adult.DATASET,
        compas.DATASET,
        law_school.DATASET,
        dutch.DATASET,
        acsincome.DATASET,
        acspubliccoverage.DATASET,
        synthetic.DATASET,
        eicu.DATASET,
        eicu.STAND_IN,
        tiles.DATASET,
        tiles.STAND_IN,
        mnist.DATASET,
        cifar10.DATASET,
    )
}


def load(name: str, *, encoding: str = "codes", sensitive: str | None = None, scaling: str = "standard", **options: Any) -> Table:
    """The dataset as a Table; its files are fetched first when they are not on this machine.

    encoding : "codes" (categories as integers) or "onehot". sensitive : the attribute that becomes `a`, None
    for the dataset's default. scaling : "standard", "minmax" or "none", see `table.scale`. Further options are
    the keyword arguments of the dataset's own `build`.
    """
    dataset = _dataset(name)
    if dataset.build is None:
        raise FairFLError(f"Dataset {name!r} holds images, not a table: use data.images({name!r}).")
    known = ["scaling", *(p for p in inspect.signature(dataset.build).parameters if p != "paths")]
    for option in options:
        choose(option, known, f"option of dataset {name!r} named")
    choose(encoding, ("codes", "onehot"), "encoding")
    choose(scaling, SCALINGS, "scaling")
    if sensitive is not None:
        options["sensitive"] = sensitive
    table = dataset.build(fetch(name), encoding=encoding, **options)
    digest = table.digest if scaling == "standard" else fingerprint(table.digest, scaling)
    return replace(table, X=scale(table.X, scaling), scaling=scaling, digest=digest)


def images(name: str) -> Images:
    """The dataset as Images; its files are fetched first when they are not on this machine, unless they are large."""
    dataset = _dataset(name)
    if dataset.pixels is None:
        raise FairFLError(f"Dataset {name!r} is a table and holds no images: use data.load({name!r}).")
    return parsed(dataset, fetch(name))


def fetch(name: str, *, large: bool = False) -> dict[str, Path]:
    """Paths of the dataset's raw files by file name, each checked against its sha256.

    large : download files of more than a hundred megabytes too; otherwise they must be on this machine.
    """
    dataset = _dataset(name)
    return sources.fetch(dataset, [other for other in DATASETS.values() if other is not dataset], large=large)


def available(name: str) -> bool:
    """Whether every file is on this machine with the right sha256; nothing is fetched."""
    return not {"missing", "corrupt"} & {row["status"] for row in sources.status(_dataset(name))}


def check(name: str | None = None) -> pd.DataFrame:
    """One row per file with columns dataset, file, place, status; all datasets when no name is given."""
    chosen = DATASETS.values() if name is None else [_dataset(name)]
    return pd.DataFrame([row for dataset in chosen for row in sources.status(dataset)])


def listing() -> pd.DataFrame:
    """One row per dataset with columns dataset, title, available, origin, licence, stand_in."""
    return pd.DataFrame([_describe(dataset) for dataset in DATASETS.values()])


def digest(name: str) -> str:
    """sha256 that identifies the raw data of a dataset, known before it is fetched."""
    return sources.raw_digest(_dataset(name))


def _dataset(name: str) -> Dataset:
    return DATASETS[choose(name, DATASETS, "dataset named")]


def _describe(dataset: Dataset) -> dict[str, Any]:
    packages = {name for file in dataset.files for name in (file.package, file.npm) if name}
    publishers = {file.url.split("/")[2] for file in dataset.files if file.url}
    origin = dataset.origin or ", ".join(sorted(packages) + sorted(publishers))
    return {
        "dataset": dataset.name,
        "title": dataset.card.title,
        "available": available(dataset.name),
        "origin": origin,
        "licence": dataset.card.licence,
        "stand_in": dataset.stand_in,
    }
