"""The asyncio client: the methods of `riata.client.riata`, with the same meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import httpx

from riata.base.errors import BadInput
from riata.client import calls
from riata.client.calls import NDJSON, Attempts, Call, Observed, Patience, Rows
from riata.client.errors import ApiRefused
from riata.client.observing import by_kinds, observing
from riata.client.riata import To, new_key, restoring
from riata.wire.tables import Roles

Result = TypeVar("Result")


class AsyncRiata:
    """One service at `url`. Keeps connections open; close it, or use it in an `async with` statement.

    `api_key` is sent with every request. Raises `BadInput` if `url` is not a URL or `api_key` is not a key.
    Methods raise the errors of `riata.client.errors`. Requests to a busy service are retried within `patience`. Every `observe`
    carries an Idempotency-Key, so a retry after a lost answer applies nothing twice.
    """

    def __init__(
        self,
        url: str,
        *,
        patience: Patience | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
        api_key: str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._patience = patience or Patience()
        self._sleep = sleep
        self._known = False
        try:
            self._http = httpx.AsyncClient(
                base_url=self.url, timeout=calls.TIMEOUT_S, transport=transport, headers=calls.bearer(api_key)
            )
        except httpx.InvalidURL as error:
            raise BadInput(f"{url}: not a URL: {error}", "bad_url") from None

    async def observe(
        self,
        rows: Rows,
        *,
        model: str = "default",
        content_type: str = NDJSON,
        label: str = "label",
        weight: str | None = None,
        event_id: str | None = None,
        subject: str | None = None,
        drop: Iterable[str] = (),
        positive: str | None = None,
        classes: bool = False,
        wait_applied: bool = False,
        atomic: bool = False,
        key: str | None = None,
        source: str | None = None,
        ids: bytes | None = None,
        by_row: bool = False,
    ) -> Observed:
        """Send labelled rows, as `Riata.observe` does. Durable on return."""
        sent = calls.Sent(model, content_type, key or new_key(), wait_applied, atomic, ids, by_row)
        roles = Roles(label, weight, event_id, frozenset(drop), positive=positive, classes=classes, subject=subject)
        return await self._follow(observing(rows, roles, sent, source), self._send)

    async def predict(
        self,
        rows: Rows,
        *,
        model: str = "default",
        content_type: str = NDJSON,
        label: str = "label",
        drop: Iterable[str] = (),
        explain: bool = False,
        min_seq: int | None = None,
        remember: bool = False,
        level: float | None = None,
        from_refit: bool = False,
    ) -> Any:
        """Return one prediction a row, in order, as `Riata.predict` does."""
        options = (explain, min_seq, remember, level, from_refit)
        if calls.is_body(rows, content_type):
            return calls.read_predictions(await self._send(calls.predict(rows, model, content_type, *options)))
        found: list[dict[str, Any]] = []
        roles = await self._follow(by_kinds(rows, Roles(drop=frozenset(drop), ignored=frozenset({label})), model), self._send)
        for part in calls.bodies_of(rows, roles):
            call = calls.predict(part, model, content_type, *options)
            try:
                found += calls.read_predictions(await self._send(call))
            except ApiRefused as error:
                raise calls.shifted(error, len(found)) from None
        return found if any((explain, remember, level, from_refit)) else calls.column_of(rows, found)

    async def label(
        self,
        prediction_id: str,
        label: float,
        *,
        weight: float | None = None,
        model: str = "default",
        wait_applied: bool = False,
        key: str | None = None,
    ) -> Observed:
        """Send the label of a remembered prediction. Send many at once as rows of `observe`. Durable on return. The same label
        again is a duplicate. Raises `ApiRefused`; its row has the reason, for example `label_conflict` or `prediction_late`."""
        return await self.observe(
            [calls.label_row(prediction_id, label, weight)], model=model, wait_applied=wait_applied, key=key
        )

    async def explain(self, rows: Rows, *, model: str = "default", content_type: str = NDJSON) -> Any:
        """Return one explained prediction a row."""
        return await self.predict(rows, model=model, content_type=content_type, explain=True)

    async def models(self) -> Any:
        """List the models."""
        return await self._json(calls.models())

    async def model(self, model: str) -> dict[str, Any]:
        """Return configuration, counters, served version, metrics and memory of a model."""
        return await self._object(calls.get_model(model))

    async def create_model(self, model: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create a model, or change its changeable settings. A model that is to follow another may learn the log of that one
        first (`backfill`): this waits for it."""
        return await self._follow(calls.creating(model, document), self._object)

    async def change(self, model: str, **settings: Any) -> dict[str, Any]:
        """Change settings of a model while it learns, for example `gamma=0.3`. They are in effect on return."""
        return await self._object(calls.change_model(model, settings))

    async def path(
        self, model: str = "default", gammas: int = 20, *, top: float | None = None, bottom: float | None = None
    ) -> dict[str, Any]:
        """Return how many weights other penalties would leave, for a grid of penalties from `top` down to `bottom`."""
        return await self._object(calls.get_path(model, gammas, top, bottom))

    async def drop_model(self, model: str) -> None:
        """Drop a model and everything it has learned."""
        await self._send(calls.drop_model(model))

    async def metrics(self, model: str = "default", *, since: int | None = None) -> dict[str, Any]:
        """Return the progressive metrics; with `since`, also the points of the learning curve after that event, as `history`."""
        return await self._object(calls.get_model(model, "/metrics", **({} if since is None else {"since": str(since)})))

    async def weights(self, model: str = "default", *, top: int = 50, prefix: str = "") -> Any:
        """Return the largest weights with their names."""
        return await self._json(calls.get_model(model, "/weights", top=str(top), **({"prefix": prefix} if prefix else {})))

    async def fields(self, model: str = "default", *, proposed: bool = False) -> dict[str, Any]:
        """Return the kinds of fields, and what their values look like.

        proposed : return the kinds that all fields would have if those that are not declared were met
        """
        return await self._object(calls.get_model(model, "/fields", **({"proposed": "true"} if proposed else {})))

    async def shapes(self, model: str = "default", *, of_class: str | None = None) -> dict[str, Any]:
        """Return what each numeric column with a shape, and each pair of them, adds to a margin by value."""
        return await self._object(calls.get_model(model, "/shapes", **({} if of_class is None else {"class": of_class})))

    async def trees(self, model: str = "default") -> dict[str, Any]:
        """Return the trees of a model's curves, with the leaves that its features name."""
        return await self._object(calls.get_model(model, "/trees"))

    async def card(self, model: str = "default", *, form: str = "markdown") -> bytes:
        """Return the card of a model, as Markdown or, with the form `json`, as a document in JSON."""
        return await self._send(calls.get_model(model, "/card", format=form))

    async def snapshots(self, model: str = "default") -> Any:
        """List the retained generations."""
        return await self._json(calls.get_model(model, "/snapshots"))

    async def snapshot_now(self, model: str = "default", *, note: str = "") -> dict[str, Any]:
        """Save a snapshot, which is kept until it is deleted; durable on return."""
        return await self._object(calls.snapshot_now(model, note))

    async def delete_snapshot(self, model: str, generation: int) -> dict[str, Any]:
        """Delete a snapshot that was saved."""
        return await self._object(calls.delete_snapshot(model, generation))

    async def back_up(self) -> dict[str, Any]:
        """Copy the store of the service into its data directory. Returns its path there, `directory`, once it is durable."""
        return await self._object(calls.back_up())

    async def restore(
        self,
        model: str,
        generation: int | None = None,
        *,
        to: To | None = None,
        dry_run: bool = False,
        on_progress: Callable[[float], None] | None = None,
    ) -> dict[str, Any]:
        """Go back to the state after event `to`, or before a moment; or to the content of a generation. Returns what is undone.

        dry_run : only look: with the loss and the number of weights then and now; on_progress : as of `forget`
        """
        return await self._follow(restoring(model, generation, to, dry_run, on_progress), self._object)

    async def forget(
        self,
        subjects: str | Iterable[str],
        *,
        model: str = "default",
        drop_trimmed: bool = False,
        on_progress: Callable[[float], None] | None = None,
    ) -> dict[str, Any]:
        """Have a model learn its log again without the rows of one or more subjects. Returns what changed, once it is served.

        drop_trimmed : of a log that was trimmed, go on from what it still has: without everything before it
        on_progress  : called with the share that is done, from 0 to 1, while it takes long
        """
        return await self._follow(calls.forgetting(subjects, model, drop_trimmed, on_progress), self._object)

    async def jobs(self) -> Any:
        """List the jobs of the service, newest first."""
        return await self._json(calls.jobs())

    async def job(self, job: str) -> dict[str, Any]:
        """Return one job: its progress while its `state` is running, then its result or error."""
        return await self._object(calls.job(job))

    async def cancel_job(self, job: str) -> dict[str, Any]:
        """Ask a job to end before it changes the model."""
        return await self._object(calls.cancel_job(job))

    async def wait_for_job(self, job: str, on_progress: Callable[[float], None] | None = None) -> dict[str, Any]:
        """Wait until a job has ended. Returns its result; raises `ApiConflict` with its error. on_progress : as of `forget`"""
        return await self._follow(calls.ended(job, on_progress), self._object)

    async def export(self, model: str = "default", *, form: str = "binary") -> bytes:
        """Return one checkpoint in its binary form, or, with the form `json`, the served model in readable form."""
        return await self._send(calls.get_model(model, "/export", **({} if form == "binary" else {"format": form})))

    async def import_(self, model: str, content: bytes) -> dict[str, Any]:
        """Replace the content of a model with an exported model."""
        return await self._object(calls.import_model(model, content))

    async def promote(self, model: str, challenger: str, *, force: bool = False) -> dict[str, Any]:
        """Have the model go on as one of its challengers, if that is better beyond doubt or by force."""
        return await self._object(calls.promote(model, challenger, force))

    async def begin_refit(self, model: str = "default", **request: Any) -> dict[str, Any]:
        """Start finding the batch optimum of what a model has learnt; for example `gamma=[10, 1]`, `promote="if_better"`."""
        return await self._object(calls.begin_refit(model, request))

    async def refits(self, model: str = "default") -> Any:
        """List the refits of a model, newest first."""
        return await self._json(calls.get_model(model, "/refits"))

    async def get_refit(self, model: str, refit: str) -> dict[str, Any]:
        """Return one refit: its progress while its `state` is running, then what it found."""
        return await self._object(calls.get_model(model, f"/refits/{refit}"))

    async def cancel_refit(self, model: str, refit: str) -> dict[str, Any]:
        """End a running refit with its best weights so far."""
        return await self._object(calls.cancel_refit(model, refit))

    async def promote_refit(self, model: str, refit: str, *, force: bool = False) -> dict[str, Any]:
        """Have the model go on from a refit, if the gate says PROMOTE or by force."""
        return await self._object(calls.promote_refit(model, refit, force))

    async def regret(self, model: str = "default") -> dict[str, Any]:
        """Return how far a model was from the batch optimum at its last refit."""
        return await self._object(calls.get_model(model, "/regret"))

    async def version(self) -> dict[str, Any]:
        """Return the version document of the service."""
        return await self._object(Call("GET", "/version"))

    async def status(self) -> dict[str, Any]:
        """Return the state of the process that answers, of its models, and what needs attention, in words."""
        return await self._object(Call("GET", "/status"))

    async def changes(self, model: str = "default") -> Any:
        """List what changed the configuration or the state of the model, newest first."""
        return await self._json(calls.get_model(model, "/changes"))

    async def refused(self, model: str = "default") -> dict[str, Any]:
        """Return the rows that the process refused: counts by code, and the last ones with their reasons."""
        return await self._object(calls.get_model(model, "/refused"))

    async def slices(self, model: str = "default") -> dict[str, Any]:
        """Return losses, calibration and label rate by value of the fields in the model's setting `slices`."""
        return await self._object(calls.get_model(model, "/slices"))

    async def weights_history(self, model: str = "default") -> dict[str, Any]:
        """Return the weights of the features in the model's setting `weights_followed`, at moments of the past."""
        return await self._object(calls.get_model(model, "/weights/history"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _json(self, call: Call) -> Any:
        return calls.read_json(await self._send(call))

    async def _follow(self, steps: Generator[Call | float, Any, Result], read: Callable[[Call], Awaitable[Any]]) -> Result:
        """Make the calls of `steps`. What a call answers, as `read` reads it, or its refusal goes into the next step."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await self._sleep(step)
                    step = next(steps)
                    continue
                try:
                    answer = await read(step)
                except ApiRefused as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as done:
            return cast(Result, done.value)

    async def _object(self, call: Call) -> dict[str, Any]:
        answer = await self._json(call)
        return answer if isinstance(answer, dict) else {}

    async def _send(self, call: Call) -> bytes:
        attempts = Attempts(call, self._patience, self._known)
        while True:
            try:
                answer = await self._http.request(
                    call.method,
                    call.path,
                    params=call.params or None,
                    headers=call.headers,
                    content=call.content or None,
                    timeout=call.timeout_s,
                )
            except httpx.TransportError as error:
                await self._sleep(attempts.after_silence(self.url, error))
                continue
            self._known = True
            if answer.is_success:
                return answer.content
            await self._sleep(attempts.after_answer(answer.status_code, answer.headers, answer.content))
