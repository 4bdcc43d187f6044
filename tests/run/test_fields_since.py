"""From which event on fields have their kinds: what is known where records are trimmed, and changes no longer listed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from riata.run.log.fields import _since
from riata.run.state.changes import GONE, Told
from riata.run.state.config import ModelConfig
from riata.wire.fields import Field, Fields

CONFIG = ModelConfig()


def config(fields: Any) -> ModelConfig:
    return replace(CONFIG, encoder=replace(CONFIG.encoder, fields=Fields.from_document(fields)))


ZIP = config({"zip": "category"})
DECLARED, MET = Field("zip", "category", True, 0, 0), Field("zip", "category", False, 0, 0)


@pytest.mark.parametrize(
    ("field", "met", "told", "now", "since"),
    [
        (DECLARED, None, [(1, ZIP)], ZIP, 1),
        (DECLARED, None, [(1, None)], ZIP, 1),  # trimmed, but no change came later
        (DECLARED, None, [(1, None), (9, ZIP)], ZIP, None),  # event 9 may have changed something else
        (DECLARED, None, [(7, ZIP), (9, ZIP)], ZIP, None),  # earlier changes are not listed
        (DECLARED, None, [(7, config("auto")), (9, ZIP), (11, ZIP)], ZIP, 9),
        (DECLARED, None, [(7, config({"zip": "number"})), (9, None)], ZIP, 9),
        (DECLARED, None, [], ZIP, None),
        (MET, 5, [(1, config("auto"))], config("auto"), 5),
        (MET, 5, [(1, config("auto")), (9, config({"a": "time"}))], config({"a": "time"}), 5),
        (MET, 5, [(1, config("off")), (9, config("auto"))], config("auto"), 9),
        (MET, 5, [(1, ZIP), (9, config("auto"))], config("auto"), 9),
        (MET, 5, [(1, None), (9, None)], config("auto"), 5),
        (MET, None, [(1, config("auto"))], config("auto"), None),
    ],
)
def test_the_event_is_that_of_the_change_or_of_the_first_name(
    field: Field, met: int | None, told: list[tuple[int, ModelConfig | None]], now: ModelConfig, since: int | None
) -> None:
    changes = [Told(seq, GONE if known is None else "configured", config=known) for seq, known in told]
    assert _since(field, met, changes, now) == since
