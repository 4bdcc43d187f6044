"""The stores of events, by the scheme of the URL that names one. `riata.wiring` has a function for each kind, which opens it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class StoreScheme(NamedTuple):
    """What a scheme stands for.

    shared     : whether several processes may use it; the URL then has a host or a path
    durability : what an acknowledgement guarantees, see `riata.run.outcome`
    form       : the URL, and what the store is, for the reference of settings
    """

    kind: Literal["sqlite", "memory", "redis"]
    shared: bool
    durability: Literal["fsync", "memory"]
    form: str


STORES: Final = {
    "sqlite": StoreScheme("sqlite", False, "fsync", "sqlite: (in the data directory)"),
    "memory": StoreScheme("memory", False, "memory", "memory: (lost when the process ends)"),
    "redis": StoreScheme("redis", True, "fsync", "redis://host:6379/0"),
    "rediss": StoreScheme("redis", True, "fsync", "rediss:// (TLS)"),
    "unix": StoreScheme("redis", True, "fsync", "unix:///path"),
    "redis+sentinel": StoreScheme("redis", True, "fsync", "redis+sentinel://host:26379,host:26379/name"),
    "rediss+sentinel": StoreScheme("redis", True, "fsync", "rediss+sentinel:// (TLS)"),
    "redis+cluster": StoreScheme("redis", True, "fsync", "redis+cluster://host:6379"),
    "rediss+cluster": StoreScheme("redis", True, "fsync", "rediss+cluster:// (TLS)"),
}
FORMS: Final = ", ".join(scheme.form for scheme in STORES.values())
