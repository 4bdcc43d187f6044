"""The scopes of API keys. Any one of the scopes of a route is sufficient."""

from __future__ import annotations

from typing import Final

OBSERVE: Final = "observe"
PREDICT: Final = "predict"
ADMIN: Final = "admin"
WATCH: Final = "watch"  # read access to everything about a model, without predictions
SCOPES: Final = (OBSERVE, PREDICT, ADMIN, WATCH)
OPEN: Final[tuple[str, ...]] = ()  # no key required
ANY: Final = SCOPES  # any key, whatever its scopes
