"""What part of a source to look at: a `Choice`, and what it says in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench import units
from workbench.analysis.only import Only

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.analysis.window import Range

KINDS = ("kernel", "operator", "module", "point")
"""Parts of the work that can be chosen, a row of a table each."""
STRETCHES = {"idle": "gap", "collectives": "collective", "exposed": "exposed communication"}
"""Tables whose rows are stretches of time, and what such a row is called."""
LONGEST_NAME = 48


class Chip(NamedTuple):
    """One thing that is chosen and narrows what is shown."""

    key: str
    """kernel, operator, module, point, step or within."""
    text: str


@dataclass(frozen=True)
class Choice:
    """What part of a source to look at."""

    rank: int | None = None
    """One rank; None is all of them."""
    device: int | None = None
    """One device of each rank; None is all of them."""
    window: str = "steps"
    step: tuple[int, int] | None = None
    """First and last step, of a window made of steps."""
    within: Range | None = None
    """A stretch of the chosen ranks' time; it stands in place of window and step."""
    stretch: str = ""
    """The table of `STRETCHES` in which `within` was chosen; "" when it was drawn."""
    only: Only = field(default_factory=Only)
    """The part of the work that is looked at alone."""
    by: str = "operator"
    """How the roofline groups its points."""
    convention: str = "default"
    """How the roofline counts FLOPs."""

    def narrowing(self, own: str, *, takes_range: bool) -> dict[str, Any]:
        """Return options for an analysis, without the choice that is made in its own table.

        `own` is one of `KINDS`, `STRETCHES`, or "".
        """
        found: dict[str, Any] = {"device": self.device}
        if self.within is not None and takes_range and own != (self.stretch or None):
            found |= {"window": "all", "within": self.within}
        else:
            found |= {"window": self.window, "step": self.acting_step}
        only = self.only.without(own) if own in KINDS else self.only
        return found | {"only": only or None}

    @property
    def acting_step(self) -> tuple[int, int] | None:
        """The steps, where the window is made of some."""
        return None if self.window == "all" else self.step

    def chips(self) -> Iterator[Chip]:
        """Say what is chosen and narrows: parts of the work, and steps or a range of time."""
        where = "" if self.only.rank is None else f" on rank {self.only.rank}"
        for kind in KINDS:
            value = getattr(self.only, kind)
            if value is not None:
                yield Chip(kind, _part(kind, value) + where)
        if self.within is not None:
            yield Chip("within", _range(self.within, self.stretch))
        elif self.acting_step is not None:
            yield Chip("step", _steps(*self.acting_step))

    def unheeded(self, taken: set[str], own: str) -> list[str]:
        """Name what is chosen that an analysis with these options can't be narrowed to."""
        takes = {"within": "within", "step": "step"} | dict.fromkeys(KINDS, "only")
        mine = {own} | ({"within"} if self.stretch and own == self.stretch else set())
        found = [c.text for c in self.chips() if takes[c.key] not in taken and c.key not in mine]
        if self.device is not None and "device" not in taken:
            found.append(f"device {self.device}")
        return found


def _part(kind: str, value: Any) -> str:
    if kind == "point":
        by, name, shapes = value
        text = " ".join(str(x) for x in (name or "no name", shapes) if x)
        return f"{'operator' if by == 'name' else by.replace('_', ' ')} {shortened(text)}"
    if kind == "module" and not value:
        return "work of no module"
    return f"{kind} {shortened(value)}"


def shortened(text: str) -> str:
    """Cut a long name in its middle."""
    if len(text) <= LONGEST_NAME:
        return text
    head = LONGEST_NAME * 2 // 3
    return f"{text[:head]}…{text[len(text) - (LONGEST_NAME - head - 1) :]}"


def _steps(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _range(within: Range, stretch: str) -> str:
    start, end = within
    if stretch:
        at = units.duration(start)
        return f"{STRETCHES[stretch]} of {units.duration(end - start)} at {at}"
    return between(start, end)


def between(start_ns: int, end_ns: int) -> str:
    """Write a stretch of time so that its ends differ: 12.31 to 14.1 ms."""
    scale, unit = next(((s, u) for s, u in units.TIME_UNITS if abs(end_ns) >= s), (1, "ns"))
    digits = next(
        (n for n in range(10) if round(start_ns / scale, n) != round(end_ns / scale, n)), 9
    )
    a, b = (f"{t / scale:.{min(digits + 2, 9)}f}" for t in (start_ns, end_ns))
    return f"{a} to {b} {unit}" if scale > 1 else f"{start_ns} to {end_ns} ns"
