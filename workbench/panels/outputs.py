"""How an explorer leaves its notebook: as a page, and as what stands in a saved notebook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError
from workbench.panels import page, text
from workbench.panels.table import NO_ROW
from workbench.views import origin, still
from workbench.views.theme import LIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.panels.explorer import Explorer
    from workbench.views.timeline import Timeline

NO_RUN = "There is no run to show yet: record one, or open a trace with Explorer(path)."
STILL_ROWS = 30
"""Rows of the picture that stands in a notebook without its widgets."""


def mimebundle(explorer: Explorer, found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Add what a notebook shows without its widgets: picture and figures of this moment.

    The figures stand in the text only for a source that was named: the newest run is another on
    each machine, and notebook checks compare texts.
    """
    data, meta = found if isinstance(found, tuple) else (found or {}, {})
    said = [explorer.headline, *explorer.notes] if explorer.is_given else []
    data |= {"text/plain": "\n".join([repr(explorer), *filter(None, said)])}
    if explorer.timeline is None:
        return data, meta
    state = json.dumps(explorer.state | {"source": None, "before": None})
    kept = {"origin": origin.origin(explorer.source), "state": state}
    meta |= {origin.KEY: {"view": "explorer"} | kept}
    return data | {"image/png": _still(explorer, explorer.timeline)}, meta


def _still(explorer: Explorer, timeline: Timeline) -> bytes:
    """Draw headline and timeline as they stand."""
    first, last = timeline.window
    picture = still.draw(timeline.drawn, (first, last), max_rows=STILL_ROWS)
    return picture.below(text.lines([explorer.headline, *explorer.notes]), LIGHT.text).png(1)


def save(explorer: Explorer, path: Path) -> Path:
    """Write an explorer as a page; see `Explorer.save`."""
    if explorer.answers is None or explorer.timeline is None:
        raise UsageError(f"There is nothing to save: {explorer.error or NO_RUN}")
    title = f"Workbench: {explorer.name}"
    return page.write(path, explorer.answers, explorer.timeline, title, _seen(explorer))


def fragment(explorer: Explorer, room: int) -> str:
    """Return an explorer as HTML for a page of `page.around`, of about `room` bytes."""
    if explorer.answers is None or explorer.timeline is None:
        return text.notes(explorer.notes or (NO_RUN,), is_error=True)
    return page.explorer(explorer.answers, explorer.timeline, _seen(explorer), room)


def _seen(explorer: Explorer) -> page.Shown:
    """Return what a page needs to know besides answers and timeline."""
    panes = explorer.panes
    found = {name: panes.row_of(name) for name in panes.tables}
    rows = {name: row for name, row in found.items() if row not in (None, NO_ROW)}
    return page.Shown(panes.tab, rows | panes.rows, panes.sort)
