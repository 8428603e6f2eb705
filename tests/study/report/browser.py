"""A browser for tests: Chromium without a window, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)


def find_browser() -> str | None:
    """Where Chromium is, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of Chromium; what it logs, and what fails in it, is kept in `complaints`.

    Args:
        program: from `find_browser`.
        profile: an empty folder.
    """

    def __init__(self, program: str, profile: Path) -> None:
        (theirs, self._to), (self._from, ours) = os.pipe(), os.pipe()

        def inherit() -> None:
            # Chromium reads from descriptor 3 and writes to 4. Copies come first: one of ours may
            # have one of these numbers.
            read, write = os.dup(theirs), os.dup(ours)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=inherit,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(ours)
        self._number, self._buffer, self._session = 0, b"", None
        self.events: list[dict[str, Any]] = []
        self._attach()

    def _attach(self) -> None:
        pages = self.send("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in pages if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._session = None
        self.send("Browser.close")
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, path: Path, seconds: float = 60) -> None:
        """Open a file and wait until the page says that it is ready."""
        self.send("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + seconds
        while not self.run("document.readyState === 'complete'"):
            assert time.monotonic() < end, "the page does not get ready"
            time.sleep(0.02)

    def run(self, code: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str, modifiers: int = 0) -> None:
        """Click with the mouse on the middle of an element; `modifiers` 8 is the shift key."""
        place = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
                modifiers=modifiers,
            )

    def press(self, key: str) -> None:
        """Press a key such as `Tab` or `Enter`."""
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        self.send("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option, as its list would."""
        self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            f"e.value = {json.dumps(value)};"
            "e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that a selector finds, as they are rendered."""
        texts = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            ".map((e) => e.innerText ?? e.textContent)"
        )
        return [str(text).strip() for text in texts]

    def resize(self, width: int, height: int, phone: bool = False) -> None:
        """Give the window a size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def scheme(self, name: str) -> None:
        """Prefer `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Save what is seen, or the whole page, as PNG."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the page so far: of its scripts, its console and its policy."""
        self.run("1")  # events that are on their way arrive first
        errors = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                errors.append(json.dumps(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] != "log":
                errors.append(json.dumps(params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] != "verbose":
                errors.append(params["entry"]["text"])
        return errors

    @property
    def requests(self) -> list[str]:
        """All addresses that have been asked for."""
        self.run("1")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
