"""Which files a row and a prediction pass on their way: `python -m tests.way` prints them, with the calls of each.

A file counts if a function of it is called, in any thread, between the request and its answer. The service runs in this process,
with an embedded store and the default model, which has learnt some rows. Of several requests that with the fewest calls is shown.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

import riata
from tests.running import free_port

PACKAGE: Final = str(Path(riata.__file__).parent) + "/"
LEARNT: Final = 60
REPEATS: Final = 9
REST_S: Final = 0.6  # what is left to do after a request must not count for the next one


class Calls:
    """Counts the calls of functions of the package, by file, while `counted` is set."""

    def __init__(self) -> None:
        self.counted: Counter[str] | None = None

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """A profile function of Python, for all threads."""
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE) and (counted := self.counted) is not None:
            counted[name.removeprefix(PACKAGE)] += 1


def request(method: str, path: str, document: object = None) -> bytes:
    """One request of a connection that stays open."""
    body = b"" if document is None else json.dumps(document).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def row(number: int) -> bytes:
    """A request that is answered when its row is learnt."""
    features = {"age": 41.5 + number % 7, "country": ("de", "fr")[number % 2], "tags": ["new", "mobile"]}
    return request("POST", "/observe?wait=applied", {"features": features, "label": number % 2})


def follow(port: int, calls: Calls) -> None:
    """Send the requests, print what they passed, and stop the service."""
    sys.setprofile(None)  # of this thread
    link = connected(port)
    for number in range(LEARNT):
        link.sendall(row(number))
        link.recv(2**16)
    for name, asked in (("a row", row(LEARNT)), ("a prediction", request("GET", "/predict?age=41&country=de"))):
        shots = []
        for _ in range(REPEATS):
            time.sleep(REST_S)
            calls.counted = counted = Counter[str]()
            link.sendall(asked)
            answer = link.recv(2**16)
            calls.counted = None
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(answer.decode(errors="replace"))
            shots.append(counted)
        least = min(shots, key=Counter.total)
        sys.stdout.write(f"{name}: {len(least)} files, {least.total()} calls\n")
        sys.stdout.writelines(f"  {count:4} {file}\n" for file, count in sorted(least.items()))
    os.kill(os.getpid(), signal.SIGTERM)


def connected(port: int) -> socket.socket:
    """A connection to the service, once it listens and is ready."""
    while True:
        try:
            link = socket.create_connection(("127.0.0.1", port))
            link.sendall(request("GET", "/predict?age=41"))
            if link.recv(2**16).startswith(b"HTTP/1.1 200"):
                return link
        except OSError:
            pass
        time.sleep(0.05)


def main() -> None:
    """Run the service and follow requests through it."""
    from riata.cli.main import main as run

    calls, port = Calls(), free_port()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    threading.Thread(target=follow, args=(port, calls), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["riata", "serve", "--port", str(port), "--data", folder]
        os.environ["RIATA_LOG_LEVEL"] = "warning"
        run()


if __name__ == "__main__":
    main()
