"""A trace of any size with 40 lanes, put into the cache as a reader would have left it.

    python benchmarks/bigtrace.py FOLDER EVENTS

Ten million events as text are gigabytes that take minutes to write and read, and measure the
reader. Here tables are drawn at random and kept by `trace.cache` itself, under the hash of a small
file that stands for the recording, so that opening that file finds them as it finds any other.

Four devices with six streams and a lane of steps each; twelve host threads with operators three
deep; kernels of log-normal length, 300 names.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from workbench.trace import cache, container, schema
from workbench.trace.core import Thread, Trace, TraceMeta
from workbench.trace.fingerprint import SETTLED_NS

DEVICES, STREAMS, THREADS, STEPS, DEPTH = 4, 6, 12, 100, 3
LANES = DEVICES * (STREAMS + 1) + THREADS
SHARE_OF_KERNELS = 0.7
FAMILIES = ("gemm", "elementwise", "attention", "reduction", "norm")
NAMES_OF_KERNELS, NAMES_OF_OPS = 250, 50


def trace(path: Path, events: int) -> Trace:
    """Draw a trace of about this many events, which claims to come from `path`."""
    rng = np.random.default_rng(0)
    activities = _kernels(rng, int(events * SHARE_OF_KERNELS) // (DEVICES * STREAMS))
    span = int((activities["start_ns"] + activities["dur_ns"]).max())  # type: ignore[operator]
    ops = _operators(rng, (events - activities.height) // (THREADS * DEPTH), span)
    tables = {name: schema.empty(name) for name in schema.TABLES if name != "frames"}
    tables |= {"activities": activities, "ops": ops, "steps": _steps(span)}
    tables = {name: schema.conform(name, frame) for name, frame in tables.items()}
    threads = tuple(Thread(1, k, f"worker {k}") for k in range(THREADS))
    total = activities.height + ops.height
    meta = TraceMeta(path, "generated", container.sha256(path), 0, threads=threads, events=total)
    return Trace(meta, tables)


def keep(folder: Path, events: int) -> Path:
    """Put such a trace into the cache and return the file that opens it."""
    path = folder / f"{events}.json"
    if not path.exists():
        path.write_text(f"{events} events\n".ljust(cache.SMALLEST))
        time.sleep(SETTLED_NS / 1e9 + 0.1)  # only then is its hash noted
    cache.fetch(path, lambda p: trace(p, events))
    return path


def _kernels(rng: np.random.Generator, each: int) -> pl.DataFrame:
    """Fill each stream one kernel after another, all streams to about the same end."""
    lanes = DEVICES * STREAMS
    dur = np.maximum(1, rng.lognormal(8, 1.2, (lanes, each))).astype(np.int64)
    start = np.cumsum(dur + rng.exponential(2000, (lanes, each)).astype(np.int64), axis=1) - dur
    name = rng.integers(0, NAMES_OF_KERNELS, lanes * each).astype(np.uint32)
    names = [f"void kernel_{k}<float, {k % 7}>(Params)" for k in range(NAMES_OF_KERNELS)]
    families = [FAMILIES[k % len(FAMILIES)] for k in range(NAMES_OF_KERNELS)]
    step = start // (int((start + dur).max()) // STEPS + 1)
    frame = pl.DataFrame(
        {
            "device": np.repeat(np.arange(DEVICES), STREAMS * each).astype(np.int32),
            "stream": np.tile(np.repeat(7 + np.arange(STREAMS), each), DEVICES),
            "start_ns": start.ravel(),
            "dur_ns": dur.ravel(),
            "step": step.ravel().astype(np.int32),
            "name": pl.Series(names, dtype=schema.NAME).gather(name),
            "family": pl.Series(families, dtype=schema.NAME).gather(name),
        }
    )
    return _by_start(frame).with_columns(
        kind=pl.lit("kernel", schema.KIND), source=pl.lit("device", schema.SOURCE)
    )


def _operators(rng: np.random.Generator, each: int, span: int) -> pl.DataFrame:
    """Nest three operators in each other, again and again on every thread."""
    pitch = span // each
    begin = np.arange(each) * pitch + rng.integers(0, pitch // 8, (THREADS, each))
    inset = np.arange(DEPTH) * (pitch // 16)
    start = begin[:, :, None] + inset
    dur = np.broadcast_to(pitch * 3 // 4 - 2 * inset, start.shape)
    depth = np.broadcast_to(np.arange(DEPTH), start.shape)
    name = rng.integers(0, NAMES_OF_OPS, start.size).astype(np.uint32)
    names = pl.Series([f"aten::operator_{k}" for k in range(NAMES_OF_OPS)], dtype=schema.NAME)
    return _by_start(
        pl.DataFrame(
            {
                "thread": np.repeat(np.arange(THREADS), each * DEPTH).astype(np.int32),
                "start_ns": start.ravel(),
                "dur_ns": dur.ravel(),
                "self_ns": dur.ravel(),
                "depth": depth.ravel().astype(np.uint32),
                "step": (start.ravel() // (span // STEPS + 1)).astype(np.int32),
                "name": names.gather(name),
            }
        )
    ).with_columns(phase=pl.lit("forward", schema.PHASE))


def _steps(span: int) -> pl.DataFrame:
    begin = np.tile(np.arange(STEPS) * (span // STEPS), DEVICES)
    spans = {f"{host}{c}_ns": v for host in ("", "host_") for c, v in
             (("start", begin), ("dur", np.full(len(begin), span // STEPS)))}  # fmt: skip
    step = np.tile(np.arange(STEPS), DEVICES).astype(np.int32)
    device = np.repeat(np.arange(DEVICES), STEPS).astype(np.int32)
    frame = pl.DataFrame({"step": step, "device": device} | spans)
    return frame.with_columns(complete=pl.lit(True), tail=pl.col("step") == STEPS - 1)


def _by_start(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("start_ns").with_row_index("id")


if __name__ == "__main__":
    print(keep(Path(sys.argv[1]), int(sys.argv[2])))
