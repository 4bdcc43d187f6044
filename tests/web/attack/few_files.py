"""`python -m tests.web.attack.few_files serve ...` is `riata serve ...` in a process that may open 64 files."""

from __future__ import annotations

import resource

FILES = 64

if __name__ == "__main__":
    from riata.cli.main import main

    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    main()
