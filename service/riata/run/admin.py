"""Create, change, save, restore, export, import and drop models. Each operation is a log event, or does not touch the log."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from riata.base.clock import rfc3339
from riata.base.errors import BadInput, Busy, Conflict, NotFound, Unavailable
from riata.base.process import lower_priority
from riata.run.candidates.challengers import FOLLOW, Challengers
from riata.run.candidates.exports import read_export, write_export
from riata.run.candidates.promotion import TAKEN_OFF, put_back, require_unforgotten
from riata.run.changing import Creations, saved_content, take_up
from riata.run.engine import Engine
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.state.config import ModelConfig, read_config
from riata.run.state.config_changes import check_change, require_bounded, with_changes, with_known
from riata.run.state.model_state import ModelState
from riata.store import layout
from riata.store.retention import CAUSE, NOTE, is_saved, leads_on
from riata.store.sqlite.online_backup import OnlineBackup
from riata.store.sqlite.store import SqliteStore
from riata.store.store import Generation, Head, Store, names_in_log
from riata.wire.encoder import fingerprint

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Admin:
    """Operations on models, for the web package."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._creations = Creations(engine)
        self._challengers = Challengers(engine, self._creations)
        self._snapshots = Snapshots(engine)

    async def put_model(self, model: str, document: object, patient: bool = True) -> tuple[bool, ModelConfig]:
        """Create `model`, or change its changeable settings. Returns whether it was created, and its configuration.

        patient : wait until a challenger has learnt the log of its leader; see `Challengers.follow`
        Raises `BadInput` for the name or the document, `Conflict` (code `needs_rebuild`) naming what cannot change. A document
        with `follow` makes a challenger, see `Challengers.follow`.
        """
        check_name(model)
        if isinstance(document, Mapping) and FOLLOW in document:
            self._engine.require_role("change")
            return await self._challengers.follow(model, document, patient)
        config = self.read(document)
        self._engine.require_role("change")
        if model not in self._engine.served_models:
            require_bounded(config)
        if await self._creations.create(model, config):
            return True, config
        await take_up(self._engine, model, lambda old: check_change(old, with_known(config, old)))
        return False, config

    def read(self, document: object) -> ModelConfig:
        """Read a configuration document; trees of curves may be given by the digests of those that any model has. One with
        `follow` has the other settings of that model. Raises `BadInput`."""
        if isinstance(document, Mapping) and FOLLOW in document:
            return self._challengers.read(document)[1]
        return read_config(document, (served.encoder.curves for served in self._engine.served_models.values()))

    async def change(self, model: str, changes: Mapping[str, Any]) -> tuple[ModelConfig, int]:
        """Change settings of `model` while it learns. Returns its configuration, and the event after which the change is served.

        Raises `Conflict` (code `needs_rebuild`) for settings that are fixed, `BadInput` for unknown settings and bad values.
        """
        self._engine.require_role("change")
        return await take_up(self._engine, model, lambda old: with_changes(old, changes, model))

    async def drop_model(self, model: str) -> None:
        """Drop `model` with its log and generations, also one that is not served yet or replays. Raises `Conflict` (code
        `default_stays`) for the default model, unless it is not served: then an empty one replaces it."""
        catalogue = self._engine.context.catalogue
        unserved = model in catalogue.damaged or model in catalogue.coming
        if not unserved:
            self._engine.served_model(model)
        if model == DEFAULT_MODEL and not unserved:
            raise Conflict(
                "the default model cannot be dropped; restore an earlier snapshot, or use another model", "default_stays"
            )
        learning = self._engine.led("dropping a model")
        async with self._challengers.relating:
            await self._challengers.release(model)
            await learning.drop(model)
        if model == DEFAULT_MODEL:
            await self._engine.create(model, ModelConfig())

    async def promote(self, model: str, challenger: str, force: bool) -> dict[str, Any]:
        """Have `model` go on as one of its challengers; see `Challengers.promote`."""
        self._engine.served_model(model)
        self._engine.led("a promotion")
        return await self._challengers.promote(model, challenger, force)

    async def back_up(self) -> dict[str, Any]:
        """Copy the store into its directory while it is in use; see `riata.run.admin`."""
        return await back_up(self._engine)

    async def snapshots(self, model: str) -> list[dict[str, Any]]:
        """Retained generations, newest first."""
        return await self._snapshots.listed(model)

    async def snapshot_now(self, model: str, note: str = "") -> dict[str, Any]:
        """Save the present state, which is kept until it is deleted; see `Snapshots.save`."""
        return await self._snapshots.save(model, note)

    async def delete_snapshot(self, model: str, generation: int) -> None:
        """Delete a generation that was saved; see `Snapshots.delete`."""
        await self._snapshots.delete(model, generation)

    async def restore(self, model: str, generation: int) -> dict[str, Any]:
        """Restore the content of `generation`. The log continues: the restore is one of its events."""
        self._engine.require_role("change")
        async with self._engine.served_model(model).changing:  # rows of a generation may just be being forgotten
            found = require_generation(await self._engine.call(lambda s: s.generations(model)), generation)
            await require_unforgotten(self._engine, model, found)
            content = await self._engine.call(lambda s: s.open_generation(model, generation))
            await asyncio.get_running_loop().run_in_executor(None, ModelState.of, content)  # raises if it is damaged
            seq, taken_off = await put_back(self._engine, model, content, {"generation": generation})
        return {"generation": generation, "seq": seq, TAKEN_OFF: taken_off}

    async def export(self, model: str) -> bytes:
        """Return one checkpoint of the present state with the names of its features: all that another service needs."""
        self._engine.served_model(model)
        content = await saved_content(self._engine, model)
        names = await self._engine.call(lambda s: names_in_log(s, model))
        weights = self._engine.published(model).model.weights
        return write_export(*layout.decode_checkpoint(content), names, weights)

    async def import_model(self, model: str, content: bytes) -> dict[str, Any]:
        """Restore exported content into `model`, which is created if it does not exist.

        Raises `Malformed` (code `not_an_export`), `Conflict` (code `needs_rebuild`) if an existing model encodes differently,
        `Unavailable` (code `memory_full`) if there is no memory for it.
        """
        check_name(model)
        self._engine.require_role("change")
        loop = asyncio.get_running_loop()
        state, names = await loop.run_in_executor(None, read_export, content)
        config = state.config
        del state  # the writer builds another one
        if (refused := self._engine.memory.refusal(len(content), "this import")) is not None:
            raise refused
        created = await self._creations.create(model, config)
        if not created:
            self._check_same_encoding(model, config)
        async with self._engine.served_model(model).changing:
            seq, _ = await put_back(self._engine, model, content, {"import": config.learner.kind}, names)
        return {"name": model, "created": created, "seq": seq}

    def _check_same_encoding(self, model: str, config: ModelConfig) -> None:
        mine = self._engine.published(model).config
        if fingerprint(mine.encoder) != fingerprint(config.encoder) or mine.labels != config.labels:
            raise Conflict(
                f"model {model} encodes features or labels differently from the import; import under a new name",
                "needs_rebuild",
            )


