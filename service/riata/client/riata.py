"""The clients: `Riata` blocks, `AsyncRiata` is for asyncio. Their methods are the same, and written once.

Only `Riata` and `AsyncRiata` do I/O: they make the requests that the steps of a method yield, and wait in between.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar
from urllib.parse import quote

import httpx

from riata.base.errors import BadInput
from riata.client.calls import (
    BINARY,
    NDJSON,
    TIMEOUT_S,
    Asked,
    Attempts,
    Call,
    Observed,
    Patience,
    Rows,
    Sent,
    Steps,
    To,
    at,
    bearer,
    creating,
    ended,
    forgetting,
    job_at,
    read_json,
    read_object,
    restoring,
)
from riata.client.observing import observing, predicting
from riata.wire.tables import Roles

BACKUP_S_MAX: Final = 86_400.0
# What methods return: these values from the blocking client, coroutines of them from the other one.
Seen = TypeVar("Seen")  # an `Observed`
Object = TypeVar("Object")  # a JSON object
Json = TypeVar("Json")
Content = TypeVar("Content")  # bytes
Done = TypeVar("Done")  # None


class Methods(Generic[Seen, Object, Json, Content, Done]):
    """The methods of both clients."""

    def __init__(self, url: str, patience: Patience | None) -> None:
        self.url = url.rstrip("/")
        self._patience = patience or Patience()
        self._known = False

    def observe(
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
    ) -> Seen:
        """Send labelled rows: examples, a body in bytes of `content_type`, or a table. Durable on return.

        A table is a DataFrame of pandas or polars, an Arrow table, a dictionary of columns, or flat dictionaries. `label`,
        `weight`, `event_id` and `subject` name its columns, those in `drop` are left out, and every other column is a feature.
        `positive` is the value of the label that means 1; with `classes` labels are names of classes. NaN means absent. More
        than 10,000 rows are several requests. If one fails, those before it are accepted; the same call again with the same
        `key` sends nothing twice. With a `source`, the name of the rows, each has an event id by its values: what was sent before
        is a duplicate, also in a table that grew or was corrected. `ids` are those of the rows of a body, 16 bytes each.

        Rows that are refused are in `errors` with row and column. Raises `BadInput` or `ApiRefused` if no row is accepted, or
        with `atomic` if one is not; `MostlyRefused` if more are refused than accepted; `OtherLabels` or `ApiRefused` (code
        `other_labels`), before anything is accepted, if all labels are those of another setting, unless `by_row`.
        """
        sent = Sent(model, content_type, key or uuid.uuid4().hex, wait_applied, atomic, ids, by_row)
        roles = Roles(label, weight, event_id, frozenset(drop), positive=positive, classes=classes, subject=subject)
        return self._run(observing(rows, roles, sent, source, self._send))

    def predict(
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
    ) -> Json:
        """Return one prediction a row, in order. Takes what `observe` takes; a column named by `label` or `drop` is not sent.

        For a DataFrame it is a column: the probabilities, or the margins of a model without probabilities. `explain` adds every
        feature's contribution. With `remember` each has a `prediction_id`, and the service keeps its features until `label`.
        With `level` each has the `interval` of its probability, if the learner keeps a posterior. `from_refit` answers with the
        weights of the last refit. With one of these, the predictions of a DataFrame are dictionaries too.
        """
        asked = Asked(model, content_type, explain, min_seq, remember, level, from_refit)
        return self._run(predicting(rows, Roles(drop=frozenset(drop), ignored=frozenset({label})), asked, self._send))

    def label(
        self,
        prediction_id: str,
        label: float,
        *,
        weight: float | None = None,
        model: str = "default",
        wait_applied: bool = False,
        key: str | None = None,
    ) -> Seen:
        """Send the label of a remembered prediction. Send many at once as rows of `observe`. Durable on return. The same label
        again is a duplicate. Raises `ApiRefused`; its row has the reason, for example `label_conflict` or `prediction_late`."""
        row = {"prediction_id": prediction_id, "label": label} | ({} if weight is None else {"weight": weight})
        return self.observe([row], model=model, wait_applied=wait_applied, key=key)

    def explain(self, rows: Rows, *, model: str = "default", content_type: str = NDJSON) -> Json:
        """Return one explained prediction a row."""
        return self.predict(rows, model=model, content_type=content_type, explain=True)

    def models(self) -> Json:
        """List the models."""
        return self._json("GET", "/models")

    def model(self, model: str) -> Object:
        """Return configuration, counters, served version, metrics and memory of a model."""
        return self._object("GET", at(model))

    def create_model(self, model: str, document: Mapping[str, Any]) -> Object:
        """Create a model, or change its changeable settings. A model that is to follow another may learn the log of that one
        first (`backfill`): this waits for it."""
        return self._run(creating(model, document, self._send))

    def change(self, model: str, **settings: Any) -> Object:
        """Change settings of a model while it learns, for example `gamma=0.3`. They are in effect on return."""
        return self._object("PATCH", at(model), document=settings)

    def path(self, model: str = "default", gammas: int = 20, *, top: float | None = None, bottom: float | None = None) -> Object:
        """Return how many weights other penalties would leave, for a grid of penalties from `top` down to `bottom`."""
        return self._object("GET", at(model, "/path"), {"gammas": gammas, "from": _float(top), "to": _float(bottom)})

    def drop_model(self, model: str) -> Done:
        """Drop a model and everything it has learned."""
        return self._run(self._answer("DELETE", at(model), lambda _: None, {"confirm": model}, repeatable=False))

    def metrics(self, model: str = "default", *, since: int | None = None) -> Object:
        """Return the progressive metrics; with `since`, also the points of the learning curve after that event, as `history`."""
        return self._object("GET", at(model, "/metrics"), {"since": since})

    def weights(self, model: str = "default", *, top: int = 50, prefix: str = "") -> Json:
        """Return the largest weights with their names."""
        return self._json("GET", at(model, "/weights"), {"top": top, "prefix": prefix or None})

    def fields(self, model: str = "default", *, proposed: bool = False) -> Object:
        """Return the kinds of fields, and what their values look like.

        proposed : return the kinds that all fields would have if those that are not declared were met
        """
        return self._object("GET", at(model, "/fields"), {"proposed": proposed})

    def shapes(self, model: str = "default", *, of_class: str | None = None) -> Object:
        """Return what each numeric column with a shape, and each pair of them, adds to a margin by value."""
        return self._object("GET", at(model, "/shapes"), {"class": of_class})

    def trees(self, model: str = "default") -> Object:
        """Return the trees of a model's curves, with the leaves that its features name."""
        return self._object("GET", at(model, "/trees"))

    def card(self, model: str = "default", *, form: str = "markdown") -> Content:
        """Return the card of a model, as Markdown or, with the form `json`, as a document in JSON."""
        return self._content("GET", at(model, "/card"), {"format": form})

    def snapshots(self, model: str = "default") -> Json:
        """List the retained generations."""
        return self._json("GET", at(model, "/snapshots"))

    def snapshot_now(self, model: str = "default", *, note: str = "") -> Object:
        """Save a snapshot, which is kept until it is deleted; durable on return."""
        return self._object("POST", at(model, "/snapshots"), document={"note": note}, repeatable=False)

    def delete_snapshot(self, model: str, generation: int) -> Object:
        """Delete a snapshot that was saved."""
        return self._object("DELETE", at(model, f"/snapshots/{generation}"), repeatable=False)

    def back_up(self) -> Object:
        """Copy the store of the service into its data directory. Returns its path there, `directory`, once it is durable."""
        return self._object("POST", "/backup", repeatable=False, timeout_s=BACKUP_S_MAX)

    def restore(
        self,
        model: str,
        generation: int | None = None,
        *,
        to: To | None = None,
        dry_run: bool = False,
        on_progress: Callable[[float], None] | None = None,
    ) -> Object:
        """Go back to the state after event `to` or before a moment, or to a generation. Returns what is undone; with `dry_run`
        changes nothing."""
        return self._run(restoring(model, generation, to, dry_run, on_progress, self._send))

    def forget(
        self,
        subjects: str | Iterable[str],
        *,
        model: str = "default",
        drop_trimmed: bool = False,
        on_progress: Callable[[float], None] | None = None,
    ) -> Object:
        """Have a model learn its log again without the rows of one or more subjects. Returns what changed, once it is served.

        drop_trimmed : of a log that was trimmed, go on from what it has; on_progress : called with the share done, 0 to 1
        """
        return self._run(forgetting(subjects, model, drop_trimmed, on_progress, self._send))

    def jobs(self) -> Json:
        """List the jobs of the service, newest first."""
        return self._json("GET", "/jobs")

    def job(self, job: str) -> Object:
        """Return one job: its progress while its `state` is running, then its result or error."""
        return self._object("GET", job_at(job))

    def cancel_job(self, job: str) -> Object:
        """Ask a job to end before it changes the model."""
        return self._object("DELETE", job_at(job), repeatable=False)

    def wait_for_job(self, job: str, on_progress: Callable[[float], None] | None = None) -> Object:
        """Wait until a job has ended. Returns its result; raises `ApiConflict` with its error. on_progress : as of `forget`"""
        return self._run(ended(job, on_progress, self._send))

    def export(self, model: str = "default", *, form: str = "binary") -> Content:
        """Return one checkpoint in its binary form, or, with the form `json`, the served model in readable form."""
        return self._content("GET", at(model, "/export"), {"format": None if form == "binary" else form})

    def import_(self, model: str, content: bytes) -> Object:
        """Replace the content of a model with an exported model."""
        return self._object("POST", at(model, "/import"), headers={"content-type": BINARY}, content=content, repeatable=False)

    def promote(self, model: str, challenger: str, *, force: bool = False) -> Object:
        """Have the model go on as one of its challengers, if that is better beyond doubt or by force."""
        return self._object("POST", at(model, "/promote"), document={"challenger": challenger, "force": force}, repeatable=False)

    def begin_refit(self, model: str = "default", **request: Any) -> Object:
        """Start finding the batch optimum of what a model has learnt; for example `gamma=[10, 1]`, `promote="if_better"`."""
        return self._object("POST", at(model, "/refits"), document=request, repeatable=False)

    def refits(self, model: str = "default") -> Json:
        """List the refits of a model, newest first."""
        return self._json("GET", at(model, "/refits"))

    def get_refit(self, model: str, refit: str) -> Object:
        """Return one refit: its progress while its `state` is running, then what it found."""
        return self._object("GET", at(model, f"/refits/{refit}"))

    def cancel_refit(self, model: str, refit: str) -> Object:
        """End a running refit with its best weights so far."""
        return self._object("DELETE", at(model, f"/refits/{quote(refit, safe='')}"))

    def promote_refit(self, model: str, refit: str, *, force: bool = False) -> Object:
        """Have the model go on from a refit, if the gate says PROMOTE or by force."""
        return self._object(
            "POST", at(model, f"/refits/{quote(refit, safe='')}/promote"), document={"force": force}, repeatable=False
        )

    def regret(self, model: str = "default") -> Object:
        """Return how far a model was from the batch optimum at its last refit."""
        return self._object("GET", at(model, "/regret"))

    def version(self) -> Object:
        """Return the version document of the service."""
        return self._object("GET", "/version")

    def status(self) -> Object:
        """Return the state of the process that answers, of its models, and what needs attention, in words."""
        return self._object("GET", "/status")

    def changes(self, model: str = "default") -> Json:
        """List what changed the configuration or the state of the model, newest first."""
        return self._json("GET", at(model, "/changes"))

    def refused(self, model: str = "default") -> Object:
        """Return the rows that the process refused: counts by code, and the last ones with their reasons."""
        return self._object("GET", at(model, "/refused"))

    def slices(self, model: str = "default") -> Object:
        """Return losses, calibration and label rate by value of the fields in the model's setting `slices`."""
        return self._object("GET", at(model, "/slices"))

    def weights_history(self, model: str = "default") -> Object:
        """Return the weights of the features in the model's setting `weights_followed`, at moments of the past."""
        return self._object("GET", at(model, "/weights/history"))

    def _object(self, method: str, path: str, params: Mapping[str, Any] | None = None, **more: Any) -> Object:
        return self._run(self._answer(method, path, read_object, params, **more))

    def _json(self, method: str, path: str, params: Mapping[str, Any] | None = None) -> Json:
        return self._run(self._answer(method, path, read_json, params))

    def _content(self, method: str, path: str, params: Mapping[str, Any] | None = None) -> Content:
        return self._run(self._answer(method, path, bytes, params))

    def _answer(
        self, method: str, path: str, read: Callable[[bytes], Any], params: Mapping[str, Any] | None, **more: Any
    ) -> Steps[Any]:
        return read((yield from self._send(Call(method, path, params or {}, **more))))

    def _send(self, call: Call) -> Steps[bytes]:
        """Make a request, again as long as `Patience` allows. Returns the body of the answer. Raises as the methods do."""
        attempts, request = Attempts(call, self._patience, self._known), call.request()
        while True:
            try:
                answer = yield request
            except httpx.TransportError as error:
                yield attempts.after_silence(self.url, error)
                continue
            self._known = True
            if answer.is_success:
                return bytes(answer.content)
            yield attempts.after_answer(answer.status_code, answer.headers, answer.content)

    def _run(self, steps: Steps[Any]) -> Any:
        """Make the requests of `steps`, wait in between, and return the result; or a coroutine that does."""
        raise NotImplementedError


