"""Damaged or fabricated checkpoints: each is refused before it takes memory, and never served.

What is refused for its bytes (digests, lengths, claims of the header) is tested at the reader, in tests/store/test_layout.py.
Here are the checkpoints of whole models: all digests right, and something inside that no model can be.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.run.state.config import read_stored
from riata.run.state.generations import check_generation, thaw_generation
from riata.run.state.model_state import Frozen, ModelState
from riata.store import layout
from riata.store.redis.store import open_redis
from riata.store.sqlite.store import read_sqlite
from riata.store.store import Generation, Head
from tests.fuzz.targets.state import LEARNERS, frozen, observed, rows
from tests.golden.make_release_directory import MODELS, unpack_release
from tests.redis_server import RedisServer, redis_version
from tests.settings import redis_settings
from tests.store.batches import generation, save
from tests.store.test_layout import signed

TRUNCATED, FTRL, HYBRID, EXACT = 1, 2, 3, 5


def parts(learner: int) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a valid state, to be changed."""
    return layout.decode_checkpoint(frozen(learner).encode())


def thaw(header: dict[str, Any], arrays: Arrays) -> ModelState:
    """Sign, read, thaw."""
    return ModelState.of(layout.encode_checkpoint(header, arrays))


def saved_as(header: dict[str, Any], arrays: Arrays) -> tuple[Generation, bytes]:
    """A generation with this content and correct digests, and its bytes."""
    content = layout.encode_checkpoint(header, arrays)
    head = Head(bytes.fromhex(header["lineage"]), header["applied"], bytes.fromhex(header["chain"]), 1, 0)
    saved = generation(1, head.seq, head.chain, content, head.lineage)
    return replace(saved, state_digest=Frozen(header, arrays).digest()), content


@pytest.mark.parametrize("learner", range(len(LEARNERS)))
def test_true_states_pass_and_learn_on(learner: int) -> None:
    check_generation(*saved_as(*parts(learner)))
    state = thaw(*parts(learner))
    assert state.freeze().encode() == frozen(learner).encode()
    state.apply(observed(state, rows(9, 30)))
    assert state.applied == frozen(learner).header["applied"] + 30


def put(name: str, at: int, value: float) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name].reshape(-1)[at] = value

    return change


def swap(name: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name][[0, 1]] = arrays[name][[1, 0]]

    return change


def drop(name: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        del arrays[name]

    return change


def shorten(name: str) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name] = arrays[name][:-1]

    return change


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("learner", "change"),
    [
        (TRUNCATED, put("learner.beta", 0, NAN)),
        (TRUNCATED, put("learner.beta", 0, INF)),
        (TRUNCATED, put("learner.squares", 0, -1.0)),
        (TRUNCATED, put("learner.slot", -1, 4096)),
        (TRUNCATED, put("learner.counts", 0, -1)),
        (TRUNCATED, swap("learner.slot")),
        (TRUNCATED, drop("learner.slot")),
        (TRUNCATED, shorten("learner.beta")),
        (FTRL, put("learner.z", 0, NAN)),
        (FTRL, put("learner.squares", 0, -INF)),
        (FTRL, swap("learner.slot")),
        (HYBRID, put("learner.member_beta", 1, NAN)),
        (HYBRID, put("learner.member_key", 1, 4096)),
        (HYBRID, put("learner.cross", 0, INF)),
        (HYBRID, put("learner.shadow_loss", 1, 1e300)),
        (HYBRID, swap("learner.outside_slot")),
        (HYBRID, put("learner.counts", 1, 10**9)),
        (EXACT, put("learner.member_key", 1, 2**40)),
        (EXACT, put("learner.held_hash", 1, 0)),
        (EXACT, put("learner.held_indptr", 1, 10**9)),
        (EXACT, put("learner.pending_at", 0, 10**9)),
        (FTRL, put("watch.counts", 0, -1)),
        (FTRL, put("watch.counts", 0, 2**63 - 1)),
        (FTRL, put("watch.sums", 0, NAN)),
        (FTRL, put("watch.histogram", 0, -1.0)),
        (FTRL, drop("watch.curve")),
    ],
)
def test_numbers_that_no_model_can_hold_are_refused_though_every_digest_is_right(
    learner: int, change: Callable[[Arrays], None]
) -> None:
    header, arrays = parts(learner)
    change(arrays)
    with pytest.raises(Corrupt):
        thaw(header, arrays)
    with pytest.raises(Corrupt):
        check_generation(*saved_as(header, arrays))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("applied", -1),
        ("applied", True),
        ("applied", 2.0),
        ("applied", 2**63),
        ("skipped", "0"),
        ("restored", 1),
        ("model", None),
        ("lineage", "xx"),
        ("chain", 7),
        ("config", {"learner": {"kind": "unknown"}}),
        ("config", {"encoder": {"bits": 60}}),
        ("config", []),
    ],
)
def test_headers_that_no_model_can_have_are_refused_though_every_digest_is_right(key: str, value: object) -> None:
    header, arrays = parts(FTRL)
    header[key] = value
    with pytest.raises(Corrupt):
        thaw(header, arrays)
    del header[key]
    with pytest.raises(Corrupt):
        thaw(header, arrays)


