"""Keys: every route, every scope, every model; what is refused says no more than it must."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.base.errors import BadInput
from riata.client import Riata
from riata.client.errors import ApiNotFound, ApiRefused
from riata.run.jobs.jobs import Job
from riata.web.api.routes.console import build
from riata.web.api.routes.table import ROUTE_AT, place
from riata.web.auth import gate as gate_module
from riata.web.auth.gate import BURST_S, Bucket, Buckets, Gate, KeysFile
from riata.web.auth.keys import (
    ADMIN,
    OBSERVE,
    OPEN,
    PREDICT,
    SCOPES,
    WATCH,
    KeyEntry,
    KeyRing,
    Unauthenticated,
    digest_of,
    entry_text,
    new_token,
    parse_keys,
    read_keys,
    ring_of,
)
from tests.web.asking import Client, asking
from tests.web.serving import Whole, exported

ROW = b'{"features":{"a":1},"label":1}'
BINARY = "application/octet-stream"
UNLABELLED = b'{"features":{"a":1}}'
NOW_MS = 1_800_000_000_000
BODIES: dict[tuple[str, str], tuple[bytes, str]] = {
    ("POST", "observe"): (ROW, "application/json"),
    ("POST", "predict"): (UNLABELLED, "application/json"),
    ("PUT", ""): (b"{}", "application/json"),
    ("PATCH", ""): (b"{}", "application/json"),
    ("POST", "forget"): (b'{"subject":"ann"}', "application/json"),
    ("POST", "restore"): (b'{"generation":1}', "application/json"),
    ("POST", "refits"): (b"{}", "application/json"),
    ("POST", "promote"): (b'{"challenger":"default"}', "application/json"),
    ("POST", "refits/{refit}/promote"): (b'{"force":true}', "application/json"),
    ("POST", "v2/models/{model}/infer"): (
        b'{"inputs":[{"name":"a","shape":[1],"datatype":"FP64","data":[1]}]}',
        "application/json",
    ),
}


def made(id_: str, scopes: list[str], models: list[str] | str = "*", **more: Any) -> tuple[str, KeyEntry]:
    token = new_token(id_)
    return token, KeyEntry(id_, digest_of(token), scopes, models, **more)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def gate_of(entries: list[KeyEntry], service: Whole, buckets: Buckets | None = None) -> Gate:
    return Gate(service.clock, KeysFile(Path("/nowhere"), ring_of(entries)), buckets or Buckets(0.0, 0.0))


@pytest.fixture(scope="module")
def kept() -> Whole:
    """The service of the one application of this module."""
    return Whole(NOW_MS)


@pytest.fixture
def service() -> Whole:
    """A service for an application of its own."""
    return Whole(NOW_MS)


@contextmanager
def stocked(service: Whole, gate: Gate | None = None) -> Iterator[Client]:
    """A client of an application of a service that has the models mine and theirs."""
    with asking(service.app(gate)) as client:
        client.runner.run(service.stock("mine", "theirs"))
        yield client


TOKENS = {scope: made(scope, [scope], ["mine", "default"]) for scope in SCOPES}
OF_EVERY_MODEL = {scope: made(f"all-{scope}", [scope]) for scope in SCOPES}


@pytest.fixture(scope="module")
def application(kept: Whole) -> Iterator[Client]:
    with asking(kept.app(gate_of([entry for _, entry in (*TOKENS.values(), *OF_EVERY_MODEL.values())], kept))) as found:
        yield found


@pytest.fixture
def client(application: Client, kept: Whole) -> Client:
    """A client of the application of this module, which has what the requests name, whatever tests before did to it."""
    application.runner.run(kept.stock("mine", "theirs", "default"))
    return application


def ask(client: Client, method: str, template: str, model: str, headers: dict[str, str]) -> httpx.Response:
    path = template.replace("{model}", model).replace("{build}/{asset}", f"{build()}/app.js")
    path = path.replace("{build}/{folder}/{asset}", f"{build()}/pages/data.js")
    path = path.replace("{asset}", "start.js").replace("{refit}", "r1").replace("{job}", "f1").replace("{generation}", "1")
    verb = template.removeprefix("/models/{model}").strip("/") if template.startswith("/models/") else template.strip("/")
    body, kind = (exported(), BINARY) if verb == "import" else BODIES.get((method, verb), (b"", "application/json"))
    options = f"?confirm={model}" if method == "DELETE" and not verb else "?events=1" if verb == "stream" else ""
    return client.ask(method, path + options, content=body, headers={"Content-Type": kind, **headers})


def test_a_key_of_some_models_makes_no_backup_which_holds_all(client: Client) -> None:
    answer = ask(client, "POST", "/backup", "", bearer(TOKENS[ADMIN][0]))
    assert (answer.status_code, answer.json()["code"]) == (403, "wrong_scope")
    answer = ask(client, "POST", "/backup", "", bearer(OF_EVERY_MODEL[ADMIN][0]))
    assert (answer.status_code, answer.json()["code"]) == (409, "no_backup"), "a store in memory has none"


# -- the table


def test_a_route_without_an_entry_cannot_be_reached(service: Whole) -> None:
    app = service.app(gate_of([TOKENS[ADMIN][1]], service))

    async def forgotten() -> str:
        return "reached"

    app.add_api_route("/forgotten", forgotten)
    with asking(app) as client:
        assert client.get("/forgotten").status_code == 401
        assert client.get("/forgotten", headers=bearer(TOKENS[ADMIN][0])).status_code == 404


@pytest.mark.parametrize(("method", "template"), ROUTE_AT)
def test_without_a_key_only_open_routes_answer(client: Client, method: str, template: str) -> None:
    for headers in ({}, bearer("riata_nobody_" + "A" * 43), {"Authorization": "Basic eDp5"}):
        answer = ask(client, method, template, "mine", headers)
        if ROUTE_AT[method, template].scopes == OPEN:
            assert answer.status_code == (307 if template == "/" else 200)
        else:
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["code"] in ("unauthenticated", "bad_key")


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("method", "template"), ROUTE_AT)
def test_a_key_opens_the_routes_of_its_scope_and_no_other(client: Client, method: str, template: str, scope: str) -> None:
    tokens = OF_EVERY_MODEL if template == "/backup" else TOKENS
    answer = ask(client, method, template, "mine", bearer(tokens[scope][0]))
    if scope in ROUTE_AT[method, template].scopes or ROUTE_AT[method, template].scopes == OPEN:
        assert answer.status_code not in (401, 403, 429)
        assert answer.status_code < 500
        assert answer.status_code != 404 or answer.json()["code"] == "no_refit"
    else:
        assert answer.status_code == 403
        assert answer.json()["code"] == "wrong_scope"


@pytest.mark.parametrize("scope", [OBSERVE, PREDICT, WATCH])
def test_a_key_that_may_only_send_rows_sees_the_kinds_of_fields_and_no_values(client: Client, scope: str) -> None:
    sent = client.post("/models/mine/observe", b'{"features":{"who":"ann"},"label":1}', **bearer(TOKENS[OBSERVE][0]))
    assert sent.status_code in (200, 202)
    found = client.get("/models/mine/fields", headers=bearer(TOKENS[scope][0]))
    assert '"category"' in found.text
    assert ('"ann"' in found.text) == (scope != OBSERVE)


WATCHED = {
    ("GET", "/models/{model}/forget"),
    ("GET", "/models/{model}/restore"),
    ("GET", "/jobs"),
    ("GET", "/jobs/{job}"),
    ("GET", "/v2"),
    ("GET", "/v2/models/{model}"),
    ("GET", "/v2/models/{model}/ready"),
    *(("GET", path) for path in ("/models", "/version", "/metrics", "/whoami", "/keys", "/status")),
    *(
        ("GET", "/models/{model}" + path)
        for path in (
            "",
            "/metrics",
            "/weights",
            "/path",
            "/snapshots",
            "/refits",
            "/refits/{refit}",
            "/regret",
            "/changes",
            "/card",
            "/trees",
            "/shapes",
            "/fields",
            "/refused",
            "/slices",
            "/weights/history",
            "/stream",
        )
    ),
}


def test_the_scope_watch_reads_everything_except_predictions_and_exports(client: Client, kept: Whole) -> None:
    """Written out independently of the table: enough for a scraper and a dashboard, and nothing can be changed."""
    closed = {at for at, route in ROUTE_AT.items() if route.scopes != OPEN}
    assert {at for at in closed if WATCH in ROUTE_AT[at].scopes} == WATCHED
    reading = {at for at in closed if at[0] == "GET" and not ROUTE_AT[at].writes}
    assert reading - WATCHED == {("GET", "/predict"), ("GET", "/models/{model}/predict")}

    before = kept.state()
    for method, template in closed:
        answer = ask(client, method, template, "mine", bearer(TOKENS[WATCH][0]))
        assert (answer.status_code == 403) == ((method, template) not in WATCHED), (method, template)
        assert answer.status_code < 500
    assert kept.state() == before


def labelled(text: str) -> set[str]:
    """The models named by samples."""
    return set(re.findall(r'[{,]model="([^"]*)"', text))


@pytest.mark.parametrize("scope", [ADMIN, WATCH])
def test_meters_name_the_models_that_the_key_may_see_and_no_other(service: Whole, scope: str) -> None:
    one, every = made("one", [scope], ["mine"]), made("every", [scope], "*")
    observer = made("observer", [OBSERVE], "*")
    with stocked(service, gate_of([one[1], every[1], observer[1]], service)) as client:
        for name in service.models:
            assert client.post(f"/models/{name}/observe", ROW, **bearer(observer[0])).status_code == 202
        texts = {key: client.get("/metrics", headers=bearer(token)).text for key, (token, _) in (("one", one), ("every", every))}
        assert labelled(texts["every"]) == {"default", "mine", "theirs"}
        assert labelled(texts["one"]) == {"mine"}
        assert "theirs" not in texts["one"]
        families = {key: re.findall(r"^# TYPE (\S+)", text, re.MULTILINE) for key, text in texts.items()}
        assert families["one"] == families["every"], "a scraper finds every metric, with samples or without"
        for line in ('riata_rows_total{model="mine",outcome="accepted"} 1.0', "riata_ready 1.0"):
            assert line in texts["one"].splitlines()
    with stocked(Whole()) as client:
        assert labelled(client.get("/metrics").text) == {"default", "mine", "theirs"}, "without keys everybody sees all"


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("method", "template"), [route for route in ROUTE_AT if "{model}" in route[1]])
def test_models_of_others_are_as_if_they_were_not_there(
    client: Client, kept: Whole, method: str, template: str, scope: str
) -> None:
    before = kept.state()
    answers = {name: ask(client, method, template, name, bearer(TOKENS[scope][0])) for name in ("theirs", "nobodys")}
    assert {name: answer.status_code for name, answer in answers.items()} == {"theirs": 404, "nobodys": 404}
    assert answers["theirs"].content == answers["nobodys"].content
    assert answers["theirs"].headers == answers["nobodys"].headers
    assert "mine" not in answers["theirs"].text
    assert kept.state() == before


def test_a_model_of_ones_own_that_is_not_there_names_no_other(service: Whole) -> None:
    token, entry = made("k", [PREDICT, ADMIN], ["mine", "thirs"])
    with stocked(service, gate_of([entry], service)) as client:
        missing = client.get("/models/thirs/predict?a=1", headers=bearer(token))
        assert missing.status_code == 404
        assert "theirs" not in missing.text
        assert ask(client, "PUT", "/models/{model}", "thirs", bearer(token)).status_code == 201
        assert client.get("/models/thirs/predict?a=1", headers=bearer(token)).status_code == 200


def test_jobs_of_models_of_others_are_as_if_they_were_not_there(client: Client, kept: Whole) -> None:
    hidden_job = Job("f2", "forget", "theirs", kept.engine.served_model("theirs").lineage.hex(), {}, 0, state="done")
    kept.service.jobs.put(hidden_job)
    headers = bearer(TOKENS[ADMIN][0])
    shown = {job["id"]: job["model"] for job in client.get("/jobs", headers=headers).json()["jobs"]}
    assert shown["f1"] == "mine"
    assert set(shown.values()) <= {"mine", "default"}
    for method in ("GET", "DELETE"):
        hidden, none = (client.ask(method, f"/jobs/{job}", headers=headers) for job in ("f2", "f3"))
        assert (hidden.status_code, hidden.json()["code"]) == (none.status_code, none.json()["code"]) == (404, "job_not_found")
    assert hidden_job.halt is None


def test_lists_name_only_models_that_the_key_may_read(client: Client, kept: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = client.get("/models", headers=bearer(TOKENS[OBSERVE][0])).json()["models"]
    assert [line["name"] for line in listed] == ["default", "mine"]
    for path in ("/readyz", "/v2/health/ready"):
        assert client.get(path).json()["models"] == {}
        assert set(client.get(path, headers=bearer(TOKENS[OBSERVE][0])).json()["models"]) == {"default", "mine"}
    monkeypatch.setattr(kept.engine, "stopping", True)
    assert client.get("/readyz").status_code == 503
    assert client.get("/readyz").json()["reasons"] == []


def test_a_key_without_the_default_model_has_no_short_routes(service: Whole) -> None:
    token, entry = made("k", [OBSERVE, PREDICT], ["mine"])
    with stocked(service, gate_of([entry], service)) as client:
        assert client.get("/predict?a=1", headers=bearer(token)).status_code == 404
        assert client.post("/observe", ROW, **bearer(token)).status_code == 404
        assert client.get("/models/mine/predict?a=1", headers=bearer(token)).status_code == 200


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/models/a/observe", ("/models/{model}/observe", "a")),
        ("/models/a", ("/models/{model}", "a")),
        ("/models/a/", ("/models/{model}/", "a")),
        ("/models//observe", ("/models/{model}/observe", "")),
        ("/models", ("/models", None)),
        ("/observe", ("/observe", "default")),
        ("/docs/x", ("/docs/{asset}", None)),
        ("/docs/x/y", ("/docs/x/y", None)),
        ("/observe/", ("/observe/", None)),
    ],
)
def test_a_path_is_placed(path: str, found: tuple[str, str | None]) -> None:
    assert place(path) == found


@pytest.mark.parametrize(
    "path", ["/models/mine%2Fobserve", "//observe", "/models/theirs%2fobserve", "/models/./theirs", "/OBSERVE"]
)
def test_paths_written_otherwise_open_nothing(client: Client, path: str) -> None:
    answer = client.get(path, headers=bearer(TOKENS[PREDICT][0]))
    if path == "//observe":  # a URL of another host, whose path is /
        assert (answer.status_code, answer.headers["location"]) == (307, "docs")
    else:
        assert answer.status_code in (404, 405)


# -- one key


def ring(*entries: KeyEntry) -> KeyRing:
    return ring_of(entries)


def test_a_malformed_key_is_refused_as_such() -> None:
    token, entry = made("k", [OBSERVE])
    other, _ = made("k", [OBSERVE])
    assert ring(entry).find(f"Bearer {token}".encode(), NOW_MS).id == "k"
    assert ring(entry).find(f"bearer {token}".encode(), NOW_MS).id == "k"
    wrong = [
        token[:-1],
        token[:20],
        other,
        token.replace("_k_", "_j_"),
        token + "A",
        token + " ",
        token.upper(),
        "",
        " ",
        "x" * 10_000,
    ]
    for bad in (*wrong, token.swapcase(), token[:-1] + ("A" if token[-1] != "A" else "B")):
        with pytest.raises(Unauthenticated) as caught:
            ring(entry).find(f"Bearer {bad}".encode(), NOW_MS)
        assert caught.value.code == "bad_key"
        assert len(bad) < 12 or bad not in caught.value.detail
    for header in (b"", token.encode(), b"Basic " + token.encode(), b"Bearer  " + token.encode(), b"Bearer\t" + token.encode()):
        with pytest.raises(Unauthenticated):
            ring(entry).find(header, NOW_MS)


def test_a_key_ends_when_it_expires() -> None:
    token, entry = made("k", [OBSERVE], expires=datetime.fromtimestamp(NOW_MS / 1000, UTC))
    assert ring(entry).find(f"Bearer {token}".encode(), NOW_MS - 1).id == "k"
    with pytest.raises(Unauthenticated) as caught:
        ring(entry).find(f"Bearer {token}".encode(), NOW_MS)
    assert caught.value.code == "key_expired"


def test_two_authorizations_are_refused(client: Client) -> None:
    headers = [("Authorization", f"Bearer {TOKENS[PREDICT][0]}"), ("Authorization", f"Bearer {TOKENS[ADMIN][0]}")]
    assert client.ask("GET", "/predict?a=1", headers=headers).status_code == 400


def test_keys_are_drawn_from_256_bits() -> None:
    tokens = {new_token("k") for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {len("riata_k_") + 43}


def test_what_is_compared_is_always_a_digest_of_the_whole_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """So timing cannot tell a close guess from a distant one: 32 bytes that the guess does not control are compared in constant
    time.
    """
    seen: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        seen.append((a, b))
        return a == b

    monkeypatch.setattr("riata.web.auth.keys.hmac.compare_digest", compare)
    token, entry = made("k", [OBSERVE])
    guesses = [token[:-1] + ("B" if token.endswith("A") else "A"), token[:8] + "A" * 43, f"riata_unknown_{'A' * 43}"]
    for guess in guesses:
        with pytest.raises(Unauthenticated):
            ring(entry).find(f"Bearer {guess}".encode(), NOW_MS)
    assert [len(a) for a, _ in seen] == [32] * len(guesses)
    assert [b for _, b in seen] == [bytes.fromhex(entry.sha256)] * 2 + [bytes(32)]


# -- the file


def write(path: Path, *entries: KeyEntry, mode: int = 0o640) -> Path:
    aside = path.with_suffix(".new")
    aside.write_text("\n".join(entry_text(entry) for entry in entries))
    aside.chmod(mode)
    os.replace(aside, path)
    return path


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    moment = datetime(2027, 1, 31, 12, tzinfo=UTC)
    entries = [made("a", [OBSERVE, PREDICT], ["x", "y"])[1], made("b", [ADMIN], "*", requests_per_s=2.5, expires=moment)[1]]
    assert read_keys(write(tmp_path / "keys", *entries)) == entries


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o440, 0o400])
def test_a_file_that_others_cannot_read_is_taken(tmp_path: Path, mode: int) -> None:
    assert read_keys(write(tmp_path / "keys", made("a", [OBSERVE])[1], mode=mode))


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o641, 0o666, 0o604])
def test_a_file_that_others_can_read_is_refused_with_the_command_that_helps(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "keys", made("a", [OBSERVE])[1], mode=mode)
    with pytest.raises(BadInput, match=f"chmod 640 {path}") as caught:
        read_keys(path)
    assert caught.value.code == "bad_keys_file"


GOOD = entry_text(made("good", [OBSERVE])[1])


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"key = ",
        b"[[key]]\nid = 'x'",
        b"[[keys]]",
        GOOD.replace('"observe"', '"write"').encode(),
        GOOD.replace('id = "good"', 'id = "Good"').encode(),
        GOOD.replace('"*"', '"mine"').encode(),
        GOOD.replace('"*"', '["Not A Name"]').encode(),
        GOOD.replace('["observe"]', "[]").encode(),
        (GOOD + GOOD).encode(),
        (GOOD + "expires = 2027-01-01T00:00:00").encode(),
        (GOOD + "requests_per_s = -1").encode(),
        (GOOD + "secret = 'x'").encode(),
        GOOD.replace("sha256 = \"", "sha256 = \"0").encode(),
    ],
)  # fmt: skip
def test_an_invalid_file_of_keys_is_refused(content: bytes) -> None:
    assert parse_keys(GOOD.encode(), "keys")
    with pytest.raises(BadInput) as caught:
        parse_keys(content, "keys")
    assert caught.value.code == "bad_keys_file"


def test_a_new_file_is_taken_and_a_bad_one_leaves_the_old_in_force(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = made("first", [OBSERVE]), made("second", [OBSERVE])
    path = write(tmp_path / "keys", first[1])
    file = KeysFile(path)
    file.load()
    assert not file.refresh()
    write(path, first[1], second[1])
    assert file.refresh()
    assert set(file.ring.keys) == {b"first", b"second"}
    write(path, second[1])
    assert file.refresh()
    assert set(file.ring.keys) == {b"second"}
    kept = file.ring
    path.write_text("not a file of keys")
    assert not file.refresh()
    assert not file.refresh()
    write(path, first[1], mode=0o644)
    assert not file.refresh()
    path.unlink()
    assert not file.refresh()
    assert file.ring is kept
    assert file.failures == 3, "each bad reading is counted and said once"
    assert len([record for record in caplog.records if "stay in force" in record.message]) == 3
    write(path, first[1])
    assert file.refresh()
    assert set(file.ring.keys) == {b"first"}


def test_a_running_service_takes_keys_back_within_the_time_of_a_look(
    tmp_path: Path, service: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "WATCH_S", 0.05)
    token, entry = made("k", [PREDICT])
    path = write(tmp_path / "keys", entry)
    file = KeysFile(path)
    file.load()
    with asking(service.app(Gate(service.clock, file, Buckets(0.0, 0.0)))) as client:
        assert client.get("/predict?a=1", headers=bearer(token)).status_code == 200
        write(path)
        deadline = time.monotonic() + 900
        while client.get("/predict?a=1", headers=bearer(token)).status_code == 200:
            assert time.monotonic() < deadline
        assert client.get("/predict?a=1", headers=bearer(token)).status_code == 401


# -- rates


def test_a_bucket_lets_through_its_rate_and_a_burst() -> None:
    bucket = Bucket(10.0)
    assert [bucket.take(0) for _ in range(int(10 * BURST_S))] == [0.0] * int(10 * BURST_S)
    assert bucket.take(0) == pytest.approx(0.1)
    assert bucket.take(100) == 0.0
    assert bucket.take(100) > 0.0
    assert sum(bucket.take(at) == 0.0 for at in range(100, 10_100)) == pytest.approx(100, abs=1)


def test_too_many_requests_get_retry_after(service: Whole) -> None:
    clock = service.clock
    token, entry = made("slow", [PREDICT], requests_per_s=1.0)
    free, other = made("free", [PREDICT])
    with asking(service.app(gate_of([entry, other], service, Buckets(100.0, 0.0)))) as client:
        statuses = [client.get("/predict?a=1", headers=bearer(token)).status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        refused = client.get("/predict?a=1", headers=bearer(token))
        assert refused.json()["code"] == "too_many_requests"
        assert refused.headers["retry-after"] == "1"
        assert client.get("/predict?a=1", headers=bearer(free)).status_code == 200
        assert client.get("/livez", headers=bearer(token)).status_code == 200
        clock.now_ms += 1000
        assert client.get("/predict?a=1", headers=bearer(token)).status_code == 200


def test_all_together_have_a_rate_without_any_key(service: Whole) -> None:
    gate = Gate(service.clock, None, Buckets(0.0, 2.0))
    with asking(service.app(gate)) as client:
        assert [client.get("/predict?a=1").status_code for _ in range(6)] == [200] * 4 + [429] * 2
        assert client.get("/readyz").status_code == 200


def test_buckets_are_kept_for_known_keys_only() -> None:
    buckets = Buckets(1.0, 0.0)
    for at in range(100):
        buckets.take(f"key-{at}", None, 0)
    buckets.forget({"key-1"})
    assert buckets.take("key-1", None, 0) == 0.0
    assert buckets.take("key-1", None, 0) > 0.0, "the bucket of a key that stays is not refilled"
    assert len(buckets._of) == 1


# -- the client


def test_the_client_sends_its_key(service: Whole) -> None:
    with stocked(service, gate_of([TOKENS[PREDICT][1]], service)) as client:

        def handle(request: httpx.Request) -> httpx.Response:
            answer = client.ask(
                request.method, str(request.url.raw_path.decode()), content=request.content, headers=request.headers
            )
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        transport = httpx.MockTransport(handle)
        with Riata("http://t", transport=transport, api_key=TOKENS[PREDICT][0]) as riata:
            assert riata.predict([{"features": {"a": 1}}], model="mine")
            with pytest.raises(ApiNotFound):
                riata.predict([{"features": {"a": 1}}], model="theirs")
            with pytest.raises(ApiRefused) as caught:
                riata.create_model("mine", {})
            assert caught.value.status == 403
        with Riata("http://t", transport=transport) as riata, pytest.raises(ApiRefused) as caught:
            riata.version()
        assert caught.value.status == 401
        with pytest.raises(BadInput):
            Riata("http://t", api_key="a\nb")


def test_a_key_of_some_models_follows_and_promotes_no_other_and_sees_none(
    client: Client, kept: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = bearer(TOKENS[ADMIN][0])
    bodies: list[tuple[str, str, dict[str, str]]] = [
        ("PUT", "/models/mine", {"follow": ""}),
        ("POST", "/models/mine/promote", {"challenger": ""}),
    ]
    for method, path, body in bodies:
        (name,) = body
        answers = [client.ask(method, path, json={name: other}, headers=headers) for other in ("theirs", "nobodys")]
        assert [(one.status_code, one.json()["code"]) for one in answers] == [(404, "model_not_found")] * 2
        assert answers[0].content == answers[1].content
        assert client.ask(method, path, json={name: "default"}, headers=headers).status_code != 404
    figures = {"learner": {}, "events": 0, "non_zeros": 0, "measure": "log loss", "compared": 0, "past": None}
    figures |= dict.fromkeys(("difference", "standard_error", "interval"))
    told = kept.service.describe("mine") | {"challengers": [{"name": "default", **figures}, {"name": "theirs", **figures}]}
    monkeypatch.setattr(kept.service, "describe", lambda _model: told)
    for token, names in ((TOKENS[WATCH][0], ["default"]), (OF_EVERY_MODEL[WATCH][0], ["default", "theirs"])):
        answer = client.get("/models/mine", headers=bearer(token)).json()
        assert [one["name"] for one in answer["challengers"]] == names
