"""`Explorer`: where the time of a run goes, in linked panes.

Controls make a `Choice`, `Answers` turns it into frames, panes show them. A pane in a tab is
filled when the tab is opened. Everything shown can be read and set from Python: `state`, all of it
at once; `load()`, `choose()`, `timeline.selected`, `timeline.selection`; `frames`, `headline`,
`notes`, `details`. `code()` is the cell that reproduces what is in sight.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from workbench.costs import run_roofs
from workbench.errors import UsageError, WorkbenchError
from workbench.panels import code, links, outputs, text
from workbench.panels import state as states
from workbench.panels.answers import Answers, Choice
from workbench.panels.controls import ALL, GIVEN, NO_CHOICE, Controls
from workbench.panels.details import SCHEMA, details
from workbench.panels.outputs import NO_RUN
from workbench.panels.panes import Panes
from workbench.panels.runs import Offer, offers
from workbench.panels.table import Style
from workbench.trace.core import Job, Trace
from workbench.trace.open import open_source
from workbench.views.timeline import Timeline

if TYPE_CHECKING:
    from workbench.costs.ceilings import Ceilings
    from workbench.panels.launcher import Launcher

Given = str | Path | Trace | Job


class Explorer(w.VBox):
    """Looks at a run folder, a trace file, an opened `Trace` or `Job`, or the runs of `runs_dir`.

    Without a source it opens the newest run that is done; with a `launcher`, each run that the
    launcher has recorded. `error` is the sentence shown when a run cannot be opened. `state` is set
    when the source is open.
    """

    def __init__(
        self,
        source: Given | None = None,
        *,
        runs_dir: str | Path = "runs",
        launcher: Launcher | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        # as a run names itself: absolute, links kept, so that the two can be compared
        self.runs_dir = Path(os.path.abspath(Path(runs_dir).expanduser()))  # noqa: PTH100
        self._given = self._shown = source
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
        if state is not None:
            self.state = state

    def __repr__(self) -> str:
        """Say what it is and nothing that changes between runs (notebook checks compare it)."""
        return "Explorer()"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return outputs.mimebundle(self, super()._repr_mimebundle_(**kwargs))

    # ---- state ----------------------------------------------------------------------------

    @property
    def is_given(self) -> bool:
        """Whether it was made for one source; the newest run is another on each machine."""
        return self._given is not None

    @property
    def name(self) -> str:
        """What is shown is called."""
        return "the given trace" if self._shown is None else _name(self._shown)

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

    @property
    def state(self) -> dict[str, Any]:
        """All that is chosen, as a dict that JSON can hold; see `panels.state.default`.

        Setting it restores the pane: keys that are left out go to their default, the source stays
        without one. A state with an unknown key, or with what its source does not have, raises
        UsageError (InputError for a source that does not open) and changes nothing.
        """
        return states.default() | {"source": self._path} | outputs.chosen(self)

    @state.setter
    def state(self, wanted: Mapping[str, Any]) -> None:
        whole = states.checked(wanted)
        path = whole["source"]
        is_other = path is not None and not _is_same(path, self._path)
        opened = open_source(path) if is_other else self.source
        if opened is None:
            raise UsageError(f"A state needs a source: {NO_RUN}")
        roofs = run_roofs.recorded(opened) if is_other else self._roofs
        answers = states.answers(whole, opened, roofs)
        timeline = self._timeline_of(answers)
        timeline.check(whole["search"], whole["filter"])
        with links.silent(self):
            if is_other:
                self._take(path, opened)
                self._row.offer(opened)
                self._list(path)
            self._restore(whole, answers, timeline)

    def code(self) -> str:
        """Return the cell that reproduces what is in sight, in plain calls of `workbench`.

        Its variables are the frames of the open tab, named as in `frames`; its value is an explorer
        with this state. Without a source, UsageError.
        """
        if self.source is None or self.answers is None:
            raise UsageError(f"There is nothing to write code for: {self.error or NO_RUN}")
        return code.cell(self.state, self.source, self.answers, self.panes.in_sight)

    def save(self, path: str | Path) -> Path:
        """Write what is in sight, and the other tabs, as one HTML file that is alive offline.

        Timeline, tables and pictures stay linked in it; its figures are those of this state.
        Raises UsageError without a source or for another suffix than .html, InputError where
        nothing can be written.
        """
        return outputs.save(self, Path(path).expanduser())

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
        self._take(source, opened)
        with links.silent(self):
            self._row.offer(opened)
        self._show_source()

    def _take(self, source: Given, opened: Trace | Job) -> None:
        self._shown, self.source, self.error = source, opened, None
        self._roofs = run_roofs.recorded(opened)
        self.__dict__.pop("_path", None)

    @cached_property
    def _path(self) -> str | None:
        """The path that opens what is shown; telling it of an object takes opening it."""
        if self.source is None or self._shown is None:
            return None
        return states.path_of(self._shown)

    def _list(self, path: str) -> None:
        """Show a path as the picked run; one that is no run of the folder is offered as well."""
        listed = next((str(o.path) for o in self._offers if _is_same(path, str(o.path))), None)
        if listed is None:
            self._given = path
            self.refresh()
        self.run.value = listed or GIVEN

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

    def _timeline_of(self, answers: Answers) -> Timeline:
        """Return the picture of the same ranks: the one that is shown, or a new one."""
        shown = () if self.answers is None else self.answers.source.ranks
        if self.timeline is not None and list(map(id, shown)) == list(
            map(id, answers.source.ranks)
        ):
            return self.timeline
        return Timeline(answers.source)

    def _restore(self, state: states.State, answers: Answers, timeline: Timeline) -> None:
        """Set controls, timeline and panes to a state that fits; nothing of it acts by itself."""
        if timeline is not self.timeline:
            self._set_timeline(timeline)
        self._body.layout.display = ""
        self._row.put(state)
        timeline.window = state["view"] or timeline.extent
        timeline.selection = state["selection"] or []
        timeline.selected = state["event"] or {}
        timeline.filter, timeline.search = state["filter"], state["search"]
        self.panes.arrange(state["tab"], state["sort"])
        self._show(answers)
        self.panes.mark(state["rows"])

    def _show_nothing(self, error: str) -> None:
        self.source, self.answers, self.error = None, None, error
        self.__dict__.pop("_path", None)
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

    def _show(self, answers: Answers | None = None) -> None:
        """Answer the choice anew, unless that was done, and refill what is in sight."""
        if self.source is None:
            return
        try:
            self.answers = answers or Answers(self.source, self.choice, self._roofs)
            self._facts.value = text.facts(self.answers.facts)
            self._notes.value = text.notes(self.answers.notes)
            self.panes.show(self.answers)
        except WorkbenchError as error:
            self._show_nothing(str(error))
            return
        self._follow()

    def _regroup(self) -> None:
        """Draw other points in the roofline; all else stays."""
        if self.answers is not None:
            self.answers = self.answers.regrouped(self.by.value, self.convention.value)
            self.panes.regroup(self.answers)

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
            timeline.observe(lambda _: self._on(self._show), "selection")
            timeline.observe(lambda _: self._on(self._follow), "selected")

    # ---- controls -------------------------------------------------------------------------

    def _make_controls(self) -> None:
        self._row = controls = Controls(self.refresh, self.code)
        self.run, self.rank = controls.run, controls.rank
        self.window, self.step = controls.window, controls.step
        self.by, self.convention = controls.by, controls.convention
        self._facts, self._notes, self._details = w.HTML(), w.HTML(), w.HTML()
        self._stage = w.VBox()
        self.panes = Panes(on_row=self._row_clicked, dials={"roofline": controls.roofline})
        self._body = w.VBox([self.panes.breakdown, self._stage, self._details, self.panes.tabs])
        self.run.observe(lambda change: self._on(self._pick, change["new"]), "value")
        self.rank.observe(lambda _: self._on(self._show_source), "value")
        self.window.observe(lambda _: self._on(self._show), "value")
        self.step.observe(lambda _: self._on(self._show), "value")
        for dial in (self.by, self.convention):
            dial.observe(lambda _: self._on(self._regroup), "value")

    def _on(self, act: Any, *arguments: Any) -> None:
        if not self._quiet:
            act(*arguments)

    def _row_clicked(self, table: str, row: int) -> None:
        """Show on the timeline what a row of a table stands for."""
        if not self._quiet and self.timeline is not None and self.answers is not None:
            links.show_row(self.timeline, self.answers, table, row)


def _is_same(path: str, other: str | None) -> bool:
    return other is not None and Path(path).resolve() == Path(other).resolve()


def _name(source: Given) -> str:
    if isinstance(source, (Trace, Job)):
        return source.ranks[0].meta.path.parent.name or "the given trace"
    return Path(source).name
