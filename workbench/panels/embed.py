"""Views of a notebook as parts of a page: from the widget itself, or from what an output remembers.

`alive` takes a widget of this process; `remembered` reads what a view left in the metadata of its
output, opens its recording again, and runs no code of the notebook.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ipywidgets as w

from workbench.errors import WorkbenchError
from workbench.panels import outputs, page
from workbench.panels.explorer import Explorer
from workbench.panels.table import Table
from workbench.views import html, origin
from workbench.views.figure import Figure
from workbench.views.timeline import Timeline

LEAST_HEIGHT = 100


def alive(widget: w.Widget, room: int = html.MAX_BYTES) -> str | None:
    """Return the HTML of a view for `page.around`, of about `room` bytes; None for other widgets.

    Boxes of views are views as well; what else they hold is left out.
    """
    if isinstance(widget, Timeline):
        return f'<div class="wb-page-timeline">{html.fragment(widget, room)}</div>'
    if isinstance(widget, Explorer):
        return outputs.fragment(widget, room)
    if isinstance(widget, Figure):
        return page.picture(widget.draw, max(widget.height, LEAST_HEIGHT))
    if isinstance(widget, Table):
        return f'<div class="wb-panel"><div class="wb-table-box">{widget.html}</div></div>'
    if isinstance(widget, w.Box):
        parts = [alive(child, room // max(len(widget.children), 1)) for child in widget.children]
        return "".join(part for part in parts if part is not None) or None
    return None


def remembered(metadata: Mapping[str, Any], folder: Path, room: int) -> str | None:
    """Return the HTML of a view that an output shows; None where the output has none.

    Raises
    ------
    WorkbenchError
        The recording is gone or another, or the view can't be made of it.
    """
    kept = metadata.get(origin.KEY)
    if not isinstance(kept, Mapping) or not isinstance(kept.get("origin"), Mapping):
        return None
    source = origin.reopen(kept["origin"], folder)
    try:
        state = json.loads(kept.get("state", "{}"))
        made = _MAKERS[kept["view"]](source, state)
    except (KeyError, TypeError, ValueError) as error:
        raise WorkbenchError(f"what it remembers can't be read ({error})") from None
    return alive(made, room)


def write_alive(path: str, models: list[str], room: int) -> None:
    """Write {id of a model: its HTML} of this process's widgets; `notebook.export` asks for it."""
    known: Mapping[str, w.Widget] = w.widget._instances  # noqa: SLF001 - ipywidgets has no other way
    found = {k: alive(known[k], room) for k in models if k in known}
    Path(path).write_text(json.dumps(found), encoding="utf-8")


def _timeline(source: Any, state: dict[str, Any]) -> Timeline:
    timeline = Timeline(source)
    selected = state.pop("selected", {})
    timeline.set_state(state)
    timeline.selected = selected
    return timeline


def _explorer(source: Any, state: dict[str, Any]) -> Explorer:
    return Explorer(source, state=state)


_MAKERS = {"timeline": _timeline, "explorer": _explorer}
