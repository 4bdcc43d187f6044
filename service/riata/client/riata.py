"""The blocking client."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import httpx

from riata.base.clock import said
from riata.base.errors import BadInput
from riata.client import calls
from riata.client.calls import JSON, NDJSON, Attempts, Call, Observed, Patience, Rows, Steps, ended, restore
from riata.client.errors import ApiNotFound, ApiRefused, Unreachable
from riata.client.observing import by_kinds, observing
from riata.wire.tables import Roles

Result = TypeVar("Result")


def new_key() -> str:
    """Return a random Idempotency-Key."""
    return uuid.uuid4().hex


class Riata:
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
        self.url = url.rstrip("/")
        self._patience = patience or Patience()
        self._sleep = sleep
        self._known = False
        try:
            self._http = httpx.Client(
                base_url=self.url, timeout=calls.TIMEOUT_S, transport=transport, headers=calls.bearer(api_key)
            )
        except httpx.InvalidURL as error:
            raise BadInput(f"{url}: not a URL: {error}", "bad_url") from None

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
    ) -> Observed:
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
        sent = calls.Sent(model, content_type, key or new_key(), wait_applied, atomic, ids, by_row)
        roles = Roles(label, weight, event_id, frozenset(drop), positive=positive, classes=classes, subject=subject)
        return self._follow(observing(rows, roles, sent, source), self._send)

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
    ) -> Any:
        """Return one prediction a row, in order. Takes what `observe` takes; a column named by `label` or `drop` is not sent.

        For a DataFrame it is a column: the probabilities, or the margins of a model without probabilities. `explain` adds every
        feature's contribution. With `remember` each has a `prediction_id`, and the service keeps its features until `label`.
        With `level` each has the `interval` of its probability, if the learner keeps a posterior. `from_refit` answers with the
        weights of the last refit. With one of these, the predictions of a DataFrame are dictionaries too.
        """
        options = (explain, min_seq, remember, level, from_refit)
        if calls.is_body(rows, content_type):
            return calls.read_predictions(self._send(calls.predict(rows, model, content_type, *options)))
        found: list[dict[str, Any]] = []
        roles = self._follow(by_kinds(rows, Roles(drop=frozenset(drop), ignored=frozenset({label})), model), self._send)
        for part in calls.bodies_of(rows, roles):
            call = calls.predict(part, model, content_type, *options)
            try:
                found += calls.read_predictions(self._send(call))
            except ApiRefused as error:
                raise calls.shifted(error, len(found)) from None
        return found if any((explain, remember, level, from_refit)) else calls.column_of(rows, found)

    def label(
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
        return self.observe([calls.label_row(prediction_id, label, weight)], model=model, wait_applied=wait_applied, key=key)

    def explain(self, rows: Rows, *, model: str = "default", content_type: str = NDJSON) -> Any:
        """Return one explained prediction a row."""
        return self.predict(rows, model=model, content_type=content_type, explain=True)

    def models(self) -> Any:
        """List the models."""
        return self._json(calls.models())

    def model(self, model: str) -> dict[str, Any]:
        """Return configuration, counters, served version, metrics and memory of a model."""
        return self._object(calls.get_model(model))

    def create_model(self, model: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create a model, or change its changeable settings. A model that is to follow another may learn the log of that one
        first (`backfill`): this waits for it."""
        return self._follow(calls.creating(model, document), self._object)

    def change(self, model: str, **settings: Any) -> dict[str, Any]:
        """Change settings of a model while it learns, for example `gamma=0.3`. They are in effect on return."""
        return self._object(calls.change_model(model, settings))

    def path(
        self, model: str = "default", gammas: int = 20, *, top: float | None = None, bottom: float | None = None
    ) -> dict[str, Any]:
        """Return how many weights other penalties would leave, for a grid of penalties from `top` down to `bottom`."""
        return self._object(calls.get_path(model, gammas, top, bottom))

    def drop_model(self, model: str) -> None:
        """Drop a model and everything it has learned."""
        self._send(calls.drop_model(model))

    def metrics(self, model: str = "default", *, since: int | None = None) -> dict[str, Any]:
        """Return the progressive metrics; with `since`, also the points of the learning curve after that event, as `history`."""
        return self._object(calls.get_model(model, "/metrics", **({} if since is None else {"since": str(since)})))

    def weights(self, model: str = "default", *, top: int = 50, prefix: str = "") -> Any:
        """Return the largest weights with their names."""
        return self._json(calls.get_model(model, "/weights", top=str(top), **({"prefix": prefix} if prefix else {})))

    def fields(self, model: str = "default", *, proposed: bool = False) -> dict[str, Any]:
        """Return the kinds of fields, and what their values look like.

        proposed : return the kinds that all fields would have if those that are not declared were met
        """
        return self._object(calls.get_model(model, "/fields", **({"proposed": "true"} if proposed else {})))

    def shapes(self, model: str = "default", *, of_class: str | None = None) -> dict[str, Any]:
        """Return what each numeric column with a shape, and each pair of them, adds to a margin by value."""
        return self._object(calls.get_model(model, "/shapes", **({} if of_class is None else {"class": of_class})))

    def trees(self, model: str = "default") -> dict[str, Any]:
        """Return the trees of a model's curves, with the leaves that its features name."""
        return self._object(calls.get_model(model, "/trees"))

    def card(self, model: str = "default", *, form: str = "markdown") -> bytes:
        """Return the card of a model, as Markdown or, with the form `json`, as a document in JSON."""
        return self._send(calls.get_model(model, "/card", format=form))

    def snapshots(self, model: str = "default") -> Any:
        """List the retained generations."""
        return self._json(calls.get_model(model, "/snapshots"))

    def snapshot_now(self, model: str = "default", *, note: str = "") -> dict[str, Any]:
        """Save a snapshot, which is kept until it is deleted; durable on return."""
        return self._object(calls.snapshot_now(model, note))

    def delete_snapshot(self, model: str, generation: int) -> dict[str, Any]:
        """Delete a snapshot that was saved."""
        return self._object(calls.delete_snapshot(model, generation))

    def back_up(self) -> dict[str, Any]:
        """Copy the store of the service into its data directory. Returns its path there, `directory`, once it is durable."""
        return self._object(calls.back_up())

    def restore(
        self,
        model: str,
        generation: int | None = None,
        *,
        to: To | None = None,
        dry_run: bool = False,
        on_progress: Callable[[float], None] | None = None,
    ) -> dict[str, Any]:
        """Go back to the state after event `to` or before a moment, or to a generation. Returns what is undone; with `dry_run`
        changes nothing."""
        return self._follow(restoring(model, generation, to, dry_run, on_progress), self._object)

    def forget(
        self,
        subjects: str | Iterable[str],
        *,
        model: str = "default",
        drop_trimmed: bool = False,
        on_progress: Callable[[float], None] | None = None,
    ) -> dict[str, Any]:
        """Have a model learn its log again without the rows of one or more subjects. Returns what changed, once it is served.

        drop_trimmed : of a log that was trimmed, go on from what it has; on_progress : called with the share done, 0 to 1
        """
        return self._follow(calls.forgetting(subjects, model, drop_trimmed, on_progress), self._object)

    def jobs(self) -> Any:
        """List the jobs of the service, newest first."""
        return self._json(calls.jobs())

    def job(self, job: str) -> dict[str, Any]:
        """Return one job: its progress while its `state` is running, then its result or error."""
        return self._object(calls.job(job))

    def cancel_job(self, job: str) -> dict[str, Any]:
        """Ask a job to end before it changes the model."""
        return self._object(calls.cancel_job(job))

    def wait_for_job(self, job: str, on_progress: Callable[[float], None] | None = None) -> dict[str, Any]:
        """Wait until a job has ended. Returns its result; raises `ApiConflict` with its error. on_progress : as of `forget`"""
        return self._follow(calls.ended(job, on_progress), self._object)

    def export(self, model: str = "default", *, form: str = "binary") -> bytes:
        """Return one checkpoint in its binary form, or, with the form `json`, the served model in readable form."""
        return self._send(calls.get_model(model, "/export", **({} if form == "binary" else {"format": form})))

    def import_(self, model: str, content: bytes) -> dict[str, Any]:
        """Replace the content of a model with an exported model."""
        return self._object(calls.import_model(model, content))

    def promote(self, model: str, challenger: str, *, force: bool = False) -> dict[str, Any]:
        """Have the model go on as one of its challengers, if that is better beyond doubt or by force."""
        return self._object(calls.promote(model, challenger, force))

    def begin_refit(self, model: str = "default", **request: Any) -> dict[str, Any]:
        """Start finding the batch optimum of what a model has learnt; for example `gamma=[10, 1]`, `promote="if_better"`."""
        return self._object(calls.begin_refit(model, request))

    def refits(self, model: str = "default") -> Any:
        """List the refits of a model, newest first."""
        return self._json(calls.get_model(model, "/refits"))

    def get_refit(self, model: str, refit: str) -> dict[str, Any]:
        """Return one refit: its progress while its `state` is running, then what it found."""
        return self._object(calls.get_model(model, f"/refits/{refit}"))

    def cancel_refit(self, model: str, refit: str) -> dict[str, Any]:
        """End a running refit with its best weights so far."""
        return self._object(calls.cancel_refit(model, refit))

    def promote_refit(self, model: str, refit: str, *, force: bool = False) -> dict[str, Any]:
        """Have the model go on from a refit, if the gate says PROMOTE or by force."""
        return self._object(calls.promote_refit(model, refit, force))

    def regret(self, model: str = "default") -> dict[str, Any]:
        """Return how far a model was from the batch optimum at its last refit."""
        return self._object(calls.get_model(model, "/regret"))

    def version(self) -> dict[str, Any]:
        """Return the version document of the service."""
        return self._object(Call("GET", "/version"))

    def status(self) -> dict[str, Any]:
        """Return the state of the process that answers, of its models, and what needs attention, in words."""
        return self._object(Call("GET", "/status"))

    def changes(self, model: str = "default") -> Any:
        """List what changed the configuration or the state of the model, newest first."""
        return self._json(calls.get_model(model, "/changes"))

    def refused(self, model: str = "default") -> dict[str, Any]:
        """Return the rows that the process refused: counts by code, and the last ones with their reasons."""
        return self._object(calls.get_model(model, "/refused"))

    def slices(self, model: str = "default") -> dict[str, Any]:
        """Return losses, calibration and label rate by value of the fields in the model's setting `slices`."""
        return self._object(calls.get_model(model, "/slices"))

    def weights_history(self, model: str = "default") -> dict[str, Any]:
        """Return the weights of the features in the model's setting `weights_followed`, at moments of the past."""
        return self._object(calls.get_model(model, "/weights/history"))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _json(self, call: Call) -> Any:
        return calls.read_json(self._send(call))

    def _follow(self, steps: Generator[Call | float, Any, Result], read: Callable[[Call], Any]) -> Result:
        """Make the calls of `steps`. What a call answers, as `read` reads it, or its refusal goes into the next step."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    self._sleep(step)
                    step = next(steps)
                    continue
                try:
                    answer = read(step)
                except ApiRefused as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as done:
            return cast(Result, done.value)

    def _object(self, call: Call) -> dict[str, Any]:
        answer = self._json(call)
        return answer if isinstance(answer, dict) else {}

    def _send(self, call: Call) -> bytes:
        attempts = Attempts(call, self._patience, self._known)
        while True:
            try:
                answer = self._http.request(
                    call.method,
                    call.path,
                    params=call.params or None,
                    headers=call.headers,
                    content=call.content or None,
                    timeout=call.timeout_s,
                )
            except httpx.TransportError as error:
                self._sleep(attempts.after_silence(self.url, error))
                continue
            self._known = True
            if answer.is_success:
                return answer.content
            self._sleep(attempts.after_answer(answer.status_code, answer.headers, answer.content))


# Going back to an event or a moment: the requests of both clients. Does no I/O.


To = int | str | datetime


def restore_to(model: str, to: To, dry_run: bool) -> Call:
    """Go back to an event or a moment. It is an event of the log, so the call is not repeatable."""
    if isinstance(to, datetime):
        to = said(to.astimezone())
    content = json.dumps({"to": to, **({"dry_run": True} if dry_run else {})}).encode()
    path = restore(model, 1).path
    return Call("POST", path, {}, {"content-type": JSON}, content, repeatable=dry_run)


def restoring(
    model: str, generation: int | None, to: To | None, dry_run: bool, on_progress: Callable[[float], None] | None
) -> Steps:
    """Go back, and wait until that is done. Raises `BadInput` unless one of generation and to is given, `ApiConflict` if the job
    fails, `Unreachable` if the service was restarted meanwhile."""
    if (generation is None) == (to is None) or (dry_run and to is None):
        raise BadInput(
            "restore: give either a snapshot, or `to` with an event or a moment; `dry_run` goes with `to`", "bad_option"
        )
    answer: dict[str, Any]
    if to is None:
        answer = yield restore(model, generation or 0)
        return answer
    answer = yield restore_to(model, to, dry_run)
    if "state" not in answer:
        return answer
    try:
        return (yield from ended(answer["id"], on_progress))
    except ApiNotFound:
        raise Unreachable(
            f"the service was restarted before model {model} had gone back; GET /models/{model}/changes says whether it did"
        ) from None
