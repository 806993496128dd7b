"""The timeline in a real JupyterLab and in a standalone page, driven as a user would."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from browser.labdrive import Browser, Lab, write_notebook
from PIL import Image
from views.generated import frame_of, many_lanes, training_run
from views.traces import kernel, trace

from workbench.views import html, replies
from workbench.views.lod import Window
from workbench.views.timeline import FRONT_END, HERE, Timeline

pytestmark = pytest.mark.browser

TESTS = Path(__file__).resolve().parent.parent
# a cell that sleeps would not do: JupyterLab 4.6 answers widgets beside it, in a subshell
SLOW = """import time
from workbench.views import replies
quick = replies.view
def slow(*args):
    time.sleep(1.5)
    return quick(*args)
replies.view = slow"""
DEAF_MODEL = """
for (const k of ["snapshot_busy", "snapshot_colour"])
  state[k] = new DataView(Uint8Array.from(state[k]).buffer);
const nothing = () => {};
const model = { get: (k) => state[k], set: nothing, save_changes: nothing, on: nothing,
  off: nothing, send: nothing };
render({ model, el: document.body });"""
READY = ".wb-timeline[data-kind='bins'][data-busy='false'], [data-kind='rects'][data-busy='false']"
CANVAS = ".wb-timeline-canvas"
SHOW = """from views.generated import training_run
from workbench.views.timeline import Timeline
w = Timeline(training_run(kernels=8000))
w"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory, chromium):
    root = tmp_path_factory.mktemp("lab")
    write_notebook(root / "timeline.ipynb", SHOW, "import time")
    # the workbench beside these tests, wherever another is installed
    with Lab(root, chromium, PYTHONPATH=f"{TESTS}{os.pathsep}{TESTS.parent}") as running:
        yield running


class Driver:
    """Points at places of one timeline, counted from the left edge of its plot."""

    def __init__(self, page):
        self.page = page
        self.page.wait_for_selector(READY, timeout=30_000)
        self.page.locator(CANVAS).scroll_into_view_if_needed()

    def get(self, expression):
        """Evaluate JavaScript in which `t` is the timeline."""
        timeline = "const t = document.querySelector('.wb-timeline').timeline;"
        return self.page.evaluate(f"() => {{ {timeline} return {expression}; }}")

    def place(self, share, row):
        """Return the page position of a share of the plot's width, in the middle of a row."""
        box = self.page.locator(CANVAS).bounding_box()
        gutter, plot, top = self.get(f"[t.gutter, t.plot, t.rows[{row}].y - t.top]")
        # whole pixels: the browser hands no others to the page
        return round(box["x"] + gutter + share * plot), round(box["y"] + 24 + top + 6)

    def settle(self):
        self.page.wait_for_timeout(80)
        self.page.wait_for_function(
            "() => { const t = document.querySelector('.wb-timeline').timeline;"
            " return !t.asked && !t.frame && !t.hovering; }"
        )

    def wheel(self, share, row, delta, times=1):
        self.page.mouse.move(*self.place(share, row))
        for _ in range(times):
            self.page.mouse.wheel(0, delta)
            self.settle()

    def window(self):
        return self.get("[Number(t.base) + t.a, Number(t.base) + t.b]")

    def tip(self):
        return self.page.locator(".wb-timeline-tip:visible").all_inner_texts()

    def picture(self):
        return picture_of(self.page)


def picture_of(page):
    return Image.open(io.BytesIO(page.locator(CANVAS).screenshot())).convert("RGB")


def kernel_value(book, name):
    return json.loads(book.run_code(f"import json; print(json.dumps(w.{name}))"))


