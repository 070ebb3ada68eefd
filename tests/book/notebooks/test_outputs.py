"""References: what is the same on every run, what may differ between machines, and what may not."""

from __future__ import annotations

import base64
import io
from copy import deepcopy

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from small import code, notebook

from fairfl_book.notebooks import outputs

V4 = nbformat.v4


def png(colour: int, size: tuple[int, int] = (20, 10), spot: int | None = None) -> str:
    picture = np.full((size[1], size[0], 3), colour, dtype=np.uint8)
    if spot is not None:
        picture[2:5, 3:6] = spot
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="png")
    return base64.b64encode(buffer.getvalue()).decode()


def shown(*made, tags=(), **metadata):
    cell = code("show()", *tags, **metadata)
    cell.outputs, cell.execution_count = [deepcopy(output) for output in made], 1
    return notebook(cell)


def text(content: str):
    return shown(V4.new_output("stream", name="stdout", text=content))


def figure(digest: str, picture: str):
    data = {"image/png": picture, "text/plain": digest}
    about = {"fairfl": {"name": "f", "caption": "c", "alt": "a"}}
    return shown(V4.new_output("display_data", data=data, metadata=about))


@given(st.floats(-1e6, 1e6, allow_nan=False), st.integers(1, 6), st.floats(-1e-6, 1e-6))
def test_another_cpu_never_fails(value, digits, relative):
    """The same result to 1e-6, printed to any number of digits, may round to the other side."""
    one, other = (text(f"acc {number:.{digits}f}") for number in (value, value * (1 + relative)))
    assert outputs.compare(one, other) == []


@given(st.floats(0.1, 1e6), st.integers(3, 6), st.floats(0.02, 0.5))
def test_a_changed_result_always_fails(value, digits, relative):
    one, other = (text(f"acc {number:.{digits}f}") for number in (value, value * (1 + relative)))
    assert len(outputs.compare(one, other)) == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("0.813", "0.814", True),
        ("0.813", "0.815", False),
        ("-0.001", "0.000", True),
        ("0.25 +- 0.01", "0.26 +- 0.01", True),
        ("48,842 rows", "48,842 rows", True),
        ("48,842 rows", "48,841 rows", False),
        ("1.23e-05", "1.24e-05", True),
        ("1.23e-05", "1.26e-05", False),
        ("a  b\n c", "a b c", True),
        ("reproduced", "not reproduced", False),
        ("nan", "0.1", False),
        ("x -----\n 1.0", "x ------\n 1.0", True),
        ("<style>#T_1 {}</style><td>0.5</td>", "<style>#T_2 {}</style><td>0.5</td>", True),
        ('<td class="good">0.5</td>', '<td class="bad">0.5</td>', False),
    ],
)
def test_printed_numbers(ours, theirs, same):
    assert (outputs.compare(text(ours), text(theirs)) == []) is same


def test_a_cell_can_state_a_wider_tolerance():
    stream = [V4.new_output("stream", name="stdout", text=f"eod {value}") for value in ("0.100", "0.109", "0.111")]
    reference = shown(stream[0], fairfl={"tolerance": 0.01})
    assert outputs.compare(shown(stream[1]), reference) == []
    assert len(outputs.compare(shown(stream[2]), reference)) == 1


def test_series_of_a_figure_are_compared_by_their_largest_value():
    reference = figure("line a, x of 2: 1.000, 5000.\nline a, y of 2: 0.0010, 0.5000", png(255))
    same = figure("line a, x of 2: 1.000, 5000.\nline a, y of 2: 0.0019, 0.5000", png(255))
    other = figure("line a, x of 2: 1.000, 5000.\nline a, y of 2: 0.0010, 0.5020", png(255))
    fewer = figure("line a, x of 2: 1.000, 5000.", png(255))
    assert outputs.compare(same, reference) == []
    assert "number differs" in outputs.compare(other, reference)[0]
    assert "other series" in outputs.compare(fewer, reference)[0]


@pytest.mark.parametrize(
    ("picture", "says"),
    [(png(254), None), (png(250), "5.0"), (png(255, spot=0), "picture"), (png(255, (20, 11)), "pixels")],
)
def test_pictures(picture, says):
    found = outputs.compare(figure("", picture), figure("", png(255)))
    assert found == [] if says is None else says in found[0]


def test_an_ignored_cell_is_not_compared_but_others_are():
    stream = [V4.new_output("stream", name="stdout", text=value) for value in ("took 3 s", "took 4 s")]
    assert outputs.compare(shown(stream[0]), shown(stream[1], tags=[outputs.IGNORED])) == []
    assert outputs.compare(shown(stream[0]), shown(stream[1]))


def test_missing_and_other_outputs_are_differences():
    stream = V4.new_output("stream", name="stdout", text="a")
    warning = V4.new_output("stream", name="stderr", text="a")
    assert "outputs instead of" in outputs.compare(shown(), shown(stream))[0]
    assert outputs.compare(shown(warning), shown(stream))
    changed = shown(stream)
    changed.cells[0].source = "other()"
    assert "code cells" in outputs.compare(changed, shown(stream))[0]


def test_cleaning_removes_all_that_differs_between_equal_runs():
    def run(identifier: str, when: str, chunks: list[str]):
        streams = [V4.new_output("stream", name="stdout", text=chunk) for chunk in chunks]
        html = f'<style>#T_{identifier}_row0 {{}}</style><table id="T_{identifier}"></table>'
        table = V4.new_output("execute_result", data={"text/html": html}, execution_count=7)
        made = shown(*streams, table, papermill={"start_time": when}, execution={"iopub.status.idle": when})
        made.cells[0].execution_count = 7
        made.metadata = nbformat.from_dict({"papermill": {"end_time": when}, "language_info": {"version": when}})
        return outputs.dumps(outputs.clean(made))

    assert run("a1b2c", "10:00", ["ab\n", "c\n"]) == run("0f0f0", "11:30", ["ab\nc\n"])


def test_storing_touches_outputs_only(tmp_path):
    path = tmp_path / "n.ipynb"
    source = notebook(V4.new_markdown_cell("# Title"), code("print(1)", "hide-input"), about={"seconds": 3})
    nbformat.write(source, path)
    executed = outputs.read(path)
    executed.cells[1].outputs = [V4.new_output("stream", name="stdout", text="1\n")]
    executed.cells[1].execution_count = 1
    assert outputs.keep(executed, path) is True
    assert outputs.keep(executed, path) is False
    kept = outputs.read(path)
    assert [(c.source, c.metadata.get("tags")) for c in kept.cells] == [
        ("# Title", None),
        ("print(1)", ["hide-input"]),
    ]
    assert kept.metadata.fairfl == {"seconds": 3}
    assert kept.cells[1].outputs[0].text == "1\n"
