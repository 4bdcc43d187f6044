"""An acknowledged event that kills the process that learns it: a few starts die, then only this event is skipped."""

from __future__ import annotations

import contextlib
import signal
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from riata.run.state.recovery import DEATHS_MAX
from riata.run.state.replay import replay
from riata.store.redis.store import open_redis
from tests.chaos.poisoned import POISON
from tests.chaos.replaying import replayed
from tests.redis_server import RedisServer, redis_version
from tests.running import HANG_S, Running
from tests.settings import redis_settings

ROWS = 30
POISONED = 17


def test_an_event_that_kills_the_process_is_skipped_alone_after_three_starts(tmp_path: Path) -> None:
    with Running(tmp_path / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}, module="tests.chaos.poisoned") as running:
        running.start()
        rows = [{"features": {"a": POISON if i == POISONED else i + 1.0}, "label": i % 2} for i in range(ROWS)]
        with contextlib.suppress(httpx.TransportError):  # it may die before the answer is out; the events are in the log
            assert httpx.post(f"{running.url}/observe", json=rows, timeout=300).json()["accepted"] == ROWS
        assert running.process.wait(HANG_S) == -signal.SIGSEGV
        deaths = 0
        while not running.lives():  # it serves what it had learnt before, until it comes to the event
            deaths += 1
            assert running.process.returncode == -signal.SIGSEGV, running.output()
        assert deaths == DEATHS_MAX  # the crash before these was of a record, and said nothing of the event
        assert "died of a fatal signal" in running.log()
        model = httpx.get(f"{running.url}/models/default", timeout=300).json()
        assert (model["examples"], model["skipped"]) == (ROWS - 1, 1)
        assert httpx.post(f"{running.url}/observe", json=rows[:3], timeout=300).status_code == 202
        assert running.stop() == 0
    # By the learner that does not die: the log says which event is left out.
    assert replayed(tmp_path / "data", "default").state.skipped == 1


@pytest.mark.slow
@pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
def test_an_event_that_kills_the_writer_of_a_shared_store_is_skipped_alone_while_web_continues(tmp_path: Path) -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        web = stack.enter_context(Running.of_role(tmp_path / "web", "web", redis.url, {"RIATA_MIN_SEQ_WAIT_MS": "20000"}))
        short = {"RIATA_LEASE_TTL_MS": "1500", "RIATA_FOLLOW_EVERY_MS": "50"}
        role = ("--role", "writer", "--store", redis.url)
        writer = stack.enter_context(Running(tmp_path / "writer", short, module="tests.chaos.poisoned", arguments=role))
        writer.start()
        web.start()
        rows = [{"features": {"a": POISON if i == POISONED else i + 1.0}, "label": i % 2} for i in range(ROWS)]
        assert httpx.post(f"{web.url}/observe", json=rows, timeout=300).json()["accepted"] == ROWS
        assert writer.process.wait(HANG_S) == -signal.SIGSEGV
        assert httpx.get(f"{web.url}/predict?a=1", timeout=300).status_code == 200
        more = httpx.post(f"{web.url}/observe", json=rows[:3], timeout=300).json()
        assert more["accepted"] == 3  # the log is open to others than the writer
        deaths = 0
        while not writer.lives():
            deaths += 1
            assert writer.process.returncode == -signal.SIGSEGV, writer.output()
        assert deaths == DEATHS_MAX
        followed = httpx.get(f"{web.url}/predict?a=1&_min_seq={more['seq']}", timeout=300)
        assert followed.status_code == 200
        assert httpx.get(f"{web.url}/metrics", timeout=300).status_code == 200
        reported = httpx.get(f"{web.url}/models/default", timeout=300).json()
        assert (reported["examples"], reported["skipped"]) == (ROWS + 2, 1)
        assert web.stop() == 0
        assert writer.stop() == 0
        with closing(open_redis(redis.url, redis_settings())) as store:
            report = replay(store, "default")
    assert report.equal
    assert report.compared
    assert report.state.skipped == 1
