"""The ways in which tables write numbers: 13.44, 13,44, 1,234.5, 1.234,5, 1 234,5, 1'234.5, with % or the sign of a currency."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple

from riata.wire.given import ABSENT
from riata.wire.tables import number_in

_SIGNS: Final = "%€$£¥"
_SPACES: Final = "\u00a0\u202f\u2009 "
_POINT: Final = re.compile(r"[0-9]\.|\.[0-9]")
_ZERO_FIRST: Final = re.compile(r"^\s*[+-]?0[0-9]+\s*$", re.MULTILINE)


class Form(NamedTuple):
    """A way to write numbers. groups: the marks between groups of three digits, or none; decimal: the mark before decimals."""

    groups: str
    decimal: str

    def number(self, cell: str) -> float | None:
        """Return the number in a cell, None if it says that there is none. Raises `ValueError`."""
        if self == PLAIN:
            return number_in(cell)
        text = cell.strip()
        if text.lower() in ABSENT:
            return None
        found = _pattern(self).fullmatch(text)
        if found is None:
            raise ValueError
        digits = re.sub(f"[{re.escape(self.groups)}]", "", found[2]) if self.groups else found[2]
        return float(found[1].replace("\u2212", "-") + digits.replace(self.decimal, "."))


PLAIN: Final = Form("", ".")
COMMA: Final = Form("", ",")
GROUPS: Final = Form(",", ".")
OTHERS: Final = (
    COMMA,
    GROUPS,
    Form(".", ","),
    Form(_SPACES, ","),
    Form(_SPACES, "."),
    Form("'\u2019", "."),
    Form("'\u2019", ","),
)


@cache
def _pattern(form: Form) -> re.Pattern[str]:
    decimal, sign = re.escape(form.decimal), f"[{_SIGNS}]?"
    grouped = f"[0-9]{{1,3}}(?:[{re.escape(form.groups)}][0-9]{{3}})+|" if form.groups else ""
    number = rf"(?:{grouped}[0-9]+)(?:{decimal}[0-9]*)?|{decimal}[0-9]+"
    return re.compile(rf"{sign}\s?([+\u2212-]?)\s?{sign}\s?((?:{number})(?:[eE][+-]?[0-9]+)?)\s?{sign}")


def reads(read: Callable[[str], object], cell: str) -> bool:
    """Whether a cell can be read as a number."""
    try:
        read(cell)
    except ValueError:
        return False
    return True


class WrittenNumbers:
    """Finds the form in which all cells of a column write numbers.

    example : the first cell that is a number in other forms than the plain one only
    zeros   : the first cell that has a zero before other digits, as no number is written
    """

    def __init__(self) -> None:
        self._forms = [PLAIN, *OTHERS]
        self.example = self.zeros = ""

    def add(self, cells: Sequence[str]) -> None:
        """Look at cells; the forms stay in which all so far are numbers, or say that there is none."""
        if not self._forms:
            return
        is_plain = all(reads(number_in, cell) for cell in cells)
        joined = "\n".join(cells)
        if not self.zeros and (found := _ZERO_FIRST.search(joined)):
            self.zeros = found[0].strip()
        if is_plain and not _POINT.search(joined):
            return  # whole numbers are the same in all forms
        others = [form for form in self._forms if form != PLAIN and all(reads(form.number, cell) for cell in cells)]
        if not is_plain and not self.example:
            self.example = next(cell.strip() for cell in cells if not reads(number_in, cell))
        self._forms = [PLAIN, *others] if is_plain and PLAIN in self._forms else others

    @property
    def has_form(self) -> bool:
        """Whether there is a form in which all cells so far are numbers."""
        return bool(self._forms)

    def form(self, delimiter: str) -> Form | None:
        """Return the form, None if there is none. Where commas are between cells, 1,234 is a thousand; else it is 1.234."""
        order = [PLAIN, GROUPS, *OTHERS] if delimiter == "," else [PLAIN, *OTHERS]
        return next((form for form in order if form in self._forms), None)
