"""How long other models wait for a model that takes all the time it gets: their events, their predictions, the stop, the start.

Twelve settings, of which one row or one publication may take minutes or hours, each beside an ordinary model, and then all twelve
at once. New models cannot have most of these settings any more; here they are in a store already, as an older release left them.

    python -m tests.bench.noisy_neighbours [--seconds 15] [--no-write]
"""

from __future__ import annotations

import json
import math
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from riata.run.state.config import Change, read_config
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append
from tests.bench.report import arguments, conditions, publish, table
from tests.running import Running
from tests.settings import sqlite_settings

NAME: Final = "noisy_neighbours"
EVENT_S_MAX, PREDICTION_S_MAX, STOP_S_MAX = 0.2, 0.1, 2.0
HARD: Final = {"warm_up": 0, "block": 1, "sweeps_max": 10**6, "tolerance": 1e-300}
EXACT: Final = {"kind": "taylor_sketch", "mode": "exact"}
FILTER: Final = {"kind": "particle_filter", "particles": 10**6, "features_max": 8}
OBSERVE_S: Final = 60.0
START_S_MAX: Final = 30.0  # then the start is given up


@dataclass(frozen=True, slots=True)
class Hostile:
    """A model, and the rows that it is sent: rows times features in each."""

    name: str
    about: str
    learner: dict[str, Any]
    rows: int
    features: int
    more: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0


SKETCH: Final = {"kind": "taylor_sketch", "tolerance": 1e-15, "sweeps_max": 10**6}
SHADOWS: Final = [0.1 * i for i in range(1, 9)]
LARGE: Final = {"encoder": {"bits": 24}, "publish_every_ms": 10, "checkpoint_every_s": 1}
HOSTILE: Final = [
    Hostile("exact1", "exact, solved after each row, sweeps_max 10^6, tolerance 1e-300", {**EXACT, **HARD}, 17, 400),
    Hostile("exact2", "the same with eight shadows", {**EXACT, **HARD, "shadow": SHADOWS}, 17, 400),
    Hostile("exact3", "exact, tolerance 1e-15, sweeps_max 10^6", {**SKETCH, "mode": "exact"}, 400, 300),
    Hostile("exact4", "exact at its defaults", EXACT, 1040, 700),
    Hostile("exact5", "exact at its defaults, wider", EXACT, 1200, 2000),
    Hostile("exact6", "exact, warm_up 100,000", {**EXACT, "warm_up": 100_000}, 2048, 700),
    Hostile("exact7", "exact, reexpand 1,000", {**EXACT, "reexpand": 1000, "warm_up": 0}, 1040, 700),
    Hostile("strict", "strict, k 1,000, tolerance 1e-15, sweeps_max 10^6", {**SKETCH, "mode": "strict", "k": 1000}, 400, 1500),
    Hostile("hybrid", "hybrid, k 2,000, tolerance 1e-15, sweeps_max 10^6", {**SKETCH, "k": 2000}, 400, 2500),
    Hostile("filter1", "particle_filter, 10^6 particles", FILTER, 150, 8),
    Hostile("filter2", "particle_filter, 10^6 particles, rows of weight 1,000", {**FILTER, "start": 8}, 40, 8, weight=1000.0),
    Hostile("table", "truncated_gradient, 2^24 slots, published every 10 ms", {"kind": "truncated_gradient"}, 20_000, 100, LARGE),
]


@dataclass(slots=True)
class Seen:
    """What one run showed, seconds."""

    events: list[float] = field(default_factory=list)
    predictions: list[float] = field(default_factory=list)
    stop_s: float = 0.0
    exit_code: int = 0
    start_s: float = math.inf  # until the ordinary model answers again

    @property
    def within(self) -> bool:
        return max(self.events) <= EVENT_S_MAX and max(self.predictions) <= PREDICTION_S_MAX and self.stop_s <= STOP_S_MAX


def bodies(hostile: Hostile) -> Iterator[bytes]:
    """The rows of a model as NDJSON, in bodies of at most a few MB."""
    rng = np.random.default_rng(5)
    names = [f"f{i}" for i in range(hostile.features if hostile.name != "table" else 10**6)]
    lines: list[str] = []
    for row in range(hostile.rows):
        chosen = names if len(names) == hostile.features else [names[i] for i in rng.choice(len(names), hostile.features, False)]
        values = rng.normal(size=len(chosen)).round(4).tolist()
        features = dict(zip(chosen, values, strict=True))
        weight = {} if hostile.weight == 1.0 else {"weight": hostile.weight}
        lines.append(json.dumps({"features": features, "label": int(rng.random() < 0.5), **weight}))
        if len(lines) * hostile.features >= 40_000 or row == hostile.rows - 1:
            yield "\n".join(lines).encode()
            lines = []


def prepare(data: Path, hostile: Sequence[Hostile]) -> None:
    """Make a store that has these models, whether new models may have such settings or not."""
    with closing(open_sqlite(data, sqlite_settings(dedupe_events=1000))) as store:
        for one in hostile:
            store.create(one.name, one.name.encode().ljust(16, b"\0"))
            payload = Change(read_config({"learner": one.learner, **one.more})).payload()
            store.append([Append(one.name, "config", 0, payload=payload)])


def timed(client: httpx.Client, method: str, path: str, **more: Any) -> float:
    begun_s = time.perf_counter()
    client.request(method, path, **more).raise_for_status()
    return time.perf_counter() - begun_s


