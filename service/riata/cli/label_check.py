"""Looks at the labels of a file before its first row is sent: one of another setting would teach a model half of what it says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from riata.wire.given import FORMS, OWN, Given, LabelTally, OtherLabels

if TYPE_CHECKING:
    from riata.client import Riata

HEAD_ROWS: Final = 1000  # of stdin, which cannot be read twice


def setting_of(riata: Riata, model: str, labels: str | None) -> str | None:
    """Return the setting `labels` of a model; of one that does not exist what it will be created with. None if neither is known,
    as without the right to read the model."""
    from riata.client import ApiNotFound, ApiRefused

    try:
        config = riata.model(model).get("config")
    except ApiNotFound:
        return labels if labels in OWN else None
    except ApiRefused:
        return None
    found = config.get("labels") if isinstance(config, dict) else None
    return found if found in OWN else None


def require_own_labels(labels: Iterable[tuple[Given | None, int]], setting: str, *, is_table: bool) -> None:
    """Raise `OtherLabels` if all of these labels are those of another setting."""
    tally = LabelTally(setting)
    for given, count in labels:
        tally.add(given, count)
    try:
        tally.require_own_form()
    except OtherLabels as error:
        hint = "; --positive says which value means 1" if is_table and setting in FORMS else ""
        raise OtherLabels(f"{error.detail}{hint}. Nothing was sent", error.rows) from None
