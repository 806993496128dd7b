"""Tracks, links, minimap, lanes, keys and measured ranges, in JupyterLab and in a page."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from browser.labdrive import Browser, Lab, write_notebook
from views.generated import many_lanes
from views.test_timeline_browser import CANVAS, Driver

from workbench.trace.open import open_source
from workbench.views import html
from workbench.views.timeline import Timeline

pytestmark = pytest.mark.browser

TESTS = Path(__file__).resolve().parent.parent
RUN = TESTS.parent / "data" / "generated_gpu_2ranks"
SHOW = f"""import workbench as wb
w = wb.Timeline(wb.open({str(RUN)!r}))
w"""
MAP = ".wb-timeline-map"
GPU0, GPU1 = "rank 0 · GPU 0", "rank 1 · GPU 1"
# the first fused norm on stream 7, launched by an operator that has a backward node
PICK = """(() => { const d = t.got;
    const k = t.lanes.findIndex((l) => l.label === 'rank 0 · GPU 0 · stream 7');
    const i = [...d.row.keys()].find((i) => d.row[i] === t.shelf.lanes[k].first
      && /_rms_norm|layer_norm/.test(d.texts[d.text[i]]));
    t.model.send({ type: 'pick', view: t.id, event: d.event[i] });
    return d.texts[d.text[i]]; })()"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory, chromium):
    root = tmp_path_factory.mktemp("lab")
    write_notebook(root / "timeline.ipynb", SHOW)
    with Lab(root, chromium, PYTHONPATH=f"{TESTS}{os.pathsep}{TESTS.parent}") as running:
        yield running


@pytest.fixture(scope="module")
def browser(chromium):
    with Browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    timeline = Timeline(open_source(RUN))
    return html.save(tmp_path_factory.mktemp("page") / "run.html", timeline, "A run")


