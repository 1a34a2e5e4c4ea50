"""Debian's Chromium without a screen, driven through its DevTools pipe: no port, no library, no network."""

import base64
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium")
CHECKS = Path(__file__).with_name("browser.js")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe"),
]


class Browser:
    """One page of a browser that has no network; `asked` are the addresses of all that it wanted to fetch."""

    def __init__(self, profile):
        theirs, self._write = os.pipe()
        self._read, ours = os.pipe()
        words = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # Chromium reads from file descriptor 3 and answers on 4.
        command = ["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{ours}', "bash", *words]
        self._process = subprocess.Popen(command, pass_fds=(theirs, ours), stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(ours)
        self._ids, self._rest, self._session, self.asked, self.errors = itertools.count(1), b"", None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def _message(self):
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 16)
            if not more:
                raise EOFError("Chromium has ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        found = json.loads(message)
        if found.get("method") == "Network.requestWillBeSent":
            self.asked.append(found["params"]["request"]["url"])
        if found.get("method") == "Runtime.exceptionThrown":
            self.errors.append(found["params"]["exceptionDetails"])
        return found

    def call(self, method, **params):
        """Call a method of the DevTools protocol and return its result."""
        number = next(self._ids)
        session = {"sessionId": self._session} if self._session else {}
        os.write(
            self._write, json.dumps({"id": number, "method": method, "params": params, **session}).encode() + b"\0"
        )
        while (found := self._message()).get("id") != number:
            pass
        assert "error" not in found, found
        return found["result"]

    def open(self, path, width, height, scheme="light"):
        """Show a file in a window of so many CSS pixels, and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=path.as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass
        self.call("Runtime.evaluate", expression=CHECKS.read_text())

    def run(self, script):
        """Return the value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path):
        """Write what the window shows as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        """End it."""
        self._process.terminate()
        self._process.wait(20)
        os.close(self._read)
        os.close(self._write)
