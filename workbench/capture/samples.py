"""Everything that was sampled beside a run, as rows like those of the table `counters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.capture.power import FILE, HOST, LARGEST, places, run_devices

if TYPE_CHECKING:
    from pathlib import Path

QUANTITIES = {
    "power_w": ("power", "W"),
    "core_clock_mhz": ("core clock", "MHz"),
    "memory_clock_mhz": ("memory clock", "MHz"),
    "utilisation_pct": ("utilisation", "%"),
    "memory_used_bytes": ("memory in use", "B"),
    "temperature_c": ("temperature", "°C"),
    "other_pct": ("load of other programs", "%"),
}
"""Columns of telemetry.csv, what each is called, and its unit."""
SCHEMA: dict[str, pl.DataType] = {
    "t_unix_ns": pl.Int64(),
    "device": pl.Int32(),
    "name": pl.String(),
    "value": pl.Float64(),
    "unit": pl.String(),
}
"""`device` is the run's own number of the accelerator; null is the host."""


def sampled(run: Path) -> pl.DataFrame:
    """Return the samples beside a run, columns of `SCHEMA`, by device, name and time.

    No rows where there is no file, or none that can be used; a GPU of the machine is a device of
    the run as `power.recorded` finds it. What is not a finite number is left out.
    """
    found = placed(run)
    known = [c for c in QUANTITIES if c in found.columns]
    return _rows(found, known) if known else pl.DataFrame(schema=SCHEMA)


def placed(run: Path) -> pl.DataFrame:
    """Return the file's columns as text beside `t_unix_ns` and `device`, of the run's devices."""
    path = run / FILE
    try:
        if path.stat().st_size > LARGEST:
            return pl.DataFrame()
        text = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    except (OSError, pl.exceptions.PolarsError):
        return pl.DataFrame()
    return _placed(text, run) if {"t_unix_ns", "device"} <= set(text.columns) else pl.DataFrame()


def _placed(text: pl.DataFrame, run: Path) -> pl.DataFrame:
    """Give devices numbers, the host null; leave out GPUs that are none of the run's."""
    if "uuid" not in text.columns:
        text = text.with_columns(uuid=pl.lit(None, pl.String))
    numbers = {name: k for name, k in places(text, run_devices(run)).items() if name != HOST}
    mine = text.filter(pl.col("device").is_in([HOST, *numbers]))
    number = pl.col("device").replace_strict(numbers, default=None, return_dtype=pl.Int32())
    return mine.with_columns(
        device=number, t_unix_ns=pl.col("t_unix_ns").cast(pl.Int64, strict=False)
    )


def _rows(found: pl.DataFrame, known: list[str]) -> pl.DataFrame:
    parts = [
        found.select(
            "t_unix_ns",
            "device",
            name=pl.lit(QUANTITIES[column][0]),
            value=pl.col(column).cast(pl.Float64, strict=False),
            unit=pl.lit(QUANTITIES[column][1]),
        )
        for column in known
    ]
    every = pl.concat(parts).filter(pl.col("t_unix_ns").is_not_null(), pl.col("value").is_finite())
    return every.sort("device", "name", "t_unix_ns", maintain_order=True)
