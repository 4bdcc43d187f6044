"""Any number of service processes, restarted as by an orchestrator, and clients that record what they observe."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from tests import forked
from tests.chaos import rows
from tests.chaos.history import Fault, History, Recorder, Resources, read_history
from tests.forked import Program
from tests.running import HANG_S, ROOT, free_port

READY_S = STOP_S = HANG_S
POLL_S = 0.02
BUSY = 20  # how much longer a machine may take that is busy with other tests
ENVIRONMENT = {"RIATA_DISK_RESERVE_BYTES": "0"}


def until(condition: Callable[[], object], within_s: float, what: str) -> None:
    """Wait until `condition` holds; `within_s` is the limit on an idle machine. Raises `AssertionError` with `what` otherwise.
    A request without an answer counts as false, because a process may be restarting.
    """

    def holds() -> bool:
        try:
            return bool(condition())
        except httpx.TransportError:
            return False

    deadline = time.monotonic() + BUSY * within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {BUSY * within_s:g} s: {what}"
        time.sleep(POLL_S)


def service_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a service process: that of this process, without settings, plus `more`."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
    return {**outside, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT))), **ENVIRONMENT, **more}


class Member:
    """One process of the service, restarted on its port and directory as often as needed."""

    def __init__(self, name: str, directory: Path, environment: Mapping[str, str], recorder: Recorder) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = directory / f"{name}-data"
        self.log = directory / f"{name}.log"
        self.environment = dict(environment)
        self.module = "riata"
        self.before: Sequence[str] = ()  # a command that runs the service's command, such as strace
        self.exits: list[int] = []
        self.kept = True  # an orchestrator starts it again where it ends with an error
        self._recorder = recorder
        self._process: Program | None = None
        self._ended: Program | None = None  # whose end the supervisor has seen
        self._lock = threading.RLock()

    @property
    def process(self) -> Program:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    def start(self) -> None:
        """Begin a process; it is ready some seconds later."""
        with self._lock:
            arguments = ["serve", "--port", str(self.port), "--data", str(self.data)]
            environment = service_environment(self.environment)
            self._process = forked.start(self.module, arguments, environment, self.log, ROOT, self.before)
            self._recorder.write(what="started", at=time.monotonic(), url=self.url, name=self.name, pid=self._process.pid)

    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def supervise(self) -> None:
        """Restart a process that ended with an error, as an orchestrator does periodically."""
        with self._lock:
            code = None if self._process is None else self._process.poll()
            if code is None or self._process is self._ended:
                return
            self._ended = self._process
            self.exits.append(code)
            if self.kept and code != 0:
                self.start()

    def send(self, number: int) -> None:
        """Send a signal to the process itself, which may run under another command."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def pid(self) -> int:
        if not self.before:
            return self.process.pid
        children = psutil.Process(self.process.pid).children(recursive=True)
        return int(children[0].pid) if children else self.process.pid

    def kill(self) -> None:
        """SIGKILL."""
        self.send(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.send(signal.SIGCONT)

    def stop(self, within_s: float = STOP_S) -> int:
        """SIGTERM, and no restart; returns the exit code."""
        self.kept = False
        self.send(signal.SIGTERM)
        return self.process.wait(within_s)

    def end(self) -> None:
        """Kill the process, whatever its state."""
        self.kept = False
        if self.lives():
            self.resume()
            self.kill()
            self.process.kill()
            self.process.wait()

    def again(self, before: Sequence[str] = (), **environment: str) -> None:
        """End it, start it with another command or environment, and wait until it is ready."""
        self.again_soon(before, **environment)
        self.wait_ready()

    def again_soon(self, before: Sequence[str] = (), **environment: str) -> None:
        """The same as `again`, for a process that need not become ready."""
        self.end()
        self.process.wait()
        with self._lock:
            self._ended = self._process
            self.before, self.kept = before, True
            self.environment.update(environment)
            self.start()

    def get(self, path: str) -> httpx.Response | None:
        """Return the answer, None if there is none."""
        try:
            return httpx.get(self.url + path, timeout=5)
        except httpx.TransportError:
            return None

    def ready(self) -> bool:
        answer = self.get("/readyz")
        return answer is not None and answer.status_code == 200

    def answers(self) -> bool:
        """Whether it predicts, ready or not."""
        try:
            body = rows.predict_body("any")
            kind = {"Content-Type": "application/json"}
            return httpx.post(f"{self.url}/models/{rows.MODEL}/predict", content=body, headers=kind, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def wait_ready(self) -> None:
        """Wait until it is ready. Raises `AssertionError` if it is not ready in time, or if its start is refused repeatedly."""
        deadline, refused = time.monotonic() + READY_S, self.exits.count(1)
        while not self.ready():
            assert time.monotonic() < deadline, f"{self.name} is not ready within {READY_S:g} s: {self.said()}"
            assert self.exits.count(1) < refused + 2, f"{self.name} does not start: {self.said()}"
            time.sleep(POLL_S)

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over the series with these labels; 0.0 if there is none."""
        answer = self.get("/metrics")
        if answer is None:
            return 0.0
        total = 0.0
        for line in answer.text.splitlines():
            found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if found and all(f'{label}="{value}"' in (found[1] or "") for label, value in labels.items()):
                total += float(found[2])
        return total

    def resources(self) -> Resources:
        """The current resources of the process."""
        process = psutil.Process(self.pid)
        return Resources(process.memory_info().rss, process.num_fds(), process.num_threads())


class Load:
    """Runs `tests.chaos.load` for the duration of the block."""

    def __init__(self, history: Path, *options: str) -> None:
        self.history = history
        self._command = [sys.executable, "-m", "tests.chaos.load", str(history), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = service_environment({})
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process.stdout.close()
        assert code == 0, "the clients did not end by themselves"

    def acked(self) -> int:
        """Requests acknowledged so far."""
        return self.history.read_text(encoding="utf-8").count('"outcome": "acked"')

    def predicted(self) -> int:
        """Predictions answered so far."""
        return self.history.read_text(encoding="utf-8").count('"margin": ')


class Cluster:
    """Members by name, supervised for the duration of the block; all files are in `directory`."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.members: dict[str, Member] = {}
        self.faults: list[Fault] = []
        self.resources: dict[str, tuple[Resources, Resources]] = {}
        self.secrets: list[str] = []
        self._environment = dict(environment or {})
        self._recorder = Recorder(directory / "starts.jsonl")
        self._loads = 0
        self._over = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def add(self, name: str, **settings: object) -> Member:
        """Start one more process with these settings; see `Member.wait_ready`."""
        environment = {**self._environment, **{f"RIATA_{key.upper()}": str(value) for key, value in settings.items()}}
        member = Member(name, self.directory, environment, self._recorder)
        self.members[name] = member
        member.start()
        return member

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def make_model(self, member: Member, document: Mapping[str, Any] | None = None) -> None:
        """Create the model for the rows."""
        answer = httpx.put(f"{member.url}/models/{rows.MODEL}", json=document or rows.DOCUMENT, timeout=300)
        answer.raise_for_status()

    def load(self, *options: str, observe: Sequence[Member] = (), predict: Sequence[Member] = ()) -> Load:
        """Start clients with separate histories and separate ranges of ids."""
        self._loads += 1
        urls = ["--observe", *(member.url for member in observe), "--predict", *(member.url for member in predict)]
        prefix = ["--prefix", f"load{self._loads}-"]
        return Load(self.directory / f"load{self._loads}.jsonl", *urls, *prefix, *options)

    def history(self) -> History:
        """Return the observations of all clients so far."""
        logs = {name: member.log for name, member in self.members.items()}
        history = read_history(sorted(self.directory.glob("*.jsonl")), logs)
        history.faults, history.resources, history.secrets = self.faults, self.resources, self.secrets
        return history

    def end(self) -> None:
        """End every process at once."""
        for member in self.members.values():
            member.kept = False
        for member in self.members.values():
            if member.lives():
                member.end()

    def stop(self) -> dict[str, int]:
        """SIGTERM to all; exit codes by name."""
        for member in self.members.values():
            member.kept = False
        living = [member for member in self.members.values() if member.lives()]
        for member in living:
            member.send(signal.SIGTERM)
        return {member.name: member.process.wait(STOP_S) for member in living}

    def _supervise(self) -> None:
        while not self._over.wait(POLL_S):
            for member in list(self.members.values()):
                member.supervise()

    def __enter__(self) -> Self:
        self._supervisor.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._supervisor.join()
        self.end()
        self._recorder.__exit__(None, None, None)
