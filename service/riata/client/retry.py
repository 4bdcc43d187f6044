"""The retry policy of both clients: whether to send a request again, and after which backoff. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from riata.client.calls import Call
from riata.client.errors import Unreachable, error_of

BUSY: Final = frozenset({429, 503})
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call may wait between its attempts.

    total_s : s   sum of the waits between attempts; after it the last answer or failure is raised
    """

    total_s: float = 30.0

    def wait_after_status(self, status: int, headers: Mapping[str, str], attempt: int, waited_s: float) -> float | None:
        """Return the seconds to wait before attempt + 1, or None if the answer is final.

        429 and 503 mean that nothing was accepted or that a retry is safe. Only those are repeated.
        """
        if status not in BUSY:
            return None
        return self._within(_retry_after_s(headers) or _backoff_s(attempt), waited_s)

    def wait_after_silence(self, attempt: int, waited_s: float) -> float | None:
        """Return the seconds to wait after an attempt without an answer, or None if `total_s` is used up."""
        return self._within(_backoff_s(attempt), waited_s)

    def _within(self, wait_s: float, waited_s: float) -> float | None:
        return wait_s if waited_s + wait_s <= self.total_s else None


class Attempts:
    """The attempts at one call: counts them, sums the waits, decides whether there is another.

    known : whether the service has answered this client before. If it never did, there is no retry after silence: a wrong
            address is more likely than a service that is down.
    """

    def __init__(self, call: Call, patience: Patience, known: bool) -> None:
        self._call = call
        self._patience = patience
        self._known = known
        self._made = 0
        self._waited_s = 0.0

    def after_answer(self, status: int, headers: Mapping[str, str], body: bytes) -> float:
        """Return the seconds to wait before the next attempt. Raises the `ApiError` of a final answer."""
        wait_s = self._patience.wait_after_status(status, headers, self._made, self._waited_s)
        if wait_s is None or not self._call.repeatable:
            raise error_of(status, body)
        return self._next(wait_s)

    def after_silence(self, url: str, error: Exception) -> float:
        """Return the seconds to wait before the next attempt. Raises `Unreachable` if there is none."""
        wait_s = self._patience.wait_after_silence(self._made, self._waited_s)
        if wait_s is None or not self._known or not self._call.repeatable:
            raise Unreachable(f"{url} does not answer: {error or type(error).__name__}") from None
        return self._next(wait_s)

    def _next(self, wait_s: float) -> float:
        self._made += 1
        self._waited_s += wait_s
        return wait_s


def _backoff_s(attempt: int) -> float:
    return min(FIRST_WAIT_S * 2.0 ** min(attempt, 16), LONGEST_WAIT_S)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read Retry-After in seconds; the service never sends the date form."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit() else None
