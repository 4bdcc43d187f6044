"""Lines of the log as JSON: of single records, and every line of a service."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.base.log_lines import FIELDS, JsonLines
from riata.base.read_settings import load_settings
from riata.base.request_trace import current_actor
from tests.running import Running


def line_of(message: str, *arguments: object, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("riata.run", logging.WARNING, "a.py", 1, message, arguments, None)
    vars(record).update(created=1_700_000_000.25, **more)
    written = JsonLines().format(record)
    assert written.isascii()
    assert "\n" not in written
    found: dict[str, Any] = json.loads(written)
    return found


def test_a_record_is_one_object_whatever_its_message_holds() -> None:
    assert line_of("model %s:\n\u202ebad", "m") == {
        "time": "2023-11-14T22:13:20.250Z", "level": "WARNING", "logger": "riata.run", "message": "model m:\n\u202ebad",
    }  # fmt: skip
    assert line_of("x", **{FIELDS: {"status": 200, "where": Path("a")}})["fields"] == {"status": 200, "where": "a"}
    try:
        raise ValueError("broken")
    except ValueError:
        assert line_of("x", exc_info=sys.exc_info())["exception"].endswith("ValueError: broken")
    token = current_actor.set("ops")
    try:
        assert line_of("x")["actor"] == "ops"
    finally:
        current_actor.reset(token)


def test_the_setting_is_read_in_either_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIATA_LOG_FORMAT", "JSON")
    assert load_settings().log_format == "json"


def test_every_line_of_a_service_is_an_object(tmp_path: Path) -> None:
    with Running(tmp_path / "data", {"RIATA_LOG_FORMAT": "json", "RIATA_LOG_LEVEL": "debug"}) as running:
        running.start()
        assert httpx.post(f"{running.url}/observe?wait=applied", json={"features": {"a": 1}, "label": 1}).status_code == 200
        assert running.stop() == 0
        lines = [json.loads(line) for line in (tmp_path / "data.log").read_text().splitlines()]
    assert {"riata.run", "riata.access", "uvicorn.error"} <= {line["logger"] for line in lines}
    (access,) = [line for line in lines if line.get("fields", {}).get("route") == "/observe"]
    assert (access["level"], access["fields"]["method"], access["fields"]["status"]) == ("DEBUG", "POST", 200)
    assert access["fields"]["ms"] > 0.0
