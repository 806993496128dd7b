"""`SweepPanel`: a sweep as it goes on: a bar, Cancel, each combination's step, a picture."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl
import traitlets as t

from workbench.capture.sweep_folder import WAITING
from workbench.errors import InputError
from workbench.panels.inbox import Inbox
from workbench.panels.launcher import stage
from workbench.panels.parts import Picture
from workbench.panels.table import Style, Table
from workbench.views.figure import Figure
from workbench.views.tables import Column

if TYPE_CHECKING:
    from workbench.capture import Sweep

COLUMNS = (
    Column("status", "status", "word", "how the recording of this combination ended"),
    Column("step_ns", "median step", "time", "of the steps without the profiler"),
    Column("least_ns", "fastest", "time", "of the steps without the profiler"),
    Column("most_ns", "slowest", "time", "of the steps without the profiler"),
    Column("samples_per_s", "samples/s", "number", "of all ranks, by the median", spare=True),
    Column("tokens_per_s", "tokens/s", "number", "of all ranks, by the median", spare=True),
    Column("error", "reason", "sentence", "why there is no recording", spare=True),
)
PICTURE = Picture(frame="sweep", name="sweep.times", view="sweep.times", height=110)


class SweepPanel(w.VBox):
    """Shows a sweep while it runs and after; `state` is running, done, failed or cancelled.

    `frame` is what the table and the picture show. It holds no logic: what it shows is told by the
    sweep, which goes on without it.
    """

    state = t.Unicode("running")

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.message = sweep, ""
        self.frame = pl.DataFrame()
        self._shown = -1
        self._bar = w.FloatProgress(min=0, max=1, layout=w.Layout(width="260px"))
        self._stop = w.Button(description="Cancel", icon="stop")
        self._stop.on_click(lambda _: self.cancel())
        self._status, self.picture = w.HTML(), Figure(self._draw, height=110, name=PICTURE.name)
        swept = list(sweep.points[0].values)
        self.table = Table([*(Column(n, n, "word") for n in swept), *COLUMNS], name="sweep")
        super().__init__()
        self.children = (
            Style(),
            w.HBox([self._stop, self._bar, self._status]),
            self.table,
            self.picture,
        )
        self.add_class("wb-panel")
        inbox = Inbox(self._show)
        sweep.listen(inbox.call)
        self._show()

    def __repr__(self) -> str:
        """Say what its sweep does."""
        return repr(self.sweep)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        data, meta = found if isinstance(found, tuple) else (found or {}, {})
        return data | {"text/plain": repr(self)}, meta

    def cancel(self) -> None:
        """Ask the sweep to end; a second time, end its run by force."""
        self.sweep.cancel()
        self._say("cancelling; once more ends it by force")

    def _show(self) -> None:
        """Show how it stands; runs on the kernel's loop."""
        status, points = self.sweep.status, self.sweep.points
        ended = sum(point.status != WAITING for point in points)
        if ended != self._shown:
            self._shown = ended
            self._fill()
        name, share = ("", 0.0)
        if (run := self.sweep.current) is not None:
            name, share = stage(run.progress)
            name = f": {run.plan.name}, {name}"
        self._bar.value = (ended + share) / len(points)
        if status == "running":
            self._say(f"{ended} of {len(points)} combinations{name}")
        elif self.state == "running":
            self._end(status)

    def _end(self, status: str) -> None:
        done = sum(point.status == "done" for point in self.sweep.points)
        self._bar.bar_style = {"done": "success", "failed": "danger"}.get(status, "")
        self._stop.disabled = True
        told = f"{status}: {done} of {len(self.sweep.points)} combinations recorded"
        self._say(f"{told}; {self.sweep.error}" if self.sweep.error else told)
        self.state = status

    def _fill(self) -> None:
        try:
            self.frame = self.sweep.frame()
        except InputError as error:
            self._say(str(error))
            return
        self.table.show(self.frame)
        timed = self.frame["step_ns"].count()
        self.picture.height = 22 * min(timed, 60) + 90
        self.picture.redraw()

    def _draw(self, theme: str, width: int) -> Any:
        return PICTURE.draw(self.frame, theme=theme, width=width)

    def _say(self, message: str) -> None:
        self.message = message
        self._status.value = f'<span class="wb-state">{html.escape(message)}</span>'
