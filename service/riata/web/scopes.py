"""The table of scopes that each route requires. If keys are required, a route that is not in the table cannot be reached.

Any one of the scopes of a route is sufficient.
"""

from __future__ import annotations

from typing import Final

OBSERVE: Final = "observe"
PREDICT: Final = "predict"
ADMIN: Final = "admin"
WATCH: Final = "watch"  # read access to everything about a model, without predictions
SCOPES: Final = (OBSERVE, PREDICT, ADMIN, WATCH)
OPEN: Final[tuple[str, ...]] = ()  # no key required
ANY: Final = SCOPES  # any key, whatever its scopes
MODELS: Final = "/models/"
DOCS: Final = "/docs/"
DEFAULT_MODEL: Final = "default"

_AT: Final = "/models/{model}"
SCOPES_OF: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("POST", "/observe"): (OBSERVE,),
    ("POST", f"{_AT}/observe"): (OBSERVE,),
    ("GET", "/predict"): (PREDICT,),
    ("POST", "/predict"): (PREDICT,),
    ("GET", f"{_AT}/predict"): (PREDICT,),
    ("POST", f"{_AT}/predict"): (PREDICT,),
    ("GET", "/models"): ANY,  # those that the key may see
    ("GET", _AT): ANY,
    ("GET", f"{_AT}/metrics"): (PREDICT, WATCH),
    ("GET", f"{_AT}/weights"): (PREDICT, WATCH),
    ("GET", f"{_AT}/path"): (PREDICT, WATCH),
    ("PUT", _AT): (ADMIN,),
    ("PATCH", _AT): (ADMIN,),
    ("DELETE", _AT): (ADMIN,),
    ("GET", f"{_AT}/snapshots"): (ADMIN, WATCH),
    ("POST", f"{_AT}/snapshots"): (ADMIN,),
    ("POST", f"{_AT}/restore"): (ADMIN,),
    ("GET", f"{_AT}/export"): (ADMIN,),
    ("POST", f"{_AT}/import"): (ADMIN,),
    ("GET", "/livez"): OPEN,
    ("GET", "/readyz"): OPEN,  # without a key it names no model
    ("GET", "/startupz"): OPEN,
    ("GET", "/v2/health/live"): OPEN,
    ("GET", "/v2/health/ready"): OPEN,
    ("GET", "/version"): ANY,
    ("GET", "/metrics"): (ADMIN, WATCH),  # of models, those that the key may see
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/{asset}"): OPEN,
}
SAVING: Final = frozenset({("GET", f"{_AT}/export")})  # a GET that writes a generation
MAKING: Final = frozenset({("PUT", _AT), ("POST", f"{_AT}/import")})  # the model need not exist
TEMPLATES: Final = frozenset(path for _, path in SCOPES_OF)


def place(path: str) -> tuple[str, str | None]:
    """Return the template of a path, or the path itself if it fits none, and the name of its model."""
    if path.startswith(MODELS):
        model, slash, rest = path.removeprefix(MODELS).partition("/")
        return (f"{_AT}/{rest}" if slash else _AT), model
    if path.startswith(DOCS):
        return "/docs/{asset}", None
    return path, DEFAULT_MODEL if path in ("/observe", "/predict") else None
