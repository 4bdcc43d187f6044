"""Routes for watching: who asks, how the service is, what changed a model, which rows were refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi import FastAPI

from riata.learn.learner import Stepped
from riata.run.health import Sharing
from riata.run.writer.published import known
from riata.watch.observer import Rows
from riata.watch.progressive import Minute, Progressive, ProgressiveConfig
from riata.watch.slices import Slices
from riata.watch.warnings import warnings_of
from riata.watch.weight_history import WeightHistory
from riata.web.api.refused_rows import KEPT, OF_ONE_REQUEST, RefusedRows
from riata.web.api.routes.watching import attention_of
from riata.web.app import create_app
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import KeyEntry, digest_of, new_token, ring_of
from riata.wire.batch import Batch
from riata.wire.parsed import RowError
from tests.settings import web_settings
from tests.watch.streams import observed
from tests.watch.test_drift import stream, watched
from tests.web.asking import Client, asking
from tests.web.fake_service import FakeService

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


def test_slices_have_their_route_and_their_metrics(client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = client.get("/models/default/slices").json()
    assert (empty["fields"], empty["slices"]) == ([], [])
    slices = Slices("logistic", ["country"])
    slices.follow({"country=de": 7})
    no, one = np.zeros(1, np.bool_), np.ones(1)
    batch = Batch(np.array([0, 1], np.int64), np.array([7], np.uint32), one, one, one, np.zeros((1, 16), np.uint8), no)
    slices.observe(Rows([batch], 1), Stepped(one, no, one, one, 0))
    published = service.published("default")
    config = replace(published.config, slices=("country",))
    sliced = replace(published, config=config, shown=known({**published.figures, "slices": slices.figures()}, []))
    monkeypatch.setattr(service, "published", lambda _model: sliced)
    found = client.get("/models/default/slices").json()
    assert (found["fields"], [one["value"] for one in found["slices"]]) == (["country"], ["de"])
    assert found["slices"][0]["faded"]["base_rate"] == 1.0
    text = client.get("/metrics").text
    assert 'riata_slice_examples_total{field="country",model="default",value="de"} 1.0' in text
    assert 'riata_slice_faded_label_rate{field="country",model="default",value="de"} 1.0' in text
    assert "slices" not in client.get("/models/default/metrics").json()


def test_followed_weights_have_their_route(client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = client.get("/models/default/weights/history").json()
    assert empty == {"followed": [], "points_max": 256, "examples": [], "weights": {}}
    published, names = service.published("default"), ("age", "b", "unseen")
    history = WeightHistory().following({"age": 7, "b": 8}, names).with_point(10, [0.5, -1.0])
    config = replace(published.config, weights_followed=names)
    monkeypatch.setattr(service, "published", lambda _model: replace(published, config=config, followed=history))
    every = client.get("/models/default/weights/history")
    assert every.json()["weights"] == {"age": [0.5], "b": [-1.0]}
    assert client.get("/models/default/weights/history", headers={"If-None-Match": every.headers["etag"]}).status_code == 304
    assert client.get("/models/default/weights/history?names=b,unseen").json()["weights"] == {"b": [-1.0]}
    refused = client.get("/models/default/weights/history?names=bb").json()
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


def test_status_says_what_needs_attention_and_what_to_do(client: Client, service: FakeService) -> None:
    quiet = client.get("/status").json()
    assert (quiet["ready"], quiet["attention"], [one["name"] for one in quiet["models"]]) == (True, [], ["default"])
    assert quiet["process"]["role"] == "all"
    service.sharing = Sharing(accepting=("disk_reserve", "the disk is full"))
    service.is_ready = False
    told = client.get("/status").json()["attention"]
    assert [one["code"] for one in told] == ["disk_reserve", "not_ready"]
    assert all(one["action"] and one["severity"] == "page" for one in told)


def test_a_status_that_is_known_already_is_not_sent_again(client: Client, service: FakeService) -> None:
    first = client.get("/status")
    again = client.get("/status", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    service.is_ready = False
    assert client.get("/status", headers={"If-None-Match": first.headers["etag"]}).status_code == 200


@pytest.mark.parametrize(("wrong", "codes"), [(False, []), (True, ["worse_than_base_rate", "over_confident"])])
def test_a_model_is_judged_by_what_it_did_lately(service: FakeService, wrong: bool, codes: list[str]) -> None:
    """Fifty thousand good events before a break do not hide it."""
    figures = observed(Progressive(ProgressiveConfig(window=5000)), good=50_000, bad=5000 if wrong else 0).figures()
    assert figures["cumulative"]["loss"] < figures["cumulative"]["base_loss"]
    figures["warnings"] = warnings_of(figures, [], {})
    published = service.published("default")
    object.__setattr__(published, "shown", known(figures, []))
    told = attention_of(service.health(), {"default": (published, published.warnings(service.names("default")))})
    assert [one.code for one in told] == codes
    assert all(one.action for one in told)


def test_a_model_that_refuses_more_than_it_accepts_needs_attention(client: Client) -> None:
    assert client.post("/observe", "\n".join([GOOD] * 9), NDJSON).status_code == 202
    client.post("/observe", "\n".join([BAD_VALUE] * 9), NDJSON)
    assert client.get("/status").json()["attention"] == []
    client.post("/observe", "\n".join([BAD_LABEL] * 2), NDJSON)
    (told,) = client.get("/status").json()["attention"]
    assert (told["code"], told["model"], told["severity"]) == ("mostly_refused", "default", "ticket")
    assert told["sentence"].startswith("11 rows were refused and 9 accepted lately")
    assert told["action"]
    for path in ("/models/default", "/models/default/metrics"):
        assert [one["code"] for one in client.get(path).json()["warnings"]] == ["mostly_refused"]
    assert 'riata_model_warning{code="mostly_refused",model="default"} 1.0' in client.get("/metrics").text
    client.post("/observe", "\n".join([GOOD] * 1100), NDJSON)
    assert client.get("/status").json()["attention"] == []
    assert 'riata_model_warning{code="mostly_refused",model="default"} 0.0' in client.get("/metrics").text


NO_QUOTAS = dict.fromkeys(("models_max", "events_a_day", "bytes_a_day", "events_today", "bytes_today"))


def keyed(service: FakeService, *entries: KeyEntry) -> FastAPI:
    file = KeysFile(Path("/nowhere"))
    file.ring = ring_of(entries)
    return create_app(service, service, web_settings(), service.clock, gate=Gate(service.clock, file, Buckets(0.0, 0.0)))


def test_whoami_and_keys_name_no_secret_and_no_other_key_of_a_limited_one(service: FakeService) -> None:
    watch, limited = new_token("watcher"), new_token("limited")
    entries = (
        KeyEntry("watcher", digest_of(watch), ["watch"], "*"),
        KeyEntry("limited", digest_of(limited), ["watch", "predict"], ["default"]),
    )
    with asking(keyed(service, *entries)) as client:
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
    client.post("/observe", "\n".join([GOOD] * 3), NDJSON)
    plain = client.get("/models/default/metrics?since=0").json()["history"]
    dated = client.get("/models/default/metrics?since=0&times=true").json()["history"]
    assert [point.pop("time") for point in dated] == [None, *(f"1970-01-01T00:00:0{n}.000Z" for n in (2, 3, 4))]
    assert [point.pop("ts") for point in dated] == [None, *(f"1970-01-01T00:00:0{n}Z" for n in ("1.000", "1.500", "2.000"))]
    assert dated == plain
    assert "history" not in client.get("/models/default/metrics?times=true").json()
    assert client.get("/models/default/metrics?times=1").json()["code"] == "bad_option"


def test_an_alarm_of_the_drift_detector_is_shown_in_words_and_counted(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = watched(*stream("loss"), 1000)
    published = service.published("default")
    quiet = client.get("/models/default/metrics").json()
    assert "drift" not in quiet
    figures = {**published.figures, "drift": {"action": "forget", **detector.figures()}}
    monkeypatch.setattr(service, "published", lambda _model: replace(published, shown=known(figures, [])))
    assert client.get("/models/default/metrics").json()["drift"]["alarms"][0]["signal"] == "loss"
    text = client.get("/metrics").text
    assert 'riata_drift_alarms_total{model="default",signal="loss"} 1.0' in text
    assert 'riata_drift_statistic{model="default",signal="label_rate"}' in text
    detector.rest = 10**6
    figures["drift"] = {"action": "forget", **detector.figures()}
    (told,) = client.get("/status").json()["attention"]
    assert (told["code"], told["severity"]) == ("drift", "ticket")
    assert told["sentence"].startswith("The stream has changed: the loss rose from ")
    detector.rest = 0
    figures["drift"] = {"action": "forget", **detector.figures()}
    assert client.get("/status").json()["attention"] == []


def test_the_last_events_and_the_last_minute_are_in_the_metrics(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    progressive, minute = Progressive(ProgressiveConfig()), Minute()
    minute.note(progressive, 0)
    n = 1500
    progressive.add(np.zeros(n), np.arange(n, dtype=np.float64) % 2.0, np.ones(n), np.zeros(n, np.bool_), 1)
    figures = {**progressive.figures(), "minute": minute.note(progressive, 10_000).figures(progressive)}
    published = service.published("default")
    monkeypatch.setattr(
        service, "published", lambda _model: replace(published, shown=known(figures, []), published_ms=service.clock.unix_ms())
    )
    client.post("/observe", '{"label": 7, "features": {"a": 1}}')
    lines = '{"label": 1, "features": {"a": 1}}\n{"label": 7, "features": {"a": 1}}'
    client.post("/observe", lines, "application/x-ndjson")
    told = client.get("/models/default/metrics").json()
    recent, last = told["recent"], told["minute"]
    assert (recent["examples"], recent["refused"], recent["loss"]) == (1000, 2, pytest.approx(math.log(2.0)))
    assert (last["examples"], last["refused"], last["auc"], last["seconds"]) == (1500, 2, 0.5, 10.0)
    text = client.get("/metrics").text
    assert 'riata_recent_loss{model="default"} 0.693' in text
    assert 'riata_recent_refused_rows{model="default"} 2.0' in text
    assert 'riata_minute_events{model="default"} 1500.0' in text
    assert 'riata_minute_auc{model="default"} 0.5' in text


def test_models_of_an_older_version_have_no_such_figures(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = service.published("default")
    old = {name: value for name, value in published.figures.items() if name != "recent"}
    monkeypatch.setattr(service, "published", lambda _model: replace(published, shown=known(old, [])))
    assert not {"recent", "minute"} & set(client.get("/models/default/metrics").json())
    assert 'riata_recent_loss{model="default"}' not in client.get("/metrics").text


def test_figures_that_a_newer_version_has_are_left_out(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = service.published("default")
    new = {**published.figures, "of_tomorrow": {"loss": 1.0}}
    monkeypatch.setattr(service, "published", lambda _model: replace(published, shown=known(new, [])))
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
