"""The machines of ParallelSGD: each goes over all parts with every k-th row, and knows nothing of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from riata.base.arrays import I64, Arrays
from riata.lab.batch.data import Part
from riata.lab.batch.sgd_pass import Rates, Walk, settle_walk, walk_rows
from riata.lab.batch.shotgun_round import shuffle

STATE: Final = Walk._fields


def walk(parts: Sequence[Part], given: Arrays, share: int, shares: int) -> Arrays:
    """One pass of some machines over all rows. See `sgd_pass.walk_rows`.

    given   : link, machines, epoch, seed and whole i64[1] (see `ParallelSgd`), rates f64[4] as `Rates`,
              and the states of all machines, each with the axis of `Walk` after it; of one machine if all begin equal
    share   : of `shares`, whose machines these are
    returns : their states
    """
    link, machines, epoch, seed, whole = (int(given[name][0]) for name in ("link", "machines", "epoch", "seed", "whole"))
    eta, pull, adaptive, free = given["rates"].tolist()
    rates = Rates(eta, pull, bool(adaptive), bool(free))
    first, stop = (machines * edge // shares for edge in (share, share + 1))
    begun = slice(first, stop) if len(given["beta"]) == machines else slice(0, 1)
    made: Arrays = {name: np.repeat(given[name][begun], (stop - first) // len(given[name][begun]), axis=0) for name in STATE}
    walks = [Walk(*(made[name][at] for name in STATE)) for at in range(stop - first)]
    before, stride = 0, 1 if whole else machines
    for number, part in enumerate(parts):
        rows = part.load()
        for machine in range(first, stop):
            order: I64 = np.arange(0 if whole else (machine - before) % machines, len(rows.label), stride)
            shuffle(order, seed, (epoch * len(parts) + number) * machines + machine)
            walk_rows(rows, link, walks[machine - first], rates, order)
        before += len(rows.label)
    for one in walks:
        settle_walk(one, rates)
    return made
