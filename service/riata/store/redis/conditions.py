"""Checks of the Redis server's configuration for durability, and the commands that correct it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from riata.base.errors import Unavailable
from riata.store.redis.link import Reply
from riata.store.redis.session import Session

VERSION_MIN: Final = (7, 0)
MEMORY_SHARE_MAX: Final = 0.8  # of maxmemory; above it no event is accepted, so that checkpoints still fit
SETTINGS: Final = {
    "appendonly": ("yes", "otherwise nothing is written to disk"),
    "appendfsync": ("always", "otherwise a write is acknowledged before it is on disk"),
    "no-appendfsync-on-rewrite": ("no", "otherwise nothing is synced while the file is rewritten"),
    "maxmemory-policy": ("noeviction", "otherwise Redis deletes events when memory is short"),
}
ATTESTED: Final = "durability is attested, not verified: Redis was not asked for appendonly, appendfsync, maxmemory-policy"

_CONFIG_FORBIDDEN: Final = (
    "this user may not read the Redis configuration, so it is unknown whether an acknowledged event is on disk: allow it with "
    "redis-cli ACL SETUSER <user> +config|get, or, if the provider forbids that, attest the configuration yourself with "
    "durability_attested=true"
)


def refusals(session: Session, attested: bool) -> list[str]:
    """Return sentences about what makes the server unsuitable; empty if it is suitable. Raises `Unavailable` if it does not
    answer, and (code `memory_reserve`) if the only fault is that its memory is nearly full."""
    info = read_info(session.command(b"INFO"))
    found = _of_info(info) + ([] if attested else _of_settings(session))
    short = _short_of_memory(info)
    if short and not found:
        raise Unavailable(short, "memory_reserve")
    return [*found, short] if short else found


def _of_settings(session: Session) -> list[str]:
    try:
        settings = {name: _setting(session, name) for name in SETTINGS}
    except Unavailable as error:
        if error.code not in ("store_forbidden", "store_refuses"):
            raise
        return [_CONFIG_FORBIDDEN]
    return [
        f"{name} is {value or 'unknown'}, needed is {SETTINGS[name][0]}, {SETTINGS[name][1]}: "
        f"redis-cli CONFIG SET {name} {SETTINGS[name][0]}"
        for name, value in settings.items()
        if value != SETTINGS[name][0]
    ]


def read_info(reply: Reply) -> Mapping[str, str]:
    """Parse the fields of an answer to INFO."""
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else ""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _of_info(info: Mapping[str, str]) -> list[str]:
    found = []
    version = info.get("redis_version", "unknown")
    parts = version.split(".")
    if not all(part.isdigit() for part in parts) or tuple(map(int, parts)) < VERSION_MIN:
        found.append(f"redis_version is {version}, needed is 7.0 or later: install it; redis-cli INFO server shows the version")
    role = info.get("role", "unknown")
    if role != "master":
        found.append(f"role is {role}, needed is master: name the master in the store URL, or redis-cli REPLICAOF NO ONE")
    status = info.get("aof_last_write_status", "unknown")
    if status != "ok":
        found.append(
            f"aof_last_write_status is {status}, needed is ok: Redis could not write its file; make room on its disk, "
            "then redis-cli BGREWRITEAOF"
        )
    return found


def _short_of_memory(info: Mapping[str, str]) -> str:
    used, most = _number(info, "used_memory"), _number(info, "maxmemory")
    if not most or used < MEMORY_SHARE_MAX * most:
        return ""
    return (
        f"used_memory is {used} of maxmemory {most}, needed is less than {MEMORY_SHARE_MAX:.0%} of it, so that snapshots "
        f"still fit: redis-cli CONFIG SET maxmemory {2 * most}"
    )


def _number(info: Mapping[str, str], name: str) -> int:
    value = info.get(name, "0")
    return int(value) if value.isdigit() else 0


def _setting(session: Session, name: str) -> str:
    reply = session.command(b"CONFIG", b"GET", name.encode())
    if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], bytes):
        return reply[1].decode("utf-8", "replace")
    return ""
