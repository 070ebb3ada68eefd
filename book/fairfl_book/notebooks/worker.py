"""One notebook in a process of its own: `python -m fairfl_book.notebooks.worker`, one JSON line in, JSON lines out.

Papermill changes the working directory of its process, so two notebooks cannot share one. The parent keeps
this process's standard input open: when the parent dies, however it dies, the input ends and so does this
process; the kernel notices and follows. Lines out: {"code", "seconds"} after every cell, then {"error"} if
the notebook failed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from nbclient.exceptions import DeadKernelError
from papermill import execute_notebook
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError

from fairfl_book.processes import die_with_parent

PATIENCE = 24 * 3600
"""Seconds that a kernel has to start, and its outputs have to arrive after their cell: usually 60 and 4, and after these the
outputs are lost without a word. A busy machine needs more. A kernel that dies is noticed at once."""
REPORTS = os.fdopen(os.dup(1), "w", buffering=1)


def report(**line: Any) -> None:
    print(json.dumps(line), file=REPORTS, flush=True)


class ReportingEngine(NBClientEngine):
    """Papermill's own engine, which also says when a cell is done."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kwargs: Any) -> Any:
        complete, clock = nb_man.cell_complete, time.perf_counter
        started = clock()

        def cell_complete(cell: Any, cell_index: int | None = None, **more: Any) -> None:
            nonlocal started
            complete(cell, cell_index=cell_index, **more)
            report(code=cell.cell_type == "code", seconds=round(clock() - started, 3))
            started = clock()

        nb_man.cell_complete = cell_complete
        return super().execute_managed_notebook(nb_man, kernel_name, **kwargs)


def _died(error: BaseException | None) -> bool:
    """Whether an error is that the kernel died, or was raised while that one was dealt with."""
    while error is not None and not (isinstance(error, DeadKernelError) or "kernel died" in str(error).lower()):
        error = error.__cause__ or error.__context__
    return error is not None


def main() -> int:
    job = json.loads(sys.stdin.readline())
    die_with_parent()
    papermill_engines.register("reporting", ReportingEngine)
    try:
        execute_notebook(
            job["input"],
            job["output"],
            parameters=job["parameters"],
            cwd=job["cwd"],
            engine_name="reporting",
            kernel_name="python3",
            language="python",
            progress_bar=False,
            request_save_on_cell_execute=False,
            start_timeout=PATIENCE,
            iopub_timeout=PATIENCE,
            raise_on_iopub_timeout=True,
        )
    except PapermillExecutionError as error:
        report(error={"cell": error.exec_count, "traceback": "\n".join(error.traceback)})
        return 1
    except Exception as error:
        if not _died(error):
            raise
        report(error={"cell": None, "traceback": f"The kernel died (out of memory?): {error}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
