"""The explorer's controls: which run, rank, window and step its figures are of, in its top row.

Those of the roofline stand in its tab.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w
import polars as pl

from workbench.costs.cost import CONVENTIONS
from workbench.panels.answers import Choice
from workbench.panels.copy import CopyCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from workbench.analysis.window import Range
    from workbench.trace.core import Job, Trace

WINDOWS = (
    ("complete steps", "steps"),
    ("steps but outliers", "steady"),
    ("host step ranges", "host"),
    ("whole trace", "all"),
)
POINTS = (
    ("operator and shapes", "operator"),
    ("operator", "name"),
    ("kind of work", "kind"),
    ("kernel family", "kernel_family"),
    ("module", "module"),
    ("phase", "phase"),
    ("device", "device"),
)
"""Ways to group the points of the roofline: label, `by` of `wb.roofline`."""
ALL, GIVEN, NO_CHOICE = "all", "given", ""
"""Values of the dropdowns that are no rank, step or path; None would be a dropdown's no choice."""


class Controls(w.HBox):
    """Four dropdowns, a button that calls `refresh`, and one that copies `code`."""

    def __init__(self, refresh: Callable[[], None], code: Callable[[], str]) -> None:
        style = {"description_width": "initial"}
        self.run = w.Dropdown(options=[("", NO_CHOICE)], description="run", style=style)
        self.rank = w.Dropdown(options=[(ALL, ALL)], description="rank", style=style)
        self.window = w.Dropdown(options=WINDOWS, description="window", style=style)
        self.step = w.Dropdown(options=[(ALL, ALL)], description="step", style=style)
        self.run.layout = w.Layout(flex="1 1 260px", width="auto", max_width="440px")
        self.window.layout = w.Layout(width="190px")
        self.rank.layout, self.step.layout = w.Layout(width="130px"), w.Layout(width="130px")
        again = w.Button(icon="refresh", tooltip="list the runs again", layout={"width": "36px"})
        again.on_click(lambda _: refresh())
        self.by = w.Dropdown(options=POINTS, description="a point is a", style=style)
        self.convention = w.Dropdown(
            options=list(CONVENTIONS), description="FLOPs by convention", style=style
        )
        self.roofline = w.HBox([self.by, self.convention]).add_class("wb-controls")
        super().__init__([self.run, again, self.rank, self.window, self.step, CopyCode(code)])
        self.add_class("wb-controls")

    def choice(self, within: Range | None) -> Choice:
        """Return what is chosen, with a selected range."""
        return Choice(
            rank=None if self.rank.value == ALL else self.rank.value,
            window=self.window.value,
            step=None if self.step.value == ALL else (self.step.value, self.step.value),
            within=within,
            by=self.by.value,
            convention=self.convention.value,
        )

    def put(self, state: Mapping[str, Any]) -> None:
        """Set them to a state; see `state.DEFAULTS`."""
        self.rank.value = ALL if state["rank"] is None else state["rank"]
        self.step.value = ALL if state["step"] is None else state["step"]
        self.window.value, self.by.value = state["window"], state["roofline_by"]
        self.convention.value = state["convention"]

    def offer(self, source: Trace | Job) -> None:
        """Offer the ranks and steps of a source; what it does not have goes back to all."""
        ranks, steps = offered_ranks(source), offered_steps(source)
        self.rank.options = [(ALL, ALL), *((f"rank {r}", r) for r in ranks)]
        self.step.options = [(ALL, ALL), *((str(k), k) for k in steps)]
        self.rank.value = self.step.value = ALL
        self.rank.layout.display = "" if len(source.ranks) > 1 else "none"


def offered_ranks(source: Trace | Job) -> list[int]:
    """Return the ranks to choose from; none where there is only one."""
    ranks = [t.meta.rank for t in source.ranks if t.meta.rank is not None]
    return ranks if len(ranks) > 1 else []


def offered_steps(source: Trace | Job) -> list[int]:
    """Return the steps to choose from: those that are complete on a device."""
    return source.steps.filter(pl.col("complete"))["step"].unique().sort().to_list()
