"""Weights of labels: what is learnt is what rows with these weights teach, and what is served is that of the rows as sent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Conflict
from riata.base.limits import WEIGHT_MAX
from riata.cli.replay import with_settings
from riata.lab.batch.segment_data import data_of
from riata.lab.pools.message import decode_rows, encode_rows
from riata.model import Model
from riata.run.candidates.backtest import backtest
from riata.run.candidates.refits import work
from riata.run.state.config import read_config, read_stored, stored_document
from riata.run.state.config_changes import with_changes
from riata.run.state.replay import replay
from riata.wire.batch import weighted
from tests.doubles.memory_store import MemoryStore
from tests.run.node import serving
from tests.run.refit_rows import SLOW, rows
from tests.run.test_fit import fitted, lines_of
from tests.run.test_refit_work import prepared, solved
from tests.store.batches import random_batch

WEIGHTS = {"positive": 8.0, "negative": 0.5}
SHIFT = math.log(0.5 / 8.0)
KINDS = ("truncated_gradient", "ftrl_proximal", "taylor_sketch")


def with_weights(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "weight": WEIGHTS["positive" if row["label"] else "negative"]} for row in data]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learnt_is_what_rows_with_these_weights_teach(kind: str) -> None:
    data, document = rows(600), {"encoder": {"bits": 12}, "learner": {"kind": kind}}
    sent = fitted(lines_of(with_weights(data)), document).state
    own = fitted(lines_of(data), {**document, "label_weight": WEIGHTS}, lines=7).state
    for name, array in sent.learner.freeze().items():
        assert own.learner.freeze()[name].tobytes() == array.tobytes(), name
    assert own.served_weights().intercept == sent.served_weights().intercept + SHIFT
    cumulative = own.progressive.figures()["cumulative"]
    assert cumulative["weight"] == 600.0  # figures are those of the rows as sent ...
    assert cumulative["calibration_ratio"] == pytest.approx(1.0, abs=0.15)  # ... and of the probabilities that are served
    assert (
        cumulative["base_log_loss"] == fitted(lines_of(data), document).state.progressive.figures()["cumulative"]["base_log_loss"]
    )


async def test_replay_a_restart_and_a_model_in_a_notebook_have_the_bits_of_the_service() -> None:
    data, document = rows(500), {**SLOW, "label_weight": WEIGHTS}
    store, digests = MemoryStore(), []
    async with serving(store, document) as node:
        for start in range(0, 500, 90):
            await node.observe(data[start : start + 90])
        digests.append((await node.admin.snapshot_now("m"))["state_digest"])
    assert replay(store.crash(), "m").state.freeze().digest().hex() == digests[0]
    notebook = Model(document)
    notebook.learn_many(data)
    async with serving(store.crash()) as node:
        served = node.service.published("m").model.weights
        assert served.intercept == notebook._model().weights.intercept
        digests.append((await node.admin.snapshot_now("m"))["state_digest"])
    assert digests[0] == digests[1] == fitted(lines_of(data), document).digest


def test_a_refit_is_that_of_rows_with_these_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "limit_memory", lambda _bytes: None)  # of the process that runs all tests
    found = []
    for name, data, more in (("own", rows(900), {"label_weight": WEIGHTS}), ("sent", with_weights(rows(900)), {})):
        (tmp_path / name).mkdir()
        task = prepared(tmp_path / name, data, {"gamma": 2.0, "hold_out": {"share": 0.5}}, {**SLOW, **more})[0]
        found.append((task, solved(tmp_path / name)[0]))
    (own_task, own), (_, sent) = found
    assert own.weights.beta.tobytes() == sent.weights.beta.tobytes()
    assert {**own.document, "seconds": 0, "solutions": 0} == {**sent.document, "seconds": 0, "solutions": 0}
    sent_rows = data_of(own_task.mapped(), 12, own_task.counted, 1.0, own_task.config.label_weight.by_label)
    again = decode_rows(encode_rows(sent_rows))  # as pools of processes read it
    assert again.parts[0].load().weight.tobytes() == sent_rows.parts[0].load().weight.tobytes()
    assert set(again.parts[0].load().weight) == {0.5, 8.0}


async def test_other_weights_are_tried_on_a_log_and_their_losses_compare(store: MemoryStore) -> None:
    async with serving(store, SLOW) as node:
        await node.observe(rows(800))
    own = read_config(SLOW)
    own_row, heavy = backtest(store.crash(), "m", [("heavy", with_settings(own, "label_weight.positive=5"))]).document()[
        "settings"
    ]
    assert heavy["difference"] == pytest.approx(heavy["loss"] - own_row["loss"], abs=1e-12)
    assert heavy["loss"] == pytest.approx(
        fitted(lines_of(rows(800)), {**SLOW, "label_weight": {"positive": 5}}).state.progressive.log_loss, abs=1e-12
    )


def test_a_weight_stays_in_the_range_that_learners_take() -> None:
    batch = random_batch(np.random.default_rng(2), 40)
    assert weighted(batch, (1.0, 1.0)) is batch
    batch.weight[:] = 500.0
    both = weighted(batch, (1e-3, 1e3)).weight
    assert set(both) == {0.5, WEIGHT_MAX}


@pytest.mark.parametrize(
    ("document", "code", "said"),
    [
        ({"label_weight": {"positive": 0}}, "out_of_range", "label_weight.positive"),
        ({"label_weight": {"positive": 2000}}, "out_of_range", "label_weight.positive"),
        ({"label_weight": {"1": 10}}, "unknown_key", "label_weight.1"),
    ],
)
def test_weights_that_cannot_work_are_refused(document: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        read_config(document)
    assert refused.value.code == code


def test_weights_are_stored_if_they_are_set_and_cannot_change() -> None:
    config = read_config({"label_weight": {"positive": 2}})
    assert read_stored(stored_document(config)) == config
    assert "label_weight" not in stored_document(read_config({"label_weight": {"positive": 1}}))
    with pytest.raises(Conflict, match="label_weight cannot change"):
        with_changes(config, {"label_weight": {"positive": 3}})
