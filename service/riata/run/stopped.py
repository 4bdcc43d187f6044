"""The error of work that is abandoned because the process is stopping."""

from __future__ import annotations

from riata.base.errors import Busy


class Stopped(Busy):
    """A start, or a promotion, was abandoned because the process is stopping."""

    def __init__(self) -> None:
        super().__init__("the service is stopping", "stopping", retry_after_s=5)
