"""API keys: their format, the keys file, and the authentication of requests.

A key is `riata_<id>_<secret>`. The id is public and identifies the entry; the secret is 32 random bytes. The file has the SHA-256
of the whole key, never the key itself. A slow password hash is not needed: 256 random bits cannot be guessed.
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
from starlette.types import Scope

from riata.base.errors import BadInput, NotFound, RiataError
from riata.web.api.options import MODEL_NAME

# The scopes of keys. Any one of the scopes of a route is sufficient.
OBSERVE: Final = "observe"
PREDICT: Final = "predict"
ADMIN: Final = "admin"
WATCH: Final = "watch"  # read access to everything about a model, without predictions
SCOPES: Final = (OBSERVE, PREDICT, ADMIN, WATCH)
OPEN: Final[tuple[str, ...]] = ()  # no key required
ANY: Final = SCOPES  # any key, whatever its scopes

PREFIX: Final = "riata_"
SECRET_BYTES: Final = 32
TOKEN_CHARS_MAX: Final = 128
ID_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,31}$"
MODE_MAX: Final = 0o640
FILE_BYTES_MAX: Final = 2**20
EVERY_MODEL: Final = "*"
_TOKEN: Final = re.compile(rb"riata_([a-z0-9][a-z0-9-]{0,31})_[A-Za-z0-9_-]{43}")
_NOBODY: Final = bytes(32)  # the digest that a key with an unknown id is compared with
QUOTAS: Final = ("models_max", "events_a_day", "bytes_a_day")  # of an entry
KEY: Final = "riata.key"  # in the scope of a request that carried a key
NO_ACCESS: Final = "this key has no access to a model of that name"
ANONYMOUS: Final = "riata.anonymous"  # in the scope of a request without a key, if keys are required

Name = Annotated[str, msgspec.Meta(pattern=f"^{MODEL_NAME}$")]


class Unauthenticated(RiataError):
    """No key, or an invalid or expired one (401)."""

    code = "unauthenticated"


class Forbidden(RiataError):
    """The key is valid, but lacks the scope (403)."""

    code = "wrong_scope"


class KeyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the keys file.

    id             : identifies the key, also in the log; public
    sha256         : of the whole key, hexadecimal
    scopes         : what the key permits: any of observe, predict, admin, watch
    models         : names of models, or "*" for all
    requests_per_s : rate limit of this key, instead of the setting; 0 for no limit
    expires        : the key is refused from this time on
    models_max     : no model is created while the key has access to this many
    events_a_day, bytes_a_day : rows that are accepted, and bytes of bodies of rows after unpacking, in a day of UTC
    """

    id: Annotated[str, msgspec.Meta(pattern=ID_PATTERN)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[list[str], msgspec.Meta(min_length=1, max_length=len(SCOPES))]
    models: list[Name] | str
    requests_per_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None
    expires: datetime | None = None
    models_max: Annotated[int, msgspec.Meta(ge=1, le=10**6)] | None = None
    events_a_day: Annotated[int, msgspec.Meta(ge=1, le=10**15)] | None = None
    bytes_a_day: Annotated[int, msgspec.Meta(ge=1, le=10**15)] | None = None


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: one table `[[key]]` for each key."""

    key: list[KeyEntry] = []


@dataclass(frozen=True, slots=True)
class Key:
    """One key in the form used to check requests."""

    id: str
    digest: bytes
    scopes: frozenset[str]
    models: frozenset[str] | None  # None for all
    requests_per_s: float | None
    expires_ms: int | None
    models_max: int | None = None
    events_a_day: int | None = None
    bytes_a_day: int | None = None

    def sees(self, model: str) -> bool:
        """Return whether the key may know that a model exists."""
        return self.models is None or model in self.models


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys of one read of the file. Immutable: another read makes a new object."""

    keys: dict[bytes, Key] = field(default_factory=dict)

    def find(self, authorization: bytes | None, now_ms: int) -> Key:
        """Return the key of an Authorization header. Raises `Unauthenticated`.

        Digests are compared in constant time, for an unknown id too.
        """
        if authorization is None:
            raise Unauthenticated("this service requires a key: send it as `Authorization: Bearer riata_...`")
        scheme, _, token = authorization.partition(b" ")
        found = _TOKEN.fullmatch(token) if len(token) <= TOKEN_CHARS_MAX and scheme.lower() == b"bearer" else None
        if found is None:
            raise Unauthenticated("Authorization: expected `Bearer riata_<id>_<secret>`", "bad_key")
        key = self.keys.get(found[1])
        same = hmac.compare_digest(hashlib.sha256(token).digest(), _NOBODY if key is None else key.digest)
        if key is None or not same:
            raise Unauthenticated("unknown key", "bad_key")
        require_unexpired(key, now_ms)
        return key


def require_unexpired(key: Key, now_ms: int) -> None:
    """Raise `Unauthenticated` (key_expired) if a key has expired."""
    if key.expires_ms is not None and now_ms >= key.expires_ms:
        raise Unauthenticated(f"the key {key.id} has expired", "key_expired")


def new_token(key_id: str) -> str:
    """Generate a random key."""
    return f"{PREFIX}{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"


def digest_of(token: str) -> str:
    """Return the SHA-256 of a key, as in the keys file."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_keys(path: Path) -> list[KeyEntry]:
    """Read a keys file. Raises `BadInput` (bad_keys_file), which says how to correct it.

    A file is refused if other users than its owner and group may read it, or others than its owner may write it: write access
    to it decides which callers may train the models.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "bad_keys_file") from None
    if mode & ~MODE_MAX:
        raise BadInput(f"{path}: mode {mode:04o} gives other users too much access; run chmod 640 {path}", "bad_keys_file")
    if len(content) > FILE_BYTES_MAX:
        raise BadInput(f"{path}: more than {FILE_BYTES_MAX} bytes", "bad_keys_file")
    return parse_keys(content, str(path))


