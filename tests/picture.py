"""README's picture: what a wide screen shows of the front page. `make picture` makes it anew from the built book.

The letters are those that matplotlib brings along, so that the picture does not depend on the fonts of a machine.
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import chromium
import matplotlib
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


def _fonts() -> str:
    """A script that sets the page in matplotlib's DejaVu, but for the signs that have fonts of their own."""
    folder, rules = Path(matplotlib.get_data_path()) / "fonts" / "ttf", []
    for family, name in (("Held", "DejaVuSans"), ("HeldMono", "DejaVuSansMono")):
        for weight, end in ((400, ""), (700, "-Bold")):
            letters = base64.b64encode((folder / f"{name}{end}.ttf").read_bytes()).decode()
            rules.append(f"@font-face {{font-family: {family}; font-weight: {weight}; src: url(data:font/ttf;base64,{letters})}}")
    plain = ":not(i):not([class*='fa-']):not(mjx-container *)"
    rules.append(
        f"body, body *{plain} {{font-family: Held !important}} code, code *, pre, pre * {{font-family: HeldMono !important}}"
    )
    sheet = json.dumps(" ".join(rules))
    return f"{{const style = document.createElement('style'); style.textContent = {sheet}; document.head.append(style)}}"


def taken(browser: chromium.Browser, site: Path, script: str = "") -> Image.Image:
    """The top of the front page in the light theme, in 256 colours; a script may change the page before."""
    browser.size(WIDTH, HEIGHT)
    browser.open((site / PAGE).resolve().as_uri())
    browser.run("checks.theme('light')")
    browser.run(_fonts())
    browser.run(script or "0")
    browser.run(f"checks.settled({WIDTH})")
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
