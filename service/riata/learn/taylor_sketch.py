"""The Taylor sketch learner: a quadratic approximation of the log-likelihood about the current weights.

The L1-penalised fit follows from the quadratic at any time and for any penalty."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.halt import lent
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn import taylor_state
from riata.learn.held_rows import LinearisedSample
from riata.learn.learner import Learner, Sample, Shadow, Sketch, Stepped, Weights
from riata.learn.spec import Adopted, LearnerSpec, require_bits
from riata.learn.standardised import SLOTS, Standardised, settled
from riata.learn.taylor_config import HASH_BITS, TaylorSketchConfig
from riata.learn.taylor_state import (
    AGAIN,
    ANEW,
    BETA,
    COLUMNS,
    CURVATURE,
    DONE,
    FADED_LOSS,
    FADED_WEIGHT,
    FIXED,
    GRADIENT,
    GROW,
    GROWTH,
    HALT,
    HYBRID,
    LEARNT,
    LINEAR,
    LOSS,
    N_EFF,
    NOTHING,
    ROOT,
    SCALE,
    STRICT,
    WEIGHT,
    Settings,
    TaylorState,
    block_struct,
    full_cross,
    grown,
    new_scratch,
    own_penalties,
    scratch_struct,
    settings_struct,
)
from riata.maths.links import LINKS
from riata.native.library import core, struct
from riata.native.rows import RowsArray
from riata.wire.batch import Batch, slice_rows

_SCHEDULES: Final = {"fixed": FIXED, "linear": LINEAR, "sqrt": ROOT}

_OUTSIDE: Final = {"refuse": NOTHING, "strict": STRICT, "hybrid": HYBRID}


def kernel_settings(config: TaylorSketchConfig, bits: int, standardised: bool = False) -> Settings:
    """Return the settings as the kernels take them.

    standardised : whether columns come in units of their spread
    """
    outside = {"exact": _OUTSIDE[config.beyond], "strict": STRICT}.get(config.mode, HYBRID)
    limit = config.block_limit()
    return Settings(
        link=LINKS[config.link].code,
        outside=outside,
        opens=config.mode == "exact",
        exchanges=config.mode in ("strict", "hybrid") and limit > 1,
        intercept=config.intercept,
        shift=HASH_BITS - config.slot_bits(bits),
        limit=limit,
        block=config.block,
        ramp=0.0 if config.mode == "exact" else float(config.ramp),
        rounds=config.rounds,
        swaps=config.k // 10 + 1,
        gamma=float(config.gamma),
        schedule=_SCHEDULES[config.gamma_schedule],
        gamma_events=float(config.gamma_events),
        gamma_floor=float(config.gamma_floor),
        prior=float(config.prior_curvature),
        prior_by_row=config.prior_by_row and outside == HYBRID,
        lifts=standardised,
        once=config.relinearise,
        floor=float(config.curvature_floor),
        admit=float(config.admit),
        hysteresis=float(config.hysteresis),
        rho=float(config.rho),
        burn_in=config.burn_in,
        power=float(config.burn_in_power),
        tolerance=float(config.tolerance),
        sweeps_max=config.sweeps_max,
        warm_up=config.warm_up_rows(),
        reexpand=config.reexpand,
    )


class TaylorSketch(Learner):
    """The Online algorithm of Balakrishnan & Madigan 2008: exact, or with the cross curvature of at most k features.

    The theory of operation is in `kernel_state.py`, the update of one row in `row.py`, the choice of members in `round.py`.
    """

    def __init__(
        self, config: TaylorSketchConfig, bits: int, hash_key: int = 0, standardised: bool = False, start: float = 0.0
    ) -> None:
        """Make an empty learner.

        hash_key     : of the encoder, because penalties of single features are given by name
        standardised : whether columns come in units of their spread
        start        : the intercept with which it begins, about which the first events are linearised
        """
        if not BITS_MIN <= bits <= BITS_MAX:
            raise BadInput(f"bits: {bits} is not in {BITS_MIN}..{BITS_MAX}", "out_of_range")
        self.config = config
        self.bits = config.slot_bits(bits)
        self._settings = kernel_settings(config, bits, standardised)
        self._native_settings = settings_struct(self._settings)
        self._own = own_penalties(config, bits, hash_key)
        self._sample = LinearisedSample() if config.relinearise else None
        self._state = self._empty()
        self._state.arrays.members.block.beta[0] = start
        self._state.arrays.shadows.beta[:, 0] = start
        self._scratch = new_scratch(1)
        self._native_scratch = scratch_struct(self._scratch)

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._state.arrays.counts[LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are only predicted."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else skip
        rows = RowsArray([batch], skip, [batch.hash])
        self._make_scratch(int(np.diff(batch.indptr).max(initial=0)))
        self._state.table.enter(batch.hash)
        self._state.make_room(batch.n, batch.nnz)
        margin, refused, no_room = np.empty(batch.n), np.empty(batch.n, np.bool_), np.empty(batch.n, np.bool_)
        answers = struct("riata_sketch_answers", margin=margin, refused=refused, no_room=no_room, why=GROW)
        settings, scratch, at, sampled = self._native_settings, self._native_scratch, 0, 0
        while answers.why != DONE:
            with self._lent():
                at = core.sketch_learn(self._state.sketch, settings, rows, at, scratch, answers)
            if answers.why == GROW:
                self._state.grow_block(min(2 * len(self._state.arrays.members.key), self._settings.limit))
            elif answers.why == ANEW:
                self._warm_up()
                self._note(slice_rows(batch, sampled, at), margin[sampled:at], refused[sampled:at], moved=True)
                sampled = at
            elif answers.why == AGAIN:
                with self._lent():
                    core.sketch_linearise_again(self._state.sketch, settings, scratch)
        self._note(slice_rows(batch, sampled, batch.n), margin[sampled:], refused[sampled:])
        closed = no_room if self._settings.outside == NOTHING else None
        return Stepped(margin, refused, batch.label, batch.weight, int(refused.sum()), closed)

    def adjust(self, config: TaylorSketchConfig) -> None:
        """Apply the penalty of `config`, which differs in nothing else, and solve for the weights at that penalty.

        Shadows keep their penalties. The weights are computed from the current sketch; no event is learnt again.
        """
        self.config = config
        self._settings = self._settings._replace(gamma=float(config.gamma))
        self._native_settings = settings_struct(self._settings)
        self._state.set_penalties(self._settings)
        self._state.make_room(0, len(self._state.seen))
        self._state.alive.keep(0)
        with self._lent():
            core.sketch_solve(self._state.sketch, self._native_settings)

    def forget(self, keep: float) -> None:
        """Multiply the sketch by `keep`, as forgetting at rho would over many events, and solve for the weights."""
        scalars = self._state.arrays.scalars
        scalars[[SCALE, N_EFF]] *= keep
        self._state.make_room(0, len(self._state.seen))
        core.sketch_renormalise(self._state.sketch)
        self._state.alive.keep(0)
        with self._lent():
            core.sketch_solve(self._state.sketch, self._native_settings)

    def weights(self) -> Weights:
        """Return the non-zero weights, without changing the state."""
        state = self._state
        members = state.arrays.members
        beta = members.block.beta
        inside = np.flatnonzero((members.key[: state.size] >= 0) & (beta[: state.size] != 0.0))
        inside = inside[np.argsort(members.key[inside])]
        alive = state.alive.sorted()
        lines = state.table.lines_of(alive)
        kept = core.prune_slots(state.table.line, COLUMNS, BETA, 0.0, lines, len(lines))
        alive[:kept] = state.table.slots_of(lines[:kept])
        state.alive.keep(kept)
        slot = alive[:kept]
        outside, _ = self._columns(slot, BETA)
        key = members.key[inside].astype(np.uint32)
        at = np.searchsorted(slot, key)
        return Weights(
            np.insert(slot, at, key), np.insert(outside, at, beta[inside]), float(beta[0]), self.config.link, self.bits
        )

    def sketch(self) -> Sketch:
        """Return the current quadratic, including the pending rows. In strict mode no feature outside the block may have a
        weight, so none is listed."""
        state, settings = self._state, self._settings
        scale, growth = (float(number) for number in state.arrays.scalars[[SCALE, GROWTH]])
        members = state.arrays.members
        block = grown(members.block, len(members.key))
        core.block_flush(block_struct(block))
        used = members.key[: state.size] >= 0
        used[0] = self.config.intercept
        at = np.flatnonzero(used)
        slot = np.maximum(members.key[at], 0).astype(np.uint32)
        outside = self._outside() if settings.outside == HYBRID else np.empty(0, np.uint32)
        beta, gradient = self._columns(outside, BETA)
        curvature, peak = self._columns(outside, CURVATURE)
        gamma = np.full(len(outside), settings.gamma)
        for key, own in zip(self._own.key, self._own.gamma, strict=True):
            gamma[outside == key] = own
        prior, outside_prior = settings.prior * block.peak[at], settings.prior * np.abs(peak)
        return Sketch(
            slot=slot,
            beta=block.beta[at],
            gradient=block.gradient[at] * scale,
            curvature=prior + block.curvature[at] * scale,
            prior=prior,
            cross=full_cross(block)[np.ix_(at, at)] * scale,
            gamma=block.gamma[at] * growth,
            penalty=settings.gamma * growth,
            intercept=self.config.intercept,
            outside_slot=outside,
            outside_beta=beta,
            outside_gradient=gradient * scale,
            outside_curvature=outside_prior + curvature * scale,
            outside_prior=outside_prior,
            outside_gamma=gamma * growth,
            bits=self.bits,
            noise=(1.0 + settings.rho**self.learnt) / (1.0 + settings.rho),
            starts_pull=(settings.prior > 0.0 or settings.warm_up == 0)
            and (self._sample is None or self._sample.met == self.learnt),  # the prior of an adopted one is about its solution
            sample=None
            if self._sample is None
            else Sample(self._sample.rows, self._sample.margin.copy(), self.config.link, settings.floor),
            left_out=self._left_out(scale, growth) if settings.outside == STRICT else 0,
        )

    def shadows(self) -> list[Shadow]:
        """Return the losses of the penalties of the setting `shadow`, in the order of the setting."""
        losses = self._state.arrays.shadows.loss
        return [
            Shadow(gamma, *_mean(loss[WEIGHT], loss[LOSS]), *_mean(loss[FADED_WEIGHT], loss[FADED_LOSS]))
            for gamma, loss in zip(self.config.shadow, losses, strict=True)
        ]

    def closed_vocabulary(self) -> U32 | None:
        """Return the hashes of the features in an exact sketch that is full, strictly increasing; otherwise None."""
        if self._settings.outside != NOTHING or self._state.size < self._settings.limit:
            return None
        return np.sort(self._state.arrays.members.key[1 : self._state.size]).astype(np.uint32)

    def freeze(self) -> Arrays:
        """Return copies of all state that affects later answers; `taylor_sketch.frozen` documents the arrays."""
        sample = {} if self._sample is None else self._sample.arrays()
        return {**taylor_state.freeze(self._state, self._outside()), **sample}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt` if `arrays` are not a valid one; the state is then unchanged."""
        state, sample = self._empty(), None
        if self._sample is not None:
            sample, names = LinearisedSample(), self._sample.arrays().keys()
            if not names <= arrays.keys():
                raise Corrupt("learner state: the sample of rows is missing")
            sample.restore(arrays)
            arrays = {name: array for name, array in arrays.items() if name not in names}
        taylor_state.thaw(state, arrays, self.bits)
        state.set_penalties(self._settings)
        self._state, self._sample = state, sample
        self._make_scratch(int(np.diff(state.arrays.held.indptr).max(initial=0)))

    def memory(self) -> dict[str, int]:
        """Return bytes by part, in O(size of the block)."""
        return {
            **self._state.memory(),
            "scratch": sum(array.nbytes for array in self._scratch),
            "checkpoint": taylor_state.frozen_bytes(self._state) + (0 if self._sample is None else self._sample.nbytes),
        }

    def _lent(self) -> AbstractContextManager[None]:
        """Context in which another thread may halt what is computed; see `riata.base.halt`."""
        return lent(self._state.arrays.members.block.counts[HALT:])

    def _empty(self) -> TaylorState:
        return TaylorState(self._settings, self.bits, self._own, self.config.shadow, float(self.config.gamma_intercept))

    def _make_scratch(self, longest: int) -> None:
        if longest >= len(self._scratch.x):
            self._scratch = new_scratch(2 * longest)
            self._native_scratch = scratch_struct(self._scratch)

    def _warm_up(self) -> None:
        """Relinearise the held rows from an empty sketch; drop them at the end of the warm-up."""
        self._state.make_room(0, len(self._state.seen))
        self._state.alive.keep(0)
        cap = len(self._state.arrays.members.key)
        work = (np.empty(cap, np.int64), np.empty(cap), np.empty(len(self._state.seen)))
        with self._lent():
            core.sketch_linearise_anew(self._state.sketch, self._native_settings, self._native_scratch, *work)
        if self.learnt == self._settings.warm_up:
            self._state.let_go()

    def _left_out(self, scale: float, growth: float) -> int:
        """Return how many features outside the block would have a weight inside it, by their gradient."""
        slot = self._outside()
        gradient, _ = self._columns(slot, GRADIENT)
        gamma = np.full(len(slot), self._settings.gamma)
        for key, own in zip(self._own.key, self._own.gamma, strict=True):
            gamma[slot == key] = own
        return int((np.abs(gradient) * scale > gamma * growth).sum())

    def _note(self, batch: Batch, margin: F64, refused: BOOL, moved: bool = False) -> None:
        """Go on with the sample. moved: all rows so far are now linearised about the present weights."""
        if self._sample is None:
            return
        self._sample.add(batch, margin, ~refused)
        if moved:
            rows = self._sample.rows
            again = RowsArray([rows], np.ones(rows.n, np.bool_), [rows.hash])
            none = np.empty(rows.n, np.bool_), np.empty(rows.n, np.bool_)
            answers = struct("riata_sketch_answers", margin=self._sample.margin, refused=none[0], no_room=none[1], why=GROW)
            core.sketch_learn(self._state.sketch, self._native_settings, again, 0, self._native_scratch, answers)

    def _outside(self) -> U32:
        """Return the slots ever seen that are not in the block, strictly increasing."""
        seen = self._state.seen.sorted()
        if not self._settings.exchanges:
            return seen.copy()
        members = self._state.arrays.members.key[: self._state.size]
        return seen[~np.isin(seen, members[members >= 0].astype(np.uint32))]

    def _columns(self, slot: U32, column: int) -> tuple[F64, F64]:
        """Return copies of two adjacent columns of the table, for the given slots."""
        return self._state.table.pick(slot, column)


