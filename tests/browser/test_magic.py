"""`%%record` in a real JupyterLab: an explorer stands under the cell, a child can be watched."""

from __future__ import annotations

import pytest
from browser.labdrive import Lab, write_notebook
from browser.test_start import CLIPPED, Panel

pytestmark = pytest.mark.browser

LOAD = """
%load_ext workbench
import torch
x = torch.ones(256, 256)
"""
HERE = """
%%record --name square
with torch.profiler.record_function("square"):
    y = x @ x
"""
CHILD = """
%%record --child --name loop --warmup 3
import torch

layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
while True:
    layer(torch.ones(8, 64)).sum().backward()
    optimizer.step()
"""
SLEEP = """
%%record --child --name asleep
import time

time.sleep(600)
"""
LAST = "get_ipython().find_line_magic('record_last').__self__.last"


@pytest.fixture
def lab(tmp_path, chromium):
    write_notebook(tmp_path / "magic.ipynb", LOAD, HERE, CHILD, SLEEP, "%record_last")
    with Lab(tmp_path, chromium) as running:
        yield running


def test_a_recorded_cell_has_its_explorer_underneath(lab, tmp_path):
    with lab.page(width=1280, height=2400) as tab:
        book = tab.open("magic.ipynb")
        book.run_all()
        panel = Panel(tab.page, 0)
        panel.ready()
        assert tab.page.get_by_text("Recorded 3 steps; the cell ran 11 times.").count() == 1
        assert panel.box.evaluate(CLIPPED) == []
        child = tab.page.locator(".wb-state", has_text="done: loop-")
        child.wait_for(timeout=120_000)
        panel = Panel(tab.page, 2)
        panel.ready()
        assert panel.box.evaluate(CLIPPED) == []

        # One run is shown by two cells, and ended from either.
        stop = tab.page.get_by_role("button", name="Cancel")
        stop.last.click()
        ended = tab.page.locator(".wb-state", has_text="cancelled: The recording was cancelled")
        ended.last.wait_for(timeout=30_000)
        assert ended.count() == 2
    names = sorted(path.name.split("-")[0] for path in (tmp_path / "runs").iterdir())
    assert names == ["asleep", "loop", "square"]
