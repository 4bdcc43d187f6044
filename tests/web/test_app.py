"""Starting and stopping."""

from __future__ import annotations

import asyncio
import threading

import pytest

from riata.base.errors import Conflict
from riata.web.app import create_app
from tests.doubles.manual_clock import ManualClock
from tests.settings import web_settings
from tests.web.asking import asking
from tests.web.fake_service import FakeService


def test_the_service_is_stopped_once_and_after_it_was_started() -> None:
    service = FakeService(ManualClock())
    with asking(create_app(service, service, web_settings(), service.clock)) as client:
        assert client.get("/livez").status_code == 200
    assert (service.started, service.stopped) == (1, 1)


def test_probes_answer_while_the_service_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    service = FakeService(ManualClock())
    service.is_ready = False

    asked = threading.Event()

    async def slow() -> None:
        while not asked.is_set():
            await asyncio.sleep(0.01)
        service.is_ready = True

    monkeypatch.setattr(service, "start", slow)
    with asking(create_app(service, service, web_settings(), service.clock)) as client:
        assert client.get("/livez").status_code == 200
        assert client.get("/startupz").status_code == 503
        asked.set()
    assert (service.is_ready, service.stopped) == (True, 1)


def test_a_failed_start_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    service = FakeService(ManualClock())
    told: list[BaseException] = []

    async def fail() -> None:
        raise Conflict("another process owns the directory", "directory_locked")

    monkeypatch.setattr(service, "start", fail)
    with asking(create_app(service, service, web_settings(), service.clock, told.append)) as client:
        client.get("/livez")
    assert [str(error) for error in told] == ["another process owns the directory"]


def test_the_docs_can_be_left_out() -> None:
    service = FakeService(ManualClock())
    with asking(create_app(service, service, web_settings(docs=False), service.clock)) as client:
        assert client.get("/docs").status_code == 404
        assert client.get("/openapi.json").status_code == 404
