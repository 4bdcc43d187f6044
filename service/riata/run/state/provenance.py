"""What determines the bits of a state, apart from the log: the version of the algorithms, and the machine's arithmetic."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn import registry
from riata.native.library import core

_NUMERICS_CHARS_MAX = 64

COLUMNS: Final = 8  # exp, expm1, log, log1p, erfc, pow, sqrt, and a product with a sum
_VERSION: Final = b"numerics 1"  # other points or other functions are another fingerprint
_DIGEST_BYTES: Final = 8
_SPREAD: Final = 25
_ENDS: Final = (0.0, -0.0, 5e-324, 2.2e-308, 1e-16, 2.0**-53, 1.0, 26.5, 27.2, 700.0, 709.7, 745.1)


@frozen_dataclass(frozen=True, slots=True)
class Provenance:
    """The version and arithmetic a state was learnt under. Two states of one log are comparable bit for bit if these are equal.

    algo_version : `ALGO_VERSION` of the program that learnt it
    numerics     : fingerprint of its arithmetic (`fingerprint`); empty if the program did not record one
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
    return Provenance(registry.ALGO_VERSION, fingerprint())


def read_provenance(document: Mapping[str, Any]) -> Provenance:
    """Read `algo_version` and `numerics` from a header or an event; older programs wrote no `numerics`. Raises `Corrupt`."""
    version, numerics_ = document.get("algo_version"), document.get("numerics", "")
    if type(version) is not int or version < 0 or type(numerics_) is not str or len(numerics_) > _NUMERICS_CHARS_MAX:
        raise Corrupt("it does not name the version of the algorithms that learnt it")
    return Provenance(version, numerics_)


# A fingerprint of the machine's arithmetic: machines that differ in it may learn other bits from the same log.
#
# Sums, products, quotients and square roots are the same everywhere (IEEE 754, and no compiler flag here changes them).
# Exponentials, logarithms, powers and the error function are not. Each C library rounds them in its own way, and glibc has
# several
# versions of each and selects one for the processor. So the native core evaluates them, where the learners are, at points over
# their ranges, ends included, and the bits of the results are hashed.


def leaves(x: F64, power: F64, rest: F64, out: F64) -> None:
    """Evaluate each function that kernels call and that machines may round differently. `rest` is minus the rounded product.

    out : f64[n, 8]   overwritten: exp(-|x|), expm1(-|x|), log(|x|) (of 0: -inf), log1p(|x|), erfc(x), (1 + |x|)^-|power|,
                      sqrt(|x|), and x * power + rest, which is 0 unless both were done with one rounding
    """
    core.leaves(len(x), x, power, rest, out)


def points() -> tuple[F64, F64, F64]:
    """The arguments of `leaves`: x, power and rest, f64[62] each. They are computed by sums and products only, so they have the
    same bits everywhere."""
    steps: F64 = np.arange(1.0, _SPREAD + 1.0)
    spread = steps * steps * steps * 0.0016180339887498949  # 0.0016 to 25, most of them small
    x: F64 = np.concatenate([spread, -spread, np.array(_ENDS)])
    power = (0.1 + (np.arange(len(x)) % 7) * 0.31415926535897931).astype(np.float64)
    return x, power, -(x * power)


@cache
def fingerprint() -> str:
    """A hash of the bits of all of `leaves` at `points`, 16 hexadecimal digits."""
    x, power, rest = points()
    out = np.empty((len(x), COLUMNS))
    leaves(x, power, rest, out)
    return hashlib.blake2b(_VERSION + np.ascontiguousarray(out, "<f8").tobytes(), digest_size=_DIGEST_BYTES).hexdigest()
