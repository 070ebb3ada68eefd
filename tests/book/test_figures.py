"""figures.show: what is refused, what is emitted, and that equal figures give equal bytes."""

from __future__ import annotations

import ast
import base64
import io
import re
from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from importlib import import_module
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from PIL import Image
from small import ROOT, code, notebook

from fairfl_book import cards, figures, looks
from fairfl_book.notebooks import outputs
from fairfl_book.site import book
from fairfl_lite import methods
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Method

WORDS = {"name": "fig-a", "caption": "A line.", "alt": "A line that rises."}


@pytest.fixture
def shown(monkeypatch):
    calls = []
    monkeypatch.setattr(figures, "display", lambda data, **more: calls.append((data, more)))
    return calls


def draw(values=(0.1, 0.25, 0.123456)):
    fig, (left, right) = plt.subplots(1, 2)
    left.plot([0, 1, 2], values, label="fedavg")
    left.axhline(0.2)
    left.scatter([1, 2], [3000.0, 40000.0], label="points")
    left.fill_between([0, 1], [0, 0], [1, 2], label="band")
    left.set(title="Left", xlabel="round", ylabel="eod", yscale="symlog")
    left.legend()
    right.bar(["adult", "compas"], [0.5, 0.75], label="bars")
    right.imshow(np.array([[1.0, 2.0], [3.0, np.nan]]))
    right.text(0, 0, "best")
    fig.suptitle("Both")
    return fig


def test_the_digest_has_everything_that_is_drawn():
    lines = [line.strip() for line in figures.digest(draw()).splitlines()]
    plt.close("all")
    assert lines[0] == "figure: Both"
    for wanted in (
        "axes 1: Left",
        "legend: fedavg | points | band",
        "line fedavg, x of 3: 0.000, 1.000, 2.000",
        "line fedavg, y of 3: 0.1000, 0.2500, 0.1235",
        "line -, y of 2: 0.2000, 0.2000",
        "points points, y of 2: 3.000e+03, 4.000e+04",
        "bars bars: 0.5000, 0.7500",
        "heatmap (2, 2): 1.000, 2.000, 3.000, nan",
        "x ticks: adult | compas",
        "text: 'best'",
    ):
        assert wanted in lines
    assert any(line.startswith("x 'round': ") for line in lines)
    assert any(line.startswith("y (symlog) 'eod': ") for line in lines)
    assert any(line.startswith("area band, y of ") for line in lines)


def test_every_changed_value_changes_the_digest():
    first = figures.digest(draw())
    assert figures.digest(draw()) == first
    assert figures.digest(draw((0.1, 0.25, 0.1245))) != first
    plt.close("all")


def test_long_series_are_thinned_with_both_ends():
    fig, axes = plt.subplots()
    axes.plot(np.arange(1000.0))
    line = next(line for line in figures.digest(fig).splitlines() if ", y of 1000: " in line)
    plt.close(fig)
    numbers = line.rpartition(": ")[2].split(", ")
    assert len(numbers) == figures.POINTS
    assert (numbers[0], numbers[-1]) == ("0.000", "999.0")


def test_show_emits_picture_data_and_words_and_closes(shown):
    for _ in range(2):
        figures.show(draw(), **WORDS)
    assert not plt.get_fignums()
    (data, more), again = shown
    assert more["raw"] is True and more["metadata"]["fairfl"] == WORDS
    assert again == (data, more), "equal figures give equal bytes"
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert picture.size == (int(7.0 * figures.DPI), int(4.0 * figures.DPI))
    assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert {"Software", "Creation Time"}.isdisjoint(picture.info)
    assert data["text/plain"].startswith("figure: Both")


