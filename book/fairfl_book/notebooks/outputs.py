"""Outputs of a notebook: made the same on every run, kept as references, compared within stated tolerances.

What two machines may differ in, and nothing else:

    whole numbers        equal: they count something
    printed decimals     one unit in the last printed digit, plus 1e-4 of the number
    data of a figure     2e-3 of the largest number on the same line of its digest
    pictures             root mean square over all pixels and channels of at most 2, on 0..255, same size
    everything else      equal, apart from spaces

A cell may widen the tolerance of its printed decimals by metadata {"fairfl": {"tolerance": 0.01}}, an
absolute value, where training on another CPU moves a borderline prediction. Cells tagged
`nbval-ignore-output` are not compared (they show data that not everyone has, or timings).
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairfl_book import looks
from fairfl_book.shapes import ANY, SIZE, TEXT, WORD, fit
from fairfl_lite import store
from fairfl_lite.errors import FairFLError, choose

if TYPE_CHECKING:
    import numpy as np
    from nbformat import NotebookNode

RELATIVE = 1e-4
SERIES = 2e-3
PICTURE = 2.0
CELL = {"cell_type": TEXT, "source": (TEXT, [TEXT]), "metadata": {TEXT: ANY}}
ABOUT = {"profiles": {TEXT: {WORD: ANY}}, "data": [WORD], "optional_data": [WORD], "results": [WORD], "seconds": SIZE}
"""What is said of a notebook in its metadata, under fairfl."""
IGNORED = "nbval-ignore-output"
FOLDED = "hide-input"

_NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_STYLER_ID = re.compile(r"\bT_([0-9a-f]{5,32})(?![0-9a-f])")
_NOISE = [
    (re.compile(r"<style.*?</style>", re.S), ""),
    (re.compile(r"\s+id=\"[^\"]*\""), ""),
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "0x"),
]


def source(path: Path) -> dict[str, Any]:
    """A notebook's metadata and cells without their outputs, as plain JSON.

    For what has to answer at once: the grammar that nbformat checks a file by takes seconds to load.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        fit(content, {TEXT: ANY}, "it")
        fit({name: content[name] for name in ("cells", "metadata")}, {TEXT: ANY}, "it")
        fit(content["cells"], [{TEXT: ANY}], "cells")
        cells = [_cell(position, cell) for position, cell in enumerate(content["cells"])]
        metadata = content["metadata"]
        fit(metadata, {TEXT: ANY}, "metadata")
        fit(metadata.get("fairfl", {}), {TEXT: ANY}, "metadata.fairfl")
        for name, shape in ABOUT.items():
            if name in metadata.get("fairfl", {}):
                fit(metadata["fairfl"][name], shape, f"metadata.fairfl.{name}")
    except (OSError, ValueError, KeyError, RecursionError) as error:
        raise _unreadable(path, error) from error
    return {"metadata": metadata, "cells": cells}


def _cell(position: int, cell: dict[str, Any]) -> dict[str, Any]:
    place = f"cells.{position}"
    for name, shape in CELL.items():
        fit(cell[name], shape, f"{place}.{name}")
    choose(cell["cell_type"], ("code", "markdown", "raw"), f"kind of cell for {place}")
    fit(cell["metadata"].get("tags", []), [TEXT], f"{place}.metadata.tags")
    return {
        "cell_type": cell["cell_type"],
        "source": "".join(cell["source"]),  # a text, or a list of its lines
        "metadata": cell["metadata"],
    }


def read(path: Path) -> NotebookNode:
    """A notebook whose cells all have an id; those without one are named by their position."""
    import nbformat

    source(path)
    try:
        notebook = nbformat.read(path, as_version=4)
    except (nbformat.ValidationError, ValueError, AttributeError, LookupError, TypeError, AssertionError) as error:
        raise _unreadable(path, error) from error
    # Reading an older file gives new random ids, which would make two runs of it differ.
    old = '"nbformat_minor": 5' not in path.read_text()
    for position, cell in enumerate(notebook.cells):
        if old or "id" not in cell:
            cell["id"] = f"cell-{position}"
        if cell.cell_type == "code":
            cell.setdefault("outputs", [])
            cell.setdefault("execution_count", None)
    notebook.nbformat_minor = 5
    return notebook


