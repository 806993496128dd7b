"""Notes in a real browser: written, changed, dragged and removed, found again, read in a page."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from browser.labdrive import Browser, Lab, write_notebook
from browser.test_start import CLIPPED, Panel
from playwright.sync_api import expect

import workbench as wb
from workbench.resources import data
from workbench.views import html

pytestmark = pytest.mark.browser

HTML = "<img src=x onerror=\"document.title='hit'\">"
BAR = ".wb-timeline-note"
CARD = ".wb-timeline-notecard"
LIVE = ".wb-timeline-live"
RESTART = """() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()
    .then(() => 1)"""
TIMELINE = "import workbench as wb\nw = wb.Timeline(wb.open('run'))\nw"
EXPLORER = "import workbench as wb\nexplorer = wb.Explorer('run')\nexplorer"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(data() / "gpt_tiny_cpu", tmp_path / "run"))


@pytest.fixture
def lab(tmp_path, run, chromium):
    write_notebook(tmp_path / "timeline.ipynb", TIMELINE)
    write_notebook(tmp_path / "explorer.ipynb", EXPLORER)
    env = {"PYTHONPATH": str(Path(wb.__file__).parent.parent), "WORKBENCH_AUTHOR": "ann"}
    with Lab(tmp_path, chromium, **env | {"WORKBENCH_NOTES": str(tmp_path / "user")}) as running:
        yield running


class Hands:
    """A person at one timeline."""

    def __init__(self, page):
        self.page = page
        page.wait_for_selector(".wb-timeline[data-busy='false']", timeout=30_000)
        page.locator(".wb-timeline").first.scroll_into_view_if_needed()
        page.wait_for_timeout(300)

    def get(self, expression):
        code = f"(e) => {{ const t = e.timeline; return {expression}; }}"
        return self.page.locator(".wb-timeline").first.evaluate(code)

    def x(self, share):
        left = self.page.locator(".wb-timeline-canvas").first.bounding_box()["x"]
        return round(left + self.get("t.gutter") + share * self.get("t.plot"))

    def y(self):
        return round(self.page.locator(".wb-timeline-canvas").first.bounding_box()["y"] + 34)

    def drag(self, start, end, *, shift=False):
        if shift:
            self.page.keyboard.down("Shift")
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=5)
        self.page.mouse.up()
        if shift:
            self.page.keyboard.up("Shift")
        self.page.wait_for_timeout(150)

    def said(self, words):
        self.page.locator(LIVE, has_text=words).first.wait_for(state="attached", timeout=30_000)

    def write(self, name, text=""):
        self.page.locator(CARD).wait_for(timeout=20_000)
        self.page.keyboard.type(name)
        self.page.keyboard.press("Tab")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Control+Enter")
        self.said(f"Note {name} saved")
        self.page.locator(BAR, has_text=name).wait_for(timeout=20_000)


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)


def kept(run):
    return {n.get("name", ""): n for n in json.loads((run / "notes.json").read_text())["notes"]}


def test_a_note_is_written_changed_dragged_removed_and_found_after_a_restart(lab, run):
    with lab.page(width=1280, height=1100) as tab:
        book = tab.open("timeline.ipynb")
        book.run_all()
        me = Hands(tab.page)
        tab.page.locator(".wb-timeline-addnote").click()
        assert "Select a range" in tab.page.locator(CARD).inner_text()
        tab.page.keyboard.press("Escape")

        # a range, e, a name, a text; letters are no commands while they are typed
        window = me.get("[t.a, t.b]")
        me.drag((me.x(0.2), me.y()), (me.x(0.4), me.y()), shift=True)
        tab.page.keyboard.press("e")
        me.write("wads slow", HTML)
        assert me.get("[t.a, t.b]") == window
        note = kept(run)["wads slow"]
        start, end = json.loads(book.run_code("print(list(w.selection))"))
        origin = int(book.run_code("print(wb.open('run').origin_ns)"))
        target = note["target"]
        assert (target["start_ns"], target["end_ns"]) == (origin + start, origin + end)
        assert (note["text"], note["author"]) == (HTML, "ann")
        tab.page.keyboard.press("Escape")

        # an event, by the button
        book.run_code("w.selected = {'table': 'ops', 'rank': 0, 'id': 40}")
        until(lambda: me.get("!!t.mark"))
        tab.page.locator(".wb-timeline-addnote").click()
        me.write("this op")
        assert kept(run)["this op"]["target"]["id"] == 40

        # hover reads it, a click opens it, Escape closes it and gives the focus back
        bar = tab.page.locator(BAR, has_text="wads slow")
        bar.hover()
        tip = tab.page.locator(".wb-timeline-tip:visible")
        assert HTML in tip.inner_text()
        bar.click()
        card = tab.page.locator(CARD)
        assert card.locator("textarea").input_value() == HTML
        assert tab.page.title() != "hit"
        tab.page.keyboard.press("Escape")
        assert not card.is_visible()
        assert bar.evaluate("(e) => e === document.activeElement")

        # by keyboard: Enter opens it; its text is changed
        tab.page.keyboard.press("Enter")
        card.locator("textarea").fill("the loader")
        card.get_by_role("button", name="Save").click()
        me.said("Note wads slow saved")
        assert kept(run)["wads slow"]["text"] == "the loader"

        # its end is dragged to 60 %; an arrow key moves it on
        box = bar.bounding_box()
        me.drag((me.x(0.4) - 1, box["y"] + 8), (me.x(0.6), box["y"] + 8))
        me.said("is now")
        first, last = json.loads(book.run_code("print(list(w.extent))"))
        moved = kept(run)["wads slow"]["target"]
        pixel = (last - first) / me.get("t.plot")
        assert moved["start_ns"] == origin + start
        assert moved["end_ns"] - origin == pytest.approx(
            first + 0.6 * (last - first), abs=2 * pixel
        )
        bar.focus()
        tab.page.keyboard.press("Shift+ArrowRight")
        until(lambda: kept(run)["wads slow"]["target"]["end_ns"] != moved["end_ns"])
        further = kept(run)["wads slow"]["target"]["end_ns"] - moved["end_ns"]
        assert further == pytest.approx(8 * pixel, rel=0.01)

        # both themes, and nothing of the strip outside the page
        for dark in (True, False):
            tab.set_dark(dark=dark)
            edge = tab.page.locator(".wb-timeline").bounding_box()
            for k in range(2):
                mine = tab.page.locator(BAR).nth(k).bounding_box()
                assert (
                    edge["x"] <= mine["x"] < mine["x"] + mine["width"] <= edge["x"] + edge["width"]
                )

        # removing asks once more, and leaves nothing to read
        tab.page.locator(BAR, has_text="this op").click()
        card.get_by_role("button", name="Remove").click()
        assert "this op" in kept(run)
        card.get_by_role("button", name="Really remove").click()
        me.said("Note this op removed")
        assert tab.page.locator(BAR).count() == 1
        assert "this op" not in kept(run)

        tab.page.evaluate(RESTART)
        book.wait_idle()
        me.get("t.zoom(0.5)")  # asks a kernel that knows nothing of this view
        status = tab.page.locator(".wb-timeline-status")
        assert "the kernel was restarted: run the cell again" in status.inner_text()
        book.run_all()
        again = Hands(tab.page)
        tab.page.locator(BAR, has_text="wads slow").click()
        assert tab.page.locator(f"{CARD}:visible textarea").input_value() == "the loader"
        assert again.get("t.notes.items.length") == 1


def test_what_two_notebooks_write_at_once_is_kept_and_a_dead_kernel_is_told(lab, run):
    with lab.page(width=1280, height=1100) as tab:
        book = tab.open("timeline.ipynb")
        book.run_all()
        me = Hands(tab.page)
        me.drag((me.x(0.2), me.y()), (me.x(0.4), me.y()), shift=True)
        tab.page.keyboard.press("e")
        me.write("mine", "first")
        other = wb.Timeline(wb.open(run))
        other.noted.edit(other.annotations[0]["id"], text="theirs")
        tab.page.locator(BAR).click()
        tab.page.locator(f"{CARD} textarea").fill("mine still")
        tab.page.keyboard.press("Control+Enter")
        me.said("Note mine saved")
        tab.page.wait_for_function(
            "() => document.querySelectorAll('.wb-timeline-note').length === 2"
        )
        assert tab.page.locator(BAR).all_inner_texts() == ["mine ⚠", "mine ⚠"]
        texts = [n["text"] for n in json.loads((run / "notes.json").read_text())["notes"]]
        assert sorted(texts) == ["mine still", "theirs"]

        # a damaged file is not written, and the card keeps what was typed
        (run / "notes.json").write_text("{")
        tab.page.locator(BAR).first.click()
        tab.page.locator(f"{CARD} textarea").fill("not lost")
        tab.page.keyboard.press("Control+Enter")
        said = tab.page.locator(f"{CARD} .wb-timeline-said", has_text="left as it is")
        said.wait_for(timeout=30_000)
        assert tab.page.locator(f"{CARD} textarea").input_value() == "not lost"
        assert (run / "notes.json").read_text() == "{"


def test_the_explorers_tab_lists_notes_shows_and_changes_them(lab, run):
    with lab.page(width=1280, height=1500) as tab:
        book = tab.open("explorer.ipynb")
        book.run_all()
        panel = Panel(tab.page, 0)
        panel.ready()
        me = Hands(tab.page)
        me.drag((me.x(0.2), me.y()), (me.x(0.4), me.y()), shift=True)
        tab.page.keyboard.press("e")
        me.write("slow", "why?")
        tab.page.keyboard.press("Escape")
        panel.box.get_by_role("tab", name="Notes (1)").click()
        table = panel.box.locator(".wb-table:visible").first
        table.locator("tbody tr").click()
        form = panel.box.locator(".widget-textarea textarea:visible")
        expect(form).to_have_value("why?", timeout=30_000)
        # the note and half its length on each side
        panel.settle()
        assert panel.timeline("(t.xOf(t.notes.items[0].start) - t.gutter) / t.plot") == (
            pytest.approx(0.25, abs=0.01)
        )
        form.fill("the loader")
        form.blur()
        panel.box.locator(".widget-button:visible", has_text="save").click()
        table.locator("td", has_text="the loader").wait_for(timeout=30_000)
        assert kept(run)["slow"]["text"] == "the loader"
        assert panel.box.evaluate(CLIPPED) == []

        tab.page.evaluate(RESTART)
        book.wait_idle()
        book.run_all()
        Panel(tab.page, 0).ready()
        panel.box.get_by_role("tab", name="Notes (1)").wait_for(timeout=30_000)
        assert tab.page.locator(BAR).inner_text() == "slow"


def test_a_page_shows_notes_as_text_and_says_that_they_are_only_read(run, tmp_path, chromium):
    timeline = wb.Timeline(wb.open(run))
    first, last = timeline.extent
    timeline.annotate("slow", HTML, start_ns=first, end_ns=(first + last) // 2)
    timeline.annotate("op", event={"table": "ops", "rank": 0, "id": 40})
    path = html.save(tmp_path / "page.html", timeline, "t")
    with Browser(chromium) as browser, browser.page(width=1280) as tab:
        tab.page.context.set_offline(True)
        tab.goto_file(path)
        me = Hands(tab.page)
        assert sorted(tab.page.locator(BAR).all_inner_texts()) == ["op", "slow"]
        assert not tab.page.locator(".wb-timeline-addnote").is_visible()
        tab.page.locator(BAR, has_text="slow").click()
        card = tab.page.locator(CARD)
        assert HTML in card.inner_text()
        assert "Notes can't be changed in a page" in card.inner_text()
        assert not card.locator("input, textarea").first.is_visible()
        assert tab.page.title() == "t"
        tab.page.keyboard.press("Escape")
        tab.page.locator(".wb-timeline-canvas").focus()
        tab.page.keyboard.press("e")
        me.said("Notes can't be changed in a page")
        tab.page.keyboard.press("w")
        assert me.get("t.span") < last - first


def test_many_notes_are_packed_and_the_rest_is_counted(run, tmp_path, chromium):
    timeline = wb.Timeline(wb.open(run))
    first, last = timeline.extent
    each = (last - first) // 400
    timeline.annotations = [
        {"name": f"number {k}", "start_ns": first + k * each, "end_ns": first + (k + 1) * each}
        for k in range(400)
    ]
    path = html.save(tmp_path / "page.html", timeline, "t")
    with Browser(chromium) as browser, browser.page(width=1280) as tab:
        tab.goto_file(path)
        me = Hands(tab.page)
        boxes = [bar.bounding_box() for bar in tab.page.locator(BAR).all()]
        rows = {}
        for box in sorted(boxes, key=lambda b: b["x"]):
            assert box["x"] >= rows.get(box["y"], 0)
            rows[box["y"]] = box["x"] + box["width"]
        assert len(rows) == 4
        left = int(tab.page.locator(".wb-timeline-morenotes").inner_text().split()[0])
        assert left == 400 - len(boxes)
        me.get("t.setWindow(0n, 0, Number(t.extent) / 40)")
        tab.page.wait_for_timeout(300)
        assert "number 9" in tab.page.locator(BAR).all_inner_texts()
