"""Event ids of rows that carry none: from an Idempotency-Key, or given after the rows, at the end of the body.

With the option `ids=N` the last 16 N bytes of a body are the ids of its N rows, in their order and in no format: 128-bit digests
that the client made. So rows of every format can have ids, in place of texts inside the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from riata.base.errors import BadInput
from riata.wire.padded_buffer import PaddedBuffer
from riata.wire.parsed import ID_BYTES, Parsed
from riata.wire.small_bodies import id_of


@dataclass(frozen=True, slots=True)
class RowNames:
    """The ids of the rows of a body. key: row i without an id gets the id `key/i`; digests: 16 bytes a row, in place of that."""

    key: str | None = None
    digests: bytes | None = None

    def given_to(self, parsed: Parsed) -> Parsed:
        """Give each row without an event id its id, by its position in the body. Raises `BadInput` (code `bad_ids`) if there are
        more or fewer digests than rows."""
        batch = parsed.batch
        event_id = batch.event_id.copy()
        without = np.flatnonzero(~batch.has_id)
        if self.digests is not None:
            digests = np.frombuffer(self.digests, np.uint8).reshape(-1, ID_BYTES)
            if len(digests) != parsed.rows:
                raise BadInput(f"ids: {len(digests)} ids for {parsed.rows} rows; give one for each row of the body", "bad_ids")
            event_id[without] = digests[parsed.row[without]]
        elif self.key is not None:
            for at in without.tolist():
                event_id[at] = np.frombuffer(id_of(self.key, int(parsed.row[at])), dtype=np.uint8)
        return replace(parsed, batch=replace(batch, event_id=event_id, has_id=np.ones_like(batch.has_id)))


NO_NAMES: Final = RowNames()


def cut_ids(body: bytes | PaddedBuffer, count: int) -> tuple[bytes | PaddedBuffer, RowNames]:
    """Cut `count` ids off the end of a body. Raises `BadInput` (code `bad_ids`) if it is too short."""
    size = len(body) - ID_BYTES * count
    if size < 0:
        raise BadInput(f"ids: the body has {len(body)} bytes, fewer than {count} ids of {ID_BYTES} bytes", "bad_ids")
    if isinstance(body, PaddedBuffer):
        return body.first(size), RowNames(digests=body.bytes[size:].tobytes())
    return body[:size], RowNames(digests=body[size:])
