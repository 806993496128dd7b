"""Drives a real JupyterLab in headless Chromium, and fails on what a user would not accept.

    with Lab(folder) as lab:
        with lab.page(width=1280, dark=True) as page:
            book = page.open("demo.ipynb")
            book.run_all()
            page.shot("demo.png")

Leaving `lab.page()` raises when the page logged an error or asked anything of another machine.
Every server, browser and profile is private and gone afterwards.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

import nbformat
from playwright.sync_api import Page, Playwright, sync_playwright

from workbench import lab

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
LAB_FLAGS = [
    "--no-browser",
    "--allow-root",
    "--ip=127.0.0.1",
    "--ServerApp.port_retries=0",
    "--expose-app-in-browser",
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
]
SETTINGS: dict[str, dict[str, Any]] = {
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    # every cell in the DOM, also those out of sight
    "notebook-extension/tracker": {"windowingMode": "none"},
    "docmanager-extension/plugin": {"autosave": False},
}
ERROR_OUTPUT = "[data-mime-type='application/vnd.jupyter.error']"
KERNEL_STATUS = """() => window.jupyterapp?.shell?.currentWidget?.sessionContext
    ?.session?.kernel?.status ?? null"""
EXECUTE = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => 1)"
HARMLESS: tuple[str, ...] = ()
"""Parts of console errors that are JupyterLab's own and mean nothing."""


def write_notebook(path: Path, *cells: str) -> Path:
    """Write a notebook of code cells; without a named kernel JupyterLab would ask for one."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)
    return path


class PageFaultError(AssertionError):
    """The page logged an error, or asked something of another machine."""


class Notebook:
    """One open notebook."""

    def __init__(self, page: Page, name: str) -> None:
        self.page, self.name = page, name

    def wait_idle(self, timeout_s: float = 60) -> None:
        """Wait until the kernel has nothing to do."""
        deadline = time.monotonic() + timeout_s
        while (status := self.page.evaluate(KERNEL_STATUS)) != "idle":
            if time.monotonic() > deadline:
                raise TimeoutError(f"the kernel of {self.name} is {status} after {timeout_s} s")
            time.sleep(0.05)

    def run_all(self, timeout_s: float = 120) -> None:
        """Run every cell and wait; raise with the first error output."""
        self.wait_idle()
        self.command("notebook:run-all-cells")
        self.wait_idle(timeout_s)
        self.fail_on_error_output()

    def fail_on_error_output(self) -> None:
        errors = self.page.locator(ERROR_OUTPUT)
        if errors.count():
            raise AssertionError(f"{self.name}: {errors.first.inner_text()}")

    def command(self, name: str, **arguments: object) -> Any:
        """Execute a command of JupyterLab and wait for it."""
        return self.page.evaluate(EXECUTE, [name, arguments])

    def run_code(self, code: str, timeout_s: float = 60) -> str:
        """Execute code in the notebook's kernel, beside its cells; return what it printed."""
        script = """async (code) => {
            const k = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            const f = k.requestExecute({ code }); let out = "";
            f.onIOPub = (m) => { out += m.content.text ?? ""; };
            const r = await f.done;
            return r.content.status === "ok" ? out : "ERROR " + r.content.evalue; }"""
        self.page.set_default_timeout(timeout_s * 1000)
        out: str = self.page.evaluate(script, code)
        if out.startswith("ERROR "):
            raise AssertionError(out)
        return out

    def save(self) -> None:
        self.command("docmanager:save")


