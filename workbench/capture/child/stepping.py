"""What the steps of a script are: its marks, else the steps of its optimiser."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .events import Events
    from .recorder import Recorder


class Recorded(SystemExit):
    """Unwinds the script once the trace is written, as `sys.exit(0)` in its place would."""


class Leaving:
    """Ends the script of a rank once its trace is written."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.left = False

    def leave(self) -> None:
        """Raise through the script; one that caught this before ends at once."""
        if self.left:
            self.events.send("done")
            os._exit(0)
        self.left = True
        raise Recorded(0)

    def stay(self, message: str) -> None:
        """Leave the script running, as one whose rank isn't recorded; how it ends is no matter."""
        self.left = True
        self.events.send("done", facts={"notes": [{"message": message}]})


class StepWatch:
    """Turns the steps of a script into the steps of a recorder.

    They are what the script marks, else those of the first optimiser that steps. The first one,
    which holds the script's own set-up, is not recorded.
    """

    def __init__(
        self,
        recorder: Recorder,
        leaving: Leaving,
        is_elsewhere: Callable[[], bool] = bool,
    ) -> None:
        self.recorder, self._leaving = recorder, leaving
        self._is_elsewhere = is_elsewhere
        self.optimizer: Any = None
        self.has_marks = False
        """Whether the script imports the marks: its optimisers then say nothing of steps."""
        self.is_off = False
        """Whether something else records."""
        self.depth = 0
        self.seen = 0

    @property
    def what(self) -> str:
        """Name what the steps are."""
        return "marked steps" if self.has_marks else "optimiser steps"

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
                self._optimised(args[0])
            return result

        return wrapper

    def expect_marks(self) -> None:
        """Take the steps from marks alone."""
        self.has_marks = True

    def marked(self, loss: Any = None) -> None:
        """End a step that the script marks, and that ended with this loss."""
        self._stepped(loss)

    def _optimised(self, optimizer: Any) -> None:
        if self.optimizer is None:
            self.optimizer = optimizer
        if optimizer is self.optimizer and not self.has_marks:
            self._stepped()

    def _stepped(self, loss: Any = None) -> None:
        if self.is_off:
            return
        self.seen += 1
        if self.seen == 1 and self._is_elsewhere():
            self.is_off = True
            self._leaving.stay("not recorded: another rank has a profiler, and this one has none")
            return
        if self.seen == 1:
            self.recorder.begin()
        elif not self.recorder.finished:
            self.recorder.end_step(loss)
        if self.recorder.finished:
            self._leaving.leave()
