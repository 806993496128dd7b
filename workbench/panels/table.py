"""A table in the page: sorts when a heading is clicked, scrolls to the selected row, tells clicks.

Shows what `views.tables.html_table` wrote. The front end keeps order and scroll while rows change.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anywidget
import traitlets as t

from workbench.views.tables import html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from workbench.views.tables import Column

HERE = Path(__file__).parent
NO_ROW = -1


class Style(anywidget.AnyWidget):
    """The look of all panels; shows nothing itself."""

    _esm = "export default { render() {} }"
    _css = (HERE / "panels.css").read_text("utf-8")

    def __init__(self) -> None:
        super().__init__()
        self.layout.display = "none"

    def __repr__(self) -> str:
        return "Style()"


class Table(anywidget.AnyWidget):
    """A frame as a table; `selected` is a row number of the frame, or -1.

    `order` is {"column", "down"} of the heading that it is sorted by, or {}: the frame's own order.
    """

    _esm = (HERE / "table.js").read_text("utf-8")
    html = t.Unicode().tag(sync=True)
    selected = t.Int(NO_ROW).tag(sync=True)
    order = t.Dict().tag(sync=True)

    def __init__(self, columns: Sequence[Column], *, name: str, nothing: str = "") -> None:
        super().__init__()
        self.columns, self.name, self.nothing = columns, name, nothing or "No rows in this window."

    def __repr__(self) -> str:
        """Name the table and nothing that changes between runs (notebook checks compare it)."""
        return f"Table({self.name})"

    def show(self, frame: pl.DataFrame, selected: int = NO_ROW) -> None:
        """Show a frame, with a row selected."""
        self.selected = NO_ROW
        row = None if selected == NO_ROW else selected
        self.html = html_table(frame, self.columns, selected=row, nothing=self.nothing)
        self.selected = selected
