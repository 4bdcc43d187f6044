"""Parses the response of /weights into names and numbers, and draws a number as a bar."""

from __future__ import annotations

from typing import Any


def read_weights(answer: Any) -> list[tuple[str, float]]:
    """Return (name, weight) of each listed weight. A slot that several features share has all of their names."""
    found = answer.get("weights") if isinstance(answer, dict) else answer
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return [(_name(row), float(row["weight"])) for row in rows if isinstance(row.get("weight"), int | float)]


def _name(row: dict[str, Any]) -> str:
    names = [str(name) for name in row.get("names") or []]
    if len(names) > 1:
        return " / ".join(names)
    return str(row.get("feature") or (names[0] if names else f"slot {row.get('slot')}"))


def bar(value: float, largest: float, columns: int) -> str:
    """Return a bar to the right of the middle if `value` is positive, otherwise to the left; `largest` fills one side."""
    side = columns // 2
    length = round(side * min(abs(value) / largest, 1.0)) if largest > 0.0 else 0
    left, right = ("", "\u2588" * length) if value >= 0.0 else ("\u2588" * length, "")
    return f"{left:>{side}}\u2502{right:<{side}}"
