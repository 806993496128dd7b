"""What the explorer shows of one source under one choice: frames, a headline, and notes.

Pure functions of what was opened, without a widget: a panel maps its controls to a `Choice` and
shows what an `Answers` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import units
from workbench.analysis import needs
from workbench.analysis.names import ANALYSES
from workbench.analysis.steps import typical_ns
from workbench.analysis.summary import meta
from workbench.analysis.window import Range
from workbench.noting.book import Book
from workbench.noting.merge import live
from workbench.panels.questions import QUESTIONS, REGROUPED
from workbench.trace.core import Job, Source, Trace

if TYPE_CHECKING:
    from workbench.costs.ceilings import Ceilings

PARTS = (
    ("compute", "compute", "compute kernels run"),
    ("exposed_communication", "communication", "communication runs and nothing computes"),
    ("exposed_copy", "copy", "copies run and nothing else does"),
    ("idle", "idle", "nothing runs on the device"),
)
"""Parts of the window: column of `summary` without _ns, colour class, meaning."""


@dataclass(frozen=True)
class Choice:
    """What part of a source to look at."""

    rank: int | None = None
    """One rank; None is all of them."""
    window: str = "steps"
    step: tuple[int, int] | None = None
    within: Range | None = None
    """A stretch of the chosen ranks' time; it stands in place of window and step."""
    by: str = "operator"
    """How the roofline groups its points."""
    convention: str = "default"
    """How the roofline counts FLOPs."""


@dataclass(frozen=True)
class Fact:
    """One figure of the headline."""

    label: str
    value: str
    detail: str = ""
    hint: str = ""
    meaning: str = ""
    """Its class of `views.theme`, when it has a colour."""


def narrow(source: Trace | Job, rank: int | None) -> Trace | Job:
    """Return the part of a job that is one rank's."""
    if rank is None or isinstance(source, Trace):
        return source
    return Job(tuple(t for t in source.ranks if t.meta.rank == rank))


