"""How an explorer leaves its notebook: as a page, and as what stands in a saved notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError
from workbench.panels import page, text
from workbench.views import origin, still
from workbench.views.theme import LIGHT

if TYPE_CHECKING:
    from workbench.panels.answers import Answers
    from workbench.panels.panes import Panes
    from workbench.panels.picker import Picker
    from workbench.trace.core import Job, Trace
    from workbench.views.timeline import Timeline

NO_RUN = "There is no run to show yet: record one, or open a trace with Explorer(path)."
STILL_ROWS = 30
"""Rows of the picture that stands in a notebook without its widgets."""


class Outputs:
    """What an `Explorer` can be written as."""

    answers: Answers | None
    timeline: Timeline | None
    source: Trace | Job | None
    panes: Panes
    error: str | None
    headline: str
    notes: tuple[str, ...]
    name: str
    picker: Picker
    state: dict[str, Any]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Add what a notebook shows without its widgets: picture and figures of this moment.

        The figures stand in the text only for a source that was named: the newest run is another
        on each machine, and notebook checks compare texts.
        """
        found = super()._repr_mimebundle_(**kwargs)
        data, meta = found if isinstance(found, tuple) else (found or {}, {})
        said = [self.headline, *self.notes] if self.picker.given is not None else []
        data |= {"text/plain": "\n".join([repr(self), *filter(None, said)])}
        if self.timeline is None or self.answers is None:
            return data, meta
        state = json.dumps(self.state | {"source": None, "before": None})
        remembered = {"view": "explorer", "origin": origin.origin(self.source), "state": state}
        return data | {"image/png": self._still()}, meta | {origin.KEY: remembered}

    def _still(self) -> bytes:
        """Draw headline and timeline as they stand."""
        assert self.timeline is not None
        first, last = self.timeline.window
        picture = still.draw(self.timeline.drawn, (first, last), max_rows=STILL_ROWS)
        return picture.below(text.lines([self.headline, *self.notes]), LIGHT.text).png(1)

    def save(self, path: str | Path) -> Path:
        """Write what is in sight, and the other tabs, as one HTML file that is alive offline.

        Timeline, tables and pictures stay linked in it; its figures are those of this state.
        Raises UsageError without a source or for another suffix than .html, InputError where
        nothing can be written.
        """
        if self.answers is None or self.timeline is None:
            raise UsageError(f"There is nothing to save: {self.error or NO_RUN}")
        title = f"Workbench: {self.name}"
        target = Path(path).expanduser()
        return page.write(target, self.answers, self.timeline, title, self._seen)

    @property
    def _seen(self) -> page.Shown:
        """What a page needs to know besides answers and timeline."""
        return page.Shown(self.panes.tab, self.panes.rows, self.panes.sort)

    def fragment(self, room: int) -> str:
        """Return it as HTML for a page of `panels.page.around`, of about `room` bytes."""
        if self.answers is None or self.timeline is None:
            return text.notes(self.notes or (NO_RUN,), is_error=True)
        return page.explorer(self.answers, self.timeline, self._seen, room)
