"""The command `riata feed`: sends the messages of a Redis stream or a Kafka topic to a running service, each once, in order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Protocol, Self, TypeVar

import typer

from riata.base.errors import BadInput
from riata.cli.connect import DEFAULT_URL, ModelOption, UrlOption, connected
from riata.cli.feed_rows import VALUE, FieldsSeen, Layout, Message, event_of
from riata.cli.model_setup import HEAD_ROWS
from riata.cli.source import BODY_BYTES
from riata.wire.given import BY_ROW, OtherLabels

if TYPE_CHECKING:
    from types import TracebackType

    from riata.client import Riata
    from riata.client.errors import RowProblem

T = TypeVar("T")

EXAMPLE: Final = """Examples:

- `redis-cli XADD clicks '*' age 41 country de label 1`, then `riata feed redis://localhost:6379/0 --stream clicks`: the fields of
  a message are its features, and `label` is its label.
- `redis-cli XADD rows '*' row '{"features": {"age": 41}, "label": 1}'`, then
  `riata feed redis://localhost:6379/0 --stream rows --field row`: one field holds the row as JSON, or a CloudEvent
  with the row as its data.
- `riata feed kafka://localhost:9092 --stream clicks`: each message of the topic `clicks` is a row as JSON, or a CloudEvent."""
WAIT_MS: Final = 1000  # for new messages; Ctrl-C is answered as fast
RETRY_S: Final = 1.0  # between two attempts while the service or the stream does not answer
SHOWN: Final = 10  # refused messages that are printed
_WAY_OUT: Final = ". No message of the request was fed, and they wait; --rows-per-request 1 has such messages refused one by one"


def feed(
    source: Annotated[
        str, typer.Argument(help="redis://host:port/db, rediss://…, or kafka://host:port,…", envvar="RIATA_FEED_URL")
    ],
    stream: Annotated[str, typer.Option(help="Name of the stream or the topic.")],
    url: UrlOption = DEFAULT_URL,
    model: ModelOption = "default",
    group: Annotated[
        str, typer.Option(help="Consumer group; it remembers what was fed. Created if it does not exist.")
    ] = "riata",
    consumer: Annotated[str, typer.Option(help="Name of this consumer. Keep it from one run to the next.")] = "feeder",
    row_field: Annotated[
        str | None, typer.Option("--field", help="Field that holds the row as JSON. [default: every field is a feature]")
    ] = None,
    label: Annotated[str, typer.Option(help="Field with the label, if every field is a feature.")] = "label",
    category: Annotated[
        list[str] | None, typer.Option(help="A field whose numbers are names, as postal codes, if the model does not know it.")
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            "--event-id",
            metavar="FIELD",
            help="Field, or key of the JSON row, that is the event id. [default: that of the message or CloudEvent]",
        ),
    ] = None,
    start: Annotated[
        str, typer.Option("--from", help="Where a new group begins: 0 for the oldest message, $ for those that come from now on.")
    ] = "0",
    claim_after_s: Annotated[
        int, typer.Option(min=1, help="Take over messages that another consumer of the group has held for so long, in seconds.")
    ] = 300,
    rows_per_request: Annotated[int, typer.Option(min=1, max=10_000, help="Messages sent in one request.")] = 1000,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when there is no message left.")] = False,
    kafka: Annotated[
        list[str] | None, typer.Option(help="Setting of the Kafka client, such as security.protocol=SASL_SSL; may be repeated.")
    ] = None,
) -> None:
    """Send the messages of a Redis stream or a Kafka topic to a running service.

    A message is acknowledged to the stream after the service has it on disk. Its event id is the name of the stream and its id
    there, so a message that is sent again after a crash, of this command, the service or the stream, is a duplicate and counts
    once. While one of them does not answer, the command waits. Refused messages go to the stream NAME.refused, with the reason.

    One consumer keeps the order of a stream, and of each partition of a topic. The password of the Redis, or of SASL, is read
    from the variable RIATA_FEED_PASSWORD.
    """
    from riata.cli.progress import row_progress

    if start not in ("0", "$"):
        raise BadInput(f"--from {start[:64]}: expected 0 or $", "bad_option")
    messages, row_field = _opened(source, stream, group, consumer, start, claim_after_s, row_field, kafka or [])
    if category and row_field is not None:
        raise BadInput("--category: values of rows as JSON have types; declare the kind with `riata fields set`", "bad_option")
    with messages, connected(url) as riata, row_progress("fed") as advance:
        feeder = Feeder(messages, riata, model, Layout(stream, row_field, label, event_id, tuple(category or ())), advance)
        patiently(messages.begin)
        try:
            while feeder.turn(rows_per_request) or not until_empty:
                pass
        finally:
            typer.echo(feeder.tally.text())
    if feeder.tally.refused or feeder.tally.lost:
        raise typer.Exit(1)


def _opened(
    source: str, stream: str, group: str, consumer: str, start: str, claim_after_s: int, field: str | None, kafka: list[str]
) -> tuple[Source, str | None]:
    """Return the source at a URL, and the field of its messages that holds a row. Raises `BadInput`."""
    if not source.startswith("kafka://"):
        from riata.cli.redis_stream import RedisStream

        return RedisStream(source, stream, group, consumer, start, claim_after_s), field
    if field is not None:
        raise BadInput("--field: a message of Kafka has no fields; its value is the row as JSON", "bad_option")
    try:
        from riata.cli.kafka_topic import KafkaTopic
    except ModuleNotFoundError:
        raise BadInput("kafka:// needs confluent-kafka; install it with `pip install 'riata[kafka]'`", "not_installed") from None
    return KafkaTopic(source, stream, group, consumer, start, kafka), VALUE.decode()


class Source(Protocol):
    """Where messages come from: one consumer of a group."""

    def begin(self) -> None:
        """Create the group, or join it."""
        ...

    def read(self, most: int, wait_ms: int) -> list[Message]:
        """Return up to `most` messages in order; empty if there is none that is not fed yet."""
        ...

    def lost(self) -> list[str]:
        """The ids of messages that were delivered and not fed, and are no longer in the stream, since the last call."""
        ...

    def acknowledge(self, messages: Sequence[Message], refused: Mapping[str, str]) -> None:
        """Keep refused messages, by id with the reason, elsewhere; then acknowledge all."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


