"""`riata` as a release with another learning algorithm: its algorithm version is one higher."""

from __future__ import annotations

from riata.cli.main import main
from riata.learn import registry

if __name__ == "__main__":
    registry.ALGO_VERSION += 1  # type: ignore[misc]
    main()
