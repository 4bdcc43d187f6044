"""Responses of the FastAPI routes."""

from __future__ import annotations

from starlette.responses import Response, StreamingResponse

from riata.web.server.answers import Answer, Stream


def respond(answer: Answer | Stream) -> Response:
    """Turn an answer into a Starlette response."""
    if isinstance(answer, Stream):
        streaming = StreamingResponse(answer.parts)
        streaming.raw_headers += [
            (b"content-type", answer.content_type),
            (b"x-accel-buffering", b"no"),
        ]  # nginx would hold it back
        return streaming
    response = Response(answer.body, answer.status, media_type=None)
    response.raw_headers.append((b"content-type", answer.content_type))
    response.raw_headers.extend(answer.headers)
    return response
