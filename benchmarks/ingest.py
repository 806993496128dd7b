"""Opening traces against the floor: gunzip and a bare simdjson parse of the same bytes.

    python benchmarks/ingest.py [--grow] [--hta PYTHON] [--sizes] [FILE ...]

Default: the recorded corpus' files of 50 MB and more. `--grow` adds one grown from the largest by
repeating it (about 450 MB, a million events), `--sizes` the growth with size, and `--hta` the time
and memory of HTA's own parser, run by a Python that has it.

Every figure is a ratio of measurements made in turn in one process, so that a machine that drifts
does not tilt it. `cold` is a call without the cache after the first of a process, which is printed
beside it; `cached` opens an entry and reads activities, launches and operators. Peak memory is of a
child process that opens the file once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 7
FEW = 3
LARGE_BYTES = 200 << 20
CORPUS = Path(os.environ.get("WORKBENCH_CORPUS", "../shared")) / "traces"
LARGE = (
    "tracelens/h100_owlv2_large_inference.json.gz",
    "tracelens/mi300_xdit_sd3.5_inference.json.gz",
    "hta/df_index_resolver_v100_rank1_of_2.json.gz",
)
GROWN = 8
HTA = """
import sys, time, logging
logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
begin = time.perf_counter()
parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())
print(time.perf_counter() - begin)
"""
STANDARD = """
import sys, time, gzip, json
begin = time.perf_counter()
json.loads(gzip.open(sys.argv[1]).read())
print(time.perf_counter() - begin)
"""
PEAK = """
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6)
"""
# VmHWM and not ru_maxrss: the latter survives exec, so a child would report its parent's peak


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


def ours(path: Path):
    from workbench.trace.open import open_source

    return open_source(path, cache=False)


def cached(path: Path) -> None:
    from workbench.trace.open import open_source

    trace = open_source(path)
    _ = trace.activities, trace.launches, trace.ops


def measure(path: Path, hta: str | None) -> None:
    import polars as pl

    few = path.stat().st_size > LARGE_BYTES // 10
    pairs_wanted = FEW if few else PAIRS
    first = seconds(ours, path)
    floor(path)
    pairs = [(seconds(floor, path), seconds(ours, path)) for _ in range(pairs_wanted)]
    ratios = [b / a for a, b in pairs]
    cold = statistics.median(b for _, b in pairs)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_CACHE"] = folder
        filled = seconds(cached, path)
        again = statistics.median(seconds(cached, path) for _ in range(pairs_wanted))
    trace = ours(path)
    print(path.name)
    print(f"  events {trace.meta.events:,}; polars {pl.__version__}, {os.cpu_count()} cores")
    print(f"  floor  {statistics.median(a for a, _ in pairs):.3f} s (median of {pairs_wanted})")
    print(f"  cold   {cold:.3f} s, first call {first:.3f} s")
    print(f"  cold / floor: median {statistics.median(ratios):.2f}, "
          f"min {min(ratios):.2f}, max {max(ratios):.2f}")  # fmt: skip
    print(f"  cached {again:.3f} s; filling the cache {filled:.3f} s")
    print(f"  peak memory {peak_mb(path):.0f} MB, of which imports {peak_mb(None):.0f} MB")
    opponents(path, cold, hta)


def opponents(path: Path, cold: float, hta: str | None) -> None:
    """Print the standard library's time and memory, and HTA's when a Python has it."""
    programs = {"standard library": (sys.executable, STANDARD)}
    if hta:
        programs["HTA's parser"] = (hta, HTA)
    for name, (python, program) in programs.items():
        command = [python, "-c", program + PEAK, str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        taken, peak = map(float, done.stdout.split()[-2:])
        print(f"  {name}: {taken:.2f} s = {taken / cold:.1f} x ours, {peak:.0f} MB")


def peak_mb(path: Path | None) -> float:
    """Open the file in a child process and return that process's peak resident memory."""
    program = "import workbench.trace.open, workbench.trace.kineto, sys\n"
    if path:
        program += "from pathlib import Path\n"
        program += "workbench.trace.open.open_source(Path(sys.argv[1]), cache=False)\n"
    command = [sys.executable, "-c", program + PEAK, str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def sizes() -> None:
    """Print the time for 10^5, 10^6 and 10^7 events of one recording, repeated."""
    from grow import grow

    with tempfile.TemporaryDirectory() as folder:
        for times in (1, 8, 76):
            path = Path(folder) / f"{times}.json.gz"
            grow(CORPUS / LARGE[0], path, times)
            taken = seconds(ours, path)
            print(f"  {times * 132_152:>12,} events: {taken:.2f} s, {peak_mb(path):.0f} MB")
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--grow", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--hta")
    given = parser.parse_args()
    for path in given.files or [CORPUS / name for name in LARGE]:
        if path.exists():
            measure(path, given.hta)
        else:
            print(f"{path} is not there; set WORKBENCH_CORPUS or name a file.")
    if given.grow:
        from grow import grow

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "grown.json.gz"
            grow(CORPUS / LARGE[0], path, GROWN)
            measure(path, given.hta)
    if given.sizes:
        sizes()


if __name__ == "__main__":
    main()
