"""The panes of the explorer: each maps a frame to a picture or a table, when it is in sight."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from workbench.errors import WorkbenchError, unknown_name
from workbench.panels import text
from workbench.panels.links import CLICKABLE
from workbench.panels.notes import marked
from workbench.panels.parts import Boxes, Dials, Picture, Rows, Words
from workbench.panels.table import NO_ROW, Table
from workbench.panels.tabs import TABS, titles
from workbench.views.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from workbench.panels.answers import Answers
    from workbench.panels.parts import Part

PICKABLE = ("roofline",)
"""Pictures whose marks stand for rows of their frame."""
BREAKDOWN = Picture(frame="breakdown", name="breakdown", view="breakdown.bars", height=110)


class Panes:
    """The breakdown bars, and tabs that are filled when they are opened.

    `on_row(table, row)` is called for a row that was clicked, -1 for one that was clicked away;
    `row_of(table)` says which row is to be marked, -1 for none, None to leave it.
    """

    def __init__(
        self,
        on_row: Callable[[str, int], None],
        row_of: Callable[[str], int | None],
        dials: Mapping[str, w.Widget] | None = None,
    ) -> None:
        self.answers: Answers | None = None
        self.row_of, self.dials = row_of, dials or {}
        parts = [part for tab in TABS.values() for part in tab]
        self.breakdown = self._figure_of(BREAKDOWN)
        self.tables = {
            p.frame: Table(p.columns, name=p.frame, nothing=p.nothing)
            for p in parts
            if isinstance(p, Rows)
        }
        self.figures = {p.name: self._figure_of(p) for p in parts if isinstance(p, Picture)}
        self._boxes = {title: w.VBox() for title in TABS}
        self._marks = dict.fromkeys(self.tables, NO_ROW)
        self._drawn: dict[str, pl.DataFrame] = {}
        """The frame that each picture was asked for last."""
        self._stale: set[str] = set(TABS)
        self._is_filling = False
        self._titles = tuple(TABS)
        self.tabs = w.Tab(list(self._boxes.values()), titles=tuple(TABS), selected_index=0)
        self.tabs.observe(lambda _: self._fill(), "selected_index")
        for name in CLICKABLE:
            self.tables[name].observe(self._clicked(name, on_row), "selected")
        for name in PICKABLE:
            self.figures[name].observe(self._picked(name), "picked")

    def show(self, answers: Answers) -> None:
        """Show other answers; tabs out of sight wait until they are opened."""
        shown = None if self.answers is None else self.answers.known("breakdown")
        is_other = self.answers is None or self.answers.whole is not answers.whole
        noted = {"notes": self._marks["notes"]}  # a note is of the recording, whatever is chosen
        same_bars = shown is not None and shown is answers.known("breakdown")
        self._offer(answers)
        self.answers, self._stale = answers, set(TABS)
        self._marks = dict.fromkeys(self.tables, NO_ROW) | ({} if is_other else noted)
        if not same_bars:
            self.breakdown.redraw()
        self._fill()

    def renote(self, answers: Answers) -> None:
        """Show answers that differ in notes alone; a row that shows a note follows it."""
        before = self.answers["notes"] if self.answers and "notes" in self.rows else None
        if before is not None:
            number = before["id"][self.rows["notes"]]
            at = answers["notes"].with_row_index("row").filter(pl.col("id") == number)["row"]
            self._marks["notes"] = int(at[0]) if len(at) else NO_ROW
        self._offer(answers)
        self.answers = answers
        self._stale |= {"Notes", "Kernels", "Operators"}
        self._fill()

    def _offer(self, answers: Answers) -> None:
        """Show the tabs that a recording has something for; the one in sight stays."""
        kept, counted = self.tab, titles(answers)
        there = tuple(counted)
        self.answers = None if there != self._titles else self.answers  # nothing fills meanwhile
        if there != self._titles:
            self._titles = there
            self.tabs.children = [self._boxes[title] for title in there]
            self.tabs.selected_index = there.index(kept) if kept in there else 0
        self.tabs.titles = tuple(counted.values())

    @property
    def titles(self) -> tuple[str, ...]:
        """The tabs that are shown, without counts."""
        return self._titles

    @property
    def tab(self) -> str:
        """The title of the tab in sight."""
        return self._titles[self.tabs.selected_index or 0]

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
        return tuple(dict.fromkeys(name for part in shown for name in _frames(part)))

    def arrange(self, answers: Answers, tab: str, sort: Mapping[str, Mapping[str, Any]]) -> None:
        """Open a tab and sort the tables, before `show` fills them."""
        self.answers = None
        self._offer(answers)
        self.open(tab)
        for name, table in self.tables.items():
            table.order = dict(sort.get(name, {}))

    def open(self, title: str) -> None:
        """Open a tab by its title."""
        if title not in self._titles:
            raise unknown_name("tab", title, self._titles)
        self.tabs.selected_index = self._titles.index(title)

    def contents(self, title: str) -> tuple[w.Widget, ...]:
        """Return what stands in a tab that was opened."""
        found: tuple[w.Widget, ...] = self._boxes[title].children
        return found

    def mark(self, rows: Mapping[str, int]) -> None:
        """Highlight one row of each table, -1 for none."""
        self._marks |= rows
        with self._filling():
            for name, row in rows.items():
                self.tables[name].selected = row

    def follow(self) -> None:
        """Mark, in the tab in sight, the rows of what is chosen or selected."""
        if self.answers is not None:
            shown = [p.frame for p in TABS[self.tab] if isinstance(p, Rows)]
            found = {name: self.row_of(name) for name in shown}
            others = dict.fromkeys(self._marks.keys() - set(shown), NO_ROW)
            self._marks |= others
            self.mark({name: row for name, row in found.items() if row is not None})
            self._stale |= set(TABS) - {self.tab}  # their rows are looked up when they are opened

    @contextmanager
    def _filling(self) -> Iterator[None]:
        """Set tables without it being a click."""
        before, self._is_filling = self._is_filling, True
        try:
            yield
        finally:
            self._is_filling = before

    def _clicked(self, name: str, on_row: Callable[[str, int], None]) -> Callable[[Any], None]:
        def act(change: Any) -> None:
            if not self._is_filling and change["new"] != self._marks[name]:
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
            with self._filling():
                contents = tuple(self._contents(self.answers, TABS[title]))
        except WorkbenchError as error:
            contents = (w.HTML(text.notes((str(error),), is_error=True)),)
        self._boxes[title].children = contents

    def _contents(self, answers: Answers, parts: tuple[Part | Dials, ...]) -> Iterator[w.Widget]:
        """Return what a tab holds, with its tables and pictures up to date.

        First what the recording lacks for it; beside each frame what it can't be narrowed to.
        """
        frames = [name for part in parts for name in _frames(part)]
        if sentences := dict.fromkeys(s for frame in frames for s in answers.lacking(frame)):
            yield w.HTML(text.notes(sentences))
        told: set[str] = set()
        for part in self._told(answers, parts):
            if isinstance(part, Dials):
                yield self.dials[part.name]
                continue
            said = part.said if isinstance(part.said, str) else part.said(answers)
            unheeded = "" if part.frame in told else answers.unheeded(part.frame)
            told.add(part.frame)
            if said or unheeded:
                yield w.HTML(text.caption(said, unheeded))
            if not isinstance(part, Words):
                yield self._shown(answers, part)

    @staticmethod
    def _told(answers: Answers, parts: Iterable[Part | Dials]) -> Iterator[Part | Dials]:
        """Leave out a frame that is empty for what the recording lacks."""
        for part in parts:
            if isinstance(part, Dials) or (part.when(answers) and _is_told(answers, part.frame)):
                yield part

    def _shown(self, answers: Answers, part: Part) -> w.Widget:
        if isinstance(part, Boxes):
            return w.HTML(text.facts(part.made(answers)))
        frame = answers[part.frame]
        if isinstance(part, Rows):
            table = self.tables[part.frame]
            if self._marks[part.frame] == NO_ROW:
                found = self.row_of(part.frame)
                self._marks[part.frame] = NO_ROW if found is None else found
            table.show(marked(answers, part.frame), self._marks[part.frame])
            return table
        if frame.is_empty():
            return w.HTML(text.caption(part.nothing))
        assert isinstance(part, Picture)
        figure = self.figures[part.name]
        if self._drawn.get(part.name) is not frame:
            self._drawn[part.name] = frame
            figure.redraw()
        return figure

    def _figure_of(self, part: Picture) -> Figure:
        def draw(theme: str, width: int) -> Any:
            assert self.answers is not None
            return part.draw(self.answers[part.frame], theme=theme, width=width)

        return Figure(draw, height=part.height, name=part.name)


def _frames(part: Part | Dials) -> tuple[str, ...]:
    if isinstance(part, (Dials, Words)):
        return ()
    return (part.frame, *(part.frames if isinstance(part, Boxes) else ()))


def _is_told(answers: Answers, frame: str) -> bool:
    return not (answers.lacking(frame) and answers[frame].is_empty())
