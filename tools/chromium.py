"""A real browser for tests: Chromium, spoken to over its own protocol, and what it finds wrong in a built book."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from waiting import LONG, until
from websocket import create_connection

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MISSING = (
    "No Chromium was found, so no page was looked at: install the package chromium (or google-chrome) of your system, "
    "or name a browser by the variable CHROMIUM, and run the test again."
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
]
WIDTHS = (360, 390, 1440)
THEMES = ("light", "dark")
HEIGHT = 900
CHECKS = (Path(__file__).parent / "checks.js").read_text()


def found() -> str | None:
    """The program to start: the one named by CHROMIUM, or the first of NAMES that is installed."""
    named = os.environ.get("CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a Chromium of our own, with a profile that is thrown away."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        command = [program, *FLAGS, f"--user-data-dir={self._folder.name}", "--remote-debugging-port=0", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        try:
            self._socket = create_connection(self._address(), timeout=LONG, suppress_origin=True)
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.call("Page.setLifecycleEventsEnabled", enabled=True)
            self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # as in a window that somebody looks at
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=LONG)
        self._folder.cleanup()

    def _address(self) -> str:
        port = Path(self._folder.name) / "DevToolsActivePort"
        lines = until(lambda: port.is_file() and len(lines := port.read_text().splitlines()) == 2 and lines, self._process)
        return f"ws://127.0.0.1:{lines[0]}{lines[1]}"

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Ask and wait for the answer; what happens meanwhile is kept in `events`."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": arguments}
        self._socket.send(json.dumps(message if self._session is None else {**message, "sessionId": self._session}))
        while (answer := self._receive()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        if "method" in message:
            self.events.append(message)
        return message

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def open(self, url: str) -> None:
        """Load a page and wait until its scripts, fonts and formulas are there; `events` are of this page alone."""
        self.events.clear()
        loader = self.call("Page.navigate", url=url)["loaderId"]
        while not any(_loaded(event, loader) for event in self.events):
            self._receive()
        self.run(CHECKS)
        self.run("checks.ready()")

    def size(self, width: int, height: int = HEIGHT) -> None:
        """Set the width for what is opened next; for an open page, wait with `checks.settled` until it has taken it."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9}[key])

    def screenshot(self, path: Path, width: int) -> None:
        """The whole page as a JPEG, smaller when it is wide or very long: a picture has at most 16,000 rows."""
        height = self.run("document.documentElement.scrollHeight")
        scale = min(1 if width < 600 else 0.5, 16_000 / height)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        options = {"format": "jpeg", "quality": 60, "captureBeyondViewport": True, "clip": clip}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))

    def top(self, width: int, height: int) -> bytes:
        """What a screen of this size shows of the open page, as a PNG."""
        self.size(width, height)
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def complaints(self, base: str) -> list[str]:
        """Errors written to the console, scripts that failed, and requests that left `base`, since the page was opened."""
        said = []
        for event in self.events:
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = what["exceptionDetails"]
                said.append(f"script fails: {details.get('exception', {}).get('description') or details['text']}")
            elif event["method"] == "Runtime.consoleAPICalled" and what["type"] in ("error", "assert"):
                said.append(f"console error: {' '.join(str(one.get('value', '?')) for one in what['args'])}")
            elif event["method"] == "Log.entryAdded" and what["entry"]["level"] == "error":
                said.append(f"console error: {what['entry']['text']} {what['entry'].get('url', '')}".rstrip())
            elif event["method"] == "Network.requestWillBeSent":
                url = what["request"]["url"]
                if not url.startswith((base, "data:", "blob:", "about:")):
                    said.append(f"external request: {url}")
        return list(dict.fromkeys(said))


def _loaded(event: dict[str, Any], loader: str) -> bool:
    """Whether the page of this navigation has loaded; an earlier one may still be saying so."""
    return event["method"] == "Page.lifecycleEvent" and (event["params"]["name"], event["params"]["loaderId"]) == ("load", loader)


def pages(site: Path) -> list[Path]:
    """The pages of a built book: neither the theme's templates in _static nor the one that only leads to another."""
    found = (path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)
    return sorted(path for path in found if 'http-equiv="Refresh"' not in path.read_text())


def faults(browser: Browser, site: Path, screens: Path | None = None) -> list[str]:
    """What is wrong in a folder of pages, one sentence each: page, width, theme, fault. Empty when nothing is."""
    said = []
    base = site.resolve().as_uri()
    for path in pages(site):
        name = path.relative_to(site).with_suffix("").as_posix()
        browser.size(max(WIDTHS))
        browser.open(path.resolve().as_uri())
        said += [f"{name}: {text}" for text in browser.run("checks.once()")]
        said += [f"{name}: {text}" for text in keyboard(browser)]
        for width in sorted(WIDTHS, reverse=True):
            browser.size(width)
            browser.run(f"checks.settled({width})")
            for theme in THEMES:
                browser.run(f"checks.theme('{theme}')")
                # A theme changes colours and a width changes shapes: to look at each once takes half the time.
                look = "checks.shape()" if theme == THEMES[0] else "[]"
                look += ".concat(checks.contrast())" if width == max(WIDTHS) else ""
                said += [f"{name}, {width} px, {theme}: {text}" for text in browser.run(look)]
                if screens:
                    browser.screenshot(screens / str(width) / theme / f"{name}.jpg", width)
        said += [f"{name}: {text}" for text in browser.complaints(base)]
    return said


def keyboard(browser: Browser, most: int = 200) -> list[str]:
    """Tab leads to the search, then to the navigation, then into the page, and one sees where one is."""
    wanted = browser.run("checks.regions()")
    reached: list[str] = []
    hidden: list[str] = []
    for _ in range(most):
        browser.press("Tab")
        where = browser.run("checks.focus()")
        if where is None:
            break
        if not where["visible"]:
            hidden.append(where["element"])
        if where["region"] and where["region"] not in reached:
            reached.append(where["region"])
        if where["region"] == wanted[-1]:
            break
    browser.run("document.activeElement.blur()")
    said = [] if reached == wanted else [f"Tab reaches {', '.join(reached) or 'nothing'} instead of {', '.join(wanted)}"]
    return said + [f"focus is not visible on {element}" for element in dict.fromkeys(hidden)]
