"""Accepting that a shared store has lost events: appends a `repair` record to the log of each affected model.

Other processes that knew the missing events read the record from the log. Its contents survive trimming of the log. A store that
was emptied has no default model. It gets a new one, whose log begins with its configuration and the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from riata.base.errors import Conflict
from riata.run.cluster.follower import marks_present
from riata.run.cluster.ledger import ID_BYTES, Judgement, Ledger, Missing
from riata.run.engine_context import EngineContext
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.state.config import Change, ModelConfig
from riata.store.records import ACCEPT_LOSS, encode_document
from riata.store.store import Append, Head, SharedStore, Store

Draw = Callable[[int], bytes]


def record_losses(context: EngineContext) -> None:
    """Append to the log the losses that the setting lost_events_max accepted here."""
    for model, facts in context.ledger.to_record().items():
        append = _repair(model, facts, context.clock.unix_ms(), context.draw)
        context.log_thread.submit(append, lambda _answer: None)


def compare(store: SharedStore, ledger: Ledger) -> Judgement:
    """Compare what `ledger` knows with the store, as every process does before it uses the store."""
    return ledger.judge(store.standings(), store.changes(), partial(marks_present, store))


def accept(store: SharedStore, ledger: Ledger, now_ms: int, draw: Draw) -> Mapping[str, Missing]:
    """Accept the loss of all events that `ledger` knows and the store lacks. Returns them by model; empty if there are none.

    Raises what the store raises; `Conflict` (code `store_contended`) if the store changed meanwhile.
    """
    found = compare(store, ledger)
    missing = dict(ledger.missing)
    if not found.code:
        return {}
    standings = store.standings()
    if DEFAULT_MODEL not in standings or standings[DEFAULT_MODEL].head.seq == 0:
        _begin_default(store, now_ms, draw)
        standings = store.standings()
    counted = ledger.lost()
    exchanged = found.code == "store_strange"
    own = {} if exchanged else {name: one for name, one in missing.items() if one.ends and name in standings}
    appends = [_repair(name, _facts(one, counted[name]), now_ms, draw) for name, one in own.items() if name != DEFAULT_MODEL]
    others = {name: counted[name] for name in missing if name not in own and name != DEFAULT_MODEL}
    if exchanged or others or DEFAULT_MODEL in own:
        here = missing.get(DEFAULT_MODEL)
        facts = _facts(here, counted[DEFAULT_MODEL]) if here else {"missing": 0, "lost": counted.get(DEFAULT_MODEL, 0)}
        instead = {"instead_of": [lineage.hex() for lineage in ledger.lineages()]} if exchanged else {}
        appends.append(_repair(DEFAULT_MODEL, {**facts, **instead, "models": others}, now_ms, draw))
    for appended in store.append(appends):
        if appended.record is None:
            raise appended.refused or Conflict("the record was not appended to the log; try again", "store_contended")
    return missing


def begin_default_again(store: Store, before: Head, now_ms: int, draw: Draw) -> None:
    """Begin the default model again after it was set aside. Processes that knew its log read in the new one that they are to go
    on with this."""
    _begin_default(store, now_ms, draw)
    gone = _facts(Missing(before.seq, before.seq, 0), before.seq)
    store.append([_repair(DEFAULT_MODEL, {**gone, "instead_of": [before.lineage.hex()]}, now_ms, draw)])


def _facts(missing: Missing, lost: int) -> dict[str, Any]:
    return {"missing": missing.count, "from": max(1, missing.known - missing.count + 1), "to": missing.known, "lost": lost}


def _repair(model: str, facts: Mapping[str, Any], now_ms: int, draw: Draw) -> Append:
    document = {"action": ACCEPT_LOSS, "id": draw(ID_BYTES).hex(), **facts}
    return Append(model, "repair", now_ms, payload=encode_document(document))


def _begin_default(store: Store, now_ms: int, draw: Draw) -> None:
    if DEFAULT_MODEL not in store.models():
        store.create(DEFAULT_MODEL, draw(16))
    payload = Change(ModelConfig(), after=0).payload()
    store.append([Append(DEFAULT_MODEL, "config", now_ms, payload=payload)])
