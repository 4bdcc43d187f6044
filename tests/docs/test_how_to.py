"""The how-to pages, carried out: the files that they show are added to the service, and what they add is used over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import httpx

from riata.learn import kinds
from riata.web.keys import entry_text
from riata.web.routes import table
from riata.web.scopes import OBSERVE, WATCH
from tests.running import ROOT, Running
from tests.web.attack.test_keys import bearer, made

PAGES = ROOT / "service" / "docs" / "how-to"
FILE = re.compile(r"^`service/riata/(?P<path>[\w/]+\.py)`.*?```python\n(?P<text>.*?)```", re.MULTILINE | re.DOTALL)
KINDS = re.compile(r"^KINDS: Final = .*$", re.MULTILINE)
RESOURCES = re.compile(r"^RESOURCES: Final = .*$", re.MULTILINE)
SIZE = "/models/default/size"


def added_files(page: str, folder: Path) -> list[str]:
    """Write the files that a page shows into `folder`; returns their paths inside the package."""
    found = {match["path"]: match["text"] for match in FILE.finditer(page)}
    for path, text in found.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return sorted(found)


def with_line(page: str, line: re.Pattern[str], module: ModuleType, folder: Path) -> None:
    """Write the file of a module into `folder`, with the line that the page shows in place of its own."""
    shown, file = line.search(page), Path(str(module.__file__))
    assert shown is not None
    text = file.read_text(encoding="utf-8")
    assert shown[0] not in text
    (folder / file.name).write_text(line.sub(shown[0], text), encoding="utf-8")


def test_a_learner_is_added_by_its_folder_and_its_name(tmp_path: Path) -> None:
    page = (PAGES / "add-a-learner.md").read_text(encoding="utf-8")
    overlay = tmp_path / "overlay"
    assert len(added_files(page, overlay)) == 4
    with_line(page, KINDS, kinds, overlay / "learn")

    environment = {"OVERLAY": str(overlay)}
    with Running(tmp_path / "data", environment, module="tests.docs.overlay") as running:
        running.start()
        with httpx.Client(base_url=running.url, timeout=60) as client:
            wrong = client.put("/models/toy", json={"learner": {"kind": "perceptron", "eta": -1.0}})
            assert (wrong.status_code, wrong.json()["code"]) == (422, "out_of_range")
            assert client.put("/models/toy", json={"learner": {"kind": "perceptron", "eta": 0.5}}).status_code == 201
            rows = [{"features": {"word": "free" if i % 2 else "meeting"}, "label": i % 2} for i in range(40)]
            assert client.post("/models/toy/observe?wait=applied", json=rows).json()["accepted"] == 40
            assert "perceptron" in client.get("/openapi.json").text
            before = client.get("/models/toy/predict?word=free").json()
            assert before["label"] == 1
            assert client.get("/models/toy/predict?word=meeting").json()["label"] == 0
        running.kill()
        running.start()
        assert httpx.get(f"{running.url}/models/toy/predict?word=free").json()["margin"] == before["margin"]


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
    assert added_files(page, overlay) == ["web/routes/size.py"]
    with_line(page, RESOURCES, table, overlay / "web" / "routes")
    (watching, may_watch), (observing, may_observe) = made("watching", [WATCH]), made("observing", [OBSERVE])
    (elsewhere, may_see_another) = made("elsewhere", [WATCH], ["another"])
    keys = tmp_path / "keys.toml"
    keys.write_text("".join(map(entry_text, (may_watch, may_observe, may_see_another))), encoding="utf-8")
    keys.chmod(0o600)

    environment = {"OVERLAY": str(overlay), "RIATA_KEYS_FILE": str(keys)}
    with Running(tmp_path / "data", environment, module="tests.docs.overlay") as running:
        running.start()
        with httpx.Client(base_url=running.url, timeout=60) as client:
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
