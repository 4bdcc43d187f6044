"""Exception hierarchy. The branch names the cause; the `web` package maps each branch to a status once.

    RiataError
    ├── BadInput          the request cannot be accepted; sending it again will not help
    │   ├── Malformed     the bytes are not a document of the claimed type (400)
    │   ├── Unsupported   an unsupported content type (415)
    │   ├── TooLarge      over a limit of `base.limits` (413)
    │   ├── NotFound      no such model, generation or feature (404)
    │   └── Conflict      valid, but not in the present state (409)
    ├── Busy              overload: try again after `retry_after_s` (503; 429 if the caller is too fast)
    ├── Unavailable       a dependency failed: store, disk (503; 507 if space ran out)
    │   └── StoreFailed   the store must not be used again by this process
    └── Corrupt           stored bytes are not what was written
        ├── LogGap        a sequence number is missing
        └── LogFork       the chain does not match

`code` is a stable slug that programs may test. `detail` is for people: what was expected, what was received, what to do.
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
    """The request cannot be accepted; the same bytes will be refused again."""

    code = "bad_input"


class Malformed(BadInput):
    """The bytes are not a document of the type they claim to be."""

    code = "malformed"


class Unsupported(BadInput):
    """The content type is not supported."""

    code = "unsupported_media_type"


class TooLarge(BadInput):
    """A limit of `base.limits` was exceeded."""

    code = "too_large"


class NotFound(BadInput):
    """The named model, generation or prediction does not exist."""

    code = "not_found"


class Conflict(BadInput):
    """The request is valid, but not in the present state; the detail says why."""

    code = "conflict"


class Busy(RiataError):
    """Try again after `retry_after_s` seconds; nothing was accepted."""

    code = "busy"

    def __init__(self, detail: str, code: str | None = None, retry_after_s: float = 1.0) -> None:
        super().__init__(detail, code)
        self.retry_after_s = retry_after_s


class Stopped(Busy):
    """A start, or a promotion, was abandoned because the process is stopping."""

    def __init__(self) -> None:
        super().__init__("the service is stopping", "stopping", retry_after_s=5)


class Unavailable(RiataError):
    """The store or the disk failed. `outcome` says whether the events were accepted: "not_accepted" or "unknown"."""

    code = "unavailable"

    def __init__(self, detail: str, code: str | None = None, outcome: str = "not_accepted") -> None:
        super().__init__(detail, code)
        self.outcome = outcome


class StoreFailed(Unavailable):
    """The content of the store is unknown. This process must not use the store again; it must end and be restarted."""

    code = "store_failed"

    def __init__(self, detail: str, outcome: str = "unknown") -> None:
        super().__init__(detail, "store_failed", outcome)


class Corrupt(RiataError):
    """Stored bytes are not what was written. `event`: the first damaged event of the log, if known."""

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
    """Return a sentence naming the known word nearest to `word`, or all of them if none is near."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(words)}"
