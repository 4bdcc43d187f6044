"""SVG drawings: lines, polylines, rectangles and text, with a fixed size in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

COLOURS: Final = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#9a6700", "#0a7ea4", "#bf3989", "#57606a")
_INK: Final = "#24292f"
_FONT: Final = "font-family='DejaVu Sans, Verdana, sans-serif' font-size='11'"


class Svg:
    """Elements in the order in which they are drawn."""

    def __init__(self) -> None:
        self._elements: list[str] = []

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: str = _INK, width: float = 1.0) -> None:
        """Draw a straight line."""
        at = f"x1='{start[0]:.1f}' y1='{start[1]:.1f}' x2='{end[0]:.1f}' y2='{end[1]:.1f}'"
        self._elements.append(f"<line {at} stroke='{colour}' stroke-width='{width}'/>")

    def polyline(self, points: Sequence[tuple[float, float]], colour: str = _INK, width: float = 1.5) -> None:
        """Draw a line through points."""
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._elements.append(
            f"<polyline points='{at}' fill='none' stroke='{colour}' stroke-width='{width}' stroke-linejoin='round'/>"
        )

    def box(self, corner: tuple[float, float], size: tuple[float, float], fill: str = "none", edge: str = "none") -> None:
        """Draw a rectangle."""
        at = f"x='{corner[0]:.1f}' y='{corner[1]:.1f}' width='{size[0]:.1f}' height='{size[1]:.1f}'"
        self._elements.append(f"<rect {at} rx='3' fill='{fill}' stroke='{edge}'/>")

    def text(self, at: tuple[float, float], words: str, anchor: str = "start", colour: str = _INK) -> None:
        """Write a line of text. anchor : start, middle or end."""
        place = f"x='{at[0]:.1f}' y='{at[1]:.1f}' text-anchor='{anchor}'"
        self._elements.append(f"<text {place} fill='{colour}' {_FONT}>{escape(words)}</text>")

    def render(self, width: float, height: float, title: str) -> str:
        """Return the document."""
        head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' role='img'>"
        back = f"<rect width='{width:.0f}' height='{height:.0f}' fill='#ffffff'/>"
        return "\n".join([head, f"<title>{escape(title)}</title>", back, *self._elements, "</svg>"]) + "\n"


def curve_points(
    values: Sequence[float], corner: tuple[float, float], size: tuple[float, float], limits: tuple[float, float]
) -> list[tuple[float, float]]:
    """Return the points of a curve in a frame, at even distances from left to right. limits : lowest and highest value."""
    low, high = limits
    across, up = size[0] / max(len(values) - 1, 1), size[1] / ((high - low) or 1.0)
    return [(corner[0] + i * across, corner[1] + size[1] - (value - low) * up) for i, value in enumerate(values)]
