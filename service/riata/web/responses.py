"""Responses of the FastAPI routes."""

from __future__ import annotations

from starlette.responses import Response

from riata.web.answers import Answer


def respond(answer: Answer) -> Response:
    """Turn an `Answer` into a Starlette response."""
    response = Response(answer.body, answer.status, media_type=None)
    response.raw_headers.append((b"content-type", answer.content_type))
    response.raw_headers.extend(answer.headers)
    return response
