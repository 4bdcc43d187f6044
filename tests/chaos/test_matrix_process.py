"""Rows of the fault matrix about one process with its embedded store: signals, limits, clocks, backlog."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.chaos import rows
from tests.chaos.cluster import Cluster, Member, until
from tests.chaos.history import Fault
from tests.chaos.one_process import one, require
from tests.chaos.repeats import repeats, slow
from tests.chaos.wall_clock import WallClock
from tests.running import HANG_S

EXIT_AT_ONCE = 128
HOUR_S = 3600
TEN_YEARS_S = 10 * 365 * 86_400


@pytest.mark.slow
def test_row_21_the_wall_clock_jumps_between_starts(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    clock = WallClock(tmp_path)
    member.environment.update(clock.environment)
    with cluster.load("--pause-ms", "5", observe=[member], predict=[member]) as load:
        for offset_s in (-HOUR_S, TEN_YEARS_S, 0):
            seen = load.acked()
            until(lambda seen=seen: load.acked() > seen + 5, 30, "requests are acknowledged")  # type: ignore[misc]
            clock.set(offset_s)
            before = len(member.exits)
            member.kill()
            until(lambda before=before: len(member.exits) > before, 10, "the supervisor sees it")  # type: ignore[misc]
            member.wait_ready()
        seen = load.acked()
        until(lambda: load.acked() > seen + 5, 30, "requests are acknowledged")
    left = require(cluster, tmp_path)
    stamps = [entry.accepted_ms for entry in left.entries]
    assert max(stamps) - min(stamps) > 9 * 365 * 86_400_000  # the clock did jump, and decided nothing


@pytest.mark.slow
@pytest.mark.parametrize("step_s", [-HOUR_S, slow(TEN_YEARS_S)], ids=["back", "forth"])
def test_row_21_the_wall_clock_jumps_while_it_runs(step_s: int, cluster: Cluster, tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    member = one(cluster)
    member.again(**clock.environment)
    with cluster.load("--pause-ms", "5", observe=[member], predict=[member]) as load:
        for offset_s in (step_s, 0, step_s):
            seen = load.acked()
            until(lambda seen=seen: load.acked() > seen + 20, 30, "requests are acknowledged")  # type: ignore[misc]
            clock.set(offset_s)
        for second in range(20):  # and steps on, as under a daemon that cannot make up its mind
            seen = load.acked()
            clock.set(step_s + (-1) ** second * second)
            until(lambda seen=seen: load.acked() > seen + 2, 30, "requests are acknowledged")  # type: ignore[misc]
        until(lambda: member.metric("riata_checkpoints_total", outcome="ok") > 2, 30, "checkpoints are written")
    assert cluster.stop() == {"one": 0}
    left = require(cluster, tmp_path)
    stamps = [entry.accepted_ms for entry in left.entries]
    assert max(stamps) - min(stamps) > 3_500_000
    assert set(member.exits) <= {0}  # it never died of it


def limit(member: Member, kind: int, value: int) -> tuple[int, int]:
    """Set a limit of a running process; returns the previous one."""
    before = resource.prlimit(member.pid, kind)
    resource.prlimit(member.pid, kind, (value, before[1]))
    return before


@pytest.mark.slow
@pytest.mark.parametrize("seed", repeats(1, 10))
def test_row_38_killed_the_moment_it_holds_more_memory_than_it_may(seed: int, cluster: Cluster, tmp_path: Path) -> None:
    """As the kernel does in a memory cgroup, and systemd-oomd outside of it: SIGKILL during the request that needed more."""
    member, rng = one(cluster), random.Random(seed)
    killed = 0
    with cluster.load("--rows", "1500", "--clients", "4", observe=[member], predict=[member]) as load:
        for _ in range(3):
            member.wait_ready()
            allowed = member.resources().rss + rng.randrange(1, 8) * 2**20
            until(lambda allowed=allowed: member.resources().rss > allowed, 30, "it holds more than it may")  # type: ignore[misc]
            before = len(member.exits)
            member.kill()
            killed += 1
            until(lambda before=before: len(member.exits) > before, 10, "the supervisor sees it")  # type: ignore[misc]
        member.wait_ready()
        seen = load.acked()
        until(lambda: load.acked() > seen + 2, 60, "it goes on, with what it is given now")
    cluster.faults.append(Fault("kills", 0, member.exits.count(-signal.SIGKILL)))
    assert member.exits == [-signal.SIGKILL] * killed
    require(cluster, tmp_path)


def test_row_40_out_of_descriptors_it_pauses_and_recovers(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    with cluster.load("--pause-ms", "5", observe=[member], predict=[member]) as load:
        until(lambda: load.acked() > 5, 30, "requests are acknowledged")
        before = member.resources()
        limit(member, resource.RLIMIT_NOFILE, before.fds + 8)
        held = [socket.create_connection(("127.0.0.1", member.port), timeout=5) for _ in range(40)]
        seen = load.acked()
        until(lambda: load.acked() > seen + 20, 30, "open connections are answered while no new one can be")
        for end in held:
            end.close()
        until(member.ready, 30, "new connections are answered again")
        cluster.resources["one"] = before, member.resources()
    assert not member.exits
    assert cluster.stop() == {"one": 0}
    require(cluster, tmp_path)


def test_row_42_beyond_the_allowed_lag_it_refuses_with_retry_after(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster, lag_s_max=0.001)
    with cluster.load("--rows", "200", "--clients", "4", "--give-up", "0", observe=[member], predict=[member]) as load:
        until(lambda: '"why": "lag"' in load.history.read_text(encoding="utf-8"), 30, "a request is refused for lag")
        seen = load.acked()
        until(lambda: load.acked() > seen + 5, 30, "it goes on")
    assert cluster.stop() == {"one": 0}
    left = require(cluster, tmp_path)
    assert left.top.first_seq == 1  # nothing was trimmed to make room


def stalled_upload(member: Member) -> socket.socket:
    """A request whose body stops half-way."""
    end = socket.create_connection(("127.0.0.1", member.port), timeout=30)
    head = f"POST /models/{rows.MODEL}/observe HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    end.sendall(head.encode() + b'[{"features": {"')
    return end


def test_row_43_on_sigterm_it_ends_cleanly_even_with_slow_clients(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster, graceful_stop_s=2, body_idle_timeout_s=600, body_timeout_s=3600)  # so nothing but the stop ends it
    with cluster.load(observe=[member], predict=[member]) as load, stalled_upload(member):
        until(lambda: load.acked() > 20, 30, "requests are acknowledged")
        member.kept = False
        member.send(signal.SIGTERM)
        assert member.process.wait(HANG_S) == 0
    left = require(cluster, tmp_path)
    assert left.saved[0].applied == left.top.seq  # the last checkpoint holds everything


def test_row_44_on_ctrl_c_it_ends_as_on_sigterm(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    with cluster.load(observe=[member]) as load:
        until(lambda: load.acked() > 5, 30, "requests are acknowledged")
        member.kept = False
        member.send(signal.SIGINT)
        member.process.wait(HANG_S)
    left = require(cluster, tmp_path)
    assert left.saved[0].applied == left.top.seq


def test_row_44_stopped_twice_it_ends_at_once_and_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    with cluster.load(observe=[member]) as load, stalled_upload(member):  # the upload keeps the first signal from being enough
        until(lambda: load.acked() > 5, 30, "requests are acknowledged")
        member.kept = False
        member.send(signal.SIGTERM)
        until(lambda: not member.ready(), 10, "it has received the first")
        member.send(signal.SIGTERM)
        assert member.process.wait(HANG_S) == EXIT_AT_ONCE + signal.SIGTERM
    require(cluster, tmp_path)


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, slow(signal.SIGPIPE), slow(signal.SIGUSR1)], ids=lambda number: signal.Signals(number).name
)
def test_row_44_signals_that_mean_nothing_lose_nothing(number: int, cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    with cluster.load(observe=[member]) as load:
        until(lambda: load.acked() > 5, 30, "requests are acknowledged")
        member.send(number)
        seen = load.acked()
        until(lambda: load.acked() > seen + 20, 30, "it goes on, or was started again")
    require(cluster, tmp_path)


def test_row_44_its_output_is_not_read(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    member.again(["sh", "-c", 'exec "$@" >&- 2>&-', "sh"])  # standard output and standard error are closed
    with cluster.load(observe=[member], predict=[member]) as load:
        until(lambda: load.acked() > 20, 30, "requests are acknowledged")
    assert member.stop() == 0
    require(cluster, tmp_path)


def test_row_44_a_reader_of_its_words_that_goes_away_does_not_end_it(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no shell with pipes to functions")
    member.again([shell, "-c", 'exec "$@" > >(head -c 1 >/dev/null) 2>&1', "bash"])  # the pipe breaks at the second byte
    with cluster.load(observe=[member], predict=[member]) as load:
        until(lambda: load.acked() > 20, 30, "requests are acknowledged")
    assert httpx.get(f"{member.url}/livez", timeout=5).status_code == 200
    require(cluster, tmp_path)
