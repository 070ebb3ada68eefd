"""A federation over real worker processes: the bits of one process, and one sentence for whoever is lost, or nobody gets in."""

from __future__ import annotations

import gc
import shutil
import signal
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask_processes import Processes, installed
from every_method import assert_same_bytes
from toy import images, tables
from waiting import LONG, until

from fairfl_lite import store
from fairfl_lite.errors import FairFLError, LostError
from fairfl_lite.federation import certificates, over
from fairfl_lite.methods import EFFL, Ditto, FairFed, FedAvg

pytestmark = pytest.mark.slow

BOTH = {"record": ("train", "test")}
SEVERAL = [FedAvg(), FairFed(beta=1), Ditto(1.0), EFFL(0.01, 0.01, 0.01)]


@pytest.fixture(scope="module", autouse=True)
def extra() -> Iterator[None]:
    with installed():
        yield


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """A client that did not connect is closed when it is collected: not while the next one starts, which holds the same lock."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler on a busy machine is not gone."""
    monkeypatch.setattr(over, "REACH", LONG)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A scheduler and three workers, whom the tests below use up in their order."""
    made = Processes(tmp_path_factory.mktemp("over"))
    try:
        made.scheduler()
        for name in ("one", "two", "three"):
            made.worker(name, NUMBA_NUM_THREADS="1")
        with client(made) as dask:
            until(lambda: len(dask.nthreads()) == 3)
        yield made
    finally:
        made.stop()


def client(cluster: Processes) -> Any:
    from distributed import Client

    return Client(cluster.address, timeout=LONG)


def addresses(spread: Any) -> dict[str, str]:
    """Where each process of a cluster is, by the name that it was started with."""
    info = spread.workers.client.scheduler_info(n_workers=-1)["workers"]
    return {worker["name"]: address for address, worker in info.items()}


def on_message(spread: Any, number: int, name: str, do: Any) -> None:
    """Call `do` when the message with this number was sent to a worker, before anybody is waited for."""
    usual, sent = spread.workers._sent, []

    def send(to: str, message: bytes, first: bool) -> Any:
        future = usual(to, message, first)
        if to == name:
            sent.append(to)
            if len(sent) == number:
                do()
        return future

    spread.workers._sent = send


def test_three_processes_give_the_bytes_of_one_and_a_killed_one_is_left_out(cluster: Processes) -> None:
    fed = tables(test=0.2)
    wanted = fed.run(SEVERAL, 3, **BOTH)
    with client(cluster) as dask:
        spread = fed.over(dask)
        assert len(spread.workers.names) == 3
        for label, found in spread.run(SEVERAL, 3, **BOTH).items():
            assert_same_bytes(found, wanted[label])
        pictures = images()
        with pictures.over(dask) as turned:
            assert_same_bytes(turned.run(FedAvg(), 2), pictures.run(FedAvg(), 2))
        spread.close()
        assert set(dask.run(lambda: len(over.HELD)).values()) == {0}  # the rows are forgotten

        spread = fed.over(dask, lost="leave out")
        there = addresses(spread)
        spread.run(SEVERAL, 2, **BOTH)
        asked = int(spread.traffic.frame()["times"].drop("rows").sum())
        on_message(spread, asked, there["three"], lambda: cluster.kill("three"))
        with pytest.warns(UserWarning, match=rf"^The worker {there['three']}, which has client.*, ended in round 2: from this"):
            runs = spread.run(SEVERAL, 4, **BOTH)
        gone = next(iter(runs.values())).gone
        assert gone == dict.fromkeys(spread.clients_of([there["three"]]), 2)
        for label, found in replace(fed, gone=gone).run(SEVERAL, 4, **BOTH).items():
            assert_same_bytes(runs[label], found)
        spread.close()


def test_a_worker_that_hangs_stops_the_run_which_goes_on(cluster: Processes, tmp_path: Path, monkeypatch: Any) -> None:
    fed = tables(test=0.2)
    wanted = fed.run(FairFed(beta=1), 4, **BOTH)
    spread = fed.over(cluster.address, patience=7)
    there, turn = addresses(spread), [0]
    futures: dict[str, Any] = {}
    usual = spread.workers._sent

    def send(to: str, message: bytes, first: bool) -> Any:
        futures[to] = usual(to, message, first)
        return futures[to]

    def clock() -> float:
        """Time passes when everybody else has answered."""
        turn[0] += 100 * all(future.done() for to, future in futures.items() if to != there["two"])
        return float(turn[0] if stopped else 0)

    stopped: list[str] = []

    def stop() -> None:
        cluster.started["two"].send_signal(signal.SIGSTOP)
        stopped.append("two")

    spread.workers._sent = send
    monkeypatch.setattr(over, "monotonic", clock)
    on_message(spread, 7, there["two"], stop)
    with pytest.raises(
        LostError, match=rf"^The worker {there['two']}, which has client.*, has not answered for 7 seconds in round"
    ):
        spread.run(FairFed(beta=1), 4, checkpoint_dir=tmp_path, **BOTH)
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(LostError, match="has not answered for 7 seconds in round [01]:"):  # it is not asked again
        spread.run(FedAvg(), 1)
    cluster.kill("two")
    spread.close()
    with client(cluster) as dask:
        until(lambda: len(dask.nthreads()) == 1)
        with fed.over(dask) as again:
            assert_same_bytes(again.run(FairFed(beta=1), 4, checkpoint_dir=tmp_path, **BOTH), wanted)


def test_a_worker_with_other_code_gets_no_rows(cluster: Processes) -> None:
    """Its package differs by a line, and it says to have another numpy."""
    other = cluster.folder / "other"
    shutil.copytree(store.PACKAGE, other / "fairfl_lite", ignore=shutil.ignore_patterns("__pycache__"))
    changed = other / "fairfl_lite" / "metrics.py"
    changed.write_text(f"{changed.read_text()}\nANOTHER = 1\n")
    (other / "numpy-9.9.dist-info").mkdir()
    (other / "numpy-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n")
    cluster.worker("other", before=(other,))
    with client(cluster) as dask:
        until(lambda: len(dask.nthreads()) == 2)
        fed = tables(test=0.2)
        with pytest.raises(LostError, match=r"has numpy 9\.9 instead of .*, other code of fairfl_lite in round 0: start") as lost:
            fed.over(dask)
        assert len(lost.value.clients) == 2 and set(dask.run(lambda: len(over.HELD)).values()) == {0}
        with pytest.warns(UserWarning, match="other code of fairfl_lite in round 0: from this round on they take no part"):
            spread = fed.over(dask, lost="leave out")
        assert set(spread.gone) == set(lost.value.clients)
        assert_same_bytes(spread.run(FedAvg(), 2), replace(fed, gone=spread.gone).run(FedAvg(), 2))
        cluster.kill("other")


def test_a_scheduler_that_goes_away_stops_the_run_which_goes_on_here(cluster: Processes, tmp_path: Path) -> None:
    fed = tables(test=0.2)
    wanted = fed.run(FedAvg(), 4, **BOTH)
    spread = fed.over(cluster.address, lost="leave out")
    on_message(spread, 7, spread.workers.names[0], lambda: cluster.kill("scheduler"))
    with warnings.catch_warnings(), pytest.raises(FairFLError, match="the scheduler of .* went away in round 3") as lost:
        warnings.simplefilter("ignore")
        spread.run(FedAvg(), 4, checkpoint_dir=tmp_path, **BOTH)
    assert str(lost.value).startswith("The worker") and "clients 0, 1, 2 and 3" in str(lost.value)
    spread.close()
    assert_same_bytes(fed.run(FedAvg(), 4, checkpoint_dir=tmp_path, **BOTH), wanted)


def test_no_scheduler_and_what_is_none_are_one_sentence(monkeypatch: Any) -> None:
    monkeypatch.setattr(over, "REACH", 0.5)
    fed = tables()
    with pytest.raises(FairFLError, match="^No Dask scheduler answers at 'tcp://127.0.0.1:1' .*: start one by `dask scheduler`"):
        fed.over("tcp://127.0.0.1:1")
    with pytest.raises(FairFLError, match="over a Dask client, the address of its scheduler, or a number, not 2.5"):
        fed.over(2.5)


def test_with_certificates_nobody_without_them_gets_in(tmp_path: Path, monkeypatch: Any) -> None:
    made = certificates.make(tmp_path / "own", days=2)
    certificates.make(tmp_path / "others", days=2)
    for name, path in made.items():
        assert bool(path.stat().st_mode & 0o044) == (name == certificates.AUTHORITY)
    with pytest.raises(FairFLError, match="is there already: name another folder"):
        certificates.make(tmp_path / "own")
    files = [("--tls-ca-file", made["authority.pem"])]
    cluster = Processes(tmp_path)
    try:
        for role in ("scheduler", "worker"):
            own = [("--tls-cert", made[f"{role}.pem"]), ("--tls-key", made[f"{role}.pem"])]
            cluster.extra = tuple(str(one) for pair in (*files, *own) for one in pair)
            if role == "scheduler":
                cluster.scheduler("--protocol", "tls")
            else:
                cluster.worker("one")
        assert cluster.address.startswith("tls://")
        security = certificates.security(tmp_path / "own")
        from distributed import Client

        with Client(cluster.address, timeout=LONG, security=security) as dask:
            until(lambda: len(dask.nthreads()) == 1)
        fed = tables(test=0.2)
        with fed.over(cluster.address, security=security) as spread:
            assert spread.workers.names[0].startswith("tls://")
            np.testing.assert_array_equal(spread.run(FedAvg(), 2).answer, fed.run(FedAvg(), 2).answer)
        monkeypatch.setattr(over, "REACH", 3)
        for wrong in (None, certificates.security(tmp_path / "others")):
            with pytest.raises(FairFLError, match="^No Dask scheduler answers at 'tls://"):
                fed.over(cluster.address, security=wrong)
        with pytest.raises(FairFLError, match="^No Dask scheduler answers at 'tcp://"):
            fed.over(cluster.address.replace("tls:", "tcp:"))
    finally:
        cluster.stop()


def test_the_command_makes_certificates_and_says_what_to_start(tmp_path: Path, capsys: Any) -> None:
    from fairfl_book.cli import main

    assert main(["certificates", str(tmp_path / "own"), "--days", "30"]) == 0
    said = capsys.readouterr().out
    assert {path.name for path in (tmp_path / "own").iterdir()} == {"authority.pem", *(f"{r}.pem" for r in certificates.ROLES)}
    assert f"dask scheduler --protocol tls --tls-ca-file {tmp_path / 'own' / 'authority.pem'} --tls-cert" in said
    assert "dask worker tls://HOST:8786 --tls-ca-file" in said
    assert main(["certificates", str(tmp_path / "own")]) == 2
    assert main(["certificates", str(tmp_path / "more"), "--days", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    with pytest.raises(FairFLError, match="make certificates by `fairfl certificates`"):
        certificates.security(tmp_path / "nothing")