def parse_keys(content: bytes, place: str) -> list[KeyEntry]:
    """Parse the TOML text of a keys file. Raises `BadInput` (bad_keys_file); the text itself is not repeated."""
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
        raise BadInput(f"{place}: {min(twice)}: two keys have this id; to rotate a key give the new one another id",
                       "bad_keys_file")  # fmt: skip
    return entries


def ring_of(entries: Iterable[KeyEntry]) -> KeyRing:
    """Convert entries to a `KeyRing`."""
    return KeyRing({entry.id.encode(): _ready(entry) for entry in entries})


def entry_text(entry: KeyEntry) -> str:
    """Return the TOML text of one entry."""
    lines = ["[[key]]", f'id = "{entry.id}"', f'sha256 = "{entry.sha256}"', f"scopes = {_strings(entry.scopes)}"]
    lines.append(f'models = "{EVERY_MODEL}"' if entry.models == EVERY_MODEL else f"models = {_strings(entry.models)}")
    if entry.requests_per_s is not None:
        lines.append(f"requests_per_s = {entry.requests_per_s!r}")
    lines += [f"{name} = {value}" for name in QUOTAS if (value := getattr(entry, name)) is not None]
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
        raise BadInput(
            f"{place}: {entry.id}: expires: expected a time with its zone, such as 2027-01-31T00:00:00Z", "bad_keys_file"
        )


def _ready(entry: KeyEntry) -> Key:
    models = None if isinstance(entry.models, str) else frozenset(entry.models)
    expires_ms = None if entry.expires is None else int(entry.expires.timestamp() * 1000)
    return Key(entry.id, bytes.fromhex(entry.sha256), frozenset(entry.scopes), models, entry.requests_per_s, expires_ms,
               entry.models_max, entry.events_a_day, entry.bytes_a_day)  # fmt: skip


def _strings(values: Any) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def visible(scope: Scope, model: str) -> bool:
    """Return whether the caller of a request may know that a model exists."""
    if ANONYMOUS in scope:
        return False
    key: Key | None = scope.get(KEY)
    return key is None or key.sees(model)


def sees_key(scope: Scope, key_id: str) -> bool:
    """Return whether the caller of a request may know of a key: one that is limited to some models knows only of itself."""
    mine: Key | None = scope.get(KEY)
    return ANONYMOUS not in scope and (mine is None or mine.models is None or mine.id == key_id)


def require_visible(scope: Scope, model: str) -> None:
    """Raise `NotFound` (code `model_not_found`) unless `visible`, for a model that a body names, whether it exists or not."""
    if not visible(scope, model):
        raise NotFound(NO_ACCESS, "model_not_found")
