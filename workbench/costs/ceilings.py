"""The roofs of this machine, measured in a few seconds and kept in the user's cache folder.

The measurement imports torch, so it runs in a child process (`workbench.costs.measure`):
a notebook's kernel stays free, and reading what was measured needs no torch. Compute: matrix
products by precision over a sweep of shapes (`costs.products`), and attention (`costs.sdpa`).
Memory: streams by working-set size, sized by the machine's caches (`costs.streams`). The best of
many short samples counts (`costs.timing`); spread says how far the median is below it.
"""

from __future__ import annotations

import hashlib
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import platformdirs
import polars as pl

from workbench.costs.machine import Identity, identity
from workbench.errors import CaptureError

VERSION = 2
NOISY_SPREAD = 0.3
"""Median spread above which roofs are called noisy; a quiet machine stays near 0.1."""
NOISY_SHARE = 0.1
"""So they are when other programs used more of the processors that are measured; all samples may
then be slow."""
TIMEOUT_S = {False: 120.0, True: 600.0}
"""How long a measurement may take: the short one, the full one."""
FRAME: dict[str, pl.DataType] = {
    "roof": pl.String(),
    "what": pl.String(),
    "n": pl.Int64(),
    "working_set_bytes": pl.Int64(),
    "flops_per_s": pl.Float64(),
    "bytes_per_s": pl.Float64(),
    "spread": pl.Float64(),
    "repeats": pl.Int64(),
}


class Compute(msgspec.Struct, frozen=True):
    """The fastest matrix product of one precision: m x k times k x n."""

    precision: str
    flops_per_s: float
    spread: float
    """1 - median / best of the repeats of that size."""
    n: int
    layout: str
    """Which operand is a transposed view: nn neither, nt the second, tn the first."""
    repeats: int
    m: int | None = None
    """As n where it is not given, and so is k."""
    k: int | None = None

    @property
    def shape(self) -> str:
        """Return m x n x k."""
        return f"{self.m or self.n}x{self.n}x{self.k or self.n}"


class Attention(msgspec.Struct, frozen=True):
    """The fastest attention of one precision."""

    precision: str
    flops_per_s: float
    spread: float
    repeats: int
    batch: int
    heads: int
    length: int
    head_dim: int
    is_causal: bool

    @property
    def shape(self) -> str:
        """Return batch x heads x length x head dimension."""
        causal = ", causal" if self.is_causal else ""
        return f"{self.batch}x{self.heads}x{self.length}x{self.head_dim}{causal}"


class Cache(msgspec.Struct, frozen=True):
    """One cache: its name, and how much of it all threads have together."""

    name: str
    bytes: int


