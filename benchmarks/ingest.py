"""Opening a profiler trace, against the floor: gunzip and a bare simdjson parse of the same bytes.

    python benchmarks/ingest.py [FILE ...]      default: the large file of the recorded corpus

Every figure is a ratio of two measurements made in turn in one process, so that a machine that
drifts does not tilt it. `cold` is the second call of a process; the first is printed beside it.
Peak memory is of a child process that opens the file once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

PAIRS = 7
CORPUS = Path(os.environ.get("WORKBENCH_CORPUS", "../shared"))
LARGE = CORPUS / "traces" / "tracelens" / "h100_owlv2_large_inference.json.gz"


def seconds(function, *args) -> float:
    begin = time.perf_counter()
    function(*args)
    return time.perf_counter() - begin


def floor(path: Path) -> None:
    import simdjson
    from isal import igzip

    data = path.read_bytes()
    text = igzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    simdjson.Parser().parse(text)


def ours(path: Path) -> None:
    from workbench.trace.open import open_source

    open_source(path)


def measure(path: Path) -> None:
    import polars as pl

    first = seconds(ours, path)
    floor(path)
    pairs = [(seconds(floor, path), seconds(ours, path)) for _ in range(PAIRS)]
    ratios = [b / a for a, b in pairs]
    events = ours_events(path)
    print(path.name)
    print(f"  events {events:,}; polars {pl.__version__}, {os.cpu_count()} cores")
    print(f"  floor {statistics.median(a for a, _ in pairs):.3f} s (median of {PAIRS})")
    print(f"  cold  {statistics.median(b for _, b in pairs):.3f} s, first call {first:.3f} s")
    print(
        f"  cold / floor: median {statistics.median(ratios):.2f}, "
        f"min {min(ratios):.2f}, max {max(ratios):.2f}"
    )
    print(f"  peak memory {peak_mb(path):.0f} MB, of which imports {peak_mb(None):.0f} MB")


def ours_events(path: Path) -> int:
    from workbench.trace.open import open_source

    return sum(t.meta.events for t in open_source(path).ranks)


def peak_mb(path: Path | None) -> float:
    """Open the file in a child process and return that process's peak resident memory."""
    command = [sys.executable, __file__, "--peak", *([str(path)] if path else [])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(path: Path | None) -> None:
    if path is None:
        import workbench.trace.open  # noqa: F401
    else:
        ours(path)
    # VmHWM and not ru_maxrss: the latter survives exec, so a child would report its parent's peak
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print_peak(given.files[0] if given.files else None)
        return
    files = given.files or [LARGE]
    for path in files:
        if path.exists():
            measure(path)
        else:
            print(f"{path} is not there; set WORKBENCH_CORPUS or name a file.")


if __name__ == "__main__":
    main()
