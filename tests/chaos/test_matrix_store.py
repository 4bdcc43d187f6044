"""Rows of the fault matrix about a store that has changed: emptied, cut, forged, rolled back, full, failing.

Each has a service of its own. Where nothing that was acknowledged may be lost INV is checked; where it is lost, a process must
have reported it, and no process may serve an older model than before.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.chaos import rows
from tests.chaos.cluster import Cluster, Load, Member, until
from tests.chaos.fleet import EXIT_LOST, Fleet
from tests.chaos.history import Fault
from tests.chaos.invariants import falling
from tests.chaos.repeats import slow
from tests.chaos.stored import RedisSource
from tests.chaos.wall_clock import WallClock
from tests.redis_server import RedisServer, redis_version
from tests.running import HANG_S, ROOT
from tests.store.test_crash import traced

pytestmark = pytest.mark.skipif(redis_version() < (7,), reason="the service needs Redis 7")
QUICK = ["--pause-ms", "10", "--predict-ms", "20", "--timeout-s", "10"]
SOUND = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "no-appendfsync-on-rewrite": "no"}
FAILING = ["fdatasync:error=EIO:when=30+", slow("write:error=ENOSPC:when=2000+"), slow("fdatasync:error=EDQUOT:when=50+")]
PREFIX = "{riata:riata}:m:"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as found:
        yield found


def accept_loss(fleet: Fleet) -> str:
    """Accept what the store has lost, as an operator does; returns what the command says."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
    command = [
        sys.executable,
        "-m",
        "riata",
        "repair",
        "--data",
        str(fleet.writers[0].data),
        "--store",
        fleet.server.url,
        "--yes",
    ]
    environment = {**outside, "PYTHONPATH": str(ROOT / "service")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def begun(fleet: Fleet, writers: int = 1, load: bool = True) -> None:
    """A service that has learnt something and has no clients any more."""
    fleet.begin(webs=1, writers=writers, replicas=1)
    if load:
        taught(fleet)


def taught(fleet: Fleet, requests: int = 10) -> None:
    with fleet.load(*QUICK) as load:
        fleet.goes_on(load, requests)
    fleet.learnt()
    active = fleet.active()
    until(lambda: active.metric("riata_checkpoints_total", outcome="ok") > 0, 30, "there is a checkpoint")


def served(member: Member) -> int:
    """The event of the served model."""
    kind = {"Content-Type": "application/json"}
    answer = httpx.post(f"{member.url}/models/{rows.MODEL}/predict", content=rows.predict_body("x"), headers=kind, timeout=10)
    answer.raise_for_status()
    seq: int = answer.json()["model"]["seq"]
    return seq


def model_key(fleet: Fleet, part: str) -> str:
    """The key of a part of the model."""
    number = fleet.server.cli("HGET", "{riata:riata}:models", rows.MODEL)
    assert isinstance(number, bytes)
    return f"{PREFIX}{number.decode()}:{part}"


def told(fleet: Fleet) -> float:
    """The number of reports by the processes that the store has changed."""
    figures = (
        "riata_log_forks_total",
        "riata_rollbacks_seen_total",
        "riata_stores_exchanged_total",
        "riata_editions_corrupt_total",
    )
    members = fleet.cluster.members.values()
    found = sum(member.metric(figure) for member in members if member.lives() for figure in figures)
    for outcome in ("corrupt", "failed"):
        found += sum(member.metric("riata_checkpoints_total", outcome=outcome) for member in members if member.lives())
    return found + sum(code in (EXIT_LOST, 1) for member in members for code in member.exits)


def send_one(fleet: Fleet, event_id: str) -> tuple[int, str]:
    """(status, code) of one more event."""
    kind = {"Content-Type": "application/x-ndjson"}
    url = f"{fleet.webs[0].url}/models/{rows.MODEL}/observe"
    answer = httpx.post(url, content=rows.observe_body([event_id]), headers=kind, timeout=300)
    return answer.status_code, answer.json().get("code", "")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("appendfsync", "everysec"),
        ("no-appendfsync-on-rewrite", "yes"),
        slow("maxmemory-policy", "allkeys-lru"),
        slow("appendonly", "no"),
    ],
)
def test_rows_4_and_6_a_redis_that_may_lose_events_is_refused_at_the_start(option: str, value: str, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", f"--{option}", value) as server, Cluster(tmp_path / "cluster") as cluster:
        member = cluster.add("all", role="all", store=server.url)
        member.kept = False
        assert member.process.wait(HANG_S) == 1
        assert option in member.said()
        server.cli("CONFIG", "SET", option, SOUND[option])
        member.kept = True
        member.again()  # and with the setting mended it starts


@pytest.mark.slow
def test_row_7_a_full_redis_refuses_events_makes_room_and_recovers_unaided(fleet: Fleet) -> None:
    fleet.settings.update(dedupe_events=1000)
    begun(fleet)
    with fleet.server.client() as client:
        used = client.info("memory")["used_memory"]
    fleet.server.cli("CONFIG", "SET", "maxmemory", used + 4 * 2**20)
    with fleet.load("--rows", "400", "--clients", "4", "--give-up", "0", "--timeout-s", "20") as load:
        until(lambda: '"status": 503' in load.history.read_text(encoding="utf-8"), 90, "an event is refused")
        web = fleet.webs[0]
        until(lambda: web.metric("riata_accepting") == 0, 20, "the process that takes events knows why")
        assert all(member.answers() for member in [web, *fleet.replicas])
        fleet.goes_on(load, 3, 60)  # nobody gave it more room: the writer saved, and dropped what that made superfluous
    fleet.cluster.faults.append(Fault("full", 0, fleet.webs[0].metric("riata_store_refusals_total")))
    fleet.server.cli("CONFIG", "SET", "maxmemory", 0)
    fleet.require()


@pytest.mark.parametrize("part", ["log", "gens", slow("meta"), slow("models"), slow("own")])
def test_row_8_a_missing_key_is_detected_and_no_empty_model_is_served(part: str, fleet: Fleet) -> None:
    begun(fleet)
    before = {member.name: served(member) for member in [*fleet.webs, *fleet.replicas]}
    key = f"{{riata:riata}}:{part}" if part in ("models", "own") else model_key(fleet, part)
    said = told(fleet)
    assert fleet.server.cli("UNLINK", key) == 1
    send_one(fleet, "after the key")  # something happens, so that somebody has to look
    until(lambda: told(fleet) > said or fleet.webs[0].metric("riata_accepting") == 0, 40, f"somebody misses {key}")
    for member in [*fleet.webs, *fleet.replicas]:
        if member.answers():
            assert served(member) >= before[member.name]
    assert fleet.replicas[0].answers()


def test_row_9_an_emptied_redis_is_not_taken_for_a_new_one(fleet: Fleet) -> None:
    begun(fleet)
    before, writer = served(fleet.replicas[0]), fleet.active()
    fleet.server.cli("FLUSHALL")
    until(lambda: EXIT_LOST in writer.exits or 1 in writer.exits, 40, "the writer ends")
    assert fleet.replicas[0].answers()
    assert served(fleet.replicas[0]) == before
    status, code = send_one(fleet, "after the flood")
    assert (status, code != "") == (503, True), (status, code)
    until(lambda: told(fleet) > 0, 20, "somebody tells")
    assert not list(falling(fleet.cluster.history().predicted))


def test_row_10_a_log_cut_ahead_of_the_learner_stops_it(fleet: Fleet) -> None:
    begun(fleet)
    writer, before = fleet.active(), served(fleet.replicas[0])
    writer.pause()
    for i in range(10):
        assert send_one(fleet, f"unseen {i}")[0] == 202
    fleet.server.cli("XTRIM", model_key(fleet, "log"), "MAXLEN", 2)
    writer.resume()
    until(lambda: told(fleet) > 0 or writer.exits, 40, "the gap is found")
    assert served(fleet.replicas[0]) == before  # the model is untouched
    assert "expected event" in writer.said()


def foreign_entry(fleet: Fleet) -> None:
    """Another client appends."""
    with fleet.server.client() as client:
        [(place, fields)] = client.xrevrange(model_key(fleet, "log"), count=1)
        client.xadd(model_key(fleet, "log"), fields, id=f"{int(place.split(b'-')[0]) + 5}-0")


def lost_entry(fleet: Fleet) -> None:
    """Delete an entry that the writer has not learnt yet."""
    with fleet.server.client() as client:
        found = client.xrevrange(model_key(fleet, "log"), count=3)
        client.xdel(model_key(fleet, "log"), found[2][0])


def edited_entry(fleet: Fleet) -> None:
    """Change a value of the last entry and nothing else."""
    key = model_key(fleet, "log")
    with fleet.server.client() as client:
        entries = client.xrange(key)
        fields = entries[-1][1]
        fields[b"payload"] = fields[b"payload"][:-1] + bytes([fields[b"payload"][-1] ^ 1])
        client.unlink(key)  # an entry cannot be changed, only all of them written again
        for place, content in entries:
            client.xadd(key, content, id=place)


@pytest.mark.parametrize("tamper", [edited_entry, slow(foreign_entry), slow(lost_entry)], ids=lambda tamper: tamper.__name__)
def test_row_11_a_log_that_others_changed_is_found_out(tamper: Callable[[Fleet], None], fleet: Fleet) -> None:
    begun(fleet)
    writer, before = fleet.active(), served(fleet.replicas[0])
    writer.pause()
    for i in range(5):
        assert send_one(fleet, f"unseen {i}")[0] == 202
    tamper(fleet)
    writer.resume()
    if tamper is foreign_entry:
        until(lambda: send_one(fleet, "one more")[0] >= 400 or told(fleet) > 0, 40, "the foreign entry is found")
        return
    until(lambda: told(fleet) > 0 or writer.exits, 40, "the change is found")
    assert served(fleet.replicas[0]) >= before


def test_row_12_a_promoted_copy_that_lacks_the_tail_is_found_out(tmp_path: Path) -> None:
    first, second = RedisServer(tmp_path / "first"), RedisServer(tmp_path / "second")
    with first, second, Fleet(tmp_path, first, lost_events_max=10**6) as fleet:
        second.cli("REPLICAOF", "127.0.0.1", first.port)
        begun(fleet)
        until(lambda: caught_up(first, second), 30, "the copy has everything")
        first.cli("CONFIG", "SET", "repl-ping-replica-period", 3600)
        second.cli("REPLICAOF", "NO", "ONE")
        taught(fleet)  # what the copy does not get
        before = RedisSource(first.url).top(rows.MODEL).seq
        replica_before = served(fleet.replicas[0])
        assert RedisSource(second.url).top(rows.MODEL).seq < before
        first.kill()
        for link in fleet.links.values():
            link.target_port = second.port
            link.cut()
        until(lambda: told(fleet) > 0, 40, "the loss is told")
        until(lambda: fleet.webs[0].metric("riata_lost_events") > 0, 40, "and counted")
        fleet.server = second
        with fleet.load(*QUICK) as load:
            fleet.goes_on(load, 5)  # it converges on what there is
        assert served(fleet.replicas[0]) >= min(replica_before, served(fleet.webs[0]))


def caught_up(first: RedisServer, second: RedisServer) -> bool:
    there, here = first.client(), second.client()
    with there, here:
        return bool(there.info("replication")["master_repl_offset"] == here.info("replication").get("slave_repl_offset"))


def test_row_34_yesterdays_backup_is_found_out_and_replicas_keep_the_newer_model(fleet: Fleet) -> None:
    begun(fleet)
    with fleet.server.client() as client:
        assert client.ping()
    fleet.server.stop()
    shutil.copytree(fleet.server.directory, fleet.directory / "yesterday")
    fleet.server.start()
    taught(fleet)
    before = served(fleet.replicas[0])
    fleet.server.kill()
    shutil.rmtree(fleet.server.directory)
    shutil.copytree(fleet.directory / "yesterday", fleet.server.directory)
    fleet.server.start()
    until(lambda: told(fleet) > 0, 40, "the rollback is told")
    until(lambda: fleet.webs[0].metric("riata_lost_events") > 0, 40, "and counted")
    assert served(fleet.replicas[0]) == before
    assert not list(falling(fleet.cluster.history().predicted))
    until(lambda: codes(fleet) == {"events_missing"}, 40, "the writer, started again, refuses what was put back")
    lost = fleet.writers[0].metric("riata_lost_events", model=rows.MODEL)
    assert f"at least {lost:.0f} events are missing" in accept_loss(fleet)
    with fleet.load(*QUICK) as load:
        fleet.goes_on(load, 5)
    for member in (fleet.webs[0], fleet.writers[0]):
        member.again()
        assert member.metric("riata_lost_events", model=rows.MODEL) == lost  # for good


def codes(fleet: Fleet) -> set[str]:
    """The reasons why the writers are not ready."""
    answers = [member.get("/readyz") for member in fleet.writers]
    return {str(answer.json().get("code")) for answer in answers if answer is not None}


def test_row_9_a_writer_started_again_on_an_emptied_redis_refuses_it_until_the_loss_is_accepted(fleet: Fleet) -> None:
    begun(fleet)
    fleet.server.cli("FLUSHALL")
    until(lambda: codes(fleet) == {"store_strange"}, 60, "the writer, started again by its supervisor, refuses the store")
    assert fleet.writers[0].metric("riata_lost_events", model=rows.MODEL) > 0
    assert fleet.server.cli("HLEN", "{riata:riata}:models") == 1  # nobody has made a model in it
    assert "events are missing" in accept_loss(fleet)
    until(lambda: fleet.writers[0].metric("riata_lease_held") == 1, 60, "the writer leads")


def two_writers(fleet: Fleet, load: Load) -> None:
    fleet.goes_on(load, 20)
    fleet.active()
    held = [member for member in fleet.writers if member.metric("riata_lease_held") == 1]
    assert len(held) == 1


@pytest.mark.slow
@pytest.mark.parametrize("offset_s", [3600, slow(-3600)])
def test_row_19_a_writer_whose_clock_is_an_hour_off_gains_nothing_by_it(offset_s: int, fleet: Fleet, tmp_path: Path) -> None:
    begun(fleet, writers=1)
    clock = WallClock(tmp_path)
    clock.set(offset_s)
    other = fleet.add("writer1", "writer")
    until(other.answers, 60, "the second writer stands by")
    other.again_soon(**clock.environment)
    until(other.answers, 60, "the second writer stands by, with another clock")
    with fleet.load(*QUICK) as load:
        two_writers(fleet, load)
        fleet.active().kill()
        two_writers(fleet, load)
    fleet.require()


@pytest.mark.parametrize("offset_s", [-3600, slow(3600)])
def test_row_22_the_clock_of_the_redis_jumps(offset_s: int, tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    server = RedisServer(tmp_path / "redis")
    before = {name: os.environ.get(name) for name in clock.environment}
    os.environ.update(clock.environment)
    try:
        server.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    try:
        with Fleet(tmp_path, server) as fleet:
            begun(fleet, writers=2)
            with fleet.load(*QUICK) as load:
                clock.set(offset_s)
                fleet.goes_on(load, 20)
                two_writers(fleet, load)
            fleet.learnt()
            fleet.require()
    finally:
        server.kill()


@pytest.mark.slow
def test_row_20_a_writer_of_an_older_algorithm_is_refused(fleet: Fleet) -> None:
    begun(fleet, writers=1)
    old = fleet.active()
    new = fleet.add("writer1", "writer")
    new.module = "tests.chaos.upgraded"
    new.again_soon()
    until(new.answers, 60, "the upgraded one stands by")
    with fleet.load(*QUICK) as load:
        old.pause()
        until(lambda: new.metric("riata_lease_held") == 1, 30, "the upgraded one leads")
        fleet.goes_on(load, 3)
        old.resume()
        until(lambda: bool(old.exits), 30, "the old one ends")
        new.kept = False
        new.kill()
        until(lambda: "algorithm" in old.said(), 30, f"the old one says why it may not lead: {old.said()}")
        assert old.metric("riata_lease_held") == 0
        fleet.goes_on(load, 3)  # events are kept for a writer that may
        new.kept = True
        new.start()
        until(lambda: new.metric("riata_lease_held") == 1, 60, "the upgraded one leads again")
    fleet.require()


@pytest.mark.parametrize("injection", FAILING, ids=["eio", "enospc", "edquot"])
def test_rows_25_to_27_a_redis_whose_disk_fails_ends_and_nothing_is_lost(injection: str, tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    try:
        with Fleet(tmp_path, server) as fleet:
            begun(fleet)
            with fleet.load(*QUICK, "--clients", "4", "--pause-ms", "0") as load:
                fleet.goes_on(load, 3)
                strace = [*traced(injection), "-p", str(server.pid)]
                strace[strace.index("-e") + 1] += ",write"
                with subprocess.Popen(strace, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
                    try:
                        server.process.wait(HANG_S)  # a server that has promised durability ends where it cannot keep it
                    except subprocess.TimeoutExpired:
                        server.kill()
                        raise
                    finally:
                        tracer.send_signal(signal.SIGINT)
                        tracer.wait(10)
                server.start()
                fleet.goes_on(load, 3)
            fleet.learnt()
            fleet.require()
    finally:
        if server.alive():
            server.kill()
