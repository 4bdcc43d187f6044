"""Strict parser of the Redis store URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from riata.base.errors import BadInput
from riata.store.redis.keys import ASIDE

PORT: Final = 6379
SENTINEL_PORT: Final = 26379
SCHEMES: Final = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL.

    nodes     : (host, port) of the server, the sentinels, or some nodes of the cluster; one empty entry for a socket
    path      : of a Unix socket, otherwise empty
    sentinel  : name of the master that the sentinels watch, otherwise empty
    authority : file of the only certificates to trust; empty: those of the system
    aside     : the name under which a model was set aside; empty: the models that are served
    shown     : the URL without user and password
    """

    nodes: tuple[tuple[str, int], ...]
    path: str = ""
    db: int = 0
    tls: bool = False
    authority: str = ""
    sentinel: str = ""
    cluster: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    aside: str = ""
    shown: str = ""

    def place(self, host: str, port: int) -> str:
        """Return the name of a node, for messages."""
        return self.path or f"{host}:{port}"


def read_url(url: str) -> Address:
    """Read a URL of one of `SCHEMES`. Raises `BadInput` (code `bad_store_url`)."""
    try:
        parts = urlsplit(url)
        options = {name: values[-1] for name, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()}
    except ValueError as error:
        raise _bad(f"{error}") from None
    if parts.scheme not in SCHEMES:
        raise _bad(f"scheme {parts.scheme!r}, expected one of {', '.join(SCHEMES)}")
    unknown = set(options) - {"db", "ca", "aside"}
    if unknown:
        raise _bad(f"unknown option {sorted(unknown)[0]!r}, expected db, ca or aside")
    aside = options.get("aside", "")
    if "aside" in options and not ASIDE.fullmatch(aside):
        raise _bad("aside: expected 1 to 128 letters, digits, _ . and -")
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    sentinel = parts.scheme.endswith("sentinel")
    unix = parts.scheme == "unix"
    path = unquote(parts.path)
    if unix and (not path or hosts):
        raise _bad("expected unix:///path/of/the/socket")
    name = path.strip("/") if sentinel else ""
    if sentinel and (not name or "/" in name):
        raise _bad("expected the name of the master that the sentinels watch, redis+sentinel://host:26379,host:26379/name")
    cluster = parts.scheme.endswith("cluster")
    db = _number(options.get("db", "0" if unix or sentinel else path.strip("/") or "0"), "database", 2**31)
    if cluster and db:
        raise _bad("a cluster has no database but 0")
    shown = f"{parts.scheme}://{hosts}{path}" + (f"?aside={aside}" if aside else "")
    nodes = (("", 0),) if unix else tuple(_node(part, SENTINEL_PORT if sentinel else PORT) for part in hosts.split(","))
    if len(nodes) > 1 and not (sentinel or cluster):
        raise _bad("several hosts are only valid with sentinels or a cluster")
    return Address(
        nodes=nodes, path=path if unix else "", db=db, tls=parts.scheme.startswith("rediss"), authority=options.get("ca", ""),
        sentinel=name, cluster=cluster, aside=aside, user=unquote(user), password=unquote(password), shown=shown,
    )  # fmt: skip


def _node(part: str, port: int) -> tuple[str, int]:
    """host, host:port, [v6] or [v6]:port."""
    if part.startswith("["):
        host, _, rest = part[1:].partition("]")
        written = rest[1:] if rest.startswith(":") else rest
    else:
        host, _, written = part.partition(":")
    if not host:
        raise _bad("expected a host")
    return unquote(host), _number(written or str(port), "port", 2**16)


def _number(text: str, what: str, bound: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= bound:
        raise _bad(f"{what} {text!r} is not a number below {bound}")
    return int(text)


def _bad(why: str) -> BadInput:
    return BadInput(f"store URL: {why}", "bad_store_url")
