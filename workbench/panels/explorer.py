"""`Explorer`: where the time of a run goes, in linked panes.

Controls make a `Choice`, `Answers` turns it into frames, panes show them. A pane in a tab is
filled when the tab is opened. Everything shown can be read and set from Python: `state`, all of it
at once; `load()`, `compare_with()`, `choose()`, `select()`, `clear()`, `timeline.selected`,
`timeline.selection`; `frames`, `headline`, `selected_text`, `notes`, `details`. `code()` is the
cell that reproduces what is in sight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.analysis.only import Only
from workbench.errors import UsageError, WorkbenchError
from workbench.panels import code, links, opened, outputs, text
from workbench.panels import state as states
from workbench.panels.chips import Chips
from workbench.panels.controls import ALL, NO_CHOICE, Controls
from workbench.panels.opened import Given, Opened
from workbench.panels.opener import Opener
from workbench.panels.outputs import NO_RUN
from workbench.panels.picker import Picker
from workbench.panels.shown import Shown
from workbench.panels.table import NO_ROW

if TYPE_CHECKING:
    from workbench.panels.launcher import Launcher


class Explorer(Shown):
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
        self.opener, chips = Opener(self.open_path, self._say), Chips(self.clear)
        controls = Controls(self.opener, chips, self.refresh, self.code)
        super().__init__(controls, chips, on_row=self._row_clicked, on_drawn=self._drawn)
        self.run, self.rank = controls.run, controls.rank
        self.window, self.step = controls.window, controls.step
        self.by, self.convention = controls.by, controls.convention
        self.picker = Picker(controls, runs_dir, source)
        self._watch(controls)
        self.refresh()
        if launcher is not None:
            launcher.follow(self._recorded)
        self._open_first()
        if state is not None:
            self.state = state

    def __repr__(self) -> str:
        """Say what it is and nothing that changes between runs (notebook checks compare it)."""
        return "Explorer()"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return outputs.mimebundle(self, super()._repr_mimebundle_(**kwargs))

    def code(self) -> str:
        """Return the cell that reproduces what is in sight, in plain calls of `workbench`.

        Its variables are the frames of the open tab, named as in `frames`; its value is an explorer
        with this state. Without a source, UsageError.
        """
        if self.opened is None or self.answers is None:
            raise UsageError(f"There is nothing to write code for: {self.error or NO_RUN}")
        return code.cell(self.state, self.opened.source, self.answers, self.panes.in_sight)

    @property
    def state(self) -> dict[str, Any]:
        """All that is chosen, as a dict that JSON can hold; see `panels.state.default`.

        Setting it restores the pane: keys that are left out go to their default, the source stays
        without one. A state with an unknown key, or with what its source does not have, raises
        UsageError (InputError for a source that does not open) and changes nothing.
        """
        return states.read(self)

    @state.setter
    def state(self, wanted: Mapping[str, Any]) -> None:
        whole = states.checked(wanted)
        shown = _open_as(whole["source"], self.opened) or self.opened
        if shown is None:
            raise UsageError(f"A state needs a source: {NO_RUN}")
        before = _open_as(whole["before"], self.before)
        answers = states.answers(whole, shown, before)
        timeline = self._timeline_of(answers)
        timeline.check(whole["search"], whole["filter"])
        with links.silent(self):
            if shown is not self.opened:
                self._take(shown)
            if whole["source"] is not None:
                self.controls.run.value = self.picker.entry(whole["source"])
            self._take_before(before)
            self._restore(whole, answers, timeline)

    @property
    def name(self) -> str:
        """What is shown is called."""
        return "" if self.opened is None else opened.name(self.opened.given)

    @property
    def is_given(self) -> bool:
        """Whether it was made for one source; the newest run is another on each machine."""
        return self.picker.given is not None

    def save(self, path: str | Path) -> Path:
        """Write what is in sight, and the other tabs, as one HTML file that is alive offline.

        Timeline, tables and pictures stay linked in it; its figures are those of this state.
        Raises UsageError without a source or for another suffix than .html, InputError where
        nothing can be written.
        """
        return outputs.save(self, Path(path).expanduser())

    # ---- what a person does ---------------------------------------------------------------

    def load(self, source: Given) -> None:
        """Show another run, trace file, `Trace` or `Job`; a broken one shows its sentence."""
        self._facts.value = text.waiting(opened.name(source))
        self.error = None
        try:
            shown = Opened(source)
        except WorkbenchError as error:
            self._show_nothing(self.picker.reason(source) or str(error))
            return
        self._take(shown)
        self._show_source()

    def open_path(self, path: str) -> None:
        """Show what a path opens to, and offer it among the runs; a wrong one says what is wrong.

        What is shown stays when the path can't be opened.
        """
        try:
            shown = Opened(Path(path).expanduser())
        except (WorkbenchError, OSError) as error:
            self._say(str(error))
            return
        with links.silent(self):
            self.controls.run.value = self.picker.entry(str(Path(path).expanduser()))
        self._take(shown)
        self._show_source()

    def compare_with(self, path: str | Path | None) -> None:
        """Compare what is shown with another run, which stands for what was before; None: none."""
        self.controls.before.value = NO_CHOICE if path is None else self.picker.entry(str(path))

    def choose(
        self,
        *,
        rank: int | None = None,
        device: int | None = None,
        window: str = "steps",
        step: int | tuple[int, int] | None = None,
    ) -> None:
        """Set the controls at once; a value that is not offered raises UsageError."""
        first, last = (step, step) if not isinstance(step, tuple) else step
        controls = self.controls
        links.set_option(controls.rank, "rank", ALL if rank is None else rank)
        links.set_option(controls.device, "device", ALL if device is None else device)
        links.set_option(controls.window, "window", window)
        links.set_option(controls.step, "step", ALL if first is None else first)
        if last is not None:
            links.set_option(controls.until, "step", last)

    def annotate(self, name: str, text: str = "", **about: Any) -> str:
        """Add a note on what is selected, or on `about`; see `Timeline.annotate`."""
        if self.timeline is None:
            raise UsageError(f"There is nothing to note on: {self.error or NO_RUN}")
        return self.timeline.annotate(name, text, **about)

    def select(self, **part: Any) -> None:
        """Choose a part of the work, beside what is chosen: arguments of `wb.Only`."""
        self._select(replace(self.only, **part))

    def clear(self, kind: str = "") -> None:
        """Leave what is selected: a kernel, operator, module, point, step or within; "" is all."""
        with links.silent(self):
            if self.timeline is not None and kind in ("", "within"):
                self.timeline.selection = []
                self._stretch = ""
            if kind in ("", "step"):
                self.controls.step.value = ALL
            if not kind:
                self.only = Only()
            elif kind not in ("step", "within"):
                self.only = self.only.without(kind)
            if self.timeline is not None and not kind:
                self.timeline.selected = {}
        self._show()

    def refresh(self) -> None:
        """List the runs of the folder again, and read the notes again; what is shown stays."""
        if self.timeline is not None:
            self.timeline.noted.reread()
        with links.silent(self):
            self.picker.refresh()

    # ---- opening --------------------------------------------------------------------------

    def _take(self, shown: Opened) -> None:
        self.opened, self.error, self.only = shown, None, Only()
        with links.silent(self):
            self.controls.offer(shown.source)

    def _take_before(self, before: Opened | None) -> None:
        self.before = before
        path = None if before is None else before.path
        self.controls.before.value = NO_CHOICE if path is None else self.picker.entry(path)

    def _open_first(self) -> None:
        if self.picker.first == NO_CHOICE:
            self._show_nothing(NO_RUN)
        else:
            self._pick(self.picker.first)

    def _pick(self, value: str) -> None:
        """Show an entry of the picker."""
        with links.silent(self):
            self.controls.run.value = value
        if value != NO_CHOICE:
            self.load(self.picker.source(value))

    def _pick_before(self, value: str) -> None:
        """Compare with an entry of the picker."""
        try:
            self.before = None if value == NO_CHOICE else Opened(self.picker.source(value))
        except WorkbenchError as error:
            self.before = None
            self._say(self.picker.reason(value) or str(error))
            with links.silent(self):
                self.controls.before.value = NO_CHOICE
        if self.answers is not None:
            self._show(self.answers.against(None if self.before is None else self.before.source))
            if self.before is not None:
                self.panes.open("Comparison")

    def _recorded(self, path: str) -> None:
        """Show a run that a launcher has just recorded; one that failed is only listed."""
        self.refresh()
        if self.picker.is_whole(path):
            self._pick(path)

    # ---- acting ---------------------------------------------------------------------------

    def _watch(self, controls: Controls) -> None:
        controls.run.observe(lambda change: self._on(self._pick, change["new"]), "value")
        controls.before.observe(lambda change: self._on(self._pick_before, change["new"]), "value")
        controls.rank.observe(lambda _: self._on(self._show_source), "value")
        self.by.observe(lambda _: self._on(self.clear, "point"), "value")
        for control in (controls.device, self.window, self.step, controls.until, self.convention):
            control.observe(lambda _: self._on(self._change), "value")

    def _drawn(self) -> None:
        """Follow a range that was drawn on the timeline."""
        self._stretch = ""
        self._change()

    def _select(self, part: Only) -> None:
        self.only = part
        self._change()

    def _row_clicked(self, table: str, row: int) -> None:
        """Choose and show what a row of a table stands for; leave it when it is clicked again."""
        if self._quiet or self.timeline is None or self.answers is None:
            return
        if row == NO_ROW:
            self._row_left(table)
            return
        done = links.act(self.answers, table, row)
        with links.silent(self):
            if done.only:
                self.only = _beside(self.only, done.only)
            if done.within is not None:
                self._stretch, self.timeline.selection = table, list(done.within)
            if done.step is not None:
                self._choose_step(done.step)
            if done.window is not None:
                self.timeline.window = done.window
            self.timeline.selected = done.event or ({} if done.window else self.timeline.selected)
            if done.note:
                self.timeline.noted.bring(done.note)
        self._show()
        if self.answers is not None:
            self.panes.mark({table: row})  # of several rows alike the one that was clicked
            self.note_form.follow()

    def _choose_step(self, step: int) -> None:
        """Choose a step, in place of a range; the window is made of steps then."""
        assert self.timeline is not None
        self.timeline.selection, self._stretch = [], ""
        self.controls.steps = (step, step)
        if self.window.value == "all":
            self.window.value = "steps"

    def _row_left(self, table: str) -> None:
        assert self.timeline is not None
        kind = links.chosen_in(table)
        if kind == "within" and self._stretch != table:
            return
        if kind:
            with links.silent(self):
                self.timeline.selected = {}
            self.clear(kind)


def _beside(chosen: Only, more: Mapping[str, Any]) -> Only:
    """Add a choice to a part of the work; what was chosen on another rank gives way."""
    rank = more.get("rank")
    if rank is not None and chosen.rank not in (None, rank):
        chosen = Only()
    return replace(chosen, **more)


def _open_as(path: str | None, shown: Opened | None) -> Opened | None:
    """Return what a path opens to, which may be open already; None without a path."""
    if path is None:
        return None
    if shown is not None and opened.is_same(path, shown.path):
        return shown
    return Opened(path)
