"""Builds the image from docker/Dockerfile without a container engine, and runs it as a container would.

    python -m tests.deploy.image [--base IMAGE] [--keep DIRECTORY]

buildah reads the Dockerfile itself; its chroot isolation needs no daemon and no registry. Where the base image cannot be
fetched, a Debian of the same release with its own Python 3.11 stands in for it, made by debootstrap; `--base` names another.
The service then runs there as the image's user: the root bound read-only, a tmpfs on /tmp, a folder on /data, nothing else.
Needs root, buildah, debootstrap and unshare. Prints how large the image is and how soon it answers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx

from tests.running import ROOT, free_port

STAND_IN: Final = "localhost/debian-python:3.11"
TAG: Final = "localhost/riata:check"
READY_S: Final = 120.0
BUILD_S: Final = 1800
PROGRAMS: Final = ("buildah", "debootstrap", "unshare", "chroot")
# Mounts of a container with a read-only root, a tmpfs on /tmp and a volume on /data; then the image's user, then its command.
ENTER: Final = """
root=$1 data=$2 user=$3; shift 3
mount --bind "$root" "$root" && mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o size=256m,mode=1777 tmpfs "$root/tmp"
mount --bind "$data" "$root/data"
exec chroot --userspec="$user" "$root" "$@"
"""
NDJSON: Final = "application/x-ndjson"
BODIES: Final = {
    "application/json": b'{"features": {"age": 41.5, "country": "de", "tags": ["new", "mobile"]}, "label": 1}',
    NDJSON: b'{"features":{"a":1},"label":0}\n{"features":{"b":"x"},"label":1}',
    "text/x-vw": b"1 |f a:1.5 b\n0 |f c",
    "text/x-svmlight": b"1 3:1.5 7:2\n0 3:1",
}


def missing() -> list[str]:
    """The reason why the image cannot be built here."""
    lacks = [program for program in PROGRAMS if shutil.which(program) is None]
    return lacks if os.geteuid() == 0 else ["root", *lacks]


@dataclass
class Builder:
    """buildah with its own storage below `directory`."""

    directory: Path
    containers: list[str] = field(default_factory=list)

    def call(self, *words: str, timeout_s: float = 300) -> str:
        """Run one command of buildah; returns its output. Raises an error with all output if it fails."""
        (self.directory / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\nrunroot = "{self.directory}/run"\ngraphroot = "{self.directory}/graph"\n'
        )
        environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(self.directory / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
            "STORAGE_DRIVER": "vfs",
        }
        done = subprocess.run(
            ["buildah", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"buildah {words[0]}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done.stdout.strip()

    def make_stand_in(self) -> None:
        """Make a base of Debian's own Python, with the certificates and the package index of this machine."""
        root = self.directory / "base"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=ca-certificates,python3,python3-venv", "bookworm", str(root)],
            check=True, capture_output=True, timeout=BUILD_S,
        )  # fmt: skip
        for file in ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf"):
            if Path(file).exists():
                shutil.copy(file, root / file.lstrip("/"))
        for name in ("python", "python3"):
            (root / "usr/local/bin" / name).symlink_to("/usr/bin/python3.11")
        shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
        container = self.call("from", "scratch")
        self.call("add", "-q", container, str(root), "/")
        self.call("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", container)
        self.call("commit", "-q", "--rm", container, STAND_IN)
        shutil.rmtree(root)

    def build(self, base: str | None) -> Path:
        """Build the image and return the path of its root."""
        if base is None:
            self.make_stand_in()
        pull = ["--pull-never"] if base is None else []
        words = ["--format", "docker", "--build-arg", f"PYTHON={base or STAND_IN}", "-f", "docker/Dockerfile", "-t", TAG, "."]
        self.call("bud", *pull, *words, timeout_s=BUILD_S)
        container = self.call("from", "--pull-never", TAG)
        self.containers.append(container)
        return Path(self.call("mount", container))

    def config(self) -> dict[str, Any]:
        """The configuration of the image: user, variables, entry point, health check."""
        found: dict[str, Any] = json.loads(self.call("inspect", self.containers[-1]))["Docker"]["config"]
        return found

    def remove(self) -> None:
        """Remove everything."""
        self.call("rm", "--all")
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass
class Image:
    """A built image's root and configuration."""

    root: Path
    config: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, each counted once."""
        files = {(s.st_dev, s.st_ino): s.st_size for p in self.root.rglob("*") if not p.is_symlink() for s in [p.lstat()]}
        return sum(files.values())

    def command(self, data: Path, words: list[str], environment: dict[str, str]) -> list[str]:
        """The command that runs `words` in the image as its user, with these variables added."""
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
        enter = ["unshare", "--mount", "sh", "-ec", ENTER, "enter", str(self.root), str(data), self.config["User"]]
        return [*enter, "/usr/bin/env", "-i", "-C", self.config["WorkingDir"], *variables, *words]

    def say(self, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command than the service."""
        return self.say_with(data, {}, *words)

    def say_with(self, data: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command than the service, with these variables."""
        command = self.command(data, list(words), environment)
        return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


@dataclass
class Inside:
    """The service in the image, running."""

    url: str
    environment: dict[str, str]
    process: subprocess.Popen[bytes]
    ready_s: float


@contextmanager
def serving(image: Image, data: Path, environment: dict[str, str]) -> Iterator[Inside]:
    """Run the image's own entry point and command, and wait until it is ready."""
    port = free_port()
    given = {
        "RIATA_HOST": "127.0.0.1",
        "RIATA_PORT": str(port),
        "RIATA_HEALTH_HOST": "127.0.0.1",
        "RIATA_HEALTH_PORT": str(free_port()),
        "RIATA_DISK_RESERVE_BYTES": "0",
        **environment,
    }
    command = image.command(data, [*image.config["Entrypoint"], *image.config["Cmd"]], given)
    started = time.monotonic()
    with (data.parent / "image.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}"
        while not ready(url):
            if process.poll() is not None or time.monotonic() > started + READY_S:
                raise RuntimeError(f"not ready:\n{(data.parent / 'image.log').read_text()[-4000:]}")
            time.sleep(0.01)
        yield Inside(url, given, process, time.monotonic() - started)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def ready(url: str) -> bool:
    """Whether the service accepts events and predictions."""
    try:
        return httpx.get(f"{url}/readyz", timeout=5).is_success
    except httpx.TransportError:
        return False


def talk(url: str) -> float:
    """Let every learner learn from every kind of body, predict and explain; returns the seconds of the first answer."""
    first_s = 0.0
    learners: list[dict[str, Any]] = [{"kind": kind} for kind in ("truncated_gradient", "taylor_sketch", "ftrl_proximal")]
    with httpx.Client(base_url=url, timeout=300) as http:
        for learner in learners:
            name = learner["kind"].replace("_", "-")
            started = time.monotonic()
            http.put(f"/models/{name}", json={"learner": learner}).raise_for_status()
            for kind, body in BODIES.items():
                answer = http.post(f"/models/{name}/observe?wait=applied", content=body, headers={"Content-Type": kind})
                answer.raise_for_status()
                first_s = first_s or time.monotonic() - started
            body = made_up_rows()
            http.post(f"/models/{name}/observe?wait=applied", content=body, headers={"Content-Type": NDJSON}).raise_for_status()
            http.get(f"/models/{name}/predict?age=40&country=de&_explain=true").raise_for_status()
        http.get("/models/taylor-sketch/path").raise_for_status()
    return first_s


def made_up_rows() -> bytes:
    """A thousand rows of twenty features, always the same."""
    random = Random(1)
    rows = []
    for _ in range(1000):
        features = {f"n{random.randrange(500)}": round(random.gauss(0, 1), 3) for _ in range(20)}
        rows.append(json.dumps({"features": features, "label": int(sum(features.values()) > 0)}))
    return "\n".join(rows).encode()


def replays_here(data: Path) -> bool:
    """Whether a replay by this checkout gives the bits that the image stored."""
    command = [sys.executable, "-m", "riata", "replay", "--data", str(data), "--verify"]
    given = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
    environment = {**given, "PYTHONPATH": str(ROOT / "service")}
    return subprocess.run(command, env=environment, capture_output=True, timeout=900, check=False).returncode == 0


def stop(inside: Inside) -> int:
    """SIGTERM; returns the exit code."""
    inside.process.send_signal(signal.SIGTERM)
    return inside.process.wait(60)


def main() -> None:
    """Build, enter, measure, print."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--base", help="a base image that can be fetched here")
    given = words.parse_args()
    if missing():
        sys.exit(f"missing: {', '.join(missing())}")
    directory = Path(tempfile.mkdtemp(prefix="riata-image-"))
    builder = Builder(directory)
    try:
        started = time.monotonic()
        image = Image(builder.build(given.base), builder.config())
        built_s = time.monotonic() - started
        data = directory / "data"
        data.mkdir()
        user, group = map(int, image.config["User"].split(":"))
        os.chown(data, user, group)
        with serving(image, data, {}) as inside:
            first_s = talk(inside.url)
            code = stop(inside)
        same = replays_here(data)
        rows = {
            "built in, s": f"{built_s:.0f}",
            "size, MB": f"{image.size_bytes / 1e6:.0f}",
            "from start to ready, s": f"{inside.ready_s:.2f}",
            "a model made and its first event learnt, s": f"{first_s:.3f}",
            "exit code after SIGTERM": str(code),
            "replayed here to the same bits": "yes" if same else "NO",
        }
        sys.stdout.write("".join(f"{name:45} {value}\n" for name, value in rows.items()))
    finally:
        builder.remove()


if __name__ == "__main__":
    main()
