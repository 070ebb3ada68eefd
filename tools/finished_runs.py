"""nbval on the finished runs: a pytest plugin (`pytest -p finished_runs --nbval notebooks`) that executes nothing.

nbval collects and judges the cells as always; what it takes for a kernel gives it the outputs that the notebook's
quick run left in .fairfl/runs. A run that is missing, stale or of other cells is an error, never compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from nbformat import NotebookNode
from nbval.plugin import IPyNbFile

from fairfl_book.notebooks import runner
from fairfl_lite.errors import FairFLError


class Replay:
    """nbval's side of a kernel: for the cell at `position` it sends the messages that made the stored outputs."""

    def __init__(self, cells: Sequence[NotebookNode]) -> None:
        self.cells = cells
        self.position = 0
        self.messages: deque[dict[str, Any]] = deque()

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        cell = self.cells[self.position]
        assert cell.source == cell_input, f"The run has another code cell {self.position}:\n{cell.source}"
        self.messages = deque(_messages(cell, parent := str(self.position)))
        return parent

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        return self.messages.popleft()

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        """The run is over, so every cell has been replied to."""

    def await_idle(self, parent_id: str, timeout: float) -> None:
        self.messages.clear()

    def is_alive(self) -> bool:
        return True

    def stop(self) -> None:
        self.messages.clear()


class Replayed(IPyNbFile):
    """A notebook whose kernel is its finished quick run."""

    def setup(self) -> None:
        self.setup_sanitize_files()
        try:
            project = runner.Project.find()
            job = runner.job(project, project.name(str(self.path)))
            reasons = runner.why(job)
        except FairFLError as error:
            pytest.fail(str(error), pytrace=False)
        if reasons:
            pytest.fail(f"{self.path} has no run to compare with, {'; '.join(reasons)}: run fairfl references.", pytrace=False)
        run, reference = (_code(notebook) for notebook in (runner.executed(job), self.nb))
        if [cell.source for cell in run] != [cell.source for cell in reference]:
            pytest.fail(f"The run of {self.path} has other code cells than the notebook: run make clean.", pytrace=False)
        self.kernel = Replay(run)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Any, parent: Any) -> Iterator[None]:
    found = yield
    return [Replayed.from_parent(parent, path=file_path) if isinstance(one, IPyNbFile) else one for one in found]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    if isinstance(item.parent, Replayed):  # cells may be skipped or deselected, so they are not simply the next
        item.parent.kernel.position = item.cell_num


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _messages(cell: NotebookNode, parent: str) -> Iterator[dict[str, Any]]:
    header = {"msg_id": parent}
    for output in cell.outputs:
        yield {"msg_type": output.output_type, "parent_header": header, "content": output}
    yield {"msg_type": "status", "parent_header": header, "content": {"execution_state": "idle"}}
