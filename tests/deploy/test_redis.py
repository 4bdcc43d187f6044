"""deploy/redis: the start script and its files, with a real server."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from tests.redis_server import plain_client, redis_binary, redis_version
from tests.running import HANG_S, ROOT, free_port

REDIS = ROOT / "deploy" / "redis"
PASSWORD = "correct horse battery staple"
START_S = 900.0

pytestmark = pytest.mark.skipif(redis_version() < (7, 0), reason="users.acl is for Redis 7 and newer")


def client(port: int, username: str, password: str = PASSWORD) -> redis.Redis:
    return plain_client(host="127.0.0.1", port=port, username=username, password=password)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("redis")
    (directory / "password").write_text(f"{PASSWORD}\n")
    found = free_port()
    environment = {
        **os.environ,
        "PATH": f"{redis_binary().parent}{os.pathsep}{os.environ['PATH']}",
        "REDIS_PASSWORD_FILE": str(directory / "password"),
        "REDIS_DATA": str(directory),
        "TMPDIR": str(directory),
    }
    words = ["/bin/sh", str(REDIS / "start"), "--port", str(found), "--bind", "127.0.0.1"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_S
        while not answers(found):
            assert process.poll() is None, (directory / "log").read_text()
            assert time.monotonic() < deadline, (directory / "log").read_text()
            time.sleep(0.02)
        yield found
    finally:
        process.terminate()
        process.wait(HANG_S)


def answers(port: int) -> bool:
    try:
        with client(port, "probe", "probe") as probe:
            return bool(probe.ping())
    except RedisError:
        return False


def test_a_client_without_a_name_or_with_a_wrong_password_is_refused(port: int) -> None:
    with plain_client(host="127.0.0.1", port=port) as unknown, pytest.raises(AuthenticationError):
        unknown.ping()
    for password in ("wrong", "", "0" * 64):
        with client(port, "riata", password) as wrong, pytest.raises(AuthenticationError):
            wrong.time()
    with client(port, "riata") as service:
        assert service.time()


def test_the_probe_may_ping_and_nothing_else(port: int) -> None:
    with client(port, "probe", "probe") as probe:
        assert probe.ping()
        for refused in (("GET", "{riata:x}:own"), ("INFO",), ("CONFIG", "GET", "appendonly")):
            with pytest.raises(NoPermissionError):
                probe.execute_command(*refused)


@pytest.mark.parametrize(
    "words",
    [
        ("FLUSHALL",), ("FLUSHDB",), ("KEYS", "*"), ("CONFIG", "SET", "appendonly", "no"), ("DEBUG", "SLEEP", "0"), ("SHUTDOWN",),
        ("ACL", "LIST"), ("MODULE", "LIST"), ("REPLICAOF", "NO", "ONE"), ("SAVE",), ("MONITOR",), ("SWAPDB", "0", "1"),
    ],
)  # fmt: skip
def test_the_service_may_not_do_what_it_never_does(port: int, words: tuple[str, ...]) -> None:
    with client(port, "riata") as service, pytest.raises(RedisError, match=r"permission|DEBUG command not allowed"):
        service.execute_command(*words)


def test_the_service_may_touch_its_own_keys_only(port: int) -> None:
    with client(port, "riata") as service:
        assert service.eval("redis.call('HSET', KEYS[1], 'f', 'v') return redis.call('HGET', KEYS[1], 'f')", 1, "{riata:x}:own")
        with pytest.raises(RedisError, match=r"(?i)permission"):
            service.eval("return redis.call('HSET', KEYS[1], 'f', 'v')", 1, "somebody:else")


def test_the_server_is_configured_as_the_service_asks(port: int) -> None:
    asked = {
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "maxmemory-policy": "noeviction",
        "save": "",
    }
    with client(port, "riata") as service:
        found = {name: service.config_get(name)[name] for name in asked}
        assert found == asked
        assert service.info("persistence")["aof_enabled"] == 1


def test_memory_stays_below_what_the_container_may_take() -> None:
    (most,) = re.findall(r"^maxmemory (\d+)gb$", (REDIS / "redis.conf").read_text(encoding="utf-8"), re.MULTILINE)
    limits = [
        re.findall(r"mem_limit: (\d+)g", (ROOT / "docker-compose.yml").read_text(encoding="utf-8").split("\n  redis:\n")[1])[0],
        re.findall(r"limits: \{memory: (\d+)Gi\}", (ROOT / "deploy/kubernetes/redis.yaml").read_text(encoding="utf-8"))[0],
    ]
    assert all(int(limit) >= 2 * int(most) for limit in limits)  # a rewrite may copy every page


def test_the_password_is_nowhere_but_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "REDIS_DATA": "/data"}
    environment |= {"REDIS_PASSWORD_FILE": str(tmp_path / "password"), "TMPDIR": str(tmp_path)}
    (tmp_path / "redis-server").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "redis-server").chmod(0o755)
    done = subprocess.run(["/bin/sh", str(REDIS / "start")], env=environment, capture_output=True, text=True, check=True)
    users = (tmp_path / "users.acl").read_text()
    assert PASSWORD not in done.stdout + users
    assert "#" + "0" * 64 not in users
    assert "#" + hashlib.sha256(PASSWORD.encode()).hexdigest() in users
    assert (tmp_path / "users.acl").stat().st_mode & 0o077 == 0
