"""docker-compose.yml: valid by the specification, hardened, and every file it names exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from riata.base.settings import Settings, env_name
from tests.deploy.compose_local import ROOT, image_environment, load, seconds

COMPOSE = ROOT / "docker-compose.yml"
ROLES = {"web-1": "web", "web-2": "web", "writer-1": "writer", "writer-2": "writer", "replica": "replica"}


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(COMPOSE)["services"]
    return found


def problems(document: dict[str, Any]) -> list[str]:
    """Errors by the schema of the compose specification in the package check-jsonschema."""
    text = (files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text(encoding="utf-8")
    return [f"{'/'.join(map(str, e.path))}: {e.message}" for e in Draft202012Validator(json.loads(text)).iter_errors(document)]


def test_the_file_is_valid_by_the_specification() -> None:
    assert problems(load(COMPOSE)) == []


def test_the_schema_sees_a_misspelt_key() -> None:
    document = load(COMPOSE)
    document["services"]["redis"]["stop_grace"] = "45s"
    assert problems(document)


def test_every_role_is_there_as_often_as_it_must_be() -> None:
    roles = {name: s["environment"]["RIATA_ROLE"] for name, s in services().items() if "RIATA_ROLE" in s.get("environment", {})}
    assert roles == ROLES


def test_every_service_is_hardened_and_bounded() -> None:
    for name, service in services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert int(service["user"].partition(":")[0]) > 0
        assert service["mem_limit"]
        assert service["pids_limit"]
        assert "privileged" not in service
        assert service["logging"]["options"]["max-size"]
        if service["restart"] != "no":
            assert service["restart"] == "unless-stopped"
            assert service["healthcheck"]["test"]
        if not name.startswith("password"):
            assert seconds(service["stop_grace_period"]) >= 30


def test_only_this_machine_can_call_and_only_two_ports() -> None:
    published = {name: service.get("ports", []) for name, service in services().items()}
    assert {name: ports for name, ports in published.items() if ports} == {
        "front": ["127.0.0.1:8080:8080"],
        "prometheus": ["127.0.0.1:9090:9090"],
    }
    assert load(COMPOSE)["networks"]["inside"] == {"internal": True}
    assert all(services()[name]["networks"] == ["inside"] for name in [*ROLES, "redis"])


def test_no_password_is_in_the_file() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in [COMPOSE, *(ROOT / "deploy" / "redis").iterdir()])
    assert re.findall(r"requirepass|masterauth|#(?!0{64})[0-9a-f]{64}|rediss?://[^@\s]*:[^@\s]*@redis", text) == []


def test_every_image_is_of_one_version() -> None:
    for name, service in services().items():
        image, _, tag = service["image"].partition(":")
        assert tag not in ("", "latest") or (image == "riata" and "build" in service), name


def test_what_is_mounted_exists_and_named_volumes_are_declared() -> None:
    declared = load(COMPOSE)["volumes"]
    for service in services().values():
        for volume in service.get("volumes", []):
            source, _, *mode = volume.split(":")
            if source.startswith("."):
                assert (ROOT / source).is_dir()
                assert mode == ["ro"]
            else:
                assert source in declared


def test_what_is_waited_for_can_become_what_is_waited_for() -> None:
    for name, service in services().items():
        for needed, how in service.get("depends_on", {}).items():
            other = services()[needed]
            if how["condition"] == "service_completed_successfully":
                assert other["restart"] == "no", name
            else:
                assert how["condition"] == "service_healthy"
                assert "test" in other["healthcheck"]


def test_every_variable_is_a_setting() -> None:
    known = {env_name(name) for name in Settings.model_fields}
    of_image = {name for name in image_environment(ROOT / "docker" / "Dockerfile") if name.startswith("RIATA_")}
    given = {name for service in services().values() for name in service.get("environment", {}) if name.startswith("RIATA_")}
    assert of_image
    assert of_image | given <= known


def test_a_service_may_stop_within_its_grace() -> None:
    for name in ROLES:
        assert seconds(services()[name]["stop_grace_period"]) > Settings.model_fields["graceful_stop_s"].default


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed, which checks its file")
def test_the_front_accepts_its_file(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "haproxy" / "haproxy.cfg").read_text(encoding="utf-8")
    spoilt = tmp_path / "spoilt.cfg"
    spoilt.write_text(text.replace("balance leastconn", "balance leastcon"))
    codes = {}
    for path in (ROOT / "deploy" / "haproxy" / "haproxy.cfg", spoilt):
        done = subprocess.run(["haproxy", "-c", "-f", str(path)], capture_output=True, timeout=900, check=False)
        codes[path] = done.returncode == 0
    assert list(codes.values()) == [True, False]
    named = set(re.findall(r"server \S+ ([\w-]+):8080", text))
    assert named == set(ROLES)