def check_name(name: str) -> None:
    """Raise `BadInput` (code `bad_model_name`) if `name` is not a valid model name."""
    if not MODEL_NAME.fullmatch(name):
        raise BadInput(
            f"{name[:64]!r} is not a valid model name: use 1 to 63 lower-case letters, digits, - and _, beginning with a letter "
            "or digit",
            "bad_model_name",
        )


# A backup of a running service: a copy of its store, made beside requests and learning.


async def back_up(engine: Engine) -> dict[str, Any]:
    """Copy the store of a service into its data directory; returns when the copy is complete and synced.

    Raises `Conflict` (code `no_backup` if the store is not in a directory, `backup_running`), `Unavailable` (codes
    `disk_reserve`, `disk_full`), `Busy` (code `stopping`), `OSError`.
    """
    began_s = time.monotonic()

    def go_on() -> None:
        if engine.stopping or engine.fatal is not None:
            raise Busy("the service is stopping, so the backup was given up", "stopping", retry_after_s=5)

    with ThreadPoolExecutor(1, "riata-backup", initializer=lower_priority) as pool:

        def aside(work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
            return asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

        backup = await engine.call(_begin)
        try:
            await aside(backup.copy, go_on)
            while (until := await engine.call(lambda _store: backup.wal_grown())) > 0:
                await aside(backup.copy_wal, until, go_on)
            ends = await engine.call(lambda store: _finish(store, backup))
        except BaseException:
            if engine.fatal is None and not engine.stopping:  # the store's thread may not answer any more
                await engine.call(lambda _store: backup.give_up())
            raise
        stamp = datetime.fromtimestamp(engine.clock.unix_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
        directory = await aside(backup.complete, f"{stamp}Z", go_on)
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return {"directory": str(directory.resolve()), "bytes": size, "seconds": time.monotonic() - began_s, "models": ends}


def _begin(store: Store) -> OnlineBackup:
    if not isinstance(store, SqliteStore) or store.in_memory:
        raise Conflict(
            "the store of this service is not in a directory: back up a Redis by its own means (BGSAVE, or a replica)",
            "no_backup",
        )
    return store.begin_backup()


def _finish(store: Store, backup: OnlineBackup) -> dict[str, int]:
    """Finish the part in the store's thread; return the last event of each model in the copy."""
    backup.finish()
    return {model: store.head(model).seq for model in store.models()}


# What people do with the stored states of a model: list them, save one that is kept until it is deleted, delete it.


class Snapshots:
    """The stored states of every model."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def listed(self, model: str) -> list[dict[str, Any]]:
        """Return those that are kept, newest first."""
        generations, head = await self._stored(model)
        return [self._shown(generation, head) for generation in generations]

    async def save(self, model: str, note: str) -> dict[str, Any]:
        """Save the present state; it is kept until it is deleted. Returns when it is durable and was read back.

        Raises `Unavailable` (code `saved_full`) if those that were saved leave no room for another of the size of the newest.
        """
        async with self._engine.served_model(model).changing:
            generations, _ = await self._stored(model)
            _require_room(model, generations, self._engine.settings.saved_bytes_max)
            saved = await self._engine.led("a snapshot").save(model, requested=True, note=note)
        if saved.generation is None:
            raise Conflict("the snapshot was not written", "checkpoint_failed")
        head = await self._engine.call(lambda s: s.head(model))
        return {**self._shown(saved.generation, head), "took_ms": saved.took_ms}

    async def delete(self, model: str, gen: int) -> None:
        """Delete one that was saved. Raises `NotFound` (code `generation_not_found`), `Conflict` (code `not_saved`)."""
        learning = self._engine.led("deleting a snapshot")
        async with self._engine.served_model(model).changing:
            generations, _ = await self._stored(model)
            if not is_saved(require_generation(generations, gen)):
                raise Conflict(f"snapshot {gen} of model {model} was not saved by anybody: it goes by itself", "not_saved")
            if gen == generations[0].gen:
                await learning.save(model)  # the newest is what the next one is numbered after
            await learning.delete_saved(model, gen)

    async def _stored(self, model: str) -> tuple[list[Generation], Head]:
        self._engine.served_model(model)
        stored: tuple[list[Generation], Head] = await self._engine.call(lambda s: (s.generations(model), s.head(model)))
        return stored

    def _shown(self, generation: Generation, head: Head) -> dict[str, Any]:
        return {
            "generation": generation.gen,
            "seq": generation.applied,
            "created": rfc3339(generation.created_ms),
            "age_s": max(self._engine.clock.unix_ms() - generation.created_ms, 0) / 1000,
            "bytes": generation.bytes,
            "state_digest": generation.state_digest.hex(),
            "verified": generation.verified,
            "cause": generation.info.get(CAUSE, "schedule"),
            "note": generation.info.get(NOTE, ""),
            "leads_on": leads_on(generation, head),
            "metrics": {key: value for key, value in generation.info.items() if key not in (CAUSE, NOTE)},
        }


def require_generation(generations: Sequence[Generation], gen: int) -> Generation:
    """Return one generation. Raises `NotFound` (code `generation_not_found`) naming those that are kept."""
    for generation in generations:
        if generation.gen == gen:
            return generation
    raise NotFound(f"no snapshot {gen}; kept: {', '.join(str(g.gen) for g in generations) or 'none'}", "generation_not_found")


def _require_room(model: str, generations: Sequence[Generation], bytes_max: int) -> None:
    """Raise `Unavailable` (code `saved_full`) if one more saved generation may exceed the bound."""
    saved = [generation for generation in generations if is_saved(generation)]
    taken, more = sum(generation.bytes for generation in saved), generations[0].bytes if generations else 0
    if taken + more <= bytes_max:
        return
    advice = "raise it"
    if saved:
        said = f", {saved[-1].info[NOTE]!r}" if saved[-1].info.get(NOTE) else ""
        oldest = f"snapshot {saved[-1].gen} of {rfc3339(saved[-1].created_ms)} ({saved[-1].bytes} bytes{said})"
        advice = f"delete one, of which the oldest is {oldest}, or raise it"
    raise Unavailable(
        f"the saved snapshots of model {model} take {taken} bytes, another takes about {more}, and saved_bytes_max is "
        f"{bytes_max}: {advice}",
        "saved_full",
    )
