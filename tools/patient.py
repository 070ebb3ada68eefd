"""A pytest plugin (`-p patient`) that lets nbval wait for its kernels as long as a busy machine needs, not for seconds."""

from __future__ import annotations

import pytest
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell
from waiting import LONG


def pytest_configure(config: pytest.Config) -> None:
    config.option.nbval_kernel_startup_timeout = config.option.nbval_cell_timeout = LONG
    usual = RunningKernel.await_reply
    RunningKernel.await_reply = lambda self, msg_id, timeout=None: usual(self, msg_id, LONG)
    IPyNbCell.output_timeout = property(lambda self: LONG, lambda self, seconds: None)
