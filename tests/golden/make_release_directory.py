"""Makes `release_directory.tar.gz`, a data directory as a release leaves it after SIGKILL, and
`release_directory.json`, what that release answered last.

Run by the code of that release, from a checkout of it beside this one:

    git worktree add --detach ../release <commit>
    python -m tests.golden.make_release_directory ../release/service

The files here are of release 0.2.0, commit 35dc0cb8: ALGO_VERSION 8.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

import httpx

from riata.run.state.provenance import fingerprint
from tests.golden.make_replay import rows_of
from tests.running import Running

GOLDEN: Final = Path(__file__).parent
ARCHIVE: Final = GOLDEN / "release_directory.tar.gz"
ANSWERS: Final = GOLDEN / "release_directory.json"
KEPT: Final = ("riata.db", "riata.db-wal")  # and payload files; the lock and the ballast mean nothing
QUIET: Final = {"encoder": {"bits": 12}, "checkpoint_every_s": 86_400}
MODELS: Final[dict[str, dict[str, Any]]] = {
    "gradient": {"kind": "truncated_gradient", "period": 7},
    "one_step": {"kind": "truncated_gradient", "period": 7, "tuned": False},
    "exact": {"kind": "taylor_sketch", "mode": "exact", "link": "probit", "warm_up": 60, "block": 25},
    "hybrid": {"kind": "taylor_sketch", "mode": "hybrid", "k": 20, "block": 25, "rho": 0.99, "shadow": [1.0]},
    "ftrl": {"kind": "ftrl_proximal"},
}


def unpack_release(directory: Path) -> None:
    """Put the files into a directory."""
    with tarfile.open(fileobj=io.BytesIO(ARCHIVE.read_bytes()), mode="r:gz") as archive:
        for file in archive:  # `extractall` with a filter is newer than the Python of Debian 12
            content = archive.extractfile(file)
            assert content is not None
            (directory / file.name).write_bytes(content.read())


def taught(running: Running, model: str, rows: list[dict[str, Any]]) -> int:
    """Have rows learnt, in requests of 30; the number of the last event."""
    seq = 0
    for start in range(0, len(rows), 30):
        body = "\n".join(json.dumps(row) for row in rows[start : start + 30])
        headers = {"content-type": "application/x-ndjson"}
        answer = httpx.post(
            f"{running.url}/models/{model}/observe?wait=applied", content=body, headers=headers, timeout=60
        ).raise_for_status()
        seq = answer.json()["seq"]
    return seq


def margins(running: Running, model: str, rows: list[dict[str, Any]]) -> list[float]:
    """What a model answers."""
    body = "\n".join(json.dumps({"features": row["features"]}) for row in rows)
    answer = httpx.post(
        f"{running.url}/models/{model}/predict", content=body, headers={"content-type": "application/x-ndjson"}, timeout=60
    ).raise_for_status()
    return [prediction["margin"] for prediction in answer.json()]


def main() -> None:
    """Teach five models, with generations on the way and events after the last one, and kill the service."""
    rows = rows_of(seed=5, n=310)
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "data"
        with Running(directory, {"PYTHONPATH": f"{sys.argv[1]}:."}) as running:
            running.start()
            for name, learner in MODELS.items():
                httpx.put(f"{running.url}/models/{name}", json={**QUIET, "learner": learner}, timeout=600).raise_for_status()
                for start in (0, 120):
                    taught(running, name, rows[start : start + 120])
                    httpx.post(f"{running.url}/models/{name}/snapshots", timeout=60).raise_for_status()
                seq = taught(running, name, rows[240:300])
                answers[name] = {"seq": seq, "margins": margins(running, name, rows[300:])}
            running.kill()
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for path in sorted(directory.iterdir()):
                if path.name in KEPT or path.name.startswith("riata.payloads"):
                    archive.add(path, path.name)
    ARCHIVE.write_bytes(gzip.compress(content.getvalue(), mtime=0))
    document = {"numerics": fingerprint(), "models": answers}
    ANSWERS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
