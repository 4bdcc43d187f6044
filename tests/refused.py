"""Expected refusals, by their class and their code."""

from __future__ import annotations

from typing import TypeVar

import pytest

from riata.base.errors import RiataError

Error = TypeVar("Error", bound=RiataError)


def refused(kind: type[Error], code: str, outcome: str = "", match: str | None = None) -> pytest.RaisesExc[Error]:
    """A context that requires an error of `kind` with this code, and if given with this outcome and these words."""

    def is_it(error: Error) -> bool:
        return error.code == code and (not outcome or getattr(error, "outcome", "") == outcome)

    return pytest.raises(kind, match=match, check=is_it)
