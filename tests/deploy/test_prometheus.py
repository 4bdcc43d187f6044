"""The alerts and the dashboard, as promtool and the service itself see them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.monitoring import PROMETHEUS, dashboard, exported, metrics_of, panels, rules
from tests.docs.test_links import anchors
from tests.redis_server import RedisServer, redis_version
from tests.running import ROOT, Running, free_port

TESTS = ("rules.test.yml", "rules.days.test.yml")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed")


def promtool(*words: str, directory: Path = PROMETHEUS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], cwd=directory, capture_output=True, text=True, timeout=900, check=False)


@needs_promtool
def test_promtool_accepts_the_rules_and_the_configuration() -> None:
    for words in (("check", "rules", "rules.yml"), ("check", "config", "prometheus.yml")):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_every_alert_fires_when_it_must_and_only_then() -> None:
    done = promtool("test", "rules", *TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_tests_of_the_alerts_see_spoilt_alerts(tmp_path: Path) -> None:
    text = (PROMETHEUS / "rules.yml").read_text(encoding="utf-8")
    spoilt = {
        "RiataNoActiveWriter": ('sum(riata_lease_held{job="riata"}) == 0', 'sum(riata_lease_held{job="riata"}) < 0'),
        "RiataLag": ("> 100000", "> 1"),
        "RiataEventsLost": ("riata_lost_events{job", "riata_lost{job"),
    }
    for right, wrong in spoilt.values():
        assert right in text
        text = text.replace(right, wrong)
    (tmp_path / "rules.yml").write_text(text)
    for name in TESTS:
        document = yaml.safe_load((PROMETHEUS / name).read_text(encoding="utf-8"))
        document["tests"] = [case for case in document["tests"] if case["name"].split()[0] in {*spoilt, "RiataRestarts"}]
        (tmp_path / name).write_text(yaml.safe_dump(document))
    done = promtool("test", "rules", *TESTS, directory=tmp_path)
    assert done.returncode != 0
    assert set(re.findall(r'alertname=\\"(\w+)\\"', done.stdout + done.stderr)) == set(spoilt)


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases = yaml.safe_load((PROMETHEUS / "rules.test.yml").read_text(encoding="utf-8"))["tests"]
    names = [case["name"] for case in cases]
    for alert in rules():
        assert [name for name in names if name.split()[0] == alert and "fires" in name], alert
        assert f"{alert} is quiet" in names


def test_every_alert_says_what_to_do_and_how_soon() -> None:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "action", "runbook_url"}


def test_every_alert_leads_to_its_section_and_every_section_is_of_an_alert() -> None:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))["groups"]
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"]}
    for alert, link in links.items():
        page, _, anchor = link.partition("#")
        assert (page, anchor) == ("service/docs/how-to/alerts.md", alert.lower())
        assert anchor in anchors(ROOT / page), alert
    sections = re.findall(r"^## (.*)$", (ROOT / "service/docs/how-to/alerts.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == list(links)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The metrics that the processes of a service may expose: alone with keys, and sharing a store."""
    directory = tmp_path_factory.mktemp("meters")
    keys = directory / "keys.toml"
    found = {"up"}
    with RedisServer(directory / "redis") as server:
        shared = {"RIATA_STORE": server.url, "RIATA_ROLE": "writer"} if redis_version() >= (7, 0) else {}
        for name, environment in (("alone", {"RIATA_KEYS_FILE": str(keys)}), ("writer", shared)):
            if name == "alone":
                make_key(keys)
            port = str(free_port())
            given = {"RIATA_HEALTH_PORT": port, "RIATA_DISK_RESERVE_BYTES": "0", **environment}
            with Running(directory / name, given) as running:
                running.start()
                httpx.post(f"{running.url}/observe", json={"features": {"a": 1}, "label": 1})
                found |= exported(httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).raise_for_status().text)
    return found


def make_key(path: Path) -> None:
    from typer.testing import CliRunner

    from riata.cli.app import app

    done = CliRunner().invoke(
        app, ["keys", "new", "--id", "meters", "--scope", "observe", "--model", "*", "--keys-file", str(path)]
    )
    assert done.exit_code == 0, done.output


@pytest.mark.skipif(redis_version() < (7, 0), reason="the meters of roles are shown with Redis 7 and newer")
def test_no_alert_and_no_panel_names_a_metric_that_does_not_exist(names: set[str]) -> None:
    for title, expression in [*rules().items(), *panels()]:
        assert metrics_of(expression), title
        assert metrics_of(expression) <= names, title
    assert metrics_of("sum(riata_no_such_thing) / riata_ready") - names == {"riata_no_such_thing"}


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    document = dashboard()
    assert document.keys() >= {"title", "uid", "schemaVersion", "panels", "templating", "time"}
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    sources = {json.dumps(p.get("datasource")) for p in document["panels"] if p["type"] != "row"}
    assert sources == {json.dumps({"type": "prometheus", "uid": "${source}"})}
    places = [p["gridPos"] for p in document["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(cells)) == len(cells)  # no two panels overlap
