"""docker/Dockerfile: its content, and the image that it builds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import image
from tests.deploy.image import Builder, Image, missing, replays_here, serving, stop, talk
from tests.running import ROOT

DOCKERFILE = ROOT / "docker" / "Dockerfile"
UID = 10001


def last_stage() -> str:
    return re.split(r"^FROM .*$", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]


def test_the_last_stage_installs_nothing_and_runs_unprivileged() -> None:
    assert not re.search(r"apt-get|pip install|gcc|curl", last_stage())
    assert re.findall(r"^USER (.+)$", last_stage(), re.MULTILINE) == [f"{UID}:{UID}"]
    assert re.findall(r"^STOPSIGNAL (.+)$", last_stage(), re.MULTILINE) == ["SIGTERM"]
    assert "HEALTHCHECK" in last_stage()


def test_the_base_and_every_package_are_pinned() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    (base,) = re.findall(r"^ARG PYTHON=(.+)$", text, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-bookworm(@sha256:[0-9a-f]{64})?", base)
    installs = re.findall(r"pip .*install (.+)$", text, re.MULTILINE)
    from_index = [words for words in installs if "--no-deps --no-build-isolation" not in words and not words.startswith("--yes")]
    assert from_index
    assert all("--require-hashes" in words and "--only-binary :all:" in words for words in from_index)


def test_only_what_is_named_enters_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE.read_text(), re.MULTILINE) for word in line.split()[:-1]
    }
    assert {f"!{word}" for word in copied} == {rule for rule in rules if rule.startswith("!")}
    assert all((ROOT / word).exists() for word in copied)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if lacks := missing():
        pytest.skip(f"an image cannot be built here without {', '.join(lacks)}")
    builder = Builder(tmp_path_factory.mktemp("builder"))
    try:
        yield Image(builder.build(None), builder.config())
    finally:
        builder.remove()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    os.chown(path, UID, UID)
    return path


@pytest.mark.slow
@pytest.mark.timeout(image.BUILD_S + 600)
def test_the_image_answers_and_learns_the_same_bits(built: Image, data: Path) -> None:
    refused = built.say(data, "riata", "serve")
    assert refused.returncode != 0
    assert "allow_unauthenticated" in refused.stderr
    with serving(built, data, {}) as inside:
        talk(inside.url)
        check = built.say_with(data, {"RIATA_HEALTH_PORT": inside.environment["RIATA_HEALTH_PORT"]}, "riata-health", "readyz")
        assert check.returncode == 0, check.stderr
        assert stop(inside) == 0
    gone = built.say_with(data, {"RIATA_HEALTH_PORT": inside.environment["RIATA_HEALTH_PORT"]}, "riata-health", "readyz")
    assert gone.returncode == 1
    assert replays_here(data)


@pytest.mark.slow
@pytest.mark.timeout(image.BUILD_S + 600)
def test_the_image_holds_no_tools_and_cannot_be_written_to(built: Image, data: Path) -> None:
    tools = built.say(data, "sh", "-c", "command -v gcc cc ld make pip pip3 curl wget; python -c 'import pip'; true")
    assert tools.stdout == ""
    assert "No module named" in tools.stderr
    written = built.say(data, "sh", "-c", "touch /opt/riata/x /x /etc/x; touch /data/x /tmp/x && id -u")
    assert written.stderr.count("Read-only file system") == 3
    assert written.stdout.strip() == str(UID)
    assert built.config["StopSignal"] == "SIGTERM"
    assert built.config["Healthcheck"]["Test"] == ["CMD", "riata-health", "readyz"]
    package = next(built.root.glob("opt/riata/lib/python3.*/site-packages/riata"))
    ours = [p.relative_to(ROOT / "service" / "riata") for p in (ROOT / "service" / "riata").rglob("*") if p.is_file()]
    assert [path for path in ours if "__pycache__" not in path.parts and not (package / path).is_file()] == []
    loose = [p for p in built.root.joinpath("opt/riata").rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o022]
    assert loose == []