def watch(url: str, seconds: float) -> Seen:
    """Send one event and one prediction after the other to the ordinary model."""
    seen, until_s = Seen(), time.monotonic() + seconds

    def events() -> None:
        rng = np.random.default_rng(1)
        with httpx.Client(base_url=url, timeout=OBSERVE_S) as client:
            while time.monotonic() < until_s:
                row = {"features": {f"x{i}": 1.0 for i in rng.choice(100, 5).tolist()}, "label": int(rng.random() < 0.5)}
                body = json.dumps(row).encode()
                headers = {"content-type": "application/x-ndjson"}
                path = "/models/default/observe?wait=applied"
                seen.events.append(timed(client, "POST", path, content=body, headers=headers))
                time.sleep(0.02)

    thread = threading.Thread(target=events)
    thread.start()
    with httpx.Client(base_url=url, timeout=OBSERVE_S) as client:
        while time.monotonic() < until_s:
            body = json.dumps({"features": {"x1": 1.0, "x7": 1.0}}).encode()
            path = "/models/default/predict"
            seen.predictions.append(timed(client, "POST", path, content=body, headers={"content-type": "application/json"}))
            time.sleep(0.01)
    thread.join()
    return seen


def measure(hostile: Sequence[Hostile], seconds: float) -> Seen:
    """Run a service with these models and an ordinary one."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        prepare(data, hostile)
        with Running(data, {"RIATA_LAG_S_MAX": "600"}) as running:
            running.start()
            watch(running.url, 2.0)  # every path of the ordinary model has been used once
            senders = [threading.Thread(target=send, args=(running.url, one)) for one in hostile]
            for sender in senders:
                sender.start()
            seen = watch(running.url, seconds)
            for sender in senders:
                sender.join()
            begun_s = time.perf_counter()
            running.process.send_signal(signal.SIGTERM)
            seen.exit_code = running.wait()
            seen.stop_s = time.perf_counter() - begun_s
            begun_s = time.perf_counter()
            running.start(wait=False)
            if answers(running.url):
                seen.start_s = time.perf_counter() - begun_s
            running.kill()
    return seen


def send(url: str, hostile: Hostile) -> None:
    with httpx.Client(base_url=url, timeout=OBSERVE_S) as client:
        for body in bodies(hostile):
            path = f"/models/{hostile.name}/observe"
            client.post(path, content=body, headers={"content-type": "application/x-ndjson"}).raise_for_status()


def answers(url: str) -> bool:
    """Wait until the ordinary model answers, for at most START_S_MAX; returns whether it did."""
    until_s = time.monotonic() + START_S_MAX
    body, headers = json.dumps({"features": {"x1": 1.0}}).encode(), {"content-type": "application/json"}
    with httpx.Client(base_url=url, timeout=OBSERVE_S) as client:
        while time.monotonic() < until_s:
            try:
                if client.post("/models/default/predict", content=body, headers=headers).status_code == httpx.codes.OK:
                    return True
            except httpx.TransportError:
                pass
            time.sleep(0.01)
    return False


def row_of(title: str, about: str, seen: Seen) -> list[str]:
    events, predictions = np.array(seen.events), np.array(seen.predictions)
    return [
        title, about, f"{len(events)}", f"{1000 * np.median(events):.0f}", f"{1000 * events.max():.0f}", f"{len(predictions)}",
        f"{1000 * np.median(predictions):.1f}", f"{1000 * predictions.max():.0f}", f"{seen.stop_s:.2f}",
        f"{seen.start_s:.1f}" if seen.start_s < START_S_MAX else f"> {START_S_MAX:.0f}",
    ]  # fmt: skip


HEADS: Final = [
    "model",
    "settings",
    *["events", "median ms", "longest ms"],
    *["predictions", "median ms", "longest ms"],
    "stop s",
    "start s",
]

TEXT: Final = f"""# Noisy neighbours

Each line is a service with an ordinary model (`default`, at its defaults) and models that take all the time they get. The
ordinary model gets one event after the other with `?wait=applied`, and predictions on another connection, on the same machine.

- Longest: the longest wait of any of them. Asked for are at most {1000 * EVENT_S_MAX:.0f} ms for an event and
  {1000 * PREDICTION_S_MAX:.0f} ms for a prediction.
- Stop: from SIGTERM to the end of the process; at most {STOP_S_MAX:.0f} s are asked for.
- Start: from the next start of the process to the first prediction of the ordinary model.
- The first line is without other models: what it shows beyond the bounds is due to other work on the machine.

"""


def tell(line: Sequence[str]) -> None:
    sys.stderr.write(" | ".join(line) + "\n")


def main() -> None:
    """Measure, and write the report."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each line")
    parser.add_argument("--only", default="", help="names of models, comma separated")
    options = parser.parse_args()
    chosen = [one for one in HOSTILE if not options.only or one.name in options.only.split(",")]
    lines = [row_of("–", "none", measure([], options.seconds))]
    tell(lines[-1])
    worst = []
    for one in chosen:
        seen = measure([one], options.seconds)
        worst.append(seen)
        lines.append(row_of(one.name, f"{one.about}; {one.rows:,} rows × {one.features:,}", seen))
        tell(lines[-1])
    if len(chosen) > 1:
        worst.append(measure(chosen, 2 * options.seconds))
        lines.append(row_of("all", "all of them at once", worst[-1]))
    held = (
        "Every wait is within these bounds." if all(one.within for one in worst) else "**Not every wait is within these bounds.**"
    )
    text = TEXT + table(HEADS, lines) + f"\n{held}\n\n" + conditions(f"python -m tests.bench.{NAME}", ["numpy"])
    publish(NAME, text, write=not options.no_write and not options.only)


if __name__ == "__main__":
    main()