def _mean(weight: float, total: float) -> tuple[float, float]:
    return float(weight), float(total / weight) if weight > 0.0 else 0.0


# The Taylor sketch around a solution: the sums that it would have if it had met every event with the weights of the solution.


def around(config: TaylorSketchConfig, bits: int, solution: Adopted) -> Arrays:
    """Return the frozen state with the weights, gradients and curvatures of the solution.

    The block has the first members of the solution, those with a weight before the others. The others are outside it, with their
    diagonal curvature alone. Raises `BadInput` (code `cannot_adopt`) if the mode has no place for a weight or a feature.
    """
    require_bits(solution, config.slot_bits(bits))
    settings = kernel_settings(config, bits)
    members, outside = _split(config, settings, solution)
    sums, base = solution.features, solution.base
    learnt = max(solution.events, settings.warm_up)  # a warm-up that is not over would begin with an empty sketch again
    line = np.concatenate([[0], 1 + members])
    size = len(line)
    cross = solution.cross[np.ix_(line, line)][np.triu_indices(size, 1)]
    chosen = solution.members[members]
    key = solution.slot[chosen].astype(np.int64)
    beta = np.concatenate([[solution.intercept], solution.beta[chosen]])
    columns = {
        "beta": beta,
        "gradient": np.concatenate([base.gradient, sums.gradient[chosen]]),
        "curvature": np.concatenate([base.curvature, sums.curvature[chosen]]),
        "peak": np.concatenate([base.peak, sums.peak[chosen]]) ** 2,
    }
    if not config.intercept:
        cross[: size - 1] = 0.0
        for column in columns.values():
            column[0] = 0.0
    arrays = dict(TaylorSketch(config, bits).freeze())
    arrays["counts"] = np.array([learnt, size, 0, 0, len(outside), 0, 0, learnt, 0], np.int64)
    arrays["scalars"] = np.array([1.0, solution.effective, solution.importance, _growth(settings, solution, learnt)])
    arrays["member_key"] = np.concatenate([np.array([-1], np.int64), key])
    arrays |= {f"member_{name}": column for name, column in columns.items()}
    arrays["cross"] = cross
    if "shadow_beta" in arrays:
        arrays["shadow_beta"] = np.tile(beta, (len(config.shadow), 1))
    if settings.outside != NOTHING:
        arrays |= _outside(settings, solution, outside)
    return arrays


