"""`Only`: part of the work of a device, which some analyses can look at alone.

Each choice says which activities are meant; all that is chosen must hold. The window stays what it
is without the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.analysis import calltree, places, work
from workbench.analysis.window import Selection, select
from workbench.costs import levels
from workbench.errors import UsageError, unknown_name
from workbench.trace.core import Trace
from workbench.trace.nesting import NONE

POINTS = {
    "operator": "operator",
    "name": "operator",
    "kind": "kind",
    "kernel_family": "kernel_family",
    "module": "module",
    "phase": "phase",
    "device": "everything",
}
"""Ways in which `roofline` groups its points, and the column of `work.calls` that each is."""
PARSED = ("kernel", "operator", "module")
"""What the command line can choose."""
Mask = NDArray[np.bool_]
Point = tuple[str, str | None, str | None]


@dataclass(frozen=True, kw_only=True)
class Only:
    """Work that is of one kernel, operator, module or point of the roofline; None: of any.

    `wb.kernels(run, only=wb.Only(module="Gpt_0/Block_1"))` is what ran in that module.
    """

    kernel: str | None = None
    """Name of an activity; under host execution that of its operator."""
    operator: str | None = None
    """Name of an operator: what it launched, itself or by what it calls."""
    module: str | None = None
    """Path as in `modules`, with all that is inside it; "" is work of no module."""
    point: Point | None = None
    """A row of `roofline`: its `by`, its operator or group, and its shapes (null unless by
    operator): the work that the cost models count to it."""
    rank: int | None = None
    """One rank; None is all of them."""

    def __post_init__(self) -> None:
        """Take a point from a list as well; refuse one that `roofline` could not have."""
        if self.point is None:
            return
        if len(self.point) != len(("by", "name", "shapes")):
            raise UsageError(f"point is (by, name, shapes) of a row of roofline, not {self.point}.")
        if self.point[0] not in POINTS:
            raise unknown_name("way to group points", str(self.point[0]), POINTS)
        object.__setattr__(self, "point", tuple(self.point))

    def __bool__(self) -> bool:
        """Say whether anything is chosen."""
        return bool(self.given())

    def __repr__(self) -> str:
        """Write it as the call that makes it, without what is left open."""
        return f"Only({', '.join(f'{k}={v!r}' for k, v in self.given().items())})"

    def given(self) -> dict[str, Any]:
        """Return what is chosen, by name."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def without(self, kind: str) -> Only:
        """Return it with one choice left open; a rank alone is no choice."""
        left = replace(self, **{kind: None})
        return left if left.given().keys() - {"rank"} else Only()


def narrowed(chosen: list[Selection], part: Only | None) -> list[Selection]:
    """Return selections of the same windows that hold only the activities of a part of the work."""
    if not part:
        return chosen
    return [replace(s, activities=s.activities.filter(of(s, part))) for s in chosen]


def of(chosen: Selection, part: Only) -> pl.Series:
    """Say of each activity of a selection whether it belongs to a part of the work."""
    return mask(chosen.trace, part).gather(chosen.activities["id"])


def mask(trace: Trace, part: Only) -> pl.Series:
    """Say of each activity of a trace whether it belongs to a part of the work."""

    def make() -> pl.DataFrame:
        return pl.DataFrame({"keep": _mask(trace, part)})

    return trace.remembered(repr(part), make)["keep"]


def _mask(trace: Trace, part: Only) -> pl.Series:
    keep = np.full(trace.activities.height, part.rank is None or part.rank == trace.meta.rank)
    if keep.any():
        for name, told in _TOLD.items():
            value = getattr(part, name)
            if value is not None:
                keep &= told(trace, value)
    return pl.Series(keep, dtype=pl.Boolean)


def _of_kernel(trace: Trace, name: str) -> Mask:
    named = trace.activities["name"].cast(pl.String) == name
    return named.fill_null(value=False).to_numpy()


def _of_operator(trace: Trace, name: str) -> Mask:
    """Say which were launched inside an operator of a name."""
    ops = trace.ops
    named = ops.filter(pl.col("name").cast(pl.String) == name)["id"]
    found: Mask = levels.is_inside(ops["parent"], named, trace.activities["op"]).to_numpy()
    return found


def _of_module(trace: Trace, path: str) -> Mask:
    tree = calltree.tree(trace)
    place = places.of_activities(tree, trace, trace.activities, places.of_operators(tree, trace))
    if not path:
        return np.asarray(place == NONE)
    inside = [p == path or p.startswith(f"{path}/") for p in tree.path]
    return np.append(np.array(inside, np.bool_), False)[place]


def _of_point(trace: Trace, point: Point) -> Mask:
    keep = np.zeros(trace.activities.height, np.bool_)
    for chosen in select(trace, window="all"):
        ran = work.owned(chosen)
        keep[point_of(chosen, ran, point)["id"].to_numpy()] = True
    return keep


def point_of(chosen: Selection, ran: pl.DataFrame, point: Point) -> pl.DataFrame:
    """Keep the rows of `work.owned` that a point of the roofline stands for."""
    by, name, shapes = point
    calls = work.labelled(work.calls(ran, "roofs change no group", is_host=chosen.is_host))
    calls = calls.with_columns(everything=pl.lit("all"))
    same = [pl.col(POINTS[by]).cast(pl.String).eq_missing(pl.lit(name, pl.String))]
    if by == "operator":
        same.append(pl.col("shapes").eq_missing(pl.lit(shapes, pl.String)))
    mine = calls.filter(same)
    owned = pl.col("owner").is_in(mine["owner"].drop_nulls().implode())
    alone = mine.filter(pl.col("owner").is_null())["activity_kind"].cast(pl.String)
    alike = pl.col("kind").cast(pl.String).is_in(alone.implode())
    return ran.filter(owned.fill_null(value=False) | (pl.col("owner").is_null() & alike))


_TOLD: dict[str, Callable[[Trace, Any], Mask]] = {
    "kernel": _of_kernel,
    "operator": _of_operator,
    "module": _of_module,
    "point": _of_point,
}


def parsed(texts: Sequence[str]) -> Only:
    """Read choices as on the command line, `kernel=NAME`, `operator=NAME` or `module=PATH`."""
    found: dict[str, Any] = {}
    for text in texts:
        kind, equals, name = text.partition("=")
        if not equals or kind not in PARSED:
            raise UsageError(
                f"--only {text} is not {', '.join(f'{k}=NAME' for k in PARSED)}; give one of them."
            )
        found[kind] = name
    return Only(**found)
