"""Requests with the host names that the parts of a deployment use are answered, without keys and on the health listeners."""

from __future__ import annotations

import re

import pytest

from riata.base.hosts import Hosts, read_hosts
from tests.deploy.compose_local import ROOT, load
from tests.deploy.manifests import of_kind
from tests.deploy.monitoring import PROMETHEUS

COMPOSE = ROOT / "docker-compose.yml"


def hosts(port: int, allowed: str | None = None) -> Hosts:
    """The hosts for which a service of the compose file answers on a port."""
    environment = load(COMPOSE)["services"]["web-1"]["environment"]
    return read_hosts(environment["RIATA_ALLOWED_HOSTS"] if allowed is None else allowed, "0.0.0.0", any_address=port == 8081)


def scraped() -> list[str]:
    (job,) = [job for job in load(PROMETHEUS / "prometheus.yml")["scrape_configs"] if job["job_name"] == "riata"]
    found: list[str] = job["static_configs"][0]["targets"]
    return found


@pytest.mark.parametrize("target", scraped())
def test_prometheus_is_answered_by_the_names_that_it_uses(target: str) -> None:
    assert target.endswith(":8081")
    assert hosts(8081).answers(target.encode())
    assert not hosts(8081, allowed="").answers(target.encode()), "it is the setting that lets it in"


def test_all_services_have_the_same_hosts_and_answer_each_other_and_the_front() -> None:
    services = load(COMPOSE)["services"]
    given = {
        name: s["environment"]["RIATA_ALLOWED_HOSTS"] for name, s in services.items() if "RIATA_ROLE" in s.get("environment", {})
    }
    assert len(set(given.values())) == 1
    for name in (*given, "front", "localhost", "127.0.0.1"):
        assert hosts(8080).answers(f"{name}:8080".encode())
    assert not hosts(8080).answers(b"evil.example:8080")


def test_the_front_checks_by_a_host_that_is_answered() -> None:
    checks = re.findall(r"^ *http-check send .* hdr Host (\S+)$", (ROOT / "deploy/haproxy/haproxy.cfg").read_text(), re.MULTILINE)
    assert checks
    assert all(read_hosts("", "0.0.0.0").answers(host.encode()) for host in checks)


def test_pods_are_probed_and_scraped_by_address_and_ask_for_keys_otherwise() -> None:
    settings = next(of_kind("ConfigMap"))["data"]
    assert settings["RIATA_KEYS_FILE"]
    listening = read_hosts(settings.get("RIATA_ALLOWED_HOSTS", ""), settings["RIATA_HEALTH_HOST"], any_address=True)
    for pod in (b"10.244.3.17:8081", b"[fd00:10:244::7]:8081"):
        assert listening.answers(pod)
    assert not listening.answers(b"evil.example:8081")
