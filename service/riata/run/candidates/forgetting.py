"""Forget subjects: their rows are no longer learnt, their remembered predictions and the states that contain them are deleted.

    events   1 ... 57 ... 90 ........ C │ C + 1 ... R - 1 │ R
                 theirs   theirs        │ learnt again    │ the restore event: the state of event C without them

The event is a promotion that names the rows that it forgets (`adr/0013`). Nothing else is logged, so a process that
is killed has forgotten either nothing or everything. The same request sent again does what is left.

It is a job. Its note names the digests of the subjects, not the subjects. Rows that are logged after the request stay, also those
of the same subjects.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from riata.base.errors import Busy, Conflict, Corrupt
from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.base.process import BESIDE
from riata.base.request_trace import with_actor
from riata.run.candidates.learning import CHANGED, Relearning, Relearnt, read_history
from riata.run.candidates.promotion import BEHIND_MAX, log_promotion
from riata.run.engine import Engine
from riata.run.engine_context import aside
from riata.run.jobs.jobs import Job
from riata.run.labels.pending_rows import Waiting, decode_row
from riata.run.state.config import stored_document
from riata.run.writer.published import Published
from riata.store import records
from riata.store.control_events import forget_source
from riata.store.retention import NOTE, is_saved
from riata.store.store import Generation, Owner, Store
from riata.wire.parse import KEY_BYTES, digests_of

FORGET: Final = "forget"  # the kind of these jobs
WHAT: Final = "forgetting rows"
TRIES: Final = 3  # if others change the model meanwhile
_LATEST_MS: Final = 2**53 - 1  # later than any prediction is remembered


class Forgetting:
    """Requests to forget, of all models. Its methods belong to the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        engine.jobs.go_on_with(FORGET, partial(forget_subjects, engine))

    async def forget(self, model: str, subjects: Sequence[str], drop_trimmed: bool) -> Job:
        """Forget the rows of subjects that are logged now. Returns the job, done, or after a while still running. Raises as
        `forget_subjects`."""
        engine = self._engine
        engine.led(WHAT)
        hash_key = engine.published(model).config.encoder.hash_key
        key = await engine.call(lambda s: s.subject_key(secrets.token_bytes(KEY_BYTES)))
        digests = [digest.hex() for one in subjects for digest in digests_of(one, hash_key, key)]
        asked = {"digests": digests, "drop_trimmed": drop_trimmed, "last": await engine.logged_now(model)}
        return await engine.jobs.do(FORGET, model, asked, partial(forget_subjects, engine))

    def listed(self, model: str) -> list[dict[str, Any]]:
        """Return the last jobs of a model, newest first. Raises `Conflict` (code `other_role`), `Busy`, `NotFound`."""
        self._engine.served_model(model)
        self._engine.led(WHAT)
        return [job.document() for job in self._engine.jobs.of(model, FORGET)]


async def forget_subjects(engine: Engine, job: Job) -> dict[str, Any]:
    """Forget all rows of some subjects up to an event. Returns what changed once it is served and old states are gone.

    What is asked for has `digests` of the subjects, in hexadecimal; the event, `last`; and `drop_trimmed`: of a log that was
    trimmed, go on from what it still has, so that the model no longer includes what was trimmed.

    Raises `Conflict`: `log_trimmed` if the log was trimmed and `drop_trimmed` is false, `has_challengers` if the model follows
    another or is followed, `other_role` in a process that does not learn; `Busy`: `changed_meanwhile` if others keep changing the
    model, `candidate_behind` if the log grows faster than it is learnt; `Unavailable` (code `memory_full`) if there is no memory
    for a second state.
    """
    learning, model = engine.led(WHAT), job.model
    digests, drop_trimmed = [bytes.fromhex(one) for one in job.asked["digests"]], job.asked["drop_trimmed"]
    served_model = engine.served_model(model)
    async with served_model.changing:
        before = engine.published(model)
        await _check(engine, model, before, drop_trimmed)
        predictions = await engine.call(lambda s: _forget_predictions(s, model, set(digests)))
        seq, found = await _forget_rows(engine, job, partial(_relearn, engine, model, digests, job.asked["last"], job.advance))
        deleted = await _delete_states(engine, model, learning.owner, seq, found.earlier)
        after = engine.published(model)
    return {
        "model": model,
        "seq": seq,
        "rows": found.unlearnt,
        "of": found.examples,
        "in_log": len(found.forgotten),
        "predictions": predictions,
        "snapshots_deleted": len(deleted),
        "saved_deleted": [{"generation": one.gen, "note": one.info.get(NOTE, "")} for one in deleted if is_saved(one)],
        "refits_undone": found.undone,
        "trimmed": found.first - 1,
        "before": before.figures["cumulative"],
        "after": after.figures["cumulative"],
    }