class Front(Driver):
    """Uses what stands around the events."""

    def press(self, *keys):
        self.page.locator(CANVAS).focus()
        for key in keys:
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(120)
        self.settle()

    def hears(self, text):
        """Wait until a screen reader is told something that begins so."""
        self.page.wait_for_function(
            "(text) => document.querySelector('.wb-timeline-live').textContent.startsWith(text)",
            arg=text,
        )

    def item(self, key):
        """Return the middle of an item's label on the page."""
        box = self.page.locator(CANVAS).bounding_box()
        y = self.get(f"t.yOf(t.shelf.items.find((i) => i.key === {json.dumps(key)}))")
        return round(box["x"] + 60), round(box["y"] + y + 8)

    def items(self):
        return self.get("t.shelf.items.map((i) => i.key)")

    def trait(self, name):
        return self.get(f"t.model.get('{name}')")

    def drag(self, start, end):
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=6)
        self.page.mouse.up()
        self.settle()

    # ---- what is tried in both places ----------------------------------------------------------
    def tracks(self):
        self.page.wait_for_function(
            "() => document.querySelector('.wb-timeline').timeline.tracks.limits.size >= 3"
        )
        names = self.get("t.shelf.items.filter((i) => i.kind === 'track').map((i) => i.key)")
        assert names[:3] == [
            f"{GPU0} · {q}" for q in ("memory allocated", "queue depth", "occupancy")
        ]
        assert self.get("t.tracks.limits.get(t.shelf.byKey.get(" + json.dumps(names[2]) + ").k)")
        box = self.page.locator(CANVAS).bounding_box()
        y = self.item(names[2])[1] + 6
        gutter, plot = self.get("[t.gutter, t.plot]")
        # kernels of 19 % occupancy run at a fifth of the extent; at its end the device idles
        self.page.mouse.move(box["x"] + gutter + 0.05 * plot, y)
        self.page.mouse.move(box["x"] + gutter + 0.051 * plot, y)
        assert self.tip()[0].splitlines()[0] == "19 %"
        self.page.mouse.move(box["x"] + gutter + 0.95 * plot, y)
        assert self.tip()[0].splitlines()[0] == "not known here"
        blank = self.picture().getpixel((round(gutter + 0.95 * plot), round(y - box["y"])))
        filled = self.picture().getpixel((round(gutter + 0.05 * plot), round(y - box["y"])))
        assert blank != filled
        self.page.mouse.move(*self.item(GPU0 + " · *"))

    def links(self):
        before = self.picture().tobytes()
        name = self.get(PICK)
        self.page.wait_for_function(
            "() => (document.querySelector('.wb-timeline').timeline.links.flow.lines || []).length"
        )
        self.settle()
        assert self.get("t.mark.text") == name
        relations = self.get("t.links.stops.map((s) => s.relation)")
        assert relations[1:] == ["operator", "backward"]
        assert self.picture().tobytes() != before
        self.press("]")
        self.hears("Link 1 of 2, operator. Selected aten::")
        self.press("]", "]")
        self.hears(f"Selected {name}")
        self.press("[")
        self.hears("Link 2 of 2, backward. Selected autograd")

    def minimap(self):
        self.press("Escape", "f")
        box = self.page.locator(MAP).bounding_box()
        gutter, plot = self.get("[t.gutter, t.plot]")
        extent = self.get("Number(t.extent)")
        x, y = (lambda share: box["x"] + gutter + share * plot), box["y"] + box["height"] / 2
        # the right edge to the middle, then the frame by a quarter, then a jump back
        self.drag((x(1) - 2, y), (x(0.5) - 2, y))
        assert self.window() == pytest.approx([0, extent / 2], abs=extent * 0.01)
        self.drag((x(0.3), y), (x(0.55), y))
        assert self.window() == pytest.approx([extent / 4, 3 * extent / 4], abs=extent * 0.01)
        self.page.mouse.click(x(0.1), y)
        self.settle()
        assert self.window() == pytest.approx([0, extent / 2], abs=extent * 0.01)
        self.press("f")

    def lanes(self):
        self.page.evaluate("() => document.querySelector('.wb-timeline').timeline.scrollTo(0)")
        rows = self.get("t.rows.filter((r) => r.h).length")
        self.page.mouse.click(*self.item(GPU0 + " · *"))
        self.settle()
        assert self.trait("folded") == [GPU0 + " · *"]
        assert self.get("t.rows.filter((r) => r.h).length") < rows
        assert not any(k.startswith(GPU0) and not k.endswith("*") for k in self.items())
        # a drag over a heading pans as it does elsewhere
        self.press("w", "w", "w")
        a, _ = self.window()
        x, y = self.item(GPU0 + " · *")
        self.drag((x + 600, y), (x + 700, y))
        assert self.window()[0] < a
        self.press("f")
        self.press("c")  # the item in focus is the one that was clicked
        assert self.trait("folded") == []
        # a label dragged below another, and back by the keyboard
        streams = [f"{GPU0} · stream {n}" for n in (7, 20)]
        start, end = self.item(streams[1]), self.item(streams[0])
        self.drag(start, (end[0], end[1] - 10))
        assert [k for k in self.items() if k in streams] == streams[::-1]
        self.page.mouse.click(*self.item(streams[1]))
        self.press("Alt+ArrowDown")
        self.hears("stream 20 moved down, below stream 7")
        assert [k for k in self.items() if k in streams] == streams
        self.press("Alt+ArrowUp")
        self.hears("stream 20 moved up, above stream 7")
        assert [k for k in self.items() if k in streams] == streams[::-1]
        # hidden by key, shown again by the menu
        self.page.mouse.click(*self.item(streams[0]))
        self.press("h")
        assert streams[0] in self.trait("hidden")
        assert streams[0] not in self.items()
        self.page.get_by_role("button", name="Lanes", exact=True).click()
        menu = self.page.locator(".wb-timeline-menu")
        menu.get_by_label("stream 7", exact=True).first.check()
        self.page.wait_for_timeout(200)
        assert streams[0] in self.items()
        menu.get_by_role("button", name="Sort by device").click()
        self.page.wait_for_timeout(300)
        assert [k for k in self.items() if k in streams] == streams
        self.page.keyboard.press("Escape")
        assert menu.is_hidden()

    def walk(self):
        self.press("Escape", "f")
        self.page.mouse.move(5, 5)
        first = self.get(PICK)
        self.page.wait_for_function("() => document.querySelector('.wb-timeline').timeline.mark")
        start = int(self.get("t.mark.start"))
        self.press("ArrowRight")
        self.page.wait_for_function(
            f"() => Number(document.querySelector('.wb-timeline').timeline.mark.start) > {start}"
        )
        self.press("ArrowLeft")
        self.hears(f"Selected {first}")
        self.press("ArrowUp")
        self.hears("Selected step")
        self.press("ArrowDown")
        self.page.wait_for_function(
            "() => /stream 7/.test(document.querySelector('.wb-timeline').timeline.mark.lane)"
        )
        self.press("Enter")
        a, b = self.window()
        assert b - a == pytest.approx(1.2 * int(self.get("t.mark.dur")), rel=0.05)
        self.press("m")
        self.page.wait_for_function(
            "() => document.querySelector('.wb-timeline-card').innerText.includes('idle')"
        )
        card = self.page.locator(".wb-timeline-card").inner_text()
        # one of two devices
        assert "compute\n9.685 µs\n50.0 %" in card
        assert "15 events on 2 devices" in card
        self.press("?")
        help_card = self.page.locator(".wb-timeline-help")
        assert help_card.is_visible()
        assert "walk along the links" in help_card.inner_text()
        high = help_card.locator("dt").evaluate_all("(all) => all.map((d) => d.offsetHeight)")
        assert max(high) < 24  # px: each key on one line, whatever the page says of terms
        self.press("Escape")
        assert help_card.is_hidden()
        assert self.get("!!t.mark")
        self.press("Escape")
        self.page.wait_for_function("() => !document.querySelector('.wb-timeline').timeline.mark")

    def measured(self):
        self.press("f")
        self.page.keyboard.down("Shift")
        self.drag(self.place(0.2, 1), self.place(0.5, 1))
        self.page.keyboard.up("Shift")
        self.page.wait_for_function(
            "() => document.querySelector('.wb-timeline-card').innerText.includes('idle')"
        )
        text = self.page.locator(".wb-timeline-card").inner_text()
        assert {"compute", "communication", "copy", "idle"} <= set(text.splitlines())
        assert "exposed communication" in text
        self.hears("Range of ")
        return text

    def table(self):
        """Return the heads and the first row of what a screen reader is told."""
        self.page.wait_for_timeout(600)
        cells = self.page.locator(".wb-timeline-table th")
        rows = self.page.locator(".wb-timeline-table tbody tr")
        assert rows.count() <= 50
        return cells.all_inner_texts(), rows.first.locator("td").all_inner_texts()


