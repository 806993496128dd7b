"""The explorer's top row: which run, rank, window and step its figures are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w
import polars as pl

from workbench.panels.answers import Choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.analysis.window import Range
    from workbench.trace.core import Job, Trace

WINDOWS = (
    ("complete steps", "steps"),
    ("steps but outliers", "steady"),
    ("host step ranges", "host"),
    ("whole trace", "all"),
)
ALL, GIVEN, NO_CHOICE = "all", "given", ""
"""Values of the dropdowns that are no rank, step or path; None would be a dropdown's no choice."""


class Controls(w.HBox):
    """Four dropdowns and a button that calls `refresh`."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        style = {"description_width": "initial"}
        self.run = w.Dropdown(options=[("", NO_CHOICE)], description="run", style=style)
        self.rank = w.Dropdown(options=[(ALL, ALL)], description="rank", style=style)
        self.window = w.Dropdown(options=WINDOWS, description="window", style=style)
        self.step = w.Dropdown(options=[(ALL, ALL)], description="step", style=style)
        self.run.layout = w.Layout(width="440px", max_width="100%")
        self.window.layout = w.Layout(width="190px")
        self.rank.layout, self.step.layout = w.Layout(width="130px"), w.Layout(width="130px")
        again = w.Button(icon="refresh", tooltip="list the runs again", layout={"width": "36px"})
        again.on_click(lambda _: refresh())
        super().__init__([self.run, again, self.rank, self.window, self.step])
        self.add_class("wb-controls")

    def choice(self, within: Range | None) -> Choice:
        """Return what is chosen, with a selected range."""
        return Choice(
            rank=None if self.rank.value == ALL else self.rank.value,
            window=self.window.value,
            step=None if self.step.value == ALL else (self.step.value, self.step.value),
            within=within,
        )

    def offer(self, source: Trace | Job) -> None:
        """Offer the ranks and steps of a source; what it does not have goes back to all."""
        ranks = [t.meta.rank for t in source.ranks]
        complete = source.steps.filter(pl.col("complete"))["step"].unique().sort()
        several = [(f"rank {r}", r) for r in ranks if r is not None]
        self.rank.options = [(ALL, ALL), *(several if len(several) > 1 else ())]
        self.step.options = [(ALL, ALL), *((str(k), k) for k in complete)]
        self.rank.value = self.step.value = ALL
        self.rank.layout.display = "" if len(ranks) > 1 else "none"