def write(notebook: NotebookNode, path: Path) -> None:
    """Write in one step: a reader sees the old file or the new one, whenever the process is killed."""
    store.write(path, dumps(notebook))


def dumps(notebook: NotebookNode) -> str:
    import nbformat

    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def clean(notebook: NotebookNode) -> NotebookNode:
    """A copy without anything that differs between two equal runs: times, random ids, split streams.

    What the book folds is folded in JupyterLab too.
    """
    import nbformat

    notebook = deepcopy(notebook)
    fairfl = notebook.metadata.get("fairfl")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            **({"fairfl": fairfl} if fairfl else {}),
        }
    )
    count = 0
    for cell in notebook.cells:
        for noise in ("papermill", "execution", "ExecuteTime"):
            cell.metadata.pop(noise, None)
        if not cell.metadata.get("tags", ["kept"]):
            del cell.metadata["tags"]
        _fold(cell)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
        if cell.cell_type != "code":
            continue
        if cell.execution_count is not None:
            count += 1
            cell.execution_count = count
        cell.outputs = list(_steady(cell.outputs, cell["id"], cell.execution_count))
    return notebook


def _fold(cell: NotebookNode) -> None:
    """Mark a cell as folded for JupyterLab if, and only if, its tags fold it in the book."""
    import nbformat

    marks = {**cell.metadata.pop("jupyter", {}), "source_hidden": FOLDED in cell.metadata.get("tags", [])}
    kept = {name: value for name, value in marks.items() if value}
    if kept:
        cell.metadata["jupyter"] = nbformat.from_dict(kept)


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    notebook = deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def keep(executed: NotebookNode, path: Path) -> bool:
    """Put the outputs of a quick run into the source notebook at `path`; True if they were other ones."""
    source = read(path)
    reference = clean(source)
    outputs = {cell["id"]: cell for cell in executed.cells if cell.cell_type == "code"}
    for cell in reference.cells:
        if cell.cell_type == "code":
            made = outputs[cell["id"]]
            cell.outputs, cell.execution_count = deepcopy(made.outputs), made.execution_count
            for output in cell.outputs:
                output.get("metadata", {}).pop(looks.SHARP, None)
    changed = path.read_text() != dumps(reference)
    if changed:
        write(reference, path)
    return changed


def compare(executed: NotebookNode, reference: NotebookNode) -> list[str]:
    """Every difference beyond the tolerances, as one sentence that names the cell; empty when they agree."""
    ours = [cell for cell in executed.cells if cell.cell_type == "code"]
    theirs = [cell for cell in clean(reference).cells if cell.cell_type == "code"]
    if [cell.source for cell in ours] != [cell.source for cell in theirs]:
        return ["the code cells are not those of the reference"]
    found = []
    for number, (cell, other) in enumerate(zip(ours, theirs, strict=True), start=1):
        if IGNORED in other.metadata.get("tags", []):
            continue
        wider = float(other.metadata.get("fairfl", {}).get("tolerance", 0.0))
        found += [f"code cell {number}: {text}" for text in _compare_cells(cell, other, wider)]
    return found


def differ(cell: NotebookNode, other: NotebookNode) -> bool:
    """Whether two cells show different things, beyond the tolerances."""
    return any(_compare_cells(cell, other, 0.0))


def compare_text(ours: str, theirs: str, *, wider: float = 0.0, figure: bool = False) -> str | None:
    """The first difference between two texts with numbers in them, or None."""
    for noise, replacement in _NOISE:
        ours, theirs = noise.sub(replacement, ours), noise.sub(replacement, theirs)
    pairs = [(ours, theirs)]
    if figure:
        pairs = list(zip(ours.splitlines(), theirs.splitlines(), strict=False))
        if len(ours.splitlines()) != len(theirs.splitlines()):
            return "the figure has other series than the reference"
    for one, other in pairs:
        if _words(one) != _words(other):
            return f"text differs: {_first_difference(_words(one), _words(other))}"
        numbers, wanted = _NUMBER.findall(one), _NUMBER.findall(other)
        # Only what stands after the last colon is data; before it are labels.
        data = _NUMBER.findall(other.rpartition(":")[2]) if figure else []
        series = SERIES * max((abs(_value(number)) for number in data), default=0.0)
        first = len(wanted) - len(data)
        for position, (number, want) in enumerate(zip(numbers, wanted, strict=True)):
            allowed = _tolerance(number, want, wider, series if position >= first else 0.0)
            if not abs(_value(number) - _value(want)) <= allowed:
                return f"number differs: {number} instead of {want}"
    return None


