"""Thousands of damaged traces, each opened within limits: refused, named, or exact.

    python benchmarks/fuzz.py [--each 420] [--seed 1] [FILE ...]

Default: twelve small files of the recorded corpus. A failure is printed with the mutation's number,
kept beside as `fuzz-failure-*`, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import damage

import workbench as wb

CORPUS = Path(os.environ.get("WORKBENCH_CORPUS", "../shared")) / "traces"
FILES = (
    "hta/amd_mi250_minitoy_train_rocm6.2.json.gz",
    "hta/cpu_only_rank34_of_300.json.gz",
    "hta/critical_path_alexnet_a100.json.gz",
    "hta/cuda_event_sync_a100.json.gz",
    "hta/odd_old_categories_inference_rank1.json.gz",
    "hta/trace_compare_base_rank1.json.gz",
    "kineto/gpu_metrics_expected.json.gz",
    "kineto/h100_cuda_sync_after_fix.json.gz",
    "tracelens/b300_microbench_moe_03_top1_sparse.json.gz",
    "tracelens/mi300_torch_compile_triton.json.gz",
    "odd_derived/event_array_without_closing_bracket.json",
    "nsys/fuser_h200_schema3.16.sqlite",
)
MEMORY = 8 << 30
"""Address space of the process; a damaged file that asks for more fails."""


def fuzz(path: Path, rounds: int, seed: int, folder: Path) -> tuple[collections.Counter, float]:
    outcomes: collections.Counter[str] = collections.Counter()
    is_sqlite = path.suffix == ".sqlite"
    source = damage.sqlite_mutants if is_sqlite else damage.mutants
    damaged = source(path, random.Random(seed))
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    known = damage.problems_of(wb.open(path, cache=False))
    slowest = 0.0
    for number in range(rounds):
        how, bad, packed = next(damaged)
        target = folder / f"damaged{path.suffix}"
        begin = time.perf_counter()
        try:
            if is_sqlite:
                outcome = damage.check_sqlite(target, bad, known)
            else:
                outcome = damage.check_json(target, bad, known, original=text if packed else None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            outcome = "FAILED"
            Path(f"fuzz-failure-{path.name}-{seed}-{number}").write_bytes(bad)
            print(f"  {path.name} #{number} ({how}): {type(error).__name__}: {str(error)[:200]}")
        slowest = max(slowest, time.perf_counter() - begin)
        outcomes[outcome] += 1
    return outcomes, slowest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--each", type=int, default=420)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["WORKBENCH_CACHE"] = "off"
    total: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for path in given.files or [CORPUS / f for f in FILES]:
            outcomes, slowest = fuzz(path, given.each, given.seed, Path(folder))
            total += outcomes
            print(f"{path.name:55} {dict(outcomes)}  slowest {slowest:.2f} s", flush=True)
    print(f"{sum(total.values())} mutations: {dict(total)}")
    return 1 if total["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
