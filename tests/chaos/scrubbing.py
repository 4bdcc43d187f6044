"""`riata` that reads its log back continuously, instead of every ten minutes."""

from __future__ import annotations

from functools import partial

import riata.wiring
from riata.cli.main import main
from riata.run.engine_settings import EngineSettings

if __name__ == "__main__":
    setattr(riata.wiring, "EngineSettings", partial(EngineSettings, scrub_every_s=0.1, scrub_bytes_per_s=2**30))  # noqa: B010
    main()
