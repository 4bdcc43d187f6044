"""Clients of a cluster, in a separate process: they send events, request predictions, and record the answers.

    python -m tests.chaos.load HISTORY --observe URL ... --predict URL ... [--clients 2] [--rows 5] [--give-up 0.1]
                               [--pause-ms 0] [--predict-ms 10] [--prefix p] [--timeout-s 5]

Each observing client sends requests of new events one after another, at any of the URLs, and repeats a request that was not
acknowledged until it is; some of them it gives up instead, as a client that has died would. They end when standard input is
closed: requests under way are ended, those not yet acknowledged stay so. It writes `ready` before the first request.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.chaos import rows
from tests.chaos.history import Outcome, Recorder

WAIT_S = 0.02  # between two attempts


class Caller:
    """One connection to one URL, opened again after each failure."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._place = urlsplit(url).netloc
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def connect(self) -> None:
        """Raises `OSError`; nothing was sent in that case."""
        if self._connection is None:
            connection = http.client.HTTPConnection(self._place, timeout=self._timeout_s)
            connection.connect()
            self._connection = connection

    def post(self, path: str, body: bytes, kind: str) -> tuple[int, dict[str, Any]]:
        """(status, document). Raises `OSError` or `HTTPException`; the outcome is then unknown."""
        assert self._connection is not None
        try:
            self._connection.request("POST", path, body, {"Content-Type": kind})
            answer = self._connection.getresponse()
            content = answer.read()
            if answer.will_close:
                self.close()
            return answer.status, json.loads(content)
        except ValueError as error:
            raise http.client.HTTPException(str(error)) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def attempt(caller: Caller, ids: list[str]) -> tuple[Outcome, int, int, str]:
    """Send events once; (outcome, seq, status, why)."""
    try:
        caller.connect()
    except OSError as error:
        return "not_accepted", 0, 0, repr(error)
    try:
        status, reported = caller.post(f"/models/{rows.MODEL}/observe", rows.observe_body(ids), "application/x-ndjson")
    except (OSError, http.client.HTTPException) as error:
        caller.close()
        return "unknown", 0, 0, repr(error)
    if status in (200, 202):
        assert reported["accepted"] + reported["duplicate"] == len(ids), reported
        return "acked", int(reported["seq"]), status, ""
    outcome = reported.get("outcome", "not_accepted")
    assert outcome in ("not_accepted", "unknown"), reported
    return outcome, 0, status, str(reported.get("code"))


class Observing(threading.Thread):
    """A client that sends events."""

    def __init__(self, name: str, options: argparse.Namespace, recorder: Recorder, over: threading.Event) -> None:
        super().__init__(name=name)
        self._options, self._recorder, self._over = options, recorder, over
        self._rng = random.Random(name)

    def run(self) -> None:
        callers = [Caller(url, self._options.timeout_s) for url in self._options.observe]
        number = 0
        while not self._over.is_set():
            ids = [f"{self.name}-{number}-{i}" for i in range(self._options.rows)]
            self._deliver(callers, ids)
            number += 1
            self._over.wait(self._options.pause_ms / 1000)
        for caller in callers:
            caller.close()

    def _deliver(self, callers: list[Caller], ids: list[str]) -> None:
        while not self._over.is_set():
            at = self._rng.randrange(len(callers))
            sent = time.monotonic()
            outcome, seq, status, why = attempt(callers[at], ids)
            took_s = time.monotonic() - sent
            self._recorder.write(
                what="observe", at=sent, url=self._options.observe[at], ids=ids, outcome=outcome, seq=seq, status=status,
                why=why, took_s=took_s,
            )  # fmt: skip
            if outcome == "acked" or self._rng.random() < self._options.give_up:
                return
            self._over.wait(WAIT_S)


class Predicting(threading.Thread):
    """A client that requests predictions, always at the same URL."""

    def __init__(self, name: str, url: str, options: argparse.Namespace, recorder: Recorder, over: threading.Event) -> None:
        super().__init__(name=name)
        self._url, self._options, self._recorder, self._over = url, options, recorder, over

    def run(self) -> None:
        caller = Caller(self._url, self._options.timeout_s)
        number = 0
        while not self._over.wait(self._options.predict_ms / 1000):
            event_id, sent = f"{self.name}-{number % 500}", time.monotonic()
            number += 1
            try:
                caller.connect()
                status, reported = caller.post(f"/models/{rows.MODEL}/predict", rows.predict_body(event_id), "application/json")
            except (OSError, http.client.HTTPException) as error:
                caller.close()
                self._recorder.write(what="failed", at=sent, url=self._url, status=0, why=repr(error))
                self._over.wait(WAIT_S)
                continue
            if status == 200:
                told_of = reported["model"]
                self._recorder.write(
                    what="predict", at=sent, url=self._url, id=event_id, seq=told_of["seq"], version=told_of["version"],
                    margin=reported["margin"],
                )  # fmt: skip
            else:
                self._recorder.write(what="failed", at=sent, url=self._url, status=status, why=str(reported.get("code")))
        caller.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("history", type=Path)
    parser.add_argument("--observe", nargs="*", default=[])
    parser.add_argument("--predict", nargs="*", default=[])
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--give-up", type=float, default=0.1)
    parser.add_argument("--pause-ms", type=float, default=0)
    parser.add_argument("--predict-ms", type=float, default=10)
    parser.add_argument("--timeout-s", type=float, default=5)
    parser.add_argument("--prefix", default="c")
    options = parser.parse_args()
    over = threading.Event()
    with Recorder(options.history) as recorder:
        threads: list[threading.Thread] = []
        if options.observe:
            threads += [Observing(f"{options.prefix}{i}", options, recorder, over) for i in range(options.clients)]
        for i, url in enumerate(options.predict):
            threads.append(Predicting(f"{options.prefix}p{i}", url, options, recorder, over))
        for thread in threads:
            thread.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        over.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
