"""Write carried_curve.db.gz: the store of a service whose checkpoints held learning curves with points out of order.

Before checkpoints said `carried`, an import kept the positions of its learning curve, which are those of another log, and what
came of it could not be read. Of the two models in there `whole` has all of its log, and `trimmed` has lost the beginning of it.
It was made with the code of that time: `PYTHONPATH=<its service>:. python -m tests.golden.make_carried_curve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import sqlite3
import tempfile
from pathlib import Path

from riata.base.clock import SystemClock
from riata.run.admin import Admin
from riata.run.engine_alone import AloneEngine
from riata.run.service import Service
from riata.store.sqlite.store import open_sqlite
from tests.run.node import Node, events
from tests.settings import engine_settings, retention, sqlite_settings

CONFIG = {"encoder": {"bits": 12}, "checkpoint_every_s": 3600}
INTO = Path(__file__).parent / "carried_curve.db.gz"


async def fill(directory: Path) -> None:
    """Fifty events that bring a point of the curve at position 51, and one more that comes to stand at 42."""
    numbers = itertools.count(1)
    settings = sqlite_settings(ballast_bytes=2**16, long_bytes=2**26)
    engine = AloneEngine(
        lambda: open_sqlite(directory, settings),
        engine_settings(host="golden", retention=retention(generations=2, events=0), durability="fsync"),
        SystemClock(),
        lambda size: next(numbers).to_bytes(size, "big"),
        lambda _reason: None,
    )
    opened = Node(engine, Service(engine), Admin(engine), None, [])  # type: ignore[arg-type]
    await opened.service.start()
    await opened.admin.put_model("source", CONFIG)
    await opened.observe(events(60), "source")
    content = await opened.admin.export("source")
    for model, saves in (("whole", 1), ("trimmed", 3)):
        await opened.admin.import_model(model, content)
        for seed in range(saves):
            await opened.observe(events(50, seed + 1), model)
            await opened.admin.snapshot_now(model)
    await opened.admin.drop_model("source")
    await opened.service.stop()


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made) / "data"
        asyncio.run(fill(directory))
        with contextlib.closing(sqlite3.connect(directory / "riata.db")) as database:
            database.execute("VACUUM")  # what was dropped and trimmed leaves its bytes behind
        INTO.write_bytes(gzip.compress((directory / "riata.db").read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    main()
