"""Keys on the running service: asked for, taken back, never written down; and a health listener that outlives a busy loop."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from riata.cli.app import app as verbs
from riata.web.auth.keys import read_keys
from riata.web.server.health_listener import health_app, health_listener
from tests.running import Running
from tests.settings import connection_bounds
from tests.web.attack.raw import get, talk
from tests.web.serving import Whole, serving

ROW = {"features": {"a": 1}, "label": 1}
PATIENCE_S = 60.0
BUSY_S_MAX = 60.0  # a probe that waits for the loop waits so long, and is not patient enough


def run(*words: str, environment: dict[str, str] | None = None) -> Result:
    result = CliRunner().invoke(verbs, list(words), env=environment)
    assert "Traceback" not in result.output
    return result


def make(path: Path, id_: str, *scopes: str, model: str = "*") -> str:
    options = [word for scope in scopes for word in ("--scope", scope)]
    made = run("keys", "new", "--id", id_, *options, "--model", model, "--keys-file", str(path))
    assert made.exit_code == 0, made.output
    return made.stdout.strip()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# -- the verb


def test_a_key_is_shown_once_and_its_hash_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    token = make(path, "clicks", "observe", model="clicks")
    assert re.fullmatch(r"riata_clicks_[A-Za-z0-9_-]{43}", token)
    assert token not in path.read_text()
    assert token[-43:] not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    second = make(path, "ops", "admin", "predict")
    assert second != token
    listed = run("keys", "list", "--keys-file", str(path)).stdout
    assert [line.split("\t")[:3] for line in listed.splitlines()] == [
        ["clicks", "observe", "clicks"],
        ["ops", "admin,predict", "*"],
    ]
    assert read_keys(path)[0].sha256 not in listed


def test_a_comment_survives_a_new_key_and_the_mode_survives_a_revocation(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    make(path, "a", "observe")
    path.write_text(f"# of the shop\n{path.read_text()}")
    path.chmod(0o600)
    make(path, "b", "observe")
    assert path.read_text().startswith("# of the shop\n")
    assert run("keys", "revoke", "--id", "a", "--keys-file", str(path)).exit_code == 0
    assert [entry.id for entry in read_keys(path)] == ["b"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["keys.toml"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["new", "--id", "a", "--scope", "observe", "--model", "*"], 1, "has a key a"),
        (["new", "--id", "No", "--scope", "observe", "--model", "*"], 2, "--id"),
        (["new", "--id", "b", "--scope", "write", "--model", "*"], 2, "observe, predict, admin"),
        (["new", "--id", "b", "--scope", "observe"], 2, "--model"),
        (["new", "--id", "b", "--scope", "observe", "--model", "*", "--expires", "soon"], 2, "--expires"),
        (["revoke", "--id", "b"], 1, "no key"),
    ],
)
def test_an_impossible_change_changes_nothing(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    path = tmp_path / "keys.toml"
    make(path, "a", "observe")
    before = path.read_bytes()
    result = run("keys", *words, "--keys-file", str(path))
    assert result.exit_code == code
    assert said in result.output
    assert path.read_bytes() == before


# -- the service


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.toml"


@pytest.fixture(scope="module")
def tokens(keys: Path) -> dict[str, str]:
    return {"all": make(keys, "all", "observe", "predict", "admin"), "gone": make(keys, "gone", "predict")}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, keys: Path, tokens: dict[str, str]) -> Iterator[Running]:  # noqa: ARG001
    environment = {"RIATA_KEYS_FILE": str(keys), "RIATA_HOST": "0.0.0.0", "RIATA_LOG_LEVEL": "debug"}
    with Running(tmp_path_factory.mktemp("running") / "data", environment) as found:
        found.start()
        yield found
        assert found.stop() == 0


def test_with_keys_other_machines_may_connect_but_need_a_key(running: Running, tokens: dict[str, str]) -> None:
    assert httpx.post(f"{running.url}/observe", json=ROW).status_code == 401
    assert httpx.post(f"{running.url}/observe", json=ROW, headers=bearer(tokens["gone"])).status_code == 403
    assert httpx.post(f"{running.url}/observe", json=ROW, headers=bearer(tokens["all"])).status_code == 202
    assert httpx.get(f"{running.url}/metrics").status_code == 401
    assert httpx.get(f"{running.url}/metrics", headers=bearer(tokens["all"])).status_code == 200
    assert httpx.get(f"{running.url}/livez").status_code == 200


def test_verbs_take_the_key_from_the_environment(running: Running, tmp_path: Path, tokens: dict[str, str]) -> None:
    rows = tmp_path / "rows.ndjson"
    rows.write_text('{"features":{"a":1}}\n')
    refused = run("predict", str(rows), "--url", running.url, environment={"RIATA_KEY": ""})
    assert refused.exit_code != 0
    assert "RIATA_KEY" in refused.output
    assert run("predict", str(rows), "--url", running.url, environment={"RIATA_KEY": tokens["all"]}).exit_code == 0


def test_a_key_taken_back_opens_nothing_soon_and_a_bad_file_changes_nothing(
    running: Running, keys: Path, tokens: dict[str, str]
) -> None:
    with httpx.Client(base_url=running.url, headers=bearer(tokens["gone"])) as client:
        assert client.get("/predict?a=1").status_code == 200
        assert run("keys", "revoke", "--id", "gone", "--keys-file", str(keys)).exit_code == 0
        deadline = time.monotonic() + PATIENCE_S
        while client.get("/predict?a=1").status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert client.get("/predict?a=1").json()["code"] == "bad_key"
    good = keys.read_text()
    keys.write_text("no file of keys")
    while "riata_keys_failed_readings_total 1.0" not in httpx.get(f"{running.url}/metrics", headers=bearer(tokens["all"])).text:
        assert time.monotonic() < deadline + PATIENCE_S
        time.sleep(0.05)
    assert httpx.get(f"{running.url}/predict?a=1", headers=bearer(tokens["all"])).status_code == 200
    keys.write_text(good)


def test_no_key_is_ever_written_down(running: Running, tokens: dict[str, str]) -> None:
    wrong = tokens["all"][:-4] + "AAAA"
    httpx.get(f"{running.url}/predict?a=1", headers=bearer(wrong))
    log = Path(f"{running.directory}.log").read_text()
    assert "GET" in log, "requests are in this log"
    for token in (*tokens.values(), wrong):
        assert token not in log
        assert token[-43:-4] not in log


@pytest.mark.parametrize("problem", ["missing", "open to others", "not one"])
def test_a_bad_file_of_keys_refuses_the_start(tmp_path: Path, problem: str) -> None:
    path = tmp_path / "keys.toml"
    if problem != "missing":
        make(path, "a", "observe")
    if problem == "open to others":
        path.chmod(0o644)
    if problem == "not one":
        path.write_text("[[key]]\nid = 3")
    running = Running(tmp_path / "data", {"RIATA_KEYS_FILE": str(path)})
    assert not running.lives()
    assert str(path) in running.output()
    assert ("chmod 640" in running.output()) == (problem == "open to others")
    assert not (tmp_path / "data").exists(), "nothing was opened"


def test_a_key_in_the_environment_is_no_setting_of_the_service(tmp_path: Path) -> None:
    result = run("serve", "--data", str(tmp_path), "--port", "99999", environment={"RIATA_KEY": "riata_x"})
    assert result.exit_code == 2
    assert "RIATA_KEY" not in result.output


# -- probes beside a loop that does nothing but work


def test_probes_answer_while_the_loop_of_the_service_is_busy() -> None:
    whole = Whole()
    app = whole.app()
    busy, over, told = threading.Event(), threading.Event(), threading.Event()

    @app.get("/busy")
    async def work() -> str:
        busy.set()
        until = time.monotonic() + BUSY_S_MAX
        while not over.is_set() and time.monotonic() < until:
            pass
        return "done"

    with (
        serving(app) as port,
        health_listener(health_app(app.state.parts, told), "127.0.0.1", 0, "", connection_bounds()) as probes,
    ):
        whole.until_ready()
        paths = ("/livez", "/readyz", "/metrics", "/version")
        for path in paths:  # the first answer of each loads what it needs
            assert talk(probes, get(path.encode(), b"Connection: close")).told == [(200, "")]
        asking = threading.Thread(target=httpx.get, args=(f"http://127.0.0.1:{port}/busy",), kwargs={"timeout": 2 * BUSY_S_MAX})
        asking.start()
        assert busy.wait(900)
        for path in paths:
            assert talk(probes, get(path.encode(), b"Connection: close")).told == [(200, "")]
        assert asking.is_alive(), "the loop was busy all the while"
        over.set()
        asking.join()
        assert set(httpx.get(f"http://127.0.0.1:{probes}/readyz").json()["models"]) == {"default"}
        told.set()
        for path in ("/readyz", "/v2/health/ready"):
            answer = httpx.get(f"http://127.0.0.1:{probes}{path}")
            assert (answer.status_code, answer.json()["reasons"]) == (503, ["stopping"])
        assert httpx.get(f"http://127.0.0.1:{probes}/livez").status_code == 200
