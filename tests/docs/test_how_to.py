"""The how-to pages, carried out: the files that they show are added to the service, and what they add is used over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from riata.learn import kinds
from riata.web.api.routes import table
from riata.web.auth.keys import OBSERVE, WATCH, entry_text
from riata.wire import readers
from tests.learn.contract import LearnerContract
from tests.running import HANG_S, ROOT, Running, wait_for
from tests.web.attack.test_keys import bearer, made

PAGES = ROOT / "service" / "docs" / "how-to"
FILE = re.compile(r"^`service/riata/(?P<path>[\w/]+\.py)`.*?```python\n(?P<text>.*?)```", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"^`tests/(?P<path>[\w/]+\.py)`.*?```python\n(?P<text>.*?)```", re.MULTILINE | re.DOTALL)
KINDS = re.compile(r"^KINDS: Final = .*$", re.MULTILINE)
RESOURCE = re.compile(r'^```diff\n (?P<before>    "\w+",\n)\+(?P<added>    "\w+",\n)```$', re.MULTILINE)
SIZE = "/models/default/size"
NAMES = re.compile(r"^NAMES: Final = .*$", re.MULTILINE)
SEMICOLONS = {"content-type": "text/x-semicolons"}


def added_files(page: str, folder: Path) -> list[str]:
    """Write the files that a page shows into `folder`; returns their paths inside the package."""
    found = {match["path"]: match["text"] for match in FILE.finditer(page)}
    for path, text in found.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return sorted(found)


def with_line(page: str, line: re.Pattern[str], module: ModuleType, folder: Path) -> None:
    """Write the file of a module into `folder`, with the line of the page in place of its own."""
    shown, file = line.search(page), Path(str(module.__file__))
    assert shown is not None
    text = file.read_text(encoding="utf-8")
    assert shown[0] not in text
    (folder / file.name).write_text(line.sub(shown[0], text), encoding="utf-8")


def test_a_learner_is_added_by_its_module_and_its_name(tmp_path: Path) -> None:
    page = (PAGES / "add-a-learner.md").read_text(encoding="utf-8")
    overlay = tmp_path / "overlay"
    assert added_files(page, overlay) == ["learn/perceptron.py"]
    with_line(page, KINDS, kinds, overlay / "learn")

    environment = {"OVERLAY": str(overlay)}
    with Running(tmp_path / "data", environment, module="tests.docs.overlay") as running:
        running.start()
        with httpx.Client(base_url=running.url, timeout=HANG_S) as client:
            wrong = client.put("/models/toy", json={"learner": {"kind": "perceptron", "eta": -1.0}})
            assert (wrong.status_code, wrong.json()["code"]) == (422, "out_of_range")
            assert client.put("/models/toy", json={"learner": {"kind": "perceptron", "eta": 0.5}}).status_code == 201
            rows = [{"features": {"word": "free" if i % 2 else "meeting"}, "label": i % 2} for i in range(40)]
            observed = client.post("/models/toy/observe", json=rows).json()
            assert observed["accepted"] == 40
            assert "perceptron" in client.get("/openapi.json").text
            wait_for("the rows are learnt", lambda: client.get("/models/toy").json()["served"]["seq"] >= observed["seq"])
            before = client.get("/models/toy/predict?word=free").json()
            assert before["label"] == 1
            assert client.get("/models/toy/predict?word=meeting").json()["label"] == 0
        running.kill()
        running.start()
        assert httpx.get(f"{running.url}/models/toy/predict?word=free").json()["margin"] == before["margin"]


# Runs the tests of a file with the overlay in place.
RUN_TESTS = """
import sys
from tests.docs.overlay import lay_over
lay_over()
import pytest
sys.exit(pytest.main(["-c", sys.argv[1], "-q", "-rp", "-n", "0", "-p", "no:cacheprovider", sys.argv[2]]))
"""


def test_the_learner_keeps_the_whole_contract(tmp_path: Path) -> None:
    page = (PAGES / "add-a-learner.md").read_text(encoding="utf-8")
    overlay = tmp_path / "overlay"
    added_files(page, overlay)
    with_line(page, KINDS, kinds, overlay / "learn")
    shown = TEST.search(page)
    assert shown is not None
    (tmp_path / Path(shown["path"]).name).write_text(shown["text"], encoding="utf-8")

    words = ["-c", RUN_TESTS, str(ROOT / "pyproject.toml"), str(tmp_path / Path(shown["path"]).name)]
    result = with_overlay(overlay, *words)
    promises = {name for name in dir(LearnerContract) if name.startswith("test_")}
    assert result.returncode == 0, result.stdout + result.stderr
    assert set(re.findall(r"^PASSED \S+::(test_\w+)", result.stdout, re.MULTILINE)) == promises
    advice = f"{ROOT / 'tests' / 'watch' / 'test_warnings.py'}::test_every_learner_says_what_to_set"
    result = with_overlay(overlay, "-c", RUN_TESTS, str(ROOT / "pyproject.toml"), advice)
    assert result.returncode == 0, result.stdout + result.stderr


def test_without_its_name_the_learner_is_not_known(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    added_files((PAGES / "add-a-learner.md").read_text(encoding="utf-8"), overlay)
    with Running(tmp_path / "data", {"OVERLAY": str(overlay)}, module="tests.docs.overlay") as running:
        running.start()
        refused = httpx.put(f"{running.url}/models/toy", json={"learner": {"kind": "perceptron"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_kind")


def test_a_route_is_added_by_its_module_and_its_name(tmp_path: Path) -> None:
    page = (PAGES / "add-a-route.md").read_text(encoding="utf-8")
    overlay = tmp_path / "overlay"
    assert added_files(page, overlay) == ["web/api/routes/size.py"]
    shown, file = RESOURCE.search(page), Path(str(table.__file__))
    assert shown is not None
    text = file.read_text(encoding="utf-8")
    assert text.count(shown["before"]) == 1
    text = text.replace(shown["before"], shown["before"] + shown["added"])
    (overlay / "web" / "api" / "routes" / file.name).write_text(text, encoding="utf-8")
    (watching, may_watch), (observing, may_observe) = made("watching", [WATCH]), made("observing", [OBSERVE])
    (elsewhere, may_see_another) = made("elsewhere", [WATCH], ["another"])
    keys = tmp_path / "keys.toml"
    keys.write_text("".join(map(entry_text, (may_watch, may_observe, may_see_another))), encoding="utf-8")
    keys.chmod(0o600)

    environment = {"OVERLAY": str(overlay), "RIATA_KEYS_FILE": str(keys)}
    with Running(tmp_path / "data", environment, module="tests.docs.overlay") as running:
        running.start()
        with httpx.Client(base_url=running.url, timeout=HANG_S) as client:
            rows = [{"features": {"word": "free" if i % 2 else "meeting"}, "label": i % 2} for i in range(40)]
            client.post("/observe?wait=applied", json=rows, headers=bearer(observing)).raise_for_status()

            size = client.get(SIZE, headers=bearer(watching)).json()
            assert (size["model"]["seq"], size["non_zeros"], size["counted"]) == (41, 2, 2)  # event 1: the configuration
            assert client.get(f"{SIZE}?least=1e6", headers=bearer(watching)).json()["counted"] == 0
            refused = {
                client.get(SIZE): (401, "unauthenticated"),
                client.get(SIZE, headers=bearer(observing)): (403, "wrong_scope"),
                client.get(SIZE, headers=bearer(elsewhere)): (404, "model_not_found"),
                client.get(f"{SIZE}?leest=1", headers=bearer(watching)): (422, "unknown_option"),
                client.post(SIZE, headers=bearer(watching)): (405, "method_not_allowed"),
            }
            assert [(answer.status_code, answer.json()["code"]) for answer in refused] == list(refused.values())

            contract = client.get("/openapi.json").json()
            operation = contract["paths"]["/models/{model}/size"]["get"]
            assert [parameter["name"] for parameter in operation["parameters"]] == ["model", "least"]
            assert set(operation["responses"]) == {"200", "401", "403", "404", "421", "422", "429", "500", "503"}
            assert size.keys() == contract["components"]["schemas"]["ModelSize"]["properties"].keys()
            metrics = client.get("/metrics", headers=bearer(watching)).text
            assert 'riata_requests_total{code="200",method="GET",route="/models/{model}/size"} 2.0' in metrics


def test_without_its_name_the_route_is_not_known(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    added_files((PAGES / "add-a-route.md").read_text(encoding="utf-8"), overlay)
    with Running(tmp_path / "data", {"OVERLAY": str(overlay)}, module="tests.docs.overlay") as running:
        running.start()
        missing = httpx.get(f"{running.url}{SIZE}")
        assert (missing.status_code, missing.json()["code"]) == (404, "no_such_route")
        assert "/models/{model}/size" not in httpx.get(f"{running.url}/openapi.json").json()["paths"]


@pytest.fixture
def overlay_of_reader(tmp_path: Path) -> Path:
    """A folder with what `add-a-reader.md` adds."""
    page = (PAGES / "add-a-reader.md").read_text(encoding="utf-8")
    overlay = tmp_path / "overlay"
    assert added_files(page, overlay) == ["wire/readers/semicolons.py", "wire/readers/semicolons_reference.py"]
    with_line(page, NAMES, readers, overlay / "wire" / "readers")
    return overlay


def with_overlay(overlay: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python, with the overlay in its environment."""
    environment = {**os.environ, "OVERLAY": str(overlay), "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)


def riata(overlay: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the service with the overlay."""
    return with_overlay(overlay, "-m", "tests.docs.overlay", *arguments)


def fitted(overlay: Path, path: Path) -> dict[str, Any]:
    """The report of `riata fit`."""
    result = riata(overlay, "fit", "--online", str(path), "--json", "--out", f"{path}.riata", "--set", "encoder.bits=12")
    assert result.stdout, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_a_reader_is_added_by_its_modules_and_its_name(tmp_path: Path, overlay_of_reader: Path) -> None:
    lines = ["label;word;size"] + [f"{i % 2};{'free' if i % 2 else 'meeting'};{i / 8}" for i in range(40)]
    path = tmp_path / "mails.semicolons"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with Running(tmp_path / "data", {"OVERLAY": str(overlay_of_reader)}, module="tests.docs.overlay") as running:
        running.start()
        with httpx.Client(base_url=running.url, timeout=HANG_S) as client:
            assert client.put("/models/mails", json={}).status_code == 201

            def first() -> httpx.Response:
                return client.post(
                    "/models/mails/observe?wait=applied", content="label;word\n1;free\n0;meeting\n", headers=SEMICOLONS
                )

            assert first().json()["accepted"] == 2
            wrong = client.post("/models/mails/observe", content="label;word\n1;free\n0\n;a\n", headers=SEMICOLONS).json()
            assert [(row["index"], row["code"]) for row in wrong["errors"]] == [(1, "lengths_differ"), (2, "missing_label")]
            refused = client.post("/models/mails/observe", content="label;label\n1;1\n", headers=SEMICOLONS)
            assert (refused.status_code, refused.json()["code"]) == (400, "bad_header")
            assert (
                "text/x-semicolons"
                in client.get("/openapi.json").json()["paths"]["/models/{model}/observe"]["post"]["requestBody"]["content"]
            )
        observed = riata(
            overlay_of_reader, "observe", str(path), "--url", running.url, "--model", "mails", "--rows-per-request", "7"
        )
        assert observed.stdout == "40 accepted, 0 duplicate, 0 rejected\n", observed.stderr
        reported = riata(
            overlay_of_reader, "predict", str(path), "--url", running.url, "--model", "mails", "--rows-per-request", "7"
        )
        assert [json.loads(line)["label"] for line in reported.stdout.splitlines()] == [i % 2 for i in range(40)]


def test_a_file_of_the_added_format_is_learnt_as_the_same_rows_in_another(tmp_path: Path, overlay_of_reader: Path) -> None:
    rows = [(i % 2, "free" if i % 3 else "meeting", i % 16 / 8) for i in range(20_000)]  # of several blocks
    table, lines = tmp_path / "rows.semicolons", tmp_path / "rows.ndjson"
    table.write_text("label;word;size\n" + "".join(f"{label};{word};{size}\n" for label, word, size in rows), encoding="utf-8")
    shown = [json.dumps({"features": {"word": word, "size": size}, "label": label}) for label, word, size in rows]
    lines.write_text("\n".join(shown), encoding="utf-8")
    found = fitted(overlay_of_reader, table)
    assert found["learnt"] == 20_000
    assert found["out"]["state"] == fitted(overlay_of_reader, lines)["out"]["state"]
    with table.open("a", encoding="utf-8") as file:
        file.write("1;free\n")
    assert [(row["line"], row["code"]) for row in fitted(overlay_of_reader, table)["problems"]] == [(20_002, "lengths_differ")]


def test_without_its_name_the_format_is_not_known(tmp_path: Path, overlay_of_reader: Path) -> None:
    (overlay_of_reader / "wire" / "readers" / "__init__.py").unlink()
    path = tmp_path / "mails.semicolons"
    path.write_text("label;word\n1;free\n", encoding="utf-8")
    result = riata(overlay_of_reader, "fit", "--online", str(path))
    assert result.returncode != 0
    assert "unknown format" in result.stderr
