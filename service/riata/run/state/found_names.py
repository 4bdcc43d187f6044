"""The names of features that a model's settings ask for by field, found among the names seen, and the event that tells the state.

Rows in the log hold hashes, and names are beside the log, for display: no state may depend on them. So the process that learns
looks for them and logs what it found, name and hash, in a `config` event that sets nothing new. From that event on the state
counts them, in a replay too.
"""

from __future__ import annotations

from typing import Final

from riata.predict.name_book import NameBook
from riata.run.state.config import config_payload
from riata.run.writer.published import Published
from riata.watch.slices import EQUALS, wanted
from riata.wire.new_names import TIMES

CROSSED: Final = TIMES.decode()  # in the names of crossed features
EVERY_MS: Final = 10_000  # between two events that name values: they come by the dozen


class NamesLooked:
    """When the names of one model were last looked through, and what had been seen then."""

    def __init__(self) -> None:
        self._looked: tuple[int, tuple[int, ...]] | None = None
        self._asked: tuple[int | None, tuple[int, ...]] = (None, ())  # when, and the changes of the configuration until then

    def payload(self, published: Published, names: NameBook) -> bytes | None:
        """Return the payload of the event that says which names were found; None if there are no new ones, or were a moment ago.

        It is valid for the configuration in force only. If it is void, or the store refuses it, the names are found again.
        """
        config, now_ms = published.config, published.published_mono_ms
        asked_ms, asked_at = self._asked
        is_recent = asked_ms is not None and now_ms - asked_ms < EVERY_MS
        unfound = _unfound(published)
        if not (config.slices or unfound) or (is_recent and (not unfound or asked_at == published.changes)):
            return None
        seen = len(names), published.changes
        if seen == self._looked:
            return None
        found = {**({} if is_recent else _values(published, names)), **names.hashes_of(unfound)}
        if not found:
            self._looked = None if is_recent else seen
            return None
        self._asked = now_ms, published.changes
        return config_payload(config, published.changes[-1] if published.changes else 0, names=found)


def _values(published: Published, names: NameBook) -> dict[str, int]:
    """Return the values of sliced fields that are not slices yet."""
    fields = published.config.slices
    known = {name: value for field in fields for name, value in names.with_prefix(field + EQUALS) if CROSSED not in name}
    return wanted(known, fields, [f"{one['field']}{EQUALS}{one['value']}" for one in published.figures.get("slices", [])])


def _unfound(published: Published) -> list[str]:
    """Return the features whose weights are to be followed and are not yet."""
    held = () if published.followed is None else published.followed.names
    return [name for name in published.config.weights_followed if name not in held]
