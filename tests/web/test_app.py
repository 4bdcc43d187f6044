"""Starting and stopping."""

from __future__ import annotations

from threading import Event

import pytest

from riata.base.errors import Conflict
from riata.wiring import OPENERS
from tests.web.asking import asking
from tests.web.serving import Whole


def test_the_service_is_stopped_after_it_was_started(service: Whole) -> None:
    with asking(service.app()) as client:
        assert client.get("/livez").status_code == 200
        assert (service.engine.started, service.engine.stopping) == (True, False)
    assert service.engine.stopping
    assert not service.fatal


def test_a_service_is_stopped_while_it_starts(service: Whole, opening: Event) -> None:
    with asking(service.app(), ready=False) as client:
        assert client.get("/livez").status_code == 200
        assert client.get("/startupz").status_code == 503
        opening.set()
    assert service.engine.stopping


def test_a_failed_start_is_reported_once(service: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BaseException] = []

    def locked(_settings: object) -> None:
        raise Conflict("another process owns the directory", "directory_locked")

    monkeypatch.setitem(OPENERS, "memory", locked)
    with asking(service.app(told=told.append), ready=False) as client:
        while not told:
            client.get("/livez")
    assert [str(error) for error in told] == ["another process owns the directory"]


def test_the_docs_can_be_left_out(service: Whole) -> None:
    with asking(service.app(docs=False), ready=False) as client:
        assert client.get("/docs").status_code == 404
        assert client.get("/openapi.json").status_code == 404
