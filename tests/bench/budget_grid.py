"""The contenders for a budget of non-zeros, and every setting that each of them is tried with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Settings = dict[str, Any]

BUDGETS: Final = (100, 300, 1000)
GAMMAS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
RHOS: Final = (0.95, 0.97, 0.98, 0.995, 0.999, 0.9999)
RHO_GAMMAS: Final = (0.001, 0.01, 0.1, 1.0)
RHO_PRIORS: Final = (1.0, 0.1)
ALPHAS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
L1: Final = (0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
ETAS: Final = (0.3, 1.0, 3.0, 10.0)
GRAVITIES: Final = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
CONSTANT_ETAS: Final = (0.5, 2.0, 8.0)
CONSTANT_GRAVITIES: Final = (0.0, 1e-4, 1e-3, 1e-2)
CEILINGS: Final = ("infinite", 0.1)  # the second is the default
VW_RATES: Final = (0.5, 2.0, 8.0, 32.0)  # the first is the default
VW_L1: Final = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 6e-4, 1e-3, 2e-3)
VW_BITS: Final = 22  # as many weights as the service has


@dataclass(frozen=True, slots=True)
class Contender:
    """A learner and what it is tried with.

    default         : the setting of somebody who sets nothing else; one of `settings`
    settings        : documents of the service's `learner` setting; for Vowpal Wabbit its options by name
    bounded         : it never has more non-zeros than its budget, at any event
    vowpal_wabbit   : it is not one of the service's learners
    """

    name: str
    about: str
    default: Settings
    settings: tuple[Settings, ...]
    bounded: bool = False
    vowpal_wabbit: bool = False


def sketch(name: str, about: str, bounded: bool = False, **fixed: Any) -> Contender:
    """The Taylor sketch, over GAMMAS."""
    settings = tuple({"kind": "taylor_sketch", **fixed, "gamma": gamma} for gamma in GAMMAS)
    default = next(setting for setting in settings if setting["gamma"] == 0.1)
    return Contender(name, f"{about}; gamma {_listed(GAMMAS)}", default, settings, bounded)


def _forgetting() -> Iterator[Settings]:
    for rho, gamma, prior in itertools.product(RHOS, RHO_GAMMAS, RHO_PRIORS):
        yield {"kind": "taylor_sketch", "mode": "diag", "block": 1, "rho": rho, "gamma": gamma, "prior_curvature": prior}


def _truncated() -> Iterator[Settings]:
    yield {"kind": "truncated_gradient"}
    for eta, gravity, ceiling in itertools.product(ETAS, GRAVITIES, CEILINGS):
        if gravity or ceiling == CEILINGS[0]:  # without gravity the ceiling has nothing to say
            yield {"kind": "truncated_gradient", "eta": eta, "gravity": gravity, "ceiling": ceiling}
    plain = {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "ceiling": CEILINGS[0]}
    for eta, gravity in itertools.product(CONSTANT_ETAS, CONSTANT_GRAVITIES):
        yield {**plain, "eta": eta, "gravity": gravity}


def _ftrl() -> Iterator[Settings]:
    yield {"kind": "ftrl_proximal"}
    for alpha, l1 in itertools.product(ALPHAS, L1):
        yield {"kind": "ftrl_proximal", "alpha": alpha, "l1": l1}


def _vowpal_wabbit() -> Iterator[Settings]:
    for rate, l1 in itertools.product(VW_RATES, VW_L1):
        yield {"bit_precision": VW_BITS, "learning_rate": rate, "l1": l1}


def contender(name: str, about: str, settings: tuple[Settings, ...], vowpal_wabbit: bool = False) -> Contender:
    """A contender whose first setting is its default."""
    return Contender(name, about, settings[0], settings, vowpal_wabbit=vowpal_wabbit)


def _listed(numbers: tuple[Any, ...]) -> str:
    return "{" + ", ".join(f"{n:g}" if isinstance(n, float) else str(n) for n in numbers) + "}"


CONTENDERS: Final[tuple[Contender, ...]] = (
    *(sketch(f"strict {k}", f"`taylor_sketch` strict, k = {k}", bounded=True, mode="strict", k=k) for k in BUDGETS),
    sketch("hybrid", "`taylor_sketch` hybrid, k = 300", mode="hybrid", k=300),
    sketch("diag", "`taylor_sketch` diag", mode="diag"),
    Contender(
        "diag, rho",
        f"`taylor_sketch` diag, block = 1, that forgets: rho {_listed(RHOS)} x gamma {_listed(RHO_GAMMAS)} x"
        f" prior_curvature {_listed(RHO_PRIORS)}",
        {"kind": "taylor_sketch", "mode": "diag", "block": 1, "rho": 0.9999, "gamma": 0.1, "prior_curvature": 1.0},
        tuple(_forgetting()),
    ),
    contender(
        "ftrl", f"`ftrl_proximal`; its defaults, and alpha {_listed(ALPHAS)} x l1 {_listed(L1)}", tuple(_ftrl())
    ),
    contender(
        "truncated",
        f"`truncated_gradient`; its defaults, and eta {_listed(ETAS)} x gravity {_listed(GRAVITIES)} "
        f"x ceiling {_listed(CEILINGS)}; at a constant rate, not normalised, ceiling infinite, eta {_listed(CONSTANT_ETAS)} "
        f"x gravity {_listed(CONSTANT_GRAVITIES)}",
        tuple(_truncated()),
    ),
    contender(
        "vw", f"Vowpal Wabbit, `-b {VW_BITS}`; `--learning_rate` {_listed(VW_RATES)} x `--l1` {_listed(VW_L1)}",
        tuple(_vowpal_wabbit()), vowpal_wabbit=True,
    ),
)  # fmt: skip
