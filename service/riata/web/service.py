"""What the web room asks of the service behind it. `riata.run` provides it, tests provide a small one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from riata.predict.name_book import NameBook
from riata.run.config import ModelConfig
from riata.run.health import Health
from riata.run.labels.remembering import RememberedTally
from riata.run.outcome import Observed
from riata.run.pending_reply import PendingReply, Told
from riata.run.published import Published
from riata.run.sketch_copy import PathQuestion
from riata.wire.parse import Context
from riata.wire.parsed import Parsed


class ServiceProtocol(Protocol):
    """Learning and answering.

    Methods raise errors of `riata.base.errors` only: `NotFound` (model_not_found) where a model is not there.
    """

    async def start(self) -> None:
        """Recover all models."""
        ...

    def give_up_start(self) -> None:
        """Have a start that is not done end soon, without an error."""
        ...

    async def stop(self) -> None:
        """Drain, save, release."""
        ...

    def published(self, model: str) -> Published:
        """Return what is served now."""
        ...

    def now(self, model: str) -> tuple[Published, float]:
        """Return what `published` and `stale_s` do, which raise as this does."""
        ...

    def context(self, model: str, labelled: bool) -> Context:
        """Return what parsing needs to know."""
        ...

    def names(self, model: str) -> NameBook:
        """Return the names by slot."""
        ...

    async def observe(self, model: str, parsed: Parsed, *, atomic: bool, wait_applied: bool) -> Observed:
        """Append rows; returns once they are durable."""
        ...

    def observe_soon(self, model: str, body: bytes, content_type: str, key: str | None, told: Told) -> bool:
        """Begin what `observe_small` does; `told` is called with what became of it. False where nothing was begun."""
        ...

    def awaited(self, told: Told) -> PendingReply:
        """Return one who waits for an answer of the log for as long as one waits here; called in the event loop."""
        ...

    def observe_read(self, model: str, read: Callable[[], Parsed], awaited: PendingReply) -> None:
        """Read rows and append them, in any thread; `awaited` is told what became of them, or None for `observe` to find out."""
        ...

    async def observe_small(
        self, model: str, body: bytes, content_type: str, key: str | None, *, wait_applied: bool
    ) -> Observed | None:
        """Append the rows of a small body together with those of others; None where it has to be parsed and observed."""
        ...

    async def remember(self, model: str, rows: list[bytes]) -> list[str]:
        """Keep rows that were predicted until their labels come; durable on return. Returns an id for each."""
        ...

    def remembered(self) -> Mapping[str, RememberedTally]:
        """Return what became of remembered predictions and of their labels, by model."""
        ...

    def stale_s(self, model: str) -> float:
        """Return for how long it is not known whether what is served is the newest; raises `Unavailable` (too_stale)."""
        ...

    async def wait_for(self, model: str, seq: int) -> Published:
        """Return the served model once it includes log position `seq`."""
        ...

    def models(self) -> list[dict[str, Any]]:
        """Return one line a model."""
        ...

    def describe(self, model: str) -> dict[str, Any]:
        """Return everything known about one model."""
        ...

    async def path(self, model: str, question: PathQuestion) -> dict[str, Any]:
        """Return the optima of the model's sketch under other penalties."""
        ...

    def health(self) -> Health:
        """Return how the service is."""
        ...


class AdminProtocol(Protocol):
    """Changing, saving and carrying away models. Errors as above."""

    async def put_model(self, model: str, document: object, patient: bool = True) -> tuple[bool, ModelConfig]:
        """Create or change a model; returns whether it was created. Raises `Compiling` unless `patient`."""
        ...

    async def change(self, model: str, changes: Mapping[str, Any]) -> tuple[ModelConfig, int]:
        """Change settings of a model while it learns; returns its configuration and the event after which it is served."""
        ...

    async def drop_model(self, model: str) -> None:
        """Drop a model and everything stored of it."""
        ...

    async def snapshots(self, model: str) -> list[dict[str, Any]]:
        """Return the retained generations."""
        ...

    async def snapshot_now(self, model: str) -> dict[str, Any]:
        """Save, and return the new generation once it is durable."""
        ...

    async def restore(self, model: str, generation: int) -> dict[str, Any]:
        """Go back to the content of a generation."""
        ...

    async def export(self, model: str) -> bytes:
        """Return one checkpoint."""
        ...

    async def import_model(self, model: str, content: bytes, patient: bool = True) -> dict[str, Any]:
        """Take over an exported checkpoint."""
        ...
