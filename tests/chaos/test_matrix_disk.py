"""Rows of the fault matrix about the disk of the embedded store: full, failing, torn writes, power cuts."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from riata.base.errors import RiataError
from riata.store.sqlite.store import SqliteSettings, open_sqlite, read_sqlite
from tests.chaos import invariants, power
from tests.chaos.cluster import Cluster, until
from tests.chaos.history import Fault
from tests.chaos.one_process import one, require
from tests.chaos.repeats import slow
from tests.chaos.stored import SqliteSource
from tests.running import HANG_S, Running
from tests.store.appender import EVENTS_PER_GROUP, SETTINGS
from tests.store.test_crash import BOTH, acknowledged, command, environment, stored_ids, traced

EXIT_STORE_FAILED = 70
RESERVE = 16 * 2**20
REFUSED_TO_START = 1
LONG_BODIES = ["--rows", "1500", "--clients", "2"]  # whose payloads lie beside the database


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 96 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small filesystem can be mounted by root only")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("options", [["--pause-ms", "5"], slow([*LONG_BODIES, "--pause-ms", "20"])], ids=["short", "long"])
def test_row_25_a_full_disk_refuses_and_recovers(options: list[str], small_disk: Path, tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        member = cluster.add("one", disk_reserve_bytes=16 * 2**20)
        member.data = small_disk / "data"
        member.again()
        cluster.make_model(member)
        with cluster.load(*options, observe=[member], predict=[member]) as load:
            until(lambda: load.acked() > 5, 30, "requests are acknowledged")
            filler = small_disk / "filler"
            fill(filler)
            until(lambda: '"status": 507' in load.history.read_text(encoding="utf-8"), 30, "a request is refused with 507")
            assert member.answers()
            filler.unlink()
            seen = load.acked()
            until(lambda: load.acked() > seen + 10, 30, "it recovers unaided")
        assert not member.exits
        cluster.end()
        history = cluster.history()
        refused = history.statuses[507]
        history.faults.append(Fault("full disk", 0, refused))
        invariants.require(SqliteSource(member.data, tmp_path), history)


class Asked:
    """A separate service on the small disk, and its reports."""

    def __init__(self, disk: Path, tmp_path: Path) -> None:
        self.running = Running(
            tmp_path / "one", {"RIATA_DISK_RESERVE_BYTES": str(RESERVE)}, arguments=("--data", str(disk / "data"))
        )

    def observe(self) -> tuple[int, dict[str, Any]]:
        answer = httpx.post(f"{self.running.url}/observe", json={"features": {"a": 1.0}, "label": 1}, timeout=HANG_S)
        return answer.status_code, answer.json()

    def accepting(self) -> tuple[bool, float, float, list[str]]:
        """The state by readiness, two metrics and the warnings."""
        ready = httpx.get(f"{self.running.url}/readyz", timeout=HANG_S)
        assert ready.status_code == 200, ready.text  # predictions are answered
        lines = httpx.get(f"{self.running.url}/metrics", timeout=HANG_S).text.splitlines()
        meters = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        refuses = float(meters.get('riata_store_refuses{code="disk_reserve"}', 0))
        return ready.json()["accepting"], float(meters["riata_accepting"]), refuses, ready.json()["warnings"]

    def says(self, accepting: bool) -> bool:
        reported, meter, refuses, _ = self.accepting()
        return (reported, meter, refuses) == (accepting, float(accepting), float(not accepting))


def names_all(said: str) -> bool:
    """Whether a sentence has the setting, and the free and the required space."""
    return "disk_reserve_bytes (RIATA_DISK_RESERVE_BYTES)" in said and bool(
        re.search(r"\d+ bytes are free and \d+ are needed", said)
    )


@pytest.mark.slow
def test_row_25_readiness_and_meters_say_that_the_disk_is_full_and_recover(small_disk: Path, tmp_path: Path) -> None:
    asked = Asked(small_disk, tmp_path)
    with asked.running as running:
        running.start()
        assert asked.says(True)
        filler = small_disk / "filler"
        fill(filler)
        until(lambda: asked.says(False), 30, "readiness and meters say so, though nobody has sent an event")
        status, problem = asked.observe()
        assert (status, problem["code"]) == (507, "disk_reserve")
        assert names_all(problem["detail"])
        assert any(names_all(warning) for warning in asked.accepting()[3])
        assert names_all(running.output())
        at_the_bound(asked, filler, small_disk)
        filler.unlink()
        until(lambda: asked.says(True), 30, "it recovers by itself")
        assert asked.observe()[0] == 202
        assert not any("no events" in warning for warning in asked.accepting()[3])
        fill(filler)
        until(lambda: asked.says(False), 30, "it says so again")
        running.kill()
        (tmp_path / "one.log").unlink()
        running.start()
        assert asked.says(False)
        assert names_all(running.output())


def at_the_bound(asked: Asked, filler: Path, disk: Path) -> None:
    """With hardly more than the reserve free, events stay refused. If they were accepted, they would soon be refused again."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    os.truncate(filler, filler.stat().st_size - (RESERVE + RESERVE // 16 - free))
    for _ in range(30):
        assert asked.says(False), "it flaps"
        assert asked.observe()[0] == 507
        time.sleep(0.1)


