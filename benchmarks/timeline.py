"""How fast the timeline is: building it, answering a view, and from the wheel to the paint.

    python benchmarks/timeline.py [--events 100000 1000000 10000000] [--lanes 40] [--browser]

Prints one table. `view` columns are medians (worst in brackets) of what the kernel takes for a
stretch of the given share of the extent, 1,200 pixels wide, on the given number of lanes. With
--browser, JupyterLab in headless Chromium is driven: 25 wheel steps, wheel to painted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from browser.labdrive import Lab, write_notebook  # noqa: E402
from views.generated import many_lanes  # noqa: E402

from workbench.views import replies  # noqa: E402
from workbench.views.lanes import Lanes  # noqa: E402

SHARES = (1, 10, 100, 1_000, 10_000)
PIXELS, REPEATS, WHEEL_STEPS = 1_200, 25, 25
MILLISECONDS = 1e3


def view_times(lanes: Lanes, share: int, rng: np.random.Generator) -> list[float]:
    """Time random views of 1/share of the extent, in ms, as the front end asks for them."""
    span = lanes.engine.span_ns
    width = span / share
    times = []
    for _ in range(REPEATS):
        base = int(rng.random() * (span - width))
        request = {"base": str(base), "a": 0.0, "b": width, "width": PIXELS}
        begin = time.perf_counter()
        replies.view(lanes, request | {"first": 0, "last": lanes.engine.rows})
        times.append((time.perf_counter() - begin) * MILLISECONDS)
    return times


def engine_row(events: int, lane_count: int) -> list[str]:
    """Build lanes of this size and time them."""
    begin = time.perf_counter()
    lanes = many_lanes(events, lane_count)
    built = time.perf_counter() - begin
    begin = time.perf_counter()
    size = lanes.engine.nbytes + lanes.name.nbytes + lanes.id.nbytes + lanes.step.nbytes
    indexed = time.perf_counter() - begin
    rng = np.random.default_rng(0)
    views = (view_times(lanes, share, rng) for share in SHARES)
    shown = [f"{np.median(t):.1f} ({max(t):.0f})" for t in views]
    return [f"{events:,}", f"{built:.2f} s", f"{indexed:.2f} s", f"{size / 1e6:.0f} MB", *shown]


def browser_times(events: int, lane_count: int) -> list[float]:
    """Zoom into a timeline in JupyterLab; return each step's ms from the wheel to the paint."""
    code = (
        "from views.generated import many_lanes\nfrom workbench.views.timeline import Timeline\n"
        f"w = Timeline(many_lanes({events}, {lane_count}), max_height=1000)\nw"
    )
    with tempfile.TemporaryDirectory() as folder:
        write_notebook(Path(folder) / "t.ipynb", code)
        with Lab(Path(folder), PYTHONPATH=str(TESTS)) as lab, lab.page(1400, 1300) as tab:
            book = tab.open("t.ipynb")
            book.run_all(timeout_s=300)
            page = tab.page
            page.wait_for_selector(".wb-timeline[data-kind='bins'][data-busy='false']")
            box = page.locator(".wb-timeline-canvas").bounding_box()
            assert box is not None
            page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 100)
            timeline = "document.querySelector('.wb-timeline').timeline"
            page.evaluate(f"() => {{ {timeline}.samples.length = 0; }}")
            for step in range(WHEEL_STEPS):
                page.mouse.wheel(0, -120 if step % 5 else 200)
                page.wait_for_timeout(40)
                page.wait_for_function(f"() => !{timeline}.asked && !{timeline}.since")
            return list(page.evaluate(f"() => {timeline}.samples"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--lanes", type=int, default=40)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    head = ["events", "lanes built", "engine", "arrays", *(f"1/{s}, ms" for s in SHARES)]
    rows = [engine_row(events, options.lanes) for events in options.events]
    if options.browser:
        head.append("wheel to painted, ms")
        for row, events in zip(rows, options.events, strict=True):
            times = browser_times(events, options.lanes)
            row.append(f"{np.median(times):.0f} (worst {max(times):.0f})")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for line in (head, *rows):
        print("  ".join(f"{cell:>{w}}" for cell, w in zip(line, widths, strict=True)))


if __name__ == "__main__":
    main()
