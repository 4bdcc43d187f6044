"""Messages of a stream as rows of NDJSON, each with an event id that is the same whenever the message is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from riata.wire.given import ABSENT, category_word

CLOUD_EVENT: Final = "specversion"  # the attribute that every CloudEvent has
_SHOWN_MAX: Final = 64
VALUE: Final = b"value"  # the field of a message that has a value and no fields


@dataclass(frozen=True, slots=True)
class Message:
    """One message. id: its id in the stream; fields: its content; is_tombstone: it has no value, and deletes those of its key."""

    id: str
    fields: Mapping[bytes, bytes]
    is_tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """What messages look like. row_field: the field that holds a row as JSON; None if every field is a feature, and `label` the
    label. stream: its name, the first part of event ids. event_id: the field, or the key of the row, that is the event id; None:
    that of the message or the CloudEvent. categories: fields whose values are texts, unless the model knows better."""

    stream: str
    row_field: str | None
    label: str
    event_id: str | None = None
    categories: tuple[str, ...] = ()


@dataclass(slots=True)
class FieldsSeen:
    """The kinds of the fields of a model, as far as a feeder knows. meets: whether the first value of another field decides."""

    kinds: dict[str, str] = field(default_factory=dict)
    meets: bool = False

    def value(self, name: str, text: str) -> float | int | str:
        """Return the value of a field as JSON has it: by the kind of the field, or a number if JSON reads the text as one."""
        kind, number = self.kinds.get(name), _number(text)
        if text in ("true", "false") and kind not in ("category", "list", "text") and (kind is not None or self.meets):
            self.kinds.setdefault(name, "number")
            return text == "true"
        if kind is None and self.meets and text.strip().lower() not in ABSENT:
            self.kinds[name] = "category" if number is None else "number"
        if kind in ("category", "list"):
            return category_word(text)
        return text if number is None or kind == "text" else number


def event_of(message: Message, layout: Layout, fields: FieldsSeen | None = None) -> bytes:
    """Return the line of NDJSON that a message is sent as. Raises `ValueError`, which says why it is no row."""
    event_id = f"{layout.stream}/{message.id}"
    if layout.row_field is None:
        row: dict[str, Any] = _from_fields(message, layout, fields or FieldsSeen())
    else:
        row = _from_json(message, layout.row_field)
        if CLOUD_EVENT in row:
            event_id = _cloud_event_id(row)
            row = row.get("data", {})
            if not isinstance(row, dict):
                raise ValueError("the data of the CloudEvent is not a JSON object")
    if "prediction_id" not in row:  # a label of a prediction: that is its event id
        row = {**row, "event_id": event_id if layout.event_id is None else _own_id(row, layout.event_id)}
    return json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _own_id(row: dict[str, Any], name: str) -> str:
    """Take the event id out of a row: one of its keys, or else one of its features. Raises `ValueError` if there is none."""
    held = row if name in row else row.get("features")
    found = held.pop(name, None) if isinstance(held, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise ValueError(f"its event id, {name!r}, is missing or neither a text nor a whole number (--event-id)")
    return str(found)


def _from_fields(message: Message, layout: Layout, fields: FieldsSeen) -> dict[str, Any]:
    texts = {_text(name): _text(value) for name, value in message.fields.items()}
    if layout.label not in texts:
        raise ValueError(f"it has no field {layout.label!r} for the label; --label names another")
    label = texts.pop(layout.label)
    number = _number(label)
    features = {name: text if name == layout.event_id else fields.value(name, text) for name, text in texts.items()}
    return {"features": features, "label": label if number is None else number}


def _from_json(message: Message, name: str) -> dict[str, Any]:
    content = message.fields.get(name.encode())
    if content is None:
        raise ValueError(f"it has no field {name!r}")
    row = _decoded(content)
    if not isinstance(row, dict):
        raise ValueError(f"the field {name!r} is not a JSON object")
    return row


def _cloud_event_id(event: dict[str, Any]) -> str:
    """Return what identifies a CloudEvent. Raises `ValueError` if it lacks one of the two attributes that do."""
    for name in ("id", "source"):
        given = event.get(name)
        if not isinstance(given, str) or not given:
            told = "is missing" if given in (None, "") else f"is no text: {json.dumps(given)[:_SHOWN_MAX]}"
            raise ValueError(f"the attribute {name} of the CloudEvent {told}; id and source are both required, as the event id")
    return f"{event['source']}/{event['id']}"


def _decoded(content: bytes) -> Any:
    """Return what JSON says. Raises `ValueError`, which says what the bytes are if they are something else."""
    if not content:
        raise ValueError("empty value")
    if content[0] == 0:
        raise ValueError("not UTF-8 JSON: it begins with a zero byte, as Avro and Protobuf of a schema registry do; send JSON")
    try:
        return json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 JSON: byte {error.start} is not UTF-8, as in Avro and other binary formats") from None
    except RecursionError:
        raise ValueError("not UTF-8 JSON: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not UTF-8 JSON: {error}") from None


def _number(text: str) -> float | int | None:
    """Return the number that a text is in JSON; None if it is none, or none that a double holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # lists inside lists, thousands deep
        return None
    is_number = type(value) in (int, float) and text.strip() == text and text[-1:].isdigit()
    return value if is_number and abs(value) < inf else None


def _text(content: bytes) -> str:
    return content.decode("utf-8")  # its errors are of ValueError
