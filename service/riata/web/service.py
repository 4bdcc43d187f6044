"""The interface between the web package and the service. `riata.run` implements it; tests implement a small one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from riata.predict.name_book import NameBook
from riata.run.candidates.going_back import RestoreRequest
from riata.run.candidates.refits.refits import RefitTally
from riata.run.health import Health
from riata.run.jobs.job import Job
from riata.run.jobs.jobs import Jobs
from riata.run.labels.delays import Delays
from riata.run.labels.remembering import RememberedTally
from riata.run.log.event_times import EventTime
from riata.run.outcome import Observed, PendingReply, Told
from riata.run.state.config import ModelConfig
from riata.run.writer.published import Published
from riata.run.writer.sketch_copy import PathQuestion
from riata.wire.parse import StoreContext
from riata.wire.parsed import Parsed


class RefitsProtocol(Protocol):
    """Batch optima of what models have learnt. Raises errors as `ServiceProtocol` does, `Conflict` (other_role) in a process that
    does not learn."""

    def begin(self, model: str, document: dict[str, Any]) -> Job:
        """Start a refit; return its job."""
        ...

    def listed(self, model: str) -> list[dict[str, Any]]:
        """Return the refits of a model, newest first, without their traces."""
        ...

    def get(self, model: str, refit: str) -> dict[str, Any]:
        """Return one refit."""
        ...

    def cancel(self, model: str, refit: str) -> dict[str, Any]:
        """Ask a refit to end with its best weights so far."""
        ...

    async def promote(self, model: str, refit: str, force: bool) -> dict[str, Any]:
        """Have the model go on from a refit, if the gate says so or by force."""
        ...

    def regret(self, model: str) -> dict[str, Any]:
        """Return how far the model was from the optimum at its last refit."""
        ...

    def refitted(self, model: str) -> Published:
        """Return the weights of the last refit, ready to predict."""
        ...

    def counts(self) -> Mapping[str, RefitTally]:
        """Return the counts and last figures of refits, by model."""
        ...


class ForgettingProtocol(Protocol):
    """Rows of subjects that models forget. Raises errors as `RefitsProtocol` does."""

    async def forget(self, model: str, subjects: Sequence[str], drop_trimmed: bool) -> Job:
        """Have a model learn its log again without the rows of these subjects. Returns the job, done or still running."""
        ...

    def listed(self, model: str) -> list[dict[str, Any]]:
        """Return the last jobs of a model, newest first."""
        ...


class GoingBackProtocol(Protocol):
    """Models that go back to one of their events. Raises errors as `RefitsProtocol` does."""

    def read(self, document: Mapping[str, Any]) -> int | RestoreRequest:
        """Read a request: the number of a generation, or an event or a moment."""
        ...

    async def restore(self, model: str, asked: RestoreRequest) -> Job:
        """Have a model go back. Returns the job, done or still running."""
        ...

    async def listed(self, model: str) -> dict[str, Any]:
        """Return which events can be reached, and the last jobs of a model, newest first."""
        ...


class ServiceProtocol(Protocol):
    """Learning and predicting.

    Methods raise errors of `riata.base.errors` only: `NotFound` (model_not_found) if a model does not exist.
    """

    @property
    def refits(self) -> RefitsProtocol:
        """The refits."""
        ...

    @property
    def jobs(self) -> Jobs:
        """The jobs of every kind."""
        ...

    @property
    def forgetting(self) -> ForgettingProtocol:
        """What is being forgotten."""
        ...

    @property
    def going_back(self) -> GoingBackProtocol:
        """What goes back."""
        ...

    async def start(self) -> None:
        """Recover all models."""
        ...

    def give_up_start(self) -> None:
        """Abort a start that is still running; it ends soon, without an error."""
        ...

    async def stop(self) -> None:
        """Drain queues, save models, release resources."""
        ...

    def published(self, model: str) -> Published:
        """Return the model that is served now."""
        ...

    def now(self, model: str) -> tuple[Published, float]:
        """Return the results of `published` and `stale_s`. Raises what they raise."""
        ...

    def context(self, model: str, labelled: bool) -> StoreContext:
        """Return the context that the parser needs."""
        ...

    def names(self, model: str) -> NameBook:
        """Return the book of feature names by slot."""
        ...

    async def observe(self, model: str, parsed: Parsed, *, atomic: bool, wait_applied: bool) -> Observed:
        """Append rows to the log; returns once they are durable."""
        ...

    def observe_soon(self, model: str, body: bytes, content_type: str, key: str | None, told: Told) -> bool:
        """Begin what `observe_small` does and call `told` with the outcome. Returns false if nothing was begun."""
        ...

    def awaited(self, told: Told) -> PendingReply:
        """Return a pending reply of the log that calls `told`, with the timeout of this service; called in the event loop."""
        ...

    def observe_read(self, model: str, read: Callable[[], Parsed], awaited: PendingReply) -> None:
        """Parse rows and append them, in any thread. `awaited` gets the outcome, or None if `observe` must be used."""
        ...

    async def observe_small(
        self, model: str, body: bytes, content_type: str, key: str | None, *, wait_applied: bool
    ) -> Observed | None:
        """Append the rows of a small body in one batch with others. Returns None if it has to go through `observe`."""
        ...

    async def remember(self, model: str, rows: list[bytes]) -> list[str]:
        """Keep predicted rows until their labels come; durable on return. Returns an id for each row."""
        ...

    def remembered(self) -> Mapping[str, RememberedTally]:
        """Return the counts of remembered predictions and of their labels, by model."""
        ...

    def lateness(self) -> Mapping[str, Delays]:
        """Return how old rows with a time were when they were logged, by model."""
        ...

    def stale_s(self, model: str) -> float:
        """Return for how long, s, the served model is not known to be the newest. Raises `Unavailable` (too_stale)."""
        ...

    async def wait_for(self, model: str, seq: int) -> Published:
        """Return the served model once it includes log position `seq`."""
        ...

    def models(self) -> list[dict[str, Any]]:
        """Return a summary of each model."""
        ...

    def describe(self, model: str) -> dict[str, Any]:
        """Return everything known about one model."""
        ...

    async def path(self, model: str, question: PathQuestion) -> dict[str, Any]:
        """Return the optima of the model's sketch under other penalties."""
        ...

    async def event_times(self, model: str, events: Sequence[int]) -> list[EventTime]:
        """Return when events were accepted and when they happened, as far as known."""
        ...

    async def changes(self, model: str) -> list[dict[str, Any]]:
        """Return what changed the configuration or the state of the model, newest first."""
        ...

    def health(self) -> Health:
        """Return the health of the service."""
        ...


