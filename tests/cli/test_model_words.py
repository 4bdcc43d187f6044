"""One shape of arguments for all commands that take a model, over every command of the application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from riata.base.errors import BadInput
from riata.cli.app import app
from riata.cli.predict import writer_to
from riata.cli.verbs import MEANT, NAMES, OPTION, ModelCommand
from riata.client import Riata
from tests.cli.fake_service import service
from tests.cli.test_verbs import run, succeeds

__all__ = ["service"]
OF_SEVERAL = {"keys new"}  # `--model` may be repeated there: the models of a key
NEEDS = {"feed": ["--stream", "x"], "export": ["--out", "x"], "log export": ["--to", "x"], "log segments": ["--data", "x"]}
ASKS_THE_SERVICE = "forget"  # which of its words is a subject


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


EVERY = dict(commands(typer.main.get_command(app)))


def takes_model(command: Any) -> bool:
    first = next((one.name for one in command.params if one.param_type_name == "argument"), None)
    return first in NAMES or any(OPTION in one.opts for one in command.params)


TAKE_MODEL = [name for name, command in EVERY.items() if takes_model(command) and name not in OF_SEVERAL]


def parsed(name: str, *words: str) -> Any:
    return EVERY[name].make_context(name, [*words, *NEEDS.get(name, [])]).params


def others(name: str) -> list[str]:
    """One word for each argument other than the model."""
    arguments = [one.name for one in EVERY[name].params if one.param_type_name == "argument" and one.name not in NAMES]
    return ["age=40" if one == "features" else f"other{at}" for at, one in enumerate(arguments)]


@pytest.mark.parametrize("name", TAKE_MODEL)
def test_a_model_is_the_first_word_or_an_option(name: str) -> None:
    assert isinstance(EVERY[name], ModelCommand)
    rest = others(name)
    option = parsed(name, *rest, OPTION, "clicks")
    assert "clicks" in (option.get("model"), option.get("name"))
    assert parsed(name, OPTION, "clicks", *rest) == parsed(name, *rest, f"{OPTION}=clicks") == option
    if name != ASKS_THE_SERVICE:
        assert parsed(name, "clicks", *rest) == option
        with pytest.raises(BadInput, match="named twice: 'other' and"):
            parsed(name, "other", *rest, OPTION, "clicks")


@pytest.mark.parametrize("name", TAKE_MODEL)
def test_the_help_tells_both(name: str) -> None:
    shown = " ".join(run(*name.split(), "--help").stdout.replace("│", " ").split())
    assert "--model NAME is the same" in shown or "be the first word" in shown
    assert "[model]" in shown or "{model}" in shown or "{name}" in shown or name == ASKS_THE_SERVICE


def test_values_of_options_and_words_after_two_dashes_are_not_taken_for_the_model() -> None:
    found = parsed("observe", "--label", "clicks", "rows.csv")
    assert (found["model"], found["file"], found["label"]) == ("default", "rows.csv", "clicks")
    assert parsed("observe", "clicks", "-")["file"] == "-"
    assert parsed("observe", "--", "clicks", "--rows.csv")["file"] == "--rows.csv"
    assert parsed("metrics", "--json", OPTION, "clicks")["as_json"] is True
    with pytest.raises(BadInput, match="give the name"):
        parsed("metrics", OPTION)


def test_a_word_without_a_value_is_the_model_of_explain() -> None:
    assert parsed("explain", "age=40")["model"] == "default"
    assert list(parsed("explain", "clicks", "age=40", "b=1")["features"]) == ["age=40", "b=1"]


@pytest.mark.usefixtures("service")
def test_the_first_of_several_subjects_is_the_model_if_there_is_one_of_this_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []
    answer = {"rows": 1, "of": 2, "predictions": 0, "seq": 0, "before": {}, "after": {}, "refits_undone": [], "trimmed": 0}

    def forget(_self: Riata, subjects: list[str], *, model: str, **_: object) -> dict[str, object]:
        asked.append((model, list(subjects)))
        return answer

    monkeypatch.setattr(Riata, "forget", forget)
    monkeypatch.setattr(Riata, "models", lambda _self: {"models": [{"name": "default"}, {"name": "clicks"}]})
    for words in (
        ["clicks", "ann"],
        ["ann", "bob"],
        ["clicks"],
        ["clicks", "ann", OPTION, "default"],
        [f"{OPTION}=clicks", "ann"],
    ):
        succeeds("forget", *words)
    assert asked == [
        ("clicks", ["ann"]),
        ("default", ["ann", "bob"]),
        ("default", ["clicks"]),
        ("default", ["clicks", "ann"]),
        ("clicks", ["ann"]),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("metrcs", "`riata metrics`"), ("create", "`riata models create`"), ("models crate", "`riata models create`"),
        ("status", "`riata metrics`"), ("delete", "`riata models drop`"), ("models delete", "`riata models drop`"),
        ("log exprt", "`riata log export`"), ("zzz", "known: serve, observe"), ("models zzz", "known: list, create"),
    ],
)  # fmt: skip
def test_a_wrong_verb_names_the_nearest(words: str, told: str) -> None:
    done = run(*words.split())
    assert done.exit_code == 2
    assert done.stderr.startswith(f"riata: no command {words.split()[-1]!r}; ")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_every_word_that_is_meant_otherwise_leads_to_a_command() -> None:
    assert set(MEANT.values()) <= set(EVERY)
    assert not set(MEANT) & set(EVERY)


@pytest.mark.usefixtures("service")
def test_predictions_keep_a_column_of_the_rows(tmp_path: Path) -> None:
    table, lines = tmp_path / "rows.csv", tmp_path / "rows.ndjson"
    table.write_text("customer,age,label\nA-1,40,1\n0007,41,0\n,42,0\n")
    lines.write_text('{"key": 7, "features": {"age": 40}}\n{"key": "x\\u00e9", "features": {"age": 41.5}, "label": 1}\n')
    out = tmp_path / "out.ndjson"
    succeeds("predict", str(table), "--id", "customer", "--out", str(out), "--rows-per-request", "2")
    assert [json.loads(line)["customer"] for line in out.read_text().splitlines()] == ["A-1", "0007", None]
    shown = run("predict", str(lines), "--id", "key").stdout.splitlines()
    assert [json.loads(line)["key"] for line in shown] == ["7", "xé"]
    assert "age" not in str([json.loads(line) for line in shown])


def test_a_table_of_predictions_begins_with_the_column(tmp_path: Path) -> None:
    answers = [{"customer": key, "probability": 0.5, "margin": 0.0, "label": 1, "std_error": None} for key in ("007", None)]
    for out in (tmp_path / "out.csv", tmp_path / "out.parquet"):
        with writer_to(out, "customer") as write:
            write(answers)
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "customer,probability,margin,label,std_error", "007,0.5,0.0,1,", ",0.5,0.0,1,"
    ]  # fmt: skip
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(tmp_path / "out.parquet").to_pydict()["customer"] == ["007", None]


@pytest.mark.usefixtures("service")
def test_a_column_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    table, lines, vw = tmp_path / "rows.csv", tmp_path / "rows.ndjson", tmp_path / "rows.vw"
    table.write_text("customer,age\nA,40\n")
    lines.write_text('{"features": {"age": 40}}\n')
    vw.write_text("1 | a\n")
    assert "'custmer'" in run("predict", str(table), "--id", "custmer").stderr
    assert "line 1: --id: no key 'customer'" in run("predict", str(lines), "--id", "customer").stderr
    assert "expected a row in JSON" in run("predict", str(vw), "--id", "customer").stderr
    assert "rename it" in run("predict", str(table), "--id", "margin").stderr
    assert "give one of them" in run("predict", str(table), "--id", "customer", "--event-id", "customer").stderr
