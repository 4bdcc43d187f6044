"""The commands that the documents print exist, with their options, and those that a service can answer are carried out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import typer.main

from riata.base.errors import RiataError
from riata.base.settings import Settings, env_name
from riata.cli.app import app
from riata.cli.connect import KEY_VARIABLE
from tests.docs.printed import PAGES, Printed, commands_in, logical_lines, mentioned, printed

CONTRACT = json.loads((Path(__file__).parents[1] / "golden" / "openapi.json").read_text(encoding="utf-8"))
OF_CLIENTS = {KEY_VARIABLE, "RIATA_URL", "RIATA_FEED_URL", "RIATA_FEED_PASSWORD", "RIATA_SHARED"}
OWN_CONTRACT = ("/openapi.json", "/docs", "/console", "/metrics", "/livez", "/readyz", "/startupz")
ADDED_BY_ITS_PAGE = ("add-a-learner.md", "add-a-reader.md", "add-a-route.md")  # `test_how_to` carries these pages out
FORM = "application/x-www-form-urlencoded"  # what curl says if nothing is said
TAKES_WHAT_CURL_SAYS = {"/models/{model}/import"}
VALUED = {"-X", "--request", "-H", "--header", "-d", "--data", "--data-binary", "--data-raw", "-o", "-u", "--max-time"}
ROOT_COMMAND = typer.main.get_command(app)


def command_of(words: list[str]) -> tuple[Any, str, list[str]]:
    """The command that the words after `riata` name, its name, and the words after it. Raises `KeyError`."""
    command: Any = ROOT_COMMAND
    path: list[str] = []
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        command, path, words = command.commands[words[0]], [*path, words[0]], words[1:]
    return command, " ".join(path), words


def problem_of(one: Printed) -> str | None:
    """Why a printed command of riata would be refused before it does anything; None if it would not."""
    try:
        command, name, words = command_of(one.words[1:])
        if not hasattr(command, "commands"):
            command.make_context(name, list(words))
    except KeyError as error:
        return f"no command {error}"
    except (RiataError, Exception) as error:  # typer has classes of its own for these errors, in a private module
        if type(error).__name__ == "Exit":
            return None  # --help
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"
    unknown = (
        {name for name in one.assigned if name.startswith("RIATA_")}
        - OF_CLIENTS
        - {env_name(name) for name in Settings.model_fields}
    )
    return f"no setting {unknown}" if unknown else None


def test_every_printed_command_of_riata_is_one_with_its_options() -> None:
    shown = [one for one in printed() if one.words[:1] == ["riata"]]
    assert len(shown) > 50
    assert [f"{one} -- {problem}" for one in shown if (problem := problem_of(one)) is not None] == []


def test_every_option_that_a_sentence_names_exists() -> None:
    wrong = []
    for one in mentioned():
        try:
            command, _, words = command_of(one.words[1:])
        except KeyError as error:
            if not re.search(r"[A-Z…<]", str(error)):  # `riata COMMAND --help`
                wrong.append(f"{one} -- no command {error}")
            continue
        known = {"--help", "-h", *(opt for param in command.params for opt in (*param.opts, *param.secondary_opts))}
        if type(command).__name__ == "ModelCommand":
            known.add("--model")
        options = {word.split("=")[0].rstrip(",;.") for word in words if re.match(r"--?[a-z]", word)}
        if unknown := {word for word in options if word not in known and not (word[1] != "-" and word[:2] in known)}:
            wrong.append(f"{one} -- {unknown}")
    assert wrong == []


class Request:
    """What a printed curl would send."""

    def __init__(self, words: list[str]) -> None:
        self.method, self.headers, self.body, self.url = "", dict[str, str](), None, ""
        given = iter(words[1:])
        for word in given:
            if word in VALUED:
                value = next(given)
                if word in ("-X", "--request"):
                    self.method = value
                elif word in ("-H", "--header"):
                    name, _, text = value.partition(":")
                    self.headers[name.strip().lower()] = text.strip()
                elif word in ("-d", "--data", "--data-binary", "--data-raw"):
                    self.body = value
            elif not word.startswith("-"):
                self.url = word
        self.method = (self.method or ("GET" if self.body is None else "POST")).lower()
        at = urlsplit(self.url if "://" in self.url else f"http://{self.url}")
        self.path, self.query = at.path or "/", dict(parse_qsl(at.query, keep_blank_values=True))

    def operation(self) -> tuple[str, dict[str, Any]] | None:
        """The path template and the operation of the contract; None if there is none."""
        exact_first = sorted(CONTRACT["paths"], key=lambda template: template.count("{"))
        for template in exact_first:
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), self.path) and self.method in CONTRACT["paths"][template]:
                return template, CONTRACT["paths"][template][self.method]
        return None

    def problem(self) -> str | None:
        """Why the service would refuse it whatever it has; None if it would not."""
        if (found := self.operation()) is None:
            return None if self.path in OWN_CONTRACT else f"no route {self.method} {self.path}"
        template, operation = found
        known = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
        if "features" not in known and (unknown := set(self.query) - known):
            return f"no option {unknown}"
        asked = operation.get("requestBody", {})
        content = asked.get("content")
        if content is None and self.body is not None:
            return "it takes no body"
        if asked.get("required") and self.body is None:
            return "a body is missing"
        if content is None or self.body is None:
            return None
        kind = self.headers.get("content-type", FORM)
        if kind not in content and not (kind == FORM and template in TAKES_WHAT_CURL_SAYS):
            return f"415: {kind}, expected one of {', '.join(content)}"
        if kind == "application/json" and not self.body.startswith("@"):
            json.loads(re.sub(r"\$\w+", "x", self.body))
        return None


def test_every_printed_curl_is_a_request_of_the_contract() -> None:
    shown = [one for one in printed() if one.words[:1] == ["curl"] and not one.page.endswith(ADDED_BY_ITS_PAGE)]
    assert len(shown) > 30
    assert [f"{one} -- {problem}" for one in shown if (problem := Request(one.words).problem()) is not None] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("riata serve --archive-bytes-max 5", "NoSuchOption"), ("riata metrcs", "no command"),
        ("riata observe", "MissingParameter"), ("riata restore m --too 5", "NoSuchOption"),
        ("RIATA_PROT=1 riata serve", "no setting"),
    ],
)  # fmt: skip
def test_a_command_that_does_not_exist_is_seen(words: str, told: str) -> None:
    (one,) = commands_in("page", words)
    assert told in str(problem_of(one))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("curl localhost:8080/models/m/nothing", "no route"), ("curl -X POST localhost:8080/models/m/observe -d '{}'", "415"),
        ("curl -X PATCH localhost:8080/models/m", "body is missing"), ("curl localhost:8080/models/m?tops=1", "no option"),
        ("curl -X GET -d '{}' localhost:8080/models", "takes no body"),
    ],
)  # fmt: skip
def test_a_request_that_would_be_refused_is_seen(words: str, told: str) -> None:
    (one,) = commands_in("page", words)
    assert told in str(Request(one.words).problem())


def test_lines_go_on_after_a_backslash_and_within_quotes() -> None:
    block = "$ curl x \\\n  -d '{\n}'   # sent\n$ riata fit a\n"
    assert list(logical_lines(block)) == ["curl x\n  -d '{\n}'   # sent", "riata fit a"]
    assert len(PAGES) > 40
