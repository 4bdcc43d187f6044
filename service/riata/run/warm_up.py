"""Warm-up: compile, or load from disk, the kernels that requests can reach, before a request needs them.

Theory of operation
    The code to compile is divided into parts that have few kernels in common: parsers of bodies, and learners. Parts on the disk
    are loaded. The others are compiled in separate processes (`run/compilers.py`), one for each part, as many at once as there
    are cores, and then loaded. A kernel that two parts need may be compiled twice. The compiler is Python and holds the
    interpreter's lock of its own process only, so a running service is not blocked; the compiler's memory is freed when its
    process ends.

    A start waits only for what most services need: JSON and the default learner. The other readers are put off: the service
    compiles them once it is ready, at a low priority, and refuses their bodies until then (`wire.read_body.PUT_OFF`).

    What such a process does not finish is compiled in this process, where the error is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from riata.jit.disk_cache import NotCompiled, only_from_disk
from riata.learn import registry
from riata.learn.registry import LearnerConfig, default_learner, machine_code, one_of_each, spec_of
from riata.maths import numerics
from riata.predict.factory import make_model
from riata.predict.model import Origin
from riata.predict.one_row import ROW_READER
from riata.predict.path import regularisation_path
from riata.predict.uncertainty import EVIDENCE_MIN, Covariance
from riata.run.compilers import Compilers
from riata.store import payload
from riata.wire import parse, read_body
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig

LOADING: Final = "loading kernels; those that are not on the disk yet are compiled first"


def _warm_up_rows() -> None:
    """The reader of single rows, queries, and the fast path of predictions, which reads both with the same kernels."""
    parse.WARM_UPS[ROW_READER.name, "document"]()
    parse.parse_query([("a", "1"), ("b", "c")], parse.Context(EncoderConfig()))


def _warm_up_figures() -> None:
    numerics.fingerprint()
    payload.warm_up()


_DOCUMENT, _FIGURES = f"{ROW_READER.name} document", "figures"
_READERS: Final = {f"{name} {split}": run for (name, split), run in parse.WARM_UPS.items()} | {
    _DOCUMENT: _warm_up_rows,
}


def _two_events() -> Batch:
    """A batch as the parsers make it, made without their kernels: another process may be compiling those."""
    return Batch(
        indptr=np.array([0, 1, 3], np.int64),
        hash=np.array([1, 1, 2**32 - 1], np.uint32),
        value=np.array([1.5, 2.0, 1.0]),
        label=np.array([1.0, 0.0]),
        weight=np.ones(2),
        event_id=np.zeros((2, 16), np.uint8),
        has_id=np.zeros(2, np.bool_),
    )


def _warm_up_learner(config: LearnerConfig) -> None:
    """Pass two events through a learner of this kind up to a prediction; the learner is discarded."""
    batch = _two_events()
    learner = registry.warm_up(config, batch)
    sketch, covariance = learner.sketch(), None
    if sketch is not None:
        many = sketch.curvature + EVIDENCE_MIN * len(sketch.slot)  # two events are too few for a standard error
        covariance = Covariance.of(replace(sketch, curvature=many))
        regularisation_path(sketch, 2)
    make_model(Origin("warm-up", bytes(16), EncoderConfig(), "0/1"), learner.weights(), 0, 1, covariance).score(batch)


def _parts() -> dict[str, Callable[[], None]]:
    """Return all parts to compile, by the names that processes get; the slowest come first.

    What a start waits for is in such an order that two processes end together. The lines of JSON come last of it: by then most
    of the kernels that they share with the document are on the disk.
    """
    learners = {machine_code(config): partial(_warm_up_learner, config) for config in one_of_each()}
    slow = [machine_code(config) for config in one_of_each() if spec_of(config).slow_to_compile]
    every: dict[str, Callable[[], None]] = {**learners, **_READERS, _FIGURES: _warm_up_figures}
    return {name: every[name] for name in dict.fromkeys([*slow, *_first(), *_READERS, *learners])}


def _first() -> list[str]:
    """The parts that every start waits for."""
    return [_DOCUMENT, machine_code(default_learner()), _FIGURES, f"{ROW_READER.name} lines"]


def warm_up(compilers: Compilers | None = None) -> None:
    """Make ready what every model needs, and the default learner. Raises `Stopped`."""
    _make_ready([*_first(), *(name for name in _READERS if name not in _first())], compilers)


def warm_up_start(compilers: Compilers) -> None:
    """`warm_up`, but readers that most services do not need are put off if they have to be compiled. Raises `Stopped`."""
    others = [name for name in _READERS if name not in _first()]
    read_body.PUT_OFF.update(name.split()[0] for name in others if not _is_loaded(_READERS[name]))
    _make_ready(_first(), compilers)


def warm_up_put_off(compilers: Compilers) -> None:
    """Make ready the readers that `warm_up_start` has put off, and accept their bodies. Raises `Stopped`."""
    names = [name for name in _READERS if name.split()[0] in read_body.PUT_OFF]
    try:
        _make_ready(names, compilers, low_priority=True)
    finally:
        read_body.PUT_OFF.clear()  # whatever could not be compiled raises its error where it is read


def warm_up_learner(config: LearnerConfig, compilers: Compilers | None = None) -> None:
    """Make ready what a learner of this kind needs. Raises `Stopped`."""
    _make_ready([machine_code(config)], compilers)


def warm_up_all(tell: Callable[[str], None], compilers: Compilers | None = None) -> None:
    """Make ready all parts, with every learner. Raises `Stopped`.

    tell : called with the name of each part when it is ready; any thread may call it
    """
    _make_ready(list(_parts()), compilers, tell)


def warm_up_part(name: str) -> None:
    """Compile a part in this process, or load it."""
    _parts()[name]()


def _tell_nobody(_part: str) -> None:
    """Default `tell`: does nothing."""


def _make_ready(
    names: list[str], compilers: Compilers | None, tell: Callable[[str], None] = _tell_nobody, low_priority: bool = False
) -> None:
    parts, compilers = _parts(), compilers or Compilers()
    missing = []
    for name in names:
        compilers.check()
        if _is_loaded(parts[name]):
            tell(name)
        else:
            missing.append(name)
    if missing:
        compilers.compile(missing, tell, low_priority)
    for name in missing:
        compilers.check()
        parts[name]()
        compilers.done(name)


def _is_loaded(part: Callable[[], None]) -> bool:
    try:
        with only_from_disk():
            part()
    except NotCompiled:
        return False
    return True
