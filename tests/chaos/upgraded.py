"""`riata` as a release that learns in another way: its number of the algorithm is one higher."""

from __future__ import annotations

from riata.cli.app import main
from riata.learn import registry

if __name__ == "__main__":
    registry.ALGO_VERSION += 1  # type: ignore[misc]
    main()
