"""The block: a quadratic in up to `cap` weights, and the rows that are not yet part of its cross curvature.

    sketch(b) = G . (b - beta) - (b - beta)' (H + diag(D)) (b - beta) / 2 - sum_j gamma_j |b_j|

In gradient form (G and beta instead of the paper's theta) an event adds r x to G, h x^2 to D and h x x' to H, whatever
beta is. G and D are updated at once. H costs f^2 / 2 for f features, so rows wait until many of them can be added together
(`flush`): every element then stays in a register while row after row is added to it. Each addition is one fused multiply-add
H_jl = fma(h x_j, x_l, H_jl), j < l, in the order of the events, so H has the same bits for every grouping of the rows.

Only j < l is kept: row j of `cross`, from j + 1 on. The rest of the square is never read.

Preconditions: positions of a row are distinct and below counts[SIZE]; |x| <= VALUE_ABS_MAX; r and h are finite. A free position
has beta, G, D, peak and its line and column of H at zero (`clear` ensures it). Weights move only while no row waits, so every
gradient is current at any time. An owner that reads `cross`, or writes to any array of the block, calls `flush` first. A member
whose numbers are all zero may be added at any time, by a larger SIZE.
"""

from __future__ import annotations

from riata.base.arrays import F64, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.block_arrays import COUNTS, HALT, MIRRORED, PENDING, ROWS, SIZE, Block, full_cross, grown, lent, new_block
from riata.maths.rank_update import Rows, mirror, rank_update
from riata.maths.shooting import Quadratic, shift
from riata.maths.working_set import shoot_active

__all__ = [
    "COUNTS", "HALT", "MIRRORED", "PENDING", "ROWS", "SIZE", "Block", "add_row", "clear", "flush", "full_cross", "grown", "lent",
    "mirror_once", "new_block", "problem_of", "rescale", "set_zero", "solve",
]  # fmt: skip


@inline_kernel
def add_row(block: Block, at: U32, x: F64, k: int, r: float, h: float) -> None:
    """Add the Taylor coefficients of one event.

    Parameters
    ----------
    block : Block      overwritten
    at : u32[>= k]     positions of the row's features, distinct, below counts[SIZE]
    x : f64[>= k]      their values
    k : int            number of features
    r : float          slope of the log-likelihood at the row's margin, times importance, in the block's units
    h : float          minus its second derivative, likewise

    Returns            nothing
    Cost               O(k); every ROWS-th call also that of `flush`
    Source             Balakrishnan & Madigan 2008, algorithm 2; in gradient form
    """
    if block.counts[PENDING] == ROWS:
        flush(block)
    row = block.counts[PENDING]
    start = block.row_start[row]
    for i in range(k):
        j, xi = at[i], x[i]
        block.gradient[j] += r * xi
        block.curvature[j] += h * (xi * xi)
        block.peak[j] = max(block.peak[j], xi * xi)
        block.row_at[start + i] = j
        block.row_x[start + i] = xi
    block.row_h[row] = h
    block.row_start[row + 1] = start + k
    block.counts[PENDING] = row + 1


@kernel
def flush(block: Block) -> None:
    """Add every waiting row to the cross curvature.

    Parameters
    ----------
    block : Block      overwritten; afterwards no row waits

    Returns            nothing
    Cost               waiting rows times size^2 / 2 if they are dense, their pairs of features if they are sparse
    Source             Balakrishnan & Madigan 2008, algorithm 2, step 3
    """
    counts, pending = block.counts, block.counts[PENDING]
    if pending > 0:
        rows = Rows(block.row_start, block.row_at, block.row_x, block.row_h)
        panels = (block.panel_x, block.panel_hx)
        counts[MIRRORED] = rank_update(block.cross, counts[SIZE], rows, pending, panels, counts[MIRRORED] == 1)
        counts[PENDING] = 0


@inline_kernel
def mirror_once(block: Block) -> None:
    """Make sure that whole lines of `cross` can be read.

    Source    symmetry
    """
    if block.counts[MIRRORED] == 0:
        mirror(block.cross, block.counts[SIZE])
        block.counts[MIRRORED] = 1


@inline_kernel
def problem_of(block: Block, prior: float, gamma: float) -> Quadratic:
    """The block as a problem for Shooting. It shares weights, gradients and cross curvature with the block.

    prior : initial curvature of every feature for each unit of its largest x^2
    gamma : penalty in force, in the block's units, multiplied by gamma[j] for member j

    Source    this module
    """
    size = block.counts[SIZE]
    curvature = prior * block.peak[:size] + block.curvature[:size]
    gamma_in_force, halt = block.gamma[:size] * gamma, block.counts[HALT : HALT + 1]
    return Quadratic(block.beta[:size], block.gradient[:size], curvature, gamma_in_force, block.cross, halt)


@kernel
def solve(block: Block, prior: float, gamma: float, slack: float, sweeps_max: int) -> tuple[int, float]:
    """Maximise the sketch from the present weights until no optimality condition is violated by more than `slack`. Flushes.

    Parameters
    ----------
    block : Block      overwritten
    prior : float      initial curvature of every feature for each unit of its largest x^2
    gamma : float      penalty in force, in the block's units, multiplied by gamma[j] for member j
    slack : float      largest violation that may remain, in the block's units: a share of gamma, or if gamma is 0 a
                       share of the gradient of one event
    sweeps_max : int   limit of the sweeps, >= 1; at least one is made

    Returns            sweeps made; the violation that remains
    Cost               that of `flush` and of `shoot_active`
    Source             Balakrishnan & Madigan 2008, algorithm 1
    """
    flush(block)
    problem = problem_of(block, prior, gamma)
    sweeps, worst, mirrored = shoot_active(problem, slack, sweeps_max, block.counts[MIRRORED] == 1)
    block.counts[MIRRORED] = int(mirrored)
    return sweeps, worst


@kernel
def set_zero(block: Block, j: int, prior: float) -> None:
    """Move one weight to zero, through the sketch: all gradients become those of the sketch there. Flushes.

    Parameters
    ----------
    block : Block      overwritten
    j : int            position of the weight
    prior : float      initial curvature of every feature for each unit of its largest x^2

    Returns            nothing
    Cost               O(size), and that of `flush`
    Source             second-order model at the new point
    """
    flush(block)
    if block.beta[j] != 0.0:
        mirror_once(block)
        curvature = prior * block.peak[j] + block.curvature[j]
        shift(block.gradient[: block.counts[SIZE]], block.cross[j], j, (-block.beta[j], curvature))
        block.beta[j] = 0.0


@kernel
def clear(block: Block, j: int) -> None:
    """Free a position: its weight, gradient, curvature, peak, penalty factor, and its line and column become zero. Flushes.

    Parameters
    ----------
    block : Block      overwritten; the owner has copied what it needs of position j
    j : int            position, which may be given to another feature afterwards

    Returns            nothing
    Cost               O(size), and that of `flush`
    Source             the sketch without coordinate j
    """
    flush(block)
    for vector in (block.beta, block.gradient, block.curvature, block.peak, block.gamma):
        vector[j] = 0.0
    block.cross[:, j] = 0.0
    block.cross[j, :] = 0.0


@kernel
def rescale(block: Block, q: float) -> None:
    """Multiply gradients, curvature and cross curvature by q. Flushes.

    Parameters
    ----------
    block : Block      overwritten
    q : float          > 0

    Returns            nothing
    Cost               O(size^2)
    Source             a change of units
    """
    flush(block)
    size = block.counts[SIZE]
    for j in range(size):
        block.gradient[j] *= q
        block.curvature[j] *= q
        for c in range(size):
            block.cross[j, c] *= q