@dataclass(slots=True)
class Tally:
    """What happened to the messages of this run."""

    accepted: int = 0
    duplicate: int = 0
    refused: int = 0
    tombstones: int = 0
    lost: int = 0
    shown: int = 0
    codes: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """Return the counts as a line, those of refused messages by code."""
        codes = ", ".join(f"{count:,} {code}" for code, count in self.codes.most_common())
        by_code = f" ({codes})" if codes else ""
        empty = f", {self.tombstones} tombstone{'s' * (self.tombstones != 1)}" if self.tombstones else ""
        lost = f", {self.lost} lost: no longer in the stream" if self.lost else ""
        return f"{self.accepted} accepted, {self.duplicate} duplicate, {self.refused} refused{by_code}{empty}{lost}"


@dataclass(slots=True)
class Feeder:
    """Takes messages from the stream, sends them, and acknowledges them once the service has them."""

    messages: Source
    riata: Riata
    model: str
    layout: Layout
    advance: Callable[[int], None]
    tally: Tally = field(default_factory=Tally)
    fields: FieldsSeen | None = None

    def turn(self, most: int) -> bool:
        """Feed up to `most` messages; return whether there was one. A message whose acknowledgement is lost comes again."""
        found = patiently(lambda: self.messages.read(most, WAIT_MS))
        for name in self.messages.lost():
            self.tally.lost += 1
            self._show(f"message {name}: it was delivered, and left the stream before it was fed")
        if not found:
            return False
        if self.fields is None:
            self.fields = patiently(self._fields)
        refused: dict[str, str] = {}
        rows, sent = [], []
        for message in found:
            if message.is_tombstone:
                self.tally.tombstones += 1
                continue
            try:
                rows.append(event_of(message, self.layout, self.fields))
                sent.append(message)
            except ValueError as error:
                refused[message.id] = f"not_a_row: {error}"
        if rows:
            for problem in self._send_all(rows):
                refused[sent[problem.index].id] = f"{problem.code}: {problem.detail}"
        self._report(refused)
        patiently(lambda: self.messages.acknowledge(found, refused))
        self.advance(len(found))
        return True

    def _fields(self) -> FieldsSeen:
        """Ask for the fields of the model; without the right to read them, values are read one by one."""
        from riata.client import ApiRefused
        from riata.client.calls import kinds_in

        own = dict.fromkeys(self.layout.categories, "category")
        if self.layout.row_field is not None:
            return FieldsSeen()
        try:
            answer = self.riata.fields(self.model)
        except ApiRefused:
            return FieldsSeen(own)
        return FieldsSeen(own | kinds_in(answer), answer["meets"] and not answer["wide"])

    def _send_all(self, rows: Sequence[bytes]) -> Iterator[RowProblem]:
        """Send rows in requests that are not too large; yield the problems of those that the service refuses."""
        begin = size = 0
        for at, row in enumerate([*rows, b""]):
            if at == len(rows) or (size and size + len(row) > BODY_BYTES):
                part = rows[begin:at]
                for problem in patiently(lambda: self._send(part)):  # noqa: B023  called at once
                    yield type(problem)(begin + problem.index, problem.code, problem.detail)
                begin, size = at, 0
            size += len(row)

    def _send(self, rows: Sequence[bytes]) -> list[RowProblem]:
        """Send rows; return the problems of those that the service refuses, all of them. Raises what the client raises."""
        from riata.client import ApiRefused
        from riata.client.observing import none_accepted

        by_row = self.tally.accepted + self.tally.duplicate >= HEAD_ROWS  # these were of the right labels
        problems: list[RowProblem] = []
        at = list(range(len(rows)))
        while at:
            try:
                told = self.riata.observe(b"".join(rows[i] for i in at), model=self.model, by_row=by_row)
            except ApiRefused as error:
                if error.code == OtherLabels.code:
                    raise OtherLabels(f"{error.detail.partition(BY_ROW)[0]}{_WAY_OUT}") from None
                told = none_accepted(error)
            self.tally.accepted += told.accepted
            self.tally.duplicate += told.duplicate if len(at) == len(rows) else 0
            named = {at[error.index]: error for error in told.errors if 0 <= error.index < len(at)}
            problems += [type(error)(place, error.code, error.detail) for place, error in named.items()]
            if told.rejected <= len(named) or not named:
                break
            at = [place for place in at if place not in named]  # an answer names the first hundred: ask again about the others
        return problems

    def _report(self, refused: dict[str, str]) -> None:
        self.tally.refused += len(refused)
        for name, why in refused.items():
            self.tally.codes[why.partition(":")[0]] += 1
            self._show(f"message {name}: {why}")

    def _show(self, sentence: str) -> None:
        if self.tally.shown < SHOWN:
            typer.echo(sentence, err=True)
            self.tally.shown += 1


def patiently(work: Callable[[], T]) -> T:
    """Return what `work` returns, as soon as the service and the stream answer. Says once that it waits."""
    from riata.cli.redis_stream import NOT_NOW, REFUSALS
    from riata.client import Unreachable
    from riata.client.errors import ApiBusy, ApiFailed

    told = False
    while True:
        try:
            return work()
        except (*REFUSALS, PermissionError) as error:
            raise BadInput(f"the stream refuses: {error}", "bad_option") from None
        except (*NOT_NOW, ConnectionError, Unreachable, ApiBusy, ApiFailed) as error:
            if not told:
                typer.echo(f"waiting: {error}", err=True)
                told = True
            time.sleep(RETRY_S)
