"""Nobody but this machine may speak to a service that asks for no key, unless the operator says so."""

from __future__ import annotations

import ipaddress

from riata.base.errors import BadInput


def is_loopback(host: str) -> bool:
    """Say whether `host`, a name or an address, can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # another name may lead anywhere


def require_safe_host(host: str, allow_unauthenticated: bool) -> None:
    """Raise `BadInput` (unauthenticated_host) where the service would listen to other machines without asking for keys."""
    if not allow_unauthenticated and not is_loopback(host):
        raise BadInput(
            f"host {host!r} can be reached from other machines and requests are not authenticated; listen on 127.0.0.1, make "
            "keys with `riata keys new` and name their file (keys_file), or say allow_unauthenticated where all are trusted",
            "unauthenticated_host",
        )
