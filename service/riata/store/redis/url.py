"""The URL of the store on Redis, and the keys under its prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from riata.base.errors import BadInput

# Names of all keys of a Redis store, and bucket sizes of the dedupe index.
#
# Every key begins with the same hash tag, so all keys of a store are in one slot of a cluster. One script may use any of them,
# and any surviving prefix of the server's append-only file is a consistent snapshot of all of them.

FORMAT: Final = 1  # of the keys and their content
NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
ASIDE: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
BUCKET_IDS_MAX: Final = 100  # on average; a lookup reads half a bucket, and Redis stores up to 512 in one compact block
BUCKET_BITS_MAX: Final = 24


class Keys:
    """Names of the keys of one namespace. aside : the name under which a model was set aside, for a store that has only it"""

    def __init__(self, namespace: str, aside: str = "") -> None:
        """Raises `BadInput` (code `bad_namespace`) unless it is 1 to 64 letters, digits, `_`, `.` and `-`."""
        if not NAMESPACE.fullmatch(namespace):
            raise BadInput(f"namespace {namespace!r}: expected 1 to 64 letters, digits, _ . and -", "bad_namespace")
        self.prefix = f"{{riata:{namespace}}}:".encode()
        self.own = self.prefix + b"own"
        self.models = self.prefix + (b"aside:" + aside.encode() if aside else b"models")
        self._meta = b"aside" if aside else b"meta"
        self.dead = self.prefix + b"dead"
        self.processes = self.prefix + b"processes"
        self.used = self.prefix + b"used"
        self.subject = self.prefix + b"subject"

    def ticket(self, source: str) -> bytes:
        """Key of the last ticket and answer of one appending store object."""
        return self.prefix + b"p:" + source.encode()

    def of(self, number: int) -> ModelKeys:
        """The keys of one incarnation of a model."""
        return ModelKeys(self.prefix + b"m:%d:" % number, self._meta)


class ModelKeys:
    """Names of the keys of one incarnation of a model."""

    def __init__(self, prefix: bytes, meta: bytes) -> None:
        self.prefix = prefix
        self.meta = prefix + meta
        self.log = prefix + b"log"
        self.names = prefix + b"names"
        self.gens = prefix + b"gens"
        self.stage = prefix + b"stage"
        self.editions = prefix + b"ed"
        self.rows = prefix + b"r"
        self.times = prefix + b"rt"

    def chunks(self, gen: int) -> bytes:
        """The chunks of a generation, by index."""
        return self.prefix + b"c:%d" % gen

    def pieces(self, number: int) -> bytes:
        """The pieces of an edition, by index."""
        return self.prefix + b"e:%d" % number

    def bitmap(self, span: int) -> bytes:
        """Bitmap of the buckets that exist for a range of events."""
        return self.prefix + b"d:%d" % span

    def bucket(self, span: int, bucket: int) -> bytes:
        """The ids of a range of events whose leading bits are `bucket`."""
        return self.prefix + b"d:%d:%d" % (span, bucket)


def bucket_bits(window: int) -> int:
    """Return how many leading bits of an id select its bucket, for a dedupe window of `window` events."""
    return min(max((window - 1) // BUCKET_IDS_MAX, 0).bit_length(), BUCKET_BITS_MAX)


def bucket_of(event_id: bytes, bits: int) -> int:
    """Return the bucket of an id."""
    return int.from_bytes(event_id[:4], "big") >> (32 - bits)


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
