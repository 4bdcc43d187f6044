"""The ledger of known events, and the detection of a store that has fewer: without threads, on a store in memory."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Corrupt, Unavailable
from riata.run.cluster.accepting import accept, compare
from riata.run.cluster.follower import marks_present
from riata.run.cluster.ledger import LATELY, MARKS_MAX, Judgement, Ledger, Missing, acceptance, thinned
from riata.run.cluster.store_identity import KnownLog, Mark, Noted, StoreIdentityFile, decode, encode
from riata.run.state.config import Change, ModelConfig
from riata.run.state.model_state import ModelState
from riata.store.records import decode_document, encode_document
from riata.store.store import Append
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.events import CONFIG, random_batch

_draws = itertools.count(1)
_rng = np.random.default_rng(1)


def draw(size: int) -> bytes:
    return next(_draws).to_bytes(size, "big")


def begin(store: SharedMemoryStore, name: str) -> None:
    store.create(name, draw(16))
    store.append([Append(name, "config", 0, payload=Change(CONFIG).payload())])


def learn(store: SharedMemoryStore, name: str, events: int = 1, times: int = 1) -> None:
    for _ in range(times):
        store.append([Append(name, "observe", 0, random_batch(_rng, events))])


def look(ledger: Ledger, store: SharedMemoryStore) -> Judgement:
    """Check a store and, if it may be used, record its events, as a follower does."""
    standings, changes = store.standings(), store.changes()
    judged = ledger.judge(standings, changes, partial(marks_present, store))
    if not judged.code:
        ledger.saw(standings, changes)
    return judged


def begun(*names: str) -> SharedMemoryStore:
    store = SharedMemoryStore()
    for name in ("default", *names):
        begin(store, name)
    return store


def kept(store: SharedMemoryStore) -> SharedMemoryStore:
    """A copy of the store's content in a separate store: yesterday's backup."""
    backup = SharedMemoryStore()
    backup._kept = copy.deepcopy(store._kept)
    return backup


def reopened(path: Path, lost_events_max: int = 0) -> Ledger:
    return Ledger(StoreIdentityFile(path), lost_events_max)


def test_a_store_that_has_all_that_was_known_is_used_and_one_that_grew_meanwhile_too(tmp_path: Path) -> None:
    store, path = begun("m"), tmp_path / "store.note"
    ledger = reopened(path)
    for _ in range(5):
        assert look(ledger, store) == Judgement()
        learn(store, "m", 3, 2)
    ledger.close()
    learn(store, "m", 3, 50)
    assert look(reopened(path), store) == Judgement()
    assert reopened(path).lost() == {}


def test_a_model_that_is_met_is_in_the_note_before_it_can_be_served(tmp_path: Path) -> None:
    store, path = begun(), tmp_path / "store.note"
    look(reopened(path), store)  # and the process is killed
    assert look(reopened(path), SharedMemoryStore()).code == "store_strange"


@pytest.mark.parametrize("grown", [0, 3, 200])
def test_a_log_that_was_put_back_is_refused_and_the_marks_present_are_counted(tmp_path: Path, grown: int) -> None:
    store, path = begun("m"), tmp_path / "store.note"
    ledger = reopened(path)
    learn(store, "m", 5, 4)
    look(ledger, store)
    backup = kept(store)
    for _ in range(10):
        learn(store, "m", 3)
        look(ledger, store)
    ledger.close()
    learn(backup, "m", 1, grown)
    late = reopened(path)
    judged = look(late, backup)
    assert judged.code == "events_missing"
    assert "model m: at least" in judged.detail
    assert "the last known event is 51" in judged.detail
    assert "riata repair --store URL" in judged.detail
    # 30 are missing; the marks are three events apart, so where the log has grown the first two of them cannot be told apart
    assert late.lost() == {"m": 30 if grown == 0 else 28}
    assert look(late, backup).code == "events_missing"  # also at the second look
    assert late.lost() == {"m": 30 if grown == 0 else 28}


def test_marks_of_this_process_alone_make_the_count_exact() -> None:
    store = begun("m")
    ledger = Ledger(StoreIdentityFile(None), 0)
    look(ledger, store)
    backup = kept(store)
    lineage = store.head("m").lineage
    for _ in range(10):
        learn(store, "m")
        ledger.add("m", lineage, [(store.head("m").seq, store.head("m").chain)])  # as an acknowledgement does
    learn(backup, "m", 1, 20)
    assert look(ledger, backup).code == "events_missing"
    assert ledger.lost() == {"m": 10}


def end_of(store: SharedMemoryStore, name: str = "m") -> Mark:
    head = store.head(name)
    return head.seq, head.chain


def test_events_of_two_lost_histories_are_not_counted_as_those_of_one() -> None:
    """Marks 6 and 14 are lost; 7 to 13 are not: they are before the second loss and after the first."""
    store = begun("m")
    lineage = store.head("m").lineage
    ledger = Ledger(StoreIdentityFile(None), 100)
    learn(store, "m", 1, 4)
    look(ledger, store)
    first = kept(store)
    learn(store, "m")
    ledger.add("m", lineage, [end_of(store)])
    learn(first, "m", 1, 8)
    second = kept(first)
    learn(first, "m")
    ledger.add("m", lineage, [end_of(first)])
    learn(second, "m", 1, 3)
    look(ledger, second)
    assert ledger.lost() == {"m": 2}


def test_a_mark_of_a_history_that_was_taken_back_is_missed_although_a_later_mark_is_there(tmp_path: Path) -> None:
    """The store had the mark when it was compared. A later mark does not replace it."""
    store, path = begun("m"), tmp_path / "store.note"
    lineage = store.head("m").lineage
    ledger = reopened(path)
    look(ledger, store)
    backup = kept(store)
    learn(store, "m", 2)
    look(ledger, store)
    learn(backup, "m", 1, 7)
    ledger.add("m", lineage, [end_of(backup)])
    ledger.close()
    for late in (ledger, reopened(path)):
        assert look(late, backup).code == "events_missing"
        assert late.lost() == {"m": 1}  # the end of the log is beyond the two: one mark of them is known


def test_a_log_that_is_rolled_back_between_two_readings_is_compared_again() -> None:
    """The end of the log is read before the rollback, the chains after it. Together they would show a loss twice, or none."""
    store = begun("m")
    ledger = Ledger(StoreIdentityFile(None), 100)
    learn(store, "m", 1, 4)
    look(ledger, store)
    backup = kept(store)
    learn(store, "m", 1, 5)
    look(ledger, store)
    learn(store, "m", 1, 2)
    standings, changes = store.standings(), store.changes()
    learn(backup, "m", 1, 9)
    with pytest.raises(Unavailable) as raised:
        ledger.judge(standings, changes, partial(marks_present, backup))
    assert raised.value.code == "store_contended"
    assert ledger.lost() == {}
    look(ledger, backup)
    assert ledger.lost() == {"m": 1}


@pytest.mark.parametrize("before", [10, 12])
def test_an_acknowledgement_that_comes_after_its_loss_was_counted_is_not_counted_again(before: int, tmp_path: Path) -> None:
    store, path = begun("m"), tmp_path / "store.note"
    lineage = store.head("m").lineage
    ledger = reopened(path, 100)
    look(ledger, store)
    backup = kept(store)
    late = []
    for _ in range(before):
        learn(store, "m")
        late.append(end_of(store))
    ledger.add("m", lineage, late[9:10])
    learn(backup, "m", 1, 3)
    look(ledger, backup)
    assert ledger.lost() == {"m": 7}  # 5 to 11
    ledger.close()
    ledger = reopened(path, 100)
    ledger.add("m", lineage, [late[5], late[-1]])
    assert compare(backup, ledger).found.keys() == {"m"}  # it is noticed
    assert ledger.lost() == {"m": 7 + before - 10}
    assert look(ledger, backup) == Judgement()


def test_an_acknowledgement_of_a_loss_that_another_process_accepted_needs_an_acceptance_too() -> None:
    store = begun("m")
    lineage = store.head("m").lineage
    one, other = Ledger(StoreIdentityFile(None), 0), Ledger(StoreIdentityFile(None), 0)
    look(one, store)
    look(other, store)
    backup = kept(store)
    learn(store, "m")
    late = end_of(store)
    learn(store, "m")
    look(one, store)
    accept(backup, one, 0, draw)
    assert look(other, backup) == Judgement()
    other.add("m", lineage, [late])
    judged = look(other, backup)
    assert judged.code == "events_missing"
    assert "its log ends at event 2, the last known event is 2" in judged.detail
    assert other.lost() == {"m": 2}  # it may be one of the two that were accepted


def test_an_acceptance_of_another_loss_does_not_add_its_events() -> None:
    """One process accepts 10 lost events. Another one knows only of one event that was lost after that."""
    store = begun("m")
    one, other = Ledger(StoreIdentityFile(None), 100), Ledger(StoreIdentityFile(None), 100)
    look(one, store)
    look(other, store)
    first = kept(store)
    learn(store, "m", 1, 10)
    look(one, store)
    learn(first, "m", 1, 15)
    second = kept(first)
    learn(first, "m")
    look(other, first)
    assert look(one, second) == Judgement(found={"m": Missing(1, 11, 16)})
    document = {"action": "accept_loss", "id": "1", **one.to_record()["m"]}
    second.append([Append("m", "repair", 0, payload=encode_document(document))])
    look(other, second)
    assert other.lost() == {"m": 1}  # the acceptance says 1 too, which may be the same event


def test_a_model_that_was_dropped_is_not_missing_and_one_that_a_rollback_took_is(tmp_path: Path) -> None:
    store, path = begun(), tmp_path / "store.note"
    ledger = reopened(path)
    look(ledger, store)
    backup = kept(store)
    begin(store, "m")
    learn(store, "m", 7)
    look(ledger, store)
    owner = store.acquire(bytes(16), 1, "w", 0)
    before = kept(store)
    store.drop(owner, "m")
    assert look(ledger, store) == Judgement()
    assert ledger.lost() == {}

    ledger = reopened(tmp_path / "other.note")
    look(ledger, before)
    judged = look(ledger, backup)
    assert judged.code == "events_missing"
    assert "model m: all 8 events are missing" in judged.detail


def test_a_model_dropped_and_made_again_is_another_one_and_nothing_of_it_is_missing() -> None:
    store = begun("m")
    learn(store, "m", 9)
    ledger = Ledger(StoreIdentityFile(None), 0)
    look(ledger, store)
    store.drop(store.acquire(bytes(16), 1, "w", 0), "m")
    begin(store, "m")
    assert look(ledger, store) == Judgement()


def test_accepting_is_a_record_after_which_every_process_continues_and_which_changes_no_state(tmp_path: Path) -> None:
    store = begun("m")
    paths = [tmp_path / "one.note", tmp_path / "two.note"]
    one, two = (reopened(path) for path in paths)
    learn(store, "m", 5)
    for ledger in (one, two):
        look(ledger, store)
    backup = kept(store)
    learn(store, "m", 10)
    look(one, store)
    learn(store, "m", 10)
    look(two, store)
    for ledger in (one, two):
        ledger.close()
    assert compare(backup, reopened(paths[0])).code == "events_missing"
    assert backup.head("m").seq == 6  # looking changes nothing

    missing = accept(backup, reopened(paths[0]), 0, draw)
    assert {name: one.count for name, one in missing.items()} == {"m": 10}
    record = backup.read("m", 6)[0]
    document = decode_document(record.payload)
    assert record.kind == "repair"
    assert (document["action"], document["missing"], document["from"], document["to"]) == ("accept_loss", 10, 7, 16)
    state = ModelState("m", backup.head("m").lineage)
    for each in backup.read("m", 0):
        state.apply(each)
    assert state.applied == 7

    again = [reopened(path) for path in paths]
    assert [look(ledger, backup).code for ledger in again] == ["", ""]
    assert [ledger.lost() for ledger in again] == [{"m": 10}, {"m": 19}]  # at least: the log has grown by the acceptance
    for ledger in again:
        ledger.close()
    assert [reopened(path).lost() for path in paths] == [{"m": 10}, {"m": 19}]
    fresh = Ledger(StoreIdentityFile(None), 0)
    assert look(fresh, backup) == Judgement()
    assert fresh.lost() == {"m": 10}  # also who had no note

    learn(backup, "m", 4)
    later = reopened(paths[1])
    look(later, backup)
    earlier = kept(backup)
    learn(backup, "m", 4)
    look(later, backup)
    assert look(later, earlier).code == "events_missing"  # the acceptance was for the loss before
    assert later.lost() == {"m": 23}


def test_an_acceptance_outlives_the_trimming_of_its_record() -> None:
    store = begun("m")
    ledger = Ledger(StoreIdentityFile(None), 0)
    learn(store, "m", 5)
    look(ledger, store)
    late = kept(store)
    learn(store, "m", 5)
    look(ledger, store)
    accept(late, copy_of(ledger), 0, draw)
    with late._changed:
        entry = late._kept.models["m"]
        entry.log.clear()
        entry.head = replace(entry.head, first_seq=entry.head.seq + 1)
        entry.trimmed_chain = entry.head.chain
    assert look(ledger, late).code == ""
    assert ledger.lost() == {"m": 5}


def copy_of(ledger: Ledger) -> Ledger:
    other = Ledger(StoreIdentityFile(None), 0)
    other._noted = decode(encode(ledger._noted))
    return other


def test_accepting_an_emptied_store_creates_a_default_model_and_names_the_ones_it_replaces(tmp_path: Path) -> None:
    store, path = begun("m"), tmp_path / "store.note"
    learn(store, "m", 5)
    learn(store, "default", 2)
    ledger = reopened(path)
    look(ledger, store)
    ledger.close()
    empty = SharedMemoryStore()
    accept(empty, reopened(path), 0, draw)
    records = empty.read("default", 0)
    assert [record.kind for record in records] == ["config", "repair"]
    document = decode_document(records[1].payload)
    assert (document["missing"], document["models"]) == (3, {"m": 6})
    assert document["instead_of"] == [store.head("default").lineage.hex()]
    state = ModelState("default", empty.head("default").lineage)
    for record in records:
        state.apply(record)
    assert state.config == ModelConfig()

    late = reopened(path)
    assert look(late, empty).code == ""
    assert late.lost() == {"default": 3, "m": 6}
    late.close()
    assert look(reopened(path), empty).code == ""
    other = begun()  # a store of other people, where a loss was accepted too
    accept(SharedMemoryStore(), reopened(path), 0, draw)
    other._kept.models["default"].accepted = encode_document(
        {"action": "accept_loss", "id": "x", "missing": 1, "lost": 1, "instead_of": ["00" * 16]}
    )
    assert look(reopened(path), other).code == "store_strange"


def test_nothing_is_accepted_if_nothing_is_missing() -> None:
    store = begun("m")
    ledger = Ledger(StoreIdentityFile(None), 0)
    look(ledger, store)
    assert accept(store, ledger, 0, draw) == {}
    assert store.head("m").seq == store.head("default").seq == 1


@pytest.mark.parametrize(("bound", "code"), [(9, "events_missing"), (10, "")])
def test_up_to_the_setting_a_loss_is_counted_and_the_leader_records_it_once(tmp_path: Path, bound: int, code: str) -> None:
    store, path = begun("m"), tmp_path / "store.note"
    ledger = reopened(path, bound)
    look(ledger, store)
    backup = kept(store)
    learn(store, "m", 10)
    look(ledger, store)
    ledger.close()
    late = reopened(path, bound)
    assert look(late, backup).code == code
    assert late.lost() == {"m": 10}
    if code:
        assert late.to_record() == {}
        return
    late.close()
    late = reopened(path, bound)  # dies before it leads
    assert late.to_record() == {"m": {"missing": 10, "from": 2, "to": 11, "lost": 10}}
    assert late.to_record() == {}
    learn(backup, "m", 30)
    assert look(late, backup) == Judgement()
    assert late.lost() == {"m": 10}


def test_an_emptied_store_is_refused_whatever_the_setting() -> None:
    ledger = Ledger(StoreIdentityFile(None), 10**9)
    look(ledger, begun("m"))
    assert look(ledger, SharedMemoryStore()).code == "store_strange"
    assert look(ledger, begun("m")).code == "store_strange"


def test_a_note_is_read_as_it_was_written() -> None:
    marks = [(3, bytes([3]) * 20), (9, bytes([9]) * 20)]
    known = KnownLog(bytes(range(16)), marks, [(8, bytes([8]) * 20)], 5)
    noted = Noted(4, {"m": known}, {"m": 3}, {"m": (2, 9)}, ["ab"], [bytes(16)])
    assert decode(encode(noted)) == noted


def test_a_note_of_which_a_bit_was_flipped_is_never_used(tmp_path: Path) -> None:
    data = encode(Noted(4, {"m": KnownLog(bytes(range(16)), [(3, bytes(20))])}, {"m": 3}))
    for at in range(len(data)):
        for bit in range(8):
            with pytest.raises(Corrupt):
                decode(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
    for end in range(len(data)):
        with pytest.raises(Corrupt):
            decode(data[:end])
    path = tmp_path / "store.note"
    path.write_bytes(data[:-2])
    note = StoreIdentityFile(path)
    assert note.read() == Noted()
    assert "cannot be used" in note.unread
    assert (tmp_path / "store.note.damaged").read_bytes() == data[:-2]


def test_a_note_that_cannot_be_written_says_so_and_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = Ledger(StoreIdentityFile(tmp_path / "file" / "store.note"), 0)
    look(ledger, begun())
    assert "cannot be written" in ledger.note.problem
    (tmp_path / "file").unlink()
    ledger.keep()
    assert ledger.note.problem == ""
    assert decode((tmp_path / "file" / "store.note").read_bytes()).logs.keys() == {"default"}


def test_old_marks_are_thinned_out_and_the_newest_are_all_kept() -> None:
    marks = thinned([(seq, bytes(20)) for seq in range(1, 5000)])
    assert len(marks) <= MARKS_MAX
    assert [seq for seq, _ in marks[-LATELY:]] == list(range(5000 - LATELY, 5000))
    assert marks[0][0] < 200
    grown: list[tuple[int, bytes]] = []
    for seq in range(1, 2000):
        grown = thinned([*grown, (seq, bytes(20))])
    assert len(grown) <= MARKS_MAX
    assert [seq for seq, _ in grown[-LATELY:]] == list(range(2000 - LATELY, 2000))


@pytest.mark.parametrize("payload", [b"", b"\x01{}", b"\x01[]", b"\x09{}", b'\x01{"action":"cut","id":"a","lost":1,"missing":1}'])
def test_an_invalid_acceptance_accepts_nothing(payload: bytes) -> None:
    store = begun("m")
    store._kept.models["m"].accepted = payload
    assert acceptance(store.standings()["m"]) is None
    assert look(Ledger(StoreIdentityFile(None), 0), store) == Judgement()
