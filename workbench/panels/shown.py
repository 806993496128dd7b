"""What an explorer shows: a source, its answers to what is chosen, and the widgets for them.

`Explorer` adds what a person does with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from workbench.analysis.only import Only
from workbench.errors import WorkbenchError
from workbench.panels import carried, links, text
from workbench.panels.answers import Answers
from workbench.panels.controls import Controls
from workbench.panels.details import SCHEMA, details
from workbench.panels.notes import NoteForm, on_event
from workbench.panels.panes import Panes
from workbench.panels.table import NO_ROW, Style
from workbench.views.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.panels.chips import Chips
    from workbench.panels.choice import Choice
    from workbench.panels.opened import Opened
    from workbench.panels.state import State
    from workbench.trace.core import Job, Trace


class Shown(w.VBox):
    """A source under a choice, in linked panes; nothing of it acts by itself.

    `on_row(table, row)` is called for a row that was clicked, `on_drawn()` for a range that was
    drawn on the timeline.
    """

    def __init__(
        self,
        controls: Controls,
        chips: Chips,
        *,
        on_row: Callable[[str, int], None],
        on_drawn: Callable[[], None],
    ) -> None:
        self.opened: Opened | None = None
        self.before: Opened | None = None
        """The run to compare with."""
        self.answers: Answers | None = None
        self.timeline: Timeline | None = None
        self.error: str | None = None
        self.only = Only()
        self._stretch = ""
        self._quiet = False
        self._on_drawn = on_drawn
        self.controls, self.chips = controls, chips
        self._facts, self._notes, self._details = w.HTML(), w.HTML(), w.HTML()
        self._stage = w.VBox()
        self.note_form = NoteForm(self)
        dials = {"roofline": controls.roofline, "notes": self.note_form}
        self.panes = Panes(on_row=on_row, row_of=self._row_of, dials=dials)
        self._body = w.VBox([self.panes.breakdown, self._stage, self._details, self.panes.tabs])
        super().__init__()
        self.add_class("wb-panel")
        self.children = (Style(), controls, self._facts, self._notes, self._body)

    # ---- what is shown --------------------------------------------------------------------

    @property
    def source(self) -> Trace | Job | None:
        """What is open, all ranks of it; None without a source."""
        return None if self.opened is None else self.opened.source

    @property
    def frames(self) -> Mapping[str, pl.DataFrame]:
        """The frames behind the panes by name; none without a source."""
        return {} if self.answers is None else self.answers

    @property
    def headline(self) -> str:
        """The figures on top, as one line."""
        return "" if self.answers is None else self.answers.headline

    @property
    def selected_text(self) -> str:
        """What is selected and narrows the panes, as one line; empty without anything."""
        return self.chips.text

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences below the headline; the error, when there is one."""
        found = () if self.answers is None else self.answers.notes
        return found if self.error is None else (self.error,)

    @property
    def details(self) -> pl.DataFrame:
        """What is known about the selected event, `field value`."""
        if self.answers is None or self.timeline is None:
            return pl.DataFrame(schema=SCHEMA)
        known = details(self.answers.source, self.timeline.selected)
        return pl.concat([known, on_event(self.answers, self.timeline.selected)])

    @property
    def choice(self) -> Choice:
        """What is chosen by the controls, on the timeline and in the tables."""
        selection = self.timeline.selection if self.timeline is not None else []
        within = (selection[0], selection[1]) if selection else None
        return self.controls.choice(within, self._stretch, self.only)

    # ---- showing --------------------------------------------------------------------------

    def _timeline_of(self, answers: Answers) -> Timeline:
        """Return the picture of the same ranks: the one that is shown, or a new one."""
        shown = () if self.answers is None else self.answers.source.ranks
        same = list(map(id, shown)) == list(map(id, answers.source.ranks))
        return self.timeline if self.timeline is not None and same else Timeline(answers.source)

    def _restore(self, state: State, answers: Answers, timeline: Timeline) -> None:
        """Set controls, timeline and panes to a state that fits; nothing of it acts by itself."""
        if timeline is not self.timeline:
            self._set_timeline(timeline)
        self._body.layout.display = ""
        self.controls.put(state)
        self.only, self._stretch = answers.choice.only, answers.choice.stretch
        timeline.window = state["view"] or timeline.extent
        timeline.selection = state["selection"] or []
        timeline.selected = state["event"] or {}
        timeline.filter, timeline.search = state["filter"], state["search"]
        self.panes.arrange(answers, state["tab"], state["sort"])
        self._show(answers)
        self.panes.mark(state["rows"])
        self.note_form.follow()

    def _show_nothing(self, error: str) -> None:
        self.opened, self.answers, self.error = None, None, error
        self._facts.value = ""
        self._notes.value = text.notes((error,), is_error=True)
        self.chips.show(())
        self._set_timeline(None)
        self._body.layout.display = "none"

    def _show_source(self) -> None:
        """Draw the chosen ranks anew; what fits of the old picture is kept."""
        assert self.opened is not None
        self._body.layout.display = ""
        old, shown = self.timeline, self.answers
        same = shown is not None and shown.whole is self.opened.source
        answers = Answers(self.opened.source, self.choice, self.opened.beside)
        new = Timeline(answers.source)
        if old is not None and shown is not None:
            moved = answers.source.origin_ns - shown.source.origin_ns
            carried.carry(old, new, moved if same else None)
        with links.silent(self):
            self._set_timeline(new)
            if not new.selection:
                self._stretch = ""
        self._show()

    def _show(self, answers: Answers | None = None) -> None:
        """Answer the choice anew, unless that was done, and refill what is in sight."""
        if self.opened is None:
            return
        try:
            self.answers = answers or self._answered(self.opened)
            self._facts.value = text.facts(self.answers.facts)
            self._notes.value = text.notes(self.answers.notes)
            self.chips.show(self.answers.choice.chips())
            self.panes.show(self.answers)
        except WorkbenchError as error:
            self._show_nothing(str(error))
            return
        if self.timeline is not None:
            self.timeline.emphasise(*links.emphasis(self.answers))
        self._tell()

    def _answered(self, shown: Opened) -> Answers:
        """Return the answers to what is chosen; what the last ones leave stays known."""
        if self.answers is not None and self.answers.whole is shown.source:
            return self.answers.then(self.choice)
        fresh = Answers(shown.source, self.choice, shown.beside)
        return fresh.against(None if self.before is None else self.before.source)

    def _tell(self) -> None:
        """Show the selected event, and the rows that it belongs to."""
        self._details.value = text.details(self.details)
        with links.silent(self):
            self.panes.follow()
        self.note_form.follow()

    def _renote(self) -> None:
        """Show the notes as they are now; all else stays."""
        if self.answers is not None:
            self.answers = self.answers.renoted()
            with links.silent(self):
                self.panes.renote(self.answers)
            self._tell()

    def _say(self, sentence: str) -> None:
        """Show what went wrong beside what is shown."""
        notes = () if self.answers is None else self.answers.notes
        self._notes.value = text.notes((sentence,), is_error=True) + text.notes(notes)

    def _set_timeline(self, timeline: Timeline | None) -> None:
        if self.timeline is not None:
            self.timeline.unobserve_all()
            self.timeline.close()
        self.timeline = timeline
        self._stage.children = () if timeline is None else (timeline,)
        if timeline is not None:
            timeline.observe(lambda _: self._on(self._on_drawn), "selection")
            timeline.observe(lambda _: self._on(self._tell), "selected")
            timeline.observe(lambda _: self._on(self._renote), "keeping")

    def _row_of(self, table: str) -> int | None:
        """Return the row that a table marks; see `links.row_of`."""
        if self.answers is None or self.timeline is None:
            return NO_ROW
        return links.row_of(self.answers, table, self.timeline.selected)

    def _change(self) -> None:
        """Answer anew, unless the choice stays: one control may set another."""
        if self.answers is None or self.choice != self.answers.choice:
            self._show()

    def _on(self, act: Any, *arguments: Any) -> None:
        if not self._quiet:
            act(*arguments)