def _split(config: TaylorSketchConfig, settings: Settings, solution: Adopted) -> tuple[I64, I64]:
    """Return the members of the block, by index into `solution.members`, and the other features, by slot."""
    weighs = solution.beta[solution.members] != 0.0
    members = np.argsort(~weighs, kind="stable")[: settings.limit - 1]
    inside = np.zeros(len(solution.slot), np.bool_)
    inside[solution.members[members]] = True
    outside = np.flatnonzero(~inside)
    wanted = min(len(solution.slot), settings.limit - 1)
    if settings.opens and (len(members) < wanted or (settings.outside == NOTHING and len(outside))):
        raise BadInput(
            f"mode {config.mode} needs the cross curvature of all features, up to features_max ({config.features_max}): the "
            f"solution has {len(solution.slot)} features and cross curvature for {len(solution.members)}",
            "cannot_adopt",
        )
    if settings.outside != HYBRID and bool(solution.beta[outside].any()):
        raise BadInput(
            f"mode {config.mode} has no weights outside its block of {settings.limit - 1} features, and the solution has "
            f"{int(np.count_nonzero(solution.beta))} weights: fit it with a larger penalty, or use mode hybrid",
            "cannot_adopt",
        )
    return members, outside[np.argsort(solution.slot[outside])]


