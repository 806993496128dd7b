"""The explorer's tabs in a real JupyterLab: drawn, whole, and tied to the timeline."""

from __future__ import annotations

import json
import re

import pytest
from browser.test_start import CLIPPED, set_state

pytestmark = pytest.mark.browser


def open_tab(panel, title):
    """Open a tab and wait until its pictures are there."""
    panel.box.get_by_role("tab", name=re.compile(rf"^{title}( \(\d+\))?$")).click()
    panel.page.wait_for_timeout(800)
    for figure in panel.box.locator(".wb-figure:visible").all():
        figure.locator("canvas").first.wait_for(timeout=30_000)
    panel.page.wait_for_timeout(200)


def column(panel, name):
    """Return the values of a column of the first table in sight, from the top."""
    table = panel.box.locator(".wb-table:visible").first
    heads = table.locator("th").evaluate_all("(all) => all.map((h) => h.dataset.name)")
    cells = table.locator(f"tbody td:nth-child({heads.index(name) + 1})")
    return [float(v) for v in cells.evaluate_all("(all) => all.map((c) => c.dataset.v)")]


def test_every_tab_is_drawn_and_tied_to_the_timeline(page):
    tab, book, panel = page
    titles = json.loads(book.run_code("import json; print(json.dumps(explorer.panes.titles))"))
    assert len(titles) >= 13
    for dark, shown in ((False, titles), (True, ("Steps", "Roofline"))):
        tab.set_dark(dark=dark)
        for title in shown:
            open_tab(panel, title)
            assert panel.box.evaluate(CLIPPED) == [], title
            assert panel.box.locator(".wb-caption:visible, .wb-notes:visible").count() >= 2

    open_tab(panel, "Operators")
    tab.page.locator("th[data-name='self_host_ns']:visible").click()
    values = column(panel, "self_host_ns")
    assert values == sorted(values, reverse=True)
    assert values != sorted(column(panel, "self_device_ns"), reverse=True)

    open_tab(panel, "Idle")
    gaps = panel.box.locator(".wb-table:visible").nth(1)
    gaps.locator("tbody tr").nth(2).click()
    wanted = book.run_code("print(explorer.frames['idle']['ended_by'][2])").strip()
    panel.box.locator(".wb-details", has_text=wanted).wait_for(timeout=30_000)
    panel.settle()
    start, length = book.run_code(
        "print(*explorer.frames['idle'].select('start_ns', 'dur_ns').row(2))"
    ).split()
    assert panel.timeline("t.span") == pytest.approx(2 * int(length), rel=0.01)
    assert panel.timeline("Number(t.base) + t.a") < int(start)


POINT = """() => {
  const [root] = [...window.Bokeh.index.roots].filter(
    (r) => r.model.title?.text?.startsWith("Roofline"));
  const points = root.model.renderers.filter((r) => r.data_source.data.row);
  const at = (name) => points[0].data_source.data[name][0];
  const box = root.el.getBoundingClientRect();
  return {
    row: Number(at("row")), what: at("what"),
    x: box.left + root.frame.x_scale.compute(at("flops_per_byte")),
    y: box.top + root.frame.y_scale.compute(at("gflops_per_s")),
  };
}"""


def test_a_click_on_a_point_of_the_roofline_shows_it_on_the_timeline(page):
    tab, book, panel = page
    open_tab(panel, "Roofline")
    panel.box.locator(".wb-figure:visible").last.scroll_into_view_if_needed()
    tab.page.wait_for_timeout(300)
    point = tab.page.evaluate(POINT)
    tab.page.mouse.click(point["x"], point["y"])
    panel.box.locator(".wb-details", has_text=point["what"]).wait_for(timeout=30_000)
    selected = book.run_code("print(explorer.timeline.selected['table'])")
    assert selected.strip() == "activities"
    picked = book.run_code("print(explorer.panes.tables['roofline'].selected)")
    assert int(picked) == point["row"]


def test_what_is_set_in_the_page_is_state_and_code(page):
    tab, book, panel = page
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_tab(panel, "Operators")
    panel.box.locator("th[data-name='calls']:visible").click()
    open_tab(panel, "Roofline")
    choices = panel.box.locator(".widget-dropdown select:visible")
    choices.nth(5).select_option("kind of work")
    choices.nth(6).select_option("epilogues")
    panel.box.locator("th[data-name='group']:visible").first.wait_for(timeout=30_000)
    book.wait_idle()
    state = json.loads(book.run_code("import json; print(json.dumps(explorer.state))"))
    assert state["sort"] == {"ops": {"column": "calls", "down": True}}
    assert (state["tab"], state["roofline_by"]) == ("Roofline", "kind")
    assert state["convention"] == "epilogues"

    panel.box.get_by_role("button", name="copy as code").click()
    panel.box.get_by_role("status").filter(has_text="copied").wait_for(timeout=30_000)
    copied = tab.page.evaluate("() => navigator.clipboard.readText()")
    assert copied.splitlines() == book.run_code("print(explorer.code())").strip().splitlines()
    book.run_code(copied.replace("wb.Explorer(", "again = wb.Explorer("))
    assert book.run_code("print(again.state == explorer.state)").strip() == "True"
    assert panel.box.evaluate(CLIPPED) == []

    set_state(book, state | {"tab": "Operators", "sort": {}})
    panel.box.locator("th[data-name='calls'][aria-sort='none']:visible").wait_for()
    rows = book.run_code("print(json.dumps(explorer.frames['ops']['calls'].to_list()))")
    assert column(panel, "calls") == json.loads(rows)
    wanted = state | {"tab": "Operators", "sort": {"ops": {"column": "calls", "down": False}}}
    set_state(book, wanted)
    panel.box.locator("th[data-name='calls'][aria-sort='ascending']:visible").wait_for()
    assert column(panel, "calls") == sorted(column(panel, "calls"))


REFUSE = "() => { Object.defineProperty(navigator, 'clipboard', { value: undefined }); }"


def test_code_can_be_copied_by_hand_where_the_page_may_not_write(page):
    tab, _, panel = page
    tab.page.evaluate(REFUSE)
    panel.box.get_by_role("button", name="copy as code").click()
    code = panel.box.get_by_role("textbox")
    code.wait_for(timeout=30_000)
    assert code.input_value().startswith("import workbench as wb\n")
    assert code.evaluate("(e) => e.selectionEnd - e.selectionStart") == len(code.input_value())
    code.press("Escape")
    assert code.count() == 0 or not code.is_visible()
