"""Values of sliced fields and followed features are found by name, logged by hash, and counted from then on: live, in a replay,
and after a start."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Corrupt
from riata.predict.name_book import NameBook
from riata.run.cluster.editions import decode_edition, encode_edition
from riata.run.state.config import change_from_payload, read_config
from riata.run.state.replay import replay
from riata.run.writer.learning import EVERY_MS, NamesLooked
from riata.store import records
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, serving

SLICED: dict[str, Any] = {**SMALL, "slices": ["country"]}


def rows(n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    made = []
    for country in rng.choice(["de", "fr", "us"], n):
        features = {"country": str(country), "device": "phone", "countryside": "x", "age": float(rng.integers(9))}
        made.append({"features": features, "label": int(rng.random() < {"de": 0.9, "fr": 0.1, "us": 0.5}[str(country)])})
    return made


async def named(node: Node) -> None:
    """Wait until the names that were seen are in the log."""
    while (await node.service.changes("m"))[0]["kind"] != "named":
        await asyncio.sleep(0.01)


def examples(node: Node) -> dict[str, int]:
    found = node.service.published("m").figures["slices"]
    return {one["value"]: one["examples"] for one in found}


async def test_values_are_named_by_an_event_and_counted_after_it() -> None:
    store, later = MemoryStore(), rows(500, 2)
    async with serving(store, SLICED) as node:
        await node.observe(rows(300, 1))
        await named(node)
        assert (await node.service.changes("m"))[0] | {"time": None, "seq": 0} == {
            "seq": 0, "time": None, "kind": "named", "actor": None, "settings": {},
            "source": {"names": ["country=de", "country=fr", "country=us"]},
        }  # fmt: skip
        await node.observe(later)
        countries = [row["features"]["country"] for row in later]
        assert examples(node) == {country: countries.count(country) for country in ("de", "fr", "us")}
        german = next(one for one in node.service.published("m").figures["slices"] if one["value"] == "de")
        assert german["faded"]["base_rate"] == pytest.approx(0.9, abs=0.06)
        assert german["faded"]["loss"] < 0.5
    again = store.crash()
    assert replay(again, "m").equal
    async with serving(again) as node:
        assert sum(examples(node).values()) == 500
        await node.admin.change("m", {"slices": ["device"]})
        await named(node)
        await node.observe(rows(10, 3))
        assert examples(node) == {"phone": 10}
    assert replay(again.crash(), "m").equal


def test_names_are_looked_for_again_when_more_came_and_not_too_often() -> None:
    now: Any = SimpleNamespace(
        config=read_config(SLICED), figures={"slices": []}, followed=None, changes=(1,), published_mono_ms=0
    )
    book, looked = NameBook(), NamesLooked()
    assert looked.payload(now, book) is None
    book.add(7 << 32, b"country=de")
    book.add(8 << 32, "country=de \u00d7 device=phone".encode())
    asked = looked.payload(now, book)
    assert asked is not None
    change = change_from_payload(asked)
    assert (change.names, change.after, change.config) == ({"country=de": 7}, 1, now.config)
    now.published_mono_ms = EVERY_MS - 1
    assert looked.payload(now, book) is None
    now.published_mono_ms = EVERY_MS
    assert looked.payload(now, book) == asked  # the first was void
    now.published_mono_ms, now.figures = 2 * EVERY_MS, {"slices": [{"field": "country", "value": "de"}]}
    assert looked.payload(now, book) is None


async def test_followed_weights_are_those_of_the_replay_and_of_the_next_start() -> None:
    store, names = MemoryStore(), ["age", "country=de", "country=de \u00d7 device=phone", "nobody"]
    crossed: dict[str, Any] = {**SMALL, "encoder": {**SMALL["encoder"], "crosses": [["country", "device"]]}}
    async with serving(store, crossed) as node:
        await node.observe(rows(700, 1))
        await node.admin.change("m", {"weights_followed": names})
        await named(node)
        await node.observe(rows(2300, 2))
        published = node.service.published("m")
        assert published.followed is not None
        assert published.followed.names == tuple(names[:3])
        assert published.followed.examples.tolist() == [700, 1000, 2000, 3000]
        held = published.model.weights.of(published.followed.hash.tolist())
        assert published.followed.weights[-1].tolist() == held
        assert 0.0 not in held
        copied = decode_edition(encode_edition(published), node.engine.clock).followed
        assert copied is not None
        assert copied.document(names) == published.followed.document(names)
    again = store.crash()
    assert replay(again, "m").equal
    async with serving(again) as node:
        await node.admin.change("m", {"weights_followed": ["age"]})
        followed = node.service.published("m").followed
        assert followed is not None
        assert (followed.names, followed.examples.tolist()) == (("age",), [700, 1000, 2000, 3000])
        await node.admin.change("m", {"weights_followed": []})
        assert node.service.published("m").followed is None
    assert replay(again.crash(), "m").equal


def test_a_followed_feature_is_named_at_once_and_once() -> None:
    """Ten seconds between two events hold for values of slices only; an event that was not applied yet is not repeated."""
    now: Any = SimpleNamespace(
        config=read_config({**SLICED, "weights_followed": ["age"]}), figures={"slices": []}, followed=None, changes=(1,),
        published_mono_ms=0,
    )  # fmt: skip
    book, looked = NameBook(), NamesLooked()
    book.add(7 << 32, b"country=de")
    assert looked.payload(now, book) is not None
    book.add(8 << 32, b"age")
    now.published_mono_ms = 10
    assert looked.payload(now, book) is None
    now.changes, now.figures = (1, 2), {"slices": [{"field": "country", "value": "de"}]}
    asked = looked.payload(now, book)
    assert asked is not None
    assert change_from_payload(asked).names == {"age": 8}
    assert looked.payload(now, book) is None


def test_bad_settings_and_bad_names_in_the_log_are_refused() -> None:
    for bad in (["a", "a"], [""], ["a", "b", "c", "d", "e"]):
        with pytest.raises(BadInput):
            read_config({"slices": bad})
    assert read_config({"slices": ["a", "b", "c", "d"]}).slices == ("a", "b", "c", "d")
    for bad in (["a", "a"], [""], [str(i) for i in range(33)]):
        with pytest.raises(BadInput):
            read_config({"weights_followed": bad})
    spoilt: list[Any] = [[], {"a=b": -1}, {"a=b": 2**32}, {"a=b": "x"}]
    for names in spoilt:
        with pytest.raises(Corrupt):
            change_from_payload(records.encode_document({**SMALL, "names": names}))