class AdminProtocol(Protocol):
    """Changing, saving, exporting and importing models. Raises errors as `ServiceProtocol` does."""

    async def put_model(self, model: str, document: object, patient: bool = True) -> tuple[bool, ModelConfig]:
        """Create or change a model; returns whether it was created. Raises `Backfilling` unless `patient`."""
        ...

    def read(self, document: object) -> ModelConfig:
        """Read a configuration document."""
        ...

    async def change(self, model: str, changes: Mapping[str, Any]) -> tuple[ModelConfig, int]:
        """Change settings of a model while it learns. Returns its configuration and the log position of the change."""
        ...

    async def drop_model(self, model: str) -> None:
        """Drop a model and everything stored for it."""
        ...

    async def back_up(self) -> dict[str, Any]:
        """Copy the store into its data directory; returns once the copy is durable."""
        ...

    async def promote(self, model: str, challenger: str, force: bool) -> dict[str, Any]:
        """Have a model go on as one of its challengers."""
        ...

    async def snapshots(self, model: str) -> list[dict[str, Any]]:
        """Return the retained generations."""
        ...

    async def snapshot_now(self, model: str, note: str = "") -> dict[str, Any]:
        """Save, and return the new generation, which is kept until it is deleted, once it is durable."""
        ...

    async def delete_snapshot(self, model: str, generation: int) -> None:
        """Delete a generation that was saved."""
        ...

    async def restore(self, model: str, generation: int) -> dict[str, Any]:
        """Restore the content of a generation."""
        ...

    async def export(self, model: str) -> bytes:
        """Return a checkpoint of the model."""
        ...

    async def import_model(self, model: str, content: bytes) -> dict[str, Any]:
        """Import an exported checkpoint."""
        ...
