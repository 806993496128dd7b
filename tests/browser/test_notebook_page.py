"""An exported notebook in a real browser."""

import nbformat
import pytest
from browser.labdrive import Browser
from nbformat.v4 import new_code_cell, new_notebook, new_output

from workbench import notebook

pytestmark = pytest.mark.browser


def test_a_wide_table_scrolls_by_itself(tmp_path, chromium):
    cells = "".join(f"<td>exposed_communication_{k}</td>" for k in range(20))
    wide = new_output("display_data", data={"text/html": f"<table><tr>{cells}</tr></table>"})
    nbformat.write(new_notebook(cells=[new_code_cell("x", outputs=[wide])]), tmp_path / "a.ipynb")
    notebook.export(tmp_path / "a.ipynb", tmp_path / "a.html")
    with Browser(chromium) as browser, browser.page(width=900) as tab:
        tab.goto_file(tmp_path / "a.html")
        table, page = (
            tab.page.evaluate(f"() => document.querySelector('{name}').scrollWidth")
            for name in (".wb-notebook table", "html")
        )
        assert table > 1_500  # 20 cells of 24 letters
        assert page <= 900