def test_the_front_end_in_jupyterlab(lab, tmp_path):
    with lab.page(width=1280) as tab:
        book = tab.open("timeline.ipynb")
        book.run_all()
        t = Front(tab.page)
        t.tracks()
        t.links()
        links = book.run_code("print(w.links['relation'].to_list())")
        assert links.strip() == "['launch', 'operator', 'backward']"
        t.minimap()
        t.lanes()
        t.walk()
        card = t.measured()
        said = json.loads(book.run_code("import json; print(json.dumps(w.measure().rows()))"))
        assert [part for part, *_ in said] == [
            "compute", "communication", "exposed communication", "copy", "idle",
        ]  # fmt: skip
        assert all(f"{100 * share:.1f} %" in card for *_, share in said)
        t.press("Escape", "f")
        heads, row = t.table()
        assert heads == ["lane", "events", "busy", "share"]
        wanted = json.loads(book.run_code("print(json.dumps(w.table().rows()[0]))"))
        assert row[:2] == [wanted[0], str(wanted[1])]

        # set in Python: folded, hidden, ordered
        book.run_code(f"w.folded = ['{GPU1} · *']; w.hidden = ['{GPU0} · *']")
        t.settle()
        tab.page.wait_for_timeout(200)
        assert t.items()[0] == f"{GPU1} · *"
        assert not any(k.startswith(GPU0) for k in t.items())
        book.run_code("w.hidden = []; w.order = ['rank 0 · CPU · *']")
        tab.page.wait_for_timeout(300)
        t.settle()
        assert t.items()[0] == "rank 0 · CPU · *"

        # themes: the minimap and the tracks follow
        shots = {}
        for dark in (False, True):
            tab.set_dark(dark=dark)
            t.settle()
            shots[dark] = tab.page.locator(MAP).screenshot()
            tab.shot(tmp_path / f"front-{dark}.png")
        assert shots[False] != shots[True]


