"""A model whose numeric columns have shapes: they are in everything that a service hands out."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from riata import Model
from riata.run.candidates.exports import read_export, write_export
from riata.scorer import model_of
from riata.scorer.riata_scorer import Scorer
from tests.cli.test_verbs import run, succeeds
from tests.running import Running, wait_for

CONFIG = {"labels": "0/1"}


def rows_of(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows of three columns, of which one has a shape and two belong together."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        x = {name: round(chance.gauss(0.0, 1.0), 2) for name in ("age", "price", "visits") if chance.random() < 0.95}
        high = abs(x.get("age", 0.0)) > 0.7 or x.get("price", 0.0) * x.get("visits", 0.0) > 0.5
        rows.append({"features": x, "label": int(chance.random() < (0.9 if high else 0.1))})
    return rows


LEARNT, ASKED = rows_of(1200, 1), [{"features": row["features"]} for row in rows_of(40, 2)]


def send(url: str, path: str, rows: list[dict[str, Any]]) -> Any:
    body = "\n".join(map(json.dumps, rows))
    answer = httpx.post(f"{url}{path}", content=body, headers={"Content-Type": "application/x-ndjson"}, timeout=60)
    assert answer.is_success, answer.text
    return answer.json()


def margins_of(url: str, model: str) -> list[float]:
    return [one["margin"] for one in send(url, f"/models/{model}/predict", ASKED)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Running(tmp_path_factory.mktemp("shapes") / "data") as running:
        running.start()
        httpx.put(f"{running.url}/models/m", json=CONFIG).raise_for_status()
        send(running.url, "/models/m/observe?wait=applied", LEARNT)
        yield running.url


def test_the_readable_export_has_the_shapes_and_a_scorer_of_it_the_margins(url: str) -> None:
    export = httpx.get(f"{url}/models/m/export?format=json").json()
    shapes = export["shapes"]
    assert sorted(name for column in shapes["columns"] for name in column["names"]) == ["age", "price", "visits"]
    assert len(shapes["pairs"]) == 1
    scorer = Scorer(model_of(export))
    assert [scorer.margin(row["features"]) for row in ASKED] == margins_of(url, "m")


def test_a_file_and_an_import_go_on_with_the_same_bits(url: str, tmp_path: Path) -> None:
    wanted = margins_of(url, "m")
    (tmp_path / "m.riata").write_bytes(httpx.get(f"{url}/models/m/export").content)
    httpx.post(f"{url}/models/copy/import", content=(tmp_path / "m.riata").read_bytes()).raise_for_status()
    alone, own = Model.from_file(tmp_path / "m.riata"), Model(CONFIG)
    own.learn_many(LEARNT)
    assert own.digest == alone.digest
    assert margins_of(url, "copy") == [one["margin"] for one in alone.predict_many(ASKED)] == wanted
    send(url, "/models/copy/observe?wait=applied", LEARNT[:50])
    alone.learn_many(LEARNT[:50])
    assert margins_of(url, "copy") == [one["margin"] for one in alone.predict_many(ASKED)] != wanted


def test_an_export_has_the_names_of_columns_without_a_weight() -> None:
    model = Model(CONFIG)
    model.learn_many(LEARNT)
    weights = model._state.learner.weights()
    none = replace(weights, slot=weights.slot[:0], beta=weights.beta[:0])
    frozen = model._state.freeze()
    _, names = read_export(write_export(frozen.header, frozen.arrays, model._names.everything(), none))
    assert sorted(name.decode() for _, name in names) == ["age", "price", "visits"]


def test_weights_card_and_commands_say_that_columns_have_shapes(url: str, tmp_path: Path) -> None:
    assert httpx.get(f"{url}/models/m/weights").json()["shaped_columns"] == 3
    assert httpx.get(f"{url}/models/m/card?format=json").json()["weights"]["shaped_columns"] == 3
    assert "3 columns have shapes too" in httpx.get(f"{url}/models/m/card").text
    assert "3 columns also have shapes" in " ".join(run("weights", "m", "--url", url).output.split())
    lines, out = tmp_path / "rows.ndjson", tmp_path / "m.riata"
    lines.write_text("\n".join(map(json.dumps, LEARNT)))
    assert "3 columns with shapes" in run("fit", "--online", str(lines), "--out", str(out)).output
    assert "3 columns with shapes" in run("inspect", str(out)).output
    named = run("fit", "--online", str(lines), "--set", 'shapes={"columns": ["age", "visits"], "pairs": [["age", "visits"]]}')
    assert "2 columns with shapes" in named.output
    lines.write_text("\n".join(map(json.dumps, ASKED)))
    predicted = run("predict", str(lines), "--model-file", str(out)).stdout.splitlines()
    assert [json.loads(one)["margin"] for one in predicted] == margins_of(url, "m")
    httpx.put(f"{url}/models/linear", json={"learner": {"shapes": "off"}}).raise_for_status()
    send(url, "/models/linear/observe?wait=applied", LEARNT)
    assert httpx.get(f"{url}/models/linear/weights").json()["shaped_columns"] == 0
    assert "have shapes too" not in httpx.get(f"{url}/models/linear/card").text


def test_a_refit_compares_the_optimum_with_what_the_model_predicts(url: str) -> None:
    answer = httpx.post(f"{url}/models/m/refits", json={"hold_out": {"share": 0.3}}, timeout=60)
    assert answer.status_code == 202, answer.text
    at = f"{url}{answer.headers['location']}"
    wait_for("the refit ends", lambda: httpx.get(at).json()["state"] not in ("queued", "running"))
    regret = httpx.get(f"{url}/models/m/regret").json()
    predicted = send(url, "/models/m/predict", [{"features": row["features"]} for row in LEARNT])
    p = np.array([one["probability"] for one in predicted])
    wanted = -np.log(np.where([row["label"] for row in LEARNT], p, 1.0 - p)).mean()
    assert regret["log_loss"]["online"] == pytest.approx(wanted, rel=1e-12)
    assert regret["objective_excess"] is None
    verdict = httpx.get(f"{url}/models/m/refits/{regret['refit']}").json()["verdict"]
    measured = httpx.get(f"{url}/metrics").text.split('riata_regret_log_loss{model="m"} ')[1].split()[0]
    frozen = verdict["online"]["frozen_loss"] - verdict["candidate"]["frozen_loss"]
    assert float(measured) == pytest.approx(frozen, rel=1e-9)


def test_kill_restore_backfill_and_backup_change_no_bit(tmp_path: Path) -> None:
    first, rest = LEARNT[:700], LEARNT[700:]
    alone = Model(CONFIG)
    alone.learn_many(first)
    early = [one["margin"] for one in alone.predict_many(ASKED)]
    alone.learn_many(rest)
    wanted = [one["margin"] for one in alone.predict_many(ASKED)]
    with Running(tmp_path / "data") as running:
        running.start()
        httpx.put(f"{running.url}/models/m", json=CONFIG).raise_for_status()
        send(running.url, "/models/m/observe?wait=applied", first)
        saved = httpx.post(f"{running.url}/models/m/snapshots", timeout=60).json()["generation"]
        send(running.url, "/models/m/observe", rest)
        running.kill()
        running.start()
        assert margins_of(running.url, "m") == wanted
        httpx.post(f"{running.url}/models/m/restore", json={"generation": saved}, timeout=60).raise_for_status()
        assert margins_of(running.url, "m") == early
        send(running.url, "/models/m/observe?wait=applied", rest)
        assert margins_of(running.url, "m") == wanted
        httpx.put(f"{running.url}/models/c", json={**CONFIG, "follow": "m", "backfill": True}, timeout=60).raise_for_status()
        wait_for("the challenger has learnt the log", lambda: httpx.get(f"{running.url}/models/c").status_code == 200)
        assert margins_of(running.url, "c") == wanted
        succeeds("backup", str(tmp_path / "copy"), "--url", running.url)
    succeeds("replay", "--data", str(tmp_path / "copy"), "--verify")
    with Running(tmp_path / "copy") as again:
        again.start()
        assert margins_of(again.url, "m") == wanted
