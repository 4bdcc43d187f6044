"""Pools: the same bits wherever parts are done, and faults that cost time but no bit."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Conflict, Corrupt, RiataError, Unavailable
from riata.lab.batch import segment_data
from riata.lab.batch.certificate import expansion_request
from riata.lab.batch.choose import CLASSES
from riata.lab.batch.parallel_sgd import ParallelSgd
from riata.lab.batch.pool import Pool, Serial, Threads
from riata.lab.batch.problem import Problem, Solution
from riata.lab.batch.rmmp import Rmmp, solve_path
from riata.lab.batch.segment_data import SegmentData, data_of
from riata.lab.pools.message import decode, decode_rows, digest_of, encode_call, encode_rows, reported
from riata.lab.pools.processes import Processes
from riata.lab.pools.worker import LENGTH, READY, frame, part_frame, serve
from riata.run.candidates.solving import certificate_at
from tests.batch.test_segment_data import rows_of, segments
from tests.cli.test_verbs import run
from tests.store.batches import batch_of

ROWS = 400
HOT: dict[str, dict[str, Any]] = {
    "mp": {}, "rmmp": {"k": 20}, "irls_lars": {}, "shotgun": {"at_once": 2}, "sllr_l2": {"rounds": 50},
    "parallel_sgd": {"machines": 5, "passes_max": 2},
}  # fmt: skip


def made(folder: Path) -> SegmentData:
    """Seven parts over three segments, with a learner that forgets."""
    rng = np.random.default_rng(5)
    rows, labels = [], []
    for _ in range(ROWS):
        chosen = sorted(rng.choice(40, 5, replace=False).tolist())
        rows.append([(number * 2**26 + 7, float(rng.normal())) for number in chosen])
        labels.append(float(rng.random() < 1.0 / (1.0 + np.exp(-sum(x for (_, x), j in zip(rows[-1], chosen, strict=True)
                                                                    if j < 10)))))  # fmt: skip
    return data_of(segments(folder, batch_of(rows, labels), (100, 250)), 12)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> SegmentData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_data, "PART_ROWS", 64)
        return made(tmp_path_factory.mktemp("segments"))


@pytest.fixture(scope="module")
def three(data: SegmentData) -> Iterator[Processes]:
    with Processes(data, 3) as pool:
        yield pool


def bits(solution: Solution) -> tuple[bytes, float, float]:
    return solution.weights.beta.tobytes(), solution.weights.intercept, solution.certificate.objective


def taylor(data: SegmentData) -> tuple[Any, Any]:
    return expansion_request(Problem(data, "logistic", 1.0), np.full(data.features, 0.1), 0.2, np.arange(12))


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_every_solver_has_the_same_bits_in_every_pool(data: SegmentData, three: Processes) -> None:
    def solve(pool: Pool, solver: str) -> tuple[bytes, float, float]:
        return bits(CLASSES[solver](**HOT[solver]).solve(Problem(data, "logistic", 3.0), pool))

    with Threads(2) as two, Threads(16) as sixteen:
        pools: tuple[Pool, ...] = (two, sixteen, three)
        for solver in HOT:
            assert {solve(pool, solver) for pool in pools} == {solve(Serial(), solver)}, solver
        problem = Problem(data, "logistic", 1.0)
        paths = [solve_path(problem, (9.0, 2.0), Rmmp(20), pool, lambda *_: True) for pool in (Serial(), three)]
        assert [bits(one) for _, one in paths[0]] == [bits(one) for _, one in paths[1]]
        online = paths[0][0][1].weights  # regret is measured by the same pass
        measured = [certificate_at(problem, online, pool) for pool in (Serial(), two, sixteen, three)]
        assert len(set(measured)) == 1


def test_a_process_that_is_killed_or_silent_costs_no_bit(
    data: SegmentData, three: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, given = taylor(data)
    wanted = Serial().fold(job, data.parts, given)
    assert same(three.fold(job, data.parts, given), wanted)
    other = Problem(data, "logistic", 3.0)
    walked = bits(ParallelSgd(machines=5).solve(other, Serial()))
    before = set(three.pids)
    os.kill(min(before), signal.SIGKILL)
    assert same(three.fold(job, data.parts, given), wanted)
    monkeypatch.setattr(three, "_patience_s", 2.0)
    stopped = three.pids[-1]
    os.kill(stopped, signal.SIGSTOP)
    for _ in range(3):  # until it is asked
        assert same(three.fold(job, data.parts, given), wanted)
        if stopped not in three.pids:
            break
    assert stopped not in three.pids
    os.kill(three.pids[0], signal.SIGKILL)
    assert bits(ParallelSgd(machines=5).solve(other, three)) == walked
    assert len(set(three.pids) & before) <= 1


def test_an_engine_that_is_lost_gives_no_partial_sum(data: SegmentData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Processes(data, 2) as pool, pytest.raises(Unavailable) as refused:
        pool.fold("labels", data.parts, {})
    assert refused.value.code == "engine_lost"
    assert "4 processes did not finish it" in refused.value.detail
    assert not pool._path.parent.exists()
    assert pool.pids == []
    with Processes(data, 2) as pool, pytest.raises(BadInput, match="other data"):
        pool.fold("labels", [object()], {})  # type: ignore[list-item]


def answers(rows: Path, *asked: bytes) -> list[RiataError | dict[str, Any]]:
    """Serve in this process."""
    source, sink = io.BytesIO(b"".join(asked)), io.BytesIO()
    serve(rows, source.read, sink.write)
    sink.seek(0)
    assert sink.read(LENGTH.size) == READY
    found: list[RiataError | dict[str, Any]] = []
    while head := sink.read(LENGTH.size):
        content = sink.read(LENGTH.unpack(head)[0])
        failed = reported(content)
        found.append(decode(content, "result")[1] if failed is None else failed)
    return found


def test_a_worker_refuses_what_is_not_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_data, "PART_ROWS", 64)
    data, rows = made(tmp_path / "one"), tmp_path / "rows.bin"
    content = encode_rows(data)
    rows.write_bytes(content)
    assert rows_of(decode_rows(content)) == rows_of(data)
    call = b"".join(frame(encode_call("labels", {}, digest_of(content))))
    (one,) = answers(rows, call, part_frame(6))
    assert isinstance(one, dict)
    assert float(one["weight"].sum()) == ROWS - 6 * 64
    (beyond, unasked) = answers(rows, call, part_frame(7))[0], answers(rows, part_frame(0))[0]
    assert isinstance(beyond, BadInput)
    assert isinstance(unasked, BadInput)
    path = data.parts[0].pieces[0].segment.path
    held = path.read_bytes()
    path.write_bytes(held[:-9] + bytes([held[-9] ^ 1]) + held[-8:])
    assert isinstance(answers(rows, call, part_frame(0))[0], Corrupt)
    path.write_bytes(data.parts[-1].pieces[0].segment.path.read_bytes())
    other = answers(rows, call, part_frame(0))[0]
    assert isinstance(other, Conflict)
    assert other.code == "stale_part"
    path.unlink()
    gone = answers(rows, call, part_frame(0))[0]
    assert isinstance(gone, Conflict)
    assert "needs this segment" in gone.detail


def test_options_choose_the_pool_and_not_the_result(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text("\n".join(f'{{"features": {{"x": {i % 7}, "w{i % 5}": 1}}, "label": {int(i % 3 == 0)}}}' for i in range(90)))
    words = ("fit", "--batch", str(path), "--gamma", "1", "--json", "--bits", "12")
    threads, child = run(*words), run(*words, "--processes", "1")
    found = [json.loads(done.stdout)["solutions"][0]["objective"] for done in (threads, child)]
    assert found[0] == found[1]
    both = run(*words, "--processes", "1", "--dask", "tcp://127.0.0.1:8786")
    assert (both.exit_code, "give one of them" in both.output) == (2, True)
