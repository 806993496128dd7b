"""What a run folder says beside its traces: roofs, overhead, remarks, work of a step, power."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from workbench.capture import overhead, power, remarks
from workbench.costs import run_roofs, step_work

if TYPE_CHECKING:
    from workbench.capture.overhead import Overhead
    from workbench.capture.power import Power
    from workbench.capture.remarks import Remarks
    from workbench.costs.ceilings import Ceilings
    from workbench.costs.step_work import StepWork
    from workbench.trace.core import Job, Trace


class Beside:
    """Read when it is first asked for, and once: what compares equal is then the same object."""

    def __init__(self, source: Trace | Job) -> None:
        self.source = source

    @cached_property
    def ceilings(self) -> Ceilings | None:
        """Roofs of the machine that recorded the run."""
        return run_roofs.recorded(self.source)

    @cached_property
    def overhead(self) -> Overhead | None:
        """What profiling cost."""
        return overhead.recorded(self.source.ranks[0].meta.path.parent)

    @cached_property
    def remarks(self) -> Remarks:
        """How its recording went."""
        return remarks.recorded(self.source.ranks[0].meta.path.parent)

    @cached_property
    def work(self) -> StepWork | None:
        """Tokens, samples and shape of a step on one rank."""
        return step_work.recorded(self.source)

    @cached_property
    def power(self) -> Power:
        """Power that was sampled while the run was recorded."""
        return power.recorded(self.source.ranks[0].meta.path.parent)
