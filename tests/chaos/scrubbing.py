"""`riata` that reads its log back continuously, instead of every ten minutes."""

from __future__ import annotations

from dataclasses import replace

import riata.wiring
from riata.cli.main import main

if __name__ == "__main__":
    made = riata.wiring.engine_settings
    riata.wiring.engine_settings = lambda settings: replace(made(settings), scrub_every_s=0.1, scrub_bytes_per_s=2**30)
    main()
