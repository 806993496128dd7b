"""`Recording`: one run in a process of its own, watched from a notebook, then looked at."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import ipywidgets as w

from workbench import capture
from workbench.panels.explorer import Explorer
from workbench.panels.inbox import Inbox
from workbench.panels.launcher import ENDED, LOG_LINES, stage, told
from workbench.panels.table import Style
from workbench.panels.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.capture import CapturePlan, Progress, Run


class Recording(Watched):
    """Starts a recording and returns at once: a bar, Cancel, the log, and at last the explorer.

    `explorer` is None until the run is done. What cannot be started raises, as `capture.record`
    does.
    """

    def __init__(self, plan: CapturePlan, *, recorder: Callable[..., Run] = capture.record) -> None:
        super().__init__()
        self.explorer: Explorer | None = None
        self._newest: Progress | None = None
        self._log = w.HTML()
        log = w.Accordion([self._log], titles=("Log",), selected_index=None)
        shown: tuple[w.Widget, ...] = (Style(), self.row, log)
        self.children = shown
        self._say("starting")
        inbox = Inbox(self._show)

        def on_event(now: Progress) -> None:
            self._newest = now
            inbox.call()

        self.run: Run | None = None
        self.run = recorder(plan, on_event=on_event)
        self._show()  # events may have come before there was a run to ask

    def __repr__(self) -> str:
        """Say what it is and nothing that changes between runs (notebook checks compare it)."""
        return "Recording()"

    def _cancel(self) -> None:
        if self.run is not None:
            self.run.cancel()

    def _show(self) -> None:
        """Show the newest event; runs on the kernel's loop."""
        now, run = self._newest, self.run
        if now is None or run is None or self.state in ENDED:
            return
        self._log.value = f'<pre class="wb-log">{html.escape(run.log_tail(LOG_LINES))}</pre>'
        if now.phase in ENDED:
            self._end(run, now)
            return
        name, share = stage(now)
        self._bar.value = max(self._bar.value, share)
        self._say(name)

    def _end(self, run: Run, now: Progress) -> None:
        is_done = now.phase == "done"
        self._bar.value = 1.0 if is_done else self._bar.value
        if is_done:
            self.explorer = Explorer(run.path)
            self.children = (*self.children, self.explorer)
        self._finish(
            now.phase, f"{now.phase}: {told(run) if is_done else now.message or now.phase}"
        )
