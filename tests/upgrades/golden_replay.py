"""One stored log, learnt by every learner in every mode: the digests of the results.

Run by itself it prints them, with the fingerprint of the arithmetic, so that a test can ask a process with other instructions.
`tests/golden/make_replay.py` made the log and writes the digests that are expected.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from riata.run.log.log_reading import runs
from riata.run.state.config import Change, read_config
from riata.run.state.model_state import ModelState
from riata.run.state.provenance import fingerprint
from riata.store import records
from riata.store.payload import decode_batch, encode_batch
from riata.store.store import Kind, Record
from riata.wire.batch import Batch, slice_rows

GOLDEN: Final = Path(__file__).parents[1] / "golden"
LOG: Final = GOLDEN / "replay.log.gz"
DIGESTS: Final = GOLDEN / "replay.json"
LINEAGE: Final = bytes(range(16))
HEAD: Final = struct.Struct("<BII")  # kind, events, bytes of the payload
BITS: Final = 12  # fewer slots than features: some share one

Logged = tuple[Kind, int, bytes]  # kind, events, payload


OLDER: Final = {
    "scaled_label": False,
    "mixed": False,
    "base_rate": False,
    "second_order": False,
    "learns_again": False,
    "shapes": "off",
    "classes_shaped": False,
    "far_values": "off",
    "bounded": False,
}  # left out of documents


def _since(*newer: str) -> dict[str, Any]:
    """Truncated gradient with these newer settings at their defaults, and no others."""
    return {"kind": "truncated_gradient", **{name: value for name, value in OLDER.items() if name not in newer}}


def _gradient(**settings: Any) -> dict[str, Any]:
    return {**_since(), "period": 7, "gravity": 0.001, "centred": False, "calibrated": False, **settings}


def _sketch(**settings: Any) -> dict[str, Any]:
    before = {"standardised": False, "relinearise": False, "far_values": "off"}
    return {"kind": "taylor_sketch", "block": 25, "k": 24, "rounds": 2, **before, **settings}


def _ftrl(**settings: Any) -> dict[str, Any]:
    return {"kind": "ftrl_proximal", "far_values": "off", **settings}


def _particles(**settings: Any) -> dict[str, Any]:
    return {"kind": "particle_filter", "particles": 200, "start": 150, "far_values": "off", **settings}


PLAIN: Final = {"rate": "constant", "normalised": False, "eta": 0.05}
CASES: Final[dict[str, dict[str, Any]]] = {
    "gradient defaults": _since(),
    "gradient defaults, three times": _since(),
    "gradient mixed": _since("scaled_label", "mixed"),
    "gradient shaped": _since("scaled_label", "mixed", "shapes", "bounded"),
    "gradient with base rate": _since("scaled_label", "mixed", "base_rate", "shapes", "bounded"),
    "gradient adaptive normalised": _gradient(),
    "gradient adaptive": _gradient(normalised=False, eta=0.3),
    "gradient adaptive gradient step": _gradient(step="gradient", eta=0.2),
    "gradient decaying": _gradient(rate="decaying", normalised=False, power=0.4, delay=10.0),
    "gradient constant": _gradient(**PLAIN),
    "gradient round": _gradient(rule="round", ceiling=0.05),
    "gradient subgradient": _gradient(**PLAIN, rule="subgradient"),
    "gradient grid": _gradient(**PLAIN, grid=True),
    "gradient squared": _gradient(loss="squared"),
    "gradient squared decaying": _gradient(loss="squared", rate="decaying", normalised=False, eta=0.02),
    "gradient squared scaled label": _gradient(loss="squared", scaled_label=True),
    "gradient hinge": _gradient(loss="hinge"),
    "gradient hinge constant": _gradient(**PLAIN, loss="hinge"),
    "sketch exact": _sketch(mode="exact", warm_up=100),
    "sketch exact probit": _sketch(mode="exact", link="probit", warm_up=100, reexpand=40),
    "sketch exact beyond hybrid": _sketch(mode="exact", features_max=20, beyond="hybrid", warm_up=0),
    "sketch exact growing": _sketch(mode="exact", gamma_schedule="sqrt", gamma_events=500, warm_up=0),
    "sketch strict": _sketch(mode="strict"),
    "sketch strict probit": _sketch(mode="strict", link="probit"),
    "sketch hybrid": _sketch(mode="hybrid"),
    "sketch hybrid probit": _sketch(mode="hybrid", link="probit"),
    "sketch hybrid forgetting": _sketch(mode="hybrid", rho=0.99, burn_in=200),
    "sketch hybrid shadows": _sketch(mode="hybrid", shadow=[0.01, 1.0, 10.0]),
    "sketch diag": _sketch(mode="diag"),
    "sketch diag forgetting": _sketch(mode="diag", rho=0.995),
    "sketch exact standardised": _sketch(mode="exact", warm_up=100, standardised=True),
    "sketch strict standardised probit": _sketch(mode="strict", link="probit", standardised=True),
    "sketch hybrid standardised": _sketch(mode="hybrid", standardised=True),
    "sketch exact relinearised": _sketch(mode="exact", warm_up=100, standardised=True, relinearise=True),
    "sketch hybrid relinearised": _sketch(mode="hybrid", warm_up=300, standardised=True, relinearise=True),
    "sketch strict relinearised": _sketch(mode="strict", warm_up=300, relinearise=True),
    "ftrl": _ftrl(standardised=False),
    "ftrl l2": _ftrl(l2=0.5, alpha=0.05, intercept=False, standardised=False),
    "ftrl standardised": _ftrl(),
    "particles": _particles(),
    "particles many features": _particles(features_max=32, keep=0.8, intercept=False, seed=5),
    "gradient limited": _since(*OLDER.keys() - {"second_order", "learns_again", "classes_shaped"}),
    "gradient of second order": _since(*OLDER.keys() - {"learns_again", "classes_shaped"}),
    "gradient that learns again": _since(*OLDER.keys() - {"classes_shaped"}),
    "sketch limited": _sketch(mode="hybrid", standardised=True, relinearise=True, far_values="auto"),
    "ftrl limited": _ftrl(far_values="auto"),
    "particles limited": _particles(features_max=32, far_values="auto"),
}
TIMES: Final = {
    "gradient defaults, three times": 3,
    "gradient shaped": 3,
}  # how often the log is learnt: columns are counted otherwise after 1024 rows
FEW: Final = (
    "gradient defaults",
    "sketch exact probit",
    "sketch hybrid forgetting",
    "ftrl standardised",
    "particles",
    "gradient limited",
    "ftrl limited",
)  # one of each machine code


def read_log() -> list[Logged]:
    """The stored log without its configuration, because each case has its own."""
    content, at, found = gzip.decompress(LOG.read_bytes()), 0, []
    codes = {code: kind for kind, code in records.KIND_CODES.items()}
    while at < len(content):
        kind, count, length = HEAD.unpack_from(content, at)
        at += HEAD.size
        found.append((codes[kind], count, content[at : at + length]))
        at += length
    return found


def chained(log: Iterable[Logged]) -> Iterator[Record]:
    """Records as a store has them."""
    seq, chain = 0, records.first_chain(LINEAGE)
    for kind, count, payload in log:
        digest = records.record_digest(kind, count, 0, payload)
        chain = records.next_chain(chain, digest)
        yield Record("m", kind, seq + 1, count, 0, payload, digest, chain)
        seq += count


def regrouped(log: list[Logged], size_of: Callable[[int], int]) -> list[Logged]:
    """The same events, with observe records divided again: the i-th of them into records of size_of(i) events."""
    found: list[Logged] = []
    for i, (kind, count, payload) in enumerate(log):
        if kind != "observe":
            found.append((kind, count, payload))
            continue
        batch: Batch = decode_batch(payload)
        for start in range(0, count, size_of(i)):
            part = slice_rows(batch, start, min(count, start + size_of(i)))
            found.append(("observe", part.n, encode_batch(part)))
    return found


def replayed(learner: dict[str, Any], log: list[Logged], together: bool = True) -> str:
    """Learn the log with one learner; returns the digest of the state. If not `together`, record by record."""
    # The encoder that models had when the digests were made: a digest covers the configuration as it is stored.
    config = read_config({"encoder": {"bits": BITS, "words": 1, "fields": "off"}, "learner": learner})
    state = ModelState("m", LINEAGE)
    skips = frozenset(records.decode_skip(payload)[0] for kind, _, payload in log if kind == "skip")
    found = list(chained([("config", 1, Change(config).payload()), *log]))
    for run in runs(found) if together else ([record] for record in found):
        state.apply_all(run, skips=skips)
    return state.freeze().digest().hex()


def digests(names: Iterable[str] = CASES) -> dict[str, str]:
    """The digest of each case, by its name."""
    log = read_log()
    return {name: replayed(CASES[name], log * TIMES.get(name, 1)) for name in names}


def main() -> None:
    """Print the digests of the cases named as arguments, or of all."""
    sys.stdout.write(json.dumps({"numerics": fingerprint(), "digests": digests(sys.argv[1:] or CASES)}))


if __name__ == "__main__":
    main()