def test_a_session_in_jupyterlab(lab, tmp_path):
    with lab.page(width=1280) as tab:
        book = tab.open("timeline.ipynb")
        book.run_all()
        t = Driver(tab.page)
        full, first = t.window(), t.picture()
        assert len(first.getcolors(1 << 24)) > 10
        assert t.get("t.got.kind") == "bins"

        # hover asks the kernel while there are pixels; the wheel takes the tooltip away
        tab.page.mouse.move(*t.place(0.5, 1))
        tab.page.mouse.move(*t.place(0.501, 1))
        t.settle()
        assert "GPU 0 · stream 7" in t.tip()[0]
        t.wheel(0.5, 1, -300)
        assert t.tip() == []

        # the time under the pointer stays there
        left = tab.page.locator(CANVAS).bounding_box()["x"] + t.get("t.gutter")
        share = (t.place(0.25, 1)[0] - left) / t.get("t.plot")
        a, b = t.window()
        at = a + share * (b - a)
        t.wheel(0.25, 1, -300, times=6)
        a, b = t.window()
        assert (b - a) < (full[1] - full[0]) / 20
        assert a + share * (b - a) == pytest.approx(at, abs=(b - a) * 1e-6)
        assert t.get("t.got.kind") == "rects"
        assert t.picture().tobytes() != first.tobytes()

        # a drag moves the picture with the hand
        a, b = t.window()
        tab.page.mouse.move(*t.place(0.5, 4))
        tab.page.mouse.down()
        tab.page.mouse.move(*t.place(0.7, 4), steps=5)
        tab.page.mouse.up()
        t.settle()
        assert t.window()[0] == pytest.approx(a - 0.2 * (b - a), abs=(b - a) * 0.01)

        # a click selects in the kernel what the tooltip named
        x = t.get("""(() => { const d = t.got; let i = d.row.findIndex((r, i) => r === 1
            && t.xOf(d.start[i]) > t.gutter + 0.4 * t.plot);
            return (t.xOf(d.start[i]) + t.xOf(d.start[i] + d.dur[i])) / 2 - t.gutter; })()""")
        share = x / t.get("t.plot")
        tab.page.mouse.move(*t.place(share, 1))
        tab.page.mouse.move(*t.place(share, 1), steps=2)
        named = t.tip()[0].splitlines()[0]
        tab.page.mouse.click(*t.place(share, 1))
        t.settle()
        assert kernel_value(book, "selected")["table"] == "activities"
        assert kernel_value(book, "mark")["text"] == named
        assert "Selected" in tab.page.locator(".wb-timeline-live").inner_text()

        # Shift and a drag measure
        tab.page.keyboard.down("Shift")
        tab.page.mouse.move(*t.place(0.2, 2))
        tab.page.mouse.down()
        tab.page.mouse.move(*t.place(0.6, 2), steps=4)
        tab.page.mouse.up()
        tab.page.keyboard.up("Shift")
        t.settle()
        start, end = kernel_value(book, "selection")
        a, b = t.window()
        assert end - start == pytest.approx(0.4 * (b - a), rel=0.02)
        table = kernel_value(book, "table().to_dicts()")
        assert table[0]["lane"] == "steps"
        tab.shot(tmp_path / "selected.png")

        # keys are ours, not JupyterLab's: a inserts a cell there, d d deletes one
        cells = tab.page.locator(".jp-Cell").count()
        for key in "wadds":
            tab.page.keyboard.press(key)
        tab.page.keyboard.press("Escape")
        tab.page.keyboard.press("f")
        t.settle()
        tab.page.wait_for_timeout(400)
        assert tab.page.locator(".jp-Cell").count() == cells
        assert t.window() == full
        assert kernel_value(book, "selection") == []
        assert kernel_value(book, "selected") == {}

        # set from Python: the window, then an event out of sight
        book.run_code("w.window = [1000, 2000]")
        t.settle()
        assert t.window() == [1000, 2000]
        book.run_code("w.selected = {'table': 'activities', 'id': 7000}")
        t.settle()
        tab.page.wait_for_timeout(200)
        mark = t.get("t.xOf(BigInt(t.mark.start))")
        assert 0 < mark < 1280

        # a busy kernel: the picture still follows the wheel, and the page says what it waits for
        book.run_code("w.window = w.extent")
        t.settle()
        book.run_code(SLOW)
        tab.page.mouse.move(*t.place(0.5, 1))
        tab.page.mouse.wheel(0, -300)
        tab.page.mouse.wheel(0, -300)
        tab.page.wait_for_timeout(700)
        busy_a, busy_b = t.window()
        assert busy_b - busy_a < 0.5 * (full[1] - full[0])
        assert "busy" in tab.page.locator(".wb-timeline-status").inner_text()
        t.page.wait_for_selector(READY)
        assert t.get("t.satisfied()")
        book.run_code("replies.view = quick")

        # every width, both themes: nothing clipped, page colours followed, lanes named
        for width in (1280, 1920):
            tab.resize(width)
            for dark in (False, True):
                tab.set_dark(dark=dark)
                t.settle()
                box = tab.page.locator(CANVAS).bounding_box()
                area = tab.page.locator(".jp-OutputArea-output").first.bounding_box()
                assert box["x"] + box["width"] <= area["x"] + area["width"] + 0.5 <= width
                assert t.get("t.canvas.width") == round(box["width"])
                corner = t.picture().getpixel((2, 2))
                assert (sum(corner) < 200) is dark
                assert t.get("t.root.dataset.theme") == ("dark" if dark else "light")
                tab.shot(tmp_path / f"lab-{width}-{'dark' if dark else 'light'}.png")


