"""What stands in each tab of the explorer: sentences, pictures and tables, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.analysis import compare
from workbench.costs import cost
from workbench.panels.headline import efficiency
from workbench.panels.parts import (
    Boxes,
    Dials,
    Picture,
    Rows,
    Words,
    has,
    of_first_rank,
    several_ranks,
)
from workbench.views import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.panels.answers import Answers
    from workbench.panels.parts import Part


def _communicates(answers: Answers) -> bool:
    return bool(answers["overlap"]["communication_ns"].sum())


def _roofline(answers: Answers) -> str:
    counted = cost.convention(answers.choice.convention).says
    return f"{answers.coverage} FLOPs: {counted}."


def _compares(answers: Answers) -> bool:
    return answers.before is not None


def _verdict(answers: Answers) -> str:
    if answers.before is None:
        return "Choose a run to compare with, above: it stands for what was before."
    said = "; ".join(compare.verdict(answers["compare"]))
    return f"{said[:1].upper()}{said[1:]}. Means of the complete steps but the last."


def _change(kind: str, said: str) -> Rows:
    return Rows(frame=f"compare_{kind}", columns=columns.COMPARED, said=said, when=_compares)


TABS: Mapping[str, tuple[Part | Dials, ...]] = {
    "Overview": (
        Boxes(frame="mfu", frames=("coverage", "energy", "trust"), made=efficiency),
        Rows(
            frame="leads",
            columns=columns.LEADS,
            said="What to look at first: all of the mean step but compute, and compute above its "
            "roof. A click shows the longest on the timeline.",
            nothing="No complete step is marked, so there is no step to take apart.",
        ),
        Picture(
            frame="waterfall_mean",
            name="waterfall",
            view="waterfall.bars",
            height=260,
            said="The mean complete step, part by part: each bar begins where the one above it "
            "ends, idle time last, by cause. Of a selected range it is what the range holds of "
            "each step.",
            nothing="No part of a complete step lies in what is selected.",
        ),
    ),
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
            frame="steps",
            name="steps",
            view="breakdown.by_step",
            height=260,
            said="All steps of the recording; a click on a row shows one on the timeline, and "
            "narrows the other tabs to it.",
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
            nothing="No idle time lies in this window.",
        ),
        Picture(
            frame="idle",
            name="gaps",
            view="gaps.histogram",
            height=300,
            said="Idle time by the length of the gaps that make it up: few long ones call for "
            "another cure than many short ones.",
            nothing="No idle time lies in this window.",
        ),
        Rows(
            frame="idle",
            columns=columns.GAPS,
            said="The gaps, longest first; a click shows one on the timeline, with what ended it, "
            "and narrows the other tabs to its time.",
            nothing="No idle time lies in this window.",
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
            said="Which rank differs in which step, of the whole recording.",
            when=lambda answers: several_ranks(answers) and _communicates(answers),
        ),
        Rows(
            frame="exposed",
            columns=columns.EXPOSED,
            said="Stretches of exposed communication, longest first; a click shows one on the "
            "timeline, and narrows the other tabs to its time.",
            nothing="No communication is exposed in this window.",
            when=_communicates,
        ),
        Rows(
            frame="collectives",
            columns=columns.COLLECTIVES,
            said="Each collective; a click shows one on the timeline, and what ran meanwhile.",
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
    "Efficiency": (
        Rows(
            frame="mfu",
            columns=columns.MFU,
            said="FLOPs of the model in a step / (step time x dense peak of the precision that "
            "ran x devices), of complete steps but the last. Below 100 % coverage a lower bound.",
        ),
        Rows(
            frame="energy",
            columns=columns.ENERGY,
            said="Energy of a step from sampled power, divided among families of work by their "
            "share of device time.",
        ),
    ),
    "Counters": (
        Picture(
            frame="counter_roofline",
            name="counters",
            view="counters.plot",
            height=520,
            said="Counted work of each kernel by memory level, against the roof of each level.",
        ),
        Rows(
            frame="counters",
            columns=columns.COUNTERS,
            said="Hardware counters of each kernel beside what its operator had to do.",
        ),
    ),
    "Comparison": (
        Words(frame="compare", said=_verdict),
        Picture(
            frame="compare_part",
            name="change",
            view="change.bars",
            height=230,
            said="From the step before to the step after, part by part.",
            when=_compares,
        ),
        Rows(frame="compare_part", columns=columns.COMPARED, when=_compares),
        _change(
            "family",
            "Device time of a mean step by family of work: every instant belongs "
            "to one row, so the changes add up to that of the step.",
        ),
        _change("kernel", "The same by kernel; a click narrows the other tabs to it."),
        _change("operator", "The same by the operator that launched it."),
        _change("host", "Time on the host, which may overlap."),
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
_NEEDED: Mapping[str, Callable[[Answers], bool]] = {
    "Counters": lambda answers: any(t.kernel_counters.height for t in answers.source.ranks),
}
"""Tabs that are there only where the recording has something for them."""


def there(title: str, answers: Answers) -> bool:
    """Say whether a tab is shown."""
    return title not in _NEEDED or _NEEDED[title](answers)


COUNTED: Mapping[str, Callable[[Answers], int]] = {
    "Problems": lambda answers: answers.faults,
    "Notes": lambda answers: answers.noted,
}
"""Tabs whose title counts what is in them."""


def titles(answers: Answers) -> dict[str, str]:
    """Return the tabs that are shown, each with a count where there is something to look at."""
    counts = {title: COUNTED[title](answers) if title in COUNTED else 0 for title in TABS}
    return {t: f"{t} ({n})" if n else t for t, n in counts.items() if there(t, answers)}
