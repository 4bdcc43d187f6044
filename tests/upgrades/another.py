"""`riata` as a release that learns in another way, or on a machine with another arithmetic.

    TEST_ALGO_VERSION=3 TEST_NUMERICS=0123456789abcdef python -m tests.upgrades.another serve ...

What differs from the present release also learns other bits with the default learner, as it would if there were a reason for it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from riata.learn import mixed_gradient, registry
from riata.run.state import provenance

VERSION: Final = registry.ALGO_VERSION
NUMERICS: Final = "TEST_NUMERICS"
ALGO_VERSION: Final = "TEST_ALGO_VERSION"

_gradient: Final[Any] = mixed_gradient
_steps: Final[Callable[..., Any]] = _gradient.steps_of
_fingerprint: Final[Callable[[], str]] = provenance.fingerprint


@contextlib.contextmanager
def being(version: int = VERSION, arithmetic: str = "") -> Iterator[None]:
    """Become a program of that version of the algorithms, on a machine of that arithmetic; by default the current ones."""
    shift = 1.0 + 1e-9 * (version - VERSION) + (1e-10 if arithmetic else 0.0)
    before = registry.ALGO_VERSION, provenance.fingerprint, _gradient.steps_of

    def steps(config: Any) -> tuple[float, ...]:
        return tuple(step * shift for step in _steps(config))

    def fingerprint() -> str:
        return arithmetic or _fingerprint()

    try:
        put(version, fingerprint, steps)
        yield
    finally:
        put(*before)


def put(*values: Any) -> None:
    """Set the values by which a release is identified."""
    module: Any
    for module, name, value in zip(
        (registry, provenance, mixed_gradient), ("ALGO_VERSION", "fingerprint", "steps_of"), values, strict=True
    ):
        setattr(module, name, value)


if __name__ == "__main__":
    from riata.cli.main import main

    with being(int(os.environ.get(ALGO_VERSION, VERSION)), os.environ.get(NUMERICS, "")):
        main()
