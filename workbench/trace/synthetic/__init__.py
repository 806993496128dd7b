"""Generated GPU traces of a small training step, together with their exact answers.

`generate(SyntheticSpec())` makes the schedule; `.write(folder)` writes one file a rank in the
PyTorch profiler's format, marked as generated; `.answers` holds what every analysis must return.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.trace import collector
from workbench.trace.synthetic import faults, solve, writer
from workbench.trace.synthetic.answers import Answers
from workbench.trace.synthetic.program import Program, simulate
from workbench.trace.synthetic.spec import Gaps, SyntheticSpec

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Answers", "Gaps", "Synthetic", "SyntheticSpec", "generate"]


@dataclass(frozen=True)
class Synthetic:
    """A generated run."""

    spec: SyntheticSpec
    programs: tuple[Program, ...]

    @cached_property
    def answers(self) -> Answers:
        """Compute the exact answers from the schedule; absolute times are ns since 1970."""
        with collector.paused():
            return solve.answers(self.programs)

    def write(self, folder: Path, *, answers: bool = False) -> list[Path]:
        """Write `rank0.trace.json.gz`, … and, when asked, `answers.json`; return the traces."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"rank{program.rank}.trace.json.gz" for program in self.programs]
        for program, path in zip(self.programs, paths, strict=True):
            writer.write(program, path)
        if answers:
            (folder / "answers.json").write_text(self.answers.to_json())
        return paths


def generate(spec: SyntheticSpec | None = None) -> Synthetic:
    """Generate the run that a specification describes; the same one every time."""
    spec = spec or SyntheticSpec()
    with collector.paused():
        programs = simulate(spec)
    faults.apply(programs[0], spec.faults)
    return Synthetic(spec, tuple(programs))
