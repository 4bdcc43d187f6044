"""Values of options that need no converting, taken without the library that converts them.

typer has pydantic look at every value, and loading that takes longer than much of what a verb does. Nearly all values are texts
or whole numbers. The others go to typer as ever, and so do those that are wrong: what it says of them stays its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

_DIGITS_MAX: Final = 18


class _Plain:
    """Stands where typer keeps what converts the values of one parameter; `slow` returns typer's own."""

    def __init__(self, slow: Callable[[], Any]) -> None:
        self._slow = slow

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter. Raises what typer raises."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        taken = plain_value(value, param.type_descriptor.annotation, param.type_descriptor.parameter_info)
        return self._slow().coerce(value, param=param, ctx=ctx) if taken is None else taken

    def __call__(self) -> _Plain:
        """Itself: typer asks a parameter for it by a call."""
        return self


def take_plainly(parameters: Iterable[Any]) -> None:
    """Have the values of a verb's parameters taken as they are where that is all there is to do."""
    for parameter in parameters:
        slow = getattr(parameter, "get_runtime_param", None)  # typer of another version may do without
        if slow is not None and not isinstance(slow, _Plain):
            parameter.get_runtime_param = _Plain(slow)


def plain_value(value: Any, kind: Any, rule: Any) -> Any:
    """Return what `value` is as a `kind` that keeps to the bounds of `rule`; None where that is for typer to say."""
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
