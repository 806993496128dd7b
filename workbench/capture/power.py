"""Power of a run's devices over time, read from telemetry.csv."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from workbench.capture import folder
from workbench.errors import InputError
from workbench.units import NS_PER_S

FILE = "telemetry.csv"
HOST = "cpu"
"""What the processor is called in the file."""
SCHEMA: dict[str, pl.DataType] = {
    "t_unix_ns": pl.Int64(),
    "device": pl.Int32(),
    "power_w": pl.Float64(),
}
"""`device` is the run's own number of the accelerator, as in its traces; null is the host."""
_READ: dict[str, pl.DataType] = {
    "t_unix_ns": pl.Int64(),
    "device": pl.String(),
    "power_w": pl.Float64(),
    "uuid": pl.String(),
    "energy_j": pl.Float64(),
}
LARGEST = 256 * 10**6
NO_FILE = "the source has no telemetry (telemetry.csv of a recorded run has)"
NO_POWER = (
    "its telemetry holds no power; NVIDIA GPUs report it, processors where /sys/class/powercap can "
    "be read"
)
NO_PLACE = "which GPU of the machine the run's device was isn't known"


@dataclass(frozen=True)
class Power:
    """Samples of power, columns of `SCHEMA`, by time; without any, the reason."""

    samples: pl.DataFrame
    reason: str | None = None


def recorded(run: Path) -> Power:
    """Return the power that was sampled beside a run; what cannot be used is left out.

    A GPU of the machine is a device of the run by its uuid; without uuids by its number, provided
    that the run saw as many GPUs as the machine has. Where a device counted its energy, power is
    that of the counter (`counted`), since reported power is an average over up to a second.
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
    sampled = _best(found.drop_nulls(["t_unix_ns", "device"]))
    sampled = sampled.filter(pl.col("power_w").is_finite() & (pl.col("power_w") >= 0))
    if not sampled.height:
        return _none(NO_POWER)
    place = places(found, run_devices(run))
    on = sampled.filter(pl.col("device").is_in([HOST, *place]))
    if not on.height:
        return _none(NO_PLACE)
    number = pl.col("device").replace_strict(place, default=None, return_dtype=pl.Int32())
    return Power(on.select("t_unix_ns", number, "power_w").sort("device", "t_unix_ns"))


def _best(found: pl.DataFrame) -> pl.DataFrame:
    """Return each device's power, from its counter of energy where it has one."""
    parts = [pl.DataFrame(schema=found.select("t_unix_ns", "device", "power_w").schema)]
    for (device,), mine in found.group_by("device", maintain_order=True):
        by_counter = counted(mine.sort("t_unix_ns"))
        each = mine if by_counter is None else by_counter.with_columns(device=pl.lit(device))
        parts.append(each.select("t_unix_ns", "device", "power_w"))
    return pl.concat(parts)


def counted(samples: pl.DataFrame) -> pl.DataFrame | None:
    """Return power from a counter of energy, columns t_unix_ns and power_w; None without one.

    Between two samples at which the counter had moved on, power is joules over seconds; it stands
    at the middle between them, and at the first and last of them too.
    """
    known = samples.filter(pl.col("energy_j").is_finite())
    moved = known.filter((pl.col("energy_j") != pl.col("energy_j").shift(1)).fill_null(value=True))
    seconds = pl.col("t_unix_ns").diff() / NS_PER_S
    each = moved.select(
        power_w=pl.col("energy_j").diff() / seconds,
        t_unix_ns=pl.col("t_unix_ns") - pl.col("t_unix_ns").diff() // 2,
    ).filter(pl.col("power_w").is_finite() & (pl.col("power_w") >= 0))
    if not each.height:
        return None
    middle = each.select("t_unix_ns", "power_w")
    ends = [
        middle.head(1).with_columns(t_unix_ns=pl.lit(known["t_unix_ns"][0], pl.Int64)),
        middle.tail(1).with_columns(t_unix_ns=pl.lit(known["t_unix_ns"][-1], pl.Int64)),
    ]
    return pl.concat([ends[0], middle, ends[1]])


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
