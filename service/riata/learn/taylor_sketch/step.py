"""The predict-and-learn kernel of the Taylor sketch over the rows of a batch."""

from __future__ import annotations

import math

from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.learn.taylor_sketch.block_end import block_ends, end_block
from riata.learn.taylor_sketch.kernel_state import (
    HELD_NNZ,
    IMPORTANCE,
    LEARNT,
    N_EFF,
    N_HELD,
    SCALE,
    Answers,
    Scratch,
    Settings,
    State,
    borrowed,
)
from riata.learn.taylor_sketch.row import event_terms, gather_row, move_row, write_row
from riata.learn.taylor_sketch.shadow import score_shadows, shadow_margins
from riata.maths.block import HALT, SIZE
from riata.maths.rows import Rows

WARM_FIRST = 16  # rows of a warm-up before the first relinearisation; the next ones are at every doubling
DONE, GROW, ANEW, AGAIN = 0, 1, 2, 3  # why `learn_rows` returned


@inline_kernel
def holds(settings: Settings, learnt: int) -> bool:
    """Return whether the row after `learnt` others is held for a later relinearisation.

    Source    Balakrishnan & Madigan 2008, section 4.1
    """
    return learnt < settings.warm_up or settings.reexpand > 0


@inline_kernel
def hold_row(state: State, rows: Rows, i: int, weight: float, terms: tuple[float, float], k: int, scratch: Scratch) -> None:
    """Hold row i: store it, the k members' part of its margin, and the terms that were added for it.

    Source    Balakrishnan & Madigan 2008, section 4.1
    """
    e = state.held
    margin = 0.0
    for j in range(k):
        margin += state.members.block.beta[scratch.at[j]] * scratch.x[j]
    row = state.counts[N_HELD]
    at = state.counts[HELD_NNZ]
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        e.hash[at] = rows.hash[p]
        e.value[at] = rows.value[p]
        at += 1
    e.indptr[row] = state.counts[HELD_NNZ]
    e.indptr[row + 1] = at
    e.label[row] = rows.label[i]
    e.weight[row] = weight
    e.margin[row] = margin
    e.r[row], e.h[row] = terms
    state.counts[N_HELD] = row + 1
    state.counts[HELD_NNZ] = at


@inline_kernel
def due(settings: Settings, learnt: int, held: int) -> int:
    """Return whether to relinearise the held rows after `learnt` rows: ANEW if from an empty sketch, AGAIN if on top of the
    sketch of the earlier rows, DONE if not at all.

    Source    Balakrishnan & Madigan 2008, section 4.1
    """
    if learnt <= settings.warm_up:
        doubled = learnt >= WARM_FIRST and (learnt & (learnt - 1)) == 0
        return ANEW if doubled or learnt == settings.warm_up else DONE
    return AGAIN if settings.reexpand > 0 and held == settings.reexpand else DONE


@inline_kernel
def learn_row(
    state: State, settings: Settings, rows: Rows, i: int, gathered: tuple[int, int, int, float], scratch: Scratch
) -> bool:
    """Learn row i, which `gather_row` has looked up.

    Parameters
    ----------
    state : State          overwritten, unless the row is refused
    settings : Settings    the configuration
    rows : Rows            read only
    i : int                which row
    gathered               what `gather_row` returned
    scratch : Scratch      overwritten

    Returns                whether the row was learnt
    Cost                   O(features of the row), and the cost of `add_row`
    Source                 Balakrishnan & Madigan 2008, algorithm 2; an importance multiplies the event's terms
    """
    k, n, fresh, margin = gathered
    label = rows.label[i]
    learnt = not rows.skip[i] and fresh >= 0 and math.isfinite(margin) and math.isfinite(label)
    if learnt:
        weight = rows.weight[i] / state.scalars[SCALE]
        r, h = event_terms(settings, margin, label)
        if len(state.shadows.gamma) > 0:
            shadow_margins(state, settings, (k, n), scratch)
        learnt = math.isfinite(move_row(state, settings, weight * r, weight * h, (k, n, fresh), scratch))
        if learnt:
            if len(state.shadows.gamma) > 0:
                score_shadows(state, settings, label, rows.weight[i])
            write_row(state, settings, weight * r, weight * h, (k, n, fresh), scratch)
            if holds(settings, state.counts[LEARNT]):
                hold_row(state, rows, i, weight, (r, h), k, scratch)
            state.counts[LEARNT] += 1
            state.scalars[N_EFF] += rows.weight[i]
            state.scalars[IMPORTANCE] += rows.weight[i]
    return learnt


@kernel
def learn_rows(state: State, settings: Settings, rows: Rows, start: int, scratch: Scratch, answers: Answers) -> tuple[int, int]:
    """Predict and learn rows in order, until all are done or the caller has to do something that this kernel cannot do.

    Parameters
    ----------
    state : State          overwritten; the lists and the rows held must have room for every feature of the rows
    settings : Settings    the configuration
    rows : Rows            read only
    start : int            the first row
    scratch : Scratch      room for the longest row; overwritten
    answers : Answers      overwritten from `start` on

    Returns                the row to continue with, and the reason: DONE, no row is left, or the block is halted; GROW, the row
                           needs a larger block; ANEW or AGAIN, the held rows have to be relinearised first
    Cost                   O(features), and the cost of `end_block` for each block of events that ends
    Source                 Balakrishnan & Madigan 2008, algorithm 2
    """
    state = borrowed(state)
    t, s, a = rows, scratch, answers
    rows = Rows(borrow(t.indptr), borrow(t.hash), borrow(t.value), borrow(t.label), borrow(t.weight), borrow(t.skip))
    scratch = Scratch(
        borrow(s.at), borrow(s.x), borrow(s.slot), borrow(s.y), borrow(s.beta), borrow(s.gradient), borrow(s.curvature),
        borrow(s.peak), borrow(s.gamma), borrow(s.after), borrow(s.fresh), borrow(s.z),
    )  # fmt: skip
    answers = Answers(borrow(a.margin), borrow(a.refused), borrow(a.no_room))
    cap = len(state.members.key)
    for i in range(start, len(rows.indptr) - 1):
        if state.members.block.counts[HALT] != 0:
            return i, DONE
        k, n, fresh, margin = gather_row(state, settings, rows, i, scratch)
        if not rows.skip[i] and state.members.block.counts[SIZE] + fresh > cap:
            return i, GROW
        learnt = learn_row(state, settings, rows, i, (k, n, fresh, margin), scratch)
        answers.margin[i] = margin
        answers.refused[i] = not learnt
        answers.no_room[i] = fresh < 0 and not rows.skip[i]
        if learnt:
            done = state.counts[LEARNT]
            if block_ends(state, settings):
                end_block(state, settings)
            why = due(settings, done, state.counts[N_HELD])
            if why != DONE:
                return i + 1, why
    return len(rows.indptr) - 1, DONE
