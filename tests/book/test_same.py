"""Two builds of the same sources, in two folders and each from nothing, give the same bytes."""

from __future__ import annotations

import nbformat
import pytest
from same import differing, made
from small import notebook, small_project

from fairfl_book.site import book

pytestmark = pytest.mark.slow

FIGURE = """import matplotlib.pyplot as plt
from fairfl_book import figures

fig, axis = plt.subplots()
axis.plot([0, 1])
figures.show(fig, name="fig-line", caption="A line.", alt="A line that rises.")"""


def test_two_builds_give_the_same_pages(tmp_path):
    page = {"a/one": notebook(nbformat.v4.new_markdown_cell("# One\n\nA page."), FIGURE, "{'b': 1, 'a': {3, 1, 2}}")}
    folders = [tmp_path / name for name in ("one", "a-longer-name")]
    for folder in folders:
        book.build(small_project(folder, page))
    assert "_build/html/executed/a/one.html" in made(folders[0])
    assert differing(*folders) == []
    (folders[1] / "executed" / "a" / "one.ipynb").write_text("other")
    (folders[1] / "_build" / "html" / "new.html").write_text("new")
    assert differing(*folders) == ["_build/html/new.html", "executed/a/one.ipynb"]
