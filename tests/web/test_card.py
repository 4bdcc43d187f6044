"""The card of a model: what the other routes say of it, on one page."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from riata.run.state.config import read_config
from riata.web.api.routes.card import chosen_settings, markdown
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


def test_the_card_warns_of_a_model_of_which_most_rows_are_refused(client: Client) -> None:
    client.ask("POST", "/observe", content=ROWS.encode(), headers=LINES)
    bad = "".join(json.dumps({"features": {"a": 1}, "label": 7}) + "\n" for _ in range(400))
    client.ask("POST", "/observe?labels=by_row", content=bad.encode(), headers=LINES)
    card = client.get("/models/default/card?format=json").json()
    assert card["warnings"] == client.get("/models/default").json()["warnings"]
    assert card["warnings"][0]["code"] == "mostly_refused"
    assert "mostly_refused" in client.get("/models/default/card").text


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
    refused = client.get("/models/default/card?format=html")
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_option")
    assert client.get("/models/none/card").status_code == 404


class _Read(HTMLParser):
    """The cells of all tables, and every tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


HOSTILE = [
    "a|b", "`c`", "``", "`", "a`b", "<script>alert(1)</script>", "![x](http://evil/x.png)", "[a](javascript:alert(1))",
    "<http://evil>", "**bold**", "_x_", "a\\|b", "\\", "a\nb | c", "\n\n# heading", "\u2028x", "\u202egpj", "&lt;b&gt;",
    "~~x~~", " x ",
    "http://evil.example", "| --- |", "\r\n- x", "x\0y", "<!-- x", "a@b.example",
]  # fmt: skip
TAGS = {"h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "ul", "li"}


def shown(name: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in name)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_as_they_are_by_a_reader_of_markdown(name: str, client: Client) -> None:
    card = client.get("/models/default/card?format=json").json()
    card["settings"] = {name: name, "labels": [name]}
    card["weights"]["largest"] = [{"feature": name, "slot": 1, "weight": 1.0, "std_error": None}]
    card["cost"] = {name: 1.0}
    card["warnings"] = [{"code": "no_labels", "detail": f"the class {name} is rare"}]
    card["changes"] = [{"seq": 7, "time": None, "kind": "config", "settings": {name: [name, name]}, "actor": name}]
    card["model"]["name"] = name
    page = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown(card))
    read = _Read(page)
    assert read.tags <= TAGS
    cells = [[" ".join(cell.split()) for cell in row] for row in read.rows]
    what = " ".join(shown(name).split())
    assert [what, "+1", ""] in cells
    assert [what, "1"] in cells
    assert [what, " ".join(shown(json.dumps(name, ensure_ascii=False)).split())] in cells
    assert ["7", "unknown", f"config: {what} {what} → {what}", what] in cells
