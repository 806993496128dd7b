"""The pieces of a tab of the explorer: a sentence, then a picture or a table of one frame."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from workbench.panels.answers import Answers
    from workbench.panels.headline import Fact
    from workbench.views.tables import Column

NOTHING = "No rows in this window."


@dataclass(frozen=True, kw_only=True)
class Part:
    """What shows one frame of an `Answers`."""

    frame: str
    said: str | Callable[[Answers], str] = ""
    """How to read it, above it."""
    nothing: str = NOTHING
    """What to say when the frame is empty, though the recording has what it needs."""
    when: Callable[[Answers], bool] = lambda _: True
    """Whether it is there at all."""


@dataclass(frozen=True, kw_only=True)
class Picture(Part):
    """A frame as a picture."""

    name: str
    view: str
    """Module of `workbench.views` and function, as in `gaps.histogram`."""
    height: int
    """Room kept free in pixels until it is drawn."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, frame: pl.DataFrame, *, theme: str, width: int) -> Any:
        """Return it as a HoloViews object of this width in pixels."""
        # HoloViews takes most of a second to import, so it waits until a picture is asked for
        module, _, function = self.view.partition(".")
        view = getattr(importlib.import_module(f"workbench.views.{module}"), function)
        return view(frame, theme=theme, width=width, **self.options)


@dataclass(frozen=True, kw_only=True)
class Rows(Part):
    """A frame as a table; it has the name of its frame."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, kw_only=True)
class Words(Part):
    """Only what is said of a frame."""


@dataclass(frozen=True, kw_only=True)
class Boxes(Part):
    """Figures in boxes, made of a frame and those that belong to it."""

    made: Callable[[Answers], Iterable[Fact]]
    frames: tuple[str, ...] = ()
    """The other frames."""


@dataclass(frozen=True, kw_only=True)
class Dials:
    """Controls of what stands below them, by the name that the panes know them by."""

    name: str


def has(frame: str) -> Callable[[Answers], bool]:
    """Say whether a frame has rows."""
    return lambda answers: answers[frame].height > 0


def several_ranks(answers: Answers) -> bool:
    """Say whether more than one rank is looked at."""
    return len(answers.source.ranks) > 1


def of_first_rank(what: str) -> Callable[[Answers], str]:
    """Add to a sentence that its picture is of one rank, where there are more."""
    more = " The picture is of the first rank; choose another above."
    return lambda answers: what + (more if several_ranks(answers) else "")
