"""Fields that are curves: trees, learnt before, that turn a curve into indicators of the leaves in which it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from riata.base.arrays import F64
from riata.base.document import DocumentValue

CURVES_MAX: Final = 16  # fields
POINTS_MAX: Final = 4096  # of a curve: warping takes time in proportion
CURVE_ABS_MAX: Final = 1e100  # squares of differences stay finite


class CurveTree(Protocol):
    """A tree that splits on one curve."""

    @property
    def digest(self) -> str:
        """Identifies the tree: 32 hexadecimal digits."""
        ...

    @property
    def channels(self) -> int:
        """Numbers of each point."""
        ...

    @property
    def length(self) -> int | None:
        """The number of points that a curve needs; None: any."""
        ...

    @property
    def text(self) -> str:
        """The file of the tree in base64, as configurations carry it."""
        ...

    def described(self, field: str) -> dict[str, Any]:
        """Return what its leaves mean, for people, and the file."""
        ...

    def leaves(self, points: F64) -> list[int]:
        """Return the leaf in which a curve ends, f64[points, channels]; of trees of an output code, one leaf of each."""
        ...


@dataclass(frozen=True, slots=True)
class Curves(DocumentValue):
    """The value of `encoder.curves`: fields and their trees, in the order of the names."""

    trees: tuple[tuple[str, CurveTree], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.trees)

    def __iter__(self) -> Iterator[tuple[str, CurveTree]]:
        return iter(self.trees)

    def of(self, name: str) -> CurveTree | None:
        """Return the tree of a field; None if the field is no curve."""
        return next((tree for field, tree in self.trees if field == name), None)

    def written(self) -> dict[str, str]:
        """Return the digests by field."""
        return {field: tree.digest for field, tree in self.trees}

    def texts(self) -> dict[str, str]:
        """Return the trees themselves by field, for a log."""
        return {field: tree.text for field, tree in self.trees}

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the schema of what a client sends."""
        return {"type": "object", "maxProperties": CURVES_MAX, "additionalProperties": {"type": "string"}}


NO_CURVES: Final = Curves()
