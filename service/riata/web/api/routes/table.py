"""All routes of the service, and lookup in them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from starlette.routing import compile_path

from riata.web.api.route import AT, V2_AT, Hot, Route

# Modules beside this one.
RESOURCES: Final = (
    "observe",
    "predict",
    "inference",
    "models",
    "challengers",
    "card",
    "trees",
    "shapes",
    "fields",
    "tuning",
    "snapshots",
    "restoring",
    "forgetting",
    "refits",
    "jobs",
    "watching",
    "stream",
    "backup",
    "health",
    "docs",
    "console",
)
MODELS: Final = AT.removesuffix("{model}")
V2_MODELS: Final = V2_AT.removesuffix("{model}")
DEFAULT_MODEL: Final = "default"

_MODULES: Final = [import_module(f"riata.web.api.routes.{name}") for name in RESOURCES]
ROUTES: Final[tuple[Route, ...]] = tuple(route for module in _MODULES for route in module.ROUTES)
TAG_AT: Final = {(route.method, route.path): str(module.TAG) for module in _MODULES for route in module.ROUTES}
ROUTE_AT: Final = {(route.method, route.path): route for route in ROUTES}
TEMPLATES: Final = frozenset(route.path for route in ROUTES)

_OF_DEFAULT: Final = {route.path for route in ROUTES if isinstance(route.handler, Hot) and not route.path.startswith(MODELS)}
_PATTERNS: Final = [(compile_path(path)[0], path) for path in TEMPLATES if "{" in path and AT not in path]
_OF_MODEL: Final = [(compile_path(path)[0], path) for path in TEMPLATES if path.startswith(MODELS) and path.count("{") > 1]


def place(path: str) -> tuple[str, str | None]:
    """Return the template of a path, or the path itself if it fits none, and the name of its model."""
    if path.startswith(V2_MODELS):
        template, model = place(path.removeprefix("/v2"))
        return f"/v2{template}", model
    if path.startswith(MODELS):
        model, slash, rest = path.removeprefix(MODELS).partition("/")
        for pattern, template in _OF_MODEL if "/" in rest else ():
            if pattern.match(path):
                return template, model
        return (f"{AT}/{rest}" if slash else AT), model
    for pattern, template in _PATTERNS:
        if pattern.match(path):
            return template, None
    return path, DEFAULT_MODEL if path in _OF_DEFAULT else None
