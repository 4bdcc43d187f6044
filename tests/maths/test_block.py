from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from riata.base.arrays import F64, U32
from riata.learn import taylor_state as fast
from riata.learn.taylor_state import MIRRORED, PENDING, ROWS, SIZE, Block, block_struct
from riata.native.library import core
from riata.native.sources import VARIANT, variants
from tests.twins import block as slow
from tests.twins.shooting import violation

Row = tuple[U32, F64, float, float]  # positions, values, r, h


def some_rows(size: int, n: int, seed: int, density: float = 0.5) -> list[Row]:
    """Rows with unsorted positions and values of every magnitude."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        at = rng.permutation(size)[: max(1, rng.binomial(size, density))]
        x = rng.standard_normal(len(at)) * 10.0 ** rng.integers(-2, 3, len(at))
        rows.append((at.astype(np.uint32), x, float(rng.uniform(-1, 1)), float(rng.uniform(0, 0.25))))
    return rows


def empty_block(size: int, cap: int) -> Block:
    """An empty block; the first member is not penalised, the second has a penalty of its own."""
    block = fast.new_block(cap)
    block.counts[SIZE] = size
    block.gamma[:size] = 1.0
    block.gamma[0] = 0.0
    block.gamma[min(1, size - 1)] = 0.3
    return block


def add(block: Block, row: Row) -> None:
    """Add one row."""
    at, x, r, h = row
    core.block_add(block_struct(block), at, x, len(x), r, h)


def flush(block: Block) -> None:
    """Add the waiting rows."""
    core.block_flush(block_struct(block))


def solve(block: Block, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Solve; the sweeps, and the violation that remains."""
    worst = np.empty(1)
    return core.block_solve(block_struct(block), prior, gamma, slack, sweeps_max, worst), float(worst[0])


def add_to_twin(twin: slow.Plain, row: Row) -> None:
    """Add one row."""
    at, x, r, h = row
    slow.add_row(twin, dict(zip(at.tolist(), x.tolist(), strict=True)), r, h)


def flushed(block: Block) -> slow.Plain:
    """The numbers of a block, which is not changed."""
    copy = fast.grown(block, len(block.beta))
    flush(copy)
    return slow.plain(copy)


