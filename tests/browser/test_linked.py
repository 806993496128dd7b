"""The linked explorer in a real JupyterLab: choices narrow, chips remove, sources are dropped."""

from __future__ import annotations

import base64
import json

import pytest
from browser.test_explorer import open_tab
from browser.test_start import CLIPPED

import workbench as wb
from workbench.resources import data

pytestmark = pytest.mark.browser

RANKS = data() / "generated_gpu_2ranks"
MOST_CLICKS = 3
CLICKS = """() => { window.clicks = 0;
  document.addEventListener("click", (e) => { if (e.isTrusted) window.clicks += 1; }, true); }"""


def test_the_longest_exposed_communication_is_at_most_three_clicks_away(page):
    tab, book, panel = page
    tab.page.evaluate(CLICKS)
    panel.box.locator("tr", has_text="exposed communication").first.click()
    panel.box.locator(".wb-details", has_text="collective").wait_for(timeout=20_000)
    assert 1 <= tab.page.evaluate("() => window.clicks") <= MOST_CLICKS
    longest = wb.exposed(wb.open(RANKS)).row(0, named=True)
    selected = json.loads(
        book.run_code("import json; print(json.dumps(explorer.timeline.selected))")
    )
    assert selected == {
        "table": "activities", "rank": longest["rank"], "id": longest["activity"],
    }  # fmt: skip
    panel.settle()
    assert panel.timeline("t.mark.step") == longest["step"]
    start = panel.timeline("Number(t.origin + t.base) + t.a")
    end = start + panel.timeline("t.span")
    assert start < longest["start_ns"] < longest["start_ns"] + longest["dur_ns"] < end


def test_a_kernel_narrows_the_page_and_chips_and_esc_remove_it(page):
    tab, book, panel = page
    open_tab(panel, "Kernels")
    whole = panel.text(".wb-facts")
    rows = panel.box.locator(".wb-table:visible").first.locator("tbody tr")
    rows.nth(0).click()
    chip = panel.box.locator(".wb-chip")
    chip.wait_for(timeout=20_000)
    name = book.run_code("print(explorer.only.kernel)").strip()
    assert chip.get_attribute("title").startswith("Remove: kernel")
    assert "selected" in panel.text(".wb-facts")
    open_tab(panel, "Operators")
    ops = panel.box.locator(".wb-table:visible").first.locator("tbody tr").count()
    wanted = book.run_code("print(explorer.frames['ops'].height)")
    assert ops == int(wanted)
    assert ops < wb.ops(wb.open(RANKS)).height
    assert f"kernel {name}"[:30] in book.run_code("print(explorer.selected_text)")
    open_tab(panel, "Idle")
    assert "Not narrowed to kernel" in panel.box.locator(".wb-caption:visible").first.inner_text()
    assert panel.box.evaluate(CLIPPED) == []
    panel.box.locator(".wb-table-box:visible").first.focus()
    tab.page.keyboard.press("Escape")
    chip.wait_for(state="detached", timeout=20_000)
    book.wait_idle()
    assert panel.text(".wb-facts") == whole

    open_tab(panel, "Steps")
    panel.box.locator(".wb-table:visible").first.locator("tbody tr").nth(1).click()
    chip.wait_for(timeout=20_000)
    assert chip.inner_text().startswith("step 11")
    chip.click()
    chip.wait_for(state="detached", timeout=20_000)
    book.wait_idle()
    assert panel.text(".wb-facts") == whole


DROP = """([files]) => {
  const carried = new DataTransfer();
  for (const [name, text] of files) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    carried.items.add(new File([bytes], name));
  }
  const target = document.querySelector(".wb-panel .wb-facts");
  for (const name of ["dragenter", "dragover", "drop"])
    target.dispatchEvent(
      new DragEvent(name, { bubbles: true, cancelable: true, dataTransfer: carried }));
}"""
LARGE = """() => {
  const carried = new DataTransfer();
  carried.items.add(new File([new Uint8Array(51e6)], "large.json"));
  document.querySelector(".wb-panel").dispatchEvent(
    new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: carried }));
}"""


def test_sources_are_typed_dropped_and_compared(page):
    tab, book, panel = page
    field = panel.box.get_by_label("Path to open")
    field.fill(f"{data()}/gpt_tiny_cpu_2")
    options = panel.box.locator("datalist option")
    options.first.wait_for(state="attached", timeout=20_000)
    assert options.first.get_attribute("value") == f"{data()}/gpt_tiny_cpu_2ranks/"
    field.fill(f"{data()}/gpt_tiny_cpu_2ranks")
    field.press("Enter")
    panel.box.locator(".wb-facts", has_text="host execution").wait_for(timeout=60_000)
    assert panel.chosen()[0] == "gpt_tiny_cpu_2ranks"

    files = [(f.name, base64.b64encode(f.read_bytes()).decode()) for f in sorted(RANKS.glob("r*"))]
    tab.page.evaluate(DROP, [files])
    panel.box.locator(".wb-facts", has_text="NVIDIA H100").wait_for(timeout=60_000)
    same = "print(explorer.frames['summary'].equals(wb.summary(wb.open(data() / "
    assert book.run_code(same + "'generated_gpu_2ranks'))))").strip() == "True"

    tab.page.evaluate(LARGE)
    panel.box.locator(".wb-opener", has_text="51 MB are more than the 50 MB").wait_for()

    choices = panel.box.locator(".widget-dropdown select:visible")
    choices.nth(1).select_option("generated_gpu_2ranks")
    panel.box.locator(".wb-caption:visible", has_text="The step went from").wait_for(timeout=60_000)
    open_tab(panel, "Comparison")
    assert panel.box.evaluate(CLIPPED) == []
    assert panel.box.locator(".wb-table:visible").count() >= 4
