"""The weights of a few features over time, at points of the learning curve.

The learner's weights are read at the points of the curve at which the non-zero ones are counted (`watch/progressive.py`), because
they are at hand there. Such a point is kept if it is at least `spacing` events after the last one. When there are POINTS_MAX
points, `spacing` becomes twice the smallest distance between two of them, and those that are closer are dropped. A history is
never changed: each step returns another one, so the model that is served may hold the one of its moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64, U32, Arrays
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.learner import Weights
from riata.watch.observer import Observer, freeze_names, thaw_names

FOLLOWED_MAX: Final = 32
POINTS_MAX: Final = 256
EXAMPLES_MAX: Final = 2**62


@frozen_dataclass(frozen=True, slots=True, eq=False)
class WeightHistory:
    """A pure function of the calls that made it.

    names    : of the followed features, in the order in which they were found
    hash     : u32[k]     of each, as rows have it
    examples : i64[p]     number of events learnt at each point, strictly increasing
    weights  : f64[p, k]  NaN before a feature was followed
    spacing  : number of events between two points, at least
    """

    names: tuple[str, ...] = ()
    hash: U32 = field(default_factory=lambda: np.zeros(0, np.uint32))
    examples: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: F64 = field(default_factory=lambda: np.zeros((0, 0)))
    spacing: int = 1

    def kept(self, names: Sequence[str]) -> WeightHistory:
        """Follow those of `names` only that are followed now."""
        at = [i for i, name in enumerate(self.names) if name in names]
        return self._of(at) if len(at) < len(self.names) else self

    def following(self, hashes: Mapping[str, int], asked: Iterable[str]) -> WeightHistory:
        """Follow those of `asked` as well whose hash is given, from the next point on."""
        new = {name: hashes[name] for name in asked if name in hashes and name not in self.names}
        if not new:
            return self
        unknown = np.full((len(self.examples), len(new)), np.nan)
        return replace(
            self,
            names=(*self.names, *new),
            hash=np.append(self.hash, np.array(list(new.values()), np.uint32)),
            weights=np.hstack([self.weights, unknown]),
        )

    def with_point(self, examples: int, beta: Sequence[float], is_extra: bool = False) -> WeightHistory:
        """Add the weights `beta`, f64[k], after `examples` events, unless the last point is too near.

        is_extra : add it all the same; a point after as many events is replaced
        """
        last = int(self.examples[-1]) if len(self.examples) else -self.spacing
        if not self.names or (examples - last < self.spacing and not is_extra):
            return self
        thinned = self._of(np.flatnonzero(self.examples < examples), axis=0)._with_room()
        weights = np.vstack([thinned.weights, np.array(beta, np.float64)])
        return replace(thinned, examples=np.append(thinned.examples, examples), weights=weights)

    def memory(self) -> int:
        """Return bytes."""
        return self.hash.nbytes + self.examples.nbytes + self.weights.nbytes + sum(map(len, self.names))

    def document(self, names: Iterable[str]) -> dict[str, Any]:
        """Return `examples`, and `weights` with a list of as many values for each of `names` that is followed."""
        weights = {name: self.weights[:, self.names.index(name)] for name in names if name in self.names}
        known = {name: [None if np.isnan(one) else one for one in column.tolist()] for name, column in weights.items()}
        return {"examples": self.examples.tolist(), "weights": known}

    def freeze(self) -> Arrays:
        """Return arrays that determine every later point; not to be written to."""
        counts = np.array([self.spacing], np.int64)
        own: Arrays = {"hash": self.hash, "examples": self.examples, "weights": self.weights, "spacing": counts}
        return {**own, **freeze_names(self.names)}

    @staticmethod
    def thaw(arrays: Arrays) -> WeightHistory:
        """Return the history that `freeze` wrote. Raises `Corrupt`."""
        k, p = (arrays[key].shape[0] if key in arrays and arrays[key].ndim == 1 else -1 for key in ("hash", "examples"))
        shapes: dict[str, tuple[type, tuple[int, ...]]] = {
            "hash": (np.uint32, (k,)),
            "examples": (np.int64, (p,)),
            "weights": (np.float64, (p, k)),
            "spacing": (np.int64, (1,)),
        }
        for key, (kind, shape) in shapes.items():
            array = arrays.get(key)
            if array is None or array.dtype != kind or array.shape != shape:
                raise Corrupt(f"weight history: {key}: expected {np.dtype(kind)}{list(shape)}")
        names = tuple(thaw_names(arrays, k, "weight history"))
        examples, weights = arrays["examples"].astype(np.int64), arrays["weights"].astype(np.float64)
        spacing = int(arrays["spacing"][0])
        if k > FOLLOWED_MAX or p > POINTS_MAX or len(set(names)) < k or not 1 <= spacing <= EXAMPLES_MAX:
            raise Corrupt("weight history: too many features or points, or a name occurs twice")
        if p and (examples[0] < 0 or examples[-1] > EXAMPLES_MAX or (np.diff(examples) <= 0).any() or np.isinf(weights).any()):
            raise Corrupt("weight history: points are out of order, or a weight is not finite")
        return WeightHistory(names, arrays["hash"].astype(np.uint32), examples, weights, spacing)

    def _of(self, at: Sequence[int] | I64, axis: int = 1) -> WeightHistory:
        if axis == 0:
            return replace(self, examples=self.examples[at], weights=self.weights[at])
        return replace(self, names=tuple(self.names[i] for i in at), hash=self.hash[at], weights=self.weights[:, at])

    def _with_room(self) -> WeightHistory:
        found = self
        while len(found.examples) >= POINTS_MAX:
            found = replace(found, spacing=2 * int(np.diff(found.examples).min()))
            kept: list[int] = []
            for i, examples in enumerate(found.examples.tolist()):
                if not kept or examples - found.examples[kept[-1]] >= found.spacing:
                    kept.append(i)
            found = found._of(kept, axis=0)
        return found


class FollowedWeights(Observer):
    """Has the history of the followed weights of a model."""

    def __init__(self, history: WeightHistory | None = None) -> None:
        self.history = history or WeightHistory()

    def count(self, examples: int, weights: Weights, is_extra: bool = False) -> None:
        """Add a point to the history. is_extra : as in `WeightHistory.with_point`"""
        self.history = self.history.with_point(examples, weights.of(self.history.hash.tolist()), is_extra)

    def copy(self) -> FollowedWeights:
        """As of an `Observer`."""
        return FollowedWeights(self.history)

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        return {"followed": self.history.memory()}

    def freeze(self) -> Arrays:
        """Return arrays that determine every later point; not to be written to."""
        return self.history.freeze()

    def thaw(self, arrays: Arrays, header: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Restore the history from `freeze`. Raises `Corrupt`."""
        self.history = WeightHistory.thaw(arrays)


def followed_as_asked(
    names: Sequence[str],
    found: Mapping[str, int] | None,
    now: tuple[int, Callable[[], Weights]],
    held: FollowedWeights | None,
) -> FollowedWeights | None:
    """Return what follows these features: a new one, or the one held, without others; None if no feature is asked for.

    found : features that an event of the log names, by hash: they are followed from here on. None if it names none
    now   : the number of events that were learnt, and what returns the weights
    """
    if not names:
        return None
    followed = FollowedWeights() if held is None else held
    followed.history = followed.history.kept(names)
    if found is not None:
        followed.history = followed.history.following(found, names)
        examples, weights = now
        followed.count(examples, weights(), is_extra=True)
    return followed