def test_the_page_gets_twice_the_pixels_and_a_phone_letters_that_can_be_read(shown):
    figures.show(draw(), **WORDS)
    ((data, more),) = shown
    picture = nbformat.v4.new_output("display_data", data, metadata=more["metadata"])
    run = notebook(code("figures.show(fig)", outputs=[]))
    run.cells[0].outputs = [deepcopy(picture)]
    (made,) = book.page(run).cells
    (output,) = made.outputs
    stored, sharp = (Image.open(io.BytesIO(base64.b64decode(d["image/png"]))) for d in (data, output.data))
    assert sharp.size == tuple(2 * side for side in stored.size)
    assert made.metadata.mystnb.image["width"] == f"{stored.size[0]}px", "as wide as before"
    # 7 inches are 504 points, the ticks have 10: at 454 pixels they have 9. The next step is 480.
    assert more["metadata"][looks.SHARP]["legible"] == 454
    assert made.metadata.mystnb.image["classes"] == "legible-480" and looks.SHARP not in output.metadata
    assert run.cells[0].outputs == [picture], "the run is as it was"


def test_a_narrow_figure_with_large_letters_does_not_scroll(shown):
    fig, ax = plt.subplots(figsize=(5.0, 3.0))
    ax.set_xlabel("word", fontsize=10)
    assert figures.legible(fig) == 324  # 360 points, ticks of 10
    ax.set_title("small", fontsize=6)
    assert figures.legible(fig) == 540
    plt.close(fig)


def test_book_css_knows_every_width_that_a_page_asks_for():
    css = (ROOT / "book" / "_static" / "book.css").read_text()
    widths = [int(width) for width in re.findall(r"img\.legible-(\d+) \{\n    min-width: \1px;", css)]
    assert widths == list(range(book.PHONE // book.STEP * book.STEP + book.STEP, book.WIDEST + 1, book.STEP))


def test_references_do_without_the_sharp_picture(shown, tmp_path):
    figures.show(draw(), **WORDS)
    ((data, more),) = shown
    source = notebook(code("figures.show(fig)"))
    run = deepcopy(source)
    run.cells[0].outputs = [nbformat.v4.new_output("display_data", data, metadata=more["metadata"])]
    nbformat.write(source, tmp_path / "one.ipynb")
    assert outputs.keep(run, tmp_path / "one.ipynb")
    (kept,) = outputs.read(tmp_path / "one.ipynb").cells[0].outputs
    assert kept.metadata == {"fairfl": WORDS} and kept.data == data
    assert outputs.compare(run, outputs.read(tmp_path / "one.ipynb")) == []


def in_the_dark(colour: np.ndarray) -> np.ndarray:
    """A colour of a figure as book.css shows it on the dark page: inverted, its hue turned back, lifted, on the dark ground."""
    turned = np.array([[0.213, 0.715, 0.072]] * 3) - np.array(
        [[0.787, -0.715, -0.072], [-0.213, 0.285, -0.072], [-0.213, -0.715, 0.928]]
    )
    css = (ROOT / "book" / "_static" / "book.css").read_text()
    assert "invert(1) hue-rotate(180deg)" in css and "mix-blend-mode: screen" in css
    (lift,) = set(re.findall(r"type='gamma' exponent='([\d.]+)'", css))
    shown = np.clip(turned @ (1 - colour), 0, 1) ** float(lift)
    return 1 - (1 - shown) * (1 - GROUND)


GROUND = np.array([0x12] * 3) / 255
"""The dark theme's page."""


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    def light(colour: np.ndarray) -> float:
        return float(np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])

    low, high = sorted([light(one), light(other)])
    return (high + 0.05) / (low + 0.05)


def test_nothing_vanishes_in_the_dark():
    """Lines have the contrast that graphics need, and pale areas more of it than on the white page; colours stay apart."""
    colours = (*figures.COLOURS, *figures.MORE_COLOURS)
    rgb = [np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) / 255 for c in colours]
    for name, colour in zip(colours, rgb, strict=True):
        assert contrast(in_the_dark(colour), GROUND) >= 3, name
        pale = 0.3 * colour + 0.7  # an area that lets 70 % of the ground through
        assert contrast(in_the_dark(pale), GROUND) >= 1.25 * contrast(pale, np.ones(3)), name
    apart = [np.linalg.norm(in_the_dark(one) - in_the_dark(other)) for one, other in combinations(rgb, 2)]
    assert min(apart) > 0.1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"caption": " "}, "no caption"),
        ({"alt": ""}, "no alternative text"),
        ({"name": "Fig A"}, "small letters"),
    ],
)
def test_show_refuses(shown, words, says):
    fig = draw()
    with pytest.raises(FairFLError, match=says):
        figures.show(fig, **{**WORDS, **words})
    plt.close("all")
    assert shown == []


