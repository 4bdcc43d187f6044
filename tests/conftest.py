"""Fixtures shared by all tests."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import httpx._transports.default as httpx_transport
import pytest
from hypothesis import HealthCheck, settings

from tests.lacking import summary
from tests.tiers import EVERY_DAY, FULL

ROOT = Path(__file__).parent
# No example has to be done within some time: any may wait for a core.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# Each call of `httpx.get` reads the certificates of all authorities: 20 ms of processor time, also for http://. Once is enough.
httpx_transport.create_ssl_context = functools.cache(httpx_transport.create_ssl_context)  # type: ignore[attr-defined]


# Folders whose tests take longest, for a process or a browser each: they come first, so that all workers end together.
LONG = ("chaos", "fuzz", "run", "upgrades", "cli", "simulation", "deploy", "docs", "web", "store", "mutants")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a module of which no test is run: each worker would."""
    name = collection_path.relative_to(ROOT).as_posix()
    whole = name.startswith(FULL) and not any(test.startswith(name) for test in EVERY_DAY)
    return True if whole and "not full" in config.getoption("markexpr") else None


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of FULL, and put the folders of LONG first, in its order."""

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT).parts[0]
        return LONG.index(folder) if folder in LONG else len(LONG)

    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name.startswith(FULL) and not name.startswith(EVERY_DAY):
            item.add_marker("full")
    items.sort(key=rank)  # stable: files and their tests keep their order


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Sum up the tests that were skipped because a program is missing."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    if said := summary(found[2] for found in skipped if isinstance(found, tuple)):
        terminalreporter.write_line(said)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What runs tests that are coroutines."""
    return "asyncio"


@pytest.fixture
def few_events_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard errors exist after a few events: for tests of what becomes of them."""
    monkeypatch.setattr("riata.predict.uncertainty.EVIDENCE_MIN", 0.0)


@pytest.fixture(autouse=True)
def priority_is_kept() -> Iterator[None]:
    """A test that lowers the priority of its thread slows down all tests after it: the system does not let it be raised again."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    assert os.getpriority(os.PRIO_PROCESS, 0) == before, "the test has lowered the priority of its process"