def _outside(settings: Settings, solution: Adopted, at: I64) -> Arrays:
    sums = solution.features
    columns: dict[str, F64] = {"gradient": sums.gradient[at], "curvature": sums.curvature[at], "peak": sums.peak[at] ** 2}
    if settings.outside == HYBRID:
        columns["beta"] = solution.beta[at]
    arrays: Arrays = {f"outside_{name}": column for name, column in columns.items()}
    arrays = {**arrays, "outside_slot": solution.slot[at].astype(np.uint32)}
    return {**arrays, "outside_waiting": np.ones(len(at), np.bool_)} if settings.exchanges else arrays


def _growth(settings: Settings, solution: Adopted, learnt: int) -> float:
    """Return the factor of the penalties after the events of the solution; see `block_end.growth_at`."""
    share = learnt / settings.gamma_events
    growth = (1.0, share, math.sqrt(share))[settings.schedule]
    growth = max(settings.gamma_floor, growth) if settings.schedule else 1.0
    return growth * min(1.0, solution.effective / solution.importance) if settings.burn_in else growth


def _build(config: TaylorSketchConfig, bits: int, hash_key: int) -> Learner:
    if config.standardised:
        starts = config.intercept and config.mode != "exact"  # exact has a warm-up
        return Standardised(
            lambda own, rate: TaylorSketch(own, bits, hash_key, standardised=True, start=_margin(own, rate) if starts else 0.0),
            config,
            columns=config.intercept,
            starts=starts,
        )
    return TaylorSketch(config, bits, hash_key)


