"""FastAPI + pydantic + river + SQLite (`fastapi_river_app`), served in a separate process over a fresh database."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from types import TracebackType

from tests.bench.rivals.server import UvicornRival


class FastapiRiver(UvicornRival):
    """Context manager. It takes POST /observe {"features": {"a": 1}, "label": 1}, POST /predict and GET /predict?a=1."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="riata-rival-")
        self._database = Path(self._folder.name) / "events.sqlite"
        super().__init__(
            "tests.bench.rivals.fastapi_river_app:create_app", factory=True, environment={"RIVAL_DATABASE": str(self._database)}
        )

    def events(self) -> int:
        """Number of events that are durable in the database."""
        database = sqlite3.connect(self._database)
        try:
            return int(database.execute("SELECT count(*) FROM events").fetchone()[0])
        finally:
            database.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        self._folder.cleanup()
