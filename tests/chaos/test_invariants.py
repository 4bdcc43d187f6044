"""Tests of the checker: a correct history passes, and for every rule a tampered history fails by that rule."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.store import layout
from tests.chaos import invariants, rows, stored
from tests.chaos.cluster import Cluster, until
from tests.chaos.history import Fault, History, Predicted, Resources, Sent
from tests.chaos.invariants import Violation


@dataclasses.dataclass(frozen=True)
class Right:
    """The data of a real service, and the observations of its clients."""

    data: Path
    history: History


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Right:
    directory = tmp_path_factory.mktemp("right")
    with Cluster(directory) as cluster:
        one = cluster.add("one")
        one.wait_ready()
        cluster.make_model(one)
        before = one.resources()
        with cluster.load("--rows", "4", observe=[one], predict=[one]) as load:
            until(
                lambda: load.acked() >= 20 and load.predicted() > 20, 60, "twenty requests are acknowledged, and as many answered"
            )
            for _ in range(3):
                httpx.post(f"{one.url}/models/{rows.MODEL}/snapshots", timeout=300).raise_for_status()
            saved = load.acked()
            until(lambda: load.acked() > saved, 60, "the last generation has more events than the ones before it")
        cluster.resources["one"] = before, one.resources()
        assert cluster.stop() == {"one": 0}
        return Right(one.data, cluster.history())


def first_acked(right: Right) -> Sent:
    """The first request that was acknowledged: a busy service may have refused earlier ones."""
    return next(one for one in right.history.sent if one.outcome == "acked")


def broken(
    right: Right, tmp_path: Path, tamper: Callable[[sqlite3.Connection], object], history: History | None = None
) -> set[int]:
    """The rules that are violated after `tamper` has changed the store."""
    data = tmp_path / "data"
    shutil.copytree(right.data, data)
    connection = sqlite3.connect(data / "riata.db")
    tamper(connection)
    connection.commit()
    connection.close()
    found = invariants.check(stored.SqliteSource(data, tmp_path), history or right.history, replay=False)
    return {violation.rule for violation in found}


def told(right: Right, tmp_path: Path, **changed: Any) -> set[int]:
    """The rules that are violated after the observations of the clients are changed."""
    return broken(right, tmp_path, lambda _: None, dataclasses.replace(right.history, **changed))


def test_the_untouched_directory_of_a_service_is_right(right: Right, tmp_path: Path) -> None:
    source = stored.SqliteSource(right.data, tmp_path)
    left = invariants.require(source, right.history)
    assert len(left.entries) > 20
    assert len(left.saved) >= 3
    assert len(right.history.predicted) > 20


def test_replay_in_a_separate_process_reports_which_checkpoint_differs(right: Right, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(right.data, data)
    connection = sqlite3.connect(data / "riata.db")
    sign_other_weights(connection)
    connection.commit()
    connection.close()
    found = list(invariants.wrong_replay(stored.SqliteSource(data, tmp_path), rows.MODEL))
    assert len(found) == 1
    assert "DIFFERENT" in found[0]


def newest_record(connection: sqlite3.Connection) -> tuple[int, int, bytes]:
    """(key, count, payload) of the last record of events."""
    sql = "SELECT key, count, payload FROM log WHERE kind = 1 ORDER BY key DESC LIMIT 1"
    key, count, payload = connection.execute(sql).fetchone()
    return key, count, payload


def append(connection: sqlite3.Connection, payload: bytes, count: int) -> None:
    """Append a valid record without the store."""
    number, seq, chain = connection.execute("SELECT id, seq, chain FROM models WHERE name = ?", (rows.MODEL,)).fetchone()
    digest = stored.digest_of(stored.Entry("observe", seq + 1, count, 0, payload, b"", b""))
    chain = stored.chain_after(chain, digest)
    key = (number << stored.SEQ_BITS) + seq + 1
    connection.execute(
        "INSERT INTO log (key, count, kind, accepted_ms, digest, chain, payload) VALUES (?, ?, 1, 0, ?, ?, ?)",
        (key, count, digest, chain, payload),
    )
    connection.execute("UPDATE models SET seq = ?, chain = ? WHERE id = ?", (seq + count, chain, number))


def change_a_value(connection: sqlite3.Connection) -> None:
    key, _, payload = newest_record(connection)
    connection.execute("UPDATE log SET payload = ? WHERE key = ?", (payload[:-1] + bytes([payload[-1] ^ 1]), key))


def lose_the_last_record(connection: sqlite3.Connection) -> None:
    key, count, _ = newest_record(connection)
    connection.execute("DELETE FROM log WHERE key = ?", (key,))
    before = connection.execute("SELECT chain FROM log WHERE key < ? ORDER BY key DESC LIMIT 1", (key,)).fetchone()[0]
    connection.execute("UPDATE models SET seq = seq - ?, chain = ? WHERE name = ?", (count, before, rows.MODEL))


def repeat_the_last_record(connection: sqlite3.Connection) -> None:
    _, count, payload = newest_record(connection)
    append(connection, payload, count)


def lose_one_in_the_middle(connection: sqlite3.Connection) -> None:
    keys = connection.execute("SELECT key FROM log WHERE kind = 1 ORDER BY key").fetchall()
    connection.execute("DELETE FROM log WHERE key = ?", keys[len(keys) // 2])


def swap_two_records(connection: sqlite3.Connection) -> None:
    sql = "SELECT key, payload, digest FROM log WHERE kind = 1 ORDER BY key LIMIT 2"
    (one, *content_one), (two, *content_two) = connection.execute(sql).fetchall()
    for key, content in ((one, content_two), (two, content_one)):
        connection.execute("UPDATE log SET payload = ?, digest = ? WHERE key = ?", (*content, key))


@pytest.mark.parametrize(
    "tamper",
    [change_a_value, lose_the_last_record, repeat_the_last_record, lose_one_in_the_middle, swap_two_records],
    ids=lambda tamper: tamper.__name__,
)
def test_rule_1_sees_a_log_that_differs_from_the_acknowledgements(
    tamper: Callable[[sqlite3.Connection], None], right: Right, tmp_path: Path
) -> None:
    assert 1 in broken(right, tmp_path, tamper)


def test_rule_1_sees_an_answer_that_vouched_for_too_little(right: Right, tmp_path: Path) -> None:
    sent = [dataclasses.replace(one, seq=one.seq - 1) for one in right.history.sent]
    assert told(right, tmp_path, sent=sent) == {1}


def test_rule_1_detects_content_that_was_never_sent(right: Right, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event_id = next(iter(right.history.acked()))
    honest = rows.label_of
    monkeypatch.setattr(rows, "label_of", lambda asked: honest(asked) ^ (asked == event_id))
    assert told(right, tmp_path) == {1}


def newest_generation(connection: sqlite3.Connection) -> tuple[int, int, bytes]:
    """(model, gen, content): a checkpoint is one chunk, or more if there are many events."""
    sql = "SELECT id, MAX(gen) FROM models JOIN generations ON model = id WHERE name = ?"
    model, gen = connection.execute(sql, (rows.MODEL,)).fetchone()
    return model, gen, content_of(connection, model, gen)


def content_of(connection: sqlite3.Connection, model: int, gen: int) -> bytes:
    chunks = connection.execute("SELECT data FROM chunks WHERE model = ? AND gen = ? ORDER BY idx", (model, gen))
    return b"".join(data for (data,) in chunks)


def put_chunks(connection: sqlite3.Connection, model: int, gen: int, chunks: Iterable[bytes]) -> None:
    """Replace the chunks of a generation."""
    (epoch,) = connection.execute("SELECT epoch FROM chunks WHERE model = ? AND gen = ?", (model, gen)).fetchone()
    connection.execute("DELETE FROM chunks WHERE model = ? AND gen = ?", (model, gen))
    for number, data in enumerate(chunks):
        digest = layout.checkpoint_digest(data)
        connection.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?)", (model, gen, number, epoch, digest, data))


def cut_in_chunks(connection: sqlite3.Connection) -> None:
    """A checkpoint in chunks, as a large one is stored."""
    model, gen, content = newest_generation(connection)
    put_chunks(connection, model, gen, layout.split_chunks([content], len(content) // 3))


def rot(connection: sqlite3.Connection) -> None:
    model, gen, _ = newest_generation(connection)
    sql = "SELECT idx, data FROM chunks WHERE model = ? AND gen = ? ORDER BY idx LIMIT 1"
    number, data = connection.execute(sql, (model, gen)).fetchone()
    changed = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
    connection.execute("UPDATE chunks SET data = ? WHERE model = ? AND gen = ? AND idx = ?", (changed, model, gen, number))


def sign_other_weights(connection: sqlite3.Connection) -> None:
    """A valid checkpoint with weights that no log gives. If a slow service has written two of the same events, both have these
    weights: two states of the same events would be against rule 5.
    """
    model, newest, _ = newest_generation(connection)
    same_events = "SELECT b.gen FROM generations a JOIN generations b USING (model, applied) WHERE model = ? AND a.gen = ?"
    for (gen,) in connection.execute(same_events, (model, newest)).fetchall():
        header, arrays = layout.decode_checkpoint(content_of(connection, model, gen))
        arrays["learner.beta"][0] += 2.0**-40
        content = layout.encode_checkpoint(header, arrays)
        state = layout.state_digest({key: header[key] for key in ("config", "skipped")}, arrays)
        digest = layout.checkpoint_digest(content)
        sql = "UPDATE generations SET digest = ?, state_digest = ?, bytes = ? WHERE model = ? AND gen = ?"
        connection.execute(sql, (digest, state, len(content), model, gen))
        put_chunks(connection, model, gen, layout.split_chunks([content]))


def claim_more_events(connection: sqlite3.Connection) -> None:
    model, gen, _ = newest_generation(connection)
    connection.execute("UPDATE generations SET applied = applied + 1000000 WHERE model = ? AND gen = ?", (model, gen))


def take_another_lineage(connection: sqlite3.Connection) -> None:
    model, gen, _ = newest_generation(connection)
    connection.execute("UPDATE generations SET lineage = ? WHERE model = ? AND gen = ?", (bytes(16), model, gen))


@pytest.mark.parametrize(
    "tamper", [rot, sign_other_weights, claim_more_events, take_another_lineage], ids=lambda tamper: tamper.__name__
)
def test_rule_2_sees_a_checkpoint_that_the_log_does_not_make(
    tamper: Callable[[sqlite3.Connection], None], right: Right, tmp_path: Path
) -> None:
    def cut_and_tamper(connection: sqlite3.Connection) -> None:
        cut_in_chunks(connection)
        tamper(connection)

    assert not broken(right, tmp_path / "sound", cut_in_chunks)
    assert broken(right, tmp_path / "whole", tamper) == {2}
    assert broken(right, tmp_path / "cut", cut_and_tamper) == {2}


def test_rule_3_sees_events_that_were_refused_and_are_there(right: Right, tmp_path: Path) -> None:
    first = first_acked(right)
    sent = [Sent(one.ids, "not_accepted") if one.ids == first.ids else one for one in right.history.sent]
    assert told(right, tmp_path, sent=sent) == {3}


def test_rule_3_sees_an_unknown_event_twice_but_allows_it_once_and_not_at_all(right: Right, tmp_path: Path) -> None:
    with closing(sqlite3.connect(right.data / "riata.db")) as connection:
        first = newest_record(connection)[0] & ((1 << stored.SEQ_BITS) - 1)  # what came together is one record
    sent = [Sent(one.ids, "unknown") if one.seq >= first else one for one in right.history.sent]
    unsure = dataclasses.replace(right.history, sent=[*sent, Sent(("never seen",), "unknown")])
    assert broken(right, tmp_path / "once", lambda _: None, unsure) == set()
    assert broken(right, tmp_path / "twice", repeat_the_last_record, unsure) == {3}


def test_rule_3_detects_an_event_that_was_never_sent(right: Right, tmp_path: Path) -> None:
    first = first_acked(right)
    sent = [one for one in right.history.sent if one.ids != first.ids]
    assert told(right, tmp_path, sent=sent) == {3}


def other(one: Predicted, **changed: Any) -> Callable[[History], list[Predicted]]:
    return lambda history: [dataclasses.replace(p, **changed) if p is one else p for p in history.predicted]


def test_rule_4_sees_a_margin_that_the_model_it_names_does_not_give(right: Right, tmp_path: Path) -> None:
    one = right.history.predicted[-1]
    assert told(right, tmp_path, predicted=other(one, margin=one.margin + 2.0**-40)(right.history)) == {4}


def test_rule_4_sees_a_model_older_than_one_served_before(right: Right, tmp_path: Path) -> None:
    newest, first = right.history.predicted[-1], right.history.predicted[0]
    back = dataclasses.replace(first, at=newest.at + 1.0)
    assert first.seq < newest.seq
    assert told(right, tmp_path / "back", predicted=[*right.history.predicted, back]) == {4}
    elsewhere = dataclasses.replace(back, process="another")
    assert told(right, tmp_path / "elsewhere", predicted=[*right.history.predicted, elsewhere]) == set()


def test_rule_4_sees_a_model_of_events_that_are_not_in_the_log(right: Right, tmp_path: Path) -> None:
    newest = right.history.predicted[-1]
    beyond = dataclasses.replace(newest, seq=newest.seq + 10**6, at=newest.at + 1.0)
    assert told(right, tmp_path, predicted=[*right.history.predicted, beyond]) == {4}


def lose_a_generation(connection: sqlite3.Connection) -> None:
    model, gen, _ = newest_generation(connection)
    connection.execute("DELETE FROM generations WHERE model = ? AND gen = ?", (model, gen - 1))


def lower_an_epoch(connection: sqlite3.Connection) -> None:
    model, gen, _ = newest_generation(connection)
    connection.execute("UPDATE generations SET epoch = 0 WHERE model = ? AND gen = ?", (model, gen))


@pytest.mark.parametrize("tamper", [lose_a_generation, lower_an_epoch], ids=lambda tamper: tamper.__name__)
def test_rule_5_sees_generations_that_do_not_follow(
    tamper: Callable[[sqlite3.Connection], None], right: Right, tmp_path: Path
) -> None:
    assert broken(right, tmp_path, tamper) == {5}


@pytest.mark.parametrize("field", ["rss", "fds", "threads"])
def test_rule_6_sees_resources_that_are_not_released(field: str, right: Right, tmp_path: Path) -> None:
    before = Resources(10**8, 20, 20)
    after = dataclasses.replace(before, **{field: 10**9})
    assert told(right, tmp_path, resources={"one": (before, after)}) == {6}


@pytest.mark.parametrize("text", ["Traceback (most recent call last):", f"refused {rows.MARK}17=0.5", "key s3cret"])
def test_rule_7_sees_words_that_must_not_be_written(text: str, right: Right, tmp_path: Path) -> None:
    assert told(right, tmp_path, logs={"one": f"riata: ready\n{text}\n"}, secrets=["s3cret"]) == {7}


def test_rule_7_detects_an_unplanned_status(right: Right, tmp_path: Path) -> None:
    planned = right.history.statuses + Counter({503: 2, 507: 1})
    assert told(right, tmp_path / "planned", statuses=planned) == set()
    assert told(right, tmp_path / "not", statuses=planned + Counter({500: 1})) == {7}


def test_rule_8_detects_an_unnoticed_fault(right: Right, tmp_path: Path) -> None:
    noticed, unnoticed = Fault("seen", 0, 1), Fault("unseen", 3, 3)
    assert told(right, tmp_path / "seen", faults=[noticed]) == set()
    assert told(right, tmp_path / "unseen", faults=[noticed, unnoticed]) == {8}


def test_a_violation_names_its_place(right: Right, tmp_path: Path) -> None:
    history = dataclasses.replace(right.history, sent=[*right.history.sent, Sent(("lost",), "acked", 3)])
    found = invariants.check(stored.SqliteSource(right.data, tmp_path), history, replay=False)
    assert found == [Violation(1, "acknowledged event lost is lost")]
