"""`workbench lab --app` in a real browser: the explorer alone, no code, nothing from outside."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from browser.labdrive import Browser, _free_port
from browser.test_start import Panel

from workbench.resources import data

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        importlib.util.find_spec("voila") is None,
        reason="voila is not installed: pip install voila",
    ),
]
RANKS = data() / "generated_gpu_2ranks"
START = "from workbench.cli import main; main()"
STARTS_S = 120


@pytest.fixture
def app(tmp_path):
    """The app on the two-rank sample: where it listens, with its token."""
    port = _free_port()
    asked = ["lab", "--app", str(RANKS), "--port", str(port), "--ip", "127.0.0.1", "--no-browser"]
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
              "JUPYTER_RUNTIME_DIR": "runtime"}  # fmt: skip
    env = os.environ | {k: str(tmp_path / v) for k, v in places.items()}
    log = tmp_path / "app.log"
    with log.open("wb") as out:
        server = subprocess.Popen([sys.executable, "-c", START, *asked], cwd=tmp_path, env=env,
                                  stdout=out, stderr=subprocess.STDOUT)  # fmt: skip
    try:
        yield _address(log, server)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _address(log: Path, server: subprocess.Popen) -> str:
    deadline = time.monotonic() + STARTS_S
    while time.monotonic() < deadline and server.poll() is None:
        if found := re.search(r"http://\S+token=\w+", log.read_text(errors="replace")):
            return found[0]
        time.sleep(0.2)
    raise RuntimeError(f"no app:\n{log.read_text(errors='replace')}")


def test_the_app_shows_the_explorer_and_no_code(app, chromium):
    with Browser(chromium) as browser:
        browser.base = app.partition("/?")[0]
        with browser.page(width=1280, height=1400) as tab:
            tab.page.goto(app, timeout=STARTS_S * 1000)
            panel = Panel(tab.page, 0)
            panel.box.wait_for(timeout=STARTS_S * 1000)
            panel.ready()
            assert panel.colours(".wb-timeline-canvas") > 10
            assert panel.colours(".wb-figure") > 5
            assert "NVIDIA H100" in panel.text(".wb-facts")
            assert tab.page.locator(".jp-InputArea:visible, .jp-CodeCell pre:visible").count() == 0
            assert "import workbench" not in tab.page.locator("body").inner_text()
            span = panel.timeline("t.span")
            tab.page.mouse.move(*panel.middle())
            tab.page.mouse.wheel(0, -600)
            panel.settle()
            assert panel.timeline("t.span") < 0.7 * span
            panel.box.locator("tr", has_text="exposed communication").first.click()
            panel.box.locator(".wb-details", has_text="collective").wait_for(timeout=20_000)


def test_without_its_token_the_app_is_closed(app):
    with urllib.request.urlopen(app.partition("?")[0], timeout=60) as page:
        assert "/login" in page.url
        assert "wb-panel" not in page.read().decode()
