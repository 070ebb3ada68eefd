"""The datasets by name, and what can be asked of one. A new dataset is one module with a DATASET, and is found."""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from fairfl_lite.data import sources
from fairfl_lite.data.images import Images, parsed
from fairfl_lite.data.sources import Dataset
from fairfl_lite.data.table import SCALINGS, Table, scale
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.store import fingerprint

DISCOVERS = "fairfl_lite.data"  # what is imported as it is found counts all the same, see imports
_CONSTANT = re.compile(r"^(DATASET|STAND_IN)\b[^=\n]*=", re.MULTILINE)
Own = TypeVar("Own", Dataset, Callable[..., Table])


def _own() -> dict[str, Dataset]:
    """The datasets that modules beside this one hold as DATASET or STAND_IN; no other module is imported, one needs torch."""
    found: dict[str, Dataset] = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        for constant in _CONSTANT.findall(file.read_text(encoding="utf-8")):
            dataset = getattr(import_module(f"{DISCOVERS}.{file.stem}"), constant)
            found[dataset.name] = dataset
    return found


DATASETS = _own()


def register(dataset: Own, name: str | None = None) -> Own:
    """Have `load` know a dataset of yours by its name, as long as Python runs.

    Parameters
    ----------
    dataset : Dataset or function
        A Dataset, or a function that returns a Table. The arguments of the function become options of `load`.
    name : str, optional
        What to load the table of a function by; the name of the function if None. A Dataset has a name already.

    Returns
    -------
    Dataset or function
        What was given, so that ``@register`` can stand above a function.

    Raises
    ------
    FairFLError
        If there is a dataset of that name already, or `dataset` is neither of the two.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairfl_lite import Table, load, register
    >>> def loans():
    ...     frame = pd.DataFrame({"income": [1.0, 2.0], "sex": ["f", "m"], "paid": [0, 1]})
    ...     return Table.from_frame(frame, label="paid", sensitive="sex", name="loans")
    >>> _ = register(loans)
    >>> load("loans")
    Table('loans', 2 rows, 1 features, sensitive='sex')
    """
    if isinstance(dataset, Dataset):
        if name not in (None, dataset.name):
            raise FairFLError(f"The dataset is named {dataset.name!r}: register it without another name, or rename it.")
        entry = dataset
    elif callable(dataset):
        entry = _of_function(dataset, name or str(getattr(dataset, "__name__", type(dataset).__name__)))
    else:
        raise FairFLError(f"Register a Dataset, or a function that returns a Table, not a {type(dataset).__name__}.")
    if entry.name in DATASETS:
        raise FairFLError(f"There is a dataset named {entry.name!r} already: give yours another name.")
    DATASETS[entry.name] = entry
    return dataset


def _of_function(make: Callable[..., Table], name: str) -> Dataset:
    """A dataset whose rows are what a function of the user returns."""
    known = list(inspect.signature(make).parameters)

    @wraps(make)
    def build(paths: Any, *, encoding: str = "codes", **options: Any) -> Table:
        options |= {"encoding": encoding} if "encoding" in known or encoding != "codes" else {}
        for option in options:
            if option not in known:
                raise FairFLError(f"Dataset {name!r} has no option {option!r}: its function has no argument of that name.")
        table = make(**options)
        if not isinstance(table, Table):
            raise FairFLError(f"The function of dataset {name!r} must return a Table, not a {type(table).__name__}.")
        return table

    try:
        made = inspect.getsource(make)
    except (OSError, TypeError):  # typed in by hand, or no plain function
        made = f"{make!r}"
    return Dataset(name, name, build, "call its function", origin="registered", generated=made, scaled=True)


def load(name: str, *, encoding: str = "codes", sensitive: str | None = None, scaling: str = "standard", **options: Any) -> Table:
    """A dataset as a table. Its files are fetched first when they are not on this machine.

    Parameters
    ----------
    name : str
        The name of the dataset: "adult", "compas", "synthetic" and others, or one of your own, see `register`.
    encoding : {"codes", "onehot"}
        Whether a category becomes a whole number, or a column for each of its values.
    sensitive : str, optional
        The attribute that becomes the group a; the dataset's default if None.
    scaling : {"standard", "minmax", "none"}
        How columns are scaled over all rows: to mean 0 and deviation 1, to 0..1, or not at all.
    **options
        Options of the dataset, which are the arguments of its own function.

    Returns
    -------
    Table

    Raises
    ------
    FairFLError
        If there is no such dataset or option, or its files cannot be had. The sentence says what to do.

    Examples
    --------
    >>> from fairfl_lite import load
    >>> load("synthetic")
    Table('synthetic', 7,000 rows, 3 features, sensitive='A')
    >>> load("synthetic", train=100, test=50)
    Table('synthetic', 150 rows, 3 features, sensitive='A')
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
    if dataset.scaled:
        if scaling not in ("standard", table.scaling):
            raise FairFLError(f"The function of dataset {name!r} scales its rows as {table.scaling!r}: change it there.")
        return table
    digest = table.digest if scaling == "standard" else fingerprint(table.digest, scaling)
    return replace(table, X=scale(table.X, scaling), scaling=scaling, digest=digest)


def images(name: str) -> Images:
    """A dataset of images. Its files are fetched first when they are not on this machine, unless they are large.

    Parameters
    ----------
    name : str
        The name of the dataset: "mnist" or "cifar10".

    Returns
    -------
    Images

    Raises
    ------
    FairFLError
        If there is no such dataset, it is a table, or its files cannot be had.

    Examples
    --------
    >>> from fairfl_lite import FairFLError, images
    >>> try:
    ...     images("synthetic")
    ... except FairFLError as error:
    ...     print(error)
    Dataset 'synthetic' is a table and holds no images: use data.load('synthetic').
    """
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
        "title": dataset.title,
        "available": available(dataset.name),
        "origin": origin,
        "licence": dataset.licence,
        "stand_in": dataset.stand_in,
    }
