"""Checkpoints that cannot be read back: reported, counted, never verified. Nothing is dropped for them, and the service
continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from riata.base.errors import Corrupt, Unavailable
from riata.run.state.model_state import Frozen, ModelState
from riata.run.writer import checkpointer
from riata.store import layout
from riata.store.store import Generation
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


async def save_what_cannot_be_read(fault: str, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Learn and save with a fault, then without it. Raises `AssertionError` if a result is wrong."""
    caplog.set_level(logging.ERROR)
    async with serving(MemoryStore(), {**SMALL, "checkpoint_every_s": 3600}) as node:
        node.engine.learning._checkpointer._retention = retention(generations=0, events=0)  # type: ignore[union-attr]  # all may go that may
        tally, store = node.engine.context.tally, node.store
        await node.admin.change("default", {"checkpoint_every_s": 3600})  # its failures would be counted too
        await node.observe(events(30))
        patch.setattr(*FAULTS[fault])
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
        patch.undo()
        assert (await node.admin.snapshot_now("m"))["verified"]
        assert [one.verified for one in store.generations("m")] == [True, False]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_checkpoint_that_cannot_be_read_back_is_not_verified(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await save_what_cannot_be_read(fault, monkeypatch, caplog)


def _decode_only(generation: Generation, content: bytes) -> ModelState | None:
    """The former check of a checkpoint: the bytes are those that were written."""
    if Frozen(*layout.decode_checkpoint(content)).digest() != generation.state_digest:
        raise Corrupt("other bits")
    return None


def _thaw_only(_generation: Generation, content: bytes) -> ModelState:
    return ModelState.of(content)


@pytest.mark.parametrize(
    ("fault", "check"),
    [("refused", _decode_only), ("taken for another", _decode_only), ("taken for another", _thaw_only)],
)
async def test_a_check_that_does_not_thaw_or_does_not_compare_is_noticed(
    fault: str, check: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as faults:
        patch.setattr(checkpointer, "check_generation", check)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await save_what_cannot_be_read(fault, faults, caplog)
