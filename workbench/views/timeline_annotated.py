"""The part of the timeline widget that people write on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import traitlets as t

from workbench.views import timeline_traits as traits
from workbench.views.lanes import Lanes
from workbench.views.timeline_notes import Noted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.trace.core import Source


class Annotated(t.HasTraits):
    """Notes kept with what the timeline shows, and spans set in Python."""

    annotations = t.List(t.Dict()).tag(sync=True)
    """What is drawn: spans set in Python, and the notes that have a place in time (with `id`)."""
    keeping = t.Dict().tag(sync=True)
    """Of notes: `editable`, `said` (where they are kept, or why they can't be), `changes`."""
    noted: Noted
    """The notes: `edit`, `remove`, `reread`, and their `book`."""

    def annotate(
        self,
        name: str,
        text: str = "",
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        at_ns: int | None = None,
        colour: str | None = None,
        tag: str | None = None,
        **about: Any,
    ) -> str:
        """Add a note, kept with the source where that lies in a file; return its id.

        About a stretch (`start_ns`, `end_ns`), a moment (`at_ns`), both in the source's time and of
        one `rank` if given; an `event`, as `selected` has it; every `kernel` or `operator` of a
        name. Of nothing of these: the selected event, else the selection. `colour` is `#rrggbb`.

        Raises
        ------
        UsageError
            The source does not have it, or a value is out of bounds.
        InputError
            Notes can't be read or written; the sentence says what to do.
        """
        if start_ns is not None or end_ns is not None:
            about["span"] = [start_ns, end_ns]
        if at_ns is not None:
            about["at"] = at_ns
        target = self.noted.target(**about) if about else None
        return self.noted.add(name, text, target, colour=colour, tag=tag)

    def _read_notes(self, source: Source | Lanes | pl.DataFrame) -> None:
        traced = None if isinstance(source, (Lanes, pl.DataFrame)) else source
        self.noted = Noted(self, traced)

    @t.validate("annotations")  # type: ignore[untyped-decorator]
    def _exact(self, proposal: Mapping[str, Any]) -> list[dict[str, Any]]:
        return traits.spans(proposal["value"])
