"""How another tool's figure comes about from ours: one change of rule at a time.

A stage is a rule applied on top of those before it. What it changes in a measure is its share of
the difference, so that the shares add up to the difference exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis.window import Selection, spans
from workbench.intervals import Intervals, Times
from workbench.trace.core import Trace

EXAMPLE_LENGTH = 60
"""Characters of a name that a reason gives as an example."""
SORTS = ("compute", "communication", "copy", "set", "other")
"""What an event is to a rule, by its number in `Events.sort`."""
COMPUTE, COMMUNICATION, COPY, SET, OTHER = range(5)
_INSIDE = 1 << len(SORTS)
_OF_KIND = {"kernel": COMPUTE, "compute": COMPUTE, "collective": COMMUNICATION, "copy": COPY,
            "set": SET}  # fmt: skip
_MASK = np.arange(_INSIDE)
_C, _N, _P, _S = (_MASK & (1 << sort) > 0 for sort in (COMPUTE, COMMUNICATION, COPY, SET))
MEASURES: dict[str, NDArray[np.bool_]] = {
    "window": _MASK >= 0,
    "busy": _MASK > 0,
    "idle": _MASK == 0,
    "compute": _C,
    "non_compute": (_MASK > 0) & ~_C,
    "communication": _N,
    "overlap": _C & _N,
    "exposed_communication": _N & ~_C,
    "copy": _P | _S,
    "exposed_copy": (_P | _S) & ~_C & ~_N,
    "exposed_memcpy": _P & ~_C & ~_N,
    "exposed_memset": _S & ~_P & ~_C & ~_N,
    "kernel": _C | _N,
}
"""Which combinations of sorts, running at one moment, count to a measure."""


class Events(NamedTuple):
    """What a rule counts: spans, and the sort of each."""

    start: Times
    end: Times
    sort: NDArray[np.int8]

    def keep(self, which: NDArray[np.bool_]) -> Events:
        """Return some of them."""
        return Events(self.start[which], self.end[which], self.sort[which])

    def sorted_as(self, sort: NDArray[np.int8]) -> Events:
        """Return them as other sorts."""
        return Events(self.start, self.end, sort)

    @property
    def span(self) -> Intervals:
        """The window from the first start to the last end."""
        if not len(self.start):
            return intervals.EMPTY
        return intervals.union(self.start.min(keepdims=True), self.end.max(keepdims=True))


class Stage(NamedTuple):
    """A rule in words, on this trace, and the measures with it and all rules before it."""

    why: str
    values: dict[str, int]


@dataclass(frozen=True)
class Account:
    """One tool's figures for a device, or for all devices of a file where it keeps none apart."""

    tool: str
    device: int | None
    stages: list[Stage]
    """Ours first, the tool's own last."""
    wholes: dict[str, int]
    """What the share of a measure is of; of the tool's window where it is not named."""
    alone: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Measures that we do not have, each with its value and why it has no counterpart."""
    stops: dict[str, str] = field(default_factory=dict)
    """Measures that the tool fails to give for this recording, each with the reason."""

    def rows(self) -> list[dict[str, object]]:
        """Return `device tool measure value_ns share ours_ns difference_ns reason`."""
        ours, theirs = self.stages[0].values, self.stages[-1].values
        found = [
            self._row(m, None, ours[m], self.stops[m])
            if m in self.stops
            else self._row(m, v, ours[m], self._reason(m))
            for m, v in theirs.items()
        ]
        return found + [self._row(m, v, None, why) for m, (v, why) in self.alone.items()]

    def _row(
        self, measure: str, value: int | None, ours: int | None, reason: str | None
    ) -> dict[str, object]:
        whole = self.wholes.get(measure, self.wholes["window"])
        return {
            "device": self.device,
            "tool": self.tool,
            "measure": measure,
            "value_ns": value,
            "share": value / whole if whole and value is not None else None,
            "ours_ns": ours,
            "difference_ns": None if ours is None or value is None else value - ours,
            "reason": reason,
        }

    def _reason(self, measure: str) -> str | None:
        """Say what each rule changed; nothing where the tool agrees with us."""
        figures = [s.values[measure] for s in self.stages]
        if figures[0] == figures[-1]:
            return None
        steps = zip(self.stages[1:], figures, figures[1:], strict=False)
        return "; ".join(f"{s.why}: {to - of:+,} ns" for s, of, to in steps if to != of)


@dataclass(frozen=True)
class View:
    """One rank as the rules see it: our window on each device, and the whole recording."""

    trace: Trace
    chosen: tuple[Selection, ...]

    @property
    def device(self) -> int | None:
        """The device; null where there are several."""
        return self.chosen[0].device if len(self.chosen) == 1 else None

    @cached_property
    def activities(self) -> pl.DataFrame:
        """All activities of these devices, in and out of our window."""
        devices = pl.Series([s.device for s in self.chosen], dtype=pl.Int32)
        found = self.trace.activities
        if len(devices) == found["device"].n_unique():
            return found
        return found.filter(pl.col("device").is_in(devices.implode()))

    @cached_property
    def events(self) -> Events:
        """The same as we sort them."""
        return as_events(self.activities)

    @cached_property
    def ours(self) -> Times:
        """How long each combination ran in our windows, added up over devices."""
        each = [painted(as_events(s.activities), s.inside) for s in self.chosen]
        total: Times = np.sum(each, axis=0)
        return total

    @cached_property
    def whole(self) -> Times:
        """How long each combination ran in the whole recording, as one timeline."""
        return painted(self.events, self.events.span)

    def start(self, measures: tuple[str, ...]) -> list[Stage]:
        """Return our figures, and those over the whole recording as one timeline."""
        return [
            Stage("", read(self.ours, measures)),
            Stage(self._whole(), read(self.whole, measures)),
        ]

    def _whole(self) -> str:
        steps = self.chosen[0].steps
        said = [] if steps is None else [
            "the whole recording counts, not only "
            + ("its complete step" if len(steps) == 1 else f"its {len(steps)} complete steps")
        ]  # fmt: skip
        if len(self.chosen) > 1:
            said.append(f"the {len(self.chosen)} devices are one timeline")
        return " and ".join(said) or "the time between files counts"

    def each_device(self) -> list[View]:
        """Return one view for each device."""
        if len(self.chosen) == 1:
            return [self]
        return [View(self.trace, (s,)) for s in self.chosen]


def as_events(activities: pl.DataFrame) -> Events:
    """Sort activities as we do."""
    sort = activities["kind"].cast(pl.String).replace_strict(_OF_KIND, return_dtype=pl.Int8)
    return Events(*spans(activities), sort.to_numpy())


def painted(events: Events, inside: Intervals) -> Times:
    """Return how long each combination of sorts ran inside the window, by mask (1 << sort)."""
    n, w = len(events.start), len(inside.start)
    at = np.concatenate((events.start, events.end, inside.start, inside.end))
    step = np.repeat(np.array([1, -1, 1, -1], np.int32), (n, n, w, w))
    inside_sort = np.full(w, len(SORTS), np.int8)
    sort = np.concatenate((events.sort, events.sort, inside_sort, inside_sort))
    order = np.argsort(at, kind="stable")
    at, step, sort = at[order], step[order], sort[order]
    mask = np.zeros(len(at), np.int64)
    for number in range(len(SORTS) + 1):
        running = np.cumsum(np.where(sort == number, step, 0), dtype=np.int32)
        mask |= (running > 0).astype(np.int64) << number
    found = np.zeros(2 * _INSIDE, np.int64)
    np.add.at(found, mask[:-1], np.diff(at))
    return found[_INSIDE:]


def read(times: Times, measures: tuple[str, ...]) -> dict[str, int]:
    """Add up what counts to each measure."""
    return {m: int(times[MEASURES[m]].sum()) for m in measures}


def reclassed(old: Events, new: Events, names: pl.Series) -> str:
    """Say how many events get another sort by their names, with the longest such event's name."""
    other = np.flatnonzero(old.sort != new.sort)
    if not len(other):
        return "classes go by name"
    longest = other[np.argmax((old.end - old.start)[other])]
    told = str(names[int(longest)])[:EXAMPLE_LENGTH]
    return (
        f"classes go by name, which changes {len(other)} of {len(old.sort)} activities "
        f"({told}: {SORTS[new.sort[longest]]}, not {SORTS[old.sort[longest]]})"
    )


def by_name(names: pl.Series, rules: dict[int, str], default: int) -> NDArray[np.int8]:
    """Sort names by the first expression that one of them contains; distinct names only once."""
    distinct = names.unique().cast(pl.String)
    sort = pl.Series(np.full(len(distinct), default), dtype=pl.Int8)
    for number, expression in reversed(rules.items()):
        hit = distinct.str.contains(expression)
        sort = pl.select(pl.when(hit).then(pl.lit(number, pl.Int8)).otherwise(sort))["literal"]
    found = names.cast(pl.String).replace_strict(distinct, sort, return_dtype=pl.Int8)
    return found.to_numpy()
