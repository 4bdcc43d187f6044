"""Runs the application behind a real socket, in a thread."""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
import requests
from fastapi import FastAPI
from starlette.types import ASGIApp

from riata.base.errors import Unavailable
from riata.run.admin import Admin
from riata.run.candidates.refits.refit import Refit
from riata.run.candidates.refits.request import read_request
from riata.run.jobs.jobs import Job
from riata.run.service import Service
from riata.store.payload import decode_batch
from riata.store.retention import is_saved
from riata.store.store import Store
from riata.web.app import OnStartFailed, create_app
from riata.web.auth.gate import Gate
from riata.web.server.bounds import ListenerState
from riata.web.server.server import build_server, run
from riata.wiring import build_engine
from tests.doubles.manual_clock import ManualClock
from tests.running import wait_for
from tests.settings import SERVICE, connection_bounds, web_settings
from tests.web.asking import Client, asking

T = TypeVar("T")

START_S_MAX = 900.0


@contextmanager
def serving(app: ASGIApp, graceful_stop_s: int = 5, front: ListenerState | None = None) -> Iterator[int]:
    """Serve `app` on a free port of the loopback interface for the duration of the block; yields the port."""
    server = build_server(app, "127.0.0.1", 0, graceful_stop_s, front or ListenerState(connection_bounds()))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=run, args=(server, [listening]), name="test-server")
        thread.start()
        try:
            deadline = time.monotonic() + START_S_MAX
            while not server.started and thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


class Whole:
    """The whole service on a store in memory, and what tests look at. It starts and stops with an application of it.

    clock : that of its applications; the engine has the system's
    """

    def __init__(self, now_ms: int = 10_000, **settings: Any) -> None:
        self.fatal: list[str] = []
        self.clock = ManualClock(now_ms)
        self.engine = build_engine(SERVICE.model_copy(update={"refit_nice": 0, **settings}), self.fatal.append)
        self.service, self.admin = Service(self.engine), Admin(self.engine)

    def app(self, gate: Gate | None = None, told: OnStartFailed | None = None, **settings: Any) -> FastAPI:
        """Build an application with these settings of the HTTP server."""
        return create_app(self.service, self.admin, web_settings(**settings), self.clock, told, gate)

    def logged(self, model: str = "default") -> int:
        """The last event of the log of a model."""
        return self.engine.served_model(model).logged

    def call(self, work: Callable[[Store], T]) -> T:
        """What `work` returns of the store, in the store's thread."""
        return self.engine.context.log_thread.call(work).result()

    def refuse(self, error: Unavailable) -> None:
        """Have the store report `error` when it is asked whether events may be written, until the end of the service."""

        def refusals() -> list[str]:
            raise error

        self.call(lambda store: setattr(store, "refusals", refusals))
        self.engine.watch.kick()
        while self.engine.watch.refusal is None:
            time.sleep(0.001)

    @contextmanager
    def unchanged(self, client: Client) -> Iterator[None]:
        """Keep jobs of the default model from beginning, and requests from waiting for them."""
        changing, self.service.jobs.patience_s = self.engine.served_model("default").changing, 0.0
        client.runner.run(changing.acquire())
        yield
        changing.release()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work` in the event loop of a server in another thread."""
        assert self.engine.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.engine.loop).result()

    def state(self) -> list[Any]:
        """Everything that a request could have changed."""

        def look(store: Store) -> list[Any]:
            return [
                (name, store.head(name), [one.gen for one in store.generations(name) if is_saved(one)], store.remembered(name))
                for name in store.models()
            ]

        return self.call(look)

    async def stock(self, *models: str) -> None:
        """Have these models, each with a snapshot 1 and a refit r1, and of the first a job f1."""
        for name in models:
            if name not in self.models or 1 not in [one["generation"] for one in await self.admin.snapshots(name)]:
                if name in self.models - {"default"}:
                    await self.admin.drop_model(name)
                await self.admin.put_model(name, {})
                await self.admin.snapshot_now(name)
            lineage = self.engine.served_model(name).lineage.hex()
            refit = Refit(Job("r1", "refit", name, lineage, {}, 0, state="done"), read_request({}), 0)
            self.service.refits._refits[name] = [refit]
        lineage = self.engine.served_model(models[0]).lineage.hex()
        self.service.jobs.put(Job("f1", "forget", models[0], lineage, {}, 0, state="done"))

    def event_ids(self) -> list[bytes]:
        """The ids of the events in the log of the default model."""
        records = self.call(lambda store: store.read("default", 0))
        return [row.tobytes() for one in records if one.kind == "observe" for row in decode_batch(one.payload).event_id]

    def kept(self) -> int:
        """How many predictions of the default model are remembered."""
        return self.call(lambda store: store.remembered("default")[0])

    @property
    def models(self) -> set[str]:
        """The names of the models."""
        return set(self.engine.served_models)

    @property
    def ready(self) -> bool:
        """Whether requests are answered."""
        return self.service.health().ready

    def until_ready(self) -> None:
        """Return when another thread has started it."""
        deadline = time.monotonic() + START_S_MAX
        while not self.ready:
            assert time.monotonic() < deadline
            time.sleep(0.002)


@functools.cache
def exported() -> bytes:
    """The export of a model that has learnt nothing."""
    with asking(Whole().app()) as client:
        return client.get("/models/default/export").content


def real_app() -> FastAPI:
    """An application of a service that no test looks into."""
    whole = Whole()
    return create_app(whole.service, whole.admin, web_settings(), whole.engine.clock)


def wait_until_ready(url: str, session: requests.Session) -> None:
    """Return when the service accepts requests."""
    deadline = time.monotonic() + START_S_MAX
    while session.get(f"{url}/readyz").status_code != 200:
        if time.monotonic() > deadline:
            raise TimeoutError(url)
        time.sleep(0.05)


@contextmanager
def answering() -> Iterator[httpx.Client]:
    """Serve a real application on a store in memory, with a client of it, once it is ready."""
    with serving(real_app()) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
        wait_for("the service is ready", lambda: client.get("/readyz").status_code == 200)
        yield client


@contextmanager
def answering_at() -> Iterator[str]:
    """The URL of a service like `answering`."""
    with answering() as client:
        yield str(client.base_url).rstrip("/")
