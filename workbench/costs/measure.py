"""The measurement behind `ceilings`, run as `python -m workbench.costs.measure cpu|cuda [--full]`.

Prints one JSON object. Imports torch: nothing that opens, shows or records may import this module.
"""

from __future__ import annotations

import datetime as dt
import platform
import sys
import time
from typing import Any

import msgspec

from workbench.costs import caches, products, sdpa, streams
from workbench.costs.ceilings import VERSION, Cache, Ceilings
from workbench.costs.machine import first_gpu, identity, usable
from workbench.costs.timing import Bench, EventTimer, host_timer


def measure(kind: str, *, is_full: bool = False) -> Ceilings:
    """Measure products, attention and streams on `cpu` or `cuda`; seconds, or a minute for all."""
    import torch

    began, busy = time.monotonic(), _busy_s()
    who = identity(kind)
    timer = EventTimer(torch.cuda) if kind == "cuda" else host_timer
    bench = Bench(torch, kind, timer, is_full)
    compute = products.measure(bench, _free_bytes(torch, kind))
    clock, memory_clock = _clocks_mhz(kind)
    found = _caches(torch, kind)
    memory = streams.measure(bench, found, _free_bytes(torch, kind))
    attention = sdpa.measure(bench)
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
        memory_clock_mhz=memory_clock,
        others_share=_others_share(_busy_s() - busy, time.monotonic() - began),
        seconds=round(time.monotonic() - began, 3),
        is_full=is_full,
        compute=compute,
        attention=attention,
        memory=memory,
        caches=found,
    )


def _caches(torch: Any, kind: str) -> tuple[Cache, ...]:
    if kind == "cuda":
        return caches.of_gpu(torch.cuda.get_device_properties(0))
    return caches.of_processor(torch.get_num_threads())


def _free_bytes(torch: Any, kind: str) -> int:
    if kind == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    import psutil

    return int(psutil.virtual_memory().available)


def _busy_s() -> float:
    """Return the processor time so far of all but this process, on the processors it may use."""
    import psutil

    mine = usable()
    times = [t for i, t in enumerate(psutil.cpu_times(percpu=True)) if i in mine]
    busy = sum(t.user + t.nice + t.system + getattr(t, "steal", 0.0) for t in times)
    return float(busy) - time.process_time()


def _others_share(busy_s: float, wall_s: float) -> float:
    return round(max(0.0, busy_s) / (wall_s * max(1, len(usable()))), 3)


def _clocks_mhz(kind: str) -> tuple[float | None, float | None]:
    """Return the clocks of the processor and of its memory, of which a CPU tells the first."""
    if kind == "cuda":
        return _gpu_clocks_mhz()
    import psutil

    try:
        frequency = psutil.cpu_freq()
    except (OSError, RuntimeError, NotImplementedError):
        return None, None
    return (float(frequency.current) if frequency and frequency.current else None), None


def _gpu_clocks_mhz() -> tuple[float | None, float | None]:
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            handle = first_gpu(pynvml)
            kinds = (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM)
            core, memory = (float(pynvml.nvmlDeviceGetClockInfo(handle, k)) for k in kinds)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None, None
    return core, memory


def main() -> None:
    """Measure the kind of device given on the command line and print it as JSON."""
    found = measure(sys.argv[1], is_full="--full" in sys.argv[2:])
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
