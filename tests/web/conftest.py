"""Fixtures of this package: an application on a service in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from riata.web.app import create_app
from tests.doubles.manual_clock import ManualClock
from tests.settings import web_settings
from tests.web.asking import Client, asking
from tests.web.fake_service import FakeService

BODY_BYTES_MAX = 256 * 1024  # small, so that tests of the bound are fast; above the bound for parsing in a thread


@pytest.fixture
def service() -> FakeService:
    return FakeService(ManualClock(10_000))


@pytest.fixture
def client(service: FakeService) -> Iterator[Client]:
    settings = web_settings(body_bytes_max=BODY_BYTES_MAX, import_bytes_max=BODY_BYTES_MAX, body_deadline_s=0.2)
    with asking(create_app(service, service, settings, service.clock)) as found:
        yield found
