"""Passes on the workers of a real Dask cluster: the same bits, whatever happens to a worker; and what is refused."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from riata.base.errors import BadInput, Conflict, Unavailable
from riata.lab.batch import segment_data
from riata.lab.batch.choose import CLASSES
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import Problem
from riata.lab.batch.segment_data import SegmentData
from riata.lab.pools import dask_pool
from riata.lab.pools.dask_pool import SAME, SPOKEN, DaskPool, check_address, check_versions
from tests.cli.test_verbs import run
from tests.refused import refused
from tests.running import HANG_S, free_port
from tests.scale.test_pools import HOT, bits, made, same, taylor
from tests.web.attack.chromium import until

WORKERS = 4


@dataclass(frozen=True)
class Cluster:
    """A scheduler and its workers, each a process."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]
    words: tuple[str, ...]
    stack: ExitStack

    def add(self) -> None:
        """Start one worker more."""
        self.workers.append(started(self.stack, "dask_worker", *self.words))


def started(stack: ExitStack, module: str, *words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *words, "--no-dashboard"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
    )  # fmt: skip
    stack.callback(process.wait, HANG_S)
    stack.callback(process.kill)
    return process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("dask")) as running:
        yield running


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        address = f"tcp://127.0.0.1:{free_port()}"
        scheduler = started(stack, "dask_scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2])
        words = (address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--local-directory", str(folder))
        running = Cluster(address, scheduler, [], words, stack)
        for _ in range(WORKERS):
            running.add()
        yield running


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> SegmentData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_data, "PART_ROWS", 64)
        return made(tmp_path_factory.mktemp("segments"))


def pool_of(data: SegmentData, cluster: Cluster, folder: Path, workers: int, patience_s: float = 300.0) -> DaskPool:
    """The pool, as soon as the cluster has so many workers."""
    pools: list[DaskPool] = []

    def look() -> bool:
        try:
            pools.append(DaskPool(data, cluster.address, folder, patience_s))
        except Unavailable:
            return False
        if pools[-1].workers == workers:
            return True
        pools.pop().__exit__()
        return False

    until(f"{workers} workers", look)
    return pools[0]


def test_a_cluster_gives_the_same_bits_whatever_happens_to_a_worker(data: SegmentData, cluster: Cluster, tmp_path: Path) -> None:
    problem = Problem(data, "logistic", 3.0)
    job, given = taylor(data)
    wanted = Serial().fold(job, data.parts, given)
    with pool_of(data, cluster, tmp_path, WORKERS, patience_s=5.0) as pool:
        for solver in ("rmmp", "parallel_sgd"):
            one = CLASSES[solver](**HOT[solver])
            assert bits(one.solve(problem, pool)) == bits(one.solve(problem, Serial())), solver
        cluster.workers[0].kill()
        assert same(pool.fold(job, data.parts, given), wanted)
        pool._patience_s = 1.0
        os.kill(cluster.workers[1].pid, signal.SIGSTOP)
        assert same(pool.fold(job, data.parts, given), wanted)
        os.kill(cluster.workers[1].pid, signal.SIGCONT)
        assert [path.name for path in tmp_path.iterdir()] == ["rows.bin"]
        with pytest.raises(BadInput, match="other data"):
            pool.fold("labels", [object()], {})  # type: ignore[list-item]


def test_a_worker_that_sees_other_files_refuses(data: SegmentData, cluster: Cluster, tmp_path: Path) -> None:
    with pool_of(data, cluster, tmp_path, WORKERS - 1) as pool:
        (tmp_path / "rows.bin").write_bytes(b"of another client")
        with refused(Conflict, "stale_part", match="another file of this name"):
            pool.fold("labels", data.parts, {})
        (tmp_path / "rows.bin").unlink()
        with pytest.raises(Conflict, match="workers have to see TMPDIR"):
            pool.fold("labels", data.parts, {})


def test_the_command_line_takes_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text("\n".join(f'{{"features": {{"x": {i % 7}, "w{i % 5}": 1}}, "label": {int(i % 3 == 0)}}}' for i in range(90)))
    words = ("fit", "--batch", str(path), "--gamma", "1", "--json", "--bits", "12")
    found = [json.loads(run(*words, *more).stdout)["solutions"][0]["objective"] for more in ((), ("--dask", cluster.address))]
    assert found[0] == found[1]
    both = run(*words, "--dask", cluster.address, "--processes", "1")
    assert (both.exit_code, "give one of them" in both.output) == (2, True)


def test_a_cluster_that_is_paused_or_lost_gives_no_partial_sum(
    data: SegmentData, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_pool, "ANSWER_S", 0.2)
    monkeypatch.setattr(dask_pool, "CONNECT_S", 2.0)
    cluster.workers[2].send_signal(signal.SIGSTOP)
    with pytest.raises(Unavailable, match=r"did not answer within 0\.5 s; remove workers that are paused"):
        DaskPool(data, cluster.address, tmp_path, patience_s=0.5)
    cluster.workers[2].send_signal(signal.SIGCONT)
    with DaskPool(data, cluster.address, tmp_path, patience_s=5.0) as pool:
        pool._patience_s = 0.1
        cluster.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(Unavailable, match="4 tries on Dask"):
            pool.fold("labels", data.parts, {})
        cluster.scheduler.send_signal(signal.SIGCONT)
    with DaskPool(data, cluster.address, tmp_path, patience_s=5.0) as pool:
        pool._patience_s = 0.5
        cluster.scheduler.kill()
        with refused(Unavailable, "engine_lost", match="4 tries on Dask"):
            pool.fold("labels", data.parts, {})
    with pytest.raises(Unavailable, match="no scheduler answers"):
        DaskPool(data, cluster.address, tmp_path)


def test_traffic_is_encrypted_or_stays_on_this_machine() -> None:
    for address in ("tls://10.1.2.3:8786", "tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tcp://localhost:8786"):
        check_address(address)
    for address in ("tcp://10.1.2.3:8786", "tcp://node1:8786"):
        with refused(BadInput, "insecure_engine", match="tls://"):
            check_address(address)
    for address in ("127.0.0.1:8786", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "ucx://127.0.0.1:1", ""):
        with pytest.raises(BadInput, match="expected tls://HOST:PORT"):
            check_address(address)


def test_another_version_is_refused_by_name() -> None:
    own = dict.fromkeys((*SAME, *SPOKEN), "1")

    def found(scheduler: dict[str, str], worker: dict[str, str]) -> dict[str, object]:
        return {"client": {"packages": own}, "scheduler": {"packages": scheduler}, "workers": {"tcp://a:1": {"packages": worker}}}

    check_versions(found(dict.fromkeys(SPOKEN, "1"), own))
    for versions, told in (
        (found({**own, "dask": "2"}, own), "the scheduler has dask 2; this process has 1"),
        (found(own, {**own, "numpy": "0"}), "worker tcp://a:1 has numpy 0; this process has 1"),
        (found(own, dict.fromkeys(SPOKEN, "1")), "worker tcp://a:1 has no riata"),
    ):
        with refused(Conflict, "engine_version", match=told):
            check_versions(versions)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_kills_and_pauses_cost_no_bit(data: SegmentData, tmp_path: Path) -> None:
    rng = random.Random(4)
    job, given = taylor(data)
    wanted = Serial().fold(job, data.parts, given)
    with cluster_in(tmp_path / "workers") as running, pool_of(data, running, tmp_path, WORKERS, patience_s=2.0) as pool:
        for number in range(100):
            victim = running.workers.pop(rng.randrange(WORKERS))
            fault = signal.SIGKILL if number % 2 else signal.SIGSTOP
            timer = threading.Timer(rng.random() * 0.1, victim.send_signal, (fault,))
            timer.start()
            assert same(pool.fold(job, data.parts, given), wanted)
            timer.join()
            victim.send_signal(signal.SIGCONT)
            if number % 2:
                running.add()
            else:
                running.workers.append(victim)
        assert [path.name for path in tmp_path.glob("*.bin")] == ["rows.bin"]
