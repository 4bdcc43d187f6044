"""The console in a real Chromium, on a live service with keys: every page, hostile names, every kind of key, narrow and dark.

One browser and one service for the file. Each test loads the page anew.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web.app import create_app
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import KeyEntry, digest_of, new_token, ring_of
from riata.wiring import build_engine
from tests.running import HANG_S
from tests.settings import web_settings
from tests.trees.hand_made import DOWN, text_of, two_splits
from tests.web.attack.chromium import Chromium, missing_programs, until
from tests.web.serving import serving

pytestmark = pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}")

HTML, BIDI, LONG = "<img src=x onerror=window.hurt=1>", "pay\u202etxt", "n" * 250
FACTS = {
    "overview": "against the base rate", "learning": "last 1,000", "model": "standard errors", "path": "gamma",
    "try": "Predict", "data": "bad_label", "versions": "Restore", "service": "accepts events",
}  # fmt: skip
LEARNER = {"kind": "taylor_sketch", "mode": "exact", "gamma": 0.5, "features_max": 32, "block": 50}
HEAVY = {"learner": {"kind": "ftrl_proximal", "l1": 1e6}}  # every weight stays zero
NEVER = 100_000  # s, so that a generation is saved only when a test asks for it
# What the page may not do, noted from before its first script on.
LISTEN = """
window.hurt = 0; window.faults = [];
document.addEventListener('securitypolicyviolation', event => faults.push(`${event.violatedDirective} ${event.blockedURI}`));
window.addEventListener('error', event => faults.push(event.message));
window.addEventListener('unhandledrejection', event => faults.push(String(event.reason)));
const told = console.error;
console.error = (...what) => { faults.push(what.map(String).join(' ')); told(...what); };
"""


@dataclass(frozen=True)
class Console:
    """A browser before a live service. keys: by scope"""

    browser: Chromium
    port: int
    keys: dict[str, str]

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Ask the service directly, with every scope."""
        headers = {"Authorization": f"Bearer {self.keys['every']}"}
        answer = httpx.request(method, f"http://127.0.0.1:{self.port}{path}", headers=headers, timeout=HANG_S, **more)
        return answer.json() | {"status": answer.status_code}

    def open(self, page: str, key: str = "every", **params: str) -> None:
        """Load a page anew, with a key of this tab."""
        query = "&".join(f"{name}={value}" for name, value in {"model": "clicks", **params}.items())
        self.browser.open(f"http://127.0.0.1:{self.port}/livez")  # of the same origin, so the next address is loaded anew
        keep = "sessionStorage.clear(); localStorage.clear(); if (given[0]) sessionStorage.setItem('riata.key', given[0])"
        self.browser.run(keep, self.keys.get(key, key))
        self.browser.open(f"http://127.0.0.1:{self.port}/console#/{page}?{query}")

    def shows(self, text: str) -> None:
        """Wait until the page has this text."""
        try:
            until(f"the page shows {text!r}", lambda: text in self.text())
        except TimeoutError as error:
            raise AssertionError(f"{error}: {self.text()!r}") from None

    def text(self) -> str:
        return str(self.browser.run("return document.body.innerText"))

    def press(self, label: str) -> None:
        """Click the first enabled button with this text, once there is one."""
        find = "const one = [...document.querySelectorAll('button')].find(one => one.textContent === given[0] && !one.disabled);"
        until(f"a button {label}", lambda: bool(self.browser.run(f"{find} if (one) one.click(); return Boolean(one)", label)))

    def turn(self, theme: str) -> None:
        """Have the system prefer "light" or "dark"."""
        self.browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        ground = "return getComputedStyle(document.body).backgroundColor"
        shown = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[theme]
        until(f"it is {theme}", lambda: self.browser.run(ground) == shown)

    def barriers(self, axe: str, rules: Sequence[str]) -> list[str]:
        """What axe finds in the page, by rule and first place, serious or critical: by these rules, by all if there are none."""
        self.browser.run(axe)
        only = "given[0].length ? {runOnly: {type: 'rule', values: given[0]}} : {}"
        run = f"const found = await axe.run(document, {{resultTypes: ['violations'], ...({only})}});"
        grave = "found.violations.filter(one => ['serious', 'critical'].includes(one.impact))"
        return list(self.browser.run(f"{run} return {grave}.map(one => `${{one.id}}: ${{one.nodes[0].html}}`)", list(rules)))

    def well(self) -> None:
        """Nothing was violated, no script failed, and no name became an element."""
        assert self.browser.run("return [window.hurt, ...window.faults]") == [0]


