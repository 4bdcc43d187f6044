"""What the child process of a refit does, in this process, and what the service does with its result."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Conflict, Corrupt, TooLarge, Unavailable
from riata.base.process import child_environment, lower_priority
from riata.run.candidates.judging import losses, margins
from riata.run.candidates.refits import work
from riata.run.candidates.refits.checking import check
from riata.run.candidates.refits.process import RefitProcess
from riata.run.candidates.refits.refit import Preparing, seconds_left, split_before
from riata.run.candidates.refits.request import read_request
from riata.run.candidates.refits.task import RESULT, STATE, Outcome, Task
from riata.run.candidates.refits.work import until
from riata.run.candidates.solving import rows_between
from riata.run.state.replay import replay
from riata.store.control_events import Counted
from riata.store.payload import decode_batch
from tests.doubles.memory_store import MemoryStore
from tests.run.node import serving
from tests.run.refit_rows import SLOW, rows

SKETCH = {
    "encoder": {"bits": 12},
    "publish_every_ms": 1,
    "learner": {"kind": "taylor_sketch", "mode": "exact", "gamma": 1.0, "far_values": "off"},
}


@pytest.fixture(autouse=True)
def _unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "limit_memory", lambda _bytes: None)  # of the process that runs all tests


def prepared(
    folder: Path,
    data: list[dict[str, Any]],
    document: dict[str, Any],
    config: dict[str, Any] = SLOW,
    changes: dict[str, Any] | None = None,
) -> tuple[Task, MemoryStore]:
    """Have a service learn rows, and prepare a refit of it in `folder`."""
    store = MemoryStore()

    async def learn() -> Task:
        async with serving(store, config) as node:
            await node.observe(data)
            await node.admin.change("m", changes or {})
            await node.engine.save("m")
            request = read_request(document)
            preparing = Preparing(node.engine.context, "m", request, folder, folder, lambda _event, _last: None)
            return await asyncio.to_thread(preparing.prepare, folder, lambda _size: None)

    return asyncio.run(learn()), store.crash()


def solved(folder: Path, may_go_on: Callable[[], bool] = lambda: True) -> tuple[Outcome, list[dict[str, Any]]]:
    """Do the task; returns the result and what was said."""
    said: list[dict[str, Any]] = []
    work.refit(folder, said.append, may_go_on)
    return Outcome.read(folder / RESULT), said


def test_the_progressive_regret_is_the_sum_of_the_progressive_losses_minus_that_of_the_optimum(tmp_path: Path) -> None:
    _, store = prepared(tmp_path, rows(700), {"gamma": 2.0}, SKETCH)
    outcome, said = solved(tmp_path)
    regret = outcome.document["progressive_regret"]
    figures = replay(store, "m").state.progressive.figures()["cumulative"]
    assert regret["online"] == pytest.approx(700 * figures["log_loss"], rel=1e-9)
    batches = [decode_batch(record.payload) for record in store.read("m", 0, 2**30) if record.kind == "observe"]
    fixed = sum(float(losses("logistic", margins(outcome.weights, one), one.label).sum()) for one in batches)
    assert regret["batch"] == pytest.approx(fixed, rel=1e-12)
    assert (regret["events"], regret["in_sample"]) == (700, True)
    assert [line["stage"] for line in said if "pass" not in line] == ["counting", "solving", "judging"]
    assert (tmp_path / STATE).exists()


def test_only_rows_that_count_are_judged(tmp_path: Path) -> None:
    """Events that the log skips, and those that a restore undid, are neither learnt nor in a loss."""
    found, store = prepared(tmp_path, rows(300), {"gamma": 1.0})
    (label,) = [decode_batch(record.payload).label for record in store.read("m", 0, 2**30) if record.kind == "observe"]
    counted = Counted(np.array([[2, 20], [31, 301]]), np.array([5, 40]))
    judged = list(rows_between(found.mapped(), counted, 3, 50, found.config.label_weight.by_label))
    expected = [event for event in range(4, 51) if event not in (5, 40) and not 20 < event < 31]
    assert np.concatenate([batch.label for batch in judged]).tolist() == [label[event - 2] for event in expected]


def test_of_several_penalties_the_older_half_of_the_hold_out_chooses(tmp_path: Path) -> None:
    task = prepared(tmp_path, rows(900), {"gamma": [1000.0, 1.0, 300.0], "hold_out": {"share": 0.5}})[0]
    found = solved(tmp_path)[0].document
    assert [one["gamma"] for one in found["solutions"]] == [1000.0, 300.0, 1.0]
    assert found["chosen"] == 2
    assert (task.split, found["verdict"]["events"]) == (451, 225)
    assert found["verdict"]["decision"] == "PROMOTE"


def test_a_cancelled_refit_keeps_the_best_weights_so_far(tmp_path: Path) -> None:
    found = prepared(tmp_path, rows(400), {"gamma": 0.01})[0]

    outcome, _ = solved(tmp_path, lambda: False)
    (one,) = outcome.document["solutions"]
    assert (one["stopped"], one["passes"]) == ("cancelled", 1)  # that which certifies; it would take two more
    assert outcome.document["verdict"]["why"] == "not judged: the refit was cancelled"
    assert check(outcome, found, lambda: None)["certificate"]["objective"] == pytest.approx(one["objective"], rel=1e-12)


def _stopping() -> None:
    raise Unavailable("stopping")


def test_a_claim_that_does_not_hold_is_not_believed(tmp_path: Path) -> None:
    found = prepared(tmp_path, rows(300), {})[0]
    outcome, _ = solved(tmp_path)
    report = check(outcome, found, lambda: None)
    assert report["regret"]["objective_excess"] >= -report["certificate"]["gap"]
    with pytest.raises(Unavailable, match="stopping"):
        check(outcome, found, _stopping)
    (one,) = outcome.document["solutions"]
    for name, change in (("objective", 1e-3), ("kkt", -1e-3 - one["kkt"])):
        document = {**outcome.document, "solutions": [{**one, name: one[name] + change}]}
        with pytest.raises(Corrupt) as refused:
            check(Outcome(outcome.weights, document), found, lambda: None)
        assert refused.value.code == "certificate_mismatch"


def test_a_segment_that_is_not_the_one_that_was_named_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    task = prepared(tmp_path / "one", rows(300), {})[0]
    other = prepared(tmp_path / "other", rows(300, seed=9), {})[0]
    os.replace(str(other.segments[0]["file"]), str(task.segments[0]["file"]))
    with pytest.raises(Conflict, match="not of the log of model m") as refused:
        solved(tmp_path / "one")
    assert refused.value.code == "segment_stale"


@pytest.mark.parametrize(
    ("data", "document", "code", "told"),
    [
        ([{**row, "label": 0} for row in rows(30)], {}, "one_class", "label -1"),
        (
            [{"features": {"a": sign}, "label": int(sign > 0)} for sign in (-1.0, 1.0)] * 40,
            {"gamma": 0.0},
            "no_optimum",
            "gamma above 0",
        ),
        (
            [{"features": {f"f{i}": 1.0, "b": float(i % 3)}, "label": i % 2} for i in range(600)],
            {"solver": "rmmp", "k": 590, "memory_bytes_max": 2**20},
            "memory_bound",
            "k = 1",
        ),
        (
            [{"features": {f"f{i}": 1.0, "b": float(i % 3)}, "label": i % 2} for i in range(600)],
            {"solver": "mp", "memory_bytes_max": 2**20},
            "memory_bound",
            "fits",
        ),
    ],
)
def test_what_the_solver_refuses(
    tmp_path: Path, data: list[dict[str, Any]], document: dict[str, Any], code: str, told: str
) -> None:
    prepared(tmp_path, data, document)
    with pytest.raises((Conflict, TooLarge)) as refused:
        solved(tmp_path)
    assert refused.value.code == code
    assert told in refused.value.detail


def test_a_window_without_an_example_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no example is left to learn from in the events 32 to 32") as refused:
        prepared(tmp_path, rows(30), {"window": {"events": 1}}, changes={"publish_every_ms": 2})
    assert refused.value.code == "no_events"


def test_the_hold_out_is_the_newest_events_that_count(tmp_path: Path) -> None:
    task = prepared(tmp_path, rows(400), {})[0]
    segments = task.mapped()
    everything = Counted(np.array([[1, 401]]), np.array([401, 400, 390], np.int64)[::-1])
    assert split_before(segments, everything, 0.1) == 401 - 39 - 3
    assert split_before(segments, everything, None) == 401 - 198 - 3
    assert split_before(segments, until(everything, 3), 0.4) == 0
    assert until(everything, 100).spans.tolist() == [[1, 100]]


def test_the_rest_of_the_time_is_estimated_from_how_fast_the_violation_falls() -> None:
    passes = [{"kkt": 1e-1, "seconds": 1.0}, {"kkt": 1e-2, "seconds": 3.0}, {"kkt": 1e-3, "seconds": 5.0}]
    assert seconds_left(passes) == pytest.approx(6.0)
    assert seconds_left(passes[:1]) is None
    assert seconds_left(passes[::-1]) is None


def test_the_child_ends_with_the_service_and_its_memory_is_bounded(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "riata.run.candidates.refits.process", str(tmp_path)]
    abandoned = subprocess.run(run, stdin=subprocess.DEVNULL, env=child_environment(), capture_output=True, check=False)
    assert abandoned.returncode == 3
    program = (
        "import sys, numpy as np\nfrom riata.run.candidates.refits.work import limit_memory\nlimit_memory(2**25)\nnp.ones(2**27)"
    )
    greedy = subprocess.run([sys.executable, "-c", program], env=child_environment(), capture_output=True, check=False)
    assert b"MemoryError" in greedy.stderr
    started: list[RefitProcess] = []

    def start() -> None:
        lower_priority(7)
        lower_priority(3)
        started.append(RefitProcess(tmp_path))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    (process,) = started
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 7
    process.kill()
    with pytest.raises(Unavailable) as failed:
        list(process.lines())
    process.close()
    assert failed.value.code == "refit_failed"
