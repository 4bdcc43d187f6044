"""One tree of errors; the branch says whose fault it is, the web room maps each branch once.

    RiataError
    ├── BadInput          the caller's: something sent cannot be accepted, sending it again will not help
    │   ├── Malformed     the bytes are not what they say they are (400)
    │   ├── Unsupported   a content type that is not read here (415)
    │   ├── TooLarge      over a limit that is written down in `base.limits` (413)
    │   ├── NotFound      no such model, generation or feature (404)
    │   └── Conflict      fine by itself, not in this state (409)
    ├── Busy              nobody's: try again after `retry_after_s` (503; 429 where the caller is too fast)
    ├── Unavailable       a dependency's: store, disk (503; 507 where space ran out)
    │   └── StoreFailed   the store must not be used again by this process
    └── Corrupt           ours: stored bytes are not what was written
        ├── LogGap        a sequence number is missing
        └── LogFork       the chain does not match

`code` is a stable slug that programs may test; `detail` is for people: what was expected, what came, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RiataError(Exception):
    """Root of the tree."""

    code = "internal"

    def __init__(self, detail: str, code: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        if code is not None:
            self.code = code


class BadInput(RiataError):
    """The caller sent something that cannot be accepted; the same bytes will be refused again."""

    code = "bad_input"


class Malformed(BadInput):
    """The bytes are not a document of the type they claim to be."""

    code = "malformed"


class Unsupported(BadInput):
    """The content type is not one that is read here."""

    code = "unsupported_media_type"


class TooLarge(BadInput):
    """A limit of `base.limits` was passed."""

    code = "too_large"


class NotFound(BadInput):
    """The named model, generation or prediction does not exist."""

    code = "not_found"


class Conflict(BadInput):
    """Acceptable by itself, but not in the present state; the detail says which part."""

    code = "conflict"


class Busy(RiataError):
    """Try again after `retry_after_s` seconds; nothing was accepted."""

    code = "busy"

    def __init__(self, detail: str, code: str | None = None, retry_after_s: float = 1.0) -> None:
        super().__init__(detail, code)
        self.retry_after_s = retry_after_s


class Unavailable(RiataError):
    """The store or the disk did not do its part. `outcome` says what became of the events."""

    code = "unavailable"

    def __init__(self, detail: str, code: str | None = None, outcome: str = "not_accepted") -> None:
        super().__init__(detail, code)
        self.outcome = outcome


class StoreFailed(Unavailable):
    """Nobody knows what the store holds, and this process must not ask it again: end it, a new start finds out."""

    code = "store_failed"

    def __init__(self, detail: str, outcome: str = "unknown") -> None:
        super().__init__(detail, "store_failed", outcome)


class Corrupt(RiataError):
    """Stored bytes are not what was written. `event`: the first event of the log that is harmed, where that is known."""

    code = "corrupt"

    def __init__(self, detail: str, code: str | None = None, event: int | None = None) -> None:
        super().__init__(detail, code)
        self.event = event


class LogGap(Corrupt):
    """A sequence number is missing from the log."""

    code = "log_gap"


class LogFork(Corrupt):
    """The digest chain of the log does not match."""

    code = "log_fork"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a sentence naming the known word nearest to `word`, or all of them where none is near."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(words)}"
