"""What a service imports, for the process that `tests.forked` forks services from."""

import os

from riata.cli.serve import BLAS_THREADS

os.environ.setdefault(BLAS_THREADS, "1")  # as `riata serve` does, before numpy is imported

import riata.cli.app
import riata.wiring  # noqa: F401
