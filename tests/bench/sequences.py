"""A mixture of two Markov chains of four states: a million sequences, each read once, and a Gibbs sampler that keeps them all.

The thesis' sequences are not public; the two chains here are of the same size: one tends to stay in its state,
the other tends to go in a circle. Sequences have 12 states, and 65 of 100 come from the first chain. The filter has
2,000 particles and a start of 1,000 sequences. A transition is found if its true probability is inside the central
95 % of the posterior. The Gibbs sampler keeps the first 10,000 sequences and draws 2,000 times after 500 sweeps; z is the
difference of the two posterior means over the sampler's standard deviation.

Writes sequences.md.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.batch.markov_mixture import BURN_IN, MarkovFilter, MixtureConfig, draw_start, particles_of, summary, transitions
from tests.bench import report

STATES: Final = 4
CHAINS: Final = np.array(
    [
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]],
        [[0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2], [0.2, 0.1, 0.1, 0.6], [0.6, 0.2, 0.1, 0.1]],
    ]
)
SHARE: Final = 0.65
LENGTH: Final = 12
COUNT: Final = 10**6
KEPT: Final = 10**4


def simulated(n: int, share: float = SHARE, length: int = LENGTH, seed: int = 0) -> I64:
    """Sequences of the two chains, i64[n, length]; `share` of them come from the first."""
    rng = np.random.default_rng(seed)
    which = (rng.random(n) >= share).astype(int)
    found = np.empty((n, length), np.int64)
    found[:, 0] = rng.integers(0, STATES, n)
    reached = np.cumsum(CHAINS, axis=2)
    for t in range(1, length):
        found[:, t] = (rng.random(n)[:, None] > reached[which, found[:, t - 1], :3]).sum(axis=1)
    return found


def moments(pi: F64, chains: F64, part: F64) -> tuple[F64, F64]:
    """Means and standard deviations of all shares and transition probabilities, largest share first."""
    order = np.argsort(-(pi @ part), kind="stable")
    values = np.concatenate([pi[order], chains[order].reshape(-1, pi.shape[1])])
    mean = values @ part
    return mean, np.sqrt(((values - mean[:, np.newaxis]) ** 2) @ part)


def beside_gibbs(made: MarkovFilter, sequences: I64) -> str:
    """The filter after the sequences, and the sampler that has all of them."""
    counts = np.array([transitions(one, STATES) for one in sequences])
    began = time.process_time()
    pi, chains = draw_start(counts, made.config, STATES, np.random.default_rng(1))
    seconds, sweeps = time.process_time() - began, BURN_IN + particles_of(made.config, STATES)
    mean, sd = moments(pi, chains, np.full(pi.shape[1], 1.0 / pi.shape[1]))
    own, own_sd = moments(made.pi, made.chains, made.weight / made.weight.sum())
    z, ratio = (own - mean) / sd, own_sd / sd
    rms = np.sqrt((z**2).mean())
    return (
        f"On the first {len(sequences):,}: rms z {rms:.2f} over {len(z)} numbers, ratio of standard deviations"
        f" {ratio.min():.2f} to {ratio.max():.2f}. The sampler reads each sequence {sweeps:,} times, in {seconds:.0f} s.\n\n"
    )


def main() -> None:
    """Run and report."""
    options = report.arguments(__doc__ or "").parse_args()
    sequences = simulated(COUNT)
    made = MarkovFilter(MixtureConfig(particles=2000), STATES)
    began, text = time.process_time(), ""
    beside = 0.0
    for number, one in enumerate(sequences, 1):
        made.learn(one)
        if number == KEPT:
            paused = time.process_time()
            text = beside_gibbs(made, sequences[:KEPT])
            beside = time.process_time() - paused
    seconds = time.process_time() - began - beside
    told = summary(made, 0.95)
    low, high, mean = (told["transitions"][end] for end in ("low", "high", "mean"))
    inside = (low <= CHAINS) & (high >= CHAINS)
    shares = told["share"]
    rows = [
        [f"{c + 1}: {i + 1} to {j + 1}", f"{CHAINS[c, i, j]:.1f}", *(f"{one[c, i, j]:.4f}" for one in (mean, low, high)),
         "yes" if inside[c, i, j] else "no"]
        for c in range(2) for i in range(STATES) for j in range(STATES)
    ]  # fmt: skip
    drawn = float((np.random.default_rng(0).random(COUNT) < SHARE).mean())  # the first draws of `simulated`
    about = "\n\n".join(" ".join(part.split("\n")) for part in (__doc__ or "").split("\n\n")[1:-1])
    each = [f"{int(one.sum())} of 16" for one in inside]
    text = (
        f"# Mixtures of Markov chains\n\n{about}\n\n{text}"
        f"After {COUNT:,}: {each[0]} transitions of the first chain are found, {each[1]} of the second; the share of the first is"
        f" {shares['low'][0]:.4f} to {shares['high'][0]:.4f}, and {drawn:.4f} of the sequences come"
        f" from it. {made.moves} rejuvenations, {made.tempered} sequences in parts,"
        f" {1e6 * seconds / COUNT:.0f} us of processor time a sequence, {seconds:.0f} s in all.\n\n"
        + report.table(["chain: transition", "truth", "mean", "low", "high", "found"], rows)
        + "\n"
        + report.conditions("python -m tests.bench.sequences", ["numpy"])
    )
    report.publish("sequences", text, write=not options.no_write)


if __name__ == "__main__":
    main()
