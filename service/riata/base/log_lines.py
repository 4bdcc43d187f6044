"""Lines of the log on stderr: as text for people, or each as a JSON object for programs."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Final, Literal

from riata.base.clock import rfc3339
from riata.base.request_trace import ACTOR, current_actor

LogFormat = Literal["text", "json"]
TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIELDS: Final = "fields"  # attribute of a record, by `extra`: what its message says, as a dictionary


class JsonLines(logging.Formatter):
    """Writes a record as one line: time (UTC), level, logger, message; where there are any, fields, actor and exception.

    actor : id of the API key of the request in whose course the line was written
    Characters outside ASCII are escaped, so no name of a feature can break a line or reorder it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": rfc3339(int(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (fields := getattr(record, FIELDS, None)) is not None:
            line[FIELDS] = fields
        if actor := current_actor.get():
            line[ACTOR] = actor
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(level: str, form: LogFormat) -> None:
    """Have every logger of the process, uvicorn's too, write lines from this severity on. Warnings of Python become lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(True)