@pytest.fixture(scope="module")
def browser(chromium):
    with Browser(chromium) as running:
        yield running


def test_a_standalone_page_is_alive(browser, tmp_path):
    timeline = Timeline(training_run(kernels=8000))
    path = html.save(tmp_path / "run.html", timeline, "A run", [("Table", "<p>text</p>")])
    with browser.page(width=1280, dark=True, scale=2) as tab:
        tab.goto_file(path)
        t = Driver(tab.page)
        full = t.window()
        assert t.get("t.canvas.width") == 2 * round(
            tab.page.locator(CANVAS).bounding_box()["width"]
        )
        t.wheel(0.5, 1, -300, times=7)
        assert t.get("t.got.kind") == "rects"
        assert t.window()[1] - t.window()[0] < (full[1] - full[0]) / 5
        tab.page.mouse.click(*t.place(0.5, 0))
        t.settle()
        assert "step" in t.get("t.mark.text")
        assert t.get("t.root.dataset.theme") == "dark"


def test_a_standalone_page_that_joins_short_events(browser, tmp_path):
    timeline = Timeline(many_lanes(300_000, lanes=60))
    path = html.save(tmp_path / "large.html", timeline, "Large", max_bytes=900_000)
    with browser.page(width=1280) as tab:
        tab.goto_file(path)
        t = Driver(tab.page)
        assert "of 300,000 events one by one" in tab.page.locator(".note").inner_text()
        # sixty lanes scroll: the wheel over their names moves them
        tab.page.mouse.move(t.place(0, 3)[0] - 40, t.place(0, 3)[1])
        tab.page.mouse.wheel(0, 300)
        t.settle()
        assert t.get("t.top") == 300
        # a pixel's busy share is exact, but for the box at either edge, which counts as even
        busy = np.array(t.get("[...t.got.busy.slice(0, t.got.width)]"))
        a, b, first = t.get("[t.got.a, t.got.b, t.got.runs[0][0]]")
        window = Window(0, a, b, first, first + 1)
        exact = replies.shade(timeline.data.engine.bins(window, len(busy)), window)[0].astype(int)
        edges = 255 * 2 * 2 * t.get("t.model.grain") / ((b - a) / len(busy))
        assert np.abs(exact - busy).max() <= edges
        assert abs(int((exact - busy).sum())) <= len(busy) / 2
        t.wheel(0.5, 20, -300, times=14)
        assert t.get("t.got.kind") == "rects"
        a, b = t.window()
        assert b - a > 9.99


def test_a_box_of_several_events_is_hatched_and_says_what_it_holds(browser, tmp_path):
    # two of 4 and 3 ns with 2 ns between, then a long one; in a page that holds two boxes
    lanes = frame_of(
        np.zeros(3, np.int64),
        np.array([0, 6, 30]),
        np.array([4, 3, 40]),
        pl.Series(["a", "b", "c"]),
    )
    timeline = Timeline(lanes)
    body = html.fragment(timeline, max_boxes=2)
    assert "This page holds 1 of 3 events one by one" in body
    path = tmp_path / "page.html"
    path.write_text(html.page("Joined", body))
    with browser.page(width=800) as tab:
        tab.goto_file(path)
        t = Driver(tab.page)
        tab.page.mouse.move(*t.place(4.5 / 70, 0))
        tab.page.mouse.move(*t.place(5 / 70, 0))
        t.settle()
        title, times, _ = t.tip()[0].splitlines()
        assert title == "2 events, longest a; busy for 7 ns"
        assert times == "9 ns at 0 ns"
        assert t.get("t.shown") == 3
        tab.page.locator(".wb-timeline-bar input").fill("b")
        tab.page.locator(".wb-timeline-count", has_text="1 more inside hatched boxes").wait_for()
        tab.shot(tmp_path / "joined.png")


def test_a_name_that_is_markup_stays_text(browser, tmp_path):
    nasty = "</script><img src=x onerror=\"document.title='broken'\">"
    path = html.save(
        tmp_path / "t.html", Timeline(trace(activities=[kernel(nasty, 0, 100)])), nasty
    )
    with browser.page() as tab:
        tab.goto_file(path)
        t = Driver(tab.page)
        tab.page.mouse.move(*t.place(0.4, 0))
        tab.page.mouse.move(*t.place(0.5, 0))
        t.settle()
        assert t.tip()[0].splitlines()[0] == nasty
        assert tab.page.title() == nasty


