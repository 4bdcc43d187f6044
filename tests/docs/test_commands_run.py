"""The commands of guides, carried out against a service in the order of a page, on small files of their names."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from riata.cli.app import app
from tests.docs.printed import DOCS, Printed, printed
from tests.docs.test_printed_commands import Request
from tests.running import HANG_S, Running, wait_for
from tests.trees.hand_made import two_splits

GUIDES = (
    "challengers", "classes", "crosses", "curves", "decisions", "delayed-labels", "drift", "erase", "groups", "open-inference",
    "scorer", "shapes", "slices", "tables", "batch",
)  # fmt: skip
REFUSED = {  # commands that are refused here, and why: the answer has to say so
    "riata models promote clicks faster": "by force",
    "curl -X POST localhost:8080/models/clicks/promote": "by force",
    "riata regret clicks": "refit",
    "curl -X POST 'localhost:8080/models/clicks/predict?from=refit'": "refit",
    "curl -X POST 'localhost:8080/models/curves/predict?from=refit&explain=true'": "refit",
}
LEFT_OUT = {  # parts of commands, and why these are only read
    "--url http://127.0.0.1:8080": "it waits for a refit, which `tests/run/test_refits.py` has",
    "--store redis://": "it needs a Redis",
    "--data ./riata-data": "it needs the directory of a service that has stopped",
    "--batch": "`tests/cli/test_fit_batch.py` has it",
    "riata tree": "`tests/cli/test_tree.py` has it",
    "riata groups": "`tests/cli/test_groups.py` has it",
    "--mlflow": "it needs mlflow",
    "fraud.vw.gz": "it has the solver of a file",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("commands") / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        running.start()
        yield running


def rows(n: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        country, hour = rng.choice(["DE", "FR", "IT"]), rng.randrange(24)
        features = {"country": country, "device": rng.choice(["phone", "desk"]), "hour": hour, "t20": rng.random(), "amount": 120}
        found.append({"features": features, "label": int(rng.random() < (0.8 if country == "DE" else 0.2))})
    return found


def prepare(client: httpx.Client, page: str) -> None:
    """Bring the service into the state in which a page begins, and write the files that its commands name."""
    for model in client.get("/models").json()["models"]:
        for challenger in client.get(f"/models/{model['name']}").json().get("challengers", []):
            client.delete(f"/models/{challenger['name']}?confirm={challenger['name']}")
    for model in client.get("/models").json()["models"]:
        for refit in client.get(f"/models/{model['name']}/refits").json()["refits"]:
            end(client, f"/models/{model['name']}/refits/{refit['id']}")
        if model["name"] != "default":
            client.delete(f"/models/{model['name']}?confirm={model['name']}").raise_for_status()
    given = [] if page == "crosses" else {"decisions": ["fraud"], "groups": ["curves"]}.get(page, ["clicks"])
    for model in given:
        client.put(f"/models/{model}", json={}).raise_for_status()
        client.post(f"/models/{model}/observe?wait=applied", json=rows(300)).raise_for_status()
        content = client.get(f"/models/{model}/export").content
        for name in ("clicks.riata", "model.riata"):
            Path(name).write_bytes(content)
    if page == "crosses":
        Path("clicks.vw").write_text("1 |u DE |a sport\n-1 |u FR |a news\n" * 20)
    customers = [f"C{i},{i % 40},{'month' if i % 3 else 'year'}" for i in range(60)]
    irises = "length,width,species\n" + "".join(
        f"{4 + i % 3},{1 + i % 3},{('setosa', 'virginica', 'versicolor')[i % 3]}\n" for i in range(60)
    )
    labelled = [f"{one},{i % 2}" for i, one in enumerate(customers)]
    Path("churn.csv").write_text("\n".join(["customerID,tenure,plan,Churn", *labelled]))
    Path("new.csv").write_text("\n".join(["customerID,tenure,plan", *customers]))
    Path("ecg.tree").write_bytes(two_splits().encode())
    Path("irises.csv").write_text(irises)
    with gzip.open("clicks.vw.gz", "wt") as file:
        file.write("1 | a\n0 | b\n" * 20)


def end(client: httpx.Client, refit: str) -> None:
    """Cancel a refit that still runs, and wait until it has ended: there is one at a time."""
    client.delete(refit)
    wait_for("the refit has ended", lambda: client.get(refit).json().get("state") != "running")


def run(one: Printed, client: httpx.Client, before: Any) -> tuple[bool, str, Any]:
    """Whether a command was carried out, what it answered, and this as JSON if it is."""
    if one.words[0] == "riata":
        done = CliRunner().invoke(app, one.words[1:])
        return done.exit_code == 0, done.output, None
    asked = Request([word.replace("$id", str((before or {}).get("prediction_id"))) for word in one.words])
    body = None if asked.body is None else asked.body.encode()
    if asked.body is not None and asked.body.startswith("@"):
        body = Path(asked.body[1:]).read_bytes()
    headers = {"content-type": "application/x-www-form-urlencoded", **asked.headers}
    url = f"{asked.path}?{asked.url.partition('?')[2]}".rstrip("?")
    answer = client.request(asked.method, url, headers=headers if body is not None else {}, content=body)
    told = answer.json() if "json" in answer.headers.get("content-type", "") else None
    return answer.is_success, answer.text, told[0] if isinstance(told, list) and len(told) == 1 else told


@pytest.mark.parametrize("page", GUIDES)
def test_a_page_can_be_followed(page: str, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIATA_URL", running.url)
    monkeypatch.delenv("RIATA_KEY", raising=False)
    wrong, before, count = [], None, 0
    with httpx.Client(base_url=running.url, timeout=HANG_S) as client:
        prepare(client, page)
        for one in printed([DOCS / "guide" / f"{page}.md"]):
            if any(part in one.line for part in LEFT_OUT):
                continue
            done, told, before = run(one, client, before)
            count += 1
            why = next((why for begins, why in REFUSED.items() if one.line.startswith(begins)), None)
            if done if why is not None else not done:
                wrong.append(f"{one}: {told[:600]}")
            elif why is not None:
                assert why in told, one
    assert wrong == []
    assert count > 0


def test_what_is_left_out_is_printed() -> None:
    lines = [one.line for page in GUIDES for one in printed([DOCS / "guide" / f"{page}.md"])]
    assert [part for part in [*LEFT_OUT, *REFUSED] if not any(part in line for line in lines)] == []
