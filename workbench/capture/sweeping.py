"""`sweep(workload, grid)`: one run for each combination of options, one after another.

A sweep folder holds its run folders and `sweep.json`, which is written whole after every point. So
one that was killed goes on where it was: the same call on the same folder runs what is left.
"""

from __future__ import annotations

import importlib
import itertools
import math
import re
import threading
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.capture.folder import unwritable
from workbench.capture.plan import CapturePlan
from workbench.capture.run import record
from workbench.capture.sweep_folder import (
    CANCELLED,
    DONE,
    FAILED,
    REFUSED,
    WAITING,
    Point,
    begun,
    frame,
    write,
)
from workbench.errors import UsageError, WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from workbench.capture.run import Run
    from workbench.workloads import Value

MOST_POINTS = 1_000
OF_PLAN = ("preset", "device", "ranks")
"""What a grid may vary beside a workload's own parameters."""
_LONGEST_NAME = 80


def sweep(
    workload: str,
    grid: Mapping[str, Sequence[Value]],
    *,
    path: str | Path | None = None,
    runs_dir: str | Path = "runs",
    on_point: Callable[[Point, int, int], None] | None = None,
    **fields: Any,
) -> Sweep:
    """Start recording every combination of a grid and return at once.

    `grid` gives for each name the values to try: parameters of the workload, `preset`, `device` or
    `ranks`. `fields` are the other fields of a `CapturePlan`. `path` is the sweep's folder; one
    that holds the same sweep already is continued: what is done stays, what failed is tried again.
    `on_point` is called from the sweep's thread when a point ends, with its number and their count.
    Combinations that a workload refuses are kept as refused, with the sentence. Raises UsageError
    for a grid without any that could run, and for a folder that holds another sweep.
    """
    points = _points(workload, grid, fields)
    target = Path(path or _new_path(Path(runs_dir), workload)).expanduser().absolute()
    told = {"workload": workload, "grid": {k: [*v] for k, v in grid.items()}}
    told["fields"] = {k: str(v) if isinstance(v, Path) else v for k, v in sorted(fields.items())}
    points = begun(target, told, points)
    made = Sweep(target, told, points, fields, on_point)
    made.start()
    return made


