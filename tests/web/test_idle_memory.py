"""When memory is returned to the system, and by which thread."""

from __future__ import annotations

import asyncio
import os
import threading

from riata.base.process import resident_bytes
from riata.web.server.body import (
    BURST_BYTES,
    GAIN_BYTES,
    IDLE_TRIMS,
    NICENESS,
    SMALL_BYTES,
    Bodies,
    IdleMemory,
    Quiet,
    RenewedPool,
)

MIB = 2**20


def settled() -> Quiet:
    """The state after the memory of the start has been returned."""
    quiet = Quiet()
    for _ in range(IDLE_TRIMS):
        assert quiet.may_trim(0)
        quiet.trimmed(0)
    assert not quiet.may_trim(0)
    return quiet


def test_a_burst_is_followed_by_trims_as_long_as_they_help() -> None:
    quiet = settled()
    assert not quiet.may_trim(400 * MIB)  # under way
    assert not quiet.may_trim(101 * MIB)
    for gained in (GAIN_BYTES, 0, GAIN_BYTES, 0, GAIN_BYTES - 1):
        assert quiet.may_trim(0)
        quiet.trimmed(gained)
    assert not quiet.may_trim(0)


def test_a_steady_load_and_a_small_one_are_not_trimmed() -> None:
    quiet = settled()
    for most in [40 * MIB, 30 * MIB, 35 * MIB] * 5:
        assert not quiet.may_trim(most)
    quiet = settled()
    for most in [BURST_BYTES - 1, 0] * 5:
        assert not quiet.may_trim(most)


def test_the_peak_is_reported_once_and_small_bodies_are_not_counted() -> None:
    bodies = Bodies(10 * MIB)
    scope: dict[str, object] = {}
    bodies.take(scope, SMALL_BYTES)
    assert bodies.held == 0
    bodies.take(scope, 9 * MIB)
    assert not bodies.take_bytes(2 * MIB)
    bodies.take({}, SMALL_BYTES)  # however little room there is
    bodies.give_back(scope)
    assert (bodies.held, bodies.most_since(), bodies.most_since()) == (0, 9 * MIB, 0)


def test_its_threads_come_after_the_event_loop() -> None:
    pool = RenewedPool(1, "priority")
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert pool.submit(os.getpriority, os.PRIO_PROCESS, 0).result(60) == max(before, NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    pool.shutdown()


def test_a_renewed_pool_ends_its_threads_and_does_what_waits() -> None:
    pool, go = RenewedPool(1, "renewed"), threading.Event()
    first = pool.submit(lambda: (go.wait(900), threading.current_thread())[1])
    second = pool.submit(threading.current_thread)
    pool.renew()
    new = pool.submit(threading.current_thread).result(900)
    go.set()
    old = first.result(900)
    assert new is not old
    assert second.result(900) is old
    old.join(900)
    assert not old.is_alive()
    pool.shutdown()


def test_freed_memory_is_returned_after_a_burst() -> None:
    async def burst() -> tuple[int, int]:
        bodies, pool = Bodies(2**30), RenewedPool(1, "burst")
        kept = [bytes(4096) for _ in range(50_000)]  # blocks that the heap keeps when they are freed
        last = bytes(4096)
        del kept
        before = resident_bytes()
        assert bodies.take_bytes(BURST_BYTES)
        bodies.give_bytes(BURST_BYTES)
        watching = asyncio.create_task(IdleMemory(bodies, pool, look_s=0.01).watch())
        until = asyncio.get_running_loop().time() + 20
        while resident_bytes() > before - 100 * MIB and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.05)
        watching.cancel()
        pool.shutdown()
        return before, resident_bytes() + 0 * len(last)

    before, after = asyncio.run(burst())
    assert after < before - 100 * MIB