def _float(end: float | None) -> float | None:
    return None if end is None else float(end)


@contextmanager
def _valid(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.InvalidURL as error:
        raise BadInput(f"{url}: not a URL: {error}", "bad_url") from None


class Riata(Methods[Observed, dict[str, Any], Any, bytes, None]):
    """One service at `url`. Keeps connections open; close it, or use it in a `with` statement.

    `api_key` is sent with every request. Raises `BadInput` if `url` is not a URL or `api_key` is not a key.
    Methods raise the errors of `riata.client.errors`. Requests to a busy service are retried within `patience`. Every `observe`
    carries an Idempotency-Key, so a retry after a lost answer applies nothing twice.
    """

    def __init__(
        self,
        url: str,
        *,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
        api_key: str | None = None,
    ) -> None:
        super().__init__(url, patience)
        self._sleep = sleep
        with _valid(url):
            self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, transport=transport, headers=bearer(api_key))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, steps: Steps[Any]) -> Any:
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    self._sleep(step)
                    step = next(steps)
                    continue
                try:
                    answer = self._http.request(**step)
                except httpx.TransportError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as done:
            return done.value


class AsyncRiata(
    Methods[
        Coroutine[Any, Any, Observed],
        Coroutine[Any, Any, dict[str, Any]],
        Coroutine[Any, Any, Any],
        Coroutine[Any, Any, bytes],
        Coroutine[Any, Any, None],
    ]
):
    """As `Riata`, for asyncio: use it in an `async with` statement, and await what its methods return."""

    def __init__(
        self,
        url: str,
        *,
        patience: Patience | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
        api_key: str | None = None,
    ) -> None:
        super().__init__(url, patience)
        self._sleep = sleep
        with _valid(url):
            self._http = httpx.AsyncClient(base_url=self.url, timeout=TIMEOUT_S, transport=transport, headers=bearer(api_key))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _run(self, steps: Steps[Any]) -> Any:
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await self._sleep(step)
                    step = next(steps)
                    continue
                try:
                    answer = await self._http.request(**step)
                except httpx.TransportError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as done:
            return done.value
