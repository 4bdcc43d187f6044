"""What many models take that each have learnt texts: words of the public 20 Newsgroups, every model of the default configuration.

`python -m tests.bench.text_models MODELS ROWS` prints it; `RIATA_SHARED` has the data.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.bench.filling import VW_TEXT
from tests.bench.measured import MIB, memory, service
from tests.bench.service import connect

AT_ONCE: Final = 200  # rows in a request
SETTLED_S: Final = 25.0  # two checkpoints later
COMPILED_S: Final = 8.0


def texts(rows: int) -> list[str]:
    """Texts as lines of VW text, each with its different words, in random order."""
    path = Path(os.environ["RIATA_SHARED"]) / "data" / "newsgroups20_bydate.jsonl.gz"
    with gzip.open(path, "rt") as file:
        found = [json.loads(line) for line in file]
    field = max(found[0], key=lambda name: len(str(found[0][name])))
    random.Random(1).shuffle(found)
    words = [sorted(set(re.findall(r"[a-z0-9]+", one[field].lower()))) for one in found[:rows]]
    return [f"{k % 2} |w {' '.join(row)}" for k, row in enumerate(words)]


def main() -> int:
    """Measure and print."""
    models, rows = int(sys.argv[1]), int(sys.argv[2])
    lines = texts(3 * rows)
    with tempfile.TemporaryDirectory(prefix="riata-texts-") as folder, service(Path(folder) / "data") as running:
        running.start()
        time.sleep(COMPILED_S)
        link = connect(running.port)
        link.call("PUT", "/models/warm", b"{}")
        link.call("POST", "/models/warm/observe?wait=applied", "\n".join(lines[:20]).encode(), VW_TEXT)
        base = memory(running.process.pid)
        for m in range(models):
            link.call("PUT", f"/models/m{m}", b"{}")
            first = m * rows // 2 % (2 * rows)
            for start in range(first, first + rows, AT_ONCE):
                body = "\n".join(lines[start : min(start + AT_ONCE, first + rows)]).encode()
                link.call("POST", f"/models/m{m}/observe?wait=applied", body, VW_TEXT)
        time.sleep(SETTLED_S)
        each = (memory(running.process.pid) - base) / models
        print(f"{models} models of {rows} texts: {each / MIB:.2f} MiB each; {link.call('GET', '/models/m0')['memory_bytes']}")
        running.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
