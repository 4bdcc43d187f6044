"""Host header check against DNS rebinding: which hosts are answered if callers need no keys.

A page of any site can make the browser send requests to this machine. With DNS rebinding the name of the page's site is made to
resolve to this machine. The browser then treats both as one site, and the page can also read the answers. Only the name in the
Host header distinguishes such a request from one that was meant for this service. Ports do not, so they are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

EVERY_HOST: Final = "*"
LOCALHOST: Final = "localhost"
LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")

Networks = tuple[IPv4Network | IPv6Network, ...]


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that are answered.

    names      : in lower case, without a port
    networks   : addresses that are answered; always include the loopback networks
    any_address: answer every address literal; a page that rebinds a name sends that name, never an address
    every      : answer everything
    """

    names: frozenset[str] = frozenset({LOCALHOST})
    networks: Networks = LOOPBACK
    any_address: bool = False
    every: bool = False

    def answers(self, value: bytes) -> bool:
        """Return whether a request with this Host header is answered. `value` is well-formed: `web/server/heads.py` checks it."""
        host = host_in(value.decode("latin-1"))
        if self.every or host.removesuffix(".") in self.names:
            return True
        try:
            address = ip_address(host.strip("[]"))
        except ValueError:
            return False
        return self.any_address or any(address in network for network in self.networks)


def read_hosts(allowed: str, listening: str, any_address: bool = False) -> Hosts:
    """Return the hosts answered under the setting allowed_hosts by a listener on the host `listening`.

    Raises `ValueError` for an entry of `allowed` that is not a host name, an address, a network or `*`.
    """
    names, networks, every = {LOCALHOST, listening.lower().strip("[]")}, list(LOOPBACK), False
    for entry in filter(None, (part.strip().lower() for part in allowed.split(","))):
        network = _network(entry.strip("[]") if entry.endswith("]") else entry)
        if entry == EVERY_HOST:
            every = True
        elif network is not None:
            networks.append(network)
        elif NAME.fullmatch(entry):
            names.add(entry)
        else:
            raise ValueError(
                f"{entry[:64]!r} is not a host name, an address (both without a port), a network such as 10.0.0.0/8, or *"
            )
    own = _network(listening.strip("[]"))
    return Hosts(frozenset(names), (*networks, *([] if own is None else [own])), any_address, every)


def check_hosts(allowed: str) -> str:
    """Validate the setting allowed_hosts and return it unchanged. Raises `ValueError` as `read_hosts`."""
    read_hosts(allowed, LOCALHOST)
    return allowed


def host_in(authority: str) -> str:
    """Return the host of `host:port` in lower case; an IPv6 address keeps its brackets."""
    text = authority.strip(" \t").lower()
    return text[: text.find("]") + 1] if text.startswith("[") else text.partition(":")[0]


def _network(text: str) -> IPv4Network | IPv6Network | None:
    """Parse an address or a network; None if it is neither."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
