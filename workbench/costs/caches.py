"""The caches of this machine, as far as it tells: their names and how much all threads have of one.

Processors: /sys/devices/system/cpu/cpu0/cache of Linux, where a cache that few processors share is
counted once for each such group that the threads fill. GPUs: the L2 of torch's device properties.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from workbench.costs.ceilings import Cache

CPU0 = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def of_processor(threads: int, folder: Path = CPU0) -> tuple[Cache, ...]:
    """Return the data caches from small to large; none where the machine does not tell."""
    found = [_cache(index, threads) for index in sorted(folder.glob("index*"))]
    caches = sorted((c for c in found if c is not None), key=lambda c: c.bytes)
    return tuple(caches)


def of_gpu(properties: Any) -> tuple[Cache, ...]:
    """Return the L2 of a CUDA device; none when its properties do not tell."""
    size = int(getattr(properties, "L2_cache_size", 0) or 0)
    return (Cache("L2", size),) if size else ()


def _cache(index: Path, threads: int) -> Cache | None:
    try:
        level, kind, size, shared = (
            (index / name).read_text().strip()
            for name in ("level", "type", "size", "shared_cpu_list")
        )
        if kind == "Instruction":
            return None
        groups = math.ceil(threads / max(1, _count(shared)))
        return Cache(f"L{int(level)}", _bytes(size) * groups)
    except (OSError, ValueError, IndexError):
        return None


def _bytes(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text)


def _count(text: str) -> int:
    """Count the processors of a list such as 0-3,8."""
    spans = [part.partition("-") for part in text.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)
