"""The script's own `torch.profiler`: its steps are the recording's, its first trace is kept.

torch runs one profiler at a time, so none of ours is started. The script's handler is called as
ever; what it exports is a copy of the trace that is kept, since torch writes a trace once.
"""

from __future__ import annotations

import functools
import gzip
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .recorder import NS_PER_S, TOLERANCE, WINDOW, Step, spread
from .tracing import RecordingError, TorchTracer, export

if TYPE_CHECKING:
    from collections.abc import Callable

    from .clock import Clock
    from .events import Events
    from .stepping import Leaving, StepWatch

_PHASES = {"NONE": "untraced", "RECORD": "traced", "RECORD_AND_SAVE": "traced"}
_SWITCHES = {"shapes": "record_shapes", "memory": "profile_memory", "stacks": "with_stack"}
_KEPT = (
    "recorded by the script's own profiler: its schedule and its switches count, not those of the "
    "command, and neither an allocator's history nor an execution trace is written beside it"
)
NEVER_STEPPED = (
    "The script's own profiler ended without a call of its step(), so its trace has no training "
    "steps; call step() at the end of each iteration, or take the profiler out, and Workbench "
    "records with its own."
)


class OwnProfiler:
    """Follows the first profiler that the script starts, through hooks in torch's class."""

    def __init__(
        self, watch: StepWatch, *, clock: Clock, events: Events, leaving: Leaving, target: Path
    ) -> None:
        self.watch, self.clock, self.events = watch, clock, events
        self.leaving, self.target = leaving, target
        self.wanted = watch.recorder.lengths.untraced
        self.profile: Any = None
        self.claimed = self.exported = False
        self.ended = self.waiting = 0
        """Steps that have ended, and those after the trace that no profiler ran in."""
        self._failing = False
        self._handler: Callable[[Any], None] | None = None
        self._current: tuple[Step, Any] | None = None
        self._pending: list[tuple[Step, Any, Any]] = []

    def install(self, profile_class: Any) -> None:
        """Put a hook around each method that matters."""
        _hook(profile_class, "__init__", self._made)
        _hook(profile_class, "start", self._started)
        _hook(profile_class, "step", self._stepped)
        _hook(profile_class, "stop", self._stopped)
        _hook(profile_class, "export_chrome_trace", self._asked)

    def finish(self) -> None:
        """Send what is left, when the script has ended; RecordingError without a trace."""
        self._settle()
        if self.exported:
            return
        if self.ended == 0:
            raise RecordingError(NEVER_STEPPED)
        raise RecordingError(
            f"The script ended after {self.ended} steps of its own profiler, before the first "
            "cycle of its schedule was over; train longer, or shorten the schedule."
        )

    # ---- hooks ------------------------------------------------------------------------------

    def _made(self, original: Callable[..., None], profile: Any, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if self._is_ours(profile) or self.claimed:
            return
        if self.watch.recorder.tracer.running:
            raise RecordingError(
                f"The script makes a profiler of its own after {self.watch.seen} steps, when "
                "Workbench's is running; make it before the first step, or take it out."
            )
        self.claimed = self.watch.is_off = True
        flag(self.target.parent).touch()

    def _started(self, original: Callable[[], None], profile: Any) -> None:
        if self._is_ours(profile) or self.profile not in (None, profile):
            original()
            return
        self.profile = profile
        if profile.on_trace_ready != self._ready:
            self._handler, profile.on_trace_ready = profile.on_trace_ready, self._ready
            self._tell(profile)
        profile.record_steps = True  # without a schedule torch leaves the steps out of the trace
        original()
        self._begin()

    def _stepped(self, original: Callable[[], None], profile: Any) -> None:
        if profile is not self.profile:
            original()
            return
        self._end()
        original()
        self._begin()
        if self._has_enough():
            self._settle()
            self.leaving.leave()

    def _stopped(self, original: Callable[[], None], profile: Any) -> None:
        if profile is not self.profile:
            original()
            return
        # What a `with` block writes while an error passes through it is no whole recording.
        self._failing = sys.exc_info()[0] is not None
        original()
        self._current = None
        if self.exported and not self._failing:
            self._settle()
            self.leaving.leave()

    def _asked(
        self, original: Callable[..., None], profile: Any, path: str, *args: Any, **kwargs: Any
    ) -> None:
        if profile is self.profile and self.exported:
            _copy(self.target, Path(path))
        else:
            original(path, *args, **kwargs)

    def _ready(self, profile: Any) -> None:
        if self.leaving.left:
            return
        if not self.exported and not self._failing:
            self._keep(profile)
        if self._handler is not None:
            self._handler(profile)

    # ---- steps ------------------------------------------------------------------------------

    def _is_ours(self, profile: Any) -> bool:
        return isinstance(getattr(profile.on_trace_ready, "__self__", None), TorchTracer)

    def _tell(self, profile: Any) -> None:
        switches = {name: getattr(profile, given, None) for name, given in _SWITCHES.items()}
        facts = {"profiler": {"owner": "script"} | switches, "notes": [{"message": _KEPT}]}
        self.events.send("setup", message="the script profiles itself: its trace is kept")
        self.events.send("setup", facts=facts)

    def _begin(self) -> None:
        phase = _PHASES.get(self.profile.current_action.name, "prepare")
        number = self.profile.step_num if phase == "traced" else None
        index = self.watch.recorder.steps + self.ended
        step = Step(index, phase, number, time.time_ns())
        self._current = (step, self.clock.mark())

    def _end(self) -> None:
        assert self._current is not None
        step, start = self._current
        end = self.clock.mark()
        self._pending.append((step, start, end))
        self.ended += 1
        self.waiting += self.exported and step.phase == "untraced"
        seconds = self.clock.dur_ns(start, end) / NS_PER_S if self.clock.live else None
        self.events.send(step.phase, step=self.ended, seconds=seconds)

    def _has_enough(self) -> bool:
        """Say whether the trace is kept, and enough was timed without it or it goes on again."""
        assert self._current is not None
        is_next_cycle = self._current[0].phase != "untraced"
        return self.exported and (is_next_cycle or self.waiting >= self.wanted)

    def _keep(self, profile: Any) -> None:
        if self.ended == 0:
            raise RecordingError(NEVER_STEPPED)
        self.events.send("export", message="writing the trace")
        export(profile, self.target)
        self.exported = True
        self._settle(is_first=True)

    def _settle(self, *, is_first: bool = False) -> None:
        """Turn marks into times and send them; of those before the trace, some are warm-up."""
        steps = [step for step, _, _ in self._pending]
        for step, start, end in self._pending:
            step.dur_ns = self.clock.dur_ns(start, end)
        self._pending.clear()
        if is_first:
            self._send_warm_up([step for step in steps if step.phase == "untraced"])
        if steps:
            self.events.send("export", facts={"steps": [asdict(step) for step in steps]})

    def _send_warm_up(self, waited: list[Step]) -> None:
        times = [step.dur_ns for step in waited if step.dur_ns is not None]
        cold = cold_steps(times)
        for step in waited[:cold]:
            step.phase = "warmup"
        width = spread(times[:cold])
        facts = {
            "limit": None,
            "steps": cold,
            "detected": True,
            "stable": width is not None and width <= TOLERANCE,
            "spread": width,
            "tolerance": TOLERANCE,
        }
        self.events.send("export", facts={"warmup": facts})


def cold_steps(times: list[int]) -> int:
    """Return how many of the first steps are warm-up: up to the third of three that are even."""
    for count in range(WINDOW, len(times) + 1):
        width = spread(times[:count])
        if width is not None and width <= TOLERANCE:
            return count
    return len(times)


def flag(folder: Path) -> Path:
    """Return the file that says to other ranks that one has a profiler of its own."""
    return folder / ".own-profiler"


def _hook(profile_class: Any, name: str, hook: Callable[..., None]) -> None:
    original = getattr(profile_class, name)

    @functools.wraps(original)
    def method(profile: Any, *args: Any, **kwargs: Any) -> None:
        hook(functools.partial(original, profile), profile, *args, **kwargs)

    setattr(profile_class, name, method)


def _copy(packed: Path, target: Path) -> None:
    if target.suffix == ".gz":
        shutil.copyfile(packed, target)
        return
    with gzip.open(packed, "rb") as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)