def compare_pictures(ours: str, theirs: str) -> str | None:
    """The difference between two base64 PNGs, or None when their root mean square is at most PICTURE."""
    import numpy as np

    one, other = _pixels(ours), _pixels(theirs)
    if one.shape != other.shape:
        return f"the picture has {one.shape[:2]} pixels instead of {other.shape[:2]}"
    rms = float(np.sqrt(np.mean((one - other) ** 2)))
    return f"the picture differs (root mean square {rms:.1f}, at most {PICTURE:g})" if rms > PICTURE else None


def _unreadable(path: Path, error: Exception) -> FairFLError:
    said = f" ({str(error).rstrip('.').removesuffix(': correct it')})" if isinstance(error, FairFLError) else ""
    return FairFLError(f"{path} is not a readable notebook{said}: restore it from git.")


def _steady(outputs: list[Any], cell_id: str, count: int | None) -> Iterator[NotebookNode]:
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    for output in joined:
        if "execution_count" in output:
            output.execution_count = count
        if "text/html" in output.get("data", {}):
            output.data["text/html"] = _steady_ids(output.data["text/html"], cell_id)
        yield output


def _steady_ids(html: str, cell_id: str) -> str:
    """Styler gives a table a new random id in every run."""
    for order, identifier in enumerate(dict.fromkeys(_STYLER_ID.findall(html))):
        html = html.replace(f"T_{identifier}", f"T_{cell_id}-{order}")
    return html


def _compare_cells(cell: NotebookNode, other: NotebookNode, wider: float) -> Iterator[str]:
    if len(cell.outputs) != len(other.outputs):
        yield f"{len(cell.outputs)} outputs instead of {len(other.outputs)}"
        return
    for ours, theirs in zip(cell.outputs, other.outputs, strict=True):
        if ours.output_type != theirs.output_type or ours.get("name") != theirs.get("name"):
            yield f"a {ours.output_type} output instead of a {theirs.output_type}"
        elif ours.output_type == "error":
            yield f"an error is stored: {ours.ename}"
        elif ours.output_type == "stream":
            if difference := compare_text(ours.text, theirs.text, wider=wider):
                yield difference
        else:
            yield from _compare_data(ours, theirs, wider)


def _compare_data(ours: NotebookNode, theirs: NotebookNode, wider: float) -> Iterator[str]:
    if set(ours.data) != set(theirs.data):
        yield f"output as {sorted(ours.data)} instead of {sorted(theirs.data)}"
        return
    figure = "image/png" in theirs.data
    if ours.metadata.get("fairfl") != theirs.metadata.get("fairfl"):
        yield "the name, caption or alternative text of a figure differs"
    for mime in sorted(theirs.data):
        one, other = ours.data[mime], theirs.data[mime]
        if mime == "image/png":
            difference = compare_pictures(one, other)
        else:
            difference = compare_text(str(one), str(other), wider=wider, figure=figure)
        if difference:
            yield difference


def _words(text: str) -> list[str]:
    # A rule under a table's head is as long as the widest number.
    return re.sub(r"[-─=]{3,}", "---", _NUMBER.sub(" # ", text)).split()


def _first_difference(one: list[str], other: list[str]) -> str:
    shorter = min(len(one), len(other))
    at = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    return f"{' '.join(one[at : at + 6])!r} instead of {' '.join(other[at : at + 6])!r}"


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-"))


def _unit(number: str) -> float | None:
    """One in the last printed digit, None for a whole number: 0.25 -> 0.01, 1.5e-03 -> 1e-4."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals) if decimals or exponent else None


def _tolerance(number: str, want: str, wider: float, series: float) -> float:
    units = [unit for unit in (_unit(number), _unit(want)) if unit is not None]
    if not units:
        return 0.0
    # The slack keeps a difference of exactly one unit within reach of binary fractions.
    return max(min(units) * (1 + 1e-6) + RELATIVE * abs(_value(want)), wider, series)


def _pixels(encoded: str) -> np.ndarray:
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        return np.asarray(picture.convert("RGB"), dtype=np.float64)