def test_row_25_a_first_start_on_a_full_disk_says_how_much_it_wants(small_disk: Path, tmp_path: Path) -> None:
    asked = Asked(small_disk, tmp_path)
    with (small_disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 90 * 2**20)
    with asked.running as running:
        running.start(wait=False)
        assert running.wait(HANG_S) != 0
        assert names_all(running.output()), running.output()


def fill(filler: Path) -> None:
    """Write until nothing more fits."""
    with filler.open("wb", buffering=0) as file:
        for size in (2**20, 2**12):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def walk(cluster: Cluster, injections: Sequence[str], options: Sequence[str] = ()) -> list[int]:
    """Under load, one start after another in which system calls fail; returns their exit codes."""
    member = one(cluster)
    with cluster.load(*options, observe=[member], predict=[member]) as load:
        for injection in injections:
            member.before = traced(injection)
            exits, killed = len(member.exits), member.process
            member.kill()
            until(lambda killed=killed: member.process is not killed, 10, "it is started again")  # type: ignore[misc]
            member.before, running = (), member.process
            # It fails sooner or later; a call that is never reached in time does no harm.
            try:
                until(lambda running=running: running.poll() is not None or member.ready(), HANG_S, "it starts")  # type: ignore[misc]
                running.wait(15)
            except subprocess.TimeoutExpired:
                assert member.ready(), f"{injection}: {member.said()}"
                for traced_one in psutil.Process(running.pid).children(recursive=True):
                    traced_one.kill()  # who traces it ends with it
            until(lambda exits=exits: len(member.exits) > exits + 1, 10, "the end is seen")  # type: ignore[misc]
            member.wait_ready()
            seen = load.acked()
            until(lambda seen=seen: load.acked() > seen + 3, 30, "it goes on")  # type: ignore[misc]
    return member.exits[1::2]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("moments", "failing"), [([f"{n}+" for n in (1, 40)], 2), ([f"{n}" for n in range(1, 51)], 40)], ids=["from one on", "each"]
)
def test_row_26_a_failed_sync_ends_the_process_and_loses_nothing(
    moments: list[str], failing: int, cluster: Cluster, tmp_path: Path
) -> None:
    exits = walk(cluster, [f"fdatasync:error=EIO:when={moment}" for moment in moments])
    ended = [code for code in exits if code in (EXIT_STORE_FAILED, REFUSED_TO_START)]
    assert len(exits) == len(moments)
    assert len(ended) >= failing, exits
    cluster.faults.append(Fault("failed calls", 0, len(ended)))
    require(cluster, tmp_path)


@pytest.mark.parametrize(
    ("call", "options"),
    [
        ("pwrite64:error=ENOSPC:when=40+", []),
        *(slow(f"pwrite64:error={error}:when=40+", []) for error in ("EDQUOT", "EROFS")),
        *(slow(f"pwritev2:error={error}:when=4+", LONG_BODIES) for error in ("ENOSPC", "EIO", "EDQUOT")),
    ],
)
def test_row_27_a_failed_write_is_refused_or_ends_the_process_and_loses_nothing(
    call: str, options: list[str], cluster: Cluster, tmp_path: Path
) -> None:
    assert len(walk(cluster, [call], options)) == 1
    assert any(cluster["one"].data.glob("riata.payloads.*")) == bool(options)
    require(cluster, tmp_path)


