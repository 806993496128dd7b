"""The part of the timeline widget that says what the selected range holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traitlets as t

from workbench.views import measure

if TYPE_CHECKING:
    import polars as pl

    from workbench.views.lanes import Lanes


class Measured(t.HasTraits):
    """Counts and busy times of a stretch."""

    measured = t.Dict().tag(sync=True)
    """What the front end shows of `selection`: `measure.card`."""

    data: Lanes
    window: list[int]
    selection: list[int]

    def measure(self, window: tuple[int, int] | None = None) -> pl.DataFrame:
        """Return `part events busy_ns share` of what devices did, over a stretch as `table` has it.

        Parts: compute, communication, exposed communication, copy and idle; see `measure.measure`.
        Events that `filter` hides count too.
        """
        a, b = window or self.selection or self.window
        return measure.measure(self.data, a, b)

    @t.observe("selection")  # type: ignore[untyped-decorator]
    def _measure(self, _: object) -> None:
        self.measured = measure.card(self.data, self.selection)
