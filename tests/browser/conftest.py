"""An explorer of the two-rank sample in JupyterLab, for tests that leave it as it is."""

from __future__ import annotations

import json

import pytest
from browser.labdrive import Lab, write_notebook
from browser.test_start import Panel, set_state

CELL = """
import workbench as wb
from workbench.resources import data
explorer = wb.Explorer(data() / "generated_gpu_2ranks")
explorer
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory, chromium):
    """One explorer for all tests."""
    folder = tmp_path_factory.mktemp("explorer")
    write_notebook(folder / "explorer.ipynb", CELL)
    with Lab(folder, chromium) as lab, lab.page(width=1280, height=1800) as tab:
        book = tab.open("explorer.ipynb", timeout_s=120)
        book.run_all()
        panel = Panel(tab.page, 0)
        panel.ready()
        begin = json.loads(book.run_code("import json; print(json.dumps(explorer.state))"))
        yield tab, book, panel, begin


@pytest.fixture
def page(opened):
    """The explorer as it was when it was opened."""
    tab, book, panel, begin = opened
    set_state(book, begin)
    book.wait_idle()
    panel.ready()
    return tab, book, panel
