"""Checkpoints that cannot be read back: reported, counted, never verified. Nothing is dropped for them, and the service
continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from riata.base.errors import Corrupt, Unavailable
from riata.watch.progressive import Curve, Progressive
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, events, serving
from tests.settings import retention

_thaw = Progressive.thaw


def _refuse(_self: Curve, *_: object) -> None:
    raise Corrupt("learning curve: points are out of order")


def _forget_refusals(self: Progressive, *args: Any) -> None:
    """Thaw to a different state: one more refusal."""
    _thaw(self, *args)
    self._refused += 1


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "refused": (Curve, "thaw", _refuse),
    "taken for another": (Progressive, "thaw", _forget_refusals),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_checkpoint_that_cannot_be_read_back_is_not_verified(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with serving(MemoryStore(), {**SMALL, "checkpoint_every_s": 3600}) as node:
        node.engine.learning._checkpointer._retention = retention(generations=0, events=0)  # type: ignore[union-attr]  # all may go that may
        tally, store = node.engine.context.tally, node.store
        await node.admin.change("default", {"checkpoint_every_s": 3600})  # its failures would be counted too
        await node.observe(events(30))
        monkeypatch.setattr(*FAULTS[fault])
        for tries in (1, 2, 3, 4):
            with pytest.raises(Unavailable, match="the snapshot was not written") as caught:
                await node.admin.snapshot_now("m")
            assert caught.value.code == "checkpoint_failed"
            assert [one.verified for one in store.generations("m")] == [False]  # one, however often it is tried
            assert (tally.checkpoints_failed, tally.generations_corrupt) == (tries, 1)
            await node.observe(events(5, seed=tries))
        assert store.head("m").first_seq == 1
        assert "m: a snapshot cannot be read back, so the log is kept" in caplog.text
        assert not node.fatal
        assert node.service.published("m").applied == 51
        monkeypatch.undo()
        assert (await node.admin.snapshot_now("m"))["verified"]
        assert [one.verified for one in store.generations("m")] == [True, False]
