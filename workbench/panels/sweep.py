"""`SweepPanel`: a sweep as it goes on: a bar, Cancel, each combination's step, a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.capture.sweep_folder import WAITING
from workbench.errors import InputError
from workbench.output import text_table
from workbench.panels.inbox import Inbox
from workbench.panels.launcher import stage
from workbench.panels.parts import Picture
from workbench.panels.table import Style, Table
from workbench.panels.watched import Watched
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


class SweepPanel(Watched):
    """Shows a sweep while it runs and after.

    `frame` is what the table and the picture show. It holds no logic: what it shows is told by the
    sweep, which goes on without it.
    """

    def __init__(self, sweep: Sweep) -> None:
        super().__init__()
        self.sweep, self.frame = sweep, pl.DataFrame()
        self._shown = -1
        self.picture = Figure(self._draw, height=110, name=PICTURE.name)
        swept = list(sweep.points[0].values)
        self.table = Table([*(Column(n, n, "word") for n in swept), *COLUMNS], name="sweep")
        self.children = (Style(), self.row, self.table, self.picture)
        inbox = Inbox(self._show)
        sweep.listen(inbox.call)
        self._show()

    def __repr__(self) -> str:
        """Say what its sweep does."""
        return repr(self.sweep)

    def _twin(self) -> str:
        swept = list(self.sweep.points[0].values)
        points = [dict(p.values) | {"status": p.status} for p in self.sweep.points]
        frame = pl.DataFrame(
            points, schema=dict.fromkeys((*swept, "status"), pl.String()), strict=False
        )
        return text_table(frame, width=100, longest=40)

    def _cancel(self) -> None:
        self.sweep.cancel()

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
        told = f"{status}: {done} of {len(self.sweep.points)} combinations recorded"
        self._finish(status, f"{told}; {self.sweep.error}" if self.sweep.error else told)

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
