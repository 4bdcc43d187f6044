"""The machine of `tests.fuzz.machine` against real processes: one on SQLite, and web and writer on Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.machine import Client
from tests.fuzz.worlds import OneProcess, WebAndWriter
from tests.redis_server import redis_version

WORLDS = {"sqlite": OneProcess, "redis": WebAndWriter}
NEEDS_REDIS = pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
BOTH = pytest.mark.parametrize("world", ["sqlite", pytest.param("redis", marks=NEEDS_REDIS)])


@contextmanager
def machine(world: str, directory: Path) -> Iterator[type[Client]]:
    """A machine on a running service."""
    with ExitStack() as stack:
        yield type("There", (Client,), {"world": WORLDS[world](directory, stack)})


@contextmanager
def told(there: type[Client]) -> Iterator[None]:
    """If something fails, report how it failed first."""
    there.failures.clear()
    try:
        yield
    except Exception:
        pytest.fail("\n".join(there.failures[:1]) or "failed outside of the machine's steps")


def run(world: str, directory: Path, sequences: int, steps: int, seeded: int) -> None:
    with machine(world, directory) as there, told(there):
        run_state_machine_as_test(
            seed(seeded)(there),
            settings=settings(
                max_examples=sequences, stateful_step_count=steps, deadline=None, database=None,
                phases=[Phase.generate], suppress_health_check=list(HealthCheck),
            ),
        )  # fmt: skip


@BOTH
def test_a_dictionary_foretells_every_answer(world: str, tmp_path: Path) -> None:
    run(world, tmp_path, sequences=2, steps=9, seeded=13)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@BOTH
def test_a_dictionary_foretells_every_answer_for_long(world: str, tmp_path: Path) -> None:
    run(world, tmp_path, sequences=40, steps=40, seeded=12)