def rows(count: int, bad: int = 0) -> str:
    """Rows with names that would do harm if they were taken for HTML."""
    made = []
    for i in range(count):
        features = {"age": 20.0 + i % 40, "country": ("de", "fr", "us")[i % 3], BIDI: i % 5 * 0.2, LONG: i % 7 * 0.1}
        label = 9 if i < bad else int((i * 7919) % 11 < 2 + 3 * (i % 2) + 2 * (i % 5 > 2) + 2 * (i % 7 > 3))
        made.append(json.dumps({"features": features | ({HTML: 1.0} if i % 2 else {}), "label": label}))
    return "\n".join(made)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    def fatal(reason: str) -> None:
        raise AssertionError(reason)

    engine = build_engine(Settings(store="memory:"), fatal)
    scopes = {"every": ["observe", "predict", "admin", "watch"], "watch": ["watch"]}
    keys = {name: new_token(name) for name in scopes}
    file = KeysFile(Path("/nowhere"))
    file.ring = ring_of(KeyEntry(name, digest_of(keys[name]), scopes[name], "*") for name in scopes)
    gate = Gate(engine.clock, file, Buckets(0.0, 0.0))
    app = create_app(Service(engine), Admin(engine), web_settings(), engine.clock, gate=gate)
    with ExitStack() as stack:
        port = stack.enter_context(serving(app))
        browser = stack.enter_context(Chromium(tmp_path_factory.mktemp("chromium")))
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", source=LISTEN)
        made = Console(browser, port, keys)
        until("the service is ready", lambda: made.ask("GET", "/readyz")["status"] == 200)
        schedule = {"checkpoint_every_s": 3600, "checkpoint_every_events": 10**9}
        for name in ("clicks", "empty"):
            document = {"learner": LEARNER, **schedule}
            until("the model is there", lambda: made.ask("PUT", f"/models/{name}", json=document).get("state") == "ready")  # noqa: B023
        ndjson = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {keys['every']}"}
        sent = httpx.post(f"http://127.0.0.1:{port}/models/clicks/observe?wait=applied", content=rows(1500, 3), headers=ndjson)
        assert sent.json()["rejected"] == 3
        made.ask("POST", "/models/clicks/snapshots")
        yield made


@pytest.mark.parametrize("page", FACTS)
def test_every_page_shows_its_figures_in_light_and_dark_and_narrow(console: Console, page: str) -> None:
    browser = console.browser
    console.open(page)
    console.shows(FACTS[page])
    for theme in ("light", "dark"):
        console.turn(theme)
    browser.devtools("Emulation.setDeviceMetricsOverride", width=320, height=700, deviceScaleFactor=1, mobile=True)
    try:
        console.shows(FACTS[page])
        widths = "return [innerWidth, document.documentElement.scrollWidth]"
        until("nothing is wider than the screen", lambda: browser.run(widths) == [320, 320])
    finally:
        browser.devtools("Emulation.clearDeviceMetricsOverride")
    console.well()


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", FACTS)
def test_axe_finds_nothing_serious(console: Console, axe: str, page: str) -> None:
    console.open(page)
    console.shows(FACTS[page])
    for theme, rules in (("light", ()), ("dark", ("color-contrast",))):  # no other rule depends on the theme
        console.turn(theme)
        assert console.barriers(axe, rules) == [], theme


def test_axe_finds_what_is_serious(console: Console, axe: str) -> None:
    console.open("service")
    console.shows(FACTS["service"])
    console.turn("light")
    made = "const one = document.createElement(given[0]); document.querySelector('main').append(one);"
    console.browser.run(f"{made} one.textContent = 'pale'; one.style.color = '#aaa'; one.style.background = '#fff'", "p")
    console.browser.run(made, "button")
    assert {line.split(":")[0] for line in console.barriers(axe, ())} == {"button-name", "color-contrast"}


