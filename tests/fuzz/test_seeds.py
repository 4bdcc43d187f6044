"""Every input kept, and every ordinary one, once more through its target, within the bounds of time and memory."""

from __future__ import annotations

import pytest

from tests.fuzz.oracle import UNIT, UNITS_MAX, Greedy, Slow, check
from tests.fuzz.run import SEEDS, TARGETS, load, seeds


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs_are_read_or_refused_as_declared(target: str) -> None:
    module = load(target)
    for data in module.starts():
        module.one_input(data)  # loads kernels, outside the bounds
    for data in [*module.starts(), *seeds(target)]:
        check(module.one_input, data)


def _ignored(_: object) -> None:
    pass


def test_kept_inputs_belong_to_a_target() -> None:
    assert {path.name for path in SEEDS.iterdir()} <= TARGETS.keys()


def test_the_bounds_see_what_is_slow_or_greedy() -> None:
    with pytest.raises(Slow):
        check(lambda _: _ignored(sum(range(2 * int(UNITS_MAX) * len(UNIT)))), b"")
    check(lambda _: _ignored(sum(range(int(UNITS_MAX) * len(UNIT) // 4))), b"")
    with pytest.raises(Greedy):
        check(lambda _: _ignored(bytearray(300 * 2**20)), b"")
    with pytest.raises(ZeroDivisionError):
        check(lambda data: _ignored(1 // len(data)), b"")
