"""Launches and their counters, of whatever tool, to a `Trace` without a timeline.

To count, a tool runs kernels one after another, most of them several times over. So their starts
say nothing of the program's own course, and no analysis of time may read them: `meta.timed` is
false. A duration is that of one run by itself, at the clock and cache state that the tool sets.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from workbench.trace import container, schema
from workbench.trace.assemble import assemble
from workbench.trace.core import Device, Trace, TraceMeta
from workbench.trace.families import families
from workbench.trace.problems import Tally

MOST_VALUES = 20_000_000
"""Counter values of one file; ten thousand launches with two thousand counters each."""
REASON = (
    "counters were collected kernel by kernel, so there is no timeline; see `show … counters`, "
    "or give this file beside a recording: `show RECORDING counters --counters FILE`"
)


@dataclass(slots=True)
class Launch:
    """One kernel that was counted; None where the file does not say."""

    name: str
    device: int | None = None
    stream: int | None = None
    start_ns: int | None = None
    dur_ns: int | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    shared_bytes: int | None = None


class Values:
    """Counter values as they are met, in compact columns."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str | None, str], int] = {}
        self._launch, self._key, self._value = array("I"), array("I"), array("d")

    def add(self, launch: int, name: str, unit: str | None, source: str, value: float) -> None:
        """Add one value of a launch."""
        self._launch.append(launch)
        self._key.append(self._keys.setdefault((name, unit, source), len(self._keys)))
        self._value.append(value)

    @property
    def full(self) -> bool:
        """Say whether no more values may be read."""
        return len(self._value) >= MOST_VALUES

    def table(self) -> pl.DataFrame:
        """Return the table `kernel_counters`."""
        names = ("name", "unit", "source")
        keys = pl.DataFrame(
            list(self._keys), schema=dict.fromkeys(names, pl.String()), orient="row"
        ).with_row_index("key")
        return (
            pl.DataFrame({"activity": self._launch, "key": self._key, "value": self._value})
            .cast({"activity": schema.ID, "key": pl.UInt32(), "value": pl.Float64()})
            .join(keys, on="key", how="left", maintain_order="left")
        )


@dataclass
class Found:
    """What a reader collected."""

    launches: list[Launch] = field(default_factory=list)
    values: Values = field(default_factory=Values)
    devices: dict[int, Device] = field(default_factory=dict)
    producer: dict[str, object] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    truncated: bool = False

    def stop(self, path: Path) -> None:
        """Note that the rest of the file is not read."""
        self.truncated = True
        self.tally.add(
            "too_many_rows", 1, path.name, "only the first rows are read (see limits); totals "
            "are partial",
        )  # fmt: skip


def build(path: Path, form: str, found: Found, *, kind: str, reader: str, sha256: str) -> Trace:
    """Make the trace: launches in the order of the file, starts relative to the earliest known."""
    starts = [launch.start_ns for launch in found.launches if launch.start_ns is not None]
    origin = min(starts, default=0)
    table = found.values.table().drop("key")
    meta = TraceMeta(
        path=path,
        format=form,
        sha256=sha256,
        origin_ns=origin,
        devices=tuple(found.devices[i] for i in sorted(found.devices)),
        producer=found.producer,
        events=table.height,
        truncated=found.truncated,
        device_kind=kind,
        device_reason=REASON,
        timed=False,
    )
    tables = {"activities": _activities(found.launches, origin), "kernel_counters": table}
    return assemble(meta, tables, found.tally.problems(), reader)


def _activities(launches: list[Launch], origin: int) -> pl.DataFrame:
    names = [f for f in Launch.__slots__ if f != "name"]
    columns = {n: [getattr(launch, n) for launch in launches] for n in names}
    dtypes = schema.polars_schema("activities")
    name = pl.Series("name", [launch.name for launch in launches], dtype=pl.String)
    return pl.DataFrame(
        {n: pl.Series(v, dtype=dtypes[n]) for n, v in columns.items()}
    ).with_columns(
        pl.int_range(len(launches), dtype=schema.ID).alias("id"),
        pl.col("start_ns") - origin,
        name.cast(schema.NAME),
        families(name).alias("family"),
        pl.lit("kernel").alias("kind"),
        pl.lit("device").alias("source"),
    )


def sha256_of(*paths: Path) -> str:
    """Return one hash of several files; it is that of none of them, so none is cached under it."""
    import hashlib

    return hashlib.sha256(" ".join(container.sha256(p) for p in paths).encode()).hexdigest()
