"""Pools: the same bits wherever parts are done, and faults that cost time but no bit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Conflict, Corrupt, RiataError, Unavailable
from riata.lab.batch import segment_data
from riata.lab.batch.choose import CLASSES
from riata.lab.batch.data import Part
from riata.lab.batch.expansion import expansion_request
from riata.lab.batch.jobs import WalkName, run_task
from riata.lab.batch.parallel_sgd import ParallelSgd
from riata.lab.batch.path import solve_path
from riata.lab.batch.pool import Pool, Serial, Threads, shared, summed
from riata.lab.batch.problem import Problem
from riata.lab.batch.rmmp import Rmmp
from riata.lab.batch.segment_data import SegmentData, data_of
from riata.lab.batch.solution import Solution
from riata.lab.pools import commands
from riata.lab.pools.commands import Commands
from riata.lab.pools.message import decode, digest_of, encode_call, reported
from riata.lab.pools.parts import do_parts, name_of, sum_parts
from riata.lab.pools.processes import Processes
from riata.lab.pools.rows_file import decode_rows, encode_rows
from riata.lab.pools.worker import LENGTH, READY, frame, part_frame, serve
from riata.run.candidates.refitting import certificate_at
from tests.batch.test_segment_data import rows_of, segments
from tests.cli.test_verbs import run
from tests.store.batches import batch_of
from tests.web.attack.chromium import until

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


class Files(Commands):
    """A command whose work this process does, in two shares."""

    def __init__(self, data: SegmentData, folder: Path) -> None:
        super().__init__(data, "true", folder)

    def _run(self, call: Path, into: Path, tasks: int) -> str:
        return f"it did {sum(do_parts(call.parent / 'rows.bin', call, (share, 2), into) for share in range(2))} of {tasks}"


def bits(solution: Solution) -> tuple[bytes, float, float]:
    return solution.weights.beta.tobytes(), solution.weights.intercept, solution.certificate.objective


def taylor(data: SegmentData) -> tuple[Any, Any]:
    return expansion_request(Problem(data, "logistic", 1.0), np.full(data.features, 0.1), 0.2, np.arange(12))


def walk_request(data: SegmentData, machines: int) -> dict[str, Any]:
    """What ParallelSGD gives its pool."""
    asked: list[dict[str, Any]] = []

    class Asked(Serial):
        def deal(self, walk: WalkName, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
            asked.append(given)
            return super().deal(walk, parts, given)

    ParallelSgd(machines=machines).solve(Problem(data, "logistic", 3.0), Asked())
    return asked[0]


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_every_solver_has_the_same_bits_in_every_pool(data: SegmentData, three: Processes, tmp_path: Path) -> None:
    def solve(pool: Pool, solver: str) -> tuple[bytes, float, float]:
        return bits(CLASSES[solver](**HOT[solver]).solve(Problem(data, "logistic", 3.0), pool))

    with Threads(2) as two, Threads(16) as sixteen:
        pools: tuple[Pool, ...] = (two, sixteen, three, Files(data, tmp_path))
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


def test_parts_and_sum_are_a_pool_of_files(data: SegmentData, tmp_path: Path) -> None:
    job, given = taylor(data)
    wanted = Serial().fold(job, data.parts, given)
    rows, call, into = tmp_path / "rows.bin", tmp_path / "call.bin", tmp_path / "parts"
    into.mkdir()
    rows.write_bytes(encode_rows(data))
    call.write_bytes(encode_call(job, given, digest_of(rows.read_bytes())))
    words = ("--call", str(call), "--into", str(into))
    for share, told in (("1/2", "did 4 parts"), ("0/2", "did 3 parts")):
        assert told in run("part", str(rows), *words, "--share", share).output
    for share in ("2/2", "1", "a/b"):
        assert run("part", str(rows), *words, "--share", share).exit_code == 2
    files = sorted(into.glob("*.bin"))
    done = run("sum", *map(str, reversed(files)), "--out", str(tmp_path / "total.bin"))
    assert (done.exit_code, len(files)) == (0, 7), done.output
    assert same(decode((tmp_path / "total.bin").read_bytes(), "result")[1], wanted)
    missing = run("sum", *map(str, files[:-1]), "--out", str(tmp_path / "partial.bin"))
    assert (missing.exit_code, "1 of 7 parts are missing, the first is 6" in missing.output) == (1, True)
    assert not (tmp_path / "partial.bin").exists()
    other = tmp_path / "other.bin"
    walk = shared(walk_request(data, 3), 3)
    (tmp_path / "machines").mkdir()
    other.write_bytes(encode_call("walk", walk, digest_of(rows.read_bytes())))
    assert do_parts(rows, other, (0, 1), tmp_path / "machines") == 3
    added = decode(sum_parts(list((tmp_path / "machines").iterdir())), "result")[1]
    assert same(added, summed(run_task("walk", data.parts, walk, machine) for machine in range(3)))
    other.write_bytes(encode_call("labels", {}, digest_of(rows.read_bytes())))
    do_parts(rows, other, (0, 7), into)
    with pytest.raises(Conflict, match="different calls"):
        sum_parts(files)
    other.write_bytes(encode_call("labels", {}, "of other rows"))
    with pytest.raises(Conflict) as stale:
        do_parts(rows, other, (0, 7), into)
    assert stale.value.code == "stale_part"


def test_a_command_is_an_engine(data: SegmentData, tmp_path: Path) -> None:
    job, given = taylor(data)
    part = f'{sys.executable} -m riata part "$RIATA_ROWS" --call "$RIATA_CALL" --into "$RIATA_INTO"'
    pool = Commands(data, f"sh -c {shlex.quote(part)}", tmp_path)
    assert same(pool.fold(job, data.parts, given), Serial().fold(job, data.parts, given))
    left = (tmp_path / "parts" / name_of(0)).read_bytes()
    with pytest.raises(Unavailable) as lost:
        Commands(data, "sh -c 'echo no machine >&2; exit 3'", tmp_path).fold(job, data.parts, given)
    assert lost.value.code == "engine_lost"
    assert "7 of 7 parts undone, part 0 first; it ended with 3: no machine" in lost.value.detail
    stale = tmp_path / "stale.bin"
    stale.write_bytes(left)
    with pytest.raises(Unavailable, match="7 of 7"):  # the result of another call counts for nothing
        Commands(data, f"""sh -c 'cp {stale} "$RIATA_INTO"/{name_of(0)}'""", tmp_path).fold("labels", data.parts, {})
    for command, told in (("", "expected a command"), ("'", "No closing"), ("/nowhere/riata", "No such file")):
        with pytest.raises(BadInput, match=told):
            Commands(data, command, tmp_path).fold(job, data.parts, given)


class Told:
    """The command `riata part`, whose process number is told; it can be sent signals while it works."""

    def __init__(self, folder: Path) -> None:
        self._number = folder / "number"
        part = f'exec {sys.executable} -m riata part "$RIATA_ROWS" --call "$RIATA_CALL" --into "$RIATA_INTO"'
        tell = f"echo $$ > {folder}/new && mv {folder}/new {self._number}"
        self.command = f"sh -c {shlex.quote(f'{tell}; {part}')}"

    def forget(self) -> None:
        """Forget a run that was not struck."""
        self._number.unlink(missing_ok=True)

    @contextmanager
    def struck(self, *signals: tuple[int, float, float]) -> Iterator[None]:
        """The signal of each run in turn, after how many seconds, and how long until it may continue."""

        def strike() -> None:
            for number, after_s, pause_s in signals:
                until("a command", self._number.exists)
                process = int(self._number.read_text())
                self._number.unlink()
                time.sleep(after_s)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)
                    time.sleep(pause_s)
                    os.kill(process, signal.SIGCONT)

        thread = threading.Thread(target=strike)
        thread.start()
        yield
        thread.join()


@contextmanager
def changed(path: Path, at: int) -> Iterator[None]:
    """Another byte in a file. Who has mapped it keeps what it has."""
    kept, content = path.with_suffix(".kept"), path.read_bytes()
    path.rename(kept)
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    try:
        yield
    finally:
        kept.rename(path)


def test_a_command_that_is_killed_or_paused_costs_no_bit_and_a_changed_segment_is_refused(
    data: SegmentData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, given = taylor(data)
    wanted, told = Serial().fold(job, data.parts, given), Told(tmp_path)
    (tmp_path / "pool").mkdir()
    pool = Commands(data, told.command, tmp_path / "pool")
    with told.struck((signal.SIGKILL, 0.0, 0.0), (signal.SIGSTOP, 0.1, 0.3)):
        assert same(pool.fold(job, data.parts, given), wanted)
    monkeypatch.setattr(commands, "TRIES", 1)
    with changed(data.parts[3].pieces[0].segment.path, 5000), pytest.raises(Unavailable, match="differ from what") as refused:
        pool.fold(job, data.parts, given)
    assert refused.value.code == "engine_lost"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_and_fifty_faults_of_commands_cost_no_bit_or_are_refused(data: SegmentData, tmp_path: Path) -> None:
    rng = random.Random(3)
    job, given = taylor(data)
    wanted, told, folder = Serial().fold(job, data.parts, given), Told(tmp_path), tmp_path / "pool"
    folder.mkdir()
    pool = Commands(data, told.command, folder)
    for fault in (signal.SIGKILL, signal.SIGSTOP):
        for _ in range(50):
            with told.struck((fault, rng.random() * 1.5, rng.random())):
                assert same(pool.fold(job, data.parts, given), wanted)
            told.forget()
    for _ in range(50):
        path = rng.choice(data.parts).pieces[0].segment.path
        with changed(path, rng.randrange(path.stat().st_size)), pytest.raises(Unavailable) as refused:
            pool.fold(job, data.parts, given)
        assert refused.value.code == "engine_lost"
    assert {one.name for one in folder.iterdir()} == {"rows.bin", "call.bin", "parts"}


def test_options_choose_the_pool_and_not_the_result(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text("\n".join(f'{{"features": {{"x": {i % 7}, "w{i % 5}": 1}}, "label": {int(i % 3 == 0)}}}' for i in range(90)))
    words = ("fit", "--batch", str(path), "--gamma", "1", "--json", "--bits", "12")
    threads, child = run(*words), run(*words, "--processes", "1")
    found = [json.loads(done.stdout)["solutions"][0]["objective"] for done in (threads, child)]
    assert found[0] == found[1]
    both = run(*words, "--processes", "1", "--pass-command", "true")
    assert (both.exit_code, "give one of them" in both.output) == (2, True)
    lost = run(*words, "--pass-command", "true")
    assert (lost.exit_code, "1 of 1 parts undone" in lost.output) == (1, True)