def test_no_two_colours_of_the_palette_are_close():
    """No two colours are nearer than 60 in RGB."""
    colours = (*figures.COLOURS, *figures.MORE_COLOURS, *looks.SPARE_COLOURS)
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours], dtype=float)
    distances = np.linalg.norm(rgb[:, None] - rgb[None], axis=-1) + 1e3 * np.eye(len(rgb))
    assert distances.min() > 60


METHODS = [getattr(methods, name).name for name in methods.__all__ if issubclass(getattr(methods, name), Method)]
GROUPS = ("a=0", "a=1", "women", "men", "black", "white")


def test_every_method_has_one_look_and_shares_it_with_no_other():
    assert len(set(METHODS)) == len(METHODS)
    assert [figures.known(name) for name in METHODS] == METHODS
    own = [look for name, look in figures.LOOKS.items() if name not in GROUPS]
    for found in ([look.label for look in own], [(look.colour, look.marker) for look in own]):
        assert sorted(name for name in set(found) if found.count(name) > 1) == []


def test_a_papers_own_method_shares_its_colour_with_no_other_method():
    for name in ("fedavg", *cards.names()):
        assert [other for other in figures.LOOKS if figures.colour(other) == figures.colour(name)] == [name]


def test_two_papers_cannot_give_looks_to_one_method(monkeypatch):
    monkeypatch.setitem(import_module("papers.e2fl.looks").LOOKS, "q-ffl", figures.LOOKS["q-ffl"])
    with pytest.raises(FairFLError, match="q-ffl has a look already: take it out of effl/looks.py"):
        figures._looks()


def methods_of(cells: list[Any], rows: Iterable[str] = ()) -> set[str]:
    """The methods of a page: those that its code names or its figures show, and the `rows` of its paper's tables."""
    known = {name: look for name, look in figures.LOOKS.items() if name not in GROUPS}
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    trees = [compile("".join(cell["source"]), "", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT) for cell in code]
    named = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    data = [output.get("data", {}) for cell in code for output in cell.get("outputs", [])]
    drawn = "\n".join("".join(one["text/plain"]) for one in data if "image/png" in one)
    found = {name for name, look in known.items() if name in named or re.search(rf"(?<!\w){re.escape(look.label)}(?!\w)", drawn)}
    for row in rows:
        with suppress(FairFLError):
            found.add(figures.known(row))
    return found - {"printed"}


