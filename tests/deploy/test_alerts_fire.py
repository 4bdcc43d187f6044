"""Alerts fired by running services: conditions are caused, the services scraped, and promtool evaluates the rules on the scrapes.

A scrape is taken as one of every minute. What the first says is held for an hour before the condition, and what the last says for
two hours in it, as `for: 30m` needs more time than a test has; counters go on by what they grew between the last two scrapes.
The set of alerts that fired is exact: what is not caused must be quiet. The last test compares the sets with the rules.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]

from tests.damaging import change, flip_generations, flip_payload
from tests.deploy.monitoring import PROMETHEUS, metrics_of, rules
from tests.deploy.test_prometheus import make_key
from tests.redis_server import RedisServer, redis_version
from tests.running import HANG_S, Running, free_port

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed")
needs_redis = pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
NDJSON = {"Content-Type": "application/x-ndjson"}
BEFORE_MIN, DURING_MIN = 60, 120
GROWING = ("_total", "_count", "_sum", "_bucket")
USED = {name for expression in rules().values() for name in metrics_of(expression)}
Scrape = dict[str, float]

OF_MODELS: Final = {"RiataModelUseless", "RiataModelMiscalibrated", "RiataDrift", "RiataRowsRefused", "RiataEventsSkipped"}
OF_A_STOP: Final = {"RiataProcessDown", "RiataNothingAnswers", "RiataNoActiveWriter"}
OF_A_DISK: Final = {
    "RiataModelDamaged", "RiataLogDamaged", "RiataCorrupt", "RiataCheckpointsFail", "RiataCheckpointsMissing",
    "RiataNotAccepting", "RiataStoreReserve", "RiataKeysNotRead", "RiataTwoActiveWriters",
}  # fmt: skip
OF_A_PAUSE: Final = {"RiataProcessDown", "RiataNoActiveWriter", "RiataLag", "RiataSlowPredictions", "RiataServerErrors"}
OF_A_LOSS: Final = {
    "RiataProcessDown", "RiataNoActiveWriter", "RiataNotAccepting", "RiataRolledBack", "RiataEventsLost", "RiataLogForked",
}  # fmt: skip
OF_STARTS: Final = {"RiataRestarts", "RiataLeaseFlaps", "RiataRecoverySlow"}
OF_SILENCE: Final = {"RiataLeaseNotRenewed", "RiataStale"}


def scrape(url: str, instance: str = "one") -> Scrape:
    """The samples of the metrics in the rules, by series, and `up`."""
    target = f'job="riata", instance="{instance}"'
    try:
        text = httpx.get(f"{url}/metrics", timeout=HANG_S).raise_for_status().text
    except httpx.TransportError:
        return {f"up{{{target}}}": 0.0}
    found = {f"up{{{target}}}": 1.0}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        name, _, labels = series.partition("{")
        if name in USED:
            found[f"{name}{{{target}" + (f", {labels}" if labels else "}")] = float(value)
    return found


def fired(directory: Path, before: Scrape, during: Sequence[Scrape], alerts: set[str]) -> str:
    """Have promtool evaluate the rules: none may fire before the condition, exactly `alerts` in it. Returns what was wrong."""

    def values(series: str) -> str:
        def at(scraped: Scrape, minutes: int, step: float = 0.0) -> str:
            return f"{scraped[series]:f}+{step:f}x{minutes - 1}" if series in scraped else f"_x{minutes}"

        step, last = 0.0, during[-1]
        if len(during) > 1 and series.partition("{")[0].endswith(GROWING) and series in last:
            step = max(0.0, last[series] - during[-2].get(series, 0.0))
        held = [at(before, BEFORE_MIN), *(at(one, 1) for one in during[:-1]), at(last, DURING_MIN, step)]
        return " ".join(held)

    every = before.keys() | {series for one in during for series in one}
    series = [{"series": one, "values": values(one)} for one in sorted(every)]
    expected = {"before": set[str](), "during": alerts}
    during_min = DURING_MIN + len(during) - 1
    asked = [
        {
            "expr": f'group by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{minutes - 1}m]))',
            "eval_time": f"{end - 1}m",
            "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(expected[when])],
        }
        for when, end, minutes in (("before", BEFORE_MIN, BEFORE_MIN), ("during", BEFORE_MIN + during_min, during_min))
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    document = {"rule_files": [str(PROMETHEUS / "rules.yml")], "evaluation_interval": "1m", "tests": [test]}
    path = directory / "scraped.test.yml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=HANG_S, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_S
    while not what():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.05)


def send(running: Running, model: str, colour: Any, label: Any) -> None:
    rows = [{"features": {"red" if c else "blue": 1}, "label": int(y)} for c, y in zip(colour, label, strict=True)]
    for start in range(0, len(rows), 5000):
        body = "\n".join(map(json.dumps, rows[start : start + 5000]))
        answer = httpx.post(f"{running.url}/models/{model}/observe?wait=applied", content=body, headers=NDJSON, timeout=HANG_S)
        assert answer.status_code == 200, answer.text


def make(running: Running, model: str, **document: Any) -> None:
    httpx.put(f"{running.url}/models/{model}", json=document, timeout=HANG_S).raise_for_status()


def test_what_goes_wrong_with_models_fires_its_alerts_and_no_other(tmp_path: Path) -> None:
    running, rng = Running(tmp_path / "data"), np.random.default_rng(0)
    slow = {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "eta": 1e-5, "calibrated": False}
    with running:
        running.start()
        wild = {"kind": "truncated_gradient", "loss": "squared", "rate": "constant", "normalised": False, "step": "gradient"}
        make(running, "turned", drift={"action": "note"})
        make(running, "slow", learner=slow)
        make(running, "wild", learner={**wild, "eta": 1e6}, labels="real")
        make(running, "garbled")
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
        assert fired(tmp_path, before, scrapes, OF_MODELS) == ""


def ready(url: str, instance: str = "one") -> bool:
    """Whether the process is ready. Asked of its metrics, as an answer 503 of a probe counts as a server error."""
    return scrape(url, instance).get(f'riata_ready{{job="riata", instance="{instance}"}}') == 1.0


def test_a_process_that_is_gone_and_one_with_a_failing_disk_fire_their_alerts_and_no_other(tmp_path: Path) -> None:
    """The second has probes and metrics on a listener of their own, which needs no key. A second service is scraped with it."""
    data, keys, port = tmp_path / "data", tmp_path / "keys.toml", free_port()
    with Running(data) as running:
        running.start()
        for model, label in (("m", 1), ("history", 0), ("checkpoint", 1)):
            make(running, model)
            send(running, model, np.ones(10 + len(model)), np.full(10 + len(model), label))
        before = scrape(running.url)
        send(running, "checkpoint", np.ones(2000), np.ones(2000))
        running.stop()
        gone = scrape(running.url)
    assert fired(tmp_path, before, [gone], OF_A_STOP) == ""
    flip_payload(data, "m", 2)
    flip_generations(data, "m")
    flip_payload(data, "history", 2)
    flip_generations(data, "checkpoint")
    writes = "UPDATE chunks SET data = zeroblob(length(data)) WHERE model = new.model AND gen = new.gen AND idx = new.idx"
    change(data, f"CREATE TRIGGER spoil AFTER INSERT ON chunks BEGIN {writes}; END")
    make_key(keys)
    given = {"RIATA_KEYS_FILE": str(keys), "RIATA_HEALTH_PORT": str(port), "RIATA_DISK_RESERVE_BYTES": str(2**60)}
    with Running(data, given, module="tests.chaos.scrubbing") as spoilt, Running(tmp_path / "other") as other:
        spoilt.start(wait=False)
        other.start(wait=False)
        probes, target = f"http://127.0.0.1:{port}", 'job="riata", instance="one"'
        failures = f"riata_keys_failed_readings_total{{{target}}}"
        until(lambda: scrape(probes).get(f"riata_lease_held{{{target}}}") == 1.0)
        before[failures] = scrape(probes)[failures]
        keys.write_text("this is no file of keys")
        until(lambda: scrape(probes)[failures] == 1.0)
        until(lambda: scrape(probes)[f'riata_log_damaged{{{target}, model="history"}}'] == 1.0)
        until(lambda: scrape(probes)[f'riata_checkpoints_total{{{target}, outcome="failed"}}'] > 0)  # when it has learnt its log
        until(lambda: ready(other.url))
        during = scrape(probes) | scrape(other.url, "two")
    assert fired(tmp_path, before, [during], OF_A_DISK) == ""


@needs_redis
def test_a_paused_writer_and_an_older_store_fire_their_alerts_and_no_other(tmp_path: Path) -> None:
    given = {"RIATA_LEASE_TTL_MS": "40000", "RIATA_MIN_SEQ_WAIT_MS": "300"}
    with RedisServer(tmp_path / "redis") as server, ExitStack() as stack:
        writer, web = (stack.enter_context(Running.of_role(tmp_path / r, r, server.url, given)) for r in ("writer", "web"))
        writer.start(wait=False)
        web.start(wait=False)
        until(lambda: ready(writer.url) and ready(web.url))
        make(web, "m")
        send(web, "m", np.ones(10), np.ones(10))
        httpx.get(f"{web.url}/models/m/predict?red=1", timeout=HANG_S).raise_for_status()
        before = scrape(writer.url) | scrape(web.url, "two")
        with server.client() as client:
            older = [(key, client.dump(key)) for key in client.scan_iter()]
        writer.pause()
        down = {'up{job="riata", instance="one"}': 0.0}
        rows = b'{"features": {"red": 1}, "label": 1}\n' * 10_000
        for _ in range(11):
            httpx.post(f"{web.url}/models/m/observe", content=rows, headers=NDJSON, timeout=HANG_S).raise_for_status()
        during = [down | scrape(web.url, "two")]
        waited = httpx.get(f"{web.url}/models/m/predict?red=1&_min_seq=1000", timeout=HANG_S)  # for an event that nobody learns
        assert waited.status_code == 503, waited.text
        during.append(down | scrape(web.url, "two"))
        assert fired(tmp_path, before, during, OF_A_PAUSE) == ""

        with server.client() as client, client.pipeline() as restored:
            restored.flushall()
            for key, value in older:
                restored.restore(key, 0, value)
            restored.execute()
        until(lambda: scrape(web.url)['riata_rollbacks_seen_total{job="riata", instance="one"}'] > 0)
        server.cli("FLUSHALL")
        until(lambda: scrape(web.url)['riata_stores_exchanged_total{job="riata", instance="one"}'] > 0)
        assert fired(tmp_path, before, [down | scrape(web.url, "two")], OF_A_LOSS) == ""


@needs_redis
@pytest.mark.slow
def test_a_writer_that_is_started_again_and_again_fires_its_alerts_and_no_other(tmp_path: Path) -> None:
    """Its lease is so long that another process would take over late."""
    with RedisServer(tmp_path / "redis") as server, ExitStack() as stack:
        first, again = (
            stack.enter_context(Running.of_role(tmp_path / "w", "all", server.url, {"RIATA_LEASE_TTL_MS": ttl_ms}))
            for ttl_ms in ("15000", "70000")
        )
        first.start()
        make(first, "m")
        send(first, "m", np.ones(10), np.ones(10))
        before = scrape(first.url)
        first.stop()
        during = []
        for _ in range(4):
            again.start(wait=False)
            until(lambda: scrape(again.url).get('riata_lease_held{job="riata", instance="one"}') == 1.0)
            during.append(scrape(again.url))
            again.stop()
        assert fired(tmp_path, before, during, OF_STARTS) == ""


@needs_redis
@pytest.mark.slow
def test_a_store_that_does_not_answer_for_a_minute_fires_its_alerts_and_no_other(tmp_path: Path) -> None:
    given = {"RIATA_LEASE_TTL_MS": "50000", "RIATA_STORE_TIMEOUT_MS": "60000"}
    with RedisServer(tmp_path / "redis") as server, ExitStack() as stack:
        one, two = (stack.enter_context(Running.of_role(tmp_path / r, r, server.url, given)) for r in ("all", "replica"))
        one.start()
        make(one, "m")
        send(one, "m", np.ones(10), np.ones(10))
        two.start()
        before = scrape(one.url) | scrape(two.url, "two")
        server.pause()
        stale = 'riata_staleness_seconds{job="riata", instance="two", model="m"}'
        during = []
        for silent_s in (20, 60.5):
            until(lambda least=silent_s: scrape(two.url, "two")[stale] > least)  # type: ignore[misc]
            during.append(scrape(one.url) | scrape(two.url, "two"))
        assert fired(tmp_path, before, during, OF_SILENCE) == ""
        server.resume()


def test_every_alert_is_caused_in_a_running_service() -> None:
    assert rules().keys() == OF_MODELS | OF_A_STOP | OF_A_DISK | OF_A_PAUSE | OF_A_LOSS | OF_STARTS | OF_SILENCE
