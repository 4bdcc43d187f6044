"""Slices: the figures of each value are those of progressive validation on its events alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from riata.base.arrays import BOOL
from riata.base.errors import Corrupt
from riata.learn.learner import Stepped
from riata.run.state.config import Change, read_config
from riata.run.state.model_state import ModelState, unlogged
from riata.run.state.replay import replay
from riata.store.store import Append
from riata.watch.observer import Rows
from riata.watch.progressive import Progressive, ProgressiveConfig
from riata.watch.slices import VALUES_MAX, Slices, wanted
from riata.wire.batch import Batch, slice_rows
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch, random_batch

N = 900
HASHES = {"country=de": 14_316_557 * 7, "country=fr": 14_316_557 * 8 % 2**32, "device=phone": 14_316_557 * 7 + 1}


def stream() -> tuple[Batch, tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(4)
    rows = random_batch(rng, N)
    margin, weight = rng.normal(size=N), rng.uniform(0.5, 2.0, N)
    margin[17] = np.nan
    return rows, (margin, rows.label, weight), rng.random(N) < 0.1


def has(rows: Batch, value: int) -> BOOL:
    """Which rows have a feature."""
    return np.array([value in rows.hash[start:stop] for start, stop in pairwise(rows.indptr.tolist())])


def followed(rows: Batch, answered: tuple[np.ndarray, ...], refused: np.ndarray, cuts: list[int]) -> Slices:
    slices = Slices("logistic", ["country"])
    slices.follow(HASHES)
    for start, stop in zip([0, *cuts], [*cuts, N], strict=True):
        some = [slice_rows(rows, start, (start + stop) // 2), slice_rows(rows, (start + stop) // 2, stop)]
        margin, label, weight = (part[start:stop] for part in answered)
        stepped = Stepped(margin, refused[start:stop], label, weight, 0)
        slices.observe(Rows(some, 1 + start), stepped)
    return slices


def test_figures_are_those_of_the_events_with_the_feature_alone() -> None:
    rows, answered, refused = stream()
    slices = followed(rows, answered, refused, [])
    assert slices.names == ("country=de", "country=fr")
    found = {one["value"]: one for one in slices.figures()}
    for value in ("de", "fr"):
        mine = has(rows, HASHES[f"country={value}"]) & ~refused
        alone = Progressive(ProgressiveConfig(answers="logistic"))
        margin, label, weight = (part[mine] for part in answered)
        alone.add(np.nan_to_num(margin), label, weight, np.zeros(len(margin), np.bool_), 1)
        expected = alone.figures()
        assert found[value]["examples"] == int(mine.sum()) > 10
        for horizon in ("cumulative", "faded"):
            for figure, one in found[value][horizon].items():
                assert one == expected[horizon][figure], (value, horizon, figure)


def test_the_cut_into_batches_changes_no_bit_and_a_thawed_copy_goes_on_alike() -> None:
    rows, answered, refused = stream()
    whole, cut = followed(rows, answered, refused, []), followed(rows, answered, refused, [1, 2, 3, 500])
    copy = Slices("logistic", ["country"])
    copy.thaw(cut.freeze())
    for one in (cut, copy):
        one.observe(Rows([rows], 1), Stepped(answered[0], refused, *answered[1:], 0))
    whole.observe(Rows([rows], 1), Stepped(answered[0], refused, *answered[1:], 0))
    for name, array in whole.freeze().items():
        assert array.tobytes() == cut.freeze()[name].tobytes() == copy.freeze()[name].tobytes()
    assert copy.names == whole.names


@pytest.mark.parametrize(
    "spoil",
    [
        {"hash": np.zeros(3, np.uint32)},
        {"hash": np.full(2, 7, np.uint32)},
        {"sums": np.full((2, 2, 9), np.nan)},
        {"length": np.array([5, 6])},
        {"examples": np.array([-1, 0])},
        {"text": np.full(20, 255, np.uint8)},
    ],
)
def test_a_spoilt_state_is_refused_and_changes_nothing(spoil: dict[str, np.ndarray]) -> None:
    slices = Slices("logistic", ["country"])
    slices.follow(HASHES)
    before = slices.freeze()
    other = Slices("logistic", ["country"])
    with pytest.raises(Corrupt, match="slices: "):
        other.thaw({**before, **spoil})
    assert other.names == ()
    other.thaw(before)
    assert other.names == slices.names


def test_the_first_values_of_each_field_are_kept_and_settings_choose_the_fields() -> None:
    many = {f"a={i}": i for i in range(100)} | {"b=1": 1000, "a": 2000, "c=1": 3000}
    found = wanted(many, ["a", "b"], ["a=7"])
    assert [name for name in found if name.startswith("a=")] == [f"a={i}" for i in range(VALUES_MAX) if i != 7]
    assert (list(found)[-1], len(found)) == ("b=1", VALUES_MAX)
    slices = Slices("logistic", ["a", "b"])
    slices.follow(many)
    slices.follow(many)
    assert len(slices.names) == VALUES_MAX + 1
    slices.keep(["b"])
    assert slices.names == ("b=1",)


def test_the_state_counts_from_the_event_that_names_a_value_and_replay_gives_the_same_bits() -> None:
    rng = np.random.default_rng(4)
    store, config = MemoryStore(), read_config({"encoder": {"bits": 12}, "slices": ["country"]})
    create_model(store, config=config)
    log_batch(store, random_batch(rng, 400))
    store.append([Append("m", "config", 0, payload=Change(config, 1, names=HASHES).payload())])
    counted = random_batch(rng, 500)
    log_batch(store, counted)
    state = replay(store, "m").state
    found = {one["value"]: one["examples"] for one in state.observers[Slices].figures()}
    assert found["de"] == has(counted, HASHES["country=de"]).sum() > 0
    thawed = ModelState.of(state.freeze().encode())
    assert thawed.freeze().digest() == state.freeze().digest()
    off = replace(config, slices=())
    for one in (state, thawed):
        one.apply(unlogged(one, "config", 1, Change(off).payload()))
        assert one.observers.get(Slices) is None
        assert not [name for name in one.freeze().arrays if name.startswith("slices.")]
