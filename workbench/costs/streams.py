"""The roofs of memory: streams by working-set size, so that each cache shows.

What counts is what a program reads and writes, as STREAM counts (McCalpin,
https://www.cs.virginia.edu/stream/ref.html). Besides its copy (a = b) and triad (a = b + s c):
read (a sum), write (a fill) and update in place (a = s a, each byte read and written), since an
operator that mostly reads, or optimises in place, is not to be held against a copy's bandwidth.
The smallest sets show what a call costs, too; that is no different for operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.costs.ceilings import Cache, Memory
from workbench.costs.timing import Bench, Candidate, race

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIB = 2**20
SECONDS = {"cpu": 3.5, "cuda": 2.0}
FULL = 5
PARTS = (0.5,)
MORE_PARTS = (0.25, 0.5, 0.75)
"""Of each cache, how large the working sets in it are."""
BEYOND = 4
"""How many times the largest cache the set of main memory is, and no less than: …"""
LEAST_MEMORY = {"cpu": 128 * MIB, "cuda": 2048 * MIB}
UNKNOWN = tuple(s * MIB for s in (1, 4, 16))
"""Working sets where a machine does not tell its caches."""


def sizes(kind: str, caches: Sequence[Cache], free: int, *, is_full: bool) -> list[int]:
    """Return working sets in bytes: some in each cache, one in main memory, none above free / 4."""
    parts = MORE_PARTS if is_full else PARTS
    largest = max((c.bytes for c in caches), default=0)
    within = [int(c.bytes * p) for c in caches for p in parts] or list(UNKNOWN)
    beyond = max(LEAST_MEMORY[kind], BEYOND * largest)
    return sorted({*(s for s in within if s <= free / 4), int(min(beyond, free / 4))})


def measure(bench: Bench, caches: Sequence[Cache], free: int) -> tuple[Memory, ...]:
    """Return the bandwidth of each pattern at each working-set size."""
    wanted = sizes(bench.kind, caches, free, is_full=bench.is_full)
    pool = bench.torch.ones(max(wanted) // 4, device=bench.kind)
    candidates = [_candidate(bench, pool, p, size) for size in wanted for p in PATTERNS]
    seconds = SECONDS[bench.kind] * (FULL if bench.is_full else 1)
    race(bench, candidates, seconds, every=True)
    return tuple(_memory(c) for c in candidates if c.seconds)


def _memory(found: Candidate) -> Memory:
    pattern, size = found.what
    return Memory(pattern, size, found.rate, found.spread, len(found.seconds))


def _candidate(bench: Bench, pool: Any, pattern: str, size: int) -> Candidate:
    arrays, moves = PATTERNS[pattern]
    length = size // (4 * arrays)

    def build() -> Callable[[], object]:
        views = [pool[i * length : (i + 1) * length] for i in range(arrays)]
        return _call(bench.torch, pattern, views)

    return Candidate(size, (pattern, size), 4.0 * length * moves, build)


PATTERNS = {"copy": (2, 2), "triad": (3, 3), "read": (1, 1), "write": (1, 1), "update": (1, 2)}
"""How many arrays of 32-bit floats a pattern touches, and how many lengths it reads and writes."""


def _call(torch: Any, pattern: str, views: list[Any]) -> Callable[[], object]:
    first, *others = views
    calls: dict[str, Callable[[], object]] = {
        "copy": lambda: first.copy_(others[0]),
        "triad": lambda: torch.add(others[0], others[1], alpha=0.5, out=first),
        "read": lambda: torch.sum(first),
        "write": lambda: first.fill_(1.0),
        "update": lambda: first.mul_(1.0),
    }
    return calls[pattern]
