"""The how-to pages, carried out: the files that they show are added to the service, and what they add is used over HTTP."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from riata.learn import kinds
from tests.running import ROOT, Running

PAGES = ROOT / "service" / "docs" / "how-to"
FILE = re.compile(r"^`service/riata/(?P<path>[\w/]+\.py)`.*?```python\n(?P<text>.*?)```", re.MULTILINE | re.DOTALL)
KINDS = re.compile(r"^KINDS: Final = .*$", re.MULTILINE)


def added_files(page: str, folder: Path) -> list[str]:
    """Write the files that a page shows into `folder`; returns their paths inside the package."""
    found = {match["path"]: match["text"] for match in FILE.finditer(page)}
    for path, text in found.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return sorted(found)


def test_a_learner_is_added_by_its_folder_and_its_name(tmp_path: Path) -> None:
    page = (PAGES / "add-a-learner.md").read_text(encoding="utf-8")
    overlay = tmp_path / "overlay"
    assert len(added_files(page, overlay)) == 4
    line = KINDS.search(page)
    assert line is not None
    listed = Path(kinds.__file__).read_text(encoding="utf-8")
    (overlay / "learn" / "kinds.py").write_text(KINDS.sub(line[0], listed), encoding="utf-8")

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
