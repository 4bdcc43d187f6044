"""Routes about stored generations."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.running import Running
from tests.web.asking import Client, asking
from tests.web.conftest import BODY_BYTES_MAX
from tests.web.serving import Whole

BINARY = "application/octet-stream"


def test_a_snapshot_is_made_listed_and_restored(client: Client) -> None:
    made = client.ask("POST", "/models/default/snapshots")
    assert (made.status_code, made.json()["generation"]) == (201, 1)
    assert [s["generation"] for s in client.get("/models/default/snapshots").json()["snapshots"]] == [1]
    restored = client.post("/models/default/restore", '{"generation":1}')
    assert (restored.status_code, restored.json()) == (200, {"generation": 1, "seq": 2, "taken_off": []})


def test_a_snapshot_has_a_note_and_can_be_deleted(client: Client) -> None:
    made = client.post("/models/default/snapshots", '{"note":"before the import"}')
    assert (made.status_code, made.json()["note"]) == (201, "before the import")
    gone = client.ask("DELETE", f"/models/default/snapshots/{made.json()['generation']}")
    assert (gone.status_code, gone.json()) == (200, {"generation": 1, "deleted": True})
    assert 1 not in [kept["generation"] for kept in client.get("/models/default/snapshots").json()["snapshots"]]
    for number in ("1", "0", "x", "1.0", "-1", "\u0661", "9" * 30):
        again = client.ask("DELETE", f"/models/default/snapshots/{number}")
        assert (again.status_code, again.json()["code"]) == (404, "generation_not_found")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{}", 201), ('{"note":""}', 201), ('{"note":"%s"}' % ("é" * 500), 201), ('{"note":"%s"}' % ("é" * 501), 422),
        ('{"note":1}', 422), ('{"note":null}', 422), ('{"nte":"x"}', 422), ("[]", 422), ("x", 400),
    ],
)  # fmt: skip
def test_a_note_is_read_strictly(standing: Client, body: str, status: int) -> None:
    assert standing.post("/models/default/snapshots", body).status_code == status


def test_a_generation_that_is_not_kept_is_not_found(client: Client) -> None:
    answer = client.post("/models/default/restore", '{"generation":9}')
    assert (answer.status_code, answer.json()["code"]) == (404, "generation_not_found")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{}", 422),
        ('{"generation":"1"}', 422),
        ('{"generation":true}', 422),
        ('{"generation":0}', 422),
        ('{"generation":1.0}', 422),
        ('{"generation":9223372036854775808}', 422),
        ('{"genration":1}', 422),
        ('{"generation":1,"x":1}', 422),
        ("[1]", 422),
        ("", 400),
    ],
)
def test_a_restore_reads_its_body_strictly(standing: Client, body: str, status: int) -> None:
    assert standing.post("/models/default/restore", body).status_code == status


def test_an_export_goes_back_in_under_another_name(client: Client) -> None:
    answer = client.get("/models/default/export")
    assert (answer.status_code, answer.headers["content-type"]) == (200, BINARY)
    assert answer.headers["content-disposition"] == 'attachment; filename="default.riata"'
    taken = client.post("/models/copy/import", answer.content, BINARY)
    assert (taken.status_code, taken.json()["created"]) == (200, True)
    assert client.get("/models/copy").status_code == 200


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (BINARY, 200),
        ("application/x-www-form-urlencoded", 200),  # of `curl --data-binary`
        ("", 200),
        ("application/json", 415),
        ("text/plain", 415),
    ],
)
def test_an_export_is_known_by_its_bytes_whatever_curl_calls_it(client: Client, kind: str, status: int) -> None:
    content = client.get("/models/default/export").content
    assert client.post("/models/copy/import", content, kind).status_code == status
    assert client.post("/models/copy/import", b"a=1", kind).status_code == (400 if status == 200 else 415)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_imports_an_export_as_the_guides_say(tmp_path: Path) -> None:
    with Running(tmp_path / "data") as running:
        running.start()
        (tmp_path / "default.riata").write_bytes(httpx.get(f"{running.url}/models/default/export").content)
        command = ["curl", "-s", "-X", "POST", f"{running.url}/models/copy/import", "--data-binary", "@default.riata"]
        told = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path).stdout
        assert json.loads(told)["created"] is True


def test_the_readable_export_has_every_weight_by_name(client: Client) -> None:
    client.post("/observe?wait=applied", '{"features":{"age":2},"label":1}')
    (weight,) = client.get("/models/default/weights").json()["weights"]
    reported = client.get("/models/default/export?format=json").json()
    assert [(w["weight"], w["names"]) for w in reported["weights"]] == [(weight["weight"], ["age"])]
    assert reported["config"]["labels"] == "0/1"


def test_other_formats_name_the_nearest(client: Client) -> None:
    answer = client.get("/models/default/export?format=jsn")
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_option")
    assert "'json'" in answer.json()["detail"]


def test_an_invalid_export_is_malformed(client: Client) -> None:
    answer = client.post("/models/m/import", b"garbage", BINARY)
    assert (answer.status_code, answer.json()["code"]) == (400, "not_an_export")


def test_an_import_has_a_type_a_name_and_a_bound(client: Client) -> None:
    exported = client.get("/models/default/export").content
    assert client.post("/models/m/import", exported, "application/json").status_code == 415
    assert client.post("/models/M/import", exported, BINARY).status_code == 422
    assert client.post("/models/m/import?confirm=1", exported, BINARY).status_code == 422
    assert client.post("/models/m/import", bytes(BODY_BYTES_MAX + 1), BINARY).status_code == 413
    assert client.post("/models/m/import", exported, BINARY).status_code == 200


def test_an_import_that_all_bodies_together_have_no_room_for_is_too_large_not_too_busy(service: Whole) -> None:
    with asking(service.app(body_bytes_max=2**16, bodies_bytes_max=2**17, import_bytes_max=2**20)) as client:
        assert client.post("/models/m/import", bytes(2**17 + 1), BINARY).status_code == 413
        answer = client.post("/models/m/import", bytes(2**16 + 1), BINARY)
        assert (answer.status_code, answer.json()["code"]) == (400, "not_an_export")
