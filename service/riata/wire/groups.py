"""Groups of features, declared by name or pattern: which weights are in the model, or out of it, together.

    temperature = "t{00..59}"                                      names with an order: runs of neighbours are searched
    country     = "country=*"                                      all names that match: one group
    questions   = {features = ["q1", "q2", "extra{1..4}"]}         one group
    months      = {features = ["jan", "feb", "mar"], ordered = true}
    window      = {features = "w{0..9}", runs = false}             an order that does not matter: one group

A name alone gives no order: "t10" comes before "t2" as text. So runs need one pattern with numbers, or `ordered`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from riata.base.arrays import I64
from riata.base.errors import BadInput
from riata.base.limits import NAMES_KEPT_MAX

_RANGE: Final = re.compile(r"\{(\d+)\.\.(\d+)\}")
_SHOWN: Final = 5
_KEYS: Final = ("features", "runs", "ordered")


@dataclass(frozen=True, slots=True)
class Declared:
    """A group as it was declared.

    features : names and patterns
    ordered  : the features are in the order in which they are listed
    runs     : runs of neighbours are searched; otherwise the group is one
    """

    name: str
    features: tuple[str, ...]
    ordered: bool
    runs: bool


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups of the features of some data. A feature in no group is a group of one.

    names    : of the groups
    ranks    : i64[n] each: the features, in order
    is_runs  : whether runs of neighbours are searched in the group
    features : names of the features of each group
    absent   : how many declared features of each group do not occur in the data; they have no weight
    """

    names: tuple[str, ...] = ()
    ranks: tuple[I64, ...] = ()
    is_runs: tuple[bool, ...] = ()
    features: tuple[tuple[str, ...], ...] = ()
    absent: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raise `BadInput` (code `feature_in_two_groups`) if a feature comes twice."""
        owner: dict[int, str] = {}
        for name, ranks, features in zip(self.names, self.ranks, self.features, strict=True):
            for rank, feature in zip(ranks.tolist(), features, strict=True):
                if rank in owner:
                    raise _twice(feature, owner[rank], name)
                owner[rank] = name


def read_groups(document: Mapping[str, Any]) -> list[Declared]:
    """Return the groups of a document: its table `groups`, or the document itself. Raises `BadInput` that names the group."""
    tables = document.get("groups", document)
    if not isinstance(tables, Mapping) or not tables:
        raise BadInput('groups: expected at least one, as temperature = "t{00..59}"', "bad_groups")
    return [_read(str(name), value) for name, value in tables.items()]


def _read(name: str, value: object) -> Declared:
    table = value if isinstance(value, Mapping) else {"features": value}
    unknown = [str(key) for key in table if key not in _KEYS]
    if unknown:
        raise BadInput(f"group {name!r}: {unknown[0]!r} is no setting of a group; those are {', '.join(_KEYS)}", "bad_groups")
    listed = table.get("features")
    features = (listed,) if isinstance(listed, str) else tuple(listed) if isinstance(listed, list | tuple) else ()
    if not features or not all(isinstance(one, str) and one for one in features):
        raise BadInput(f'group {name!r}: features: expected names or patterns, such as "t{{00..59}}" or ["a", "b"]', "bad_groups")
    for key in ("runs", "ordered"):
        if not isinstance(table.get(key, True), bool):
            raise BadInput(f"group {name!r}: {key}: expected true or false", "bad_groups")
    counted = len(features) == 1 and _RANGE.search(features[0]) is not None
    ordered = bool(table.get("ordered", counted))
    if ordered and any("*" in one or "?" in one for one in features):
        raise BadInput(f"group {name!r}: names that match * or ? have no order", "unordered_runs")
    runs = bool(table.get("runs", ordered))
    if runs and not ordered:
        raise BadInput(
            f"group {name!r}: runs need an order, and names give none: declare the features by one pattern, as "
            f'"t{{00..59}}", or list them in their order with ordered = true; without runs the group is penalised as one',
            "unordered_runs",
        )
    return Declared(name, features, ordered, runs)


def grouping_of(declared: Sequence[Declared], rank_of: Mapping[str, int]) -> Grouping:
    """Find the features of groups by name.

    rank_of : rank of each feature that has a name. Several names may have one rank, if their hashes share a slot.

    Raises `BadInput`: `unnamed_group` if no feature of a group has a name, `feature_in_two_groups`.
    """
    owner: dict[str, str] = {}
    made = Grouping()
    for group in declared:
        wanted = expanded(group, rank_of)
        for name in wanted:
            if owner.setdefault(name, group.name) != group.name:
                raise _twice(name, owner[name], group.name)
        found = [name for name in wanted if name in rank_of]
        if not found:
            known = ", ".join(sorted(rank_of)[:_SHOWN]) or "none"
            raise BadInput(
                f"group {group.name!r}: no feature with a name matches {', '.join(map(repr, group.features[:_SHOWN]))}; "
                f"known names: {known}",
                "unnamed_group",
            )
        made = Grouping(
            (*made.names, group.name),
            (*made.ranks, np.array([rank_of[name] for name in found], np.int64)),
            (*made.is_runs, group.runs),
            (*made.features, tuple(found)),
            (*made.absent, len(wanted) - len(found)),
        )
    return made


def expanded(group: Declared, known: Iterable[str]) -> list[str]:
    """Return the names that a group declares, in order, each once; patterns with * or ? match known names, sorted."""
    names: dict[str, None] = {}
    for pattern in group.features:
        for one in _counted(pattern, group.name):
            matched = [one] if not set("*?") & set(one) else sorted(fnmatch.filter(known, one.replace("[", "[[]")))
            names |= dict.fromkeys(matched)
    return list(names)


def _counted(pattern: str, group: str) -> list[str]:
    """Return the names of a pattern with {first..last}; numbers are padded with zeros if the first is."""
    found = _RANGE.search(pattern)
    if found is None:
        return [pattern]
    first, last = int(found[1]), int(found[2])
    if not 0 <= last - first < NAMES_KEPT_MAX:
        raise BadInput(f"group {group!r}: {pattern!r}: the numbers do not increase, or are too many", "bad_groups")
    width = len(found[1]) if found[1].startswith("0") or len(found[1]) == len(found[2]) else 0
    made = [pattern[: found.start()] + str(i).zfill(width) + pattern[found.end() :] for i in range(first, last + 1)]
    return [name for one in made for name in _counted(one, group)]


def _twice(feature: str, first: str, second: str) -> BadInput:
    if first == second:
        detail = f"group {first!r}: {feature!r} shares a slot with another of its features; use more bits"
        return BadInput(detail, "feature_in_two_groups")
    return BadInput(f"feature {feature!r} is in the groups {first!r} and {second!r}; a feature has one", "feature_in_two_groups")
