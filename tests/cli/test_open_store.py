"""Looking at what is kept: a directory, or a store that several processes share."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.cli.test_end_to_end import riata
from tests.redis_server import RedisServer, redis_version
from tests.running import Running


@pytest.mark.skipif(redis_version() < (7,), reason="the service needs Redis 7, and no such server is on the PATH")
def test_a_shared_store_is_inspected_and_replayed_while_it_is_in_use(tmp_path: Path) -> None:
    directory = tmp_path / "redis"
    directory.mkdir()
    with RedisServer(directory) as redis, Running.of_role(tmp_path / "all", "all", redis.url) as running:
        running.start()
        rows = [{"features": {"x": i % 7}, "label": int(i % 3 == 0)} for i in range(500)]
        assert httpx.post(f"{running.url}/observe?wait=applied", json=rows, timeout=300).status_code == 200
        assert httpx.post(f"{running.url}/models/default/snapshots", timeout=300).status_code in (200, 201)
        shown = riata("inspect", "--store", redis.url)
        assert "default: events 1 to 501 in the log" in shown.stdout, shown.stderr
        verified = riata("replay", "--store", redis.url, "--verify")
        assert (verified.returncode, "at event 501: equal" in verified.stdout) == (0, True), verified.stdout + verified.stderr
        assert running.stop() == 0
        said = riata("repair", "--store", redis.url, "--model", "default", "--action", "set_aside")
        assert (said.returncode, "--yes sets the model aside" in said.stdout) == (0, True), said.stdout + said.stderr
        done = riata("repair", "--store", redis.url, "--model", "default", "--action", "set_aside", "--yes")
        found = re.search(r"\?aside=(default-\S+)", done.stdout)
        assert found is not None, done.stdout + done.stderr
        assert "default: events 1 to 2 in the log" in riata("inspect", "--store", redis.url).stdout  # it begins again
        aside = f"{redis.url}?aside={found[1]}"
        assert "default: events 1 to 502 in the log" in riata("inspect", "--store", aside).stdout  # one of them says why
        verified = riata("replay", "--store", aside, "--verify")
        assert (verified.returncode, "equal" in verified.stdout) == (0, True), verified.stdout + verified.stderr
        refused = riata("serve", "--store", aside, "--data", str(tmp_path / "aside"))
        assert (refused.returncode != 0, "is not served" in refused.stderr) == (True, True), refused.stdout + refused.stderr
        running.start()
        assert httpx.get(f"{running.url}/models/default", timeout=300).json()["examples"] == 0
        assert running.stop() == 0


@pytest.mark.parametrize("verb", ["inspect", "replay"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "give either --data"),
        (["--data", ".", "--store", "redis://127.0.0.1:1/0"], "give either --data"),
        (["--store", "sqlite:"], "give the data directory of the service with --data"),
        pytest.param(["--store", "redis://127.0.0.1:1/0"], "does not answer", marks=pytest.mark.slow),
        (["--store", "mysql://127.0.0.1"], "is not a store"),
    ],
)
def test_ambiguous_options_are_refused_in_a_sentence(verb: str, given: list[str], said: str) -> None:
    done = riata(verb, *given)
    assert done.returncode in (1, 2), done.stderr  # 2: what was given is wrong, 1: what is there
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