def assert_same_bits(one: slow.Plain, other: slow.Plain) -> None:
    """Every number is the same."""
    for name in ("beta", "gradient", "curvature", "peak", "gamma", "cross"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def assert_close(one: slow.Plain, other: slow.Plain, share: float = 1e-12) -> None:
    """No number differs by more than a share of the largest of its kind."""
    for name in ("beta", "gradient", "curvature", "peak", "gamma", "cross"):
        reference = getattr(other, name)
        atol = share * max(1.0, float(np.abs(reference).max()))
        np.testing.assert_allclose(getattr(one, name), reference, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize(("size", "density"), [(1, 1.0), (9, 1.0), (30, 0.2), (30, 0.9)])
def test_rows_add_up_to_the_bits_of_their_twin_however_they_wait(size: int, density: float) -> None:
    rows = some_rows(size, 12, size, density)
    together, singly, twin = empty_block(size, size), empty_block(size, size + 5), slow.empty(size)
    twin.gamma[:] = together.gamma
    for row in rows:
        add(together, row)
        add(singly, row)
        flush(singly)
        add_to_twin(twin, row)
    assert together.counts[PENDING] == len(rows)
    assert_same_bits(flushed(singly), twin)
    assert_same_bits(flushed(together), twin)


def test_a_row_beyond_those_that_may_wait_adds_up_all_before_it() -> None:
    rows = some_rows(20, ROWS + 1, seed=4)
    block, one_by_one = empty_block(20, 20), empty_block(20, 20)
    for row in rows[:-1]:
        add(block, row)
    assert block.counts[PENDING] == ROWS
    add(block, rows[-1])
    assert block.counts[PENDING] == 1
    for row in rows:
        add(one_by_one, row)
        flush(one_by_one)
    assert_same_bits(flushed(block), flushed(one_by_one))


def learnt(size: int, cap: int, n: int = 40, gamma: float = 40.0) -> Block:
    """A block that has learnt, and has solved after every row except the last."""
    block = fast.new_block(cap)
    block.counts[SIZE] = size
    block.gamma[:size] = 1.0
    for i, row in enumerate(some_rows(size, n, seed=8)):
        add(block, row)
        if i < n - 1:
            solve(block, 1.0, gamma, 0.01 * gamma, 100)
    return block


def test_a_weight_taken_to_zero_takes_all_gradients_along() -> None:
    block = learnt(12, 12)
    twin = flushed(block)
    for j in np.flatnonzero(twin.beta)[:3].tolist():
        core.block_set_zero(block_struct(block), j, 2.0)
        slow.set_zero(twin, j, 2.0)
        assert block.beta[j] == 0.0
    assert_close(slow.plain(block), twin)


def test_a_position_that_was_freed_holds_nothing() -> None:
    block = learnt(12, 12)
    twin = flushed(block)
    for j in (0, 5, 11):
        core.block_clear(block_struct(block), j)
        slow.clear(twin, j)
    assert_same_bits(slow.plain(block), twin)


def test_other_units_are_a_factor() -> None:
    block = learnt(12, 12)
    twin = flushed(block)
    core.block_rescale(block_struct(block), 0.125)
    slow.rescale(twin, 0.125)
    assert_same_bits(slow.plain(block), twin)
    assert block.counts[PENDING] == 0


@pytest.mark.parametrize("size", [40, 160])
def test_a_copy_in_the_midst_of_it_goes_on_to_the_last_bit(size: int) -> None:
    block = learnt(size, size, n=60, gamma=200.0)
    copy = fast.new_block(size + 7)
    copy_into(copy, block)
    for i, row in enumerate(some_rows(size, ROWS, seed=9, density=0.3)):
        for one in (block, copy):
            add(one, row)
            if i % 3 == 0:
                solve(one, 1.0, 200.0, 2.0, 100)
    assert_same_bits(flushed(copy), flushed(block))


def copy_into(copy: Block, block: Block) -> None:
    """The content of a checkpoint: vectors, the upper triangle, and waiting rows."""
    size, pending = int(block.counts[SIZE]), int(block.counts[PENDING])
    nnz = int(block.row_start[pending])
    copy.counts[SIZE], copy.counts[PENDING] = size, pending
    for name in ("beta", "gradient", "curvature", "peak", "gamma"):
        getattr(copy, name)[:size] = getattr(block, name)[:size]
    copy.cross[:size, :size] = np.triu(block.cross[:size, :size], 1)
    copy.row_start[: pending + 1], copy.row_h[:pending] = block.row_start[: pending + 1], block.row_h[:pending]
    copy.row_at[:nnz], copy.row_x[:nnz] = block.row_at[:nnz], block.row_x[:nnz]


@pytest.mark.parametrize(("size", "gamma", "density"), [(30, 40.0, 0.5), (200, 2000.0, 0.5), (200, 1.0, 0.05)])
def test_a_block_is_solved_as_its_twin_solves_it(size: int, gamma: float, density: float) -> None:
    block = empty_block(size, size + 3)
    mirrored = set()
    for i, row in enumerate(some_rows(size, 90, seed=size, density=density)):
        add(block, row)
        if i % 30 == 29:
            twin = flushed(block)
            _, worst = solve(block, 0.5, gamma, 1e-9 * gamma, 10_000)
            slow.solve(twin, 0.5, gamma, 1e-9 * gamma, 10_000)
            assert block.counts[PENDING] == 0
            assert worst <= 1e-9 * gamma
            assert violation(slow.problem_of(slow.plain(block), 0.5, gamma)) <= 2e-9 * gamma
            assert_close(slow.plain(block), twin, share=1e-6)
            mirrored.add(int(block.counts[MIRRORED]))
    assert 0 < np.count_nonzero(block.beta) < size or density < 0.5
    assert mirrored == {int(gamma < 2000.0)}


def test_gradients_are_those_of_the_rows_after_any_number_of_moves() -> None:
    size, rng = 150, np.random.default_rng(6)
    block = empty_block(size, size)
    gradient = np.zeros(size)
    rows: list[tuple[F64, F64, float]] = []  # x, weights when it came, h
    for at, x, r, h in some_rows(size, 300, seed=7, density=0.4):
        x = x / (1.0 + np.abs(x))
        whole = np.zeros(size)
        whole[at] = x
        rows.append((whole, block.beta.copy(), h))
        gradient += r * whole
        add(block, (at, x, r, h))
        if rng.random() < 0.5:
            solve(block, 0.0, 3.0, 0.03, 100)
    for whole, beta, h in rows:
        gradient -= h * whole * (whole @ (block.beta - beta))
    assert np.count_nonzero(block.beta) > 10
    np.testing.assert_allclose(flushed(block).gradient, gradient, rtol=0, atol=1e-10 * np.abs(gradient).max())


STREAM_DIGEST = """
import hashlib, numpy as np
from riata.learn.taylor_state import SIZE, block_struct, full_cross, new_block
from riata.native.library import core
digest, rng = hashlib.sha256(), np.random.default_rng(5)
for size, share, every in ((30, 1.0, 1), (200, 1.0, 1), (200, 0.05, 40)):
    block = new_block(size)
    native = block_struct(block)
    block.counts[SIZE], block.gamma[1:] = size, 1.0
    for i in range(200):
        at = rng.permutation(size)[: int(share * size)].astype(np.uint32)
        core.block_add(native, at, rng.standard_normal(len(at)), len(at), rng.uniform(-1, 1), rng.uniform(0, 0.25))
        if (i + 1) % every == 0:
            core.block_solve(native, 1.0, 6.0, 0.06, 1000, None)
    core.block_flush(native)
    for array in (block.beta, block.gradient, block.curvature, full_cross(block)):
        digest.update((array + 0.0).tobytes())
print(digest.hexdigest())
"""


def test_the_bits_are_the_same_in_every_variant() -> None:
    digests = set()
    for variant in variants():
        environment = {**os.environ, VARIANT: variant, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", STREAM_DIGEST]
        digests.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(digests) == 1
