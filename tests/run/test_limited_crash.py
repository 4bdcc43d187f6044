"""Crashes while limits of columns are sought: what is served afterwards has the same bits."""

from __future__ import annotations

import pytest

from riata.learn.learner import Weights
from tests.doubles.memory_store import MemoryStore
from tests.run.node import serving
from tests.run.refit_rows import rows

ROWS = rows(300)
for row in ROWS[::20]:
    row["features"]["x"] = 999.0


async def served(kind: str, cuts: list[int]) -> Weights:
    """What is served after all rows, with a crash after each of the cuts; the state is saved at row 100 only."""
    store = MemoryStore()
    for start, stop in zip([0, *cuts], cuts, strict=False):
        async with serving(store, {"publish_every_ms": 1, "learner": {"kind": kind}}) as node:
            await node.observe(ROWS[start:stop])
            if stop == 100:
                await node.engine.save("m")
            found = node.service.published("m").model.weights
        store = store.crash()
    return found


@pytest.mark.parametrize("kind", ["truncated_gradient", "ftrl_proximal", "taylor_sketch"])
async def test_crashes_before_limits_are_found_change_no_bit(kind: str) -> None:
    whole, crashed = await served(kind, [300]), await served(kind, [60, 100, 127, 140, 300])
    assert whole.apart is not None
    assert crashed.apart is not None
    assert whole.apart.value.tolist() == [999.0]
    assert {name: array.tobytes() for name, array in crashed.apart.parts().items()} == {
        name: array.tobytes() for name, array in whole.apart.parts().items()
    }
    assert crashed.beta.tobytes() == whole.beta.tobytes()
    assert crashed.intercept == whole.intercept
