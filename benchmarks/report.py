"""How large a page of a timeline is, and how soon it is there.

    python benchmarks/report.py [--events 100000 1000000 10000000] [--lanes 40] [--source PATH]

Prints one table, a page a row. `held` are the events with a box of their own, `grain` is the time
below which events that lie together share one. `loaded` is from opening the file in headless
Chromium to the first picture on the canvas, the median of five; `zoom` from the wheel to the paint,
median and worst of 25 steps.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from browser.labdrive import Browser  # noqa: E402
from views.generated import many_lanes  # noqa: E402

from workbench import units  # noqa: E402
from workbench.views import html  # noqa: E402
from workbench.views.timeline import Timeline  # noqa: E402

LOADS, WHEEL_STEPS = 5, 25
TIMELINE = "document.querySelector('.wb-timeline').timeline"
WATCH = """(function watch() {
  const t = document.querySelector('.wb-timeline')?.timeline;
  if (t && t.got && !t.asked && !t.frame) window.paintedAt = performance.now();
  else requestAnimationFrame(watch); })()"""
PAINTED = "() => window.paintedAt"


def row(name: str, timeline: Timeline, browser: Browser, folder: Path) -> list[str]:
    """Write the page of a timeline, open it, zoom into it."""
    begin = time.perf_counter()
    path = html.save(folder / "page.html", timeline, name)
    written = time.perf_counter() - begin
    loads = [loaded(browser, path) for _ in range(LOADS)]
    zooms = zoomed(browser, path)
    carried = html.payload(timeline, html.MAX_BYTES)
    return [
        name,
        f"{len(timeline.data.start):,}",
        f"{path.stat().st_size / 1e6:.2f} MB",
        f"{written:.1f} s",
        f"{carried['alone']:,}",
        units.duration(carried["grain"]) if carried["grain"] else "-",
        f"{statistics.median(loads):.0f} ms",
        f"{statistics.median(zooms):.0f} ({max(zooms):.0f}) ms",
    ]


def loaded(browser: Browser, path: Path) -> float:
    """Return ms from the start of the page until its timeline is painted."""
    with browser.page(1400, 1000) as tab:
        tab.page.add_init_script(WATCH)
        tab.goto_file(path)
        return float(tab.page.wait_for_function(PAINTED).json_value())


def zoomed(browser: Browser, path: Path) -> list[float]:
    with browser.page(1400, 1000) as tab:
        tab.page.add_init_script(WATCH)
        tab.goto_file(path)
        tab.page.wait_for_function(PAINTED)
        box = tab.page.locator(".wb-timeline-canvas").bounding_box()
        assert box is not None
        tab.page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 100)
        tab.page.evaluate(f"() => {{ {TIMELINE}.samples.length = 0; }}")
        for step in range(WHEEL_STEPS):
            tab.page.mouse.wheel(0, -120 if step % 5 else 200)
            tab.page.wait_for_timeout(40)
            tab.page.wait_for_function(f"() => !{TIMELINE}.asked && !{TIMELINE}.since")
        return list(tab.page.evaluate(f"() => {TIMELINE}.samples"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="*", default=[10**5, 10**6, 10**7])
    parser.add_argument("--lanes", type=int, default=40)
    parser.add_argument("--source", type=Path, help="a recording, beside the generated ones")
    options = parser.parse_args()
    rows = [["page", "events", "size", "written", "held", "grain", "loaded", "zoom"]]
    with Browser() as browser, tempfile.TemporaryDirectory() as folder:
        for events in options.events:
            timeline = Timeline(many_lanes(events, options.lanes), max_height=1000)
            rows.append(row("generated", timeline, browser, Path(folder)))
        if options.source is not None:
            from workbench.trace.open import open_source

            timeline = Timeline(open_source(options.source))
            rows.append(row(options.source.name, timeline, browser, Path(folder)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for line in rows:
        print("  ".join(f"{cell:>{w}}" for cell, w in zip(line, widths, strict=True)))


if __name__ == "__main__":
    main()
