"""A Redis that was emptied, restored, or failed over to a copy that lagged: real servers, real processes, supervised restarts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from riata.store.records import decode_document
from riata.store.redis.store import open_redis
from tests.chaos.proxy import Proxy
from tests.chaos.repeats import slow
from tests.redis_server import RedisServer, redis_version
from tests.run import test_roles_redis
from tests.run.node import events
from tests.run.test_roles_redis import Fleet, make_model, metric, observe, observe_until_taken, predict, ready
from tests.running import HANG_S, ROOT, Running
from tests.settings import redis_settings

pytestmark = [
    pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer"),
    pytest.mark.timeout(900),  # each starts processes some ten times
]

EXIT_LOST = 75
until = partial(test_roles_redis.until, wait_s=300)
UNHURRIED = {"RIATA_LEASE_TTL_MS": "15000", "RIATA_STORE_TIMEOUT_MS": "10000"}  # no lease is lost on a busy machine


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def accept_loss(data: Path, store: str, *options: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
    environment = {**outside, "PYTHONPATH": str(ROOT / "service")}
    command = [sys.executable, "-m", "riata", "repair", "--data", str(data), "--store", store, *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def refuses(running: Running, code: str) -> str:
    """Wait until a process reports by `code` that it is not ready; returns the report."""
    until(lambda: ready(running).json().get("code") == code)
    answer = ready(running)
    assert answer.status_code == 503
    return str(answer.json()["detail"])


def put_back(redis: RedisServer, files: Path) -> None:
    redis.kill()
    shutil.rmtree(redis.directory / "appendonlydir")
    shutil.copytree(files, redis.directory / "appendonlydir")
    redis.start()


def copied(redis: RedisServer, files: Path) -> None:
    redis.stop()
    shutil.copytree(redis.directory / "appendonlydir", files)
    redis.start()


@pytest.mark.parametrize("acknowledged", [20, slow(0)])
def test_a_process_that_led_from_its_first_moment_does_not_take_an_emptied_store_for_a_new_one(
    fleet: Fleet, acknowledged: int
) -> None:
    one = fleet.add("one", "all", True, **UNHURRIED)
    if acknowledged:
        assert observe(one, events(acknowledged, first_id=0), "default", wait=True).status_code == 200
    fleet.redis.cli("FLUSHALL")
    assert one.wait(HANG_S) == EXIT_LOST, one.output()
    for _ in range(2):  # its supervisor starts it again, and again
        one.start(wait=False)
        detail = refuses(one, "store_strange")
        assert f"model default: all {acknowledged + 1} events are missing" in detail
        assert "riata repair --store URL" in detail
        refused = observe(one, events(1), "default")
        assert (refused.status_code, refused.json()["code"], refused.json()["outcome"]) == (503, "store_strange", "not_accepted")
        assert predict(one, model="default").status_code == 503  # and no empty model is served
        assert metric(one, 'riata_lost_events{model="default"}') == acknowledged + 1
        assert (metric(one, "riata_accepting"), metric(one, 'riata_store_refuses{code="store_strange"}')) == (0, 1)
        assert fleet.redis.cli("HLEN", "{riata:riata}:models") == 1  # nobody has made a model there
        assert detail[:60] in one.output()
        one.kill()
    one.start(wait=False)

    asked = accept_loss(one.directory, fleet.redis.url)
    assert (asked.returncode, fleet.redis.cli("HLEN", "{riata:riata}:models")) == (1, 1)
    assert f"model default: all {acknowledged + 1} events are missing" in asked.stdout
    accepted = accept_loss(one.directory, fleet.redis.url, "--yes")
    assert accepted.returncode == 0, accepted.stderr
    one.wait_until_ready()  # without a restart
    for _ in range(2):
        assert observe(one, events(5), "default", wait=True).status_code == 200
        answer = ready(one).json()
        assert answer["warnings"] == [f"model default: the store has lost {acknowledged + 1} acknowledged events"]
        assert answer["models"]["default"]["lost"] == acknowledged + 1
        assert metric(one, 'riata_lost_events{model="default"}') == acknowledged + 1
        assert one.stop() == 0, one.output()
        one.start()


@pytest.mark.parametrize("kept", ["note", slow("no note")])
def test_after_an_older_file_is_restored_no_process_continues_until_the_loss_is_accepted(
    fleet: Fleet, tmp_path: Path, kept: str
) -> None:
    """kept: whether the web process keeps the directory with its note, or is a new machine after its restart."""
    writer, web, replica = (
        fleet.add(name, role, False, **UNHURRIED) for name, role in (("w", "writer"), ("a", "web"), ("r", "replica"))
    )
    for running in (writer, web, replica):
        running.wait_until_ready()
    make_model(web)
    observe_until_taken(web, events(20, first_id=0))
    copied(fleet.redis, tmp_path / "yesterday")
    until(lambda: observe(web, events(30, seed=1, first_id=100), wait=True).status_code == 200)
    until(lambda: predict(replica, min_seq=51).status_code == 200)
    until(lambda: (fleet.directory / "r" / "copies" / "m.edition").exists())
    put_back(fleet.redis, tmp_path / "yesterday")
    assert writer.wait(HANG_S) == EXIT_LOST, writer.output()

    # Those that were running go on predicting from what they have, and take no events.
    until(lambda: metric(web, 'riata_lost_events{model="m"}') == 30)
    assert predict(web).json()["model"]["seq"] == 51
    refused = observe(web, events(1))
    assert (refused.status_code, refused.json()["code"]) == (503, "events_missing")
    assert ready(web).json()["accepting"] is False
    assert any("30 acknowledged" in warning for warning in ready(web).json()["warnings"])

    # Those that are started again serve nothing, but for the copies of a replica.
    assert (web.stop(), replica.stop()) == (0, 0)
    if kept == "no note":
        shutil.rmtree(web.directory)
    for running in (writer, web, replica):
        running.start(wait=False)
    refusing = [writer] if kept == "no note" else [writer, web]
    for running in refusing:
        assert "model m: at least 30 events are missing; its log ends at event 21, the last known event is 51" in refuses(
            running, "events_missing"
        )
        assert metric(running, 'riata_lost_events{model="m"}') == 30
    replica.wait_until_ready()
    assert predict(replica).json()["model"]["seq"] == 51
    assert metric(writer, "riata_lease_held") == 0

    accepted = accept_loss(writer.directory, fleet.redis.url, "--yes")
    assert accepted.returncode == 0, accepted.stderr
    assert "model m: at least 30 events are missing" in accepted.stdout
    store = open_redis(fleet.redis.url, redis_settings())
    [record] = [record for record in store.read("m", 21) if record.kind == "repair"]
    document = decode_document(record.payload)
    assert {name: document[name] for name in ("action", "missing", "from", "to")} == {
        "action": "accept_loss", "missing": 30, "from": 22, "to": 51,
    }  # fmt: skip
    store.close()
    seq = observe_until_taken(web, events(60, seed=2, first_id=500))
    for running in (writer, web, replica):
        until(lambda running=running: predict(running, min_seq=seq).status_code == 200)  # type: ignore[misc]
        assert metric(running, 'riata_lost_events{model="m"}') == 30  # also where there is no note
    for running in (writer, web, replica):
        assert running.stop() == 0, running.output()
        running.start(wait=False)
    for running in (writer, web, replica):
        running.wait_until_ready()
        assert metric(running, 'riata_lost_events{model="m"}') == 30
        assert "model m: the store has lost 30 acknowledged events" in ready(running).json()["warnings"]


@pytest.mark.slow
def test_a_failover_to_a_lagging_copy_is_counted_and_recorded_permanently(fleet: Fleet, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "second") as second, Proxy(fleet.redis.port) as link:
        second.cli("REPLICAOF", "127.0.0.1", fleet.redis.port)
        names = {"w": "writer", "a": "web", "all": "all"}
        running = {
            name: Running.of_role(tmp_path / name, role, link.url_of(), {**UNHURRIED, "RIATA_LOST_EVENTS_MAX": "100"})
            for name, role in names.items()
        }
        with ExitStack() as stack:
            for one in running.values():
                stack.enter_context(one).start(wait=False)
            writer, web = running["w"], running["a"]
            web.wait_until_ready()
            make_model(web)
            observe_until_taken(web, events(20, first_id=0))
            until(lambda: b"seq" and second.cli("HGET", "{riata:riata}:m:2:meta", "seq") == b"21")
            second.cli("REPLICAOF", "NO", "ONE")
            seq = observe_until_taken(web, events(12, seed=1, first_id=100))  # what the copy does not get
            until(lambda: predict(web, min_seq=seq).status_code == 200)
            fleet.redis.kill()
            link.target_port = second.port
            link.cut()
            for one in (writer, running["all"]):
                until(lambda one=one: one.process.poll() is not None or metric(one, 'riata_lost_events{model="m"}') == 12)  # type: ignore[misc]
                if one.process.poll() is not None:
                    assert one.process.returncode == EXIT_LOST
                    one.start(wait=False)  # as its supervisor does: it led, and what it had learnt is gone
            for one in running.values():
                until(lambda one=one: metric(one, 'riata_lost_events{model="m"}') == 12)  # type: ignore[misc]
            seq = observe_until_taken(web, events(40, seed=2, first_id=300))  # and it goes on
            until(lambda: predict(web, min_seq=seq).status_code == 200)
            assert "12 events" in web.output()
            assert sum("within lost_events_max, so accepted" in one.output() for one in running.values()) >= 1

            store = open_redis(second.url, redis_settings())
            documents = [decode_document(record.payload) for record in store.read("m", 0) if record.kind == "repair"]
            store.close()
            assert {(one["action"], one["missing"], one["from"], one["to"]) for one in documents} == {("accept_loss", 12, 22, 33)}
            fresh = stack.enter_context(Running.of_role(tmp_path / "fresh", "web", link.url_of(), UNHURRIED))
            for one in [*running.values(), fresh]:
                if one is not fresh:
                    assert one.stop() == 0, one.output()
                one.start(wait=False)
            for one in [running["a"], fresh]:
                one.wait_until_ready()
                assert "model m: the store has lost 12 acknowledged events" in ready(one).json()["warnings"]
            for one in [*running.values(), fresh]:
                until(lambda one=one: metric(one, 'riata_lost_events{model="m"}') == 12)  # type: ignore[misc]


def test_a_damaged_note_is_reported_and_set_aside_and_an_intact_store_is_served(fleet: Fleet) -> None:
    one = fleet.add("one", "all", True, **UNHURRIED)
    assert observe(one, events(5, first_id=0), "default", wait=True).status_code == 200
    one.kill()
    note = one.directory / "store.note"
    data = bytearray(note.read_bytes())
    data[len(data) // 2] ^= 1
    note.write_bytes(bytes(data))
    one.start()
    assert any("cannot be used" in warning for warning in ready(one).json()["warnings"])
    assert (one.directory / "store.note.damaged").read_bytes() == bytes(data)
    until(lambda: predict(one, model="default").json()["model"]["seq"] == 6)  # once the lease of the killed process has run out


def test_accepting_needs_a_shared_store(tmp_path: Path) -> None:
    refused = accept_loss(tmp_path, "sqlite:")
    assert (refused.returncode, "expected the URL of a Redis" in refused.stderr) == (2, True)
