"""A fast path for option values that need no conversion, to avoid importing pydantic at the start of a command.

typer validates every value with pydantic, and importing pydantic takes longer than much of the work of a command. Nearly all
values are strings or integers. All others, and invalid values, are passed to typer, so error messages remain those of typer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

_DIGITS_MAX: Final = 18


class _Plain:
    """Replaces typer's converter of the values of one parameter; `slow` returns the original converter."""

    def __init__(self, slow: Callable[[], Any]) -> None:
        self._slow = slow

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value of a parameter. Raises the same errors as typer."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        taken = plain_value(value, param.type_descriptor.annotation, param.type_descriptor.parameter_info)
        return self._slow().coerce(value, param=param, ctx=ctx) if taken is None else taken

    def __call__(self) -> _Plain:
        """Return itself: typer obtains the converter of a parameter by a call."""
        return self


def take_plainly(parameters: Iterable[Any]) -> None:
    """Install the fast path on the parameters of a command."""
    for parameter in parameters:
        slow = getattr(parameter, "get_runtime_param", None)  # other versions of typer may not have it
        if slow is not None and not isinstance(slow, _Plain):
            parameter.get_runtime_param = _Plain(slow)


def plain_value(value: Any, kind: Any, rule: Any) -> Any:
    """Return `value` as a `kind` within the bounds of `rule`, or None if typer has to convert or reject it."""
    if rule.parser is not None:
        return None
    if kind is str:
        return value if type(value) is str else None
    if kind == list[str]:
        return list(value) if type(value) in (list, tuple) and all(type(one) is str for one in value) else None
    if kind is bool:
        return value if type(value) is bool else None
    if kind is not int:
        return None
    if type(value) is str and value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX:
        value = int(value)
    is_inside = type(value) is int and (rule.min is None or value >= rule.min) and (rule.max is None or value <= rule.max)
    return value if is_inside else None
