"""docker-compose.yml without containers: the same processes on this machine, started in the same order.

Commands, environment, health checks, conditions, signals and grace periods come from the file. What a container engine would
do is done by hand: a path of a volume becomes a folder, the name of a service and its port become a port of this machine, in
arguments, variables, and copies of the mounted files. Of an image only this much is known: `riata` is this tree with the
variables of docker/Dockerfile, and the others are programs found on the path.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml  # type: ignore[import-untyped]

from tests.redis_server import machine_path
from tests.running import free_port

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 120.0  # of one service, until its health check passes
ENTRYPOINTS: Final = {"riata": ["riata"], "prom/prometheus": ["prometheus"], "haproxy": [], "redis": []}
IMAGE_PORTS: Final = {"riata": ("8080", "8081"), "redis": ("6379",), "haproxy": ("8080",), "prom/prometheus": ("9090",)}


class ComposeFailed(RuntimeError):
    """A service did not behave as the file specifies."""


def load(path: Path) -> dict[str, Any]:
    """Read a compose file."""
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def image_environment(dockerfile: Path) -> dict[str, str]:
    """The variables that the last stage of a Dockerfile sets."""
    last = re.split(r"^FROM .*$", dockerfile.read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]
    lines = re.findall(r"^ENV ((?:.*\\\n)*.*)$", last, re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(lines)))


def seconds(duration: str) -> float:
    """Read a duration as the compose specification writes it, of one unit: 45s, 500ms, 2m."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"ms": 0.001, "s": 1.0, "m": 60.0}[unit]


def required_programs(document: dict[str, Any]) -> set[str]:
    """Programs that must be on the path, in addition to the service itself."""
    images = {str(service["image"]).partition(":")[0] for service in document["services"].values()}
    of_image = {"redis": {"redis-server", "redis-cli"}, "haproxy": {"haproxy", "bash"}, "prom/prometheus": {"prometheus", "wget"}}
    return set().union(*(of_image.get(image, set()) for image in images))


@dataclass
class Service:
    """One service of the file, as a process."""

    name: str
    spec: dict[str, Any]
    folders: dict[str, Path] = field(default_factory=dict)  # path in the container -> path here
    process: subprocess.Popen[bytes] | None = None

    @property
    def image(self) -> str:
        """The image's name without its version."""
        return str(self.spec["image"]).partition(":")[0]

    @property
    def grace_s(self) -> float:
        """The time that it may take to stop."""
        return seconds(self.spec.get("stop_grace_period", "10s"))


