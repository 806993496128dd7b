"""The start notebook in a real JupyterLab, used as a newcomer would: look, record, look again."""

from __future__ import annotations

import io
import json
import shutil
import time

import pytest
from browser.labdrive import Lab
from PIL import Image

from workbench.resources import notebooks

pytestmark = pytest.mark.browser

NAME = "00_start.ipynb"
RECORD_S = 120
CLIPPED = """(panel) => {
  const edge = panel.getBoundingClientRect().right + 1;
  const shown = [...panel.querySelectorAll("*")].filter((e) => e.checkVisibility());
  const outside = shown.filter((e) => e.getBoundingClientRect().right > edge
    && !e.closest(".wb-table-box") && !e.closest(".wb-timeline"));
  const cut = [...panel.querySelectorAll(".wb-fact, .wb-fact b, .wb-notes, .wb-caption, button")]
    .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1
      && getComputedStyle(e).display !== "inline");
  return [...outside, ...cut].map((e) => `${e.tagName}.${e.className}`);
}"""


@pytest.fixture
def lab(tmp_path, chromium):
    shutil.copy(notebooks() / NAME, tmp_path)
    with Lab(tmp_path, chromium) as running:
        yield running


class Panel:
    """One panel of the page: a launcher or an explorer."""

    def __init__(self, page, number):
        self.page = page
        self.box = page.locator(".wb-panel").nth(number)

    def text(self, selector):
        return self.box.locator(selector).first.inner_text()

    def picture(self, selector):
        place = self.box.locator(selector).first
        place.scroll_into_view_if_needed()
        return Image.open(io.BytesIO(place.screenshot())).convert("RGB")

    def colours(self, selector):
        return len(self.picture(selector).getcolors(1 << 24))

    def chosen(self):
        """Return what the dropdowns in sight show."""
        code = "(all) => all.map((s) => s.selectedOptions[0]?.textContent ?? null)"
        shown = self.box.locator(".widget-dropdown select:visible").evaluate_all(code)
        return [text.replace("\xa0", " ").strip() for text in shown]

    def timeline(self, expression):
        """Evaluate JavaScript in which `t` is the timeline."""
        code = f"(e) => {{ const t = e.timeline; return {expression}; }}"
        return self.box.locator(".wb-timeline").evaluate(code)

    def ready(self):
        """Wait until the timeline and the breakdown are drawn."""
        self.box.locator(".wb-timeline[data-busy='false']").wait_for(timeout=30_000)
        figure = self.box.locator(".wb-figure[data-busy='false']").first
        figure.locator("canvas").first.wait_for(timeout=30_000)
        self.page.wait_for_timeout(200)

    def settle(self):
        self.page.wait_for_timeout(120)
        deadline = time.monotonic() + 10
        while self.timeline("!!(t.asked || t.frame)") and time.monotonic() < deadline:
            self.page.wait_for_timeout(30)

    def kernel(self):
        """Return where the longest event of the first lane of activities is, and its name."""
        found = self.timeline(
            """(() => {
            const d = t.got, other = /steps|ranges|operators/;
            const lane = t.lanes.findIndex((l) => !other.test(l.label));
            const row = t.rows.findIndex((r) => r.lane === lane);
            let best = null;
            for (let i = 0; i < d.row.length; i++) if (d.row[i] === row) {
              const x0 = Math.max(t.xOf(d.start[i]), t.gutter);
              const x1 = Math.min(t.xOf(d.start[i] + d.dur[i]), t.gutter + t.plot);
              if (!best || x1 - x0 > best.wide)
                best = { wide: x1 - x0, x: (x0 + x1) / 2, name: d.texts[d.text[i]] };
            }
            return [best.x, t.rows[row].y - t.top, best.name]; })()"""
        )
        x, y, name = found
        canvas = self.box.locator(".wb-timeline-canvas").bounding_box()
        return canvas["x"] + x, canvas["y"] + 24 + y + 6, name

    def middle(self):
        canvas = self.box.locator(".wb-timeline-canvas").bounding_box()
        return canvas["x"] + canvas["width"] * 0.6, canvas["y"] + 45


def set_state(book, state):
    """Set the state of a notebook's `explorer`."""
    book.run_code(f"import json\nexplorer.state = json.loads({json.dumps(state)!r})")


