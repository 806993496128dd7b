"""The analyses on a trace of a million events that is in the cache.

    python benchmarks/analysis.py [--hta PYTHON] [--all] [FILE]

Default: the corpus' largest recording, repeated eight times (about 450 MB, a million events).
Each analysis runs in a process of its own: `first` opens the cached trace and asks once, tables
read from disk included; `again` is the median of five more calls; `peak` is the process's resident
memory. Those with a budget (0.3 s, 600 MB) come first, `--all` adds every other name. `--hta` runs
HTA's analysis of the same question in one process, after loading, by a Python that has it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from grow import grow
from ingest import CORPUS, GROWN, LARGE, PEAK

BUDGETED = ("breakdown", "overlap", "idle", "idle_causes", "kernels", "ops", "launches", "queue")
BUDGET_S, BUDGET_MB = 0.3, 600
OURS = """
import importlib, statistics, sys, time
from pathlib import Path
from workbench import show
from workbench.trace.open import open_source
begin = time.perf_counter()
trace = open_source(Path(sys.argv[1]))
rows = show.frame(trace, sys.argv[2], show.Choice()).height
first = time.perf_counter() - begin
again = []
for _ in range(5):
    begin = time.perf_counter()
    show.frame(trace, sys.argv[2], show.Choice())
    again.append(time.perf_counter() - begin)
print(rows, first, statistics.median(again))
"""
HTA = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
begin = time.perf_counter()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=sys.argv[2])
times = {"load": time.perf_counter() - begin}
for name, ask in {
    "breakdown": lambda: analysis.get_temporal_breakdown(visualize=False),
    "overlap": lambda: analysis.get_comm_comp_overlap(visualize=False),
    "idle_causes": lambda: analysis.get_idle_time_breakdown(visualize=False),
    "kernels": lambda: analysis.get_gpu_kernel_breakdown(visualize=False),
    "launches": lambda: analysis.get_cuda_kernel_launch_stats(visualize=False),
    "queue": lambda: analysis.get_queue_length_summary(),
}.items():
    begin = time.perf_counter()
    try:
        ask()
        times[name] = time.perf_counter() - begin
    except Exception as error:
        times[name] = type(error).__name__
print(json.dumps(times))
"""


def child(python: str, program: str, *arguments: str) -> list[str]:
    """Run a program and return its output's lines; the last is its peak memory in MB."""
    command = [python, "-c", program + PEAK, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip().splitlines()


def measure(path: Path, names: list[str], hta: str | None) -> None:
    from workbench.trace.open import open_source

    events = open_source(path).meta.events
    print(f"{path.name}: {events:,} events, in the cache")
    theirs = {}
    if hta:
        *_, times, peak = child(hta, HTA, str(path), str(path.parent))
        theirs = json.loads(times)
        print(f"HTA loads it in {theirs['load']:.1f} s, {float(peak):.0f} MB with its analyses")
    print(f"{'':16}{'rows':>8}{'first':>10}{'again':>10}{'peak':>10}  HTA")
    for name in names:
        *_, line, peak = child(sys.executable, OURS, str(path), name)
        rows, first, again = line.split()
        over = float(again) > BUDGET_S or float(peak) > BUDGET_MB
        mark = "over budget" if over and name in BUDGETED else ""
        other = theirs.get(name)
        beside = f"{other:.3f} s" if isinstance(other, float) else other or ""
        print(
            f"{name:16}{rows:>8}{float(first):>8.3f} s{float(again):>8.3f} s"
            f"{float(peak):>7.0f} MB  {beside:10} {mark}".rstrip()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--hta")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    from workbench.analysis.names import ANALYSES

    rest = [n for n in ANALYSES if n not in BUDGETED] if given.all else []
    names = [*(n for n in BUDGETED if n in ANALYSES), *rest]
    if given.file:
        measure(given.file, names, given.hta)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grown.json.gz"
        grow(CORPUS / LARGE[0], path, GROWN)
        measure(path, names, given.hta)


if __name__ == "__main__":
    main()
