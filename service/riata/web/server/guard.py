"""Refuse to listen beyond the loopback without API keys, unless the operator allows it."""

from __future__ import annotations

import ipaddress

from riata.base.errors import BadInput


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # any other name may resolve to any address


def require_safe_host(host: str, allow_unauthenticated: bool) -> None:
    """Raise `BadInput` (unauthenticated_host) if the service would listen to other machines without requiring keys."""
    if not allow_unauthenticated and not is_loopback(host):
        raise BadInput(
            f"host {host!r} can be reached from other machines and requests are not authenticated; listen on 127.0.0.1, create "
            "keys with `riata keys new` and set keys_file to their file, or set allow_unauthenticated if every client is "
            "trusted",
            "unauthenticated_host",
        )
