"""Events to bare tables, piece by piece; times still absolute as recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl

from workbench.intervals import Times
from workbench.trace import raw
from workbench.trace.core import Thread
from workbench.trace.families import STEP, range_domain
from workbench.trace.kineto import columns as col
from workbench.trace.kineto import groups, pairs
from workbench.trace.kineto.arguments import Args
from workbench.trace.kineto.categories import CATEGORIES, MTIA_HARDWARE, WAITS
from workbench.trace.kineto.counters import PROFILER_RANGE, Counters
from workbench.trace.kineto.events import Event, exact_ns, starts_and_durations
from workbench.trace.kineto.pieces import Piece
from workbench.trace.problems import Problem

MODULE = "nn.Module: "
"""How the profiler begins the name of a module's frame."""
HOST_MEMORY = 0
"""c10::DeviceType of the host in [memory] events; CUDA is 1, HIP 6, XPU 12, an NPU 20."""
_IGNORED_PHASES = frozenset({"s", "f", "t", "i", "I", "M", "C", "B", "E"})
"""Flows, instants and what is read elsewhere."""
NO_ARGS = Args()
Events = Sequence[Event[Args]]


class Builder:
    """Takes pieces of events in file order, then hands over the tables."""

    def __init__(self) -> None:
        self.names, self.texts, self.threads = col.Codes(), col.Codes(), col.Codes()
        self.pids = col.Codes()
        self.parts: dict[str, list[pl.DataFrame]] = defaultdict(list)
        self.categories: Counter[str | None] = Counter()
        """Complete events by category."""
        self.unread: Counter[str] = Counter()
        """Phases that are not read."""
        self.misfits: Counter[str] = Counter()
        """Values in args that are no numbers where numbers belong."""
        self.metadata: list[Event[Args]] = []
        self.counters = Counters()
        self.events = 0
        self._open: list[tuple[Event[Args], int, bool]] = []

    def add(self, piece: Piece[Args]) -> None:
        """Take one piece.

        Raises
        ------
        InexactTimesError
            Its times are doubles that lost digits; nothing of the piece has been taken.
        """
        complete: dict[str | None, list[Event[Args]]] = defaultdict(list)
        others: dict[str, list[Event[Args]]] = defaultdict(list)
        for e in piece.events:
            if e.ph == "X":
                complete[e.cat].append(e)
            else:
                others[e.ph].append(e)
        timed = [(c, events, *starts_and_durations(events)) for c, events in complete.items()]
        memory = [e for e in others.get("i", ()) if e.name == "[memory]"]
        memory_at = exact_ns(memory, "ts")
        edges = (
            [e for e in piece.events if e.ph in {"B", "E"}] if others.keys() & {"B", "E"} else []
        )
        edges_at = exact_ns(edges, "ts")
        # from here on nothing raises
        self.events += len(piece.events)
        self.metadata += others.get("M", ())
        self._open += zip(edges, edges_at.tolist(), (e.ph == "B" for e in edges), strict=True)
        for phase, items in others.items():
            if phase not in _IGNORED_PHASES and any(e.name is not None for e in items):
                self.unread[phase] += len(items)
        for category, events, start, duration in timed:
            self._complete(category, events, start, duration)
        if memory:
            self.parts["memory"].append(self._memory(memory, memory_at))
        if "C" in others or PROFILER_RANGE in complete:
            self.counters.add(piece.text)

    def _complete(
        self, category: str | None, events: list[Event[Args]], start: Times, duration: Times
    ) -> None:
        """Take complete events of one category."""
        self.categories[category] += len(events)
        build: Callable[[Events, Times, Times, str | None], None] = getattr(
            self, f"_{CATEGORIES.get(category, 'other')}"
        )
        build(events, start, duration, category)

    def close(self) -> list[Problem]:
        """Turn begin and end events into complete ones; say what has no partner."""
        if not self._open:
            return []
        events = [e for e, _, _ in self._open]
        at = np.array([t for _, t, _ in self._open], np.int64)
        is_begin = np.array([b for _, _, b in self._open], np.bool_)
        thread = self._threads(events)
        found = pairs.match(thread.to_numpy(), at, is_begin)
        duration = at[found.end] - at[found.begin]
        for category in dict.fromkeys(events[i].cat for i in found.begin):
            mine = np.array([events[i].cat == category for i in found.begin], np.bool_)
            begun = [events[i] for i in found.begin[mine]]
            self._complete(category, begun, at[found.begin[mine]], duration[mine])
        unfinished = [events[i].name or "" for i in found.unfinished]
        strays = [str(events[i].tid) for i in found.stray]
        self._open.clear()
        return [
            Problem(code=code, count=len(items), first_example=items[0], effect=effect)
            for code, items, effect in (
                ("unfinished_event", unfinished, "begun and never ended, so in no total"),
                ("stray_end", strays, "an end on this thread without a begin, so left out"),
            )
            if items
        ]

    def table(self, name: str, wanted: dict[str, pl.DataType]) -> pl.DataFrame:
        """Return one table whole, with the columns that no event had as null."""
        parts = self.parts.pop(name, [])
        if not parts:
            return raw.empty(wanted)
        frame = pl.concat(parts, how="diagonal") if len(parts) > 1 else parts[0]
        names, texts = self.names.texts(), self.texts.texts()
        coded = {"name": names} | dict.fromkeys(raw.JSON_TEXTS, texts)
        return frame.select(
            pl.lit(None, dtype).alias(n)
            if n not in frame.columns
            else coded[n].gather(frame[n]).alias(n)
            if n in coded
            else pl.col(n).cast(dtype, strict=False)
            for n, dtype in wanted.items()
        )

    def thread_list(self, names: dict[tuple[object, object], str]) -> tuple[Thread, ...]:
        """Return the threads in the order of their indices."""
        return tuple(
            Thread(pid=groups.plain(pid), tid=groups.plain(tid), name=names.get((pid, tid)))
            for pid, tid in self.threads
        )

    # -- one category each -------------------------------------------------------------------

    def _kernel(self, events: Events, start: Times, duration: Times, _: object) -> None:
        self._activities("kernel", events, start, duration)

    def _copy(self, events: Events, start: Times, duration: Times, _: object) -> None:
        self._activities("copy", events, start, duration)

    def _set(self, events: Events, start: Times, duration: Times, _: object) -> None:
        self._activities("set", events, start, duration)

    def _activities(self, kind: str, events: Events, start: Times, duration: Times) -> None:
        args = [e.args or NO_ARGS for e in events]
        device = [
            a.device if a.device is not None else e.pid for a, e in zip(args, events, strict=True)
        ]
        stream = [
            a.stream if a.stream is not None else e.tid for a, e in zip(args, events, strict=True)
        ]
        self.parts["activities"].append(
            self._frame(
                events,
                start,
                duration,
                kind=pl.repeat(kind, len(events), dtype=pl.String, eager=True),
                device=self._number("device", col.indices, device),
                stream=self._number("stream", col.indices, stream),
                correlation=self._number("correlation", col.ids, [a.correlation for a in args]),
                external_id=self._external(args),
                **groups.shape(args),
                bytes=col.indices([a.bytes for a in args]),
                **groups.communication(args),
            )
        )

    def _launches(self, events: Events, start: Times, duration: Times, _: object) -> None:
        args = [e.args or NO_ARGS for e in events]
        self.parts["launches"].append(
            self._frame(
                events,
                start,
                duration,
                thread=self._threads(events),
                correlation=self._number("correlation", col.ids, [a.correlation for a in args]),
                external_id=self._external(args),
            )
        )

    def _ops(self, events: Events, start: Times, duration: Times, category: str | None) -> None:
        steps = {n for n in {e.name for e in events} if n and STEP.fullmatch(n)}
        if steps:  # old recordings mark steps among the operators
            mark = np.array([e.name in steps for e in events])
            marks = [e for e, m in zip(events, mark, strict=True) if m]
            self._ranges(marks, start[mark], duration[mark], category)
            events = [e for e, m in zip(events, mark, strict=True) if not m]
            start, duration = start[~mark], duration[~mark]
        args = [e.args or NO_ARGS for e in events]
        self.parts["ops"].append(
            self._frame(
                events,
                start,
                duration,
                thread=self._threads(events),
                sequence=col.indices([a.sequence for a in args]),
                external_id=self._external(args),
                forward_thread=col.ids([a.forward_thread for a in args]),
                **self._inputs(args),
                **self._json("strides", "input_strides", args),
                **self._json("concrete", "concrete_inputs", args),
                **groups.kernel_source(args),
                **groups.communication(args),
            )
        )

    def _ranges(self, events: Events, start: Times, duration: Times, _: object) -> None:
        args = [e.args or NO_ARGS for e in events]
        domains = {n: range_domain(n or "") for n in {e.name for e in events}}
        self.parts["ranges"].append(
            self._frame(
                events,
                start,
                duration,
                domain=pl.Series([domains[e.name] for e in events], dtype=pl.String),
                thread=self._threads(events),
                **self._inputs(args),
            )
        )

    def _device_ranges(
        self, events: Events, start: Times, duration: Times, category: str | None
    ) -> None:
        domain = "device" if category == "gpu_user_annotation" else str(category)
        args = [e.args or NO_ARGS for e in events]
        stream = [
            a.stream if a.stream is not None else e.tid for a, e in zip(args, events, strict=True)
        ]
        self.parts["ranges"].append(
            self._frame(
                events,
                start,
                duration,
                domain=pl.repeat(domain, len(events), dtype=pl.String, eager=True),
                device=col.indices([e.pid for e in events]),
                stream=col.indices(stream),
                **(groups.waits(args) if category == WAITS else {}),
            )
        )

    def _mtia(self, events: Events, start: Times, duration: Times, category: str | None) -> None:
        kinds = np.array([MTIA_HARDWARE.get(e.name, "kernel") for e in events])
        for kind in np.unique(kinds).tolist():
            at = np.flatnonzero(kinds == kind)
            chosen = [events[i] for i in at.tolist()]
            if kind == "wait":
                self._device_ranges(chosen, start[at], duration[at], category)
                continue
            for e in chosen:
                if e.args is not None:
                    e.args.bytes = e.args.dma_size
            self._activities(kind, chosen, start[at], duration[at])

    def _frames(self, events: Events, start: Times, duration: Times, _: object) -> None:
        """Keep the calls of modules, and when frames begin and end; the rest has its own pass."""
        for thread in dict.fromkeys((e.pid, e.tid) for e in events):
            _ = self.threads[thread]
        self.parts["frame_times"].append(groups.bounds(start, duration))
        at = [i for i, e in enumerate(events) if e.name and e.name.startswith(MODULE)]
        if at:
            chosen = [events[i] for i in at]
            part = self._frame(chosen, start[at], duration[at], thread=self._threads(chosen))
            self.parts["modules"].append(part)

    def _span(self, _: Events, start: Times, duration: Times, __: object) -> None:
        self.parts["spans"].append(pl.DataFrame({"start_ns": start, "dur_ns": duration}))

    def _other(self, events: Events, start: Times, duration: Times, category: str | None) -> None:
        """Keep what has no category that we know, until process names tell what it is."""
        args = [e.args or NO_ARGS for e in events]
        self.parts["other"].append(
            self._frame(
                events,
                start,
                duration,
                domain=pl.repeat(category, len(events), dtype=pl.String, eager=True),
                thread=self._threads(events),
                pid=self.pids.column(e.pid for e in events),
                tid=col.ints([e.tid for e in events]),
                correlation=col.ids([a.connection for a in args]),
                task_type=col.words([a.task_type for a in args]),
                comm_in=col.indices([a.count for a in args]),
                comm_dtype=col.words([a.data_type for a in args]),
            )
        )

    def _memory(self, events: Events, at: Times) -> pl.DataFrame:
        """Build allocations and frees; those without a size are left out."""
        args = [e.args or NO_ARGS for e in events]
        on_device = [
            a.device_id if isinstance(a.device_type, int) and a.device_type != HOST_MEMORY else None
            for a in args
        ]
        frame = pl.DataFrame(
            {
                "t_ns": at,
                "device": col.indices(on_device),
                "address": pl.Series([groups.address(a.address) for a in args], dtype=pl.UInt64),
                "bytes": col.ints([a.size for a in args]),
                "total_allocated": col.indices([a.allocated for a in args]),
                "total_reserved": col.indices([a.reserved for a in args]),
                "thread": self._threads(events),
            }
        )
        return frame.filter(pl.col("bytes").is_not_null())

    # -- columns -----------------------------------------------------------------------------

    def _frame(self, events: Events, start: Times, duration: Times, **more: Any) -> pl.DataFrame:
        names = self.names.column(e.name or "" for e in events)
        return pl.DataFrame({"name": names, "start_ns": start, "dur_ns": duration, **more})

    def _threads(self, events: Events) -> pl.Series:
        codes = self.threads
        numbers = [codes[e.pid, e.tid] for e in events]
        return pl.Series(numbers, dtype=pl.Int32)

    def _external(self, args: Sequence[Args]) -> pl.Series:
        return col.ids([a.external if a.external is not None else a.external_old for a in args])

    def _inputs(self, args: Sequence[Args]) -> dict[str, pl.Series]:
        dims = "dims" if groups.any_text(args, "dims") else "dims_old"
        return {
            **self._json(dims, "input_dims", args),
            **self._json("types", "input_types", args),
        }

    def _json(self, field: str, column: str, args: Sequence[Args]) -> dict[str, pl.Series]:
        """Make a column of JSON texts, unless nobody recorded any."""
        if not groups.any_text(args, field):
            return {}
        return {column: self.texts.column(map(bytes, map(attrgetter(field), args)))}

    def _number(
        self, field: str, make: Callable[[Sequence[Any]], pl.Series], values: list[Any]
    ) -> pl.Series:
        """Make a column of numbers, and count the values that are none."""
        column = make(values)
        if column.null_count() > values.count(None):
            text = sum(1 for v in values if v is not None and col.as_int(v) is None)
            if text:
                self.misfits[field] += text
        return column
