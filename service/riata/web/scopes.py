"""Which key opens which route: one table. A route that is not in it cannot be reached where keys are asked for."""

from __future__ import annotations

from typing import Final

OPEN: Final = "open"  # no key
ANY: Final = "any"  # any key, whatever it is for
OBSERVE: Final = "observe"
PREDICT: Final = "predict"
ADMIN: Final = "admin"
MODELS: Final = "/models/"
DOCS: Final = "/docs/"
DEFAULT_MODEL: Final = "default"

_AT: Final = "/models/{model}"
SCOPE_OF: Final[dict[tuple[str, str], str]] = {
    ("POST", "/observe"): OBSERVE,
    ("POST", f"{_AT}/observe"): OBSERVE,
    ("GET", "/predict"): PREDICT,
    ("POST", "/predict"): PREDICT,
    ("GET", f"{_AT}/predict"): PREDICT,
    ("POST", f"{_AT}/predict"): PREDICT,
    ("GET", "/models"): ANY,  # those that the key may see
    ("GET", _AT): ANY,
    ("GET", f"{_AT}/metrics"): PREDICT,
    ("GET", f"{_AT}/weights"): PREDICT,
    ("GET", f"{_AT}/path"): PREDICT,
    ("PUT", _AT): ADMIN,
    ("PATCH", _AT): ADMIN,
    ("DELETE", _AT): ADMIN,
    ("GET", f"{_AT}/snapshots"): ADMIN,
    ("POST", f"{_AT}/snapshots"): ADMIN,
    ("POST", f"{_AT}/restore"): ADMIN,
    ("GET", f"{_AT}/export"): ADMIN,
    ("POST", f"{_AT}/import"): ADMIN,
    ("GET", "/livez"): OPEN,
    ("GET", "/readyz"): OPEN,  # without a key it names no model
    ("GET", "/startupz"): OPEN,
    ("GET", "/v2/health/live"): OPEN,
    ("GET", "/v2/health/ready"): OPEN,
    ("GET", "/version"): ANY,
    ("GET", "/metrics"): ADMIN,  # its labels are the names of the models
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/{asset}"): OPEN,
}
MAKING: Final = frozenset({("PUT", _AT), ("POST", f"{_AT}/import")})  # the model need not be there
TEMPLATES: Final = frozenset(path for _, path in SCOPE_OF)


def place(path: str) -> tuple[str, str | None]:
    """Return the template of a path, and the model it speaks of; the path itself where it fits none."""
    if path.startswith(MODELS):
        model, slash, rest = path.removeprefix(MODELS).partition("/")
        return (f"{_AT}/{rest}" if slash else _AT), model
    if path.startswith(DOCS):
        return "/docs/{asset}", None
    return path, DEFAULT_MODEL if path in ("/observe", "/predict") else None
