"""A sweep on disk: its points in `sweep.json`, run folders, what these measured."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.capture import folder
from workbench.capture.overhead import step_times
from workbench.errors import InputError, UsageError
from workbench.trace import atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from workbench.workloads import Value

FILE, VERSION = "sweep.json", 1
WAITING, REFUSED, DONE, FAILED, CANCELLED = "waiting", "refused", "done", "failed", "cancelled"
_LARGEST = 16 * 10**6
_SCHEMA = {
    "status": pl.String(),
    "step_ns": pl.Float64(),
    "least_ns": pl.Float64(),
    "most_ns": pl.Float64(),
    "steps": pl.Int64(),
    "samples_per_s": pl.Float64(),
    "tokens_per_s": pl.Float64(),
    "error": pl.String(),
    "run": pl.String(),
}


@dataclass(frozen=True)
class Point:
    """One combination: its values, its run folder's name, and how that ended."""

    name: str
    values: dict[str, Value]
    status: str = WAITING
    """waiting, refused (the options exclude each other), done, failed or cancelled."""
    error: str | None = None


def frame(path: Path) -> pl.DataFrame:
    """Return a sweep folder's points: the swept names, `status`, step times, throughput, `run`.

    `step_ns` is the median untraced step, `least_ns` and `most_ns` the fastest and the slowest of
    the `steps` there are; samples and tokens are those of all ranks by the median. Raises
    InputError where there is no sweep.
    """
    told, points = read(path)
    names = list(told["grid"])
    rows = [{n: str(p.values[n]) for n in names} | _measured(path, p) for p in points]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String()), **_SCHEMA})


def read(path: Path) -> tuple[dict[str, Any], list[Point]]:
    """Read what a folder's sweep is and its points; InputError where there is none."""
    file = path / FILE
    try:
        if file.stat().st_size > _LARGEST:
            raise InputError(f"{file} is too large for a sweep.")
        told = json.loads(file.read_text("utf-8"))
        if told["version"] > VERSION:
            raise InputError(f"{file} was written by a later version of Workbench; update it.")
        points = [Point(**p) for p in told.pop("points")]
        return {k: told[k] for k in ("workload", "grid", "fields")}, points
    except OSError as error:
        raise InputError(
            f"{path} holds no sweep: {FILE} can't be read, {error.strerror}."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is not of a sweep: {error}.") from None


def begun(path: Path, told: Mapping[str, Any], points: list[Point]) -> list[Point]:
    """Take over what the folder has of this sweep; write it down before anything runs."""
    if (path / FILE).exists():
        before, known = read(path)
        if before != json.loads(json.dumps(told)):
            raise UsageError(f"{path} holds another sweep; name another folder.")
        done = {p.name: p for p in known if p.status == DONE and _is_whole(path / p.name)}
        points = [done.get(p.name, p) for p in points]
    elif path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} exists already and holds no sweep; name a new folder.")
    _clear(path, [p for p in points if p.status == WAITING])
    try:
        path.mkdir(parents=True, exist_ok=True)
        write(path, told, points)
    except OSError as error:
        raise UsageError(f"The sweep's folder {path} can't be written: {error.strerror}.") from None
    return points


def _is_whole(run: Path) -> bool:
    try:
        return folder.read(run).status == DONE
    except InputError:
        return False


def _clear(path: Path, waiting: Iterable[Point]) -> None:
    """Remove what an earlier try of these points left; UsageError while one is still recorded."""
    for point in waiting:
        for left in (path / point.name, folder.partial_path(path / point.name)):
            if left.is_dir() and (left / folder.MANIFEST).exists():
                if folder.read(left).status == "running":
                    raise UsageError(f"{path} is being swept by another process; wait for it.")
                atomic.remove([left])
            elif left.is_dir():
                shutil.rmtree(left, ignore_errors=True)


def write(path: Path, told: Mapping[str, Any], points: Sequence[Point]) -> None:
    """Write down what a sweep is and how its points stand, whole or not at all."""
    content = {"version": VERSION, **told, "points": [asdict(p) for p in points]}
    atomic.replace_file(path / FILE, json.dumps(content, indent=1).encode("utf-8"))


def _measured(path: Path, point: Point) -> dict[str, Any]:
    known = {"status": point.status, "error": point.error}
    if point.status != DONE:
        return known
    try:
        manifest = folder.read_manifest(path / point.name)
        times = step_times(manifest, "untraced")
    except (InputError, KeyError, TypeError) as error:
        return known | {"status": FAILED, "error": f"its run folder can't be read: {error}"}
    row = known | {"run": str(path / point.name), "steps": len(times)}
    if not len(times):
        return row
    step = float(np.median(times))
    ranks = manifest.get("plan", {}).get("ranks", 1)
    row |= {"step_ns": step, "least_ns": float(times.min()), "most_ns": float(times.max())}
    for what in ("samples", "tokens"):
        each = manifest.get(f"{what}_per_step_and_rank")
        row[f"{what}_per_s"] = each * ranks / step * 1e9 if each and step else None
    return row