@pytest.mark.parametrize(
    "text",
    [
        b'{"arrays":[],"header":{},"header":{}}',
        b'{"header":{},"arrays":[]}',
        b'{"arrays":[], "header":{}}',
        b'{"arrays":[],"header":{"a":1e0}}',
        b'{"arrays":[],"header":{"a":1e999}}',
        '{"arrays":[],"header":{"a":"é"}}'.encode(),
    ],
)
def test_a_header_that_has_the_same_content_in_other_bytes_is_refused(text: bytes) -> None:
    assert layout.decode_checkpoint(signed(b'{"arrays":[],"header":{}}', b"")) == ({}, {})
    with pytest.raises(Corrupt, match=r"differs from what was written|not JSON"):
        layout.decode_checkpoint(signed(text, b""))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_saved_by_the_first_release_is_read_and_learns_on(name: str, tmp_path: Path) -> None:
    unpack_release(tmp_path)
    with closing(read_sqlite(tmp_path)) as store:
        saved = store.generations(name)[0]
        data = store.open_generation(name, saved.gen)
    header, arrays = layout.decode_checkpoint(data)
    check_generation(saved, data)
    state = thaw_generation(saved, data)  # also where this version writes settings that were unknown then
    again = state.freeze()
    if name != "gradient":  # chosen from several step sizes then, mixed from them now
        assert again.arrays.keys() == arrays.keys()
        assert all(array.tobytes() == arrays[key].tobytes() for key, array in again.arrays.items())  # to the bit
    assert read_stored(header["config"]) == state.config
    for read in (thaw_generation, check_generation):
        with pytest.raises(Corrupt, match="does not match its state digest"):
            read(replace(saved, state_digest=bytes(32)), data)
        with pytest.raises(Corrupt, match="is of another event than"):
            read(replace(saved, applied=saved.applied + 1), data)
    state.apply(observed(state, rows(9, 30)))
    assert np.isfinite(state.learner.weights().beta).all()
    newer = signed(data[56 : 56 + int.from_bytes(data[12:16], "little")], b"", layout.FORMAT + 1)
    with pytest.raises(Corrupt) as caught:
        layout.decode_checkpoint(newer)
    assert caught.value.code == "newer_format"


@pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
def test_chunks_and_descriptions_of_another_generation_model_or_service_are_refused(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, ExitStack() as stack:
        for namespace in ("one", "other"):
            store = stack.enter_context(closing(open_redis(server.url, redis_settings(namespace=namespace))))
            owner = store.acquire(bytes(16), 1, "here", 0)
            for number, model in enumerate(("a", "b")):
                head = store.create(model, bytes([number] * 16))
                for gen in (1, 2):
                    save(store, owner, model, head, f"{namespace} {model} {gen}".encode() * 100)
        mine = stack.enter_context(closing(open_redis(server.url, redis_settings(namespace="one"))))
        content = mine.open_generation("a", 2)
        here, client = "{riata:one}:m:1:", stack.enter_context(server.client())
        for source, key in (("{riata:one}:m:1:", "c:1"), ("{riata:one}:m:2:", "c:2"), ("{riata:other}:m:1:", "c:2")):
            chunks = client.dump(here + "c:2")
            client.restore(here + "c:2", 0, client.dump(source + key), replace=True)
            with pytest.raises(Corrupt) as caught:
                mine.open_generation("a", 2)
            assert caught.value.code == "ckpt_corrupt"
            client.restore(here + "c:2", 0, chunks, replace=True)
            assert mine.open_generation("a", 2) == content
        for source, field in (("{riata:one}:m:1:", "1"), ("{riata:one}:m:2:", "2"), ("{riata:other}:m:1:", "2")):
            described = client.hget(here + "gens", "2")
            client.hset(here + "gens", "2", client.hget(source + "gens", field))
            with pytest.raises(Corrupt):
                thaw_generation(mine.generations("a")[0], mine.open_generation("a", 2))
            client.hset(here + "gens", "2", described)
        assert mine.open_generation("a", 2) == content
