"""The panes of the explorer: each maps a frame to a picture or a table, when it is in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from workbench.errors import WorkbenchError
from workbench.panels import text
from workbench.panels.notes import marked
from workbench.panels.parts import Dials, Picture, Rows
from workbench.panels.questions import REGROUPED
from workbench.panels.table import NO_ROW, Table
from workbench.panels.tabs import TABS, titles
from workbench.views.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from workbench.panels.answers import Answers
    from workbench.panels.parts import Part

CLICKABLE = ("kernels", "ops", "steps", "idle", "roofline", "recoverable", "notes")
"""Tables whose rows stand for something on the timeline."""
PICKABLE = ("roofline",)
"""Pictures whose marks stand for rows of their frame."""
BREAKDOWN = Picture(frame="breakdown", name="breakdown", view="breakdown.bars", height=110)


class Panes:
    """The breakdown bars, and tabs that are filled when they are opened."""

    def __init__(
        self, on_row: Callable[[str, int], None], dials: Mapping[str, w.Widget] | None = None
    ) -> None:
        self.answers: Answers | None = None
        self.dials = dials or {}
        parts = [part for tab in TABS.values() for part in tab]
        self.breakdown = self._figure_of(BREAKDOWN)
        self.tables = {
            p.frame: Table(p.columns, name=p.frame, nothing=p.nothing)
            for p in parts
            if isinstance(p, Rows)
        }
        self.figures = {p.name: self._figure_of(p) for p in parts if isinstance(p, Picture)}
        self._marks = dict.fromkeys(self.tables, NO_ROW)
        self._stale: set[str] = set(TABS)
        self.tabs = w.Tab([w.VBox() for _ in TABS], titles=tuple(TABS), selected_index=0)
        self.tabs.observe(lambda _: self._fill(), "selected_index")
        for name in CLICKABLE:
            self.tables[name].observe(self._clicked(name, on_row), "selected")
        for name in PICKABLE:
            self.figures[name].observe(self._picked(name), "picked")

    def show(self, answers: Answers) -> None:
        """Show other answers; tabs out of sight wait until they are opened."""
        self.answers, self._stale = answers, set(TABS)
        self._marks = dict.fromkeys(self.tables, NO_ROW)
        self.breakdown.redraw()
        self.tabs.titles = tuple(titles(answers))
        self._fill()

    def regroup(self, answers: Answers) -> None:
        """Show answers that differ in the points of the roofline alone."""
        self.answers = answers
        self._marks |= dict.fromkeys(REGROUPED, NO_ROW)
        self._stale.add("Roofline")
        self._fill()

    def renote(self, answers: Answers) -> None:
        """Show answers that differ in notes alone; a row that shows a note follows it."""
        before = self.answers["notes"] if self.answers and "notes" in self.rows else None
        if before is not None:
            number = before["id"][self.rows["notes"]]
            at = answers["notes"].with_row_index("row").filter(pl.col("id") == number)["row"]
            self._marks["notes"] = int(at[0]) if len(at) else NO_ROW
        self.answers = answers
        self._stale |= {"Notes", "Kernels", "Operators"}
        self.tabs.titles = tuple(titles(answers))
        self._fill()

    @property
    def tab(self) -> str:
        """The title of the tab in sight."""
        return list(TABS)[self.tabs.selected_index or 0]

    @property
    def rows(self) -> dict[str, int]:
        """The row that is marked in each table that has one."""
        return {name: row for name, row in self._marks.items() if row != NO_ROW}

    @property
    def sort(self) -> dict[str, dict[str, Any]]:
        """By what each table is sorted that is not in its frame's order."""
        return {name: dict(table.order) for name, table in self.tables.items() if table.order}

    @property
    def in_sight(self) -> tuple[str, ...]:
        """The frames that the tab in sight shows."""
        if self.answers is None:
            return ()
        shown = self._told(self.answers, TABS[self.tab])
        return tuple(dict.fromkeys(part.frame for part in shown if not isinstance(part, Dials)))

    def arrange(self, tab: str, sort: Mapping[str, Mapping[str, Any]]) -> None:
        """Open a tab and sort the tables, before `show` fills them."""
        self.answers = None
        self.open(tab)
        for name, table in self.tables.items():
            table.order = dict(sort.get(name, {}))

    def open(self, title: str) -> None:
        """Open a tab by its title."""
        self.tabs.selected_index = list(TABS).index(title)

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

    def _picked(self, name: str) -> Callable[[Any], None]:
        def act(change: Any) -> None:
            if change["new"] != NO_ROW:
                self.tables[name].selected = change["new"]

        return act

    def _fill(self) -> None:
        """Fill the tab in sight, unless it shows these answers already."""
        title = self.tab
        if self.answers is None or title not in self._stale:
            return
        self._stale.discard(title)
        try:
            contents = tuple(self._contents(self.answers, TABS[title]))
        except WorkbenchError as error:
            contents = (w.HTML(text.notes((str(error),), is_error=True)),)
        self.tabs.children[list(TABS).index(title)].children = contents

    def _contents(self, answers: Answers, parts: tuple[Part | Dials, ...]) -> Iterator[w.Widget]:
        """Return what a tab holds, with its tables and pictures up to date.

        First what the recording lacks for it.
        """
        frames = [part.frame for part in parts if not isinstance(part, Dials)]
        if sentences := dict.fromkeys(s for frame in frames for s in answers.lacking(frame)):
            yield w.HTML(text.notes(sentences))
        for part in self._told(answers, parts):
            if isinstance(part, Dials):
                yield self.dials[part.name]
                continue
            if said := part.said if isinstance(part.said, str) else part.said(answers):
                yield w.HTML(text.caption(said))
            yield self._shown(answers, part)

    @staticmethod
    def _told(answers: Answers, parts: Iterable[Part | Dials]) -> Iterator[Part | Dials]:
        """Leave out a frame that is empty for what the recording lacks."""
        for part in parts:
            if isinstance(part, Dials) or (part.when(answers) and _is_told(answers, part.frame)):
                yield part

    def _shown(self, answers: Answers, part: Part) -> w.Widget:
        frame = answers[part.frame]
        if isinstance(part, Rows):
            table = self.tables[part.frame]
            table.show(marked(answers, part.frame), self._marks[part.frame])
            return table
        if frame.is_empty():
            return w.HTML(text.caption(part.nothing))
        assert isinstance(part, Picture)
        figure = self.figures[part.name]
        figure.redraw()
        return figure

    def _figure_of(self, part: Picture) -> Figure:
        def draw(theme: str, width: int) -> Any:
            assert self.answers is not None
            return part.draw(self.answers[part.frame], theme=theme, width=width)

        return Figure(draw, height=part.height, name=part.name)


def _is_told(answers: Answers, frame: str) -> bool:
    return not (answers.lacking(frame) and answers[frame].is_empty())
