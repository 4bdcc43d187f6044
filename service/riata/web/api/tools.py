"""What the handlers of hot routes share."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from riata.base.clock import Clock
from riata.run.service import Service
from riata.web.settings import WebSettings


@dataclass(frozen=True, slots=True)
class Tools:
    """Service, settings and clock. Bodies that would block the event loop are parsed in `pool`."""

    service: Service
    settings: WebSettings
    pool: Executor
    clock: Clock
