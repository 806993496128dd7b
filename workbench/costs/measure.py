"""The measurement behind `ceilings`, run as `python -m workbench.costs.measure cpu|cuda`.

Prints one JSON object. Imports torch: nothing that opens, shows or records may import this module.
"""

from __future__ import annotations

import datetime as dt
import platform
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from workbench.costs.ceilings import VERSION, Ceilings, Compute, Memory, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MB = 10**6
SIZES = {"cpu": (256, 512, 1024, 2048), "cuda": (2048, 4096, 8192)}
PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16", "fp16")}
WORKING_SETS = {
    "cpu": tuple(s * MB for s in (1, 4, 16, 64, 768)),
    "cuda": tuple(s * MB for s in (8, 32, 128, 4096)),
}
REPEATS = 25
MIN_REPEATS = 3
BUDGET_S = 0.15
"""Time for one size of one product or stream; slow devices get fewer repeats."""
BATCH_S = 0.002
"""Work timed at once, so that the clock's own cost and launch latency vanish."""
LAYOUTS = ("nn", "nt", "tn")
"""Which operand is a transposed view: none, the second, the first."""
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Timer(Protocol):
    """Runs work a number of times and says how long it took, in seconds."""

    def __call__(self, work: Callable[[], object], times: int) -> float:
        """Run `work` `times` times; return seconds for all."""
        ...


def host_timer(work: Callable[[], object], times: int) -> float:
    """Time work that is done when the call returns."""
    start = time.perf_counter_ns()
    for _ in range(times):
        work()
    return (time.perf_counter_ns() - start) / 1e9


class EventTimer:
    """Time work on a CUDA stream between two events, so that launch calls do not count."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def __call__(self, work: Callable[[], object], times: int) -> float:
        """Run `work` `times` times; return seconds on the device for all."""
        start, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


def samples(timer: Timer, work: Callable[[], object]) -> list[float]:
    """Return seconds a call, several times over: after a warm-up, within the budget of time."""
    timer(work, 1)
    batch = max(1, round(BATCH_S / max(timer(work, 1), 1e-7)))
    spent: list[float] = []
    while len(spent) < MIN_REPEATS or (len(spent) < REPEATS and sum(spent) < BUDGET_S):
        spent.append(timer(work, batch))
    return [seconds / batch for seconds in spent]


def rate(work_per_call: float, seconds: Sequence[float]) -> tuple[float, float]:
    """Return the best rate and its spread, 1 - median rate / best rate (0.1 s, 0.125 s: 0.11…)."""
    best = min(seconds)
    return work_per_call / best, 1 - best / statistics.median(seconds)


class Bench(NamedTuple):
    """Where to measure: torch, the kind of device, and its timer."""

    torch: Any
    kind: str
    timer: Timer


def measure(kind: str) -> Ceilings:
    """Measure products and streams on `cpu` or `cuda`; a few seconds in all."""
    import torch

    began = time.monotonic()
    who = identity(kind)
    bench = Bench(torch, kind, EventTimer(torch.cuda) if kind == "cuda" else host_timer)
    compute = tuple(_best_product(bench, p) for p in PRECISIONS[kind])
    clock = _clock_mhz(torch, kind)
    sizes = [s for s in WORKING_SETS[kind] if s <= _free_bytes(torch, kind) / 4]
    memory = tuple(m for s in sizes for m in _streams(bench, s))
    return Ceilings(
        version=VERSION,
        device=torch.cuda.get_device_name(0) if kind == "cuda" else who.device,
        kind=kind,
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        machine=f"{platform.system()} {platform.machine()}",
        torch=str(torch.__version__),
        driver=who.driver,
        threads=torch.get_num_threads(),
        clock_mhz=clock,
        seconds=round(time.monotonic() - began, 3),
        compute=compute,
        memory=memory,
    )


def _best_product(bench: Bench, precision: str) -> Compute:
    """Return the fastest product: every layout at the smallest size, its best at the larger ones.

    Libraries differ tenfold between layouts for a type that the processor only emulates.
    """
    bench.torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    first, *larger = SIZES[bench.kind]
    tried = [_product(bench, precision, first, v) for v in LAYOUTS]
    best = max(tried, key=_speed)
    for n in larger:
        if 2 * n**3 / best.flops_per_s > BUDGET_S:
            break
        best = max(best, _product(bench, precision, n, best.layout), key=_speed)
    return best


def _speed(product: Compute) -> float:
    return product.flops_per_s


def _product(bench: Bench, precision: str, n: int, layout: str) -> Compute:
    torch = bench.torch
    dtype = getattr(torch, DTYPES[precision])
    left, right = (torch.randn(n, n, device=bench.kind).to(dtype) for _ in range(2))
    left = left.t() if layout == "tn" else left
    right = right.t() if layout == "nt" else right
    out = torch.empty(n, n, device=bench.kind, dtype=dtype)
    seconds = samples(bench.timer, lambda: torch.mm(left, right, out=out))
    best, spread = rate(2 * n**3, seconds)
    return Compute(precision, best, round(spread, 4), n, layout, len(seconds))


def _streams(bench: Bench, working_set: int) -> tuple[Memory, Memory]:
    """Copy and triad whose float arrays together are the working set, as near as they divide it."""
    torch, kind, timer = bench
    two = [torch.ones(working_set // 8, device=kind) for _ in range(2)]
    copy = samples(timer, lambda: two[0].copy_(two[1]))
    three = [torch.ones(working_set // 12, device=kind) for _ in range(3)]
    triad = samples(timer, lambda: torch.add(three[1], three[2], alpha=0.5, out=three[0]))
    return _stream("copy", working_set, two, copy), _stream("triad", working_set, three, triad)


def _stream(pattern: str, working_set: int, arrays: list[Any], seconds: list[float]) -> Memory:
    best, spread = rate(sum(a.numel() * a.element_size() for a in arrays), seconds)
    return Memory(pattern, working_set, best, round(spread, 4), len(seconds))


def _free_bytes(torch: Any, kind: str) -> int:
    if kind == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    import psutil

    return int(psutil.virtual_memory().available)


def _clock_mhz(torch: Any, kind: str) -> float | None:
    try:
        if kind == "cuda":
            return float(torch.cuda.clock_rate(0))
        import psutil

        frequency = psutil.cpu_freq()
    except (OSError, RuntimeError, ModuleNotFoundError, NotImplementedError):
        return None
    return float(frequency.current) if frequency and frequency.current else None


def main() -> None:
    """Measure the kind of device given on the command line and print it as JSON."""
    sys.stdout.buffer.write(msgspec.json.encode(measure(sys.argv[1])))


if __name__ == "__main__":
    main()
