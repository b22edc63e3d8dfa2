"""A headless Chromium that says what it makes of a page, driven over its DevTools protocol."""

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from websockets.sync.client import connect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--remote-debugging-port=0", "--hide-scrollbars",
)  # fmt: skip
_PATIENCE = 60  # seconds


class Browser:
    """One browser with one tab; a context manager, after which no process of it is left."""

    def __init__(self, profile: Path):
        self._profile = profile
        self._numbers = itertools.count(1)
        self._open = contextlib.ExitStack()
        self.events = []

    def __enter__(self):
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            line = connect(self._address(), max_size=None, compression=None)
            self._socket = self._open.enter_context(line)
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        except BaseException:
            self._end()
            raise
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self._end()

    def _end(self):
        self._open.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _address(self):
        """The browser writes its port and path into its profile once it listens."""
        told = self._profile / "DevToolsActivePort"
        deadline = time.monotonic() + _PATIENCE
        while not (told.is_file() and told.read_text().count("\n") == 1):
            assert time.monotonic() < deadline, "Chromium does not start"
            assert self._process.poll() is None, "Chromium has ended"
            time.sleep(0.05)
        port, path = told.read_text().splitlines()
        return f"ws://127.0.0.1:{port}{path}"

    def call(self, method, **parameters):
        """Send a command and return its result; events on the way are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=_PATIENCE))
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def open(self, page: Path, width: int, scheme: str):
        """Show a file in a window of that width, in a ``light`` or ``dark`` world."""
        self.events.clear()
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + _PATIENCE
        while self.ask("document.readyState === 'complete' && location.href") != page.as_uri():
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.02)

    def ask(self, expression):
        """Return the value of a JavaScript expression; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self):
        """Return what the console says since the page was opened: errors and broken rules."""
        loud = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [event["params"] for event in self.events if event.get("method") in loud]

    def requests(self):
        """Return every address that the page asked for since it was opened."""
        sent = (e["params"] for e in self.events if e["method"] == "Network.requestWillBeSent")
        return [each["request"]["url"] for each in sent]

    def screenshot(self, path: Path):
        """Keep the whole page as a PNG file."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
