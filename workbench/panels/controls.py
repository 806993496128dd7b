"""The explorer's controls: which run, and which part of it the figures are of, in its top rows.

Those of the roofline stand in its tab.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w
import polars as pl

from workbench.costs.cost import CONVENTIONS
from workbench.panels.choice import Choice
from workbench.panels.copy import CopyCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from workbench.analysis.only import Only
    from workbench.analysis.window import Range
    from workbench.panels.chips import Chips
    from workbench.panels.opener import Opener
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


class Controls(w.VBox):
    """Two rows of controls and one of chips.

    The first row is about sources: the run, a path to open, the run to compare with. The second is
    about what is looked at of the run. `refresh` lists the runs again, `code` is what is copied.
    """

    def __init__(
        self, opener: Opener, chips: Chips, refresh: Callable[[], None], code: Callable[[], str]
    ) -> None:
        self.run = _dropdown([("", NO_CHOICE)], "run", flex="1 1 260px", max_width="440px")
        self.before = _dropdown([("no run", NO_CHOICE)], "compare with", flex="1 1 240px",
                                max_width="380px")  # fmt: skip
        self.rank = _dropdown([(ALL, ALL)], "rank", width="130px")
        self.device = _dropdown([(ALL, ALL)], "device", width="140px")
        self.window = _dropdown(WINDOWS, "window", width="190px")
        self.step = _dropdown([(ALL, ALL)], "step", width="120px")
        self.until = _dropdown([(ALL, ALL)], "to", width="100px")
        self.until.layout.display = "none"
        again = w.Button(description="↻", tooltip="list the runs again", layout={"width": "36px"})
        again.on_click(lambda _: refresh())
        self.by = _dropdown(POINTS, "a point is a")
        self.convention = _dropdown(list(CONVENTIONS), "FLOPs by convention")
        self.roofline = _row(self.by, self.convention)
        self.step.observe(lambda _: self._follow(), "value")
        super().__init__([
            _row(self.run, again, opener, self.before),
            _row(self.rank, self.device, self.window, self.step, self.until, CopyCode(code)),
            chips,
        ])  # fmt: skip

    def choice(self, within: Range | None, stretch: str, only: Only) -> Choice:
        """Return what is chosen, with a selected range and part of the work."""
        return Choice(
            rank=None if self.rank.value == ALL else self.rank.value,
            device=None if self.device.value == ALL else self.device.value,
            window=self.window.value,
            step=self.steps,
            within=within,
            stretch=stretch if within is not None else "",
            only=only,
            by=self.by.value,
            convention=self.convention.value,
        )

    @property
    def steps(self) -> tuple[int, int] | None:
        """The first and last step that are chosen; a last before the first is the first."""
        if self.step.value == ALL:
            return None
        return (self.step.value, max(self.step.value, self.until.value))

    @steps.setter
    def steps(self, steps: tuple[int, int] | None) -> None:
        self.step.value = ALL if steps is None else steps[0]
        if steps is not None:
            self.until.value = steps[1]

    def put(self, state: Mapping[str, Any]) -> None:
        """Set them to a state; see `state.default`."""
        self.rank.value = ALL if state["rank"] is None else state["rank"]
        self.device.value = ALL if state["device"] is None else state["device"]
        step = state["step"]
        self.steps = (step, step) if isinstance(step, int) else step and tuple(step)
        self.window.value, self.by.value = state["window"], state["roofline_by"]
        self.convention.value = state["convention"]

    def offer(self, source: Trace | Job) -> None:
        """Offer the ranks, devices and steps of a source, all of each."""
        ranks, steps, devices = (f(source) for f in (offered_ranks, offered_steps, offered_devices))
        self.rank.options = [(ALL, ALL), *((f"rank {r}", r) for r in ranks)]
        self.device.options = [(ALL, ALL), *((f"device {d}", d) for d in devices)]
        self.step.options = [(ALL, ALL), *((str(k), k) for k in steps)]
        self.until.options = [(str(k), k) for k in steps] or [(ALL, ALL)]
        self.rank.value = self.step.value = self.device.value = ALL
        for control, several in ((self.rank, ranks), (self.device, devices)):
            control.layout.display = "" if several else "none"

    def _follow(self) -> None:
        """Let the last step begin where the first is; it shows once there is a first."""
        chosen = self.step.value != ALL
        self.until.layout.display = "" if chosen and len(self.until.options) > 1 else "none"
        if chosen:
            self.until.value = self.step.value


def _dropdown(options: Any, label: str, **layout: str) -> w.Dropdown:
    layout = {"width": "auto"} | layout
    style = {"description_width": "initial"}
    return w.Dropdown(options=options, description=label, style=style, layout=layout)


def _row(*widgets: w.Widget) -> w.HBox:
    return w.HBox(widgets).add_class("wb-controls")


def offered_ranks(source: Trace | Job) -> list[int]:
    """Return the ranks to choose from; none where there is only one."""
    ranks = [t.meta.rank for t in source.ranks if t.meta.rank is not None]
    return ranks if len(ranks) > 1 else []


def offered_devices(source: Trace | Job) -> list[int]:
    """Return the devices to choose from: of ranks that have several; none where none has."""
    several: set[int] = set()
    for trace in source.ranks:
        found = trace.activities["device"].drop_nulls().unique().to_list()
        several |= set(found) if len(found) > 1 else set()
    return sorted(several)


def offered_steps(source: Trace | Job) -> list[int]:
    """Return the steps to choose from: those that are complete on a device."""
    return source.steps.filter(pl.col("complete"))["step"].unique().sort().to_list()