class LabPage:
    """One browser tab, watched for faults."""

    def __init__(self, page: Page, base: str, token: str) -> None:
        self.page, self.base, self.token = page, base, token
        self.faults: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))
        page.on("request", lambda request: self._on_request(request.url))

    def open(self, name: str, timeout_s: float = 30) -> Notebook:
        """Open a notebook alone in the tab and wait for its kernel."""
        self.page.goto(f"{self.base}/doc/tree/{name}?reset&token={self.token}")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=timeout_s * 1000)
        self.page.wait_for_function("() => !!window.jupyterapp", timeout=timeout_s * 1000)
        book = Notebook(self.page, name)
        book.wait_idle(timeout_s)
        return book

    def goto_file(self, path: Path) -> None:
        """Open a page from disk."""
        self.page.goto(path.resolve().as_uri())

    def resize(self, width: int, height: int = 1000) -> None:
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_timeout(150)

    def set_dark(self, *, dark: bool) -> None:
        """Switch JupyterLab's theme and wait until it shows."""
        theme = "JupyterLab Dark" if dark else "JupyterLab Light"
        script = (
            """([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => 1)"""
        )
        self.page.evaluate(script, ["apputils:change-theme", {"theme": theme}])
        wanted = str(not dark).lower()
        self.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{wanted}'")
        self.page.wait_for_timeout(400)

    def shot(self, path: Path | str, selector: str | None = None) -> Path:
        """Write a PNG of the page, or of the first match of a selector."""
        target = self.page.locator(selector).first if selector else self.page
        target.screenshot(path=str(path))
        return Path(path)

    def check(self) -> None:
        """Raise when anything went wrong so far."""
        if self.faults:
            raise PageFaultError("\n".join(self.faults))

    def _on_console(self, message: Any) -> None:
        if message.type == "error" and not any(part in message.text for part in HARMLESS):
            self.faults.append(f"console error: {message.text}")

    def _on_request(self, url: str) -> None:
        local = url.startswith((self.base, self.base.replace("http", "ws"), "data:", "blob:"))
        if not local and not url.startswith(("file:", "about:")):
            self.faults.append(f"request to another machine: {url[:200]}")


class _Playwright:
    """The one driver that all browsers of this process share: its sync form cannot run twice."""

    driver: Playwright | None = None
    users = 0

    @classmethod
    def acquire(cls) -> Playwright:
        cls.driver = cls.driver or sync_playwright().start()
        cls.users += 1
        return cls.driver

    @classmethod
    def release(cls) -> None:
        cls.users -= 1
        if not cls.users and cls.driver:
            cls.driver.stop()
            cls.driver = None


class Browser(AbstractContextManager["Browser"]):
    """A headless Chromium; `page` gives a tab in a fresh profile."""

    base, token = "http://127.0.0.1:1", ""

    def __init__(self, executable: str | None = None) -> None:
        self.executable = executable or os.environ.get("WORKBENCH_CHROMIUM") or _chromium()

    def __enter__(self) -> Self:
        self.chromium = _Playwright.acquire().chromium.launch(
            executable_path=self.executable, headless=True, args=CHROMIUM_FLAGS
        )
        return self

    @contextmanager
    def page(
        self, width: int = 1280, height: int = 1000, *, dark: bool = False, scale: float = 1
    ) -> Iterator[LabPage]:
        """Give a tab; raise on leaving when it had faults. `dark` is the system's preference."""
        context = self.chromium.new_context(
            viewport={"width": width, "height": height},
            device_scale_factor=scale,
            color_scheme="dark" if dark else "light",
        )
        try:
            tab = LabPage(context.new_page(), self.base, self.token)
            yield tab
            tab.check()
        finally:
            context.close()

    def __exit__(self, *exc: object) -> None:
        self.chromium.close()
        _Playwright.release()


class Lab(Browser):
    """A JupyterLab server on a free port, with a browser."""

    def __init__(self, root: Path, executable: str | None = None, **env: str) -> None:
        super().__init__(executable)
        self.root, self.env = Path(root), env

    def __enter__(self) -> Self:
        self.token = secrets.token_hex(16)
        self.folder = Path(tempfile.mkdtemp(prefix="workbench-lab-"))
        self._write_settings()
        try:
            self._start_server()
            super().__enter__()
        except BaseException:
            self._stop_server()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self._stop_server()

    def server_log(self) -> str:
        return (self.folder / "lab.log").read_text(errors="replace")

    def _write_settings(self) -> None:
        for name, body in SETTINGS.items():
            path = self.folder / f"settings/@jupyterlab/{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(body))

    def _start_server(self) -> None:
        port = _free_port()
        self.base = f"http://127.0.0.1:{port}"
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        env = lab.environment() | {k: str(self.folder / v) for k, v in places.items()} | self.env
        own = [
            f"--port={port}",
            f"--IdentityProvider.token={self.token}",
            f"--ServerApp.root_dir={self.root}",
        ]
        with (self.folder / "lab.log").open("wb") as log:
            self.server = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *LAB_FLAGS, *own],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        self._wait_for_server()

    def _wait_for_server(self, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                urllib.request.urlopen(f"{self.base}/api?token={self.token}", timeout=2).read()
            except OSError as error:
                if self.server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"no server:\n{self.server_log()}") from error
                time.sleep(0.1)
            else:
                return

    def _stop_server(self) -> None:
        if server := getattr(self, "server", None):
            server.send_signal(signal.SIGTERM)  # JupyterLab ends its kernels first
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise RuntimeError("no Chromium found: install Debian's package chromium")
    return found


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
