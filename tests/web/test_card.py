"""The card of a model: what the other routes say of it, on one page."""

from __future__ import annotations

import itertools
import json

from riata.run.config import read_config
from riata.web.card import chosen_settings
from tests.web.asking import Client

ROWS = "".join(
    json.dumps({"features": {"a|b": i % 5, "`c`": i % 2, "country": "de" if i % 3 else "fr"}, "label": int(i % 3 > 0)}) + "\n"
    for i in range(200)
)
LINES = {"Content-Type": "application/x-ndjson"}


def test_settings_are_those_that_differ_from_the_defaults_of_their_learner() -> None:
    assert chosen_settings(read_config({})) == {}
    document = {"learner": {"kind": "ftrl_proximal", "alpha": 0.7}, "encoder": {"crosses": [["a", "b"]]}, "labels": "-1/+1"}
    chosen = {"learner.kind": "ftrl_proximal", "learner.alpha": 0.7, "encoder.crosses": [["a", "b"]], "labels": "-1/+1"}
    assert chosen_settings(read_config(document)) == chosen


def test_the_card_says_what_the_other_routes_say(client: Client) -> None:
    client.put("/models/m", '{"publish_every_ms":100}')
    client.ask("POST", "/models/m/observe", content=ROWS.encode(), headers=LINES)
    card = client.get("/models/m/card?format=json").json()
    metrics, weights = client.get("/models/m/metrics").json(), client.get("/models/m/weights?top=20").json()
    assert card["settings"] == {"publish_every_ms": 100}
    assert card["config"] == client.get("/models/m").json()["config"]
    assert card["figures"] == {name: metrics[name] for name in ("cumulative", "faded", "window")}
    assert card["warnings"] == metrics["warnings"]
    assert [one["weight"] for one in card["weights"]["largest"]] == [one["weight"] for one in weights["weights"]]
    assert card["changes"] == client.get("/models/m/changes").json()["changes"]
    assert card["model"]["seq"] == metrics["model"]["seq"]


def test_the_card_is_markdown_whose_tables_hold_any_name(client: Client) -> None:
    client.ask("POST", "/observe", content=ROWS.encode(), headers=LINES)
    answer = client.get("/models/default/card")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/markdown; charset=utf-8")
    lines = answer.text.splitlines()
    assert lines[0] == "# Model card: default"
    titles = [line for line in lines if line.startswith("## ")]
    assert [title.removeprefix("## ") for title in titles] == [
        "Settings other than the defaults", "Data", "Figures", "Warnings", "Weights", "Changes",
    ]  # fmt: skip
    for above, line in itertools.pairwise(lines):
        if above.startswith("|") and line.startswith("|"):
            assert above.replace("\\|", "").count("|") == line.replace("\\|", "").count("|"), line
    refused = client.get("/models/default/card?format=html")
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_option")
    assert client.get("/models/none/card").status_code == 404
