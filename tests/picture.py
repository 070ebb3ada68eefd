"""README's picture: what a wide screen shows of the front page. `make picture` makes it anew from the built book."""

from __future__ import annotations

import io
from pathlib import Path

import chromium
import numpy as np
from PIL import Image
from small import ROOT

WIDTH, HEIGHT = 1440, 1150
FILE = ROOT / "book" / "_static" / "page.png"
PAGE = "executed/intro.html"
SIDE, LEVELS = 10, 25
"""Squares of so many pixels are compared, by their mean grey of 0 to 255: that of antialiased letters hardly moves."""
TOLERANCE = 1 / 2000
"""So many of the squares may differ by more than LEVELS: eight of them, less than a word."""


def taken(browser: chromium.Browser, site: Path, script: str = "") -> Image.Image:
    """The top of the front page in the light theme, in 256 colours; a script may change the page before."""
    browser.size(WIDTH, HEIGHT)
    browser.open((site / PAGE).resolve().as_uri())
    browser.run(f"checks.settled({WIDTH})")
    browser.run("checks.theme('light')")
    browser.run(script or "0")
    shown = Image.open(io.BytesIO(browser.top(WIDTH, HEIGHT))).convert("RGB")
    return shown.quantize(256, dither=Image.Dither.NONE)


def apart(first: Image.Image, second: Image.Image) -> float:
    """The share of squares that differ; 1 for pictures of different sizes."""
    if first.size != second.size:
        return 1.0
    one, other = (_squares(picture) for picture in (first, second))
    return float((np.abs(one - other) > LEVELS).mean())


def _squares(picture: Image.Image) -> np.ndarray:
    grey = np.asarray(picture.convert("L"), dtype=float)
    rows, columns = (length // SIDE for length in grey.shape)
    return grey[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE).mean(axis=(1, 3))


def main() -> None:
    program = chromium.found()
    if program is None:
        raise SystemExit(chromium.MISSING)
    with chromium.Browser(program) as browser:
        taken(browser, ROOT / "_build" / "html").save(FILE, optimize=True)
    print(f"{FILE.relative_to(ROOT)} shows the front page as it is built now.")


if __name__ == "__main__":
    main()
