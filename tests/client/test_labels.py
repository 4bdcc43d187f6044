"""Delayed labels through both clients, and through the verbs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from riata.cli.app import app
from riata.client import ApiBusy, ApiRefused, AsyncRiata, Riata, Unreachable
from tests.client.fake_http import OBSERVED, Script, answer, problem
from tests.web.serving import answering_at

RED = {"features": {"colour": "red"}}


def client(script: Script) -> Riata:
    return Riata("http://test/", sleep=script.sleep, transport=httpx.MockTransport(script))


def test_a_prediction_to_be_remembered_and_its_label_go_to_their_routes() -> None:
    script = Script(httpx.Response(200, content=b'{"prediction_id":"p"}\n'), answer(202, OBSERVED), answer(202, OBSERVED))
    riata = client(script)
    assert riata.predict([RED], model="m", remember=True)[0]["prediction_id"] == "p"
    riata.label("p", 1, model="m")
    riata.label("p", 0, weight=2.5, wait_applied=True, key="mine")
    urls = [str(request.url).removeprefix("http://test/models/") for request in script.requests]
    assert urls == ["m/predict?remember=true", "m/observe", "default/observe?wait=applied"]
    assert [json.loads(request.content) for request in script.requests[1:]] == [
        {"prediction_id": "p", "label": 1},
        {"prediction_id": "p", "label": 0, "weight": 2.5},
    ]
    assert script.requests[2].headers["idempotency-key"] == "mine"


def test_a_prediction_to_be_remembered_is_never_sent_again_by_itself() -> None:
    """If the answer was lost, the stored rows have unknown ids, and with a default label they would be learnt."""
    script = Script(answer(200, {}), httpx.ReadTimeout("timed out"), problem(503, "remember_full", "30"))
    riata = client(script)
    riata.version()
    with pytest.raises(Unreachable):
        riata.predict([RED], remember=True)
    with pytest.raises(ApiBusy) as refused:
        riata.predict([RED], remember=True)
    assert (refused.value.code, script.waits) == ("remember_full", [])


def test_a_label_is_sent_again_after_a_lost_answer() -> None:
    script = Script(answer(200, {}), httpx.ReadTimeout("timed out"), problem(503, "lag", "2"), answer(202, OBSERVED))
    riata = client(script)
    riata.version()
    assert riata.label("p", 1).accepted == 1
    assert script.waits == [0.1, 2.0]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with answering_at() as found:
        yield found


def test_a_label_finds_its_prediction(url: str) -> None:
    with Riata(url) as riata:
        riata.create_model("blocking", {})
        [one] = riata.predict([RED], model="blocking", remember=True)
        assert riata.label(one["prediction_id"], 1, model="blocking", wait_applied=True).accepted == 1
        assert riata.label(one["prediction_id"], 1, model="blocking").duplicate == 1
        with pytest.raises(ApiRefused) as refused:
            riata.label(one["prediction_id"], 0, model="blocking")
        assert refused.value.errors[0].code == "label_conflict"


def test_a_label_finds_its_prediction_without_blocking(url: str) -> None:
    async def work() -> tuple[int, int]:
        async with AsyncRiata(url) as riata:
            await riata.create_model("awaiting", {})
            answers = await riata.predict([RED, RED], model="awaiting", remember=True)
            reported = await asyncio.gather(*(riata.label(one["prediction_id"], 1, model="awaiting") for one in answers * 2))
            return sum(one.accepted for one in reported), sum(one.duplicate for one in reported)

    assert asyncio.run(work()) == (2, 2)


def test_the_verbs_predict_now_and_label_later(url: str, tmp_path: Path) -> None:
    with Riata(url) as riata:
        riata.create_model("verbs", {})
    rows = tmp_path / "rows.ndjson"
    rows.write_text("\n".join(json.dumps({**RED, "label": i % 2}) for i in range(30)))
    runner = CliRunner()
    shown = runner.invoke(app, ["predict", str(rows), "--url", url, "--model", "verbs", "--remember"])
    assert shown.exit_code == 0, shown.output
    answers = [json.loads(line) for line in shown.stdout.splitlines()]
    ids = [one["prediction_id"] for one in answers]
    assert len(set(ids)) == 30
    labels = tmp_path / "labels.ndjson"
    labels.write_text("\n".join(json.dumps({"prediction_id": one, "label": i % 2}) for i, one in enumerate([*ids, "x"])))
    sent = runner.invoke(app, ["observe", str(labels), "--url", url, "--model", "verbs"])
    assert "30 accepted, 0 duplicate, 1 rejected" in sent.stdout
    assert "line 31" in sent.stderr
    assert "bad_prediction_id" in sent.stderr
    assert sent.exit_code == 1
    plain = runner.invoke(app, ["predict", str(rows), "--url", url, "--model", "verbs"])
    assert "prediction_id" not in plain.stdout