class Sweep(threading.Thread):
    """A sweep in progress or ended; what it has is read from any thread."""

    def __init__(
        self,
        path: Path,
        told: dict[str, Any],
        points: list[Point],
        fields: Mapping[str, Any],
        on_point: Callable[[Point, int, int], None] | None,
    ) -> None:
        super().__init__(name=f"sweep {path.name}", daemon=True)
        self.path, self.points = path, points
        self._told, self._fields, self._on_point = told, fields, on_point
        self._cancelled, self._ended = threading.Event(), threading.Event()
        self._listeners: list[Callable[[], None]] = []
        self.error: str | None = None
        """Why it ended before its time: its folder can't be written."""
        self.current: Run | None = None
        """The run that is being recorded."""

    @property
    def status(self) -> str:
        """Return running, cancelled, done (also when some failed), or failed (when all did)."""
        if not self._ended.is_set():
            return "running"
        if self.error is not None:
            return FAILED
        ended = [p.status for p in self.points]
        if WAITING in ended or CANCELLED in ended:
            return CANCELLED
        return DONE if DONE in ended else FAILED

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the sweep has ended, at most `timeout` seconds; return its status."""
        self._ended.wait(timeout)
        return self.status

    def cancel(self) -> None:
        """End the run that is recorded now, and start no other; a second call ends it by force."""
        self._cancelled.set()
        if (run := self.current) is not None:
            run.cancel()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called from the sweep's threads whenever something changed."""
        self._listeners.append(listener)

    def frame(self) -> pl.DataFrame:
        """Return `frame` of what there is by now."""
        return frame(self.path)

    def __repr__(self) -> str:
        """Say what it is in one line, without paths or times (notebook checks compare it)."""
        done = sum(p.status == DONE for p in self.points)
        return (
            f"Sweep({self._told['workload']}, {done} of {len(self.points)} points, {self.status})"
        )

    def run(self) -> None:
        """Record point by point; a failure is kept and passed over."""
        try:
            self._record_all()
        finally:
            self._ended.set()
            self._tell()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show progress, Cancel, table and picture in a notebook; panels stand above captures."""
        panel: Any = importlib.import_module("workbench.panels.sweep").SweepPanel(self)
        return panel._repr_mimebundle_(**kwargs)

    def _record_all(self) -> None:
        for k, point in enumerate(self.points):
            if point.status == WAITING and not self._cancelled.is_set():
                self._keep(k, self._recorded(point))
                if self.points[k].status == CANCELLED or self.error is not None:
                    return

    def _tell(self) -> None:
        for listener in self._listeners:
            try:
                listener()
            except Exception:  # noqa: BLE001 - a listener's fault is not the sweep's
                traceback.print_exc()

    def _recorded(self, point: Point) -> Point:
        fields = dict(self._fields)
        try:
            plan = _plan(self._told["workload"], point, fields, self.path)
            self.current = record(plan, on_event=lambda _: self._tell())
            if self._cancelled.is_set():  # in between
                self.current.cancel()
            status, error = self.current.wait(), self.current.error
        except WorkbenchError as found:
            status, error = FAILED, str(found)
        self.current = None
        return replace(point, status=status, error=error)

    def _keep(self, k: int, point: Point) -> None:
        points = [*self.points[:k], point, *self.points[k + 1 :]]
        try:
            write(self.path, self._told, points)
        except OSError as error:
            self.error = unwritable(self.path, error)
        self.points = points  # once the file says so, which is read by who sees it here
        if self._on_point is not None:
            self._on_point(point, k + 1, len(self.points))
        self._tell()


def _points(
    workload: str, grid: Mapping[str, Sequence[Value]], fields: Mapping[str, Any]
) -> list[Point]:
    empty = [name for name, values in grid.items() if not values]
    if not grid or empty:
        raise UsageError(
            f"Name values to try{f' for {empty[0]}' if empty else ''}, as in batch=1,2."
        )
    count = math.prod(len(values) for values in grid.values())
    if count > MOST_POINTS:
        raise UsageError(
            f"{count:,} combinations are more than {MOST_POINTS:,}; sweep fewer values."
        )
    points = []
    for k, values in enumerate(itertools.product(*grid.values())):
        chosen = dict(zip(grid, values, strict=True))
        point = Point(_name(k, chosen), chosen)
        error = _refusal(workload, point, fields)
        points.append(replace(point, status=REFUSED, error=error) if error else point)
    if all(p.status == REFUSED for p in points):
        raise UsageError(str(points[0].error))
    return points


def _name(number: int, values: Mapping[str, Value]) -> str:
    said = "-".join(f"{name}-{value}" for name, value in values.items())
    return f"{number:03d}-{re.sub(r'[^A-Za-z0-9._-]+', '-', said)}"[:_LONGEST_NAME]


def _refusal(workload: str, point: Point, fields: Mapping[str, Any]) -> str | None:
    try:
        _plan(workload, point, fields, Path())
    except UsageError as error:
        return str(error)
    return None


def _plan(workload: str, point: Point, fields: Mapping[str, Any], path: Path) -> CapturePlan:
    own = {k: v for k, v in point.values.items() if k in OF_PLAN}
    if isinstance(ranks := own.get("ranks"), str):
        own["ranks"] = int(ranks) if ranks.isdecimal() else ranks
    overrides = dict(fields.get("overrides", {}))
    overrides |= {k: v for k, v in point.values.items() if k not in OF_PLAN}
    try:
        return CapturePlan(
            workload=workload, out=path / point.name, **{**fields, **own, "overrides": overrides}
        )
    except TypeError:
        known = {f: v for f, v in fields.items() if f not in CapturePlan.__dataclass_fields__}
        raise UsageError(f"A recording has no field {', '.join(known)}.") from None


def _new_path(runs_dir: Path, workload: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return runs_dir / f"sweep-{workload}-{stamp}"
