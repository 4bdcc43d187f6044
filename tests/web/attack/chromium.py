"""A headless Chromium, driven over the HTTP API of chromedriver (W3C WebDriver): nothing but httpx is needed."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from tests.running import HANG_S, free_port

SELECT_ALL: Final = "\ue009a\ue000"  # Ctrl+A and the end of modifier keys, in the codes of WebDriver
PATIENCE_S: Final = 120.0
ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id, fixed by the specification
ARGUMENTS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--no-proxy-server",
)  # fmt: skip


def missing_programs() -> list[str]:
    """Required programs that are not installed."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


class Chromium:
    """One browser with its own profile below `directory`. `names` are resolved to this machine."""

    def __init__(self, directory: Path, names: tuple[str, ...] = ()) -> None:
        self._directory = directory
        self._names = names
        self._port = free_port()
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=PATIENCE_S, trust_env=False)
        self._at = ""

    def __enter__(self) -> Self:
        log = (self._directory / "chromedriver.log").open("wb")
        with log:
            self._driver = subprocess.Popen(["chromedriver", f"--port={self._port}"], stdout=log, stderr=log)
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        until("chromedriver answers", self._answers)
        rules = ", ".join(f"MAP {name} 127.0.0.1" for name in self._names)
        arguments = [*ARGUMENTS, f"--user-data-dir={self._directory / 'profile'}", f"--host-resolver-rules={rules}"]
        chrome = {"binary": str(shutil.which("chromium")), "args": arguments}
        self._at = (
            "/session/" + self._ask("POST", "/session", capabilities={"alwaysMatch": {"goog:chromeOptions": chrome}})["sessionId"]
        )
        self._ask("POST", f"{self._at}/timeouts", script=int(PATIENCE_S * 1000), pageLoad=int(PATIENCE_S * 1000))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._at:
            self._http.delete(self._at)
        self._http.close()
        self._driver.terminate()
        self._driver.wait(HANG_S)

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self._ask("POST", f"{self._at}/url", url=url)

    def run(self, body: str, *arguments: object) -> Any:
        """Run the body of an async function in the page, as one of its scripts; returns its result."""
        script = f"const [done, ...given] = [arguments[arguments.length - 1], ...arguments]; (async () => {{{body}}})()"
        script += ".then(done, error => done(`${error}`))"
        return self._ask("POST", f"{self._at}/execute/async", script=script, args=list(arguments))

    def find(self, css: str) -> str:
        """The first element that matches, after it appears."""
        found: list[dict[str, str]] = []

        def look() -> bool:
            found[:] = self._ask("POST", f"{self._at}/elements", using="css selector", value=css)
            return bool(found)

        until(f"{css} is there", look)
        return found[0][ELEMENT]

    def click(self, css: str) -> None:
        """Click an element as a user does."""
        self._ask("POST", f"{self._at}/element/{self.find(css)}/click")

    def type(self, css: str, text: str) -> None:
        """Type into an element, in place of what it holds."""
        self._ask("POST", f"{self._at}/element/{self.find(css)}/value", text=SELECT_ALL + text)

    def text(self, css: str) -> str:
        """The text of an element."""
        found: str = self._ask("GET", f"{self._at}/element/{self.find(css)}/text")
        return found

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Send a command of the Chrome DevTools protocol, for what WebDriver cannot do."""
        return self._ask("POST", f"{self._at}/goog/cdp/execute", cmd=command, params=parameters)

    def screenshot(self) -> bytes:
        """The visible part of the page as PNG."""
        return base64.b64decode(self._ask("GET", f"{self._at}/screenshot"))

    def _answers(self) -> bool:
        try:
            return bool(self._ask("GET", "/status")["ready"])
        except httpx.TransportError:
            return False

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        answer = self._http.request(method, path, json=body if method == "POST" else None)
        value = answer.json()["value"]
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message']}")
        return value


def until(what: str, ask: Callable[[], bool]) -> None:
    """Wait for a condition. Raises `TimeoutError`."""
    deadline = time.monotonic() + PATIENCE_S
    while not ask():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(0.05)
