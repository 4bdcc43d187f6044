"""Detection of cross-site requests (CSRF): requests that a page of another site makes a browser send.

A browser sends `Sec-Fetch-Site` to addresses that it trusts (https, loopback), and `Origin` with every request other than a
plain GET or HEAD. Programs send neither. A page cannot set or remove them. Both are needed: older browsers and plain http
beyond the loopback send only `Origin`, an image sends only `Sec-Fetch-Site`.

Requests that change nothing are answered, since a browser does not let a page of another site read the answer.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import httptools

from riata.base.hosts import host_in
from riata.web.api.routes.table import ROUTE_AT, place

HERE: Final = frozenset({b"same-origin", b"none"})  # a page of this service; or no page: a typed address or a bookmark
SAFE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
ORIGIN: Final = re.compile(rb"(https?)://([^/?#@]+)", re.IGNORECASE)
PORTS: Final = {b"http": "80", b"https": "443"}


def is_fetched_here(fetch_site: bytes) -> bool:
    """Return whether a Sec-Fetch-Site header says that no page of another origin sent the request."""
    return fetch_site.strip(b" \t").lower() in HERE


def is_same_origin(origin: bytes, host: bytes) -> bool:
    """Return whether an Origin header names the host itself. `null`, a page without an origin, does not."""
    found = ORIGIN.fullmatch(origin.strip(b" \t"))
    return found is not None and _is_at(found[1], found[2], host)


def names_same_host(target: bytes, host: bytes) -> bool:
    """Return whether an absolute URI names the same host and port as the Host header."""
    found = ORIGIN.match(target)
    rest = b"" if found is None else target[found.end() :]
    return found is not None and rest[:1] in (b"", b"/", b"?") and _is_at(found[1], found[2], host)


def changes_state(method: bytes, target: bytes) -> bool:
    """Return whether a request would change state or write to the store."""
    if method not in SAFE:
        return True
    path = httptools.parse_url(target).path or b""
    route = ROUTE_AT.get(("GET", place(unquote(path.decode("latin-1")))[0]))
    return route is not None and route.writes


def _is_at(scheme: bytes, authority: bytes, host: bytes) -> bool:
    default = PORTS[scheme.lower()]
    return _place(authority, default) == _place(host, default)


def _place(authority: bytes, default: str) -> tuple[str, str]:
    text = authority.decode("latin-1").strip(" \t").lower()
    host = host_in(text)
    return host, text[len(host) :].lstrip(":") or default
