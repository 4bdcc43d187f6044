"""Options that several commands take together: the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Have a command take each field of its parameters that are dataclasses as an option, in their place."""
    own = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {name: one.annotation for name, one in own.parameters.items() if is_dataclass(one.annotation)}
    options = []
    for name, one in own.parameters.items():
        options += _options(groups[name]) if name in groups else [one]

    @wraps(command)
    def run(**given: Any) -> None:
        made = {name: kind(**{each.name: given.pop(each.name) for each in fields(kind)}) for name, kind in groups.items()}
        command(**given, **made)

    run.__signature__ = own.replace(parameters=options)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in options}
    return run


def _options(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(kind)
        if one.default is not MISSING
    ]
