"""Routes for watching: who asks, how the service is, what changed a model, which rows were refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import Unavailable
from riata.run.writer.published import known
from riata.watch.figures import Figures
from riata.watch.progressive import Progressive, ProgressiveConfig
from riata.watch.warnings import warnings_of
from riata.web.api.refused_rows import KEPT, OF_ONE_REQUEST, RefusedRows
from riata.web.api.routes.watching import attention_of
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import KeyEntry, digest_of, new_token, ring_of
from riata.wire.parsed import RowError
from tests.watch.streams import observed
from tests.watch.test_drift import stream, watched
from tests.web.asking import Client, asking
from tests.web.serving import Whole

GOOD = '{"features":{"a":1},"label":1}'
BAD_LABEL = '{"features":{"a":1},"label":7}'
BAD_VALUE = '{"features":{"a":1e999},"label":1}'
NDJSON = "application/x-ndjson"


def test_refused_rows_are_counted_by_code_and_the_last_are_kept(client: Client) -> None:
    client.post("/observe", "\n".join((GOOD, BAD_LABEL, BAD_VALUE, BAD_LABEL)), NDJSON)
    assert client.post("/observe", BAD_LABEL).status_code == 422
    answer = client.get("/models/default/refused").json()
    assert answer["counts"] == {"bad_label": 3, "out_of_range": 1}
    assert [row["index"] for row in answer["last"]] == [0, 3, 2, 1]
    assert answer["last"][0]["detail"].startswith("label:")
    assert len(client.get("/models/default/refused?limit=2").json()["last"]) == 2
    assert client.get("/models/default/refused?limit=0").json()["code"] == "bad_option"
    assert client.get("/models/nobody/refused").json()["code"] == "model_not_found"
    assert 'riata_rows_refused_total{code="bad_label",model="default"} 3.0' in client.get("/metrics").text


def test_slices_have_their_route_and_their_metrics(client: Client) -> None:
    empty = client.get("/models/default/slices").json()
    assert (empty["fields"], empty["slices"]) == ([], [])
    client.put("/models/m", '{"slices":["country"]}')
    for _ in range(2):  # the first brings the value, which is followed from then on
        client.post("/models/m/observe?wait=applied", '{"features":{"country":"de"},"label":1}')
    found = client.get("/models/m/slices").json()
    assert (found["fields"], [one["value"] for one in found["slices"]]) == (["country"], ["de"])
    assert found["slices"][0]["faded"]["base_rate"] == 1.0
    text = client.get("/metrics").text
    assert 'riata_slice_examples_total{field="country",model="m",value="de"} 1.0' in text
    assert 'riata_slice_faded_label_rate{field="country",model="m",value="de"} 1.0' in text
    assert "slices" not in client.get("/models/m/metrics").json()


def test_followed_weights_have_their_route(client: Client) -> None:
    empty = client.get("/models/default/weights/history").json()
    assert empty == {"followed": [], "points_max": 256, "examples": [], "weights": {}}
    client.put("/models/m", '{"weights_followed":["age","b","unseen"]}')
    rows = [{"features": {"age": n % 3, "b": n % 2}, "label": n % 2} for n in range(30)]
    for _ in range(2):  # the first brings the names, which are followed from then on
        client.post("/models/m/observe?wait=applied", json.dumps(rows))
    every = client.get("/models/m/weights/history")
    weights = every.json()["weights"]
    assert (set(weights), len(weights["b"])) == ({"age", "b"}, len(every.json()["examples"]))
    assert client.get("/models/m/weights/history", headers={"If-None-Match": every.headers["etag"]}).status_code == 304
    assert client.get("/models/m/weights/history?names=b,unseen").json()["weights"] == {"b": weights["b"]}
    refused = client.get("/models/m/weights/history?names=bb").json()
    assert (refused["code"], "did you mean 'b'?" in refused["detail"]) == ("bad_option", True)


def test_one_bad_request_does_not_displace_all_other_reasons() -> None:
    rows = RefusedRows()
    rows.note("m", [RowError(7, "first", "x" * 10_000)], 1)
    rows.note("m", [RowError(i, "flood", "") for i in range(10 * KEPT)], 2)
    assert rows.counts("m") == {"flood": 10 * KEPT, "first": 1}
    assert [row["code"] for row in rows.last("m", KEPT)] == ["flood"] * OF_ONE_REQUEST + ["first"]
    assert len(rows.last("m", KEPT)[-1]["detail"]) == 300
    assert rows.counts("other") == {}
    assert rows.last("other", 5) == []


def attention(client: Client) -> list[dict[str, Any]]:
    """What the status draws attention to, besides that the store is in memory."""
    found = client.get("/status").json()["attention"]
    return [one for one in found if not one["sentence"].startswith("the store is in memory")]


def test_status_says_what_needs_attention_and_what_to_do(client: Client, service: Whole) -> None:
    while not service.service.health().warnings:
        pass
    quiet = client.get("/status")
    told = quiet.json()
    assert (told["ready"], attention(client), [one["name"] for one in told["models"]]) == (True, [], ["default"])
    assert told["process"]["role"] == "all"
    again, deadline = quiet, time.monotonic() + 60.0
    while again.status_code != 304 and time.monotonic() < deadline:  # a start still changes it a few times, in other threads
        again = client.get("/status", headers={"If-None-Match": again.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    service.refuse(Unavailable("the disk is full", "disk_reserve"))
    service.engine.stopping = True
    assert client.get("/status", headers={"If-None-Match": quiet.headers["etag"]}).status_code == 200
    found = attention(client)
    assert [(one["code"], one["severity"]) for one in found if one["code"] != "warning"] == [
        ("stopping", "page"),
        ("not_ready", "page"),
    ]
    assert all(one["action"] for one in found)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(("wrong", "codes"), [(False, []), (True, ["worse_than_base_rate", "over_confident"])])
def test_a_model_is_judged_by_what_it_did_lately(service: Whole, wrong: bool, codes: list[str]) -> None:
    """Fifty thousand good events before a break do not hide it."""
    figures = observed(Progressive(ProgressiveConfig(window=5000)), good=50_000, bad=5000 if wrong else 0).figures()
    assert figures["cumulative"]["loss"] < figures["cumulative"]["base_loss"]
    figures["warnings"] = warnings_of(figures, [], {})
    published = replace(service.service.published("default"), shown=known(figures, []))
    told = attention_of(service.service.health(), {"default": (published, published.warnings(service.service.names("default")))})
    assert [one.code for one in told if one.model] == codes
    assert all(one.action for one in told)


def test_a_model_that_refuses_more_than_it_accepts_needs_attention(client: Client) -> None:
    assert client.post("/observe?wait=applied", "\n".join([GOOD] * 9), NDJSON).status_code == 200
    client.post("/observe", "\n".join([BAD_VALUE] * 9), NDJSON)
    assert attention(client) == []
    client.post("/observe", "\n".join([BAD_LABEL] * 2), NDJSON)
    (told,) = attention(client)
    assert (told["code"], told["model"], told["severity"]) == ("mostly_refused", "default", "ticket")
    assert told["sentence"].startswith("11 rows were refused and 9 accepted lately")
    assert told["action"]
    for path in ("/models/default", "/models/default/metrics"):
        assert [one["code"] for one in client.get(path).json()["warnings"]] == ["mostly_refused"]
    assert 'riata_model_warning{code="mostly_refused",model="default"} 1.0' in client.get("/metrics").text
    client.post("/observe?wait=applied", "\n".join([GOOD, '{"features":{"b":1},"label":0}'] * 550), NDJSON)
    assert attention(client) == []
    assert 'riata_model_warning{code="mostly_refused",model="default"} 0.0' in client.get("/metrics").text


NO_QUOTAS = dict.fromkeys(("models_max", "events_a_day", "bytes_a_day", "events_today", "bytes_today"))


def test_whoami_and_keys_name_no_secret_and_no_other_key_of_a_limited_one(service: Whole) -> None:
    watch, limited = new_token("watcher"), new_token("limited")
    entries = (
        KeyEntry("watcher", digest_of(watch), ["watch"], "*"),
        KeyEntry("limited", digest_of(limited), ["watch", "predict"], ["default"]),
    )
    gate = Gate(service.clock, KeysFile(Path("/nowhere"), ring_of(entries)), Buckets(0.0, 0.0))
    with asking(service.app(gate)) as client:
        header = {"Authorization": f"Bearer {limited}"}
        mine = {"key": "limited", "scopes": ["predict", "watch"], "models": ["default"], "expires": None, "quotas": NO_QUOTAS}
        assert client.get("/whoami", headers=header).json() == mine
        assert client.get("/keys", headers=header).json() == {"required": True, "keys": [mine]}
        every = client.get("/keys", headers={"Authorization": f"Bearer {watch}"})
        assert [key["key"] for key in every.json()["keys"]] == ["watcher", "limited"]
        assert digest_of(watch) not in every.text
        assert client.get("/whoami").status_code == 401


def test_without_keys_everything_is_permitted(client: Client) -> None:
    assert client.get("/whoami").json()["key"] is None
    assert client.get("/keys").json() == {"required": False, "keys": []}


def test_changes_are_told(client: Client) -> None:
    assert [change["kind"] for change in client.get("/models/default/changes").json()["changes"]] == ["created"]
    assert client.get("/models/nobody/changes").status_code == 404


def test_points_of_the_curve_have_times_if_asked_for(client: Client) -> None:
    timed = '{"features":{"a":1},"label":1,"ts":"2026-01-02T03:04:05Z"}'
    client.post("/observe?wait=applied", "\n".join([timed] * 10), NDJSON)
    client.post("/observe?wait=applied", "\n".join([GOOD] * 10), NDJSON)
    plain = client.get("/models/default/metrics?since=0").json()["history"]
    dated = client.get("/models/default/metrics?since=0&times=true").json()["history"]
    assert [point.pop("time") is not None for point in dated] == [True, True]
    assert [point.pop("ts") for point in dated] == ["2026-01-02T03:04:05.000Z", None]
    assert dated == plain
    assert "history" not in client.get("/models/default/metrics?times=true").json()
    assert client.get("/models/default/metrics?times=1").json()["code"] == "bad_option"


Show = Callable[[Figures], None]


@pytest.fixture
def show(service: Whole, client: Client, monkeypatch: pytest.MonkeyPatch) -> Show:  # noqa: ARG001  a running service
    """The default model is served with these figures beside its own; None takes one away."""
    served = service.engine.served_model("default")
    assert served.published is not None
    published = served.published

    def shown(changed: Figures) -> None:
        figures = {name: value for name, value in {**published.figures, **changed}.items() if value is not None}
        monkeypatch.setattr(served, "published", replace(published, shown=known(figures, [])))

    return shown


def test_an_alarm_of_the_drift_detector_is_shown_in_words_and_counted(client: Client, show: Show) -> None:
    detector = watched(*stream("loss"), 1000)
    assert "drift" not in client.get("/models/default/metrics").json()
    show({"drift": {"action": "forget", **detector.figures()}})
    assert client.get("/models/default/metrics").json()["drift"]["alarms"][0]["signal"] == "loss"
    text = client.get("/metrics").text
    assert 'riata_drift_alarms_total{model="default",signal="loss"} 1.0' in text
    assert 'riata_drift_statistic{model="default",signal="label_rate"}' in text
    detector.rest = 10**6
    show({"drift": {"action": "forget", **detector.figures()}})
    (told,) = attention(client)
    assert (told["code"], told["severity"]) == ("drift", "ticket")
    assert told["sentence"].startswith("The stream has changed: the loss rose from ")
    detector.rest = 0
    show({"drift": {"action": "forget", **detector.figures()}})
    assert attention(client) == []


def test_the_last_events_and_the_last_minute_are_in_the_metrics(client: Client) -> None:
    rows = [{"features": {}, "label": n % 2} for n in range(1500)]
    client.post("/observe?wait=applied", json.dumps(rows))
    client.post("/observe", BAD_LABEL)
    client.post("/observe?wait=applied", f"{GOOD}\n{BAD_LABEL}", NDJSON)
    told = client.get("/models/default/metrics").json()
    recent, last = told["recent"], told["minute"]
    assert (recent["examples"], recent["refused"]) == (1000, 2)
    assert (last["examples"], last["refused"]) == (1501, 2)
    text = client.get("/metrics").text
    assert f'riata_recent_loss{{model="default"}} {recent["loss"]}' in text
    assert 'riata_recent_refused_rows{model="default"} 2.0' in text
    assert 'riata_minute_events{model="default"} 1501.0' in text
    assert f'riata_minute_auc{{model="default"}} {last["auc"]}' in text


def test_models_of_an_older_version_have_no_such_figures(client: Client, show: Show) -> None:
    show({"recent": None, "minute": None})
    assert not {"recent", "minute"} & set(client.get("/models/default/metrics").json())
    assert 'riata_recent_loss{model="default"}' not in client.get("/metrics").text


def test_figures_that_a_newer_version_has_are_left_out(client: Client, show: Show) -> None:
    show({"of_tomorrow": {"loss": 1.0}})
    answer = client.get("/models/default/metrics")
    assert (answer.status_code, "of_tomorrow" in answer.json()) == (200, False)


def test_refused_rows_are_counted_by_the_last_accepted_ones_and_by_the_last_minute() -> None:
    rows, error = RefusedRows(), RowError(0, "bad_label", "")
    rows.note("m", [error] * 3, 1_000_000, accepted=0)
    rows.note("m", [error], 1_050_000, accepted=900)
    assert rows.recent("m", 1_050_000, 900) == (4, 4)
    assert rows.recent("m", 1_070_000, 900) == (4, 1)
    assert rows.recent("m", 1_070_000, 1_100) == (1, 1)
    assert rows.recent("m", 2_000_000, 900) == (4, 0)
    assert rows.recent("other", 0, 0) == (0, 0)
    for at in range(100_000):
        rows.note("m", [error], 2_000_000 + 10 * at, accepted=10_000 + at)
    of_events, of_minute = rows.recent("m", 2_999_990, 109_999)
    assert 1000 <= of_events <= 1032
    assert 6000 <= of_minute <= 6501
