"""Editions: a follower serves exactly the bits that the writer serves, or refuses the edition."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base import limits
from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.predict.uncertainty import SPAN, Covariance
from riata.run.cluster.editions import decode_as, decode_edition, edition_of, encode_edition
from riata.run.state.config import read_config
from riata.run.state.model_state import ModelState
from riata.run.writer.published import Published, publish
from riata.store import layout
from riata.watch.progressive import Minute, of_last_minute
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.predict.rows import batch_of
from tests.run.events import create_model, log_batch, random_batch

EXACT: dict[str, Any] = {"kind": "taylor_sketch", "mode": "exact", "block": 25}
LEARNERS: dict[str, dict[str, Any]] = {
    "gradient": {"encoder": {"bits": 12}},
    "squared": {"encoder": {"bits": 12}, "labels": "real", "learner": {"kind": "truncated_gradient", "loss": "squared"}},
    "sketch": {"encoder": {"bits": 12}, "learner": {"kind": "taylor_sketch", "gamma": 0.5, "block": 25}},
    "exact": {"encoder": {"bits": 12}, "learner": {"kind": "taylor_sketch", "mode": "exact", "block": 25}},
    "exact, full": {
        "encoder": {"bits": 12},
        "learner": {"kind": "taylor_sketch", "mode": "exact", "block": 25, "features_max": 9},
    },
    "ftrl": {"encoder": {"bits": 12}, "learner": {"kind": "ftrl_proximal"}},
}


def served(document: dict[str, Any], examples: int, seed: int = 0) -> Published:
    """The served state of a model after this many examples."""
    store = MemoryStore()
    create_model(store, config=read_config(document))
    rng = np.random.default_rng(seed)
    if examples:
        log_batch(store, random_batch(rng, examples))
    state = ModelState("m", store.head("m").lineage)
    for record in store.read("m", 0):
        state.apply(record)
    sketch = state.learner.sketch()
    covariance = None if sketch is None else Covariance.of(sketch)
    return publish(state, 3, 7, ManualClock(5000), covariance, Minute())


def same(a: Published, b: Published) -> None:
    """Equal in all answers, except for ages."""
    batch = random_batch(np.random.default_rng(9), 200)
    mine, theirs = a.model.score(batch), b.model.score(batch)
    for field in dataclasses.fields(mine):
        left, right = getattr(mine, field.name), getattr(theirs, field.name)
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes(), field.name
    assert (a.model.weights.slot.tobytes(), a.model.weights.beta.tobytes()) == (
        b.model.weights.slot.tobytes(),
        b.model.weights.beta.tobytes(),
    )
    for name in ("config", "figures", "history", "memory", "applied", "skipped", "version", "published_ms", "chain", "changes"):
        assert getattr(a, name) == getattr(b, name), name
    assert a.model.origin == b.model.origin
    assert (a.model.gen, a.model.seq, a.no_std_error) == (b.model.gen, b.model.seq, b.no_std_error)


@pytest.mark.usefixtures("few_events_do")
@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("examples", [0, 1, 300])
def test_a_follower_answers_with_the_bits_of_the_writer(kind: str, examples: int) -> None:
    published = served(LEARNERS[kind], examples)
    content = encode_edition(published)
    decoded = decode_as(edition_of(published, content), "m", content, ManualClock(9000))
    same(published, decoded)
    assert encode_edition(decoded) == content
    if kind == "sketch" and examples == 300:
        assert "uncertainty" in decoded.model.memory()


def test_a_follower_has_the_figures_of_the_last_minute_too() -> None:
    published = served(LEARNERS["gradient"], 5)
    decoded = decode_edition(encode_edition(published), ManualClock(9000))
    assert decoded.figures["recent"]["examples"] == 5
    assert of_last_minute(decoded.figures["minute"], 0)["examples"] == 0  # nothing was learnt since this process began


def test_its_age_continues_from_the_moment_it_was_published() -> None:
    published = served(LEARNERS["gradient"], 5)
    decoded = decode_edition(encode_edition(published), ManualClock(9000))
    assert decoded.published_mono_ms == 5000
    slow_clock = decode_edition(encode_edition(published), ManualClock(100))  # a clock that is behind makes no negative age
    assert slow_clock.published_mono_ms == 100


@pytest.mark.usefixtures("few_events_do")
def test_standard_errors_that_are_too_large_to_send_stay_behind_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    published = served(LEARNERS["sketch"], 300)
    monkeypatch.setattr("riata.predict.linear_model.CURVATURE_CARRIED_BYTES_MAX", 1000)
    decoded = decode_edition(encode_edition(published), ManualClock())
    assert "uncertainty" not in decoded.model.memory()
    assert "too much to publish" in decoded.no_std_error
    assert limits.CURVATURE_CARRIED_BYTES_MAX > 1000


@pytest.mark.usefixtures("few_events_do")
def test_an_edition_of_an_older_process_says_nothing_of_single_rows() -> None:
    header, arrays = layout.decode_checkpoint(encode_edition(served(LEARNERS["sketch"], 300)))
    unknown = batch_of([[(0xFFFFFFFF, 1.0)]])
    for kept, is_outside in ((arrays, True), ({name: array for name, array in arrays.items() if name not in SPAN}, False)):
        decoded = decode_edition(layout.encode_checkpoint(header, kept), ManualClock())
        scores = decoded.model.score(unknown)
        assert np.isnan(scores.std_error).tolist() == [is_outside]
        assert (scores.outside is not None) == is_outside


@pytest.mark.usefixtures("few_events_do")
@pytest.mark.parametrize("name", SPAN)
def test_an_edition_with_a_part_of_the_span_is_refused(name: str) -> None:
    header, arrays = layout.decode_checkpoint(encode_edition(served(LEARNERS["sketch"], 300)))
    for broken in (
        {key: array for key, array in arrays.items() if key != name},
        {**arrays, name: np.full(7, np.inf)},
    ):
        with pytest.raises(Corrupt):
            decode_edition(layout.encode_checkpoint(header, broken), ManualClock())


def test_a_closed_vocabulary_comes_along() -> None:
    published = dataclasses.replace(served(LEARNERS["gradient"], 5), closed_vocabulary=np.array([1, 5, 4095], np.uint32))
    decoded = decode_edition(encode_edition(published), ManualClock())
    assert decoded.closed_vocabulary is not None
    assert decoded.closed_vocabulary.tolist() == [1, 5, 4095]


def test_an_edition_of_another_moment_than_it_says_is_refused() -> None:
    published = served(LEARNERS["gradient"], 5)
    content = encode_edition(published)
    edition = edition_of(published, content)
    for wrong in (
        dataclasses.replace(edition, applied=5),
        dataclasses.replace(edition, lineage=bytes(16)),
        dataclasses.replace(edition, chain=bytes(20)),
    ):
        with pytest.raises(Corrupt, match="is of another event than") as refused:
            decode_as(wrong, "m", content, ManualClock())
        assert refused.value.code == "edition_corrupt"
    with pytest.raises(Corrupt, match="is of another event than"):
        decode_as(edition, "n", content, ManualClock())


GOOD = encode_edition(served(LEARNERS["gradient"], 20))
BREAKS: dict[str, tuple[Any, ...]] = {
    "a missing key": ("del", "link"),
    "a key too many": ("set", "more", 1),
    "another thing": ("set", "what", "checkpoint"),
    "a count below zero": ("set", "gen", -1),
    "a truth for a count": ("set", "gen", True),
    "an unknown link": ("set", "link", "cosine"),
    "a place of its own": ("set", "seq", 7),
    "a lineage that is short": ("set", "lineage", "00"),
    "a chain in capitals": ("set", "chain", "AB" * 20),
    "no horizon": ("set", "figures", {}),
    "changes in disorder": ("set", "changes", [3, 1]),
    "a change to come": ("set", "changes", [99]),
    "a point without a position": ("set", "history", [{}]),
    "memory in words": ("set", "memory", {"weights": "much"}),
    "a configuration that is none": ("set", "config", {"encoder": {"bits": 99}}),
    "two reasons": ("set", "no_std_error", ""),
}
ARRAYS: dict[str, tuple[str, Any]] = {
    "a weight that is not finite": ("beta", lambda a: np.where(np.arange(len(a)) == 1, np.nan, a)),
    "a weight of zero": ("beta", lambda a: np.where(np.arange(len(a)) == 1, 0.0, a)),
    "a weight too few": ("beta", lambda a: a[1:]),
    "slots in disorder": ("slot", lambda a: a[::-1].copy()),
    "a slot outside": ("slot", lambda a: np.append(a[:-1], np.uint32(2**12)).astype(np.uint32)),
    "slots of another type": ("slot", lambda a: a.astype(np.uint64)),
    "two intercepts": ("intercept", lambda a: np.concatenate([a, a])),
    "an array too many": ("more", lambda _a: np.zeros(1)),
    "half a spread": ("place", lambda _a: np.zeros(1, np.int64)),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_header_that_is_invalid_under_good_digests_is_refused(what: str) -> None:
    header, arrays = layout.decode_checkpoint(GOOD)
    act, key, *value = BREAKS[what]
    if act == "del":
        del header[key]
    else:
        header[key] = value[0]
    with pytest.raises(Corrupt) as refused:
        decode_edition(layout.encode_checkpoint(header, arrays), ManualClock())
    assert refused.value.code == "edition_corrupt"


@pytest.mark.parametrize("what", ARRAYS)
def test_arrays_that_are_nonsense_under_good_digests_are_refused(what: str) -> None:
    header, arrays = layout.decode_checkpoint(GOOD)
    name, change = ARRAYS[what]
    broken: Arrays = {**arrays, name: change(arrays.get(name))}
    with pytest.raises(Corrupt):
        decode_edition(layout.encode_checkpoint(header, broken), ManualClock())


@settings(max_examples=200)
@given(at=st.integers(0, len(GOOD) - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_gets_through(at: int, bit: int) -> None:
    broken = bytearray(GOOD)
    broken[at] ^= 1 << bit
    with pytest.raises(Corrupt):
        decode_edition(bytes(broken), ManualClock())


@settings(max_examples=30)
@given(examples=st.integers(0, 60), seed=st.integers(0, 2**32 - 1), bits=st.integers(1, 26))
def test_all_learnt_events_survive(examples: int, seed: int, bits: int) -> None:
    published = served({"encoder": {"bits": bits}}, examples, seed)
    same(published, decode_edition(encode_edition(published), ManualClock(9000)))