@pytest.mark.parametrize(
    ("start", "window", "tick"),
    [
        (1_600_000_000 * 10**9, [1_600_000_000 * 10**9 + k for k in (40, 50)], "+42 ns"),
        (0, [40, 50], "42 ns"),
        (2**62, [2**62 + 40, 2**62 + 50], "+946 ns"),
        (0, [0, 100], "20 ns"),
    ],
)
def test_ticks_stand_apart_down_to_single_nanoseconds(browser, tmp_path, start, window, tick):
    # 2^62 ns is 4611686018.427387904 s
    source = trace(activities=[kernel("k", start + 7 * i, 5) for i in range(15)])
    timeline = Timeline(source)
    timeline.window = window
    with browser.page() as tab:
        tab.goto_file(html.save(tmp_path / "t.html", timeline, "Deep"))
        t = Driver(tab.page)
        texts = t.get("t.ticks().map((k) => k.text)")
        assert tick in texts
        assert len(set(texts)) == len(texts) >= 3


def test_without_a_kernel_the_saved_overview_shows(browser, tmp_path):
    # what a front end has of a saved notebook: the synced traits, and a model that never answers
    timeline = Timeline(training_run(kernels=8000))
    state = timeline.get_state([*html.STATE, "snapshot_rows", "snapshot_busy", "snapshot_colour"])
    for name in ("snapshot_busy", "snapshot_colour"):
        state[name] = list(bytes(state[name]))
    code = FRONT_END.replace("export default { render };", "")
    script = f"{code}\nconst state = {json.dumps(state)};\n{DEAF_MODEL}"
    path = tmp_path / "saved.html"
    head = f"<meta charset=utf-8><style>{(HERE / 'timeline.css').read_text('utf-8')}</style>"
    path.write_text(f"{head}<body><script type=module>{script}</script>", "utf-8")
    with browser.page() as tab:
        tab.goto_file(path)
        tab.page.wait_for_timeout(800)
        assert len(picture_of(tab.page).getcolors(1 << 24)) > 10
        assert "overview only" in tab.page.locator(".wb-timeline-status").inner_text()


BAR = ".wb-timeline-bar"


class Searching(Driver):
    """Uses the bar above the timeline."""

    @property
    def box(self):
        return self.page.locator(f"{BAR} input")

    def said(self, text):
        """Wait until the bar's count begins so; return all of it."""
        count = self.page.locator(".wb-timeline-count", has_text=text)
        count.wait_for(timeout=30_000)
        return count.inner_text()

    def live(self):
        return self.page.locator(".wb-timeline-live").inner_text()

    def choose(self, what, value):
        self.page.locator(f"{BAR} select[aria-label='Draw only one {what}']").select_option(value)
        self.page.wait_for_timeout(300)
        self.settle()

    def filtered(self):
        return self.page.locator(".wb-timeline-filtered").inner_text()

    def search_and_walk(self, before):
        """Look for the collectives, fifteen of a run of five steps, and walk along them."""
        self.page.locator(CANVAS).focus()
        self.page.keyboard.press("/")
        assert self.box.evaluate("(e) => e === document.activeElement")
        self.page.keyboard.type("allreduce")
        live = self.page.locator(".wb-timeline-live", has_text=": allreduce")
        live.wait_for(state="attached", timeout=30_000)
        assert self.live() == "15 of 15 matches in this window: allreduce"
        assert self.said("15 of 15") == "15 of 15 matches in this window"
        self.settle()
        assert self.picture().tobytes() != before.tobytes()
        self.page.keyboard.press("Enter")
        assert self.said("Match 1 ·").endswith("of 15 matches in this window")
        assert self.live().startswith("Match 1 of 15. Selected ncclDevKernel_AllReduce")
        first = self.get("t.mark.start")
        self.page.locator(CANVAS).focus()
        for key, number in (("n", 2), ("n", 3), ("N", 2), ("N", 1), ("N", 15), ("n", 1)):
            self.page.keyboard.press(key)
            self.said(f"Match {number} ·")
        assert self.get("t.mark.start") == first
        mark = self.get("[t.xOf(BigInt(t.mark.start)), t.gutter, t.gutter + t.plot]")
        assert mark[1] <= mark[0] <= mark[2]
        self.page.get_by_label("Next match (n)").click()
        self.said("Match 2 ·")

    def wrong_then_none(self):
        self.box.fill("/(/")
        self.page.wait_for_timeout(400)
        assert "regular expression" in self.page.locator(".wb-timeline-problem").inner_text()
        assert self.box.input_value() == "/(/"
        self.box.fill("no such name")
        self.said("No match")
        self.page.keyboard.press("Escape")
        self.page.wait_for_function(
            "() => !document.querySelector('.wb-timeline-count').textContent.includes('match')"
        )
        assert self.box.input_value() == ""
        assert self.page.locator(CANVAS).evaluate("(e) => e === document.activeElement")

    def filter_by_stream(self):
        self.page.keyboard.press("f")
        self.settle()
        self.choose("stream", "20")
        assert self.filtered().startswith("Only stream 20: 15 of ")
        assert self.live() == self.filtered()
        assert self.get("[t.got.kind, t.got.n]") == ["rects", 15]
        self.box.fill("sgemm")
        self.said("No match")
        self.box.fill("")
        self.page.get_by_role("button", name="Remove the filter").click()
        self.page.wait_for_function(
            "() => !document.querySelector('.wb-timeline-filtered').textContent"
        )
        self.settle()
        self.box.fill("ring")
        self.said("of 15")
        self.page.get_by_label("Draw only what matches the search").click()
        self.page.locator(".wb-timeline-filtered", has_text="matching ring").wait_for()
        self.settle()
        assert self.get("t.got.n") == 15
        self.page.get_by_label("Draw only what matches the search").click()
        self.page.wait_for_function(
            "() => !document.querySelector('.wb-timeline-filtered').textContent"
        )
        self.settle()


