"""What a serving process imports: the interpreter itself lists each module of a real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx

from tests.running import HANG_S, free_port, wait_for
from tests.trees.hand_made import UP, text_of, two_splits

UNUSED = {"riata.lab", "scipy", "sklearn", "redis", "pyarrow", "rich", "numpy.ma"}
ROWS = 2000  # enough for a learner to look for columns in


def imported(listing: Path) -> set[str]:
    """The modules in what `-X importtime` wrote."""
    return set(re.findall(r"^import time:.*\| +(\S+)$", listing.read_text(encoding="utf-8"), re.MULTILINE))


def test_a_service_imports_no_batch_solver_and_nothing_that_only_commands_need(tmp_path: Path) -> None:
    port, listing = free_port(), tmp_path / "listing"
    arguments = ["-X", "importtime", "-m", "riata", "serve", "--port", str(port), "--data", str(tmp_path / "data")]
    with listing.open("w") as output, subprocess.Popen([sys.executable, *arguments], stderr=output, env=os.environ) as service:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=HANG_S) as client:

                def is_ready() -> bool:
                    try:
                        return client.get("/readyz").status_code == 200
                    except httpx.TransportError:
                        return service.poll() is not None

                wait_for("the service is not ready", is_ready)
                row = {"features": {"age": 3}, "label": 1}
                rows = b"\n".join(json.dumps(row | {"features": {"age": k % 7, "b": k}}).encode() for k in range(ROWS))
                observed = client.post("/observe?wait=applied", content=rows, headers={"content-type": "application/x-ndjson"})
                assert observed.json()["accepted"] == ROWS
                assert client.post("/predict", json=row | {"label": None}).status_code == 200
                before = imported(listing)
                document = {"encoder": {"curves": {"ecg": text_of(two_splits())}}}
                assert client.put("/models/curves", json=document).status_code == 201
                predicted = client.post("/models/curves/predict?explain=true", json={"features": {"ecg": UP}})
                assert "ecg#1" in json.dumps(predicted.json())
        finally:
            service.terminate()
    after = imported(listing)
    assert {"numpy", "riata.wiring"} <= before
    assert ("riata.trees.stage" in before, "riata.trees.stage" in after) == (False, True)  # the listing goes on after the start
    assert UNUSED & {".".join(name.split(".")[:parts]) for name in after for parts in (1, 2)} == set()
