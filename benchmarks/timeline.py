"""How fast the timeline is with 40 lanes: made, kept, shown, zoomed; and what memory it takes.

    python benchmarks/timeline.py [--events 100000 1000000 10000000] [--browser] [--cache FOLDER]

Traces come from the cache (`bigtrace`; a folder that is named keeps them for another time). Prints
a table each, a line a size:

- the engine: lanes made of tables, written, mapped again; then the kernel's time for views of a
  share of the extent, 1,200 pixels wide, all rows: median (worst);
- with --browser, JupyterLab in headless Chromium: in a fresh kernel, from running the cell that
  opens and shows the trace to the paint of the kernel's picture, and what that consists of; 50
  steps of the wheel, wheel to painted; memory of the kernel's process after all that, of its own
  (anonymous) beside that of a kernel which only imported everything, and of mapped files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import bigtrace
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser.labdrive import Lab, Notebook, write_notebook  # noqa: E402

from workbench.trace.open import open_source  # noqa: E402
from workbench.views import kept_lanes, replies  # noqa: E402
from workbench.views.lanes import Lanes  # noqa: E402
from workbench.views.trace_lanes import activity_lanes  # noqa: E402

SHARES = (1, 10, 100, 1_000, 10_000)
PIXELS, REPEATS, WHEEL_STEPS = 1_200, 25, 50
MILLISECONDS = 1e3
TURNS = (-120, -120, -120, -120, 200)
"""Wheel steps in and out, in turn."""
PAUSES_MS = (40,) * 9 + (350,)
"""A person pauses now and then, and after 250 ms the kernel is told the window."""
CELLS = (
    # a kernel with everything that showing takes, and nothing shown
    "import workbench as wb; wb.Timeline, wb.open",
    """import time
parts = [time.time()]
import workbench as wb
wb.Timeline, wb.open
parts.append(time.time())
trace = wb.open(PATH)
parts.append(time.time())
w = wb.Timeline(trace, max_height=1000)
parts.append(time.time())
w""",
)
MEMORY = """
import json
text = open("/proc/self/status").read()
print(json.dumps([int(text.split(k + ":")[1].split()[0]) * 1024 / 1e6
                  for k in ("RssAnon", "RssFile")]))"""
PAINTED = "() => document.querySelector('.wb-timeline')?.timeline?.answered ? Date.now() : 0"
TIMELINE = "document.querySelector('.wb-timeline').timeline"


def seconds(function, *args):
    begin = time.perf_counter()
    result = function(*args)
    return result, f"{time.perf_counter() - begin:.2f} s"


def engine_row(path: Path) -> list[str]:
    """Make, keep and map the lanes of a trace, and time views of them."""
    trace = open_source(path)
    _ = trace.activities, trace.ops
    _, made = seconds(activity_lanes, trace)
    lanes, kept = seconds(kept_lanes.lanes_of, trace)
    lanes, mapped = seconds(kept_lanes.lanes_of, open_source(path))
    rng = np.random.default_rng(0)
    views = (view_times(lanes, share, rng) for share in SHARES)
    return [made, kept, mapped, *(f"{np.median(t):.1f} ({max(t):.0f})" for t in views)]


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


def browser_row(path: Path) -> list[str]:
    """Show a trace in a fresh kernel and zoom; return paints, wheel steps and memory."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{k}.ipynb" for k in range(len(CELLS))]
        for name, cell in zip(names, CELLS, strict=True):
            write_notebook(Path(folder) / name, cell.replace("PATH", repr(str(path))))
        python_path = f"{ROOT / 'tests'}{os.pathsep}{ROOT}"
        with Lab(Path(folder), PYTHONPATH=python_path) as lab, lab.page(1400, 1300) as tab:
            book = tab.open(names[0])
            book.run_all()
            bare = memory(book)
            book = tab.open(names[1])
            paints = first_paint(book)
            steps = wheel(book)
            now = memory(book)
    own = f"{now[0]:.0f} MB ({bare[0]:.0f} with imports alone)"
    return [*paints, f"{np.median(steps):.0f} (worst {max(steps):.0f})", own, f"{now[1]:.0f} MB"]


def first_paint(book: Notebook) -> list[str]:
    """Run the cell that shows the timeline; return the time to its paint and the parts, in s."""
    page = book.page
    begin = page.evaluate("() => Date.now()") / MILLISECONDS
    book.command("notebook:run-all-cells")
    painted = page.wait_for_function(PAINTED, polling="raf", timeout=300_000).json_value()
    book.wait_idle()
    book.fail_on_error_output()
    marks = [begin, *json.loads(book.run_code("print(__import__('json').dumps(parts))"))]
    marks.append(painted / MILLISECONDS)
    return [f"{marks[-1] - begin:.2f}", " + ".join(f"{d:.2f}" for d in np.diff(marks))]


def wheel(book: Notebook) -> list[float]:
    """Turn the wheel in and out; return each step's ms from the wheel to the paint."""
    page = book.page
    box = page.locator(".wb-timeline-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 100)
    page.evaluate(f"() => {{ {TIMELINE}.samples.length = 0; }}")
    for step in range(WHEEL_STEPS):
        page.mouse.wheel(0, TURNS[step % len(TURNS)])
        page.wait_for_timeout(PAUSES_MS[step % len(PAUSES_MS)])
        page.wait_for_function(f"() => !{TIMELINE}.asked && !{TIMELINE}.since")
    samples = list(page.evaluate(f"() => {TIMELINE}.samples"))
    assert len(samples) >= WHEEL_STEPS
    return samples


def memory(book: Notebook) -> list[float]:
    """Return the anonymous and the mapped memory of the kernel, in MB."""
    return list(json.loads(book.run_code(MEMORY)))


def show(head: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for line in (head, *rows):
        print("  ".join(f"{cell:>{w}}" for cell, w in zip(line, widths, strict=True)))
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = options.cache or Path(own)
        folder.mkdir(exist_ok=True)
        os.environ["WORKBENCH_CACHE"] = str(folder / "cache")
        paths = {n: bigtrace.keep(folder, n) for n in options.events}
        head = ["events", "made", "made, kept", "mapped", *(f"1/{s}, ms" for s in SHARES)]
        show(head, [[f"{n:,}", *engine_row(path)] for n, path in paths.items()])
        if options.browser:
            head = ["events", "to paint, s", "sent + import + open + widget + shown"]
            head += ["wheel to painted, ms", "anonymous", "mapped"]
            show(head, [[f"{n:,}", *browser_row(path)] for n, path in paths.items()])


if __name__ == "__main__":
    main()