def test_search_and_filter_in_jupyterlab(lab, tmp_path):
    with lab.page(width=1280) as tab:
        book = tab.open("timeline.ipynb")
        book.run_all()
        t = Searching(tab.page)
        before = t.picture()
        t.search_and_walk(before)
        assert kernel_value(book, "search") == "allreduce"
        assert kernel_value(book, "matches")["at"] == 2
        assert kernel_value(book, "selected")["table"] == "activities"
        for dark in (True, False):
            tab.set_dark(dark=dark)
            tab.shot(tmp_path / f"near-{dark}.png", ".wb-timeline")
        t.page.locator(CANVAS).focus()
        t.page.keyboard.press("f")
        t.settle()
        for dark in (True, False):
            tab.set_dark(dark=dark)
            tab.shot(tmp_path / f"far-{dark}.png", ".wb-timeline")
        t.wrong_then_none()
        t.filter_by_stream()

        # set from Python: the bar says so
        book.run_code("w.filter = {'streams': [20, 21], 'steps': [1]}; w.search = 'memcpy'")
        t.said("1 of 1")
        t.settle()
        assert t.filtered().startswith("Only streams 20 and 21, step 1: 4 of ")
        assert t.box.input_value() == "memcpy"
        assert t.get("t.got.n") == 4
        tab.shot(tmp_path / "filtered.png", ".wb-timeline")
        book.run_code("w.filter = {}; w.search = ''")
        t.page.wait_for_timeout(300)


def test_search_and_filter_in_a_standalone_page(browser, tmp_path):
    timeline = Timeline(training_run(kernels=8000))
    path = html.save(tmp_path / "run.html", timeline, "A run")
    with browser.page(width=1280) as tab:
        tab.goto_file(path)
        t = Searching(tab.page)
        t.search_and_walk(t.picture())
        t.wrong_then_none()
        t.filter_by_stream()
        t.choose("step", "1")
        assert t.filtered().startswith("Only step 1: ")


def test_a_page_carries_its_search_and_its_filter(browser, tmp_path):
    timeline = Timeline(training_run(kernels=2000))
    timeline.filter = {"steps": [1]}
    timeline.search = "allreduce"
    with browser.page(width=1280) as tab:
        tab.goto_file(html.save(tmp_path / "run.html", timeline, "A run"))
        t = Searching(tab.page)
        assert t.said("3 of 3") == "3 of 3 matches in this window"
        assert t.filtered() == timeline.filtered
        assert t.box.input_value() == "allreduce"
        assert t.get("t.got.n") == len(timeline.drawn.start)
        t.box.focus()
        tab.page.keyboard.press("Enter")
        t.said("Match 1 ·")
        timeline.next_match()
        assert t.get("t.mark.start") == timeline.mark["start"]
        tab.page.wait_for_timeout(400)
        assert t.get("t.model.get('window')") == [str(x) for x in timeline.window]
