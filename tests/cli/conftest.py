"""A service that really runs, for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.running import Running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("served") / "data") as running:
        running.start()
        yield running
