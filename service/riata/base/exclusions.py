"""Settings that exclude each other, as a table beside them. Refusal, reference and contract come from the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from riata.base.errors import BadInput

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Exclusion(Generic[C]):
    """A setting, and another one or a condition that it excludes.

    setting : what is given, as the reference shows it
    other   : what it excludes
    both    : whether a configuration has both
    detail  : the sentence of the refusal
    code    : of the refusal
    """

    setting: str
    other: str
    both: Callable[[C], bool]
    detail: str | Callable[[C], str]
    code: str = "conflicting_settings"

    def __str__(self) -> str:
        return f"{self.setting} excludes {self.other}"


def refuse(config: C, exclusions: Iterable[Exclusion[C]]) -> None:
    """Raise `BadInput` for the first exclusion of which the configuration has both."""
    for one in exclusions:
        if one.both(config):
            raise BadInput(one.detail if isinstance(one.detail, str) else one.detail(config), one.code)


def exclusions_of(kind: type) -> Sequence[Exclusion[Any]]:
    """Return the exclusions of a class of settings: its attribute `exclusions`."""
    return getattr(kind, "exclusions", ())
