"""API keys: what one is, what its entry in the file says, and whether a request carries one.

A key is `riata_<id>_<secret>`: the id is public and finds the entry, the secret is 32 random bytes. The file holds the SHA-256 of
the whole key and never the key. Nothing slow is needed to hash 256 random bits: nobody guesses them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from riata.base.errors import BadInput, RiataError
from riata.web.options import MODEL_NAME
from riata.web.scopes import SCOPES

PREFIX: Final = "riata_"
SECRET_BYTES: Final = 32
TOKEN_CHARS_MAX: Final = 128
ID_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,31}$"
MODE_MAX: Final = 0o640
FILE_BYTES_MAX: Final = 2**20
EVERY_MODEL: Final = "*"
_TOKEN: Final = re.compile(rb"riata_([a-z0-9][a-z0-9-]{0,31})_[A-Za-z0-9_-]{43}")
_NOBODY: Final = bytes(32)  # what a key of an unknown id is compared with

Name = Annotated[str, msgspec.Meta(pattern=f"^{MODEL_NAME}$")]


class Unauthenticated(RiataError):
    """No key, or none that opens anything (401)."""

    code = "unauthenticated"


class Forbidden(RiataError):
    """The key is good, but not for this (403)."""

    code = "wrong_scope"


class KeyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key as the file has it.

    id             : names the key in the log and finds it; public
    sha256         : of the whole key, hexadecimal
    scopes         : what it opens, each by itself: observe, predict, admin, watch
    models         : names of models, or "*" for every one
    requests_per_s : of this key, instead of the setting; 0 for no bound
    expires        : after this moment it opens nothing
    """

    id: Annotated[str, msgspec.Meta(pattern=ID_PATTERN)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[list[str], msgspec.Meta(min_length=1, max_length=len(SCOPES))]
    models: list[Name] | str
    requests_per_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None
    expires: datetime | None = None


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: one table `[[key]]` for each key."""

    key: list[KeyEntry] = []


@dataclass(frozen=True, slots=True)
class Key:
    """One key, ready to be asked."""

    id: str
    digest: bytes
    scopes: frozenset[str]
    models: frozenset[str] | None  # None for every one
    requests_per_s: float | None
    expires_ms: int | None

    def sees(self, model: str) -> bool:
        """Say whether the key may know that a model exists."""
        return self.models is None or model in self.models


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys of one reading of the file. Never changed: a new reading makes a new one."""

    keys: dict[bytes, Key] = field(default_factory=dict)

    def find(self, authorization: bytes | None, now_ms: int) -> Key:
        """Return the key of an Authorization header. Raises `Unauthenticated`.

        The comparison takes the same time wherever two digests differ, and an unknown id is compared as well.
        """
        if authorization is None:
            raise Unauthenticated("this service asks for a key: send it as `Authorization: Bearer riata_...`")
        scheme, _, token = authorization.partition(b" ")
        found = _TOKEN.fullmatch(token) if len(token) <= TOKEN_CHARS_MAX and scheme.lower() == b"bearer" else None
        if found is None:
            raise Unauthenticated("Authorization: expected `Bearer riata_<id>_<secret>`", "bad_key")
        key = self.keys.get(found[1])
        same = hmac.compare_digest(hashlib.sha256(token).digest(), _NOBODY if key is None else key.digest)
        if key is None or not same:
            raise Unauthenticated("no such key", "bad_key")
        require_unexpired(key, now_ms)
        return key


def require_unexpired(key: Key, now_ms: int) -> None:
    """Raise `Unauthenticated` (key_expired) where the time of a key is over."""
    if key.expires_ms is not None and now_ms >= key.expires_ms:
        raise Unauthenticated(f"the key {key.id} has expired", "key_expired")


def new_token(key_id: str) -> str:
    """Draw a key."""
    return f"{PREFIX}{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"


def digest_of(token: str) -> str:
    """Return what the file keeps of a key."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_keys(path: Path) -> list[KeyEntry]:
    """Read a file of keys. Raises `BadInput` (bad_keys_file) saying what to do about it.

    A file that others than its owner and group may read, or others than its owner write, is not taken: whoever writes it
    decides who may teach the models.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "bad_keys_file") from None
    if mode & ~MODE_MAX:
        raise BadInput(f"{path}: mode {mode:04o} opens it to others; chmod 640 {path}", "bad_keys_file")
    if len(content) > FILE_BYTES_MAX:
        raise BadInput(f"{path}: more than {FILE_BYTES_MAX} bytes", "bad_keys_file")
    return parse_keys(content, str(path))


def parse_keys(content: bytes, place: str) -> list[KeyEntry]:
    """Read the TOML text of a file of keys. Raises `BadInput` (bad_keys_file); nothing of the text is repeated."""
    try:
        entries = msgspec.convert(tomllib.loads(content.decode()), KeyFile).key
    except UnicodeDecodeError:
        raise BadInput(f"{place}: not UTF-8", "bad_keys_file") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{place}: not a TOML file: {error}", "bad_keys_file") from None
    except msgspec.ValidationError as error:
        raise BadInput(f"{place}: {error}", "bad_keys_file") from None
    for entry in entries:
        _check(entry, place)
    twice = {entry.id for entry in entries if sum(other.id == entry.id for other in entries) > 1}
    if twice:
        raise BadInput(f"{place}: {min(twice)}: two keys of one id; for a change of keys give the new one an id of its own",
                       "bad_keys_file")  # fmt: skip
    return entries


def ring_of(entries: Iterable[KeyEntry]) -> KeyRing:
    """Make entries ready to be asked."""
    return KeyRing({entry.id.encode(): _ready(entry) for entry in entries})


def entry_text(entry: KeyEntry) -> str:
    """Write one entry as it stands in the file."""
    lines = ["[[key]]", f'id = "{entry.id}"', f'sha256 = "{entry.sha256}"', f"scopes = {_strings(entry.scopes)}"]
    lines.append(f'models = "{EVERY_MODEL}"' if entry.models == EVERY_MODEL else f"models = {_strings(entry.models)}")
    if entry.requests_per_s is not None:
        lines.append(f"requests_per_s = {entry.requests_per_s!r}")
    if entry.expires is not None:
        lines.append(f"expires = {entry.expires.astimezone(UTC).isoformat(timespec='seconds').replace('+00:00', 'Z')}")
    return "\n".join(lines) + "\n"


def _check(entry: KeyEntry, place: str) -> None:
    for scope in entry.scopes:
        if scope not in SCOPES:
            raise BadInput(f"{place}: {entry.id}: scopes are {', '.join(SCOPES)}", "bad_keys_file")
    if isinstance(entry.models, str) and entry.models != EVERY_MODEL:
        raise BadInput(f'{place}: {entry.id}: models: expected a list of names, or "*"', "bad_keys_file")
    if entry.expires is not None and entry.expires.tzinfo is None:
        raise BadInput(f"{place}: {entry.id}: expires: expected a moment with its zone, as 2027-01-31T00:00:00Z", "bad_keys_file")


def _ready(entry: KeyEntry) -> Key:
    models = None if isinstance(entry.models, str) else frozenset(entry.models)
    expires_ms = None if entry.expires is None else int(entry.expires.timestamp() * 1000)
    return Key(entry.id, bytes.fromhex(entry.sha256), frozenset(entry.scopes), models, entry.requests_per_s, expires_ms)


def _strings(values: Any) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
