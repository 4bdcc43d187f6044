"""What a service imports and the machine code that it loads, for the process that `tests.forked` forks services from."""

import os

from riata.cli.serve import BLAS_THREADS

os.environ.setdefault(BLAS_THREADS, "1")  # as `riata serve` does, before numpy is imported

import riata.cli.app
import riata.wiring  # noqa: F401
from riata.run import warm_up

# Linking machine code is most of the rest of a start. What is not on the disk is left to the forks.
for part in warm_up._parts().values():
    warm_up._is_loaded(part)
