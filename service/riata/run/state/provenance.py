"""What determines the bits of a state, apart from the log: the version of the algorithms, and the machine's arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riata.base.errors import Corrupt
from riata.learn import registry
from riata.maths import numerics

_NUMERICS_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class Provenance:
    """The version and arithmetic a state was learnt under. Two states of one log are comparable bit for bit if these are equal.

    algo_version : `ALGO_VERSION` of the program that learnt it
    numerics     : fingerprint of its arithmetic (`maths/numerics.py`); empty if the program did not record one
    """

    algo_version: int
    numerics: str

    def __str__(self) -> str:
        numerics = f"arithmetic {self.numerics}" if self.numerics else "arithmetic not recorded"
        return f"algorithm {self.algo_version}, {numerics}"

    def document(self) -> dict[str, Any]:
        """Return the form that is written into headers of checkpoints and into upgrade events."""
        return {"algo_version": self.algo_version, "numerics": self.numerics}


def current() -> Provenance:
    """Return the provenance of this program on this machine."""
    return Provenance(registry.ALGO_VERSION, numerics.fingerprint())


def read_provenance(document: Mapping[str, Any]) -> Provenance:
    """Read `algo_version` and `numerics` from a header or an event; older programs wrote no `numerics`. Raises `Corrupt`."""
    version, numerics_ = document.get("algo_version"), document.get("numerics", "")
    if type(version) is not int or version < 0 or type(numerics_) is not str or len(numerics_) > _NUMERICS_CHARS_MAX:
        raise Corrupt("it does not name the version of the algorithms that learnt it")
    return Provenance(version, numerics_)