class Answers(Mapping[str, pl.DataFrame]):
    """The frames of one source and choice by name, each computed when it is first asked for."""

    def __init__(
        self, source: Trace | Job, choice: Choice, ceilings: Ceilings | None = None
    ) -> None:
        self.source: Trace | Job = narrow(source, choice.rank)
        self.choice: Choice = choice
        self.ceilings: Ceilings | None = ceilings
        self._known: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._known:
            self._known[name] = QUESTIONS[name](self)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(QUESTIONS)

    def __len__(self) -> int:
        return len(QUESTIONS)

    def __contains__(self, name: object) -> bool:
        return name in QUESTIONS

    def __repr__(self) -> str:
        """Name the frames and nothing that changes between runs."""
        return f"Answers({', '.join(QUESTIONS)})"

    def regrouped(self, by: str, convention: str) -> Answers:
        """Return the same with other points of the roofline; all other frames stay known."""
        choice = replace(self.choice, by=by, convention=convention)
        other = Answers(self.source, choice, self.ceilings)
        other._known = {n: f for n, f in self._known.items() if n not in REGROUPED}
        return other

    def renoted(self) -> Answers:
        """Return the same with the notes as they are now; all other frames stay known."""
        other = Answers(self.source, self.choice, self.ceilings)
        other._known = {n: f for n, f in self._known.items() if n != "notes"}
        return other

    @cached_property
    def book(self) -> Book:
        """The notes kept with the source."""
        return Book(self.source)

    @property
    def noted(self) -> int:
        """How many notes there are."""
        return sum(1 for _ in live(self.book.notes))

    @cached_property
    def narrowed(self) -> dict[str, Any]:
        """Arguments that the analyses take from the choice."""
        if self.choice.within is not None:
            return {"window": "all", "within": self.choice.within}
        return self.unranged

    @property
    def unranged(self) -> dict[str, Any]:
        """The same for analyses that cannot look at a range of time."""
        step = self.choice.step if self.choice.window != "all" else None
        return {"window": self.choice.window, "step": step}

    @property
    def headline(self) -> str:
        """The figures of `facts` as one line of text."""
        return "; ".join(
            f"{f.label} {f.value}" + (f" ({f.detail})" if f.detail else "") for f in self.facts
        )

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Window, busy time, its parts, step time, device: shares are ratios of sums."""
        frame = self["summary"]
        known = frame.filter(pl.col("window_ns") > 0)
        device = Fact("device", *_device(self.source))
        if known.is_empty():
            return (Fact("window", "empty", "no device time in it"), device)
        return (
            Fact("window", *self._window(known)),
            Fact("busy", *_share(known, "busy_ns"), "anything runs on the device"),
            *(
                Fact(name.replace("_", " "), *_share(known, f"{name}_ns"), hint, meaning)
                for name, meaning, hint in PARTS
            ),
            *self._step(),
            device,
        )

    def _window(self, known: pl.DataFrame) -> tuple[str, str, str]:
        mean = int(known["window_ns"].sum()) / known.height
        made_of = self._made_of(known)
        if known.height > 1:
            made_of += f", mean of {known.height}"
        return (
            units.duration(mean),
            made_of,
            "the time that the shares are of; of several devices, each has its own",
        )

    def _made_of(self, known: pl.DataFrame) -> str:
        if self.choice.within is not None:
            return "the selected range"
        used = meta(self.source, **self.narrowed)["window"]
        if used == "all":
            return "the whole trace"
        count = int(known["steps"].max() or 0)  # type: ignore[arg-type]
        what = "step" if used == "steps" else "host step"
        return f"{count} {what}{'' if count == 1 else 's'}"

    def _step(self) -> tuple[Fact, ...]:
        typical = typical_ns(self.source)
        hint = "median of the complete steps, without the last one's tail"
        return () if typical is None else (Fact("step", units.duration(typical), "median", hint),)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to trust the numbers, a sentence each."""
        about = meta(self.source, **self.narrowed)
        said = []
        if about["producer"].get("generated"):  # type: ignore[attr-defined]
            said.append("Generated by this project, not recorded on a device.")
        if about["reason"]:
            said.append(_sentence(str(about["reason"])))
        if about["truncated"]:
            said.append("The file is cut off; what is left of it was read.")
        said.extend(
            _sentence(f"{code} ({count:,}): {effect}")
            for code, count, effect in self.source.problems.select(
                "code", "count", "effect"
            ).iter_rows()
        )
        return tuple(dict.fromkeys(said))

    def lacking(self, name: str) -> tuple[str, ...]:
        """Say what a frame needs that no rank has recorded, and how to record it."""
        wanted = needs.of(ANALYSES[name]) if name in ANALYSES else ()
        return tuple(_sentence(s) for s in needs.unmet(self.source, wanted))

    @property
    def coverage(self) -> str:
        """What the roofline speaks for, in one sentence."""
        frame = self["coverage"]
        if frame.is_empty() or not frame["device_ns"].sum():
            return "No device time in this window."
        linked, device, modelled, shaped = (
            int(frame[c].sum()) for c in ("linked_ns", "device_ns", "modelled_ns", "shaped_ns")
        )
        return (
            f"{units.share(linked, device)} of device time is linked to an operator; "
            f"{units.share(modelled, shaped)} of what has recorded shapes has a FLOP and byte "
            "model. Activities count whole, by when they start. A click on a point shows the "
            "longest of its activities on the timeline."
        )

    @property
    def faults(self) -> int:
        """How many kinds of faults reading met, on each rank."""
        return self.source.problems.height


def _share(known: pl.DataFrame, column: str) -> tuple[str, str]:
    """Return the ratio of sums, and its time, or the smallest and largest share of several."""
    whole = int(known["window_ns"].sum())
    text = units.share(int(known[column].sum()), whole)
    if known.height == 1:
        return text, units.duration(known[column][0])
    shares = known[column] / known["window_ns"]
    low, high = (units.share(float(v), 1) for v in (shares.min(), shares.max()))  # type: ignore[arg-type]
    return text, f"{low.removesuffix(' %')} to {high}"


def _device(source: Source) -> tuple[str, str, str]:
    traces = source.ranks
    kinds = sorted({t.meta.device_kind for t in traces})
    names = sorted({d.name for t in traces for d in t.meta.devices if d.name})
    ranks = f"{len(traces)} rank{'' if len(traces) == 1 else 's'}"
    label = "CPU" if kinds == ["cpu"] else ", ".join(names) or ", ".join(kinds)
    return label, f"host execution, {ranks}" if kinds == ["cpu"] else ranks, ", ".join(kinds)


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