def clashes(names: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of methods that have a colour or a marker in common."""
    pairs = combinations(sorted(names), 2)
    return [(a, b) for a, b in pairs if figures.colour(a) == figures.colour(b) or figures.marker(a) == figures.marker(b)]


EVERY_METHOD = {"arena/1_comparison", "scale/past_one_machine"}
"""Pages on which nearly all methods stand, and there are fewer colours: in each figure the lines have to differ."""


def lines_of(cells: list[Any]) -> list[set[str]]:
    """The methods of the lines of each figure of a page."""
    labels = {look.label: name for name, look in figures.LOOKS.items() if name not in GROUPS}
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    drawn = ["".join(one["text/plain"]) for one in data if "image/png" in one]
    return [{labels[label] for label in re.findall(r"line (.+), [xy] of", text) if label in labels} for text in drawn]


PAGES = sorted(path.relative_to(ROOT / "notebooks").with_suffix("").as_posix() for path in (ROOT / "notebooks").rglob("*.ipynb"))


@pytest.mark.parametrize("name", PAGES)
def test_no_two_methods_of_a_page_share_a_colour_or_a_marker(name):
    paper = name.partition("/")[0]
    tables = cards.load(paper).entries.values() if paper in cards.names() else ()
    rows = {entry.keys.get("method", entry.keys.get("approach", "")) for entry in tables}
    cells = outputs.source(ROOT / "notebooks" / f"{name}.ipynb")["cells"]
    together = lines_of(cells) if name in EVERY_METHOD else [methods_of(cells, rows)]
    assert [clashes(methods) for methods in together if clashes(methods)] == []


def test_a_clash_of_two_lines_of_a_figure_is_seen(shown):
    fig, axes = plt.subplots()
    for name in ("ditto", "local", "fedavg"):
        axes.plot([0, 1], **figures.line(name))
    cell = code("figures.show(fig)")
    cell["outputs"] = [{"data": {"image/png": "", "text/plain": figures.digest(fig)}}]
    plt.close(fig)
    assert lines_of([cell]) == [{"ditto", "local", "fedavg"}] and clashes(*lines_of([cell])) == [("ditto", "local")]


def test_a_clash_on_a_page_is_seen(shown):
    line = code("axes.plot(x, **figures.line('ditto'))")
    fig, axes = plt.subplots()
    axes.plot([0, 1], label="local reweighing")
    line["outputs"] = [{"data": {"image/png": "", "text/plain": figures.digest(fig)}}]
    plt.close(fig)
    assert methods_of([line]) == {"ditto", "local"}
    assert clashes(methods_of([line])) == [("ditto", "local")]
    assert clashes(methods_of([line], ["fcfl", "fedavg"])) == [("ditto", "local"), ("fcfl", "local")]


def test_a_name_is_known_in_every_spelling_and_with_its_variants():
    for name in ("FAIR-FATE", "fair_fate", "fair-fate-eo", "Fair-Fate"):
        assert figures.line(name) == {"color": figures.colour("fair-fate"), "marker": "^", "label": "FAIR-FATE"}
    assert figures.colour("fairfed-eta0.2") == figures.colour("FairFed")
    assert figures.label("lr") == "local reweighing"
    assert figures.colour("women") == figures.colour("a=0")


def test_an_unknown_name_is_one_sentence():
    with pytest.raises(FairFLError, match="no method or group 'fedavgg': did you mean 'fedavg'"):
        figures.colour("fedavgg")


def test_intervals_are_drawn_in_the_order_of_the_rows():
    fig, ax = plt.subplots()
    figures.intervals(ax, [("Adult", 0.1, 0.2, 0.15, 0.25), ("COMPAS", None, 0.3, 0.2, 0.4)], of="fairfed")
    lines = [line.strip() for line in figures.digest(fig).splitlines()]
    plt.close(fig)
    assert "y ticks: Adult | COMPAS" in lines
    assert "line ours, with its 95% interval, x of 2: 0.2000, 0.3000" in lines
    assert "line ours, with its 95% interval, y of 2: 1.000, 0.000" in lines
    assert "line printed, x of 1: 0.1000" in lines
    assert any(line.startswith("segments -, x of 4: 0.1500, 0.2500") for line in lines)


def test_a_heat_map_has_its_numbers_as_data_and_as_text():
    fig, ax = plt.subplots()
    figures.heatmap(ax, np.array([[0.1, -0.2]]), middle=0)
    lines = [line.strip() for line in figures.digest(fig).splitlines()]
    plt.close(fig)
    assert any(line.startswith("heatmap ") and line.endswith(": 0.1000, -0.2000") for line in lines)
    assert "text: '-0.20'" in lines


def test_a_photograph_says_so(shown):
    figures.show(draw(), **WORDS, photograph=True)
    assert shown[0][1]["metadata"]["fairfl"]["photograph"] is True
