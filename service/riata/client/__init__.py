"""Rank 6: the Python client. `Riata` is blocking, `AsyncRiata` is for asyncio; both send the same requests.

from riata.client import Riata

with Riata("http://127.0.0.1:8080") as riata:
    riata.observe([{"features": {"age": 41.5, "country": "de"}, "label": 1}], wait_applied=True)
    riata.predict([{"features": {"age": 41.5, "country": "de"}}])
"""

from riata.client.calls import Observed, Patience
from riata.client.errors import ApiBusy, ApiConflict, ApiError, ApiFailed, ApiNotFound, ApiRefused, Unreachable
from riata.client.observing import MostlyRefused
from riata.client.riata import AsyncRiata, Riata

__all__ = [
    "ApiBusy",
    "ApiConflict",
    "ApiError",
    "ApiFailed",
    "ApiNotFound",
    "ApiRefused",
    "AsyncRiata",
    "MostlyRefused",
    "Observed",
    "Patience",
    "Riata",
    "Unreachable",
]
