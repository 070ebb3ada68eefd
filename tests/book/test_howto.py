"""The code on the how-to pages runs as it stands there, from top to bottom, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from small import ROOT

from fairfl_lite import data

PAGES = sorted((ROOT / "book" / "howto").glob("*.md"))
LINES = {"your_method": 20, "your_data": 10}
"""How many lines the page's title promises."""


def blocks(page: Path) -> list[tuple[str, str | None]]:
    """The pieces of Python on a page, each with the output that is shown below it."""
    fence = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
    return [(code, shown or None) for code, shown in re.findall(fence, page.read_text(), re.MULTILINE | re.DOTALL)]


def wrong(code: list[tuple[str, str | None]], name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the pieces, run one after the other, print otherwise than it is shown."""
    names: dict[str, object] = {"__name__": "__main__"}
    found = []
    for number, (piece, shown) in enumerate(code, 1):
        exec(compile(piece, f"{name}, piece {number}", "exec", dont_inherit=True), names)
        if (printed := capsys.readouterr().out) != (shown or ""):
            found.append(f"Piece {number} of {name} prints\n{printed}and the page shows\n{shown}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_prints_what_is_shown(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data.registry, "DATASETS", dict(data.DATASETS))
    code = blocks(page)
    assert len(code) == page.read_text().count("```python") >= 3
    assert sum(shown is not None for _, shown in code) == page.read_text().count("```text")
    assert not (found := wrong(code, page.stem, capsys)), "\n".join(found)


def test_an_output_that_is_not_what_is_printed_is_found(capsys):
    assert wrong([("x = 1\n", None), ("print(x)\n", "1\n")], "page", capsys) == []
    assert len(wrong([("print(1)\n", "2\n")], "page", capsys)) == len(wrong([("print(1)\n", None)], "page", capsys)) == 1


def test_a_title_promises_what_the_page_keeps():
    """The first piece is the method; the second is what a reader with a file writes."""
    for name, most in LINES.items():
        page = ROOT / "book" / "howto" / f"{name}.md"
        assert page.read_text().startswith(f"# {name.replace('_', ' ').capitalize()} in {most} lines\n")
        code = blocks(page)[0 if name == "your_method" else 1][0]
        assert len([line for line in code.splitlines() if line.strip()]) <= most


def test_every_page_on_the_library_is_in_the_table_of_contents():
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text())
    (part,) = [part for part in contents["parts"] if part["caption"] == "Use the library"]
    listed = [chapter["file"] for top in part["chapters"] for chapter in [top, *top.get("sections", [])]]
    there = [path.relative_to(ROOT).with_suffix("").as_posix() for room in ("howto", "reference")
             for path in (ROOT / "book" / room).glob("*.md")]  # fmt: skip
    assert sorted(listed) == sorted(there) and len(there) == len(PAGES) + 8
