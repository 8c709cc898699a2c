"""Chromium without a window, driven over its debugging protocol: what a person does with a page, as a test.

Frames of JSON, each ended by a zero byte, go over two pipes that the browser has as files 3 and 4.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ["chromium", "chromium-browser", "google-chrome", "chrome"]
WAIT_SECONDS = 60


def find():
    """The browser's path; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="rewright-browser")
        from_us, self.to = os.pipe()
        self.back, to_us = os.pipe()
        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                     "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={self.folder}", "about:blank"]

        def files():  # runs in the child; the second duplicate may not meet the first one's number
            a, b = os.dup(from_us), os.dup(to_us)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(arguments, preexec_fn=files, close_fds=False, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _frame(self):
        until = time.monotonic() + WAIT_SECONDS
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.rest += more
        frame, self.rest = self.rest.split(b"\0", 1)
        return json.loads(frame)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            frame = self._frame()
            if frame.get("id") == self.number:
                if "error" in frame:
                    raise RuntimeError(f"{method}: {frame['error']}")
                return frame["result"]
            self.events.append(frame)

    # ---- what a person does
    def open(self, path, width=1280, height=900, phone=False, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url="file://" + path)
        self.wait("document.readyState === 'complete'")

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        until = time.monotonic() + WAIT_SECONDS
        while not self.value(expression):
            if time.monotonic() > until:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def painted(self):
        """When what was asked for is on the screen."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def middle(self, selector):
        return self.value(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2]; }})()""")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.painted()

    def drag(self, selector, dx, dy):
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for part in range(1, 5):
            self.mouse("mouseMoved", x + dx * part / 4, y + dy * part / 4, button="left", buttons=1)
        self.mouse("mouseReleased", x + dx, y + dy, button="left", clickCount=1)
        self.painted()

    def pinch(self, selector, factor):
        x, y = self.middle(selector)
        points = lambda d: [{"x": x - d, "y": y, "id": 0}, {"x": x + d, "y": y, "id": 1}]
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=points(40))
        for part in range(1, 5):
            self.call("Input.dispatchTouchEvent", type="touchMove",
                      touchPoints=points(40 * (1 + (factor - 1) * part / 4)))
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.painted()

    def key(self, key, **more):
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, **more)
        self.painted()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.painted()

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """Errors that the page threw or the browser logged since it was opened."""
        self.value("1")
        return [e for e in self.events if e.get("method") == "Runtime.exceptionThrown" or
                (e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error")]
