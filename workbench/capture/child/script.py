"""Record the user's own script, unchanged: a step ends when its optimiser's `step` returns."""

from __future__ import annotations

import functools
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .job import make_recorder
from .tracing import RecordingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .events import Events
    from .recorder import Recorder


class _Recorded(SystemExit):
    """Unwinds the script once the trace is written, as `sys.exit(0)` in its place would."""


class StepWatch:
    """Turns the steps of one optimiser into the steps of a recorder.

    The first optimiser that steps defines the steps; others may step in between. The first
    step, which holds the script's own set-up, is not recorded.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.optimizer: Any = None
        self.depth = 0
        self.seen = 0
        self.left = False

    def install(self, optimizer_class: Any) -> None:
        """Wrap the wrapper that torch puts around each optimiser's step.

        A step hook of torch runs inside the range `Optimizer.step#…`, and the step's boundary
        would cut that range in two; here it falls behind it.
        """
        original = optimizer_class.profile_hook_step

        def hook(step: Callable[..., Any]) -> Callable[..., Any]:
            return self.around(original(step))

        optimizer_class.profile_hook_step = staticmethod(hook)

    def around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap one class's `step`; a `step` that calls its parent's counts once."""

        @functools.wraps(step)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.depth += 1
            try:
                result = step(*args, **kwargs)
            finally:
                self.depth -= 1
            if self.depth == 0:
                self._stepped(args[0])
            return result

        return wrapper

    def _stepped(self, optimizer: Any) -> None:
        if self.optimizer is None:
            self.optimizer = optimizer
        if optimizer is not self.optimizer:
            return
        self.seen += 1
        if self.seen == 1:
            self.recorder.begin()
        elif not self.recorder.finished:
            self.recorder.end_step()
        if self.recorder.finished:
            self._leave()

    def _leave(self) -> None:
        if self.left:
            # The script caught the first SystemExit and trains on; the trace is whole.
            self.recorder.events.send("done")
            os._exit(0)
        self.left = True
        raise _Recorded(0)


def run_script(job: dict[str, Any], *, torch: Any, device: Any, events: Events) -> None:
    """Run the script as `__main__` until the trace is written."""
    recorder = make_recorder(job, torch=torch, device=device, events=events)
    watch = StepWatch(recorder)
    watch.install(torch.optim.Optimizer)
    events.send("setup", message="running the script")
    script = Path(job["script"])
    sys.argv = [str(script), *job["arguments"]]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except _Recorded:
        return
    except SystemExit as exit_:
        if exit_.code not in (None, 0):
            raise
    if not recorder.finished:
        raise RecordingError(_too_short(watch.seen, recorder))


def _too_short(seen: int, recorder: Recorder) -> str:
    if seen == 0:
        return (
            "The script ended without a step of a torch optimiser, so there are no steps to "
            "record; recording needs a training loop that calls optimizer.step()."
        )
    return (
        f"The script ended after {seen} optimiser steps, and this recording needs up to "
        f"{recorder.lengths.needed + 1}; train longer, or lower --warmup, --untraced or --steps."
    )