def _margin(config: TaylorSketchConfig, rate: float) -> float:
    """The margin of a probability."""
    if config.link != "probit":
        return math.log(rate / (1.0 - rate))
    from statistics import NormalDist

    return NormalDist().inv_cdf(rate)


def _adopt(config: TaylorSketchConfig, bits: int, solution: Adopted) -> Arrays:

    arrays = around(config, bits, solution)
    return settled(arrays) if config.standardised else arrays


SPEC: Final = LearnerSpec(
    config=TaylorSketchConfig,
    about="Balakrishnan & Madigan 2008, online, exactly or in bounded memory. Keeps curvature, so predictions have standard "
    "errors, `GET /models/{model}/path` shows the weights under other penalties, and gamma may change.",
    build=_build,
    adopt=_adopt,
    adjustable=frozenset({"gamma"}),
    keeps_curvature=True,
    slot_lists=("outside_slot", "member_key", SLOTS),
    older={"standardised": False, "relinearise": False, "far_values": "off"},
    advice={
        "worse_than_base_rate": "If the stream changes, create it with rho 0.9999; otherwise set a larger gamma.",
        "under_confident": "Set a smaller gamma; GET /models/{model}/path shows the choices.",
        "over_confident": "Set a larger gamma, or create it with rho 1 if it forgets.",
        "biased": "Create it with rho 0.9999, which follows a changing rate of positives.",
        "columns_not_scaled": "Create it with standardised true, the default.",
    },
)
