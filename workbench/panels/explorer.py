"""`Explorer`: where the time of a run goes, in linked panes.

Controls make a `Choice`, `Answers` turns it into frames, panes show them. A pane in a tab is
filled when the tab is opened. Everything shown can be read and set from Python: `load()`,
`choose()`, `timeline.selected`, `timeline.selection`; `frames`, `headline`, `notes`, `details`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from workbench.costs import run_roofs
from workbench.errors import WorkbenchError
from workbench.panels import links, text
from workbench.panels.answers import Answers, Choice
from workbench.panels.controls import ALL, GIVEN, NO_CHOICE, Controls
from workbench.panels.details import SCHEMA, details
from workbench.panels.panes import Panes
from workbench.panels.runs import Offer, offers
from workbench.panels.table import Style
from workbench.trace.core import Job, Trace
from workbench.trace.open import open_source
from workbench.views.timeline import Timeline

if TYPE_CHECKING:
    from workbench.costs.ceilings import Ceilings
    from workbench.panels.launcher import Launcher

NO_RUN = "There is no run to show yet: record one, or open a trace with Explorer(path)."
Given = str | Path | Trace | Job


class Explorer(w.VBox):
    """Looks at a run folder, a trace file, an opened `Trace` or `Job`, or the runs of `runs_dir`.

    Without a source it opens the newest run that is done; with a `launcher`, each run that the
    launcher has recorded. `error` is the sentence shown when a run cannot be opened.
    """

    def __init__(
        self,
        source: Given | None = None,
        *,
        runs_dir: str | Path = "runs",
        launcher: Launcher | None = None,
    ) -> None:
        # as a run names itself: absolute, links kept, so that the two can be compared
        self.runs_dir = Path(os.path.abspath(Path(runs_dir).expanduser()))  # noqa: PTH100
        self._given = source
        self.source: Trace | Job | None = None
        self.answers: Answers | None = None
        self.timeline: Timeline | None = None
        self.error: str | None = None
        self._quiet = False
        self._roofs: Ceilings | None = None
        """Roofs of this machine, measured before; they hold only for a recording of its device."""
        self._make_controls()
        super().__init__()
        self.add_class("wb-panel")
        self.children = (Style(), self._row, self._facts, self._notes, self._body)
        self.refresh()
        if launcher is not None:
            launcher.observe(lambda change: self._recorded(change["new"]), "last_run")
        self._open_first()

    def __repr__(self) -> str:
        """Say what it is and nothing that changes between runs (notebook checks compare it)."""
        return "Explorer()"

    # ---- state ----------------------------------------------------------------------------

    @property
    def frames(self) -> Mapping[str, pl.DataFrame]:
        """The frames behind the panes by name; none without a source."""
        return {} if self.answers is None else self.answers

    @property
    def headline(self) -> str:
        """The figures on top, as one line."""
        return "" if self.answers is None else self.answers.headline

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences below the headline; the error, when there is one."""
        if self.error is not None:
            return (self.error,)
        return () if self.answers is None else self.answers.notes

    @property
    def details(self) -> pl.DataFrame:
        """What is known about the selected event, `field value`."""
        if self.answers is None or self.timeline is None:
            return pl.DataFrame(schema=SCHEMA)
        return details(self.answers.source, self.timeline.selected)

    @property
    def choice(self) -> Choice:
        """What the controls and the selection on the timeline choose."""
        selection = self.timeline.selection if self.timeline is not None else []
        return self._row.choice((selection[0], selection[1]) if selection else None)

    def choose(
        self, *, rank: int | None = None, window: str = "steps", step: int | None = None
    ) -> None:
        """Set the three controls at once; a value that is not offered raises UsageError."""
        links.set_option(self.rank, "rank", ALL if rank is None else rank)
        links.set_option(self.window, "window", window)
        links.set_option(self.step, "step", ALL if step is None else step)

    # ---- opening --------------------------------------------------------------------------

    def load(self, source: Given) -> None:
        """Show another run, trace file, `Trace` or `Job`; a broken one shows its sentence."""
        self._facts.value = text.waiting(_name(source))
        self.error = None
        try:
            opened = source if isinstance(source, (Trace, Job)) else open_source(source)
        except WorkbenchError as error:
            self._show_nothing(self._reason(source) or str(error))
            return
        self.source, self._roofs = opened, run_roofs.recorded(opened)
        with links.silent(self):
            self._row.offer(opened)
        self._show_source()

    def refresh(self) -> None:
        """List the runs of the folder again; the one that is shown stays."""
        found = offers(self.runs_dir)
        options = [(o.label, str(o.path)) for o in found]
        if self._given is not None:
            options.append((_name(self._given), GIVEN))
        self._offers: tuple[Offer, ...] = found
        kept = self.run.value
        with links.silent(self):
            self.run.options = options or [("no runs yet", NO_CHOICE)]
            if kept in [value for _, value in options]:
                self.run.value = kept

    def _open_first(self) -> None:
        whole = [o for o in self._offers if o.reason is None]
        if self._given is not None:
            self._pick(GIVEN)
        elif whole:
            self._pick(str(whole[0].path))
        else:
            self._show_nothing(NO_RUN)

    def _pick(self, value: str) -> None:
        """Show an entry of the picker: the source given at the start, or a run folder."""
        with links.silent(self):
            self.run.value = value
        if value == GIVEN and self._given is not None:
            self.load(self._given)
        elif value != NO_CHOICE:
            self.load(value)

    def _recorded(self, path: str) -> None:
        """Show a run that a launcher has just recorded; one that failed is only listed."""
        self.refresh()
        if any(str(o.path) == path and o.reason is None for o in self._offers):
            self._pick(path)

    def _reason(self, source: Given) -> str | None:
        return next((o.reason for o in self._offers if str(o.path) == str(source)), None)

    # ---- showing --------------------------------------------------------------------------

    def _show_nothing(self, error: str) -> None:
        self.source, self.answers, self.error = None, None, error
        self._facts.value = ""
        self._notes.value = text.notes((error,), is_error=True)
        self._set_timeline(None)
        self._body.layout.display = "none"

    def _show_source(self) -> None:
        """Draw the chosen ranks anew; a selection belonged to the old picture."""
        assert self.source is not None
        self._body.layout.display = ""
        self._set_timeline(None)
        chosen = Answers(self.source, self.choice)
        self._set_timeline(Timeline(chosen.source))
        self._show()

    def _show(self) -> None:
        """Answer the choice anew and refill what is in sight."""
        if self.source is None:
            return
        try:
            self.answers = Answers(self.source, self.choice, self._roofs)
            self._facts.value = text.facts(self.answers.facts)
            self._notes.value = text.notes(self.answers.notes)
            self.panes.show(self.answers)
        except WorkbenchError as error:
            self._show_nothing(str(error))
            return
        self._follow()

    def _follow(self) -> None:
        """Show the selected event, and the rows that it belongs to."""
        if self.timeline is None or self.answers is None:
            return
        self._details.value = text.details(self.details)
        with links.silent(self):
            self.panes.mark(links.rows(self.answers, self.timeline.selected))

    def _set_timeline(self, timeline: Timeline | None) -> None:
        if self.timeline is not None:
            self.timeline.unobserve_all()
            self.timeline.close()
        self.timeline = timeline
        self._stage.children = () if timeline is None else (timeline,)
        if timeline is not None:
            timeline.observe(lambda _: self._show(), "selection")
            timeline.observe(lambda _: self._follow(), "selected")

    # ---- controls -------------------------------------------------------------------------

    def _make_controls(self) -> None:
        self._row = controls = Controls(self.refresh)
        self.run, self.rank = controls.run, controls.rank
        self.window, self.step = controls.window, controls.step
        self._facts, self._notes, self._details = w.HTML(), w.HTML(), w.HTML()
        self._stage = w.VBox()
        self.panes = Panes(on_row=self._row_clicked)
        self._body = w.VBox([self.panes.breakdown, self._stage, self._details, self.panes.tabs])
        self.run.observe(lambda change: self._on(self._pick, change["new"]), "value")
        self.rank.observe(lambda _: self._on(self._show_source), "value")
        self.window.observe(lambda _: self._on(self._show), "value")
        self.step.observe(lambda _: self._on(self._show), "value")

    def _on(self, act: Any, *arguments: Any) -> None:
        if not self._quiet:
            act(*arguments)

    def _row_clicked(self, table: str, row: int) -> None:
        """Show on the timeline what a row of a table stands for."""
        if not self._quiet and self.timeline is not None and self.answers is not None:
            links.show_row(self.timeline, self.answers, table, row)


def _name(source: Given) -> str:
    if isinstance(source, (Trace, Job)):
        return source.ranks[0].meta.path.parent.name or "the given trace"
    return Path(source).name
