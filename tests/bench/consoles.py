"""What ten open consoles cost: bytes, requests, processor time of the service, and the latency of predictions.

The service learns 1,000 rows and answers 500 predictions a second, sent by processes of their own. First a real Chromium
shows the page Overview; its requests are counted from inside. Then ten clients in one more process send the same requests at
the same pace: /status, the new points of the curve and the changes, every two seconds, each with the ETag of its last answer.
Sides with and without them alternate; medians are compared.

Chromium is not open while predictions are timed: it would take the processors of this machine, not those of the service.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from tests.bench import report
from tests.bench.beside_learning import RATE, Asking
from tests.bench.measured import NORMAL
from tests.bench.open_load import requests
from tests.running import Running
from tests.web.attack.chromium import Chromium, until

MODEL: Final = "clicks"
CONSOLES: Final = 10
ROWS_A_SECOND: Final = 1000
EVERY_S: Final = 2.0  # the poll of the console, `app.js`
LOOK_S: Final = 20.0
SIDE_S: Final = 10.0
REPEATS: Final = 8
NDJSON: Final = {"Content-Type": "application/x-ndjson"}
SEEN: Final = "return performance.getEntriesByType('resource').map(one => [one.name, one.transferSize])"


def feed(url: str, stop: Event) -> None:
    """Send rows until told to stop."""
    features = [json.loads(one.partition(b"\r\n\r\n")[2])["features"] for one in requests(MODEL)]
    rows = [json.dumps({"features": one, "label": i % 3 == 0}) for i, one in enumerate(features)]
    body = "\n".join((rows * (ROWS_A_SECOND // 10 // len(rows) + 1))[: ROWS_A_SECOND // 10])
    with httpx.Client(base_url=url, headers=NDJSON, timeout=60) as client:
        while not stop.wait(0.1):
            client.post(f"/models/{MODEL}/observe", content=body).raise_for_status()


def look(url: str, stop: Event, counted: Any) -> None:
    """Poll as CONSOLES consoles do until told to stop; puts the number of requests and the bytes of their answers."""
    asked, size, lock = 0, 0, threading.Lock()

    def console(number: int) -> None:
        nonlocal asked, size
        since, tags = 0, dict[str, str]()
        with httpx.Client(base_url=url, timeout=60) as client:
            wait = EVERY_S * number / CONSOLES
            while not stop.wait(wait):
                wait = EVERY_S
                for path in ("/status", f"/models/{MODEL}/metrics?since={since}&times=true", f"/models/{MODEL}/changes"):
                    answer = client.get(path, headers={"If-None-Match": tags[path]} if path in tags else {})
                    tags[path] = answer.headers.get("etag", "")
                    if "since=" in path and answer.status_code == 200 and (points := answer.json()["history"]):
                        since = points[-1]["seq"]
                    with lock:
                        asked += 1
                        size += answer.num_bytes_downloaded + sum(len(k) + len(v) + 4 for k, v in answer.headers.raw)

    threads = [threading.Thread(target=console, args=(number,)) for number in range(CONSOLES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted.put((asked, size))


def seen_in_chromium(url: str, directory: Path) -> tuple[int, int, int]:
    """Return the bytes of the first load, then the requests and bytes of LOOK_S seconds of the page Overview."""
    with Chromium(directory) as browser:
        browser.open(f"{url}/console#/overview?model={MODEL}")
        until("the page shows its figures", lambda: "against the base rate" in str(browser.run("return document.body.innerText")))
        first = sum(size for _, size in browser.run(SEEN))
        browser.run("performance.clearResourceTimings()")
        time.sleep(LOOK_S)
        found = browser.run(SEEN)
        return first, len(found), sum(size for _, size in found)


def side(running: Running, asking: Asking, consoles: bool) -> tuple[dict[str, float], float, tuple[int, int]]:
    """Return the latencies of predictions, the processor time of the service for a second, and requests and bytes of consoles."""
    stop = multiprocessing.Event()
    counted: multiprocessing.Queue[tuple[int, int]] = multiprocessing.Queue()
    process = multiprocessing.Process(target=look, args=(running.url, stop, counted)) if consoles else None
    if process is not None:
        process.start()
        time.sleep(EVERY_S)  # each has read the whole curve
    service = psutil.Process(running.process.pid)
    before, began = sum(service.cpu_times()[:2]), time.perf_counter()
    told = asking.ask(SIDE_S)
    busy = (sum(service.cpu_times()[:2]) - before) / (time.perf_counter() - began)
    found = (0, 0)
    if process is not None:
        stop.set()
        found = counted.get()
        process.join()
    return told, busy, found


def main() -> None:
    options = report.arguments(__doc__ or "").parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = stack.enter_context(Running(directory / "data", dict(NORMAL)))
        running.start()
        httpx.put(f"{running.url}/models/{MODEL}", json={}, timeout=60).raise_for_status()
        stop = multiprocessing.Event()
        feeder = multiprocessing.Process(target=feed, args=(running.url, stop))
        feeder.start()
        stack.callback(feeder.join)
        stack.callback(stop.set)
        time.sleep(5)
        first, asked, size = seen_in_chromium(running.url, directory)
        asking = Asking(running.port, MODEL)
        stack.callback(asking.end)
        asking.ask(2)
        sides = [(side(running, asking, False), side(running, asking, True)) for _ in range(REPEATS)]
    rows = []
    for at, name in enumerate(("no console", f"{CONSOLES} consoles")):
        told = [one[at][0] for one in sides]
        cells = [f"{statistics.median(one[key] for one in told):,.0f}" for key in ("p50_us", "p99_us")]
        busy = 100 * statistics.median(one[at][1] for one in sides)
        rows.append([name, *cells, f"{busy:.1f} %", f"{sum(int(one['failed']) for one in told)}"])
    ratio = statistics.median(b[0]["p99_us"] / a[0]["p99_us"] for a, b in sides)
    more = 100 * statistics.median(b[1] - a[1] for a, b in sides)
    polled, sent = (statistics.median(b[2][at] for _, b in sides) * 60 / (SIDE_S + EVERY_S) for at in (0, 1))
    minutes = LOOK_S / 60
    title, _, about = (__doc__ or "").strip().partition(".\n")
    kept = f"{asked / minutes:,.0f} requests and {size / minutes / 1000:,.0f} kB a minute"
    one = f"{first / 1000:,.0f} kB at the first load, then {kept}"
    ten = f"{polled:,.0f} requests and {sent / 1000:,.0f} kB a minute"
    load = f"{RATE} predictions and {ROWS_A_SECOND:,} rows a second, {SIDE_S:g} s a side"
    text = f"# {title}\n{about}\n\nOne console in Chromium: {one}. {CONSOLES} consoles: {ten}.\n\n"
    text += report.table(["", "p50, µs", "p99, µs", "processor", "failed"], rows)
    whole = statistics.median(b[0]["p99_us"] for _, b in sides) / statistics.median(a[0]["p99_us"] for a, _ in sides)
    text += f"\nThe p99 with consoles is {ratio:.3f} of that without as the median of {REPEATS} pairs, "
    text += f"{whole:.3f} as the ratio of the medians above: as far as\nthe two differ, the pairs are too few. "
    text += f"The consoles take {more:.1f} % of one processor. {load}.\n\n"
    text += report.conditions("python -m tests.bench.consoles", ["httpx", "uvicorn"])
    report.publish("consoles", text, write=not options.no_write)


if __name__ == "__main__":
    main()
