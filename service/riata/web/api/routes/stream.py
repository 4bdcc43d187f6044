"""Server-sent events: what is served of a model and the progress of its newest refit, as they change.

Each stream looks at what is published once in LOOK_S, which costs less than a request, so nothing has to be told that somebody
listens. The ids of events are positions in the log, so a client that comes back with Last-Event-ID gets only what is newer. A
stream ends by itself after LIFE_S: the client comes back, and its key is checked again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from riata.base.clock import rfc3339
from riata.base.errors import Busy, NotFound, RiataError
from riata.run.writer.published import Published
from riata.web.api.options import SEQ_MAX, whole
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.watching import FADED_SHOWN
from riata.web.api.schemas import TEXT
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import IS_STOPPING, Stream
from riata.web.server.body import header

EVENT_STREAM: Final = "text/event-stream"
LOOK_S: Final = 0.5
BEAT_S: Final = 15.0  # proxies close connections on which nothing is sent for a minute
LIFE_S: Final = 600.0
RETRY_MS: Final = 2000
EVENTS_MAX: Final = 10**6
EVENTS: Final = whole("events", "end after this many events", 1, EVENTS_MAX, None)
REFIT_SHOWN: Final = ("id", "state", "stage", "created", "seconds", "progress", "error", "promotion")


async def stream(call: Call) -> Stream:
    """Begin a stream. Raises `Busy` (code `streams_full`) if there are too many."""
    model, options = call.asked()
    published, streams = call.parts.service.published(model), call.parts.streams
    most = EVENTS.of(options)
    settings, key = call.parts.settings, call.actor or None
    if streams.open >= settings.streams_max:
        raise Busy(f"{streams.open} streams are open, as many as there may be", "streams_full", retry_after_s=5.0)
    if key is not None and streams.by_key[key] >= settings.streams_per_key:
        detail = f"{streams.by_key[key]} streams of the key {key} are open, as many as one key may have"
        raise Busy(detail, "streams_full", retry_after_s=5.0)
    last = header(call.request.scope, b"last-event-id") or b""
    seen = int(last) if last.isdigit() and len(last) < len(str(SEQ_MAX)) else -1
    begun = updates(call, model, published, seen, most)
    await anext(begun)  # from here on it counts as open, and its end is noticed however it comes
    return Stream(begun, EVENT_STREAM.encode())


async def updates(call: Call, model: str, first: Published, seen: int, most: int | None) -> AsyncIterator[bytes]:
    """Yield nothing at first, then each event as bytes.

    first : what was served when the request came
    seen  : the last position in the log that the client has, -1 if it has none
    most  : number of events after which the stream ends; None: no limit
    """
    streams, is_stopping = call.parts.streams, call.request.scope.get(IS_STOPPING, lambda: False)
    key = call.actor or None
    streams.change(key, 1)
    try:
        yield b""
        yield b"retry: %d\n\n" % RETRY_MS
        lineage, told, sent = first.model.origin.lineage, None, 0
        began = beaten = time.monotonic()
        while not is_stopping() and time.monotonic() - began < LIFE_S:
            try:
                published, refit = call.parts.service.published(model), newest_refit(call, model)
            except NotFound:
                yield event("gone", None, {"name": model})
                return
            except RiataError:  # it is being loaded, or cannot be served for now
                published, refit = None, told
            due = []
            if published is not None and (published.applied > seen or published.model.origin.lineage != lineage):
                seen, lineage = published.applied, published.model.origin.lineage
                due.append(event("model", seen, shown(published)))
            if refit != told and refit is not None:
                told = refit
                due.append(event("refit", None, refit))
            for one in due:
                yield one
                sent += 1
                if sent == most:
                    return
            now = time.monotonic()
            if due:
                beaten = now
            elif now - beaten >= BEAT_S:
                beaten = now
                yield b":\n\n"
            await asyncio.sleep(LOOK_S)
    finally:
        streams.change(key, -1)


def shown(published: Published) -> dict[str, Any]:
    """Return the position and the faded figures of what is served."""
    faded = published.figures["faded"]
    return {
        "name": published.model.origin.name,
        "seq": published.applied,
        "version": published.version,
        "published": rfc3339(published.published_ms),
        "examples": published.examples,
        "non_zeros": published.model.weights.non_zeros,
        "skipped": published.skipped,
        "configured": published.changes[-1] if published.changes else None,
        "faded": {figure: faded.get(figure) for figure in FADED_SHOWN},
    }


def newest_refit(call: Call, model: str) -> dict[str, Any] | None:
    """Return state and progress of the newest refit; None if there is none, or if this process does not learn."""
    try:
        found = call.parts.service.refits.listed(model)
    except NotFound:
        raise
    except RiataError:
        return None
    return {key: found[0].get(key) for key in REFIT_SHOWN} if found else None


def event(kind: str, seq: int | None, document: Mapping[str, Any]) -> bytes:
    """Write one event. seq : its id; None for one that does not move the position of the client"""
    at = b"" if seq is None else b"id: %d\n" % seq
    return b"event: %b\n%bdata: %b\n\n" % (kind.encode(), at, msgspec.json.encode(document))


TAG: Final = "operations"
_SUMMARY: Final = "What is served of the model, and the progress of its newest refit, as server-sent events."
_ANSWER: Final = {
    200: {
        EVENT_STREAM: {
            "schema": {
                "type": "object",
                "properties": {"event": TEXT, "id": TEXT, "data": TEXT},
                "description": "`model`: position (also the id), version and faded figures, when more is served. `refit`: "
                "state and progress of the newest refit, if this process learns. `gone`: the model was dropped. A comment every "
                "15 s. It ends after ten minutes, and when the service stops",
            }
        }
    }
}
ROUTES: Final = (Route("GET", f"{AT}/stream", (ADMIN, WATCH), stream, _SUMMARY, _ANSWER, (404, 422, 503), (EVENTS,)),)