def test_a_newcomers_first_minutes(lab, tmp_path):
    with lab.page(width=1280, height=1400) as tab:
        book = tab.open(NAME)
        book.run_all()
        sample, launcher, mine = (Panel(tab.page, i) for i in range(3))
        sample.ready()
        assert sample.colours(".wb-timeline-canvas") > 10
        assert sample.colours(".wb-figure") > 5
        assert "NVIDIA H100" in sample.text(".wb-facts")
        assert "There is no run to show yet" in mine.text(".wb-notes")
        assert sample.chosen() == [
            "generated_gpu_2ranks", "no run", "all", "complete steps", "all",
        ]  # fmt: skip

        said = record(launcher)
        assert any("warm-up" in text for text in said)
        assert any("recording" in text or "writing" in text for text in said)
        assert len(said) >= 4

        mine.ready()
        numbers = book.run_code("print(mine.headline)").strip()
        run = book.run_code("print(wb.summary(wb.open(launcher.last_run))['busy_ns'][0])")
        assert book.run_code("print(mine.frames['summary']['busy_ns'][0])") == run
        shown = mine.text(".wb-facts").split("\n")
        assert shown[1] in numbers  # the window, with its unit
        assert "2 steps" in shown
        assert mine.chosen()[0].startswith("gpt-")
        assert mine.chosen()[1:] == ["no run", "complete steps", "all"]  # one rank leaves no choice
        assert "Host execution, no GPU activity" in mine.text(".wb-notes")
        assert mine.colours(".wb-timeline-canvas") > 10

        zoom_and_drag(tab.page, mine)
        click_a_kernel(tab.page, book, mine)
        select_a_range(tab.page, book, mine)

        for width in (1280, 1920):
            tab.resize(width, 1400)
            for dark in (False, True):
                tab.set_dark(dark=dark)
                for panel in (sample, launcher, mine):
                    panel.box.scroll_into_view_if_needed()
                    assert panel.box.evaluate(CLIPPED) == []
                look = f"{width}-{'dark' if dark else 'light'}"
                sample.ready()
                corner = sample.picture(".wb-figure").getpixel((2, 2))
                assert (sum(corner) < 200) is dark
                mine.box.screenshot(path=tmp_path / f"{look}.png")


def record(launcher):
    """Press Record with two steps; return what the state label said on the way, in order."""
    steps = launcher.box.get_by_label("steps")
    steps.fill("2")
    steps.press("Tab")
    launcher.box.get_by_role("button", name="Record").click()
    said, deadline = [], time.monotonic() + RECORD_S
    while time.monotonic() < deadline:
        text = launcher.text(".wb-state")
        if text not in said[-1:]:
            said.append(text)
        if text.startswith(("done", "failed", "cancelled")):
            break
        launcher.page.wait_for_timeout(40)
    assert said[-1].startswith("done: gpt-")
    return said


def zoom_and_drag(page, panel):
    panel.box.locator(".wb-timeline").scroll_into_view_if_needed()
    first, full = panel.picture(".wb-timeline-canvas"), panel.timeline("t.span")
    page.mouse.move(*panel.middle())
    for _ in range(8):
        page.mouse.wheel(0, -300)
        panel.settle()
    zoomed = panel.picture(".wb-timeline-canvas")
    assert panel.timeline("t.span") < full / 10
    assert zoomed.tobytes() != first.tobytes()
    before = panel.timeline("Number(t.base) + t.a")
    x, y = panel.middle()
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=5)
    page.mouse.up()
    panel.settle()
    assert panel.timeline("Number(t.base) + t.a") > before
    assert panel.picture(".wb-timeline-canvas").tobytes() != zoomed.tobytes()


def click_a_kernel(page, book, panel):
    panel.box.get_by_role("tab", name="Kernels").click()
    panel.settle()
    x, y, name = panel.kernel()
    page.mouse.click(x, y)
    row = panel.box.locator("tr.wb-selected:visible")
    row.wait_for(timeout=30_000)
    assert row.locator("td").first.get_attribute("data-v") == name
    assert name in panel.text(".wb-details")
    box, inside = row.bounding_box(), panel.box.locator(".wb-table-box:visible").bounding_box()
    assert inside["y"] <= box["y"] + 1
    assert box["y"] + box["height"] <= inside["y"] + inside["height"] + 1
    assert book.run_code("print(mine.details['value'][0])").strip() == name


def select_a_range(page, book, panel):
    x, y = panel.middle()
    page.keyboard.down("Shift")
    page.mouse.move(x - 150, y)
    page.mouse.down()
    page.mouse.move(x + 50, y, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    panel.box.locator(".wb-facts", has_text="the selected range").wait_for(timeout=30_000)
    a, b = json.loads(book.run_code("print(mine.timeline.selection)"))
    assert int(book.run_code("print(mine.frames['summary']['window_ns'][0])")) == b - a
    page.keyboard.press("Escape")
    panel.box.locator(".wb-facts", has_text="2 steps").wait_for(timeout=30_000)
