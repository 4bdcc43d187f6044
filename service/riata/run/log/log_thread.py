"""The thread that owns the store, with group commit: requests that wait together are appended together, under one fsync.

submit(append, done) ──┐
submit(append, done) ──┼──►  one transaction  ──►  on_logged(record …)  ──►  done(appended) each
gather(make) ──────────┤  what `make` returns then
call(work) ────────────┘            then          work(store)

Rows of many models that were gathered together are logged by one record. They get into the logs of their models, and to
`on_logged`, after about `left_s`, or when no request comes.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from riata.base.errors import RiataError, StoreFailed, Unavailable
from riata.store.store import DISTRIBUTED_MAX, Append, Appended, JointRows, JointStore, Store, joint
from riata.wire.parse import KEY_BYTES

T = TypeVar("T")
Done = Callable[[Appended | RiataError], None]
Request = tuple[Append, Done]


@dataclass(frozen=True, slots=True)
class Together:
    """Rows of several models for one record. done : is called with the last event of each model, or the error"""

    rows: JointRows
    done: Callable[[list[int] | RiataError], None]


Gather = Callable[[], Sequence[Request | Together]]  # must not raise

GROUP_REQUESTS_MAX = 512  # bounds the time that the first request of a group waits for the last
GROUP_FEATURES_MAX = 4_000_000  # about 48 MB of log in one transaction
IDLE_S = 0.5  # how long the store must be idle before its housekeeping
QUIET_S = 0.02  # rows of joint records are left no longer if no request has come for so long
LEFT_FEATURES_MAX = 2_000_000  # of the rows that are left, about 24 MB
REOPEN_S = 1.0  # between two attempts to open a store that does not answer


@dataclass(frozen=True, slots=True)
class _Call:
    work: Callable[[Store], Any]
    future: Future[Any]


class LogThread:
    """Owner of the store. `on_logged` is called in this thread with what a group has logged, before the requests are answered."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        on_logged: Callable[[Sequence[tuple[Append, Appended]]], None],
        on_fatal: Callable[[str], None],
        patient: bool = False,
        appends: bool = True,
        left_s: float = 0.0,
    ) -> None:
        """appends: whether rows are accepted, so that the key of the digests of their subjects is needed

        left_s : for about how long rows of joint records are left, so that a model has several
        """
        self._open_store = open_store
        self._on_logged = on_logged
        self._on_fatal = on_fatal
        self._appends = appends
        self._left_s = left_s
        self.subject_key = b""  # set when the store is opened
        self._patient = patient  # retry a store that does not answer at the start, and refuse requests meanwhile
        self._queue: queue.SimpleQueue[Gather | _Call | None] = queue.SimpleQueue()
        self.gathering: Sized = ()  # requests that wait to be gathered
        self.followers: dict[str, tuple[str, ...]] = {}  # by leader; before `start` and in the store's thread only
        self._opened: Future[None] = Future()
        self._joint: JointStore | None = None  # the store, once it is open, if it logs rows of several models by one record
        self._asked: deque[tuple[str, Callable[[], None]]] = deque()  # see `distributed`
        self._distributed_s = 0.0  # when rows were last put into the logs of their models, or began to be left, monotonic
        self._thread = threading.Thread(target=self._run, name="riata-store", daemon=True)

    def start(self) -> Future[None]:
        """Open the store; the future is set when that succeeds or fails. If the log thread is patient, that can take long."""
        self._thread.start()
        return self._opened

    def submit(self, append: Append, done: Done) -> None:
        """Append in the next group; `done` is called in the store's thread, once."""
        self._queue.put(lambda: ((append, done),))

    def gather(self, make: Gather) -> None:
        """Append in the next group what `make` returns when that group is assembled. `make` is called in the store's thread."""
        self._queue.put(make)

    def call(self, work: Callable[[Store], T]) -> Future[T]:
        """Run `work` in the store's thread, between two groups."""
        future: Future[T] = Future()
        self._queue.put(_Call(work, future))
        return future

    @property
    def joins(self) -> bool:
        """Whether rows of several models may be logged together."""
        return self._joint is not None

    def distributed(self, model: str, then: Callable[[], None]) -> None:
        """Call `then` once `on_logged` was called with every row of a model that is logged. From any thread."""
        if self._joint is None or model not in self._joint.left:
            then()
            return
        self._asked.append((model, then))
        if len(self._asked) == 1:  # otherwise the call under way takes it too: one transaction for all that ask at once
            self.call(self._distribute_asked)

    def _distribute_asked(self, _store: Store) -> None:
        asked = []
        while self._asked:
            asked.append(self._asked.popleft())
        if self._joint is not None:
            self._joint.distribute([model for model, _ in asked])
        for _, then in asked:
            then()

    async def all_distributed(self) -> None:
        """Return once `on_logged` was called with every row that is logged."""
        if (joined := self._joint) is not None and joined.left:
            await asyncio.wrap_future(self.call(lambda _store: joined.distribute_all()))

    def append_now(self, store: Store, several: Sequence[Append]) -> list[Appended | RiataError]:
        """Append as one group, at once. Only inside of the work of `call`, for what depends on what the work has read."""
        answers: list[Appended | RiataError] = []
        self._append(store, [(append, answers.append) for append in several])
        return answers

    def waiting(self) -> int:
        """Return how many requests and calls wait, including those that wait to be gathered."""
        return self._queue.qsize() + len(self.gathering)

    def close(self) -> None:
        """Execute what waits, close the store, end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            store = self._open()
        except BaseException as error:  # the caller of `start` gets the error
            self._opened.set_exception(error)
            return
        if store is None:
            return
        self._opened.set_result(None)
        try:
            while self._turn(store):
                pass
        except Exception as error:  # the thread's outer edge: nothing may be logged any more
            self._on_fatal(f"the store's thread failed: {error!r}")
        finally:
            store.close()

    def _open(self) -> Store | None:
        """Open the store; None if the thread is closed first."""
        while True:
            try:
                store = self._open_store()
                if (joined := joint(store)) is not None:
                    joined.on_distributed = self._on_logged
                    self._joint = joined
                if self._appends:
                    self.subject_key = store.subject_key(secrets.token_bytes(KEY_BYTES))
                return store
            except Unavailable as error:
                if not self._patient or isinstance(error, StoreFailed):
                    raise
                if not self._refuse(error):
                    return None

    def _refuse(self, error: Unavailable) -> bool:
        """Refuse requests that arrive during REOPEN_S; return false if the thread is to end."""
        deadline = time.monotonic() + REOPEN_S
        while (left := deadline - time.monotonic()) > 0:
            try:
                item = self._queue.get(timeout=left)
            except queue.Empty:
                break
            if item is None:
                return False
            if not isinstance(item, _Call):
                for request in item():
                    _answer(request, error)
            elif item.future.set_running_or_notify_cancel():
                item.future.set_exception(error)
        return True

    def _turn(self, store: Store) -> bool:
        """Execute what waits now; return false if the thread is to end."""
        is_left = self._joint is not None and bool(self._joint.left)
        try:
            first = self._queue.get(timeout=QUIET_S if is_left else IDLE_S)
        except queue.Empty:
            self._serve(store, _Call(lambda owned: self._distribute() if is_left else owned.idle(), Future()))
            return True
        group: list[Request] = []
        features = 0
        item: Gather | _Call | None = first
        while item is not None and not isinstance(item, _Call):
            for request in item():
                if isinstance(request, Together):
                    self._append_together(request)
                else:
                    group.append(request)
                    features += 0 if request[0].batch is None else len(request[0].batch.hash)
            if len(group) >= GROUP_REQUESTS_MAX or features >= GROUP_FEATURES_MAX or self._queue.empty():
                break
            item = self._queue.get()
        self._append(store, group)
        if item is None:
            return False
        if isinstance(item, _Call):
            return self._serve(store, item)
        self._look_after(store)
        return True

    def _look_after(self, store: Store) -> None:
        """Do what is due after a group."""
        if (joined := self._joint) is not None and joined.left:
            pause_s = self._left_s * DISTRIBUTED_MAX / len(joined.left)
            if time.monotonic() - self._distributed_s >= pause_s or joined.left_features() > LEFT_FEATURES_MAX:
                self._distribute()
        if self._queue.empty():
            self._maintain(store)

    def _serve(self, store: Store, call: _Call) -> bool:
        if not call.future.set_running_or_notify_cancel():
            return True  # the caller cancelled; after this check the call cannot be cancelled
        try:
            call.future.set_result(call.work(store))
        except BaseException as error:
            self._end_if_broken(error)
            call.future.set_exception(error)
        return True

    def _append_together(self, request: Together) -> None:
        """Log rows of several models by one record."""
        if self._joint is None:
            raise TypeError("this store does not log rows of several models together")
        if not self._joint.left:
            self._distributed_s = time.monotonic()
        try:
            last = self._joint.append_joint(request.rows)
        except RiataError as error:
            self._end_if_broken(error)
            request.done(error)
            return
        request.done(last)

    def _distribute(self) -> None:
        """Put the rows of those models into their logs that have been left for longest."""
        self._distributed_s = time.monotonic()
        if self._joint is not None:
            try:
                self._joint.distribute_oldest()
            except RiataError as error:  # the rows are left, and logged; what asks for them next gets the error
                self._end_if_broken(error)

    def _append(self, store: Store, group: list[Request]) -> None:
        if not group:
            return
        appends, followers = self._with_followers([append for append, _ in group])
        try:
            answers = store.append(appends)
        except RiataError as error:
            self._end_if_broken(error)  # first, so that the failure is known everywhere before the callers get it
            for _, done in group:
                done(error)
            return
        self.followers = followers
        logged = [one for one in zip(appends, answers, strict=True) if one[1].record is not None]
        copies = [  # afterwards: records of one model are learnt together
            (replace(append, model=record.model), replace(appended, record=record, copies=()))
            for append, appended in logged
            for record in appended.copies
        ]
        self._on_logged(logged + copies)
        for (_, done), appended in zip(group, answers, strict=True):
            done(appended)

    def _with_followers(self, group: list[Append]) -> tuple[list[Append], dict[str, tuple[str, ...]]]:
        """Return the appends of a group, those of rows with the followers of their model, and who follows afterwards. An event
        that names the followers holds from the next request on."""
        appends, followers = [], self.followers
        for append in group:
            if append.followers is not None:
                followers = {**followers, append.model: append.followers}
                append = replace(append, followers=None)
            elif append.kind == "observe" and append.model in followers:
                append = replace(append, followers=followers[append.model])
            appends.append(append)
        return appends, followers

    def forget_follower(self, leader: str, follower: str, _store: Store) -> None:
        """Copy no more rows of `leader` to `follower`. In the store's thread."""
        self.followers[leader] = tuple(name for name in self.followers.get(leader, ()) if name != follower)

    def _maintain(self, store: Store) -> None:
        try:
            store.maintain()
        except RiataError as error:  # later calls fail with the consequences
            self._end_if_broken(error)

    def _end_if_broken(self, error: BaseException) -> None:
        """After an error at COMMIT it is unknown what the disk holds: only a restart can find out."""
        if isinstance(error, StoreFailed) and error.outcome == "unknown":
            self._on_fatal(error.detail)


def _answer(request: Request | Together, error: RiataError) -> None:
    (request.done if isinstance(request, Together) else request[1])(error)