@pytest.mark.slow
def test_row_27_an_interrupted_write_is_written_again(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    member.again(traced("pwrite64:error=EINTR:when=20+20"))
    with cluster.load(observe=[member]) as load:
        until(lambda: load.acked() > 50, 60, "requests are acknowledged")
    assert not member.exits
    require(cluster, tmp_path)


def test_row_27_a_short_write_ends_the_process_and_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    with cluster.load(observe=[member]) as load:
        until(lambda: load.acked() > 20, 30, "requests are acknowledged")
        largest = max(file.stat().st_size for file in member.data.iterdir() if file.name.startswith("riata.db"))
        before = resource.prlimit(member.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(member.pid, resource.RLIMIT_FSIZE, (largest + 10_001, before[1]))  # ends inside a page
        until(lambda: member.exits, 30, "the process ends")
        member.wait_ready()
        seen = load.acked()
        until(lambda: load.acked() > seen + 5, 30, "it goes on")
    assert member.exits == [EXIT_STORE_FAILED]
    require(cluster, tmp_path)


def power_cuts(tmp_path: Path, groups: int, cuts: int, seed: int, settings: SqliteSettings = SETTINGS) -> int:
    """Row 28: one run is recorded, and the power is cut at `cuts` moments of it; returns the number of events checked."""
    if not power.can_trace():
        pytest.skip("system calls cannot be recorded here")
    directory, trace = tmp_path / "live", tmp_path / "trace"
    directory.mkdir()
    full = [*power.command(trace), *command(directory, 0, groups, settings)]
    subprocess.run(full, env=environment(), capture_output=True, check=True, timeout=900)
    recorded = list(power.events(trace, directory))
    assert sum(1 for event in recorded if event.what == "sync") > groups
    assert not any(event.what == "said" and event.content.startswith(b"error") for event in recorded)
    began = next(i for i, event in enumerate(recorded) if event.what == "said")  # before, there is no store to speak of
    rng = random.Random(seed)
    moments = sorted(rng.sample(range(began, len(recorded)), min(cuts, len(recorded) - began)))
    disk, said, at = power.Disk(directory), b"", 0
    for number, moment in enumerate(moments):
        for event in recorded[at:moment]:
            disk.take(event)
            said += event.content if event.what == "said" else b""
        at = moment
        found = tmp_path / f"cut{number}"
        disk.after_a_cut(found, rng)
        check_after_cut(found, acknowledged(said.decode().splitlines()))
        shutil.rmtree(found)
    return acknowledged(said.decode().splitlines())


def check_after_cut(directory: Path, durable: int) -> None:
    """Acknowledged events are there without gaps, with every checkpoint that the store names."""
    with closing(open_sqlite(directory, SETTINGS)) as store:
        ids = stored_ids(store)
        first = store.head("m").first_seq - 1
        assert ids == list(range(first, first + len(ids)))
        assert durable <= first + len(ids) <= durable + EVENTS_PER_GROUP
        for kept in store.generations("m"):
            assert len(store.open_generation("m", kept.gen)) == kept.bytes


@BOTH
def test_row_28_forty_power_cuts_lose_nothing(tmp_path: Path, settings: SqliteSettings) -> None:
    assert power_cuts(tmp_path, groups=45, cuts=40, seed=1, settings=settings) > 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(5))
def test_row_28_thousand_power_cuts_lose_nothing(seed: int, tmp_path: Path) -> None:
    power_cuts(tmp_path, groups=120, cuts=200, seed=10 + seed)


def test_row_28_a_store_that_does_not_sync_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power.Disk, "take", without_syncs(power.Disk.take))
    with pytest.raises((AssertionError, RiataError)):
        power_cuts(tmp_path, groups=20, cuts=20, seed=2)


def without_syncs(take: object) -> object:
    """The disk of a program that never syncs."""

    def taking(disk: power.Disk, event: power.Event) -> None:
        if event.what != "sync":
            take(disk, event)  # type: ignore[operator]

    return taking


def opened(directory: Path) -> list[int] | None:
    """The ids that a start finds, None if it refuses."""
    try:
        store = read_sqlite(directory)
    except RiataError:
        return None
    try:
        return stored_ids(store) if store.models() else []
    except RiataError:
        return None
    finally:
        store.close()


def test_row_29_a_torn_database_is_refused_or_a_prefix(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "live", SETTINGS)
    store.close()
    subprocess.run(command(tmp_path / "live", 0, 30), env=environment(), capture_output=True, check=True, timeout=900)
    file = tmp_path / "live" / "riata.db"
    content = file.read_bytes()
    refused = 0
    rng = random.Random(29)
    for number in range(20):
        torn = tmp_path / f"torn{number}"
        shutil.copytree(tmp_path / "live", torn)
        if number % 2:
            place = rng.randrange(len(content) // 4096) * 4096  # half a page is old, or empty
            torn_content = content[:place] + bytes(4096) + content[place + 4096 :]
        else:
            torn_content = content[: rng.randrange(len(content))]
        (torn / "riata.db").write_bytes(torn_content)
        found = opened(torn)
        refused += found is None
        if found is not None and found:
            assert found == list(range(found[0], found[0] + len(found)))
        shutil.rmtree(torn)
    assert refused >= 10  # a file that was cut short never opens
