"""Power of a run's devices over time, read from telemetry.csv."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from workbench.capture import folder
from workbench.errors import InputError

FILE = "telemetry.csv"
SCHEMA: dict[str, pl.DataType] = {
    "t_unix_ns": pl.Int64(),
    "device": pl.Int32(),
    "power_w": pl.Float64(),
}
"""`device` is the run's own number of the accelerator, as in its traces."""
_READ: dict[str, pl.DataType] = {
    "t_unix_ns": pl.Int64(),
    "device": pl.String(),
    "power_w": pl.Float64(),
    "uuid": pl.String(),
}
LARGEST = 256 * 10**6
NO_FILE = "the source has no telemetry (telemetry.csv of a recorded run has)"
NO_POWER = "its telemetry holds no power; NVIDIA GPUs report it, processors don't"
NO_PLACE = "which GPU of the machine the run's device was isn't known"


@dataclass(frozen=True)
class Power:
    """Samples of power, columns of `SCHEMA`, by time; without any, the reason."""

    samples: pl.DataFrame
    reason: str | None = None


def recorded(run: Path) -> Power:
    """Return the power that was sampled beside a run; what cannot be used is left out.

    A GPU of the machine is a device of the run by its uuid; without uuids by its number, provided
    that the run saw as many GPUs as the machine has.
    """
    path = run / FILE
    try:
        if path.stat().st_size > LARGEST:
            return _none(f"{FILE} is too large")
        found = _read(path)
    except FileNotFoundError:
        return _none(NO_FILE)
    except (OSError, pl.exceptions.PolarsError):
        return _none(f"{FILE} cannot be read")
    sampled = found.drop_nulls(["t_unix_ns", "power_w"])
    sampled = sampled.filter(pl.col("power_w").is_finite() & (pl.col("power_w") >= 0))
    if not sampled.height:
        return _none(NO_POWER)
    place = places(found, run_devices(run))
    placed = sampled.with_columns(
        pl.col("device").replace_strict(place, default=None, return_dtype=pl.Int32())
    ).drop_nulls("device")
    if not placed.height:
        return _none(NO_PLACE)
    return Power(placed.select(*SCHEMA).sort("device", "t_unix_ns"))


def _none(reason: str) -> Power:
    return Power(pl.DataFrame(schema=SCHEMA), reason)


def _read(path: Path) -> pl.DataFrame:
    text = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    given = text.columns
    return text.select(
        (pl.col(n) if n in given else pl.lit(None, pl.String)).cast(t, strict=False).alias(n)
        for n, t in _READ.items()
    )


def run_devices(run: Path) -> list[dict[str, Any]]:
    """Return the run's devices as run.json lists them; none when it cannot be read."""
    try:
        listed = folder.read_manifest(run).get("devices")
    except InputError:
        return []
    return [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []


def places(found: pl.DataFrame, devices: list[dict[str, Any]]) -> dict[str, int]:
    """Map the names in the file, as `gpu0`, to numbers of the run's devices."""
    named = found.filter(pl.col("device").str.contains(r"^gpu\d{1,4}$"))
    gpus = named.unique("device", keep="first", maintain_order=True)
    mine = {_plain(d.get("uuid")): d.get("index") for d in devices}
    by_uuid = {
        device: index
        for device, uuid in gpus.select("device", "uuid").iter_rows()
        if isinstance(index := mine.get(_plain(uuid)), int) and uuid
    }
    if by_uuid or gpus.height != len(devices):
        return by_uuid
    return {name: int(name.removeprefix("gpu")) for name in gpus["device"]}


def _plain(uuid: object) -> str:
    return str(uuid or "").removeprefix("GPU-").casefold()