def test_the_front_end_in_a_standalone_page(browser, path):
    with browser.page(width=1280) as tab:
        tab.goto_file(path)
        t = Front(tab.page)
        t.tracks()
        t.links()
        t.minimap()
        t.lanes()
        t.walk()
        t.measured()
        t.press("Escape", "f")
        heads, row = t.table()
        assert heads == ["lane", "events", "busy", "share"]
        assert row[0] == f"{GPU0} · steps" or row[0].endswith("steps")


def pinch(tab, points):
    """Move two fingers, each along its list of places."""
    client = tab.page.context.new_cdp_session(tab.page)
    for k, places in enumerate(points):
        kind = "touchStart" if k == 0 else "touchMove"
        touches = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_two_fingers_zoom(browser, path):
    with browser.page(width=1280) as tab:
        tab.goto_file(path)
        t = Front(tab.page)
        t.settle()
        x0, y = t.place(0.4, 1)
        x1 = t.place(0.6, 1)[0]
        wide = x1 - x0
        steps = [[(x0 - k * wide / 20, y), (x1 + k * wide / 20, y)] for k in range(11)]
        a, b = t.window()
        pinch(tab, steps)
        t.settle()
        # fingers twice as far apart: half the time, around the middle between them
        c, d = t.window()
        assert (d - c) / (b - a) == pytest.approx(0.5, abs=0.03)
        assert (c + d) / 2 == pytest.approx((a + b) / 2, abs=0.02 * (b - a))


def test_hundreds_of_lanes_scroll_and_stay_sharp(browser, tmp_path):
    timeline = Timeline(many_lanes(24_000, lanes=240))
    with browser.page(width=1280, scale=2) as tab:
        tab.goto_file(html.save(tmp_path / "many.html", timeline, "Many"))
        t = Front(tab.page)
        box = tab.page.locator(CANVAS).bounding_box()
        assert t.get("[t.canvas.width, t.map.el.width]") == [2 * round(box["width"])] * 2
        tab.page.mouse.move(box["x"] + 40, box["y"] + 200)
        for _ in range(12):
            tab.page.mouse.wheel(0, 400)
            t.settle()
        assert t.get("t.top") > 2000
        # what is asked for is what is in sight, and a little more
        rows = t.get("t.got.rows.length")
        assert 20 < rows < 60
        assert t.get("t.shelf.rowsInSight().every((r) => t.got.has[r])")
        # to the last lane by the keyboard, and up with it
        t.press("PageDown", "PageDown")
        last = t.get("t.shelf.items[239].key")
        tab.page.evaluate(
            f"() => {{ const t = document.querySelector('.wb-timeline').timeline;"
            f" t.shelf.focus = {json.dumps(last)}; }}"
        )
        t.press("Alt+ArrowUp")
        assert t.items()[238] == last
        assert t.get("t.tracks.got.size") == 0


def test_a_folded_lane_is_asked_for_again_and_painted(browser, path):
    with browser.page(width=1280) as tab:
        tab.goto_file(path)
        t = Front(tab.page)
        t.settle()
        for key in (f"{GPU0} · *", f"{GPU1} · *"):
            tab.page.mouse.click(*t.item(key))
            t.settle()
        operators = next(k for k in t.items() if k.endswith("operators"))
        height = t.get("t.content")
        tab.page.mouse.click(*t.item(operators))
        t.settle()
        assert t.get("t.content") < height
        # the event of a folded row is unfolded when it is selected
        tab.page.evaluate(
            """() => { const t = document.querySelector('.wb-timeline').timeline;
            const lane = t.shelf.items.find((i) => i.label.includes('operators')).k;
            t.model.send({ type: 'pick', view: t.id, row: t.shelf.lanes[lane].first + 1, t: '0',
              slack: String(t.extent) }); }"""
        )
        t.page.wait_for_function("() => document.querySelector('.wb-timeline').timeline.mark")
        t.settle()
        assert operators not in t.trait("folded")
        assert t.get("t.rows[t.mark.row].h > 0")
