"""A headless Chromium, driven through its DevTools protocol over a pipe: no port, no driver, no package."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SECONDS = 120.0
"""Nothing takes longer, on any machine."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names by which it may be installed."""


_ON_3_AND_4 = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    "os.execv(sys.argv[3], sys.argv[3:])"
)


def find_chromium() -> str | None:
    """Its program; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class PageError(Exception):
    """A page did not do what it was asked for."""


class Browser:
    """One Chromium with one page at a time.

    Args:
        executable: the program.
        folder: for its profile, which goes with it.
    """

    def __init__(self, executable: str, folder: Path) -> None:
        ours, theirs = os.pipe(), os.pipe()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        arguments += ["--no-first-run", "--mute-audio", "--autoplay-policy=no-user-gesture-required"]
        arguments += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        arguments += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        # The protocol is spoken on the descriptors 3 and 4; ours are moved out of their way.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs[0], ours[1])]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _ON_3_AND_4, *map(str, ends), executable, *arguments],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder)},
        )
        for end in (*ends, theirs[0], ours[1]):
            os.close(end)
        self._to = theirs[1]
        self._ids = itertools.count(1)
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, args=(ours[0],), daemon=True).start()
        self.faults: list[str] = []
        """Errors the pages met."""
        self._session = self.context = ""

    def begin(self) -> None:
        """Open a page that knows nothing of those before."""
        self.context = self("Target.createBrowserContext")["browserContextId"]
        target = self("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.faults.clear()
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self(f"{domain}.enable")

    def end(self) -> None:
        """Close the page and forget what it kept."""
        self._session = ""
        self("Target.disposeBrowserContext", browserContextId=self.context)

    def _read(self, source: int) -> None:
        held = b""
        while piece := os.read(source, 1 << 16):
            *whole, held = (held + piece).split(b"\0")
            for message in whole:
                self._said.put(json.loads(message))

    def __call__(self, method: str, **parameters: Any) -> Any:
        """Send a command of the protocol; its result."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            said = self._said.get(timeout=max(0.1, deadline - time.monotonic()))
            if said.get("id") == number:
                if "error" in said:
                    raise PageError(f"{method}: {said['error']}")
                return said["result"]
            if said.get("sessionId") != self._session:
                continue
            if said.get("method") == "Runtime.exceptionThrown":
                details = said["params"]["exceptionDetails"]
                self.faults.append(details.get("exception", {}).get("description", details["text"]))
            if said.get("method") == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                self.faults.append(f"{said['params']['entry']['text']} {said['params']['entry'].get('url')}")

    def open(self, url: str) -> None:
        self("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def reload(self) -> None:
        self.value("window.isOld = true")
        self("Page.reload")
        self.until("!window.isOld && document.readyState === 'complete'")

    def value(self, code: str) -> Any:
        """What JavaScript gives."""
        found = self("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise PageError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, code: str, seconds: float = SECONDS) -> None:
        """Wait until JavaScript gives something that is true."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(PageError):  # the page may be on its way
                if self.value(f"Promise.resolve({code}).then(Boolean)"):
                    return
            if time.monotonic() > deadline:
                raise PageError(f"never: {code}\n{self.value('document.body.innerText')}\n{self.faults}")
            time.sleep(0.05)

    def middle(self, selector: str) -> tuple[float, float]:
        """Where an element is, once in view."""
        found = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return found[0], found[1]

    def click(self, selector: str, share: float = 0.5) -> None:
        """Press the mouse on an element, ``share`` of its width from its left."""
        x, y = self.middle(selector)
        width = self.value(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().width")
        place = {"x": x + (share - 0.5) * width, "y": y, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self("Input.dispatchMouseEvent", type=kind, **place)

    def press(self, key: str) -> None:
        """Press a key on what has the focus."""
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def drop(self, file: Path, selector: str) -> None:
        """Drag a file from outside onto an element."""
        x, y = self.middle(selector)
        data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def choose(self, file: Path, selector: str) -> None:
        """Choose a file in a form."""
        root = self("DOM.getDocument")["root"]["nodeId"]
        node = self("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def screenshot(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode(self("Page.captureScreenshot")["data"])

    def close(self) -> None:
        """End it, at the latest by force."""
        with contextlib.suppress(Exception):
            self._session = ""
            self("Browser.close")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
