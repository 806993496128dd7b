"""What stands in each tab of the explorer: sentences, pictures and tables, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.costs import cost
from workbench.panels.parts import (
    Dials,
    Picture,
    Rows,
    has,
    narrowed,
    of_first_rank,
    several_ranks,
)
from workbench.views import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from workbench.panels.answers import Answers
    from workbench.panels.parts import Part


def _communicates(answers: Answers) -> bool:
    return bool(answers["overlap"]["communication_ns"].sum())


def _roofline(answers: Answers) -> str:
    counted = cost.convention(answers.choice.convention).says
    return f"{answers.coverage} FLOPs: {counted}."


TABS: Mapping[str, tuple[Part | Dials, ...]] = {
    "Kernels": (
        Rows(
            frame="kernels",
            columns=columns.noted(columns.KERNELS),
            said="Device time by name. Durations are clipped to the window and summed, so kernels "
            "that run at the same time count each; count, mean and the rest are of those that "
            "start in it.",
        ),
    ),
    "Operators": (
        Rows(
            frame="ops",
            columns=columns.noted(columns.OPS),
            said="Device and host time by framework operator. Self device time is that of what "
            "the operator launched itself; only self times may be added up.",
        ),
    ),
    "Modules": (
        Picture(
            frame="modules",
            name="modules",
            view="icicle.modules",
            height=180,
            said=of_first_rank(
                "Device time by module: what a module contains hangs below it, as wide as its "
                "time. Forward, backward and recomputed time count to the module together."
            ),
            when=has("modules"),
        ),
        Rows(frame="modules", columns=columns.MODULES, when=has("modules")),
        Picture(
            frame="phases",
            name="phases",
            view="icicle.phases",
            height=86,
            said="By phase of the step: where the host was when it launched the work. Phases "
            "overlap, communication under backward above all.",
        ),
        Rows(frame="phases", columns=columns.PHASES),
    ),
    "Steps": (
        Picture(
            frame="waterfall_mean",
            name="waterfall",
            view="waterfall.bars",
            height=260,
            said=narrowed(
                "The mean complete step, part by part: each bar begins where the one above it "
                "ends, idle time last, by cause.",
                "It is of what the selected range holds of each step.",
            ),
            nothing="No part of a complete step lies in the selected range.",
        ),
        Picture(
            frame="steps",
            name="steps",
            view="breakdown.by_step",
            height=260,
            said="All steps of the recording, also while a range is selected; a click on a row "
            "shows one on the timeline.",
            nothing="No step is marked.",
        ),
        Rows(frame="steps", columns=columns.STEPS, nothing="No step is marked."),
    ),
    "Idle": (
        Rows(
            frame="idle_causes",
            columns=columns.CAUSES,
            said="What the device waited for while nothing ran on it. Causes of the host: it had "
            "not launched the next work yet, and was doing this.",
            nothing="The device is never idle in this window.",
        ),
        Picture(
            frame="idle",
            name="gaps",
            view="gaps.histogram",
            height=300,
            said="Idle time by the length of the gaps that make it up: few long ones call for "
            "another cure than many short ones.",
            nothing="The device is never idle in this window.",
        ),
        Rows(
            frame="idle",
            columns=columns.GAPS,
            said="The gaps, longest first; a click shows one on the timeline, and what ended it.",
            nothing="The device is never idle in this window.",
        ),
    ),
    "Launches": (
        Picture(
            frame="queue_depth",
            name="queue",
            view="queue.depth",
            height=260,
            said="Work that is launched and has not begun: at zero the host is too late, far "
            "above it the device is the limit.",
        ),
        Rows(
            frame="launches",
            columns=columns.LAUNCHES,
            said="Calls that launched what starts in this window: how long the host was in the "
            "call, how long the work then queued, how long it ran. Work that is shorter than "
            "its call can't keep the device busy.",
        ),
    ),
    "Overlap": (
        Picture(
            frame="overlap",
            name="overlap",
            view="overlap.bars",
            height=130,
            said="Communication that runs beside compute costs little; exposed, it makes the "
            "step longer.",
            when=_communicates,
        ),
        Rows(
            frame="groups",
            columns=columns.GROUPS,
            said="By process group: exposed time of two groups may be the same time, so only "
            "what is alone may be added up.",
            when=has("groups"),
        ),
        Picture(
            frame="collectives",
            name="collectives",
            view="collectives.scatter",
            height=300,
            options={"height": 300},
            said="Each collective by size and speed: points of one size belong at one height; "
            "lower ones waited for a rank or shared the link.",
            when=has("collectives"),
        ),
        Picture(
            frame="steps",
            name="ranks",
            view="ranks.heat",
            height=160,
            options={"column": "exposed_communication_ns"},
            said="Which rank differs in which step, of the whole recording, also while a range "
            "is selected.",
            when=lambda answers: several_ranks(answers) and _communicates(answers),
        ),
        Rows(
            frame="collectives",
            columns=columns.COLLECTIVES,
            nothing="No collective starts in this window.",
        ),
    ),
    "Memory": (
        Picture(
            frame="memory_timeline",
            name="memory",
            view="memory.plot",
            height=320,
            said=of_first_rank(
                "What is allocated over host time, in the host's ranges of the chosen steps, "
                "for the allocator runs ahead of the device; the ring marks the peak."
            ),
        ),
        Rows(
            frame="memory_peak",
            columns=columns.PEAK,
            said="What is allocated at the peak of each device, by who allocated it: several "
            "groupings of the same bytes.",
        ),
    ),
    "Roofline": (
        Dials(name="roofline"),
        Picture(
            frame="roofline",
            name="roofline",
            view="roofline.plot",
            height=480,
            options={"height": 480},
            said=_roofline,
        ),
        Rows(frame="roofline", columns=columns.ROOFLINE),
        Rows(
            frame="recoverable",
            columns=columns.RECOVERABLE,
            said="Device time above the roof, most first: a bound on what a better kernel could "
            "win, not a promise. Time beside other work does not shorten the step.",
        ),
    ),
    "Problems": (
        Rows(
            frame="problems",
            columns=columns.PROBLEMS,
            said="Faults met while reading the files, of the whole recording: each kind once a "
            "rank, with what it means for the figures.",
            nothing="Reading met no fault.",
        ),
        Rows(
            frame="trust",
            columns=columns.TRUST,
            said="What this recording can and cannot answer, and which of its figures to take "
            "with care.",
        ),
    ),
    "Notes": (
        Rows(
            frame="notes",
            columns=columns.NOTES,
            said="What people noted on this recording; a click shows it on the timeline, and here "
            "for changing.",
            nothing="No notes yet: select a range or an event and press e, or write one below.",
        ),
        Dials(name="notes"),
    ),
}
"""Tabs in their order, each with its parts from the top."""
COUNTED: Mapping[str, Callable[[Answers], int]] = {
    "Problems": lambda answers: answers.faults,
    "Notes": lambda answers: answers.noted,
}
"""Tabs whose title counts what is in them."""


def titles(answers: Answers) -> Iterator[str]:
    """Return the titles of the tabs, with a count where there is something to look at."""
    for title in TABS:
        count = COUNTED[title](answers) if title in COUNTED else 0
        yield f"{title} ({count})" if count else title