class Memory(msgspec.Struct, frozen=True):
    """The fastest stream of one working-set size."""

    pattern: str
    working_set_bytes: int
    bytes_per_s: float
    spread: float
    repeats: int


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What this device reached, and on what: device, machine, versions, threads, clocks, date."""

    version: int
    device: str
    kind: str
    date: str
    machine: str
    torch: str
    driver: str | None
    threads: int
    clock_mhz: float | None
    """Clock read right after the products; None when the machine does not say."""
    seconds: float
    compute: tuple[Compute, ...]
    memory: tuple[Memory, ...]
    attention: tuple[Attention, ...] = ()
    caches: tuple[Cache, ...] = ()
    """From small to large; none where the machine does not tell."""
    memory_clock_mhz: float | None = None
    others_share: float | None = None
    """How much of the processors other programs used meanwhile; None when that is not known."""
    is_full: bool = False

    def level(self, working_set_bytes: int) -> str:
        """Return the name of the smallest cache that holds a working set, else memory."""
        held = (c.name for c in self.caches if working_set_bytes <= c.bytes)
        return next(held, "memory")

    @property
    def is_noisy(self) -> bool:
        """Say whether something else was running: it was seen, or repeats differed much.

        What other programs do on the processors does not slow a GPU, whose work is timed there.
        """
        if self.kind == "cpu" and (self.others_share or 0.0) > NOISY_SHARE:
            return True
        spreads = [c.spread for c in self.compute] + [a.spread for a in self.attention]
        spreads += [m.spread for m in self.memory]
        return bool(spreads) and statistics.median(spreads) > NOISY_SPREAD


def cached(device: str = "auto") -> Ceilings | None:
    """Return what was measured here before; None when it was not, or cannot be read."""
    try:
        found = msgspec.json.decode(_path(identity(device)).read_bytes(), type=Ceilings)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.version == VERSION else None


def ceilings(
    device: str = "auto",
    *,
    refresh: bool = False,
    full: bool = False,
    timeout_s: float | None = None,
) -> Ceilings:
    """Return this device's roofs from the cache, or measure them in a child process.

    `full` takes a minute in place of seconds: more shapes and working sets, each looked at longer.
    Raises CaptureError with the child's last line when it fails or takes longer than `timeout_s`
    (120 s, for the full sweep 600 s), or when the cache folder cannot be written.
    """
    found = None if refresh else cached(device)
    if found is None or (full and not found.is_full):
        who = identity(device)
        limit_s = timeout_s or TIMEOUT_S[full]
        text = _run_child(who.kind, limit_s, full=full)
        try:
            found = msgspec.json.decode(text, type=Ceilings)
        except msgspec.DecodeError as error:
            raise CaptureError(
                f"Measuring the roofs of this {who.kind} failed: {text[:80]!r} came in their place."
            ) from error
        _store(_path(who), text)
    return found


def frame(found: Ceilings) -> pl.DataFrame:
    """Return the roofs as a table: `roof what n working_set_bytes flops_per_s bytes_per_s …`.

    `what` names precision and shape (products: m x n x k and which operand is transposed;
    attention: batch x heads x length x head dimension), or a stream and the memory level that
    holds its working set. `n` is the n of products and the length of attention; `spread` = 1 -
    median / best of the repeats.
    """
    rows: list[dict[str, object]] = [
        {"roof": "compute", "what": f"{c.precision} product {c.shape}, {c.layout}"}
        | msgspec.structs.asdict(c)
        for c in found.compute
    ]
    rows += [
        {"roof": "attention", "what": f"{a.precision} {a.shape}", "n": a.length}
        | msgspec.structs.asdict(a)
        for a in found.attention
    ]
    rows += [
        {"roof": "memory", "what": f"{m.pattern}, {found.level(m.working_set_bytes)}"}
        | msgspec.structs.asdict(m)
        for m in found.memory
    ]
    return pl.DataFrame([{n: row.get(n) for n in FRAME} for row in rows], schema=FRAME)


def about(found: Ceilings) -> dict[str, object]:
    """Return what stands beside the table: device, machine, versions, date."""
    share = found.others_share if found.kind == "cpu" else None
    seen = "" if share is None else f", on {share:.0%} of the processors"
    noisy = f"yes: something else was running{seen}; measure again when it is not (--refresh)"
    return {
        "device": found.device,
        "date": found.date,
        "machine": found.machine,
        "torch": found.torch,
        "driver": found.driver,
        "threads": found.threads,
        "clock_mhz": found.clock_mhz,
        "memory_clock_mhz": found.memory_clock_mhz,
        "sweep": "full" if found.is_full else "short",
        "seconds": found.seconds,
        "noisy": noisy if found.is_noisy else None,
    }


def _run_child(kind: str, timeout_s: float, *, full: bool) -> bytes:
    command = [sys.executable, "-m", "workbench.costs.measure", kind, *(["--full"] if full else [])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise CaptureError(
            f"Measuring the roofs of this {kind} took longer than {timeout_s:g} s; "
            "try again when the machine is idle, or with a longer timeout."
        ) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise CaptureError(f"Measuring the roofs of this {kind} failed: {lines[-1]}")
    # Before the one line of the measurement, libraries may have printed lines of their own.
    return done.stdout.strip().rpartition(b"\n")[2]


def _store(path: Path, text: bytes) -> None:
    """Write by rename, so that a reader or a second writer never sees half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)
    except OSError as error:
        raise CaptureError(
            f"The measured roofs cannot be kept in {path.parent} ({error.strerror}); make it a "
            "folder that can be written."
        ) from error


def _path(who: Identity) -> Path:
    key = hashlib.sha256(msgspec.json.encode(who)).hexdigest()[:16]
    return Path(platformdirs.user_cache_dir("training-workbench")) / "ceilings" / f"{key}.json"
