"""Messages of a stream as rows of NDJSON, each with an event id that is the same whenever the message is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CLOUD_EVENT: Final = "specversion"  # the attribute that every CloudEvent has
VALUE: Final = b"value"  # the field of a message that has a value and no fields


@dataclass(frozen=True, slots=True)
class Message:
    """One message. id: its id in the stream; fields: its content."""

    id: str
    fields: Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Layout:
    """What messages look like. row_field: the field that holds a row as JSON; None if every field is a feature, and `label` the
    label. stream: its name, the first part of event ids."""

    stream: str
    row_field: str | None
    label: str


def event_of(message: Message, layout: Layout) -> bytes:
    """Return the line of NDJSON that a message is sent as. Raises `ValueError`, which says why it is no row."""
    event_id = f"{layout.stream}/{message.id}"
    if layout.row_field is None:
        row: dict[str, Any] = _from_fields(message, layout)
    else:
        row = _from_json(message, layout.row_field)
        if CLOUD_EVENT in row:
            event_id = f"{row.get('source', '')}/{row.get('id', '')}"
            row = row.get("data", {})
            if not isinstance(row, dict):
                raise ValueError("the data of the CloudEvent is not a JSON object")
    if "prediction_id" not in row:  # a label of a prediction: that is its event id
        row = {**row, "event_id": event_id}
    return json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _from_fields(message: Message, layout: Layout) -> dict[str, Any]:
    features = {_text(name): _value(_text(value)) for name, value in message.fields.items()}
    if layout.label not in features:
        raise ValueError(f"it has no field {layout.label!r} for the label; --label names another")
    label = features.pop(layout.label)
    return {"features": features, "label": label}


def _from_json(message: Message, name: str) -> dict[str, Any]:
    content = message.fields.get(name.encode())
    if content is None:
        raise ValueError(f"it has no field {name!r}")
    row = json.loads(content)  # its errors are of ValueError
    if not isinstance(row, dict):
        raise ValueError(f"the field {name!r} is not a JSON object")
    return row


def _value(text: str) -> float | int | str:
    """Return a number if JSON would read the text as one, as in a query; otherwise the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if type(value) in (int, float) and text.strip() == text and text[-1:].isdigit():
        return value  # type: ignore[no-any-return]
    return text


def _text(content: bytes) -> str:
    return content.decode("utf-8")  # its errors are of ValueError
