"""figures.show: what is refused, what is emitted, and that equal figures give equal bytes."""

from __future__ import annotations

import base64
import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from fairfl_lite.errors import FairFLError
from fairfl_lite.press import figures

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
    assert more == {"raw": True, "metadata": {"fairfl": WORDS}}
    assert again[0] == data, "equal figures give equal bytes"
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert picture.size == (int(7.0 * figures.DPI), int(4.0 * figures.DPI))
    assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert {"Software", "Creation Time"}.isdisjoint(picture.info)
    assert data["text/plain"].startswith("figure: Both")


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
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in figures.COLOURS], dtype=float)
    distances = np.linalg.norm(rgb[:, None] - rgb[None], axis=-1) + 1e3 * np.eye(len(rgb))
    assert distances.min() > 60
