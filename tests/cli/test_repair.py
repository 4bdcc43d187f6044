"""`riata repair`: what it says beforehand, what it does, and what is left: a log that determines its model."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from riata.cli.app import app
from riata.run.writer.checkpointer import Checkpointer
from riata.store.records import decode_document
from riata.store.sqlite.offline import RepairStore
from riata.store.sqlite.store import open_sqlite, read_sqlite
from tests import damaging
from tests.run.node import events
from tests.run.test_damage import (
    BATCHES,
    LONG_ROWS,
    MODELS,
    ROWS,
    SETTINGS,
    built,
    cut_file,
    directory,
    observe,
    serve,
    spoil_file,
    spoil_row,
)

__all__ = ["built", "directory"]
LAST = 1 + 2 * LONG_ROWS + BATCHES * ROWS
SAVED = 1 + LONG_ROWS + BATCHES // 2 * ROWS  # the event of the checkpoint


def repair(directory: Path, *words: str) -> Result:
    result = CliRunner().invoke(app, ["repair", "--data", str(directory), *words])
    assert "Traceback" not in result.output
    return result


def repaired(directory: Path, *words: str) -> str:
    """What a repair says that succeeds."""
    done = repair(directory, *words, "--yes")
    assert done.exit_code == 0, done.output
    return done.stdout


def verify(directory: Path, code: int = 0) -> None:
    """Require that a replay finds every state equal, or that it ends with `code`."""
    done = CliRunner().invoke(app, ["replay", "--data", str(directory), "--verify"])
    assert done.exit_code == code, done.output


def content(directory: Path) -> dict[str, object]:
    """Every row of the database, and the digest of every other file except the lock, which records the last process."""
    connection = sqlite3.connect(directory / "riata.db")
    rows = [line for line in connection.iterdump() if not line.startswith('INSERT INTO "owner"')]
    connection.close()
    files = [path for path in directory.rglob("*") if path.is_file() and path.name.startswith("riata.payloads")]
    return {"rows": rows, **{path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}}


def repairs(directory: Path, model: str = "a") -> list[dict[str, Any]]:
    """The documents of the repairs in the log of a model."""
    store = read_sqlite(directory)
    try:
        records = store.read(model, store.head(model).first_seq - 1, 2**30)
        return [decode_document(record.payload) for record in records if record.kind == "repair"]
    finally:
        store.close()


async def margins(directory: Path, models: tuple[str, ...], learns: bool = True) -> dict[str, bytes]:
    """The margins of the models, bit for bit, after a start, and whether it also learns and saves."""
    found: dict[str, bytes] = {}
    async with serve(directory) as node:
        for name in models:
            found[name] = node.service.published(name).model.weights.beta.tobytes()
            if learns:
                await observe(node, name, seed=77)
        assert not learns or node.service.health().damaged == {}
    return found


def test_a_sound_store_is_reported_as_intact(directory: Path) -> None:
    result = repair(directory)
    assert result.exit_code == 0
    assert [line.split(",")[0] for line in result.stdout.splitlines()] == [f"{name}: no damage" for name in MODELS]
    before = content(directory)
    repaired(directory)
    assert repairs(directory) == []
    assert content(directory) == before


@pytest.mark.parametrize(
    ("spoil", "behind", "ways", "said"),
    [
        (spoil_row, False, ["cut", "set_aside"], f"loses {LONG_ROWS + ROWS} acknowledged events"),
        (spoil_file, False, ["cut", "set_aside"], f"loses {LONG_ROWS} acknowledged events"),
        (spoil_row, True, ["restore", "set_aside"], f"Events 1 to {SAVED} are removed from the log"),
        (spoil_file, True, ["restore", "set_aside"], "loses nothing of the model"),
    ],
)
def test_what_each_way_loses_is_said_beforehand_and_nothing_is_changed(
    spoil: Callable[[Path, bool], int], behind: bool, ways: list[str], said: str, directory: Path
) -> None:
    event = spoil(directory, behind)
    before = content(directory)
    result = repair(directory)
    assert result.exit_code == 1
    assert f"a: DAMAGED at event {event}: " in result.stdout
    assert [line.split()[1].rstrip(":") for line in result.stdout.splitlines() if "--action " in line][: len(ways)] == ways
    assert said in result.stdout
    assert f"loses the model with all of its {LAST} events" in result.stdout
    assert "nothing was changed" in result.stdout
    assert content(directory) == before


async def test_a_log_that_is_cut_continues_and_verifies(directory: Path) -> None:
    event = spoil_file(directory)
    others = await margins(directory, ("b", "default"), learns=False)
    said = repaired(directory)
    assert f"a: cut: the log now ends at event {event - 1}; {LONG_ROWS} events are lost" in said
    [document] = repairs(directory)
    assert {key: document[key] for key in ("action", "from", "to", "events")} == {
        "action": "cut", "from": event, "to": LAST, "events": LONG_ROWS,
    }  # fmt: skip
    verify(directory)
    assert {name: beta for name, beta in (await margins(directory, MODELS)).items() if name != "a"} == others
    verify(directory)
    assert repair(directory).exit_code == 0


async def test_ids_of_events_that_are_cut_may_come_again_and_those_before_may_not(directory: Path) -> None:
    async with serve(directory) as node:
        await node.observe(events(ROWS, 1, first_id=0), "b")
        await node.observe(events(LONG_ROWS, 2, first_id=ROWS), "b")
    for table in ("generations", "chunks"):
        damaging.change(directory, f"DELETE FROM {table} WHERE model = ? AND gen > 1", damaging.number_of(directory, "b"))
    damaging.flip_payload(directory, "b", damaging.firsts(directory, "b")[-1])
    repaired(directory)

    async with serve(directory) as node:
        again = await node.observe(events(ROWS, 1, first_id=0), "b")
        assert (again.accepted, again.duplicate) == (0, ROWS)
        lost = await node.observe(events(LONG_ROWS, 2, first_id=ROWS), "b")
        assert (lost.accepted, lost.duplicate) == (LONG_ROWS, 0)
    verify(directory)


@pytest.mark.parametrize("spoil", [spoil_row, spoil_file])
async def test_damage_before_the_checkpoint_costs_history_only(spoil: Callable[[Path, bool], int], directory: Path) -> None:
    sound = await margins(directory, MODELS, learns=False)
    for name in MODELS:  # what that start saved
        for table in ("generations", "chunks"):
            number = damaging.number_of(directory, name)
            damaging.change(directory, f"DELETE FROM {table} WHERE model = ? AND gen > 1", number)
    event = spoil(directory, True)
    verify(directory, 1)
    said = repaired(directory)
    assert f"the log now begins at event {SAVED + 1}" in said
    [document] = repairs(directory)
    assert {key: document[key] for key in ("action", "from", "to", "generation", "relearnt", "damaged")} == {
        "action": "restore", "from": 1, "to": SAVED, "generation": 1, "relearnt": LAST - SAVED, "damaged": event,
    }  # fmt: skip
    verify(directory)
    assert await margins(directory, MODELS) == sound  # nothing of the model is lost
    verify(directory)


async def test_a_model_that_is_set_aside_is_whole_there_and_gone_here(directory: Path) -> None:
    event = spoil_file(directory)
    others = await margins(directory, ("b", "default"), learns=False)
    said = repaired(directory, "--model", "a", "--action", "set_aside")
    [aside] = (directory / "set-aside").iterdir()
    assert str(aside) in said
    assert not list(directory.glob("riata.payloads.*"))
    store = read_sqlite(directory)
    assert store.models() == ["b", "default"]
    store.close()
    kept = read_sqlite(aside)
    assert (kept.models(), kept.head("a").seq) == (["a"], LAST + 1)
    assert [generation.gen for generation in kept.generations("a")] == [1]
    kept.close()
    damaged = repair(aside)
    assert f"a: DAMAGED at event {event}" in damaged.stdout
    repaired(aside)  # where it can still be cut
    verify(aside)
    assert await margins(directory, ("b", "default")) == others

    async with serve(directory) as node:
        await node.admin.put_model("a", {"encoder": {"bits": 12}})
        await observe(node, "a")
    verify(directory)


def test_the_record_of_what_was_set_aside_says_why(directory: Path) -> None:
    spoil_file(directory)
    repaired(directory, "--action", "set_aside")
    [aside] = (directory / "set-aside").iterdir()
    damaging.change(aside, "UPDATE log SET payload = x'' WHERE kind = 1")  # whatever else is damaged
    payload = damaging._rows(aside, "SELECT payload FROM log WHERE kind = 6")[0][0]
    assert isinstance(payload, bytes)
    document = json.loads(payload[1:])
    assert (document["action"], document["events"]) == ("set_aside", LAST)


async def test_damage_on_both_sides_of_the_checkpoint_is_cut_and_restored(directory: Path) -> None:
    event = spoil_row(directory)
    spoil_row(directory, True)
    said = repaired(directory)
    assert f"the log now ends at event {event - 1}" in said
    assert "restored from snapshot 1" in said
    verify(directory)
    await margins(directory, MODELS)


def test_a_head_that_is_damaged_loses_no_event(directory: Path) -> None:
    damaging.change(directory, "UPDATE models SET chain = zeroblob(20) WHERE name = 'a'")
    assert "loses no event" in repair(directory).stdout
    repaired(directory)
    assert repairs(directory)[0]["events"] == 0
    verify(directory)


async def test_a_model_of_which_nothing_leads_anywhere_can_only_be_set_aside(directory: Path) -> None:
    damaging.flip_generations(directory, "b")
    damaging.change(directory, "UPDATE log SET payload = x'00' WHERE key = ?", damaging.number_of(directory, "b") << 44 | 1)
    said = repair(directory)
    assert "b: DAMAGED at event 1" in said.stdout
    assert "--action cut" not in said.stdout
    refused = repair(directory, "--action", "cut", "--yes")
    assert (refused.exit_code, "possible repairs: set_aside" in refused.output) == (1, True)
    repaired(directory)
    await margins(directory, ("a", "default"))


def test_damaged_checkpoints_alone_are_reported_and_need_no_repair(directory: Path) -> None:
    damaging.flip_generations(directory, "a")
    said = repair(directory)
    assert said.exit_code == 0
    assert "snapshots 1 failed verification" in said.stdout


def test_a_store_that_is_in_use_is_not_repaired(directory: Path) -> None:
    store = open_sqlite(directory, SETTINGS)
    for words in ((), ("--yes",)):
        refused = repair(directory, *words)
        assert (refused.exit_code, "in use" in refused.output) == (1, True)
    store.close()
    assert repair(directory).exit_code == 0


def test_an_unknown_action_or_model_is_refused(directory: Path, tmp_path: Path) -> None:
    assert repair(directory, "--action", "cute").exit_code == 2
    assert "did you mean 'cut'?" in repair(directory, "--action", "cute").output
    assert repair(directory, "--model", "nobody").exit_code == 1
    assert repair(directory, "--model", "nobody", "--yes").exit_code == 1
    assert repair(tmp_path / "nothing").exit_code == 1
    assert not (tmp_path / "nothing").exists()
    assert "expected the URL of a Redis" in repair(directory, "--store", "sqlite:").output


def test_a_payload_file_that_is_cut_short_is_damage_from_its_first_event_on(directory: Path) -> None:
    event = cut_file(directory)
    assert f"a: DAMAGED at event {event}:" in repair(directory).stdout
    repaired(directory)
    verify(directory)


def test_a_restore_that_is_interrupted_is_done_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil_file(directory, True)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "save", interrupted)
        assert repair(directory, "--yes").exit_code == 130
    repaired(directory)
    assert [document["action"] for document in repairs(directory)] == ["restore", "restore"]
    verify(directory)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


async def test_a_cut_that_is_interrupted_before_the_witness_is_moved_is_no_loss(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_file(directory)
    with monkeypatch.context() as patch:
        patch.setattr(RepairStore, "renew_witness", interrupted_after_opening(RepairStore.renew_witness))
        assert repair(directory, "--yes").exit_code == 130
    assert repair(directory).exit_code == 0
    await margins(directory, MODELS)
    verify(directory)


def interrupted_after_opening(renew: Callable[[RepairStore], None]) -> Callable[[RepairStore], None]:
    seen: list[RepairStore] = []

    def once(self: RepairStore) -> None:
        if self in seen:
            raise KeyboardInterrupt
        seen.append(self)
        renew(self)

    return once


async def test_missing_events_are_reported_and_accepted_first(directory: Path) -> None:
    number = damaging.number_of(directory, "b")
    last = damaging.firsts(directory, "b")[-1]
    chain = damaging._rows(directory, "SELECT chain FROM log WHERE key < ? ORDER BY key DESC LIMIT 1", number << 44 | last)[0][0]
    damaging.change(directory, "DELETE FROM log WHERE key = ?", number << 44 | last)  # as an older copy of the database would
    damaging.change(directory, "UPDATE models SET seq = ?, chain = ? WHERE id = ?", last - 1, chain, number)
    spoil_file(directory)
    missing = repair(directory)
    assert (missing.exit_code, f"{ROWS} acknowledged events are missing" in missing.stdout) == (1, True)
    said = repaired(directory)
    assert "b: the loss is accepted" in said
    assert "a: cut" in said
    assert [document["action"] for document in repairs(directory, "b")] == ["accept_loss"]
    verify(directory)
    await margins(directory, MODELS)
