"""`Recording`: one run in a process of its own, watched from a notebook, then looked at."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets as t

from workbench import capture
from workbench.panels.explorer import Explorer
from workbench.panels.inbox import Inbox
from workbench.panels.launcher import ENDED, LOG_LINES, stage, told
from workbench.panels.table import Style

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.capture import CapturePlan, Progress, Run


class Recording(w.VBox):
    """Starts a recording and returns at once: a bar, Cancel, the log, and at last the explorer.

    `state` is running, done, failed or cancelled and can be observed; `explorer` is None until the
    run is done. What cannot be started raises, as `capture.record` does.
    """

    state = t.Unicode("running")

    def __init__(self, plan: CapturePlan, *, recorder: Callable[..., Run] = capture.record) -> None:
        self.explorer: Explorer | None = None
        self.message = ""
        self._newest: Progress | None = None
        self._bar = w.FloatProgress(min=0, max=1, layout=w.Layout(width="260px"))
        self._stop = w.Button(description="Cancel", icon="stop")
        self._status, self._log = w.HTML(), w.HTML()
        self._stop.on_click(lambda _: self.cancel())
        row = w.HBox([self._stop, self._bar, self._status])
        log = w.Accordion([self._log], titles=("Log",), selected_index=None)
        shown: tuple[w.Widget, ...] = (Style(), row, log)
        super().__init__()
        self.children = shown
        self.add_class("wb-panel")
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

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        data, meta = found if isinstance(found, tuple) else (found or {}, {})
        return data | {"text/plain": repr(self)}, meta

    def cancel(self) -> None:
        """Ask the run to end; a second time, end it by force."""
        if self.run is not None and self.state == "running":
            self.run.cancel()
            self._say("cancelling; once more ends it by force")

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
        self._bar.bar_style = {"done": "success", "failed": "danger"}.get(now.phase, "")
        self._stop.disabled = True
        self._say(f"{now.phase}: {told(run) if is_done else now.message or now.phase}")
        if is_done:
            self.explorer = Explorer(run.path)
            self.children = (*self.children, self.explorer)
        self.state = now.phase

    def _say(self, message: str) -> None:
        self.message = message
        self._status.value = f'<span class="wb-state">{html.escape(message)}</span>'