class Compose:
    """The services of a compose file, as processes of this machine below `directory`. `up` starts, `down` stops them."""

    def __init__(self, path: Path, directory: Path) -> None:
        self.document = load(path)
        self.directory = directory
        self._base = path.parent
        self._image_environment = image_environment(ROOT / "docker" / "Dockerfile")
        self.services = {name: Service(name, spec) for name, spec in self.document["services"].items()}
        self.ports = {
            (service.name, port): free_port() for service in self.services.values() for port in IMAGE_PORTS[service.image]
        }

    # What a container engine would do ---------------------------------------------------------------------------------

    def order(self) -> list[str]:
        """Names of the services, each after those that it depends on."""
        return list(TopologicalSorter({name: s.spec.get("depends_on", {}) for name, s in self.services.items()}).static_order())

    def local(self, service: Service, text: str) -> str:
        """Replace addresses and paths of the container of `service` with those of this machine."""
        for (name, port), here in self.ports.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}:{port}(?!\d)", f"127.0.0.1:{here}", text)
            if name == service.name:
                text = re.sub(rf"(?<![\w.])(?:0\.0\.0\.0|127\.0\.0\.1)([:/]){port}(?!\d)", rf"127.0.0.1\g<1>{here}", text)
        for inside, folder in service.folders.items():
            text = re.sub(rf"(?<![\w.:/-]){re.escape(inside)}(?![\w.-])", str(folder), text)
        return text

    def _mount(self, service: Service) -> None:
        own = self.directory / service.name
        own.mkdir(parents=True, exist_ok=True)
        for path in ("/tmp", *(["/data"] if service.image == "riata" else [])):
            service.folders[path] = own / path.strip("/")
        copies = []
        for volume in service.spec.get("volumes", []):
            source, inside, *_ = volume.split(":")
            if source.startswith("."):
                service.folders[inside] = own / Path(inside).name
                copies.append((self._base / source, service.folders[inside]))
            else:
                service.folders[inside] = self.directory / "volumes" / source
        for folder in service.folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        for source, folder in copies:
            for file in filter(Path.is_file, source.iterdir()):
                (folder / file.name).write_text(self.local(service, file.read_text(encoding="utf-8")), encoding="utf-8")

    def _environment(self, service: Service) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")} | {"PATH": machine_path()}
        given = {name: str(value) for name, value in service.spec.get("environment", {}).items()}
        if service.image == "riata":
            of_image = {name: value for name, value in self._image_environment.items() if name.startswith("RIATA_")}
            given = {**of_image, **given}
            for name, port in (("RIATA_PORT", "8080"), ("RIATA_HEALTH_PORT", "8081")):
                given[name] = given[name].replace(port, str(self.ports[service.name, port]))
            given |= {"RIATA_HOST": "127.0.0.1", "RIATA_HEALTH_HOST": "127.0.0.1"}
            outside["PYTHONPATH"] = str(ROOT / "service")  # of this machine, wherever the checkout lies: not to be put elsewhere
        here = {name: self.local(service, value) for name, value in given.items()}
        return {**outside, **here, "TMPDIR": str(service.folders["/tmp"])}

    def _argv(self, service: Service) -> list[str]:
        entrypoint = service.spec.get("entrypoint", ENTRYPOINTS[service.image])
        words = [self.local(service, word.replace("$$", "$")) for word in [*entrypoint, *service.spec.get("command", [])]]
        if service.image == "redis":
            words += ["--port", str(self.ports[service.name, "6379"]), "--bind", "127.0.0.1"]
        return [sys.executable, "-m", "riata", *words[1:]] if words[0] == "riata" else words

    # Starting, watching, stopping -------------------------------------------------------------------------------------

    def up(self) -> None:
        """Start everything in order, each service after its dependencies meet the conditions of the file; wait until all are
        healthy.
        """
        for name in self.order():
            for needed, how in self.services[name].spec.get("depends_on", {}).items():
                self._wait(needed, how["condition"])
            self.start(name)
        for name in self.services:
            self._wait(name, "service_healthy")

    def start(self, name: str) -> None:
        """Start one service."""
        service = self.services[name]
        self._mount(service)
        with self._log(name).open("ab") as output:
            service.process = subprocess.Popen(
                self._argv(service), stdout=output, stderr=output, env=self._environment(service), cwd=self.directory / name
            )

    def healthy(self, name: str) -> bool:
        """Whether the health check passes now. A service without one is healthy while it runs, or after it exited with 0."""
        service = self.services[name]
        process = self.process(name)
        check = service.spec.get("healthcheck", {})
        if process.poll() is not None or check.get("disable", not check):
            return process.poll() in (None, 0) and bool(check.get("disable", not check))
        kind, *words = check["test"]
        ours: list[str] = []  # paths of this machine
        words = ["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else words
        if words[0] == "riata-health":
            ours, words = [sys.executable, str(ROOT / "docker" / "riata-health")], words[1:]
        command = ours + [self.local(service, word.replace("$$", "$")) for word in words]
        try:
            done = subprocess.run(
                command, env=self._environment(service), capture_output=True, timeout=seconds(check["timeout"]), check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def _wait(self, name: str, condition: str) -> None:
        deadline = time.monotonic() + START_S
        process = self.process(name)
        while time.monotonic() < deadline:
            ended = process.poll()
            finished = ended == 0 and self.services[name].spec.get("restart") == "no"
            if condition == "service_completed_successfully":
                met = finished
            else:
                met = finished or (condition == "service_started" and ended is None) or self.healthy(name)
            if met:
                return
            if ended is not None:
                raise ComposeFailed(f"{name} ended with {ended}:\n{self.output(name)}")
            time.sleep(0.05)
        raise ComposeFailed(f"{name}: not {condition} after {START_S} s:\n{self.output(name)}")

    def stop(self, name: str) -> float:
        """Stop one service as the file specifies; returns the seconds it took. Raises an error if that is longer than its grace
        period.
        """
        service = self.services[name]
        process = self.process(name)
        started = time.monotonic()
        if process.poll() is None:
            process.send_signal(getattr(signal, service.spec.get("stop_signal", "SIGTERM")))
        try:
            process.wait(service.grace_s)
        except subprocess.TimeoutExpired:
            raise ComposeFailed(f"{name} did not stop within {service.grace_s} s:\n{self.output(name)}") from None
        return time.monotonic() - started

    def down(self) -> dict[str, float]:
        """Stop everything, each service before its dependencies; returns the seconds that each took."""
        return {name: self.stop(name) for name in reversed(self.order()) if self.services[name].process is not None}

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.process(name).kill()
        self.process(name).wait()

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """The process of a service. Raises an error if it was not started."""
        process = self.services[name].process
        if process is None:
            raise ComposeFailed(f"{name} was not started")
        return process

    def url(self, name: str, port: str = "8080") -> str:
        """The address of a service."""
        return f"http://127.0.0.1:{self.ports[name, port]}"

    def of_role(self, role: str) -> Iterator[str]:
        """Names of the services of a role."""
        return (name for name, s in self.services.items() if s.spec.get("environment", {}).get("RIATA_ROLE") == role)

    def output(self, name: str) -> str:
        """The last output of a service."""
        return self._log(name).read_text(errors="replace")[-4000:]

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for service in self.services.values():
            if service.process is not None and service.process.poll() is None:
                service.process.kill()
                service.process.wait()


def missing_programs(document: dict[str, Any]) -> list[str]:
    """Programs that the services need and this machine does not have."""
    return sorted(program for program in required_programs(document) if shutil.which(program, path=machine_path()) is None)