async def _check(engine: Engine, model: str, published: Published, drop_trimmed: bool) -> None:
    """Raise if the model cannot be learnt again now."""
    first: int = await engine.call(lambda s: s.head(model).first_seq)
    if first > 1 and not drop_trimmed:
        raise Conflict(
            f"the log of model {model} begins at event {first}: rows before that are in the model and can neither be found nor "
            'unlearnt; with "drop_trimmed": true the model is learnt again from what the log has, without everything before it',
            "log_trimmed",
        )
    if (others := published.pairs.challengers) or published.pairs.follows:
        theirs = f"model {model} follows {published.pairs.follows}"
        what = f"{', '.join(others)} learn the events of model {model}" if others else theirs
        remedy = "drop them" if others else "drop it, forget in the model that it follows, and create it again"
        raise Conflict(f"{what}, and both have the rows: {remedy} first", "has_challengers")
    if (refused := engine.memory.refusal(sum(published.memory.values()), "learning the log again")) is not None:
        raise refused


async def _forget_rows(engine: Engine, job: Job, relearn: Callable[[], Relearnt]) -> tuple[int, Relearnt]:
    """Log the event that forgets the rows. Returns it when it is served, 0 if there are no rows; and what was found."""
    model = job.model
    for _ in range(TRIES):
        found = await aside(relearn, niceness=BESIDE)
        job.finalize()
        if not found.forgotten:
            return 0, found
        if await engine.logged_now(model) - found.state.applied > BEHIND_MAX:
            raise Busy(
                f"model {model}: the log grows faster than it is learnt again; try when fewer events come", "candidate_behind"
            )
        payload = await aside(_payload, found, with_actor({}), niceness=BESIDE)
        is_same = stored_document(found.state.config) == stored_document(engine.published(model).config)
        if is_same and (seq := await log_promotion(engine, model, payload)) is not None:
            return seq, found
    raise Busy(f"model {model} was changed while its log was learnt again; try again when nobody changes it", CHANGED)


def _relearn(engine: Engine, model: str, digests: Sequence[bytes], last: int, advance: Callable[[float], None]) -> Relearnt:
    call, in_force = engine.context.log_thread.call, engine.published(model).config
    history = read_history(call, model, None, lambda event: advance(event / max(1, last) / 2))
    relearning = Relearning(call, history, (digests, last), in_force, lambda share: advance((1.0 + share) / 2))
    relearning.catch_up()
    return relearning.catch_up()  # what came meanwhile: soon done, so that little has to be learnt again at the event


def _payload(found: Relearnt, source: dict[str, Any]) -> bytes:
    through = records.Through(found.state.applied, found.state.chain)
    return records.encode_restore({**source, **forget_source(found.forgotten)}, found.state.freeze().encode(), through)


async def _delete_states(engine: Engine, model: str, owner: Owner, seq: int, earlier: int) -> list[Generation]:
    """Delete the generations from before the event that forgot rows, after new ones took their place. Returns them; those that
    people saved are among them.

    seq     : that event; 0 if no row was found
    earlier : the last one before; if the process was killed after it, its generations may still be there
    """
    old = [one for one in await engine.call(lambda s: s.generations(model)) if one.applied < (seq or earlier)]
    if not (old or seq):
        return []
    numbers = [one.gen for one in old]
    for _ in range(GENERATIONS_KEPT_MIN):
        await engine.save(model)
    await engine.call(lambda s: s.trim(owner, model, GENERATIONS_KEPT_MIN, s.head(model).seq, 0, numbers))  # keeps all events
    left = {one.gen for one in await engine.call(lambda s: s.generations(model))}
    return [one for one in old if one.gen not in left]


def _forget_predictions(store: Store, model: str, digests: set[bytes]) -> int:
    """Delete the predictions of the subjects that wait for a label."""
    count, _ = store.remembered(model)
    theirs = []
    for row in store.due(model, _LATEST_MS, count) if count else ():
        try:
            decoded = decode_row(row.row)
        except Corrupt:
            continue  # it is discarded when it is due
        if isinstance(decoded, Waiting) and decoded.batch.subject is not None and decoded.batch.subject.tobytes() in digests:
            theirs.append(row.key)
    return store.forget(model, theirs) if theirs else 0