def test_what_is_pressed_is_not_built_again_until_it_is_released(console: Console) -> None:
    browser = console.browser
    console.open("versions")
    console.shows(FACTS["versions"])
    row = "document.querySelector('main td button')"
    until("the table has buttons", lambda: browser.run(f"return Boolean({row})"))
    press = (
        f"const one = {row};"
        """
    one.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}));
    window.held = one; window.gone = 0;
    new MutationObserver(() => { if (!window.held.isConnected) window.gone += 1; })
      .observe(document.body, {childList: true, subtree: true});
    """
    )
    browser.run(press)
    console.ask("POST", "/models/clicks/snapshots")  # has the table of generations built again
    begun = browser.run("return performance.now()")
    until("it was asked three times", lambda: browser.run("return performance.now()") > begun + 7000)
    assert browser.run("return [window.held.isConnected, window.gone]") == [True, 0]
    browser.run("window.held.dispatchEvent(new PointerEvent('pointerup', {bubbles: true}))")
    until("it is built again after that", lambda: browser.run("return window.gone") > 0)
    console.well()


def test_a_telephone_shows_that_a_table_goes_on(console: Console) -> None:
    browser = console.browser
    console.open("versions")
    console.shows(FACTS["versions"])
    browser.devtools("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    try:
        wide = "return [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).length"
        until("a table is wider than the screen", lambda: browser.run(wide) > 0)
        outside = (
            "return [...document.querySelectorAll('main table')].filter(one => !one.closest('.scroll, .u-legend, .curve')).length"
        )
        assert browser.run(outside) == 0
        for theme in ("light", "dark"):
            console.turn(theme)
            shadows = "const one = document.querySelector('.scroll'); return one ? getComputedStyle(one).backgroundImage : ''"
            until(f"the {theme} table has shadows", lambda: browser.run(shadows).count("linear-gradient") == 4)  # noqa: B023
    finally:
        browser.devtools("Emulation.clearDeviceMetricsOverride")
    console.well()


def test_times_have_their_zone(console: Console) -> None:
    console.browser.devtools("Emulation.setTimezoneOverride", timezoneId="Asia/Kathmandu")
    try:
        console.open("versions")
        console.shows(FACTS["versions"])
        find = "return [...document.querySelectorAll('time')].map(one => one.textContent)"
        until("there are times", lambda: bool(console.browser.run(find)))
        assert all("GMT+5:45" in shown for shown in console.browser.run(find))
    finally:
        console.browser.devtools("Emulation.setTimezoneOverride", timezoneId="")


def test_try_it_begins_with_fields_of_the_model(console: Console) -> None:
    row = "return document.querySelector('textarea').value"
    console.open("try")
    until("it is filled", lambda: '"country":' in console.browser.run(row) and "41.5" not in console.browser.run(row))
    console.press("Predict")
    console.shows("probability of label 1")
    console.shows(", 0 unknown to the model")
    console.browser.devtools("Page.reload")  # what was asked stays
    until("the row is in the address", lambda: "row=" in console.browser.run("return location.hash"))
    console.open("try", row="%7B%22age%22%3A+30%7D")
    console.shows(FACTS["try"])
    assert console.browser.run(row) == '{"age": 30}'
    console.well()


def test_names_from_strangers_are_texts(console: Console) -> None:
    console.open("model", prefix="")
    console.shows(HTML)
    console.shows("pay\\u202etxt")
    shown = console.browser.run("return [...document.querySelectorAll('td bdi')].map(one => [one.textContent, one.title])")
    cut = [(text, title) for text, title in shown if text.startswith("nnn")]
    assert [(len(text), len(title)) for text, title in cut] == [(80, 250)]
    assert not [text for text, _ in shown if "\u202e" in text]
    console.well()


def test_a_prediction_is_explained_and_nothing_is_learnt(console: Console) -> None:
    before = console.ask("GET", "/models/clicks")["examples"]
    console.open("try", row='{"age":41,"country":"de","unheard":1}')
    console.press("Predict")
    console.shows("1 unknown to the model")
    assert re.search(r"95 % interval\s+unknown: a feature, or a combination of features, did not occur", console.text())
    contributions = "return [...document.querySelectorAll('#prediction svg title')].map(one => one.textContent)"
    assert [line.split(":")[0] for line in sorted(console.browser.run(contributions))] == ["age", "bias", "country=de", "unheard"]
    console.browser.run("document.querySelector('textarea').value = '{'")
    console.press("Predict")
    console.shows("This is not JSON")
    assert console.ask("GET", "/models/clicks")["examples"] == before
    console.well()


def test_a_key_that_only_watches_can_change_nothing_and_is_told_why(console: Console) -> None:
    for page, labels in (("versions", ["Save now", "Start a refit", "Restore…"]), ("try", ["Predict"])):
        console.open(page, key="watch")
        console.shows(labels[-1])
        buttons = "return [...document.querySelectorAll('main button')].filter(one => given[0].includes(one.textContent))"
        found = console.browser.run(f"{buttons}.map(one => [one.textContent, one.disabled, one.title])", labels)
        assert {text for text, _, _ in found} == set(labels)
        assert all(disabled and title.startswith("needs a key with the scope") for _, disabled, title in found)
        console.shows("key: watch (watch)")
        console.well()


def test_without_a_key_the_page_asks_for_one_and_goes_on_with_it(console: Console) -> None:
    console.open("overview", key="riata_nobody_" + 43 * "x")
    console.shows("unknown key")
    console.press("Enter a key")
    console.browser.type("dialog input", console.keys["watch"])
    console.press("Use")
    console.shows("against the base rate")
    assert console.browser.run("return [document.cookie, Object.keys(localStorage).length]") == ["", 0]
    assert console.keys["watch"] not in console.browser.run("return location.href + document.documentElement.outerHTML")


def test_a_restore_asks_for_the_name_and_is_listed_with_its_key(console: Console) -> None:
    console.open("versions")
    console.press("Restore…")
    console.browser.type("dialog input", "click")
    locked = "return [...document.querySelectorAll('dialog button')].find(one => one.textContent === 'Restore').disabled"
    assert console.browser.run(locked)
    console.browser.type("dialog input", "clicks")
    console.press("Restore")
    console.shows("restored")
    until("the change is shown", lambda: "every" in console.browser.text("#changes"))
    assert console.ask("GET", "/models/clicks/changes")["changes"][0]["actor"] == "every"
    console.well()


def test_a_click_on_the_curve_goes_back_to_that_point(console: Console) -> None:
    until("the model is there", lambda: console.ask("PUT", "/models/bad", json={}).get("state") == "ready")
    ndjson = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {console.keys['every']}"}
    for _ in range(2):
        httpx.post(f"http://127.0.0.1:{console.port}/models/bad/observe?wait=applied", content=rows(300), headers=ndjson)
    points = [point["seq"] for point in console.ask("GET", "/models/bad/metrics?since=0")["history"]]
    console.open("learning", model="bad", span="all")
    console.shows("It can be any event from 1 on.")
    click = """
    const over = document.querySelector('.curve.pick .u-over'), {left, width, top} = over.getBoundingClientRect();
    if (!width) return false;
    const at = {clientX: left + given[0] * width, clientY: top + 9, bubbles: true};
    for (const kind of ['mousedown', 'mouseup', 'click']) over.dispatchEvent(new MouseEvent(kind, at));
    return true;
    """
    until("the curve is clicked", lambda: bool(console.browser.run(click, 0.5)))
    console.shows("Going back undoes ")
    to = int(console.browser.run("return document.querySelector('[aria-label=\"event to go back to\"]').value"))
    assert to in points
    assert to < 601
    console.shows(f"Going back undoes {601 - to} learnt events")
    assert console.ask("GET", "/models/bad")["examples"] == 600
    console.browser.type("dialog input", "ba")
    locked = "return [...document.querySelectorAll('dialog button')].find(one => one.textContent === 'Go back').disabled"
    assert console.browser.run(locked)
    console.browser.type("dialog input", "bad")
    console.press("Go back")
    console.shows(f"bad is as it was after event {to}, from event 602 on.")
    assert console.ask("GET", "/models/bad")["examples"] == to - 1
    until("the curve ends there", lambda: f"Cumulative: all {to - 1} events" in console.text())
    console.well()
    (looked, gone) = console.ask("GET", "/jobs")["jobs"][1::-1]
    assert (looked["kind"], looked["result"]["seq"], gone["result"]["seq"], gone["actor"]) == ("restore", 0, 602, "every")
    console.open("service")
    until("the jobs are listed", lambda: looked["id"] in console.text() and gone["id"] in console.text())
    console.well()


def test_going_back_says_what_cannot_be_and_can_be_left(console: Console) -> None:
    console.open("learning")
    console.shows("It can be any event from 1 on.")
    enter = (
        "const one = document.querySelector('[aria-label=\"event to go back to\"]'); one.value = given[0]; return Boolean(one)"
    )
    console.browser.run(enter, "999999")
    console.press("Go back to here…")
    console.shows("Refused: model clicks cannot go back to event 999999: the log ends at event")
    console.browser.run(enter, "20")
    console.press("Go back to here…")
    console.shows("Going back undoes ")
    console.press("Cancel")
    console.shows("Nothing was changed.")
    console.open("learning", key="watch")
    console.shows("It can be any event from 1 on.")
    disabled = "return [...document.querySelectorAll('main button')].find(one => one.textContent === given[0]).disabled"
    assert console.browser.run(disabled, "Go back to here…")
    console.well()


def test_moving_along_the_path_with_the_keyboard_changes_the_penalty(console: Console) -> None:
    console.open("path")
    console.shows("Choose a point")
    console.browser.run(
        "const dot = [...document.querySelectorAll('circle')].at(-1); dot.focus();"
        "dot.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))"
    )
    chosen = float(console.browser.run("return new URLSearchParams(location.hash.split('?')[1]).get('gamma')"))
    console.press("Move here…")
    console.browser.type("dialog input", "clicks")
    console.press("Move")
    until("the penalty is another", lambda: console.ask("GET", "/models/clicks")["config"]["learner"]["gamma"] == chosen)
    console.well()


def test_a_weight_that_is_ticked_is_drawn_over_time(console: Console) -> None:
    click = (
        "const one = document.querySelector('input[aria-label=\"follow age\"]'); if (one) one.click(); return one && one.disabled"
    )
    console.open("model", key="watch")
    console.shows("No weight is followed")
    until("the box is disabled", lambda: console.browser.run(click) is True)
    console.open("model")
    until("the box is ticked", lambda: console.browser.run(click) is False)
    console.shows("age is ")
    until("it is drawn", lambda: bool(console.browser.run("return Boolean(document.querySelector('#followed-weights canvas'))")))
    assert console.ask("GET", "/models/clicks/weights/history")["weights"].keys() == {"age"}
    console.ask("PATCH", "/models/clicks", json={"weights_followed": []})
    console.shows("No weight is followed")
    console.well()


def test_a_challenger_takes_over_once_the_name_is_typed(console: Console) -> None:
    for name, document in (("older", {}), ("newer", {"follow": "older", "learner": {"eta": 0.25}})):
        until("the model is there", lambda: console.ask("PUT", f"/models/{name}", json=document).get("state") == "ready")  # noqa: B023
    body = {"features": {"age": 1}, "label": 1}
    until("it learns", lambda: console.ask("POST", "/models/older/observe?wait=applied", json=body)["status"] == 200)
    console.open("versions", model="older")
    console.press("Promote…")
    console.shows("newer")
    console.browser.type("dialog input", "newer")
    locked = "return [...document.querySelectorAll('dialog button')].find(one => one.textContent === 'Promote').disabled"
    assert console.browser.run(locked)
    console.browser.type("dialog input", "older")
    console.press("Promote")
    console.shows("older goes on as newer")
    assert console.ask("GET", "/models/older")["config"]["learner"]["eta"] == 0.25
    console.well()


def test_a_model_without_events_says_what_to_send(console: Console) -> None:
    for page in ("overview", "learning", "model"):
        console.open(page, model="empty")
        console.shows("curl localhost:8080/observe")
        console.well()
    console.open("versions", model="empty")
    console.shows("No snapshot is saved yet")
    console.open("overview", model="nobody")
    console.shows("no model named nobody")


def test_a_model_of_few_events_says_when_its_curve_begins(console: Console) -> None:
    until("the model is there", lambda: console.ask("PUT", "/models/few", json=HEAVY).get("state") == "ready")
    body = {"features": {"age": 41.5}, "label": 1}
    for _ in range(9):
        assert console.ask("POST", "/models/few/observe?wait=applied", json=body)["applied"]
    for page, sentence in (
        ("overview", "The curve has no point yet: the first is made at the tenth labelled event."),
        ("learning", "The curve has no point yet: the first is made at the tenth labelled event."),
        ("model", "No weight differs from zero yet."),
    ):
        console.open(page, model="few")
        console.shows(sentence)
        assert not re.search("No labelled event|does not answer|has a fault", console.text())
        console.well()
    console.open("overview", model="few")
    console.shows("The curve has no point yet")
    assert console.ask("POST", "/models/few/observe?wait=applied", json=body)["applied"]
    console.shows("The faded log loss went from")
    console.well()
    console.ask("DELETE", "/models/few?confirm=few")


def test_the_tree_of_a_curve_is_drawn_with_the_weights_of_its_leaves(console: Console) -> None:
    document = {"encoder": {"bits": 10, "curves": {"ecg": text_of(two_splits())}}}
    until("the model is there", lambda: console.ask("PUT", "/models/heart", json=document).get("state") == "ready")
    body = {"features": {"ecg": DOWN}, "label": 1}
    until("it learns", lambda: console.ask("POST", "/models/heart/observe?wait=applied", json=body)["status"] == 200)
    console.open("model", model="heart")
    console.shows("nearer to the right curve of split 0 and nearer to the left curve of split 2")
    cells = "[...one.children].slice(0, 2).map(cell => cell.innerText)"
    shown = dict(console.browser.run(f"return [...document.querySelectorAll('#curves tbody tr')].map(one => {cells})"))
    assert set(shown) == {"ecg#1", "ecg#3", "ecg#4"}
    assert float(shown["ecg#3"]) > 0.0 == float(shown["ecg#1"])
    size = "const one = document.querySelector('#curves img'); return one.complete ? one.naturalWidth : 0"
    until("the tree is drawn", lambda: console.browser.run(size) > 300)
    console.well()
    console.open("model")
    console.shows("standard errors")
    assert console.browser.run("return document.querySelector('#curves').hidden")


def test_shapes_are_drawn_with_the_numbers_of_the_route(console: Console, axe: str) -> None:
    until("the model is there", lambda: console.ask("PUT", "/models/shaped", json={}).get("state") == "ready")
    sent = []
    for i in range(1200):
        a, b, c = i % 41 - 20.5, i * 7 % 29 - 14.5, i * 5 % 13 + 0.5
        sent.append({"features": {"a": a, BIDI: b, HTML: c}, "label": int(a * b > 0.0)})
    console.ask("POST", "/models/shaped/observe?wait=applied", json=sent)
    told = console.ask("GET", "/models/shaped/shapes")
    console.open("model", model="shaped")
    console.shows("What each column adds to the margin")
    titles = "return [...document.querySelectorAll(`#shapes svg .${given[0]} title`)].map(one => one.textContent)"
    pieces, cells = console.browser.run(titles, "hit"), console.browser.run(titles, "cell")
    assert len(pieces) == sum(len(one["values"]) for one in told["columns"])
    assert len(cells) == sum(len(line) for one in told["pairs"] for line in one["values"])
    (of_a,) = [one for one in told["columns"] if one["feature"] == "a"]
    ends = [(edge, of_a["weight"] * edge + value) for edge, value in zip(of_a["edges"], of_a["values"], strict=False)]
    shown = [re.fullmatch(r"(?:.* < )?a ≤ (.*): adds (?:.* to )?(.*)", text) for text in pieces]
    assert [(float(one[1]), float(one[2])) for one in shown if one] == [pytest.approx(end, rel=1e-3) for end in ends]
    (pair,) = [one for one in told["pairs"] if set(one["features"]) == {"a", BIDI}]
    assert any("pay\\u202etxt" in text and float(text.split("adds ")[1]) > 0.5 for text in cells)
    strongest = max((abs(value), value) for line in pair["values"] for value in line)[1]
    colour = "return [...document.querySelectorAll('#shapes .cell')].filter(one => one.getAttribute('fill-opacity') === '1'"
    strong = console.browser.run(f"{colour} && one.querySelector('title')).map(one => one.getAttribute('class'))")
    assert strong == ["cell minus" if strongest < 0.0 else "cell bar"]
    console.browser.run("document.querySelector('[aria-label=\"data: Shapes\"]').click()")
    rows = "return document.querySelectorAll('#shapes tbody tr').length"
    assert console.browser.run(rows) == len(pieces) + len(cells)
    for theme in ("light", "dark"):
        console.turn(theme)
        assert console.barriers(axe, ()) == [], theme
    console.browser.devtools("Emulation.setDeviceMetricsOverride", width=320, height=700, deviceScaleFactor=1, mobile=True)
    try:
        widths = "return [innerWidth, document.documentElement.scrollWidth]"
        until("nothing is wider than the screen", lambda: console.browser.run(widths) == [320, 320])
    finally:
        console.browser.devtools("Emulation.clearDeviceMetricsOverride")
    console.well()
    console.open("try", model="shaped", row='{"a":10.5}')
    console.press("Predict")
    console.shows("Intervals are added to their columns")
    bars = console.browser.run("return [...document.querySelectorAll('#prediction svg title')].map(one => one.textContent)")
    assert sorted(line.split(":")[0] for line in bars) == ["(shapes)", "a", "bias"]
    console.well()
    console.open("model")
    console.shows("Numeric columns have no shapes: the learner taylor_sketch has none.")
    console.well()
    console.ask("DELETE", "/models/shaped?confirm=shaped")


def test_the_data_behind_a_panel_is_a_table_and_a_file(console: Console) -> None:
    console.open("overview", span="half")
    console.shows("The faded log loss went from")
    pressed = "return [...document.querySelectorAll('[aria-pressed=true]')].map(one => one.textContent)"
    assert console.browser.run(pressed) == ["last half", "events"]
    console.press("time")
    assert console.browser.run(pressed) == ["last half", "time"]
    assert "by=time" in console.browser.run("return location.hash")
    console.browser.run("document.querySelector('[aria-label=\"data: Log loss\"]').click()")
    console.shows("save as CSV")
    titles = "return [...document.querySelectorAll('#log-loss [role=region] th')].map(one => one.textContent)"
    assert console.browser.run(titles) == ["seq", "events", "time", "ts", "faded", "base rate, faded"]
    size = console.browser.screenshot()[16:24]
    assert min(struct.unpack(">II", size)) > 300
    console.well()


def test_the_curve_has_an_axis_of_event_time_where_senders_give_it(console: Console) -> None:
    console.ask("PUT", "/models/dated", json={})
    sent = [{"features": {"age": 40 + at % 2}, "label": at % 2, "ts": f"2026-01-01T00:00:{at:02}Z"} for at in range(60)]
    for row in sent:
        until("it is accepted", lambda: console.ask("POST", "/models/dated/observe", json=row)["status"] == 202)  # noqa: B023
    until("it is learnt", lambda: console.ask("GET", "/models/dated")["served"]["seq"] == 61)
    console.open("overview", model="dated", span="all")
    console.press("event time")
    console.shows("Horizontal: the newest time that senders gave (ts).")
    points = console.ask("GET", "/models/dated/metrics?since=0&times=true")["history"]
    assert [point["ts"] for point in points] == [f"2026-01-01T00:00:{at:02}.000Z" for at in (9, 19, 49)]
    console.well()
    console.ask("DELETE", "/models/dated?confirm=dated")


def test_a_service_that_is_gone_is_noticed_and_so_is_its_return(console: Console) -> None:
    console.open("overview")
    console.shows("against the base rate")
    console.browser.devtools("Network.enable")
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    console.browser.devtools("Network.emulateNetworkConditions", offline=True, **offline)
    console.shows("The service does not answer")
    assert "against the base rate" in console.text()
    console.browser.devtools("Network.emulateNetworkConditions", offline=False, **offline)
    until("it is back", lambda: "does not answer" not in console.text())


def test_a_fault_of_the_page_is_not_taken_for_a_silent_service(console: Console) -> None:
    console.open("overview")
    console.shows("against the base rate")
    console.browser.run("Number.prototype.toFixed = undefined")  # a TypeError in the page
    console.shows("The console has a fault: ")
    assert "does not answer" not in console.text()


def test_nobody_is_asked_while_nobody_looks(console: Console) -> None:
    console.open("service")
    console.shows("accepts events")
    console.browser.run("Object.defineProperty(document, 'hidden', {get: () => !window.looks, configurable: true})")
    asked = "return performance.getEntriesByType('resource').length"
    rests = "const before = performance.getEntriesByType('resource').length; await new Promise(done => setTimeout(done, 2500));"
    rests += "return performance.getEntriesByType('resource').length === before"
    until("the poll under way has ended", lambda: console.browser.run(rests))
    before = console.browser.run(asked)
    console.browser.run("window.looks = true; document.dispatchEvent(new Event('visibilitychange'))")
    until("it asks again", lambda: console.browser.run(asked) > before)
    console.well()
