"""`riata refit`: the optimum of the log of a service that has stopped, and a model of it that the service takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from riata import Model
from tests.cli.test_verbs import run, succeeds
from tests.run.refit_rows import rows
from tests.running import Running, wait_for

ROWS = 400
SKETCH = {"learner": {"kind": "taylor_sketch", "mode": "exact", "gamma": 2.0, "block": 50, "far_values": "off"}}


def learnt(directory: Path, learner: dict[str, Any]) -> None:
    """Have a service learn the rows, and stop."""
    with Running(directory) as service:
        service.start()
        http = httpx.Client(base_url=service.url, timeout=600)
        assert http.put("/models/m", json=learner).status_code in (200, 201, 202)
        wait_for("the model is served", lambda: http.get("/models/m").status_code == 200)
        body = "".join(json.dumps(row) + "\n" for row in rows(ROWS))
        headers = {"Content-Type": "application/x-ndjson"}
        answer = http.post("/models/m/observe?wait=applied", content=body, headers=headers)
        assert answer.json()["accepted"] == ROWS
        http.close()
        assert service.stop() == 0


def refitted(directory: Path, *arguments: str) -> dict[str, Any]:
    done = succeeds("refit", "m", "--data", str(directory), *arguments, "--json")
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("refit") / "data"
    learnt(directory, SKETCH)
    return directory


def test_the_optimum_is_at_least_as_good_as_the_online_model_and_that_of_the_file(data: Path, tmp_path: Path) -> None:
    found = refitted(data)
    (one,) = found["solutions"]
    assert found["window"] == {
        "from": 1, "to": ROWS + 1, "events": ROWS, "of": ROWS + 1, "skipped": 0, "undone_by_restore": 0,
    }  # fmt: skip
    assert one["gamma"] == 2.0
    assert one["objective_excess"] >= -one["gap"]
    assert one["log_loss"] < found["base_log_loss"]
    assert abs(found["online"]["log_loss"] - one["log_loss"]) < 0.05
    file = tmp_path / "rows.ndjson"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows(ROWS)))
    fitted = run("fit", "--batch", str(file), "--gamma", "2", "--learner", "taylor_sketch", "--set", "mode=exact", "--json")
    assert json.loads(fitted.stdout)["solutions"][0]["objective"] == pytest.approx(one["objective"], rel=1e-6)


def test_the_loss_of_a_model_with_shapes_is_that_of_its_predictions(tmp_path: Path) -> None:
    learnt(tmp_path / "data", {"labels": "0/1"})
    found = refitted(tmp_path / "data", "--threads", "1")
    model = Model({"labels": "0/1"})
    model.learn_many(rows(ROWS))
    assert model._state.learner.weights().shaped_columns == 1
    answers = zip(model.predict_many(rows(ROWS)), rows(ROWS), strict=True)
    wanted = np.mean([-np.log(one["probability"] if row["label"] else 1.0 - one["probability"]) for one, row in answers])
    assert found["online"]["log_loss"] == pytest.approx(wanted, rel=1e-12)
    assert found["solutions"][0]["objective_excess"] is None
    assert "not compared" in run("refit", "m", "--data", str(tmp_path / "data"), "--threads", "1").output


def test_a_second_refit_uses_the_segments_and_finds_the_same(data: Path) -> None:
    first = refitted(data, "--gamma", "1", "--gamma", "8", "--threads", "1")["solutions"]
    again = refitted(data, "--gamma", "1", "--gamma", "8", "--threads", "2")["solutions"]
    assert list((data / "segments" / "m").glob("*.seg"))
    assert [one["gamma"] for one in first] == [8.0, 1.0]
    for a, b in zip(first, again, strict=True):
        assert (a["objective"], a["intercept"]) == (b["objective"], b["intercept"])


def test_the_newest_events_alone(data: Path) -> None:
    found = refitted(data, "--events", "100")
    assert (found["window"]["from"], found["window"]["events"]) == (ROWS + 2 - 100, 100)


def test_a_service_takes_the_model_and_goes_on(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.riata"
    found = refitted(data, "--out", str(out))
    with Running(tmp_path / "other") as service:
        service.start()
        with httpx.Client(base_url=service.url, timeout=600) as http:
            taken = http.post("/models/m/import", content=out.read_bytes(), headers={"Content-Type": "application/octet-stream"})
            assert taken.status_code in (200, 201, 202), taken.text
            wait_for("the model is served", lambda: http.get("/models/m").status_code == 200)
            answer = http.post("/models/m/predict", json={"features": {}}).json()
            assert answer["margin"] == pytest.approx(found["solutions"][0]["intercept"], abs=1e-6)
            more = http.post("/models/m/observe?wait=applied", json={"features": {"x": 1.0}, "label": 1})
            assert more.json()["applied"] is True


def test_text_report(data: Path) -> None:
    done = succeeds("refit", "m", "--data", str(data))
    for said in ("events 1 to 401 of 401", "online", "tolerance", "the solution is"):
        assert said in done.stdout


def test_what_cannot_be_refitted_is_refused(data: Path, tmp_path: Path) -> None:
    for arguments, said in [
        (("nobody", "--data", str(data)), "nobody"),
        (("default", "--data", str(data)), "no example"),
        (("m",), "give either --data"),
        (("m", "--data", str(tmp_path)), "there is no store"),
        (("m", "--data", str(data), "--gamma", "1", "--gamma", "2", "--out", "x"), "one --gamma"),
    ]:
        done = run("refit", *arguments)
        assert done.exit_code in (1, 2), done.output
        assert said in done.output
