"""A sweep in a real JupyterLab: it goes on while one looks, and ends with a table and a picture."""

from __future__ import annotations

import pytest
from browser.labdrive import Lab, write_notebook
from browser.test_start import CLIPPED, Panel

pytestmark = pytest.mark.browser

SWEEP = """
import workbench as wb
made = wb.sweep("gpt", {"batch": [1, 2], "layers": [2, 1]}, path="runs/s", device="cpu",
                warmup=1, untraced=2, steps=1)
made
"""


@pytest.fixture
def lab(tmp_path, chromium):
    write_notebook(tmp_path / "sweep.ipynb", SWEEP)
    with Lab(tmp_path, chromium) as running:
        yield running


def test_a_sweep_is_watched_ended_and_gone_on_with(lab, tmp_path):
    with lab.page(width=1280, height=1400) as tab:
        book = tab.open("sweep.ipynb")
        book.run_all()
        rows = tab.page.locator(".wb-table tbody tr")
        rows.nth(3).wait_for(timeout=60_000)
        tab.page.locator(".wb-table", has_text="done").wait_for(timeout=120_000)
        tab.page.get_by_role("button", name="Cancel").click()
        tab.page.locator(".wb-state", has_text="cancelled: ").wait_for(timeout=30_000)
        assert tab.page.get_by_role("button", name="Cancel").is_disabled()

        book.run_all()
        ended = tab.page.locator(".wb-state", has_text="done: 4 of 4 combinations recorded")
        ended.wait_for(timeout=240_000)
        shown = [row.split("\t")[:3] for row in rows.all_inner_texts()]
        combinations = [[b, n, "done"] for b in "12" for n in "21"]
        assert shown == combinations
        panel = Panel(tab.page, 0)
        panel.box.locator(".wb-figure canvas").first.wait_for(timeout=30_000)
        assert panel.colours(".wb-figure") > 3
        assert panel.box.evaluate(CLIPPED) == []
        tab.shot(tmp_path / "sweep.png")
