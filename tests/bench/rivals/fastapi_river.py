"""The service most people would write: FastAPI, pydantic models, river's LogisticRegression, SQLite with a commit a request.

The commit is durable (WAL, synchronous=FULL) and comes before the model learns and before the answer. Endpoints are `async def`:
with one worker and a model that one thread at a time may touch, that is the faster way; in FastAPI's thread pool requests
would also wait for a lock. uvicorn serves it with uvloop, httptools, one worker and no access log.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil
from fastapi import FastAPI, Request
from pydantic import BaseModel
from river import linear_model, optim

from tests.bench.rivals.vw import RivalFailed
from tests.running import ROOT, free_port

APPLICATION: Final = "tests.bench.rivals.fastapi_river:create_app"
DATABASE: Final = "RIVAL_DATABASE"  # environment variable that names the file
READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 10.0
PROBE_S: Final = 0.02
RATE: Final = 0.05  # of river's SGD


class Features(BaseModel):
    """The row to predict."""

    features: dict[str, float]


class Example(Features):
    """The row to learn."""

    label: int


class Observed(BaseModel):
    """Answer: the number of the event."""

    seq: int


class Prediction(BaseModel):
    """Answer: the probability of label 1."""

    probability: float


def create_app() -> FastAPI:
    """Build the application over the database named in the environment."""
    database = sqlite3.connect(os.environ[DATABASE], isolation_level=None)  # every statement commits
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, label INTEGER NOT NULL, features TEXT NOT NULL)"
    )
    model = linear_model.LogisticRegression(optimizer=optim.SGD(RATE))
    app = FastAPI()

    @app.post("/observe", response_model=Observed)
    async def observe(example: Example) -> Observed:
        row = (example.label, json.dumps(example.features))
        seq = database.execute("INSERT INTO events (label, features) VALUES (?, ?)", row).lastrowid
        model.learn_one(example.features, bool(example.label))
        return Observed(seq=seq or 0)

    @app.post("/predict", response_model=Prediction)
    async def predict(query: Features) -> Prediction:
        return Prediction(probability=model.predict_proba_one(query.features)[True])

    @app.get("/predict", response_model=Prediction)
    async def predict_query(request: Request) -> Prediction:
        features = {name: float(value) for name, value in request.query_params.items()}
        return Prediction(probability=model.predict_proba_one(features)[True])

    @app.get("/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    return app


class FastapiRiver:
    """Context manager: the service in a separate process over a fresh database, on `port` of 127.0.0.1, as most people start it.

    It takes POST /observe {"features": {"a": 1}, "label": 1}, POST /predict and GET /predict?a=1.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="riata-rival-")
        self._database = Path(self._folder.name) / "events.sqlite"
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _stop

    def events(self) -> int:
        """Number of events that are durable in the database."""
        with closing(sqlite3.connect(self._database)) as database:
            return int(database.execute("SELECT count(*) FROM events").fetchone()[0])

    @property
    def pid(self) -> int:
        """Number of its process."""
        if self._process is None:
            raise RivalFailed(f"{APPLICATION} is not running")
        return self._process.pid

    def cpu_s(self) -> float:
        """User and system seconds it has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "uvicorn", APPLICATION, "--factory"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--loop", "uvloop", "--http", "httptools", "--workers", "1"]
        command += ["--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "600"]
        paths = os.pathsep.join((str(ROOT / "service"), str(ROOT)))
        environment = {**os.environ, "PYTHONPATH": paths, DATABASE: str(self._database)}
        self._process = subprocess.Popen(command, stdout=self._said, stderr=self._said, env=environment)
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise RivalFailed(f"{APPLICATION} ended:\n{self._output()}")
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/ready")
                if connection.getresponse().status == http.HTTPStatus.OK:
                    return
            except OSError:
                time.sleep(PROBE_S)
            finally:
                connection.close()
        raise RivalFailed(f"{APPLICATION} does not answer after {READY_S_MAX:.0f} s:\n{self._output()}")

    def _output(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-4000:]

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._said.close()
        self._folder.cleanup()
