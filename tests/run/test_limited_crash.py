"""Crashes while limits of columns are sought: what is served afterwards has the same bits."""

from __future__ import annotations

from typing import Any

import pytest

from riata.learn.learner import Weights
from tests.doubles.memory_store import MemoryStore
from tests.run.node import Node, run_with
from tests.run.refit_rows import rows

ROWS = rows(300)
for row in ROWS[::20]:
    row["features"]["x"] = 999.0


def served(kind: str, cuts: list[int]) -> Weights:
    """What is served after all rows, with a crash after each of the cuts; the state is saved at row 100 only."""
    store, found = MemoryStore(), list[Weights]()
    for start, stop in zip([0, *cuts], cuts, strict=False):

        async def observe(node: Node, rows: list[dict[str, Any]] = ROWS[start:stop], save: bool = stop == 100) -> None:
            await node.observe(rows)
            if save:
                await node.engine.save("m")
            found.append(node.service.published("m").model.weights)

        run_with(store, observe, {"publish_every_ms": 1, "learner": {"kind": kind}})
        store = store.crash()
    return found[-1]


@pytest.mark.parametrize("kind", ["truncated_gradient", "ftrl_proximal", "taylor_sketch"])
def test_crashes_before_limits_are_found_change_no_bit(kind: str) -> None:
    whole, crashed = served(kind, [300]), served(kind, [60, 100, 127, 140, 300])
    assert whole.apart is not None
    assert crashed.apart is not None
    assert whole.apart.value.tolist() == [999.0]
    assert {name: array.tobytes() for name, array in crashed.apart.parts().items()} == {
        name: array.tobytes() for name, array in whole.apart.parts().items()
    }
    assert crashed.beta.tobytes() == whole.beta.tobytes()
    assert crashed.intercept == whole.intercept
