"""Rows of the fault matrix that a running service on Redis must survive: every fault heals, and INV is checked over everything.

One service runs through the whole module, under load at each fault. The last test ends it and looks at what is left.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator

import pytest

from riata.base.errors import RiataError
from tests.chaos.cluster import Load, until
from tests.chaos.fleet import EXIT_LOST, LEASE_MS, Fleet
from tests.chaos.history import Fault
from tests.chaos.repeats import repeats, slow
from tests.chaos.soak import Rewriting
from tests.redis_server import RedisServer, redis_version

pytestmark = pytest.mark.skipif(redis_version() < (7,), reason="the service needs Redis 7")
SOUND = {"appendfsync": "always", "maxmemory-policy": "noeviction"}
OPTIONS = ["--pause-ms", "10", "--predict-ms", "20", "--timeout-s", "15"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    server = RedisServer(directory / "redis")
    server.start()
    with Fleet(directory, server) as found:
        found.begin(webs=2, writers=2, replicas=1)
        yield found
    server.kill()


@pytest.fixture
def load(fleet: Fleet) -> Iterator[Load]:
    """Load during the fault, and until the service has recovered."""
    with fleet.load(*OPTIONS) as found:
        fleet.goes_on(found, 3)
        fleet.active()
        yield found
        for link in fleet.links.values():
            link.heal()
        for setting, good in SOUND.items():
            fleet.server.cli("CONFIG", "SET", setting, good)
        fleet.goes_on(found, 3)
        fleet.active()
        fleet.learnt()


def noticed(fleet: Fleet, name: str, count: float) -> None:
    """Record for rule 8 that a metric reported the fault."""
    fleet.cluster.faults.append(Fault(name, 0, count))


def whys(load: Load) -> str:
    return load.history.read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", repeats(1))
def test_row_1_a_process_that_takes_events_is_killed(seed: int, fleet: Fleet, load: Load) -> None:
    web = random.Random(seed).choice(fleet.webs)
    time.sleep(random.Random(seed).uniform(0.0, 0.2))
    exits = len(web.exits)
    web.kill()
    fleet.goes_on(load, 3)  # through the other one
    until(lambda: len(web.exits) > exits and web.answers(), 60, "it is back")
    noticed(fleet, "kill of a web process", len(web.exits) - exits)


@pytest.mark.parametrize("seed", repeats(1))
def test_row_2_the_writer_is_killed(seed: int, fleet: Fleet, load: Load) -> None:
    active = fleet.active()
    time.sleep(random.Random(seed).uniform(0.0, 1.0))  # a checkpoint is written every second
    exits = len(active.exits)
    active.kill()
    fleet.goes_on(load, 3)  # events are taken whether somebody learns or not
    until(lambda: len(active.exits) > exits, 10, "the supervisor sees it")
    fleet.learnt()
    noticed(fleet, "kill of the writer", len(active.exits) - exits)


@pytest.mark.parametrize("seed", repeats(2))
def test_row_3_the_redis_is_killed_while_it_rewrites_its_file(seed: int, fleet: Fleet, load: Load) -> None:
    with Rewriting(fleet.server) as rewriting:
        until(lambda: rewriting.active, 10, "a rewrite is under way")
        time.sleep(random.Random(seed).uniform(0.0, 0.05))
        fleet.server.kill()
        fleet.server.start()
        fleet.goes_on(load, 3)


@pytest.mark.parametrize(("setting", "bad"), [slow("appendfsync", "no"), ("maxmemory-policy", "allkeys-lru")])
def test_row_5_a_setting_changed_at_run_time_stops_events_and_is_named(setting: str, bad: str, fleet: Fleet, load: Load) -> None:
    fleet.server.cli("CONFIG", "SET", setting, bad)
    until(lambda: all(web.metric("riata_accepting") == 0 for web in fleet.webs), 12, "no event is accepted any more")
    answer = fleet.webs[0].get("/readyz")
    assert answer is not None
    assert setting in answer.text
    assert all(member.answers() for member in [*fleet.webs, *fleet.replicas])
    seen = load.acked()
    until(lambda: '"status": 503' in whys(load), 10, "an event is refused")
    assert load.acked() - seen <= 4  # what was under way
    fleet.server.cli("CONFIG", "SET", setting, SOUND[setting])
    fleet.goes_on(load, 3)
    noticed(fleet, setting, fleet.webs[0].metric("riata_store_refusals_total"))


@pytest.mark.parametrize("seed", repeats(1))
@pytest.mark.parametrize("command", [("CLIENT", "PAUSE", 3000, "ALL"), ("DEBUG", "SLEEP", 3)], ids=["pause", "sleep"])
def test_row_14_redis_is_paused(command: tuple[str | int, ...], seed: int, fleet: Fleet, load: Load) -> None:
    time.sleep(random.Random(seed).uniform(0.0, 0.1))
    fleet.server.cli(*command)
    fleet.goes_on(load, 3)
    assert all(member.answers() for member in [*fleet.webs, *fleet.replicas])


@pytest.mark.parametrize("seed", repeats(1))
def test_row_14_connections_are_closed_from_the_other_side(seed: int, fleet: Fleet, load: Load) -> None:
    for _ in range(20):
        fleet.server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(random.Random(seed).uniform(0.0, 0.05))
    fleet.goes_on(load, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", repeats(1))
def test_row_18_a_writer_that_slept_for_longer_than_its_lease_ends(seed: int, fleet: Fleet, load: Load) -> None:
    active = fleet.active()
    time.sleep(random.Random(seed).uniform(0.0, 1.0))
    active.pause()
    other = next(member for member in fleet.writers if member is not active)
    until(lambda: other.metric("riata_lease_held") == 1, 30, "the other one leads")
    fleet.goes_on(load, 3)
    exits = len(active.exits)
    active.resume()
    until(lambda: len(active.exits) > exits, 30, "it ends")
    assert active.exits[-1] == EXIT_LOST
    noticed(fleet, "a writer that slept", active.exits.count(EXIT_LOST))


@pytest.mark.parametrize("seed", repeats(1))
@pytest.mark.parametrize(
    ("whom", "how"),
    [
        ("web0", "frozen"),
        ("web0", "drop_replies"),
        ("writer", "frozen"),
        ("writer", "hold_requests"),
        ("replica0", "refuse"),
        slow("web0", "refuse"),
        slow("web0", "hold_requests"),
        slow("writer", "refuse"),
        slow("writer", "drop_replies"),
        slow("replica0", "frozen"),
    ],
)
def test_row_23_a_process_is_cut_off_from_the_redis(whom: str, how: str, seed: int, fleet: Fleet, load: Load) -> None:
    time.sleep(random.Random(seed).uniform(0.0, 0.1))
    member = fleet.active() if whom == "writer" else fleet.cluster[whom]
    link = fleet.links[member.name]
    setattr(link, how, True)
    if how == "refuse":
        link.cut()
    if whom == "writer":
        other = next(one for one in fleet.writers if one is not member)
        until(lambda: other.metric("riata_lease_held") == 1, 3 * LEASE_MS / 1000 + 20, "another writer leads")
    elif whom == "web0":
        until(lambda: member.metric("riata_accepting") == 0, 20, "it takes no events")
        answer = member.get("/livez")
        assert answer is not None
        assert answer.status_code == 200  # nobody restarts it for the store's sake
    assert all(one.answers() for one in [*fleet.webs, *fleet.replicas])
    fleet.goes_on(load, 3)  # through the other one
    link.heal()
    until(member.answers, 30, "it answers as before")
    if whom == "web0":
        until(lambda: member.metric("riata_accepting") == 1, 30, "it takes events again")
        assert not member.exits or member.exits[-1] == -signal.SIGKILL


@pytest.mark.parametrize("seed", repeats(1))
def test_row_24_a_slow_link(seed: int, fleet: Fleet, load: Load) -> None:
    for name in ("web0", "replica0"):
        fleet.links[name].delay_s = 0.1
    before = fleet.webs[0].resources()
    fleet.goes_on(load, 10)
    after = fleet.webs[0].resources()
    fleet.cluster.resources[f"slow link {seed}"] = before, after
    fleet.links["web0"].heal()
    fleet.links["web0"].trickle_bytes = 64
    fleet.goes_on(load, 5)
    assert fleet.webs[0].answers()


@pytest.mark.parametrize("seed", repeats(1))
def test_row_41_a_replica_whose_downloads_crawl_takes_one_at_a_time(seed: int, fleet: Fleet, load: Load) -> None:
    link, replica = fleet.links["replica0"], fleet.replicas[0]
    link.trickle_bytes = 3000  # a model of some kB takes seconds, a new one comes every 50 ms
    before = replica.resources()
    fleet.goes_on(load, 60)
    assert replica.answers()
    after = replica.resources()
    fleet.cluster.resources[f"slow downloads {seed}"] = before, after
    assert after.threads - before.threads <= 1
    assert not replica.exits


@pytest.mark.slow
@pytest.mark.parametrize("seed", repeats(1, 10))
def test_row_45_a_rolling_restart_fails_no_prediction(seed: int, fleet: Fleet, load: Load) -> None:
    """One process after another is restarted; the others answer every request."""
    order = [*fleet.webs, *fleet.writers, *fleet.replicas]
    random.Random(seed).shuffle(order)
    for member in order:
        others = [one for one in order if one is not member]
        assert member.stop() == 0
        assert all(one.answers() for one in others)
        member.kept = True
        member.start()
        until(member.answers, 60, f"{member.name} is back: {member.said()}")
    fleet.goes_on(load, 3)


def test_inv_holds_over_everything(fleet: Fleet) -> None:
    if not list(fleet.cluster.directory.glob("load*.jsonl")):
        pytest.skip("nothing happened")
    exits = {member.name: set(member.exits) for member in fleet.cluster.members.values()}
    for codes in exits.values():
        assert codes <= {0, EXIT_LOST, -signal.SIGKILL}, exits
    try:
        left = fleet.require()
    except RiataError as error:
        raise AssertionError(error.detail) from None
    assert left.saved
