"""Alerts fired by running services: conditions are caused, the services scraped, and promtool evaluates the rules on the scrapes.

What a scrape says is held for an hour before the condition and for two in it, as `for: 30m` needs more time than a test has;
counters go on by what they grew between two scrapes in the condition. The set of alerts that fired is exact: what is not caused
must be quiet.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]

from tests.damaging import flip_generations, flip_payload
from tests.deploy.monitoring import PROMETHEUS, metrics_of, rules
from tests.deploy.test_prometheus import make_key
from tests.running import HANG_S, Running, free_port

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed")
NDJSON = {"Content-Type": "application/x-ndjson"}
BEFORE_MIN, DURING_MIN = 60, 120
GROWING = ("_total", "_count", "_sum", "_bucket")
USED = {name for expression in rules().values() for name in metrics_of(expression)}
Scrape = dict[str, float]


def scrape(url: str) -> Scrape:
    """The samples of the metrics in the rules, by series, and `up`."""
    try:
        text = httpx.get(f"{url}/metrics", timeout=HANG_S).raise_for_status().text
    except httpx.TransportError:
        return {"up": 0.0}
    found = {"up": 1.0}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] in USED:
            found[series] = float(value)
    return found


def fired(directory: Path, before: Scrape, during: tuple[Scrape, Scrape], alerts: set[str]) -> str:
    """Have promtool evaluate the rules: none may fire before the condition, exactly `alerts` in it. Returns what was wrong."""

    def held(scraped: Scrape, series: str, minutes: int, later: Scrape) -> str:
        if series not in scraped:
            return f"_x{minutes}"
        step = later[series] - scraped[series] if series.partition("{")[0].endswith(GROWING) else 0.0
        return f"{scraped[series]:f}+{step:f}x{minutes - 1}"

    series, expected = [], {"before": set[str](), "during": alerts}
    for one in sorted(before.keys() | during[0].keys()):
        name, _, labels = one.partition("{")
        full = f'{name}{{job="riata", instance="one"' + (f", {labels}" if labels else "}")
        values = f"{held(before, one, BEFORE_MIN, before)} {held(during[0], one, DURING_MIN, during[1])}"
        series.append({"series": full, "values": values})
    asked = [
        {
            "expr": f'group by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{minutes - 1}m]))',
            "eval_time": f"{end - 1}m",
            "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(expected[when])],
        }
        for when, end, minutes in (("before", BEFORE_MIN, BEFORE_MIN), ("during", BEFORE_MIN + DURING_MIN, DURING_MIN))
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    document = {"rule_files": [str(PROMETHEUS / "rules.yml")], "evaluation_interval": "1m", "tests": [test]}
    path = directory / "scraped.test.yml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=HANG_S, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def send(running: Running, model: str, colour: Any, label: Any) -> None:
    rows = [{"features": {"red" if c else "blue": 1}, "label": int(y)} for c, y in zip(colour, label, strict=True)]
    for start in range(0, len(rows), 5000):
        body = "\n".join(map(json.dumps, rows[start : start + 5000]))
        answer = httpx.post(f"{running.url}/models/{model}/observe?wait=applied", content=body, headers=NDJSON, timeout=HANG_S)
        assert answer.status_code == 200, answer.text


def test_what_goes_wrong_with_models_fires_their_alerts_and_no_other(tmp_path: Path) -> None:
    running, rng = Running(tmp_path / "data"), np.random.default_rng(0)
    slow = {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "eta": 1e-5, "calibrated": False}
    with running:
        running.start()
        wild = {"kind": "truncated_gradient", "loss": "squared", "rate": "constant", "normalised": False, "step": "gradient"}
        made = {
            "turned": {"drift": {"action": "note"}},
            "slow": {"learner": slow},
            "wild": {"learner": {**wild, "eta": 1e6}, "labels": "real"},
            "garbled": {},
        }
        for model, document in made.items():
            httpx.put(f"{running.url}/models/{model}", json=document, timeout=HANG_S).raise_for_status()
        red = rng.random(11_000) < 0.5
        send(running, "turned", red, red ^ (rng.random(11_000) < 0.1))
        send(running, "slow", red, rng.random(11_000) < 0.5)
        send(running, "garbled", red[:100], red[:100])
        before = scrape(running.url)
        turn = np.arange(11_000) // 50 % 2 == 0  # what red means changes too fast to be learnt
        bad = "\n".join(['{"features": {"a": 1}, "label": 7}'] * 100)
        scrapes = []
        for part in (slice(8000), slice(8000, None)):
            send(running, "turned", red[part], red[part] ^ turn[part])
            send(running, "slow", red[part], rng.random(11_000)[part] < 0.1)
            send(running, "wild", red[:200], red[:200])
            httpx.post(f"{running.url}/models/garbled/observe", content=bad, headers=NDJSON, timeout=HANG_S)
            httpx.post(f"{running.url}/models/garbled/snapshots", timeout=HANG_S).raise_for_status()
            scrapes.append(scrape(running.url))
        of_models = {"RiataModelUseless", "RiataModelMiscalibrated", "RiataDrift", "RiataRowsRefused", "RiataEventsSkipped"}
        assert fired(tmp_path, before, (scrapes[0], scrapes[1]), of_models) == ""


def test_a_process_that_is_gone_and_one_with_damage_and_no_room_fire_their_alerts_and_no_other(tmp_path: Path) -> None:
    """The second has probes and metrics on a listener of their own, which needs no key."""
    data, keys, port = tmp_path / "data", tmp_path / "keys.toml", free_port()
    with Running(data) as running:
        running.start()
        httpx.put(f"{running.url}/models/m", json={}, timeout=HANG_S).raise_for_status()
        send(running, "m", np.ones(10), np.ones(10))
        before = scrape(running.url)
        running.stop()
        gone = scrape(running.url)
    assert fired(tmp_path, before, (gone, gone), {"RiataProcessDown", "RiataNothingAnswers", "RiataNoActiveWriter"}) == ""
    flip_payload(data, "m", 2)
    flip_generations(data, "m")
    make_key(keys)
    given = {"RIATA_KEYS_FILE": str(keys), "RIATA_HEALTH_PORT": str(port), "RIATA_DISK_RESERVE_BYTES": str(2**60)}
    with Running(data, given) as spoilt:
        spoilt.start(wait=False)
        while scrape(f"http://127.0.0.1:{port}").get("riata_lease_held") != 1.0:
            time.sleep(0.05)
        failures = "riata_keys_failed_readings_total"
        before[failures] = scrape(f"http://127.0.0.1:{port}")[failures]
        keys.write_text("this is no file of keys")
        while scrape(f"http://127.0.0.1:{port}").get(failures) != 1.0:
            time.sleep(0.05)
        during = scrape(f"http://127.0.0.1:{port}")
    expected = {"RiataNotAccepting", "RiataStoreReserve", "RiataKeysNotRead", "RiataModelDamaged"}
    assert fired(tmp_path, before, (during, during), expected) == ""
