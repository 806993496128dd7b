"""The panes of the explorer: each maps a frame to a picture or a table, when it is in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as w

from workbench.panels import text
from workbench.panels.table import NO_ROW, Table
from workbench.views import tables
from workbench.views.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.panels.answers import Answers

TABS = ("Kernels", "Operators", "Steps", "Overlap", "Roofline")
KERNELS_SAID = (
    "Device time by name. Durations are clipped to the window and summed, so kernels that run at "
    "the same time count each; count, mean and the rest are of those that start in it."
)
OPS_SAID = (
    "Device and host time by framework operator. Self device time is that of what the operator "
    "launched itself; only self times may be added up."
)
STEPS_SAID = "All steps of the recording; a click shows one on the timeline."
ROOFLINE_HEIGHT = 480


class Panes:
    """The breakdown bars, and tabs that are filled when they are opened."""

    def __init__(self, on_row: Callable[[str, int], None]) -> None:
        self.answers: Answers | None = None
        self.breakdown = Figure(self._draw_breakdown, height=110, name="breakdown")
        self.tables = {
            "kernels": Table(tables.KERNELS, name="kernels"),
            "ops": Table(tables.OPS, name="operators"),
            "steps": Table(tables.STEPS, name="steps", nothing="No step is marked."),
            "collectives": Table(tables.COLLECTIVES, name="collectives"),
            "roofline": Table(tables.ROOFLINE, name="roofline"),
        }
        self.figures = {
            "steps": Figure(self._draw_steps, height=260, name="steps"),
            "overlap": Figure(self._draw_overlap, height=130, name="overlap"),
            "roofline": Figure(self._draw_roofline, height=ROOFLINE_HEIGHT, name="roofline"),
        }
        self._marks = dict.fromkeys(self.tables, NO_ROW)
        self._stale: set[str] = set(TABS)
        self.tabs = w.Tab([w.VBox() for _ in TABS], titles=TABS, selected_index=0)
        self.tabs.observe(lambda _: self._fill(), "selected_index")
        for name in ("kernels", "ops", "steps"):
            self.tables[name].observe(self._clicked(name, on_row), "selected")

    def show(self, answers: Answers) -> None:
        """Show other answers; tabs out of sight wait until they are opened."""
        self.answers, self._stale = answers, set(TABS)
        self._marks = dict.fromkeys(self.tables, NO_ROW)
        self.breakdown.redraw()
        self._fill()

    def mark(self, rows: Mapping[str, int]) -> None:
        """Highlight one row of each table, -1 for none."""
        self._marks |= rows
        for name, row in rows.items():
            self.tables[name].selected = row

    def _clicked(self, name: str, on_row: Callable[[str, int], None]) -> Callable[[Any], None]:
        def act(change: Any) -> None:
            if change["new"] not in (NO_ROW, self._marks[name]):
                self._marks[name] = change["new"]
                on_row(name, change["new"])

        return act

    def _fill(self) -> None:
        name = TABS[self.tabs.selected_index or 0]
        if self.answers is None or name not in self._stale:
            return
        self._stale.discard(name)
        self.tabs.children[TABS.index(name)].children = self._contents(name)

    def _table(self, name: str) -> Table:
        assert self.answers is not None
        table = self.tables[name]
        table.show(self.answers[name], self._marks[name])
        return table

    def _figure(self, name: str) -> Figure:
        figure = self.figures[name]
        figure.redraw()
        return figure

    def _contents(self, name: str) -> tuple[w.Widget, ...]:
        """Return what a tab holds, with its table and picture up to date."""
        assert self.answers is not None
        match name:
            case "Kernels":
                return (_said(KERNELS_SAID), self._table("kernels"))
            case "Operators":
                return (_said(OPS_SAID), self._table("ops"))
            case "Steps":
                return (_said(STEPS_SAID), self._figure("steps"), self._table("steps"))
            case "Overlap":
                has_any = self.answers["collectives"].height > 0
                more = (self._table("collectives"),) if has_any else ()
                return (self._figure("overlap"), *more)
            case _:
                said = _said(self.answers.coverage)
                return (said, self._figure("roofline"), self._table("roofline"))

    # HoloViews takes most of a second to import, so it waits until a picture is asked for.

    def _draw_breakdown(self, theme: str, width: int) -> Any:
        from workbench.views import breakdown

        return breakdown.bars(self._frame("breakdown"), theme=theme, width=width)

    def _draw_steps(self, theme: str, width: int) -> Any:
        from workbench.views import breakdown

        return breakdown.by_step(self._frame("steps"), theme=theme, width=width)

    def _draw_overlap(self, theme: str, width: int) -> Any:
        from workbench.views import overlap

        return overlap.bars(self._frame("overlap"), theme=theme, width=width)

    def _draw_roofline(self, theme: str, width: int) -> Any:
        from workbench.views import roofline

        frame = self._frame("roofline")
        return roofline.plot(frame, theme=theme, width=width, height=ROOFLINE_HEIGHT)

    def _frame(self, name: str) -> Any:
        assert self.answers is not None
        return self.answers[name]


def _said(sentence: str) -> w.HTML:
    return w.HTML(text.caption(sentence))
