"""The first minutes with a service: what it says when it starts, what it leaves on the disk, and how it is stopped."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from riata.base.directories import NOT_FOR_OTHERS
from riata.base.settings import Settings
from riata.web.auth.keys import KeyEntry, digest_of, new_token
from riata.wiring import what_to_try
from tests.running import HANG_S, ROOT, Running
from tests.web.attack.test_keys import write


def test_a_directory_in_use_is_told_before_anything_is_served(tmp_path: Path) -> None:
    with Running(tmp_path / "data") as first, Running(tmp_path / "data") as second:
        first.start()
        second.start(wait=False)
        assert second.wait() != 0
        said = (tmp_path / "data.log").read_text()  # of both
        assert "is in use by another process" in said
        assert said.count("serving on") == 1
        assert httpx.get(f"{first.url}/readyz").status_code == 200


def test_once_it_is_ready_the_log_says_what_to_try(tmp_path: Path) -> None:
    with Running(tmp_path / "data") as running:
        running.start()
        while "ready for requests" not in running.output():
            time.sleep(0.02)
        assert f"the API is at {running.url}/docs; the console is at {running.url}/console; `make demo`" in running.output()
        assert httpx.get(f"{running.url}/docs").status_code == 200
        assert httpx.get(f"{running.url}/console", follow_redirects=True).status_code == 200


def test_what_is_turned_off_is_not_named() -> None:
    at = "http://h:1"
    assert "/docs" not in what_to_try(Settings(docs=False), at)
    assert "/console" not in what_to_try(Settings(console=False), at)
    replica = Settings(docs=False, console=False, role="replica", store="redis://localhost:6379/0")
    assert what_to_try(replica, at) == "ready for requests: http://h:1"


def test_nothing_beside_the_store_is_open_to_others(tmp_path: Path) -> None:
    token = new_token("all")
    scopes = ["admin", "observe", "predict"]
    keys = write(tmp_path / "keys.toml", KeyEntry("all", digest_of(token), scopes, "*", events_a_day=10**6))
    environment = {"RIATA_KEYS_FILE": str(keys), "RIATA_ARCHIVE_BYTES_MAX": "1000000", "RIATA_LOG_KEEP_EVENTS": "0"}
    auth, data = {"Authorization": f"Bearer {token}"}, tmp_path / "data"
    rows = "".join(f'{{"features":{{"a":{i}}},"label":{i % 2}}}\n' for i in range(500))
    with Running(data, environment) as running, httpx.Client(base_url=running.url, headers=auth, timeout=HANG_S) as client:
        running.start()
        for _ in range(4):
            answer = client.post("/observe?wait=applied", content=rows, headers={"Content-Type": "application/x-ndjson"})
            assert answer.status_code == 200
            assert client.post("/models/default/snapshots").status_code == 201
        assert client.post("/backup").status_code in (200, 201)
        assert running.stop() == 0
    made = {path.relative_to(data): path.stat().st_mode for path in data.rglob("*")}
    assert {"riata.db", "riata.witness", "usage.json"} <= {path.name for path in made}
    assert any("backup" in part for path in made for part in path.parts[:1])
    made[Path()] = data.stat().st_mode
    assert {str(path): stat.filemode(mode) for path, mode in made.items() if mode & NOT_FOR_OTHERS} == {}


STUBBORN = """
import os, signal, sys, time
got = []
for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(one, lambda number, _frame: got.append(signal.Signals(number).name))
open(sys.argv[1], "w").write(str(os.getpid()))
while not got:
    time.sleep(0.02)
time.sleep(0.5)
open(sys.argv[1] + ".ended", "w").write(" ".join(got))
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_make_run_is_one_to_the_service_which_ends_by_itself(how: signal.Signals, tmp_path: Path) -> None:
    binaries, note = tmp_path / "bin", tmp_path / "pid"
    binaries.mkdir()
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (binaries / "riata").write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path}/stubborn.py {note}\n")
    (binaries / "riata").chmod(0o755)
    command = ["make", "--no-print-directory", "-o", "setup", "run", f"BIN={binaries}"]
    at_a_terminal = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell ignores it for what it runs in the background
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, preexec_fn=at_a_terminal) as made:
        while not (note.exists() and note.read_text()):
            time.sleep(0.02)
        if how == signal.SIGTERM:
            made.send_signal(how)
        else:
            os.killpg(made.pid, how)  # as a terminal does
        made.wait(HANG_S)
    ended, process = Path(f"{note}.ended"), Path(f"/proc/{note.read_text()}")
    while process.exists():
        time.sleep(0.02)
    assert ended.exists(), "the service ended without its handler"
    assert ended.read_text() == "SIGTERM"


def test_make_run_ends_as_a_service_that_fails_by_itself(tmp_path: Path) -> None:
    script = ROOT / "deploy" / "run-until-stopped"
    assert subprocess.run(["sh", script, "sh", "-c", "exit 70"], check=False).returncode == 70
    assert subprocess.run(["sh", script, "true"], check=False, cwd=tmp_path).returncode == 0
