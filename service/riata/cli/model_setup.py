"""Making a model for a file: the configuration document that takes its labels and its texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from riata.base.errors import BadInput, nearest

if TYPE_CHECKING:
    from riata.client import Riata

LABELS: Final = ("0/1", "-1/+1", "real")
TEXT_CHARACTERS: Final = 100  # a string longer than this is prose to be split into words, not the name of a category
LOSS_OF_REAL: Final = "squared"


def model_document(labels: str, text: Iterable[str] = ()) -> dict[str, Any]:
    """Write the configuration of a model for these labels, everything else by default."""
    if labels not in LABELS:
        raise BadInput(f"--labels {labels}: {nearest(labels, LABELS)}", "bad_option")
    document: dict[str, Any] = {"labels": labels}
    if labels == "real":
        document["learner"] = {"kind": "truncated_gradient", "loss": LOSS_OF_REAL}
    if fields := list(text):
        document["encoder"] = {"text": fields}
    return document


def text_fields(lines: Iterable[bytes]) -> list[str]:
    """Name the features of NDJSON rows that hold prose in any of `lines`."""
    found: set[str] = set()
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        features = row.get("features") if isinstance(row, dict) else None
        if isinstance(features, dict):
            found |= {name for name, value in features.items() if isinstance(value, str) and len(value) > TEXT_CHARACTERS}
    return sorted(found)


def ensure_model(riata: Riata, model: str, labels: str) -> bool:
    """Create `model` for `labels` unless it is there; return whether it was created.

    Raises `BadInput` where it is there and takes other labels.
    """
    from riata.client import ApiNotFound

    try:
        present = riata.model(model)
    except ApiNotFound:
        riata.create_model(model, model_document(labels))
        return True
    taken = present.get("config", {}).get("labels")
    if taken is not None and taken != labels:
        raise BadInput(f"model {model!r} takes labels {taken}, not {labels}; give another name with --model", "labels_differ")
    return False
